"""Sub-runs: what a step delegates, waits for, and takes with it when it ends."""

import pytest
from tests.core.builders import spec, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.effects import RunValue
from handspan.core.transcript import broken_rules
from handspan_protocol.frames import ContextItem

AGENTS = ("default", "helper")


@pytest.fixture
def asked(make):
    """A world whose run has delegated to `helper`: (world, tab, run, sub)."""
    world = make(agents=AGENTS)
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run("please")
    return world, tab, run, world.delegate(run, "helper", "look it up")


def given(world):
    """(id, reason, code) of every result that waiting code got."""
    return [(x.value.run_id, x.value.reason, x.value.code) for x in world.of(e.GiveResult)]


def owned(world, sub):
    return [event["type"] for event in world.events() if event.get("subagentRunId") == sub]


def test_a_sub_run_is_announced_and_told_its_message(asked):
    world, _, run, sub = asked
    assert owned(world, sub) == [
        "SUBAGENT_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_STARTED",
    ]
    started = world.events("t1", "SUBAGENT_STARTED")[0]
    assert started == {"type": "SUBAGENT_STARTED", "name": "helper", "subagentRunId": sub}
    step = world.steps(sub)[0]
    assert (step.depth, step.agent, step.parent) == (1, "helper", run)
    assert [(m["role"], m["content"]) for m in step.messages] == [("user", "look it up")]


def test_its_result_goes_to_the_waiting_step_and_its_words_to_nobody_elses_model(asked):
    world, tab, run, sub = asked
    world.text(sub, "It is ")
    world.call(sub, "t")
    world.end(sub)
    tab.result(tab.call("t"), 42)
    world.text(sub, "42.")
    world.end(sub, output={"n": 42}, has_output=True)
    result = world.of(e.GiveResult)[0]
    assert (result.ticket, result.value.reason, result.value.text) == (
        sub,
        "completed",
        "It is 42.",
    )
    assert (result.value.depth, result.value.output) == (2, {"n": 42})
    assert [m["role"] for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert all(m["subagentRunId"] == sub for m in result.messages)
    finished = world.events("t1", "SUBAGENT_FINISHED")[0]
    assert finished["result"] == {"reason": "completed", "depth": 2, "output": {"n": 42}}
    world.text(run, "Done.")
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"))
    assert [m["role"] for m in world.steps(run)[1].messages] == ["user", "assistant", "tool"]
    world.end(run)
    assert world.reason() == "completed"
    assert world.of(e.RunOver)[0].value.text == "Done."
    assert broken_rules(world.messages()) == []


def test_p5_an_aborted_sub_run_takes_its_subtree_and_its_caller_goes_on(asked):
    world, tab, run, sub = asked
    below = world.delegate(sub, "helper", "deeper")
    world.call(below, "t")
    world.end(below)
    call = tab.call("t")
    assert tab.abort(sub) == {"aborted": True}
    assert given(world) == [(below, "aborted", None), (sub, "aborted", None)]
    errors = world.events("t1", "SUBAGENT_ERROR")
    assert [(x["subagentRunId"], x["code"]) for x in errors] == [
        (below, "aborted"),
        (sub, "aborted"),
    ]
    assert world.events("t1", "SUBAGENT_STARTED")[1]["parentSubagentRunId"] == sub
    assert tab.result(call) == "aborted"
    assert world.thread("t1").run.id == run
    world.end(run)
    assert world.reason() == "completed"
    assert tab.abort(sub) == {"aborted": False}


def test_p5_the_abort_of_the_run_takes_every_sub_run_innermost_first(asked):
    world, tab, run, sub = asked
    below = world.delegate(sub, "helper")
    world.text(run, "half")
    world.text(below, "a word")
    assert tab.abort(run) == {"aborted": True}
    assert given(world) == [(below, "aborted", None), (sub, "aborted", None)]
    ends = ("TEXT_MESSAGE_END", "STEP_FINISHED", "SUBAGENT_ERROR", "RUN_FINISHED")
    told = [(x["type"], x.get("subagentRunId")) for x in world.events("t1", *ends)]
    assert told[-8:] == [
        ("TEXT_MESSAGE_END", None),
        ("TEXT_MESSAGE_END", below),
        ("STEP_FINISHED", below),
        ("SUBAGENT_ERROR", below),
        ("STEP_FINISHED", sub),
        ("SUBAGENT_ERROR", sub),
        ("STEP_FINISHED", None),
        ("RUN_FINISHED", None),
    ]
    assert {x.run_id for x in world.of(e.StopStep)} == {run, sub, below}


def test_a_failed_sub_run_is_a_result_and_its_caller_goes_on(asked):
    world, _, run, sub = asked
    world.fail(sub, "no luck")
    assert given(world) == [(sub, "failed", "agent_error")]
    assert world.events("t1", "SUBAGENT_ERROR")[0]["code"] == "agent_error"
    world.end(run)
    assert world.reason() == "completed"


def test_p12_sub_runs_are_counted_and_no_deeper_than_the_run_may_be(make):
    world = make(subruns_per_run=2, max_depth=1, agents=AGENTS)
    run = world.start()
    subs = [world.delegate(run, "helper", sub=f"s{n}") for n in range(3)]
    below = world.delegate(subs[0], "helper", sub="below")
    nobody = world.delegate(run, "nobody", sub="nobody")
    assert given(world) == [
        (subs[2], "failed", "limit"),
        (below, "failed", "limit"),
        (nobody, "failed", "unknown_agent"),
    ]
    assert [x["subagentRunId"] for x in world.events("t1", "SUBAGENT_STARTED")] == subs[:2]


def test_a_step_that_ended_waits_for_its_sub_runs(asked):
    """Count decides: no call and no sub-run may be open."""
    world, _, run, sub = asked
    world.end(run)
    assert world.last_run() is None
    world.end(sub)
    assert world.reason() == "completed"


def test_a_server_tool_may_delegate_while_its_call_is_open(make):
    world = make(agents=AGENTS, server=[spec("srv")])
    run = world.start()
    world.call(run, "srv")
    world.end(run)
    call = world.of(e.StartTool)[0]
    sub = world.delegate(run, "helper")
    world.returned(call.call_id, "done")
    assert world.depth(run) == 0
    world.end(sub)
    assert world.depth(run) == 1


@pytest.mark.parametrize("when", ["over", "another depth", "another run"])
def test_p5_a_step_that_is_over_starts_no_sub_run_and_who_waits_is_told(make, when):
    world = make(agents=AGENTS)
    run = world.start()
    if when == "over":
        world.abort()
    said = i.DelegateSaid(
        run_id="nobody" if when == "another run" else run,
        depth=1 if when == "another depth" else 0,
        sub_id="sub",
        agent="helper",
        text="do it",
        ticket="k",
    )
    value = RunValue(run_id="sub", reason="aborted", depth=said.depth)
    assert world.tell(world.key("t1"), said) == [e.GiveResult("k", value, ())]
    assert world.events("t1", "SUBAGENT_STARTED") == []


REFUSED = [
    ("unknown_agent", "nobody", {}, "there is no agent 'nobody'"),
    ("limit", "helper", {"subruns_per_run": 1}, "over 1 sub-runs in one run"),
    ("limit", "helper", {"max_depth": 0}, "a sub-run would be deeper than 0"),
]


@pytest.mark.parametrize(("code", "agent", "policy", "message"), REFUSED)
def test_p12_a_sub_run_that_may_not_be_is_a_failed_one(make, code, agent, policy, message):
    world = make(agents=AGENTS, **policy)
    run = world.start()
    if "subruns_per_run" in policy:
        world.end(world.delegate(run, "helper", sub="first"))
    world.delegate(run, agent, sub="sub")
    value = RunValue(run_id="sub", reason="failed", depth=0, code=code, message=message)
    assert world.of(e.GiveResult)[-1] == e.GiveResult("sub", value, ())
    world.end(run)
    assert world.reason() == "completed"


def test_a_sub_run_knows_what_its_run_was_given(make):
    world = make(agents=AGENTS)
    tab = world.tab("a")
    run = tab.run(context=(ContextItem(name="cart", value=1),), forwarded_props={"n": 1})
    world.delegate(run, "helper", sub="sub")
    above, below = world.steps()
    assert (below.context, below.forwarded_props) == (above.context, {"n": 1})
    assert (below.principal, below.results) == (above.principal, ())
    world.abort()


def test_p6_what_was_said_before_and_after_a_sub_run_are_two_messages(asked):
    world, _, run, _ = asked
    world.text(run, "Before. ")
    sub = world.delegate(run, "helper", sub="another")
    world.end(sub)
    world.text(run, "After.")
    world.end(run)
    own = [m["content"] for m in world.messages() if m["role"] == "assistant"]
    assert own == ["Before. ", "After."]


def test_p12_calls_below_a_server_tool_need_no_place_among_the_servers_tools(make):
    world = make(agents=AGENTS, server=[spec("srv"), spec("low")], server_tools_at_once=1)
    run = world.start()
    world.call(run, "srv")
    world.end(run)
    outer = world.of(e.StartTool)[0]
    sub = world.delegate(run, "helper", by_tool=True)
    world.call(sub, "low")
    world.end(sub)
    assert [x.name for x in world.of(e.StartTool)] == ["srv", "low"]
    world.returned(world.of(e.StartTool)[1].call_id)
    world.end(sub)
    world.returned(outer.call_id)
    assert world.depth(run) == 1


def test_a_thread_that_leaves_memory_stops_suggesting(make):
    world = make(hooks=["suggest"])
    run = world.start()
    world.end(run)
    world.tell(world.key("t1"), i.Evicted())
    assert [x.run_id for x in world.of(e.StopSuggesting)] == [run]
