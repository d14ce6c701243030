"""A run and its sub-runs share a stream: what each calls its things is its own (P6).

An AG-UI client tells things apart by their ids, and refuses one that two lanes use.
"""

from typing import Any

import pytest
from tests.core.builders import World, spec, tool
from tests.core.verifier import Stream

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.transcript import broken_rules
from handspan_protocol import frames as f

AGENTS = ("default", "helper")
PLAN: dict[str, Any] = {"activityType": "plan"}
SPAN = ("REASONING_START", {"messageId": "x"})
SPAN_ENDS = ("REASONING_END", {"messageId": "x"})
ACTIVITY = ("ACTIVITY_SNAPSHOT", {"messageId": "x", "content": {"n": 1}, **PLAN})
PATCH = [{"op": "add", "path": "/m", "value": 2}]
CHANGE = ("ACTIVITY_DELTA", {"messageId": "x", "patch": PATCH, **PLAN})
CALL = ("TOOL_CALL_CHUNK", {"toolCallId": "x", "toolCallName": "t", "delta": "{}"})
TEXT = ("TEXT_MESSAGE_CHUNK", {"messageId": "x", "delta": "word"})
THOUGHT = ("REASONING_MESSAGE_CHUNK", {"messageId": "x", "delta": "hm"})
EMPTY = ("TEXT_MESSAGE_START", {"messageId": "x"})
EMPTY_ENDS = ("TEXT_MESSAGE_END", {"messageId": "x"})
OF_MESSAGE = ("REASONING_ENCRYPTED_VALUE", {"subtype": "message", "entityId": "x"})
OF_CALL = ("REASONING_ENCRYPTED_VALUE", {"subtype": "tool-call", "entityId": "x"})


def say(world: Any, run: str, *said: Any) -> None:
    for kind, fields in said:
        more = {"encryptedValue": "v"} if kind == "REASONING_ENCRYPTED_VALUE" else {}
        if world.thread("t1").runs.live.get(run) is not None:
            world.event(run, kind, **fields, **more)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param([TEXT], [TEXT], id="texts"),
        pytest.param([THOUGHT], [THOUGHT], id="thoughts"),
        pytest.param([CALL], [CALL], id="calls"),
        pytest.param([SPAN], [SPAN], id="spans at once"),
        pytest.param([SPAN, SPAN_ENDS], [SPAN], id="spans"),
        pytest.param([SPAN, SPAN_ENDS], [THOUGHT], id="a span and a thought"),
        pytest.param([EMPTY, EMPTY_ENDS], [TEXT], id="an empty text"),
        pytest.param([ACTIVITY], [ACTIVITY], id="activities"),
        pytest.param([ACTIVITY], [CHANGE], id="an activity's change"),
        pytest.param([TEXT], [OF_MESSAGE], id="a message's value"),
        pytest.param([CALL], [OF_CALL], id="a call's value"),
    ],
)
@pytest.mark.parametrize("below_first", [False, True])
def test_p6_one_name_for_two_things_of_two_lanes(first: Any, then: Any, below_first: bool) -> None:
    world = World(agents=AGENTS)
    run = world.start()
    sub = world.delegate(run, "helper")
    one, two = (sub, run) if below_first else (run, sub)
    say(world, one, *first)
    say(world, two, *then)
    say(world, one, *first)
    for each in (sub, run):
        if world.thread("t1").runs.live.get(each) is not None:
            world.end(each)
    stream = Stream()
    for event in world.events():
        stream.take(event)


def test_p1_an_activity_with_the_name_of_an_empty_text_carries_no_calls() -> None:
    """A text that ended without a word is no message: its name is free, and another may take it."""
    world = World(agents=AGENTS)
    for number in range(2):
        run = world.start()
        say(world, run, EMPTY, EMPTY_ENDS, ACTIVITY)
        if number == 0:
            world.call(run, "nobody_has_it")
        world.end(run)
        world.abort()
    assert broken_rules(world.messages()) == []
    assert all("toolCalls" not in m for m in world.messages() if m["role"] == "activity")


def test_a_run_may_not_have_the_name_that_a_sub_run_had() -> None:
    """protocol.md 3: used before in the thread: `duplicate_id`."""
    world = World(agents=AGENTS)
    tab = world.tab("a")
    run = tab.run("hi")
    sub = world.delegate(run, "helper")
    while_it_runs = tab.run("hi", run_id=sub, if_busy="queue")
    assert tab.abort(run) == {"aborted": True}
    afterwards = tab.run("hi", run_id=sub)
    assert (while_it_runs, afterwards) == ("duplicate_id", "duplicate_id")


def test_a_call_whose_result_waits_for_its_hook_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its step never settles. P2, P12."""
    monkeypatch.setattr("handspan.core.desk.SETTLED_KEPT", 2)
    world = World(server=[spec("srv")], hooks=["after_call"])
    run = world.start()
    for n in range(4):
        world.call(run, "srv", ticket=f"ticket {n}")
    world.end(run)
    for order in world.of(e.StartTool):
        world.returned(order.call_id, 1)
    asked = [order.value.call_id for order in world.of(e.ReviseResult)]
    for call_id in reversed(asked):
        world.tell(world.key("t1"), i.ResultRevised(call_id, None))
    assert world.reason() == "completed"


def test_the_names_of_calls_below_are_answered_like_all_others(make: Any) -> None:
    world = make(agents=AGENTS)
    tab = world.tab("a", tools=[tool("t")])
    run = world.start()
    sub = world.delegate(run, "helper")
    for one in (run, sub):
        world.call(one, "t", wish="x")
        world.end(one)
    names = [call.call_id for call in tab.calls]
    assert len(names) == 1
    assert names[0] == "x"
    assert tab.result(tab.call("t"), 1) == "applied"
    assert tab.calls[-1].call_id != "x"
    assert tab.ask(f.ToolStarted, call_id="x", attempt=1) == {"status": "late"}
    assert tab.result(tab.calls[-1], 2) == "applied"
    world.end(sub)
    assert world.outcomes() == ["ok", "ok"]
