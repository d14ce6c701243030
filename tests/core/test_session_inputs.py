"""What a session is told: facts that nobody changes, and that any copy equals (P15)."""

import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import get_args

import pytest

from handspan.core import session_inputs as s
from handspan.core.inputs import DeadlinePassed
from handspan.core.parties import ConnectionId, ThreadKey
from handspan_protocol import frames as f
from handspan_protocol.errors import CommandCode, PeerError

KEY = ThreadKey("anonymous", "t1")
HELLO = f.Hello(protocol=1, document_id="d")
CALL = f.ToolCall(
    call_id="c",
    attempt=1,
    thread_id="t1",
    run_id="r",
    depth=0,
    name="t",
    args={},
    raw_args="{}",
    timeout_ms=1,
    revision=1,
)
QUESTION = f.ApprovalRequest(
    call_id="c", thread_id="t1", run_id="r", name="t", args={}, digest="d", expires_ms=1
)

INPUTS = [
    s.Greeted(ConnectionId(1), HELLO),
    s.FrameReceived(ConnectionId(1), f.Pong()),
    s.SocketLost(ConnectionId(1)),
    s.Answered("d 1"),
    s.CallOffered(KEY, CALL, 3),
    s.CallTaken("c", f.ToolCancel(call_id="c", attempt=1, reason="aborted")),
    s.ApprovalAsked(QUESTION),
    s.RunCounted(KEY, 1, 0),
    s.PageExpected(KEY),
    s.ThreadGone(KEY),
    s.Draining(),
    DeadlinePassed(),
]


def test_every_input_of_a_session_is_in_this_table():
    assert {type(one) for one in INPUTS} == set(get_args(s.SessionInput))


@pytest.mark.parametrize("fact", INPUTS, ids=lambda fact: type(fact).__name__)
def test_p15_a_fact_cannot_be_changed_and_equals_what_came_over_a_network(fact):
    assert is_dataclass(fact)
    for field in fields(fact):
        with pytest.raises(FrozenInstanceError):
            setattr(fact, field.name, None)
    assert not hasattr(fact, "__dict__")
    assert pickle.loads(pickle.dumps(fact)) == fact


def test_what_is_not_said_is_the_usual_case():
    greeted = s.Greeted(ConnectionId(1), HELLO)
    assert (greeted.refusal, greeted.denied) == (None, frozenset())
    assert s.FrameReceived(ConnectionId(1), f.Pong()).allowed is True
    assert (s.Answered("d 1").result, s.Answered("d 1").error) == (None, None)


def test_p7_facts_that_say_something_else_are_not_equal():
    refused = PeerError(CommandCode.BUSY, "no")
    assert s.Answered("d 1") != s.Answered("d 2")
    assert s.Answered("d 1", error=refused) != s.Answered("d 1")
    assert s.FrameReceived(ConnectionId(1), f.Pong()) != s.FrameReceived(ConnectionId(2), f.Pong())
    assert s.RunCounted(KEY, 1, 0) != s.RunCounted(KEY, 0, 1)
