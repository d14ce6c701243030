"""The fold vectors are true to the rules (P6, P9) and to AG-UI; others are then held to them."""

import pytest
from ag_ui.core import Event, Message
from pydantic import TypeAdapter
from tests.protocol.fold_model import fold
from tests.protocol.vectors import cases, each

from handspan_protocol.content import equal_json

EVENT = TypeAdapter(Event)
MESSAGES = TypeAdapter(list[Message])
NO_AGUI_EVENT = {"NOBODY_KNOWS"}
FOLDED = [
    "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TOOL_CALL_START",
    "TOOL_CALL_ARGS TOOL_CALL_RESULT REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT",
    "REASONING_ENCRYPTED_VALUE ACTIVITY_SNAPSHOT ACTIVITY_DELTA STATE_SNAPSHOT STATE_DELTA",
    "MESSAGES_SNAPSHOT",
]


@each("fold.jsonl")
def test_p6_messages_and_state_follow_from_the_events(case):
    messages, state = fold(case["events"])
    assert messages == case["messages"]
    assert equal_json(state, case["state"])


@each("fold.jsonl")
def test_the_messages_are_ag_ui_messages(case):
    read = MESSAGES.validate_python(case["messages"])
    written = [message.model_dump(by_alias=True) for message in read]
    assert equal_json(written, case["messages"])


@each("fold.jsonl")
def test_the_events_are_ag_ui_events_but_for_patches_that_are_none(case):
    for event in case["events"]:
        if event["type"] not in NO_AGUI_EVENT and "none changes nothing" not in case["name"]:
            EVENT.validate_python(event)


@pytest.mark.parametrize("kind", " ".join(FOLDED).split())
def test_every_event_that_the_fold_knows_has_a_vector(kind):
    assert any(event["type"] == kind for case in cases("fold.jsonl") for event in case["events"])


@each("fold.jsonl")
def test_p9_a_snapshot_and_the_later_events_equal_all_events(case):
    """A page may join anywhere; MESSAGES_ and STATE_SNAPSHOT stand in for what it missed."""
    for at in range(len(case["events"])):
        messages, state = fold(case["events"][:at])
        joined = [
            {"type": "MESSAGES_SNAPSHOT", "messages": messages},
            {"type": "STATE_SNAPSHOT", "snapshot": state},
        ]
        assert fold([*joined, *case["events"][at:]]) == (case["messages"], case["state"])
