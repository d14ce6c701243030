"""What users are handed shares nothing with the history that can change (P11)."""

from typing import Any

import pytest

from handspan.core.effects import CallValue, RunValue
from handspan.shell.values import call_result, messages_of, run_result
from handspan_protocol.content import copy_json
from handspan_protocol.ids import CallId, RunId

HISTORY: list[dict[str, Any]] = [
    {"id": "m1", "role": "user", "content": "hi", "metadata": {"app": {"seen": [1]}}},
    {
        "id": "m2",
        "role": "tool",
        "toolCallId": "c1",
        "content": "1",
        "metadata": {"handspan": {"outcome": "ok"}},
    },
]


def test_messages_are_copies_all_the_way_down() -> None:
    kept = copy_json(HISTORY)
    first, second = messages_of(HISTORY)
    first.metadata["app"]["seen"].append(2)  # type: ignore[index]
    second.metadata["handspan"]["outcome"] = "error"  # type: ignore[index]
    assert kept == HISTORY


@pytest.mark.parametrize("field", ["value", "content"])
def test_a_calls_value_is_a_copy(field: str) -> None:
    given: Any = [{"type": "text", "text": "a"}]
    fields: Any = {field: given}
    value = CallValue(call_id=CallId("c1"), name="t", outcome="ok", **fields)
    call_result(value).value[0]["text"] = "b"
    assert given == [{"type": "text", "text": "a"}]


def test_a_runs_output_is_a_copy() -> None:
    value = RunValue(run_id=RunId("r1"), reason="completed", depth=0, output={"n": [1]})
    run_result(value, HISTORY).output["n"].append(2)
    assert value.output == {"n": [1]}
