"""Every limit that a page, a model or an agent can hit, and what happens at it (P12)."""

import pytest
from tests.core.builders import Tab, takes, tool

from handspan.core import desk
from handspan.core import effects as e
from handspan.core import inputs as i
from handspan_protocol import frames as f
from handspan_protocol.ids import RunId, ThreadId


@pytest.mark.parametrize(("limit", "calls"), [("calls_per_step", 10), ("open_calls_per_run", 10)])
def test_p12_more_calls_than_allowed_settle_without_being_carried_out(make, limit, calls):
    """C114."""
    world = make(**{limit: 4})
    tab = world.tab(tools=[tool("t", readOnly=True)])
    run = tab.run()
    for n in range(calls):
        world.call(run, "t", {"n": n})
    world.end(run)
    assert len(tab.calls) == 4
    for call in tab.calls:
        tab.result(call, 1)
    assert world.outcomes() == ["ok"] * 4 + ["limit"] * 6
    assert len(world.steps(run)) == 2


def test_p12_a_page_that_holds_too_many_calls_gets_no_more(make):
    world = make(open_calls_per_session=2)
    tab = world.tab(threads=["t1", "t2"], tools=[tool("t", readOnly=True)])
    runs = [tab.run(thread=name) for name in ("t1", "t2")]
    for run in runs:
        for n in range(2):
            world.call(run, "t", {"n": n})
        world.end(run)
    assert len(tab.session.holding.calls) == len(tab.calls) == 2
    assert world.outcomes("t2") == ["limit", "limit"]
    for call in list(tab.calls):
        tab.result(call)
    world.call(runs[1], "t", {"n": 5})
    world.end(runs[1])
    assert len(tab.calls) == 3


@pytest.mark.parametrize(("size", "outcome"), [(-1, "ok"), (0, "ok"), (1, "result_too_large")])
def test_p12_a_result_is_bounded_by_the_text_of_its_json(make, size, outcome):
    """C135."""
    world = make(result_bytes=1_000)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    assert tab.result(tab.calls[0], "x" * (998 + size)) == "applied"
    assert world.outcomes() == [outcome]
    assert len(world.steps(run)) == 2


def test_a_page_may_say_itself_that_a_result_is_too_large_or_a_tool_gone(make):
    world = make()
    tab = world.tab(tools=[tool("t", readOnly=True)])
    run = tab.run()
    codes = ["result_too_large", "unavailable", "timeout", "Not A Code", ""]
    for n in range(len(codes)):
        world.call(run, "t", {"n": n})
    world.end(run)
    for call, code in zip(tab.calls, codes, strict=True):
        tab.error(call, "why", code=code)
    assert world.outcomes() == ["result_too_large", "unavailable"] + ["handler_error"] * 3


def test_a_result_that_does_not_fit_the_tools_own_schema_is_invalid(make):
    world = make()
    tab = world.tab(tools=[tool("t", readOnly=True, returns=takes("x", x="integer"))])
    run = tab.run()
    for value in ({"x": 1}, {"x": "1"}, None):
        world.call(run, "t", {"value": value})
    world.end(run)
    for call in list(tab.calls):
        tab.result(call, call.args["value"])
    assert world.outcomes() == ["ok", "invalid_result", "invalid_result"]


@pytest.mark.parametrize("says", ["text", "think", "call"])
def test_p12_a_run_that_says_too_much_ends(make, says):
    world = make(output_bytes=100)
    run = world.start()
    for _ in range(3):
        assert world.last_run() is None
        if says == "call":
            world.call(run, "nobody", '{"x":"' + "x" * 50 + '"}')
        else:
            getattr(world, says)(run, "x" * 50)
        if world.thread("t1").run is None:
            break
    assert world.reason() == "output_limit"
    world.end(world.start())


def test_p12_deltas_that_come_together_are_counted_one_by_one(make):
    world = make(output_bytes=100)
    run = world.start()
    world.tell(world.home(run), i.TextSaid(RunId(run), 0, ("x" * 60,) * 9))
    assert world.reason() == "output_limit"
    assert [len(e["delta"]) for e in world.events("t1") if "delta" in e] == [60]


def test_p12_a_thread_whose_history_is_full_takes_no_run(make):
    world = make(history_bytes=100)
    tab = world.tab()
    world.end(tab.run("x" * 101))
    assert tab.run("more") == "too_large"
    assert world.roles() == ["user"]


def test_p12_the_state_is_bounded(make):
    world = make(state_bytes=100)
    tab = world.tab()
    assert tab.ask(f.StateUpdate, thread_id="t1", state="x" * 99) == "too_large"
    assert tab.ask(f.StateUpdate, thread_id="t1", state="x" * 98) == {}
    patch = ({"op": "replace", "path": "", "value": "x" * 99},)
    assert tab.ask(f.StateUpdate, thread_id="t1", patch=patch) == "too_large"
    assert world.thread("t1").space.transcript.state == "x" * 98
    run = world.start()
    world.event(run, "STATE_SNAPSHOT", snapshot="x" * 99)
    assert world.reason() == "agent_error"


def test_p12_the_context_is_bounded(make):
    world = make(context_bytes=100)
    tab = world.tab()
    small, large = (f.ContextItem(name="a", value="x" * n) for n in (10, 200))
    assert tab.ask(f.ContextUpdate, set=(small,)) == {}
    assert tab.ask(f.ContextUpdate, add=(large,)) == "too_large"
    run = tab.run()
    assert world.steps(run)[0].context == (small,)
    world.end(run)


def test_p12_a_hello_with_too_much_context_is_still_a_hello(make):
    world = make(context_bytes=100)
    tab = world.tab(context=(f.ContextItem(name="a", value="x" * 200),))
    assert [x.code for x in tab.frames if isinstance(x, f.Error)] == ["too_large"]
    world.end(tab.run())


def test_p1_a_result_whose_context_is_too_large_still_counts(make):
    """P14: the context is refused and told; the call does not hang."""
    world = make(context_bytes=100)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.result(tab.calls[0], "done", context=(f.ContextItem(name="a", value="x" * 200),))
    assert world.results() == ["done"]


def test_p12_threads_open_at_once_are_bounded(make):
    world = make(open_threads=2)
    tab = world.tab(threads=["t1", "t2", "t3"])
    assert [t.error.code if t.error else None for t in tab.welcome.threads] == [None, None, "limit"]
    assert tab.open("t3") == "limit"
    assert tab.run(thread="t3") == "limit"
    assert tab.open("t2") == {"threadId": "t2"}
    tab.close("t1")
    assert tab.open("t3") == {"threadId": "t3"}


def test_p12_runs_of_one_page_are_bounded(make):
    world = make(runs_per_session=2, queued_runs=1)
    tab = world.tab(threads=["t1", "t2", "t3"])
    runs = [tab.run(thread=f"t{n}") for n in (1, 2)]
    assert tab.run(thread="t3") == "busy"
    world.end(runs[0])
    third = tab.run(thread="t3")
    world.end(runs[1])
    assert tab.run(thread="t3", if_busy="queue").startswith("run")
    assert tab.run(thread="t3", if_busy="queue") == "busy"
    assert tab.run(thread="t3", if_busy="replace") == "busy"
    world.end(third)
    assert tab.session.queued == {}
    world.abort("t3")
    assert tab.session.running == {}


def test_p12_a_ring_that_is_full_is_replaced_by_a_snapshot(make):
    """C154, P9: a page that lags more than the ring equals one that never did."""
    world = make(log_events=50)
    there, away = world.tab("a"), world.tab("b")
    run = there.run()
    world.text(run, "before ")
    away.drop()
    for n in range(100):
        world.text(run, f"{n} ")
    away.back()
    world.text(run, "after")
    assert away.folds["t1"].shown() == there.folds["t1"].shown()
    world.end(run)


@pytest.mark.parametrize("end", ["timeout", "abort", "drop", "bye", "result", "reload", "limit"])
def test_p12_nothing_is_kept_of_what_has_ended(make, end):
    """C153: by whatever route."""
    world = make(resume_window=121)
    tab = world.tab(tools=[tool("t", readOnly=True)])
    for _ in range(20):
        run = tab.run()
        for n in range(3):
            world.call(run, "t", {"n": n})
        world.end(run)
        match end:
            case "timeout":
                world.wait(61)
            case "abort":
                tab.abort(run)
            case "drop":
                tab.drop()
                world.wait(35)
                tab.back()
            case "bye":
                tab.bye()
                world.wait(31)
                world.tabs.remove(tab)
                tab = world.tab(tools=[tool("t", readOnly=True)])
            case "result":
                for call in [c for c in tab.calls if c.run_id == run]:
                    tab.result(call)
            case "reload":
                tab.reload(tools=[])
                world.wait(31)
                tab.tools(tool("t", readOnly=True))
        if world.thread("t1").run is not None:
            world.abort()
    assert world.thread("t1").desk.open_calls == {}
    for session in world.sessions.values():
        assert (session.holding.calls, session.running, session.queued) == ({}, {}, {})
    assert len(world.sessions) == 1
    assert world.thread("t1").space.pages.keys() == world.sessions.keys()


def test_p12_settled_calls_are_remembered_up_to_a_number(make, monkeypatch):
    """1,024 of them, were it not for the time that so many take."""
    assert desk.SETTLED_KEPT == 1_024
    monkeypatch.setattr(desk, "SETTLED_KEPT", 100)
    world = make(calls_per_step=200, open_calls_per_run=200)
    run = world.start()
    for n in range(150):
        world.call(run, "nobody", {"n": n})
    world.end(run)
    assert len(world.thread("t1").desk.calls) == 100
    world.end(run)
    assert len(world.results()) == 150


# ---- P8 -----------------------------------------------------------------------------------------


def drive(world, tab: Tab, thread: str) -> None:
    run = tab.run(thread=thread)
    world.call(run, "t", {"of": thread}, wish="same-id")
    world.end(run)
    tab.result(tab.calls[-1], thread)
    world.text(run, f"done {thread}")
    world.end(run)


def test_p8_what_happens_on_one_thread_never_changes_another(make):
    """C080: the second thread's history is what it is without the first."""
    alone, both = make(), make()
    lone = alone.tab(threads=["t2"], tools=[tool("t")])
    tab = both.tab(threads=["t1", "t2"], tools=[tool("t")])
    busy = tab.run(thread="t1")
    both.call(busy, "t", {"of": "t1"}, wish="same-id")
    both.end(busy)
    drive(alone, lone, "t2")
    drive(both, tab, "t2")
    tab.result(tab.calls[0], "t1")
    both.end(busy)
    assert told(alone, "t2") == told(both, "t2")
    assert both.results("t1") == ["t1"]


def told(world, thread):
    """A thread's history without its ids."""
    return [
        (m["role"], m.get("content"), [c["function"] for c in m.get("toolCalls", ())])
        for m in world.messages(thread)
    ]


def test_p8_the_same_provider_id_on_two_threads_is_two_calls(make):
    world = make()
    tab = world.tab(threads=["t1", "t2"], tools=[tool("t")])
    for thread in ("t1", "t2"):
        run = tab.run(thread=thread)
        world.call(run, "t", {}, wish="same-id")
        world.end(run)
    one, two = tab.calls
    assert one.call_id != two.call_id
    tab.result(two, "two")
    assert (world.results("t1"), world.results("t2")) == ([], ["two"])


def test_p8_a_deleted_thread_leaves_the_others(make):
    world = make()
    tab = world.tab(threads=["t1", "t2"], tools=[tool("t")])
    run = tab.run(thread="t2")
    tab.ask(f.ThreadDelete, thread_id=ThreadId("t1"))
    world.text(run, "still here")
    world.end(run)
    assert world.reason("t2") == "completed"
    assert tab.ask(f.ThreadDelete, thread_id="t1") == "unknown_thread"
    assert world.of(e.ThreadOver) == [e.ThreadOver()]


def test_p12_what_an_activity_may_grow_to_is_bounded(make):
    """A patch that copies doubles what it touches: two dozen operations would be a bomb."""
    world = make(state_bytes=1_000)
    run = world.start()
    activity = {"messageId": "y", "activityType": "plan", "content": {"a": ["x"]}}
    world.event(run, "ACTIVITY_SNAPSHOT", **activity)
    double = {"op": "copy", "from": "/a", "path": "/a/-"}
    world.event(run, "ACTIVITY_DELTA", messageId="y", patch=[{"op": "remove", "path": "/none"}])
    world.event(run, "ACTIVITY_DELTA", messageId="y", patch=[double] * 3)
    assert world.last_run() is None
    world.event(run, "ACTIVITY_DELTA", messageId="y", patch=[double] * 30)
    assert world.reason() == "agent_error"
    assert len(str(world.messages())) < 1_000
