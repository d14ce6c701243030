"""What a handler gave, and when two answers are the same (P7)."""

from dataclasses import FrozenInstanceError

import pytest

from handspan.core.answer import Answer, same_answer
from handspan_protocol.errors import CallCode

PARTS = ({"type": "text", "text": "a"},)
OTHER_PARTS = ({"type": "text", "text": "b"},)

EQUAL = [
    (Answer(value={"a": 1, "b": 2.0}), Answer(value={"b": 2, "a": 1.0}), True),
    (Answer(value=None), Answer(value=0), False),
    (Answer(value=0), Answer(value=False), False),
    (Answer(value=None), Answer(content=()), False),
    (Answer(content=PARTS), Answer(content=PARTS), True),
    (Answer(content=PARTS), Answer(content=()), False),
    (Answer(content=PARTS), Answer(content=OTHER_PARTS), False),
    (Answer(content=()), Answer(content=()), True),
    (Answer(content=PARTS), Answer(value=list(PARTS)), False),
    (Answer(error_message="a"), Answer(error_message="a"), True),
    (Answer(error_message="a"), Answer(error_message="b"), False),
    (Answer(error_message="a", error_code="x"), Answer(error_message="a", error_code="y"), False),
    (Answer(error_message="a"), Answer(error_message="a", value=1), False),
    (Answer(error_message=""), Answer(), False),
]


@pytest.mark.parametrize(("one", "other", "equal"), EQUAL)
def test_p7_answers_are_the_same_when_they_are_equal_as_json(one, other, equal):
    assert same_answer(one, other) is same_answer(other, one) is equal


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (Answer(), False),
        (Answer(value=False), False),
        (Answer(content=()), False),
        (Answer(error_message=""), True),
        (Answer(error_code="x"), False),
    ],
)
def test_an_error_that_is_there_is_a_failure_even_without_words(answer, failed):
    assert answer.failed is failed


def test_an_answer_is_nobodys_to_change():
    answer = Answer(error_message="bad", code=CallCode.INVALID_RESULT)
    with pytest.raises(FrozenInstanceError):
        answer.value = 1
