"""A call that was carried out inside a step, as the model is shown it."""

from typing import Any

import pytest

from handspan import CallResult, Failure
from handspan.model.history import Answer, Media, Text
from handspan.model.results import answer_of

Json = Any
IMAGE = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}


@pytest.mark.parametrize(
    ("value", "parts"),
    [("so", (Text("so"),)), ({"a": 1}, (Text('{"a":1}'),)), (None, (Text("null"),)), ("", ())],
)
def test_a_value_is_itself_or_its_json(value: Json, parts: Json) -> None:
    result = CallResult(outcome="ok", value=value, name="t", call_id="c")
    assert answer_of(result) == Answer("c", "t", parts)


def test_parts_stay_parts_where_they_are_some_and_a_list_that_looks_so_is_json() -> None:
    one = CallResult(outcome="ok", value=[IMAGE], is_content=True)
    assert answer_of(one).parts == (Media("image", "image/png", "aGk="),)
    other = CallResult(outcome="ok", value=[IMAGE])
    assert isinstance(answer_of(other).parts[0], Text)


def test_a_failure_is_told_in_the_words_of_the_history() -> None:
    failed = CallResult(
        outcome="error", error=Failure("timeout", "too slow"), name="t", call_id="c"
    )
    told = '{"error":{"code":"timeout","message":"too slow"}}'
    assert answer_of(failed) == Answer("c", "t", (Text(told),), failed=True)
