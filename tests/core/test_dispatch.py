"""Whose turn it is, and the order that goes out: the whole list of effects."""

import pytest
from tests.core.builders import page, spec
from tests.core.scenarios import KEY, a_call, a_space, logged

from handspan.core import effects as e
from handspan.core import session_inputs as s
from handspan.core.call import CallState
from handspan.core.dispatch import Dispatch
from handspan_protocol.frames import ToolCall

S = CallState
MANY = 3
"""Server tools at once in these tests."""


def waiting(call_id, holder="a", *, state=S.QUEUED, tool=None, **given):
    """A queued call; its tool's fields are `tool`, its holder a page, or None for the server."""
    made = spec("t", **(tool or {}))
    return a_call(call_id, state=state, holder=holder, spec=made, **given)


def pumped(*calls, attached=("a", "b"), away=(), **policy):
    """The ids of the calls that were dispatched, in order."""
    space = a_space(server_tools_at_once=MANY, **policy)
    for name in (*attached, *away):
        space.pages[name] = page(name, attached=name in attached)
    before = {call.id: call.attempt for call in calls}
    Dispatch(space).pump(list(calls))
    facts = [x.facts[0] for x in space.effects if isinstance(x, e.Record)]
    assert all(fact.kind == "call_dispatched" for fact in facts)
    sent = [fact.data["callId"] for fact in facts]
    assert sent == [call.id for call in calls if call.attempt > before[call.id]]
    return sent


LOOK, SIDE, AGAIN = {"readOnly": True}, {"parallel": True}, {"idempotent": True}

TURNS = [
    ("the only one", [waiting("c1")], {}, ["c1"]),
    ("one after another", [waiting("c1"), waiting("c2")], {}, ["c1"]),
    ("on two pages", [waiting("c1"), waiting("c2", "b")], {}, ["c1", "c2"]),
    ("behind one at work", [waiting("c1", state=S.STARTED), waiting("c2")], {}, []),
    ("behind one just sent", [waiting("c1", state=S.DISPATCHED), waiting("c2")], {}, []),
    ("behind one that a human looks at", [waiting("c1", state=S.WAITING_APPROVAL), waiting("c2")],
     {}, []),
    ("behind one that a hook looks at", [waiting("c1", state=S.PROPOSED), waiting("c2")], {}, []),
    ("behind one that is settled", [waiting("c1", state=S.SETTLED), waiting("c2")], {}, ["c2"]),
    ("readOnly ones overlap", [waiting("c1", tool=LOOK), waiting("c2", tool=LOOK)], {},
     ["c1", "c2"]),
    ("parallel ones overlap", [waiting("c1", tool=SIDE), waiting("c2", tool=SIDE)], {},
     ["c1", "c2"]),
    ("idempotent ones do not", [waiting("c1", tool=AGAIN), waiting("c2", tool=AGAIN)], {}, ["c1"]),
    ("one that overlaps passes one that does not", [waiting("c1"), waiting("c2", tool=LOOK)], {},
     ["c1", "c2"]),
    ("one that does not overlap passes one that does", [waiting("c1", tool=LOOK), waiting("c2")],
     {}, ["c1", "c2"]),
    ("where all may overlap", [waiting("c1"), waiting("c2")], {"tool_execution": "parallel"},
     ["c1", "c2"]),
    ("a page without a socket", [waiting("c1", "away"), waiting("c2")], {"away": ["away"]},
     ["c2"]),
    ("a page that is not there", [waiting("c1", "nobody"), waiting("c2")], {}, ["c2"]),
    ("one that has no home", [waiting("c1", None, homeless_until=9.0), waiting("c2")], {}, ["c2"]),
    ("one that is not resolved", [a_call("c1", state=S.QUEUED), waiting("c2")], {}, ["c2"]),
    ("one that is not queued", [waiting("c1", state=S.PROPOSED, tool=LOOK)], {}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "more", "sent"), [c[1:] for c in TURNS], ids=[c[0] for c in TURNS]
)
def test_the_turns_of_calls_of_pages(calls, more, sent):
    """behaviour.md 3, "Order"."""
    assert pumped(*calls, **more) == sent


def server(*names, **given):
    return [waiting(name, None, **given) for name in names]


SERVER = [
    ("as many as may", server("c1", "c2", "c3", "c4"), ["c1", "c2", "c3"]),
    ("beside those at work", [*server("w1", "w2", state=S.STARTED), *server("c1", "c2")], ["c1"]),
    ("those that tools wait for need no place",
     [*server("w1", "w2", "w3", state=S.STARTED), *server("c1", by_tool=True), *server("c2")],
     ["c1"]),
    ("nor take one",
     [*server("w1", "w2", "w3", state=S.STARTED, by_tool=True), *server("c1", "c2", "c3", "c4")],
     ["c1", "c2", "c3"]),
    ("nor while they are sent",
     [*server("c1", "c2", by_tool=True), *server("c3", "c4", "c5", "c6")],
     ["c1", "c2", "c3", "c4", "c5"]),
    ("calls of pages take none", [waiting("w1", state=S.STARTED), *server("c1", "c2", "c3")],
     ["c1", "c2", "c3"]),
    ("they hold up no page", [*server("c1"), waiting("c2")], ["c1", "c2"]),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "sent"), [c[1:] for c in SERVER], ids=[c[0] for c in SERVER])
def test_p12_server_tools_overlap_up_to_their_number(calls, sent):
    """C040; and ten that wait for tools of the server do not wait for each other."""
    assert pumped(*calls) == sent


# ---- what goes out ------------------------------------------------------------------------------


def dispatched_event(space, name, **owner):
    value = {"callId": name, "state": "dispatched"}
    event = {"type": "CUSTOM", "name": "handspan.call", "value": value, **owner}
    assert logged(space) == [event]


def test_p16_an_order_to_a_page_is_recorded_told_and_then_sent():
    space = a_space()
    space.now = 100.0
    space.pages["a"] = page("a", revision=4)
    call = waiting("c1", args={"x": 1}, raw='{"x": 1}', tool={"timeoutMs": 1_500})
    call.depth = 2
    Dispatch(space).pump([call])
    dispatched_event(space, "c1")
    order = ToolCall(
        call_id="c1",
        attempt=1,
        thread_id="t1",
        run_id="r1",
        depth=2,
        name="t",
        args={"x": 1},
        raw_args='{"x": 1}',
        tool_name=None,
        timeout_ms=1_500,
        revision=4,
    )
    assert space.effects == [
        e.Record((e.Fact(KEY, "call_dispatched", {"callId": "c1", "attempt": 1}),)),
        e.TellSession("a", s.CallOffered(KEY, order, space.log.head)),
    ]
    assert (call.state, call.deadline, call.held) == (S.DISPATCHED, 101.5, {"a": 1})


def test_a_server_tool_is_started_at_once_and_needs_no_leave():
    space = a_space()
    call = waiting("c1", None, args={"x": 1}, owner="sub")
    Dispatch(space).pump([call])
    dispatched_event(space, "c1", subagentRunId="sub")
    assert space.effects == [
        e.Record((e.Fact(KEY, "call_dispatched", {"callId": "c1", "attempt": 1}),)),
        e.StartTool("c1", "sub", 0, "t", {"x": 1}),
    ]
    assert (call.state, call.deadline, call.held) == (S.STARTED, 60.0, {})


def test_a_call_that_is_offered_again_is_the_same_order_and_nothing_is_recorded():
    space = a_space()
    space.pages["a"] = page("a")
    call = waiting("c1", state=S.DISPATCHED, attempt=1)
    Dispatch(space).offer(call)
    (told,) = space.effects
    assert (told.message.frame.call_id, told.message.frame.attempt, call.attempt) == ("c1", 1, 1)
    assert call.deadline is None


@pytest.mark.parametrize(("holder", "made"), [(None, spec("t")), ("a", None)])
def test_only_a_call_that_somebody_holds_can_be_offered(holder, made):
    space = a_space()
    space.pages["a"] = page("a")
    with pytest.raises(AssertionError):
        Dispatch(space).offer(a_call(holder=holder, spec=made))


WILD = [
    ("a name that nobody has", "*", "search", {"toolName": "search", "args": {"q": 1}}, "search"),
    ("its own name", "*", "*", {"q": 1}, "*"),
    ("a name that somebody has", "t", "t", {"q": 1}, None),
]


@pytest.mark.parametrize(
    ("tool", "name", "args", "tool_name"), [c[1:] for c in WILD], ids=[c[0] for c in WILD]
)
def test_p13_a_wildcard_is_given_the_name_and_the_arguments(tool, name, args, tool_name):
    """C117."""
    for holder in ("a", None):
        space = a_space()
        space.pages["a"] = page("a")
        call = a_call(name=name, state=S.QUEUED, holder=holder, spec=spec(tool), args={"q": 1})
        Dispatch(space).pump([call])
        order = space.effects[-1]
        if holder is None:
            assert (order.name, order.args) == (tool, args)
        else:
            frame = order.message.frame
            assert (frame.name, frame.args, frame.tool_name) == (tool, args, tool_name)
