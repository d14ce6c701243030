"""Abort at every point: one turn, one terminal event, valid history, nothing started after (P5)."""

import pytest
from tests.core.builders import spec, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.transcript import broken_rules
from handspan_protocol import frames as f

TOOLS = [tool("t"), tool("u"), tool("look", readOnly=True), tool("ask", approval="always")]


def nothing(world, tab, run):
    """The agent has not said a word."""


def mid_text(world, tab, run):
    world.text(run, "half a sen")


def mid_thought(world, tab, run):
    world.think(run, "hm")


def mid_args(world, tab, run):
    world.text(run, "let me")
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    world.event(run, "TOOL_CALL_ARGS", toolCallId="c1", delta='{"x":')


def mid_args_of_two(world, tab, run):
    mid_args(world, tab, run)
    world.event(run, "TOOL_CALL_START", toolCallId="c2", toolCallName="u")


def after_end_before_dispatch(world, tab, run):
    world.call(run, "t")


def dispatched(world, tab, run):
    world.call(run, "t")
    world.end(run)


def dispatched_look(world, tab, run):
    world.call(run, "look")
    world.end(run)


def started(world, tab, run):
    dispatched(world, tab, run)
    assert tab.started(tab.call("t")) == "go"


def queued_behind_another(world, tab, run):
    world.call(run, "t")
    world.call(run, "u")
    world.end(run)


def between_two_results(world, tab, run):
    world.call(run, "look")
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("look"), "seen")


def second_result_is_in(world, tab, run):
    world.call(run, "t")
    world.call(run, "look")
    world.end(run)
    tab.result(tab.call("look"), "seen")


def waiting_for_a_human(world, tab, run):
    world.call(run, "ask")
    world.end(run)


def inside_a_step(world, tab, run):
    world.call(run, "t", ticket="inside")
    world.text(run, "meanwhile")


def server_tool(world, tab, run):
    world.call(run, "srv")
    world.end(run)


def page_is_away(world, tab, run):
    dispatched(world, tab, run)
    tab.drop()


def page_is_gone(world, tab, run):
    dispatched(world, tab, run)
    tab.drop()
    world.wait(29)


POINTS = [
    (nothing, []),
    (mid_text, []),
    (mid_thought, []),
    (mid_args, ["aborted_before_start"]),
    (mid_args_of_two, ["aborted_before_start"] * 2),
    (after_end_before_dispatch, ["aborted_before_start"]),
    (dispatched, ["aborted_before_start"]),
    (dispatched_look, ["aborted"]),
    (started, ["aborted"]),
    (queued_behind_another, ["aborted_before_start"] * 2),
    (between_two_results, ["ok", "aborted_before_start"]),
    (second_result_is_in, ["aborted_before_start", "ok"]),
    (waiting_for_a_human, ["aborted_before_start"]),
    (inside_a_step, ["aborted_before_start"]),
    (server_tool, ["aborted"]),
    (page_is_away, ["aborted_before_start"]),
    (page_is_gone, ["aborted_before_start"]),
]


@pytest.mark.parametrize(("point", "outcomes"), POINTS, ids=[p.__name__ for p, _ in POINTS])
def test_p5_an_abort_ends_everything_in_one_turn(make, point, outcomes):
    """C049, C063, C065, C066, C067: the page never says a word to it."""
    world = make(server=[spec("srv")])
    tab, other = world.tab("a", tools=TOOLS), world.tab("b")
    run = tab.run("please")
    point(world, tab, run)
    effects_before = len(world.effects)
    assert other.abort(run) == {"aborted": True}
    assert world.kinds()[-1] == "RUN_FINISHED"
    assert world.events("t1", "RUN_FINISHED")[0]["outcome"] == {"type": "cancelled"}
    assert (world.reason(), world.outcomes()) == ("aborted", outcomes)
    assert broken_rules(world.messages()) == []
    later = [x for _, x in world.effects[effects_before:]]
    assert not [x for x in later if isinstance(x, e.StartStep | e.StartTool)]
    assert other.abort(run) == {"aborted": False}
    assert other.abort(thread="t1") == {"aborted": False}


@pytest.mark.parametrize("point", [p for p, _ in POINTS], ids=[p.__name__ for p, _ in POINTS])
def test_p5_the_next_run_after_an_abort_works_and_can_be_stopped(make, point):
    """C079: a fresh controller each."""
    world = make(server=[spec("srv")])
    tab = world.tab("a", tools=TOOLS)
    run = tab.run("please")
    point(world, tab, run)
    world.abort()
    if tab.connection is None:
        tab.back()
    again = tab.run("hi")
    assert broken_rules(world.steps(again)[0].messages) == []
    world.call(again, "t")
    world.end(again)
    assert tab.calls[-1].run_id == again
    tab.abort(again)
    last = tab.run("bye")
    world.end(last)
    assert world.reason() == "completed"


def test_p5_what_a_page_says_after_the_abort_changes_nothing(make):
    world = make()
    tab = world.tab(tools=TOOLS)
    run = tab.run()
    world.call(run, "t")
    world.call(run, "look")
    world.end(run)
    first, second = tab.call("t"), tab.call("look")
    tab.started(first)
    tab.abort(run)
    head = world.thread("t1").head
    assert tab.cancels == [(first.call_id, "aborted"), (second.call_id, "aborted")]
    for call in (first, second):
        assert tab.started(call) == "aborted"
        assert tab.result(call, 1) == "aborted"
        tab.progress(call, 1)
    assert world.thread("t1").head == head


def test_p5_what_the_agent_says_after_the_abort_is_not_heard(make):
    world = make()
    run = world.start()
    world.abort()
    assert world.of(e.StopStep) == [e.StopStep(run, 0)]
    head = world.thread("t1").head
    for late in (
        i.TextSaid(run, 0, ("late",)),
        i.ReasoningSaid(run, 0, "late"),
        i.EventSaid(run, 0, {"type": "RUN_FINISHED"}),
        i.CallSaid(run_id=run, depth=0, name="t", raw=""),
        i.HandoffSaid(run, 0, "default"),
        i.StateSaid(run, 0, None, {"late": True}),
        i.StepEnded(run, 0, None),
        i.StepFailed(run, 0, "agent_error", "late"),
    ):
        assert world.tell(world.key("t1"), late) == []
    assert world.thread("t1").head == head


def test_p5_server_tools_are_stopped_and_what_they_return_late_is_nothing(make):
    world = make(server=[spec("srv")])
    run = world.start()
    world.call(run, "srv")
    world.end(run)
    (begun,) = world.of(e.StartTool)
    world.abort()
    assert world.of(e.StopTool) == [e.StopTool(begun.call_id)]
    assert world.returned(begun.call_id, 1) == []


def test_p5_an_abort_deep_in_the_recursion_stops_it_whole(make):
    """C079."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for n in range(2):
        world.call(run, "t", {"n": n})
        world.end(run)
        if n == 0:
            tab.result(tab.calls[-1])
    tab.abort(run)
    assert len(world.steps(run)) == 2
    assert world.last_run()["result"] == {"reason": "aborted", "depth": 1}


def test_p5_an_abort_that_comes_after_the_last_result_finds_the_next_step(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    assert tab.result(tab.call("t"), 1) == "applied"
    assert tab.abort(run) == {"aborted": True}
    assert world.outcomes() == ["ok"]
    assert [ev["stepName"] for ev in world.events("t1", "STEP_FINISHED")] == ["step-0", "step-1"]


def test_p5_other_runs_are_untouched(make):
    """C095: stop is of one run, not of a socket."""
    world = make()
    tab = world.tab(threads=["t1", "t2"], tools=[tool("look", readOnly=True)])
    one, two = tab.run(thread="t1"), tab.run(thread="t2")
    for run in (one, two):
        world.call(run, "look")
        world.end(run)
    tab.abort(thread="t1")
    assert world.reason("t1") == "aborted"
    tab.result(tab.calls[1], 2)
    world.end(two)
    assert world.reason("t2") == "completed"


def test_a_disconnect_is_no_abort_and_a_stop_works_after_a_reconnect(make):
    """C075."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.drop()
    world.wait(10)
    assert world.thread("t1").run is not None
    tab.back()
    assert tab.abort(run) == {"aborted": True}


@pytest.mark.parametrize(("on_disconnect", "reason"), [("grace", "no_client"), ("abort", None)])
def test_a_run_without_any_page_is_aborted_only_if_the_policy_says_so(make, on_disconnect, reason):
    world = make(on_disconnect=on_disconnect)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    tab.drop()
    world.wait(29)
    assert world.thread("t1").run is not None
    world.wait(2)
    if reason is None:
        assert world.reason() == "aborted"
        return
    world.call(run, "t")
    world.end(run)
    assert world.outcomes() == ["unknown_tool"]
    world.end(run)


def test_a_page_that_is_only_away_keeps_the_run_from_being_aborted(make):
    """behaviour.md 4: after the grace, when no page is on the thread; the second's is not over."""
    world = make(on_disconnect="abort")
    first, second = world.tab("a"), world.tab("b")
    first.run()
    first.drop()
    world.wait(25)
    second.drop()
    world.wait(10)
    assert world.thread("t1").run is not None
    world.wait(20)
    assert world.reason() == "aborted"


def test_an_aborted_button_is_answered(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    command = tab.invoke("t", follow_up=True)
    tab.abort(thread="t1")
    assert tab.answer(command)["outcome"] == "aborted"
    assert world.steps() == []


def test_a_deleted_thread_ends_everything_of_it(make):
    world = make()
    tab, other = world.tab("a", tools=[tool("t")]), world.tab("b")
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    command = other.invoke("t", if_busy="queue")
    assert other.ask(f.ThreadDelete, thread_id="t1") == {}
    assert world.key("t1") not in world.threads
    assert other.answer(command) == "denied"
    assert tab.cancels == [(tab.call("t").call_id, "aborted")]
    assert tab.session.holding.calls == {}
    assert tab.session.open == other.session.open == {}
    assert tab.result(tab.call("t")) == "unknown_call"
