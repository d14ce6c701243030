"""The rules that every acceptance test ends with can tell a broken stream from a good one."""

from typing import Any

import pytest
from tests.acceptance.rules import broken_stream

START = {"type": "RUN_STARTED", "runId": "r"}
STEP = {"type": "STEP_STARTED", "stepName": "step-0"}
STEP_END = {"type": "STEP_FINISHED", "stepName": "step-0"}
END = {"type": "RUN_FINISHED"}
TEXT = [{"type": f"TEXT_MESSAGE_{kind}", "messageId": "m"} for kind in ("START", "CONTENT", "END")]
CALL = [{"type": f"TOOL_CALL_{kind}", "toolCallId": "c"} for kind in ("START", "ARGS", "END")]
RESULT = {"type": "TOOL_CALL_RESULT", "toolCallId": "c"}
GOOD = [START, STEP, *TEXT, *CALL, RESULT, STEP_END, END]


def test_a_good_stream_breaks_nothing() -> None:
    again = {"type": "RUN_STARTED", "runId": "r2"}
    assert broken_stream([*GOOD, {"type": "CUSTOM"}, again, END]) == []


@pytest.mark.parametrize("missing", [0, 1, 2, 4, 5, 7, 8, 9])
def test_a_stream_that_lacks_an_event_is_found(missing: int) -> None:
    assert broken_stream(GOOD[:missing] + GOOD[missing + 1 :])


@pytest.mark.parametrize(
    "events",
    [
        [*GOOD, TEXT[0]],
        [START, START],
        [*GOOD, START],
        [START, STEP, *CALL, STEP_END, RESULT, END],
        [START, STEP, *CALL, RESULT, RESULT, STEP_END, END],
        [START, STEP, TEXT[0], STEP_END, TEXT[2], TEXT[1], END],
    ],
)
def test_a_stream_in_the_wrong_order_is_found(events: list[Any]) -> None:
    assert broken_stream(events)
