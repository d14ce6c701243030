"""before_run, after_step and suggestions, as the thread sees them."""

from dataclasses import replace

import pytest
from tests.core.builders import tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan_protocol.ids import RunId


def tell(world, message):
    return world.tell(world.key("t1"), message)


def allow(world, run, **changes):
    asked = world.of(e.JudgeRun)[-1]
    return tell(world, i.RunJudged(run_id=RunId(run), request=replace(asked.request, **changes)))


# ---- before_run -------------------------------------------------------------------------------


def test_before_run_stands_before_everything_and_may_change_the_request(make):
    world = make(agents=("default", "other"), hooks=["before_run"])
    tab = world.tab("a")
    run = tab.run("hi")
    assert (world.events(), world.steps()) == ([], [])
    assert world.thread("t1").picture(tab.id).run is None
    allow(world, run, message={"role": "user", "content": "HI"}, agent="other")
    assert world.messages()[0]["content"] == "HI"
    assert world.steps()[0].agent == "other"
    world.end(run)
    assert world.reason() == "completed"


@pytest.mark.parametrize("code", ["denied", "agent_error"])
def test_a_run_that_is_denied_begins_and_ends(make, code):
    """RUN_STARTED, RUN_ERROR; its message is in nobody's history."""
    world = make(hooks=["before_run"])
    tab = world.tab("a")
    run = tab.run("hi")
    tell(world, i.RunJudged(run_id=RunId(run), code=code, message="not today"))
    assert world.kinds() == ["RUN_STARTED", "RUN_ERROR"]
    assert (world.reason(), world.messages()) == (code, [])
    assert world.of(e.RunOver)[0].value.message == "not today"


def test_p5_a_run_aborted_before_its_first_step_has_one_terminal_event(make):
    world = make(hooks=["before_run"])
    tab = world.tab("a")
    run = tab.run("hi")
    assert tab.abort(run) == {"aborted": True}
    assert [x.subject for x in world.of(e.StopHook)] == [run]
    assert world.kinds() == ["RUN_STARTED", "RUN_FINISHED"]
    assert allow(world, run) == []
    assert world.steps() == []
    again = tab.run("again")
    allow(world, again)
    assert len(world.steps()) == 1


@pytest.mark.parametrize(
    ("code", "reply"), [("denied", "denied"), ("agent_error", "internal"), (None, "denied")]
)
def test_a_button_whose_run_never_began_is_answered(make, code, reply):
    world = make(hooks=["before_run"])
    tab = world.tab("a", tools=[tool("t")])
    command = tab.invoke("t")
    run = world.of(e.JudgeRun)[0].run_id
    if code is None:
        tab.abort(run)
    else:
        tell(world, i.RunJudged(run_id=run, code=code, message="no"))
    assert (tab.answer(command), tab.calls) == (reply, [])


def test_a_request_that_may_not_run_as_changed_fails(make):
    world = make(hooks=["before_run"])
    run = world.start()
    allow(world, run, agent="nobody")
    assert (world.reason(), world.kinds()) == ("agent_error", ["RUN_STARTED", "RUN_ERROR"])


def test_a_queued_run_is_judged_when_its_turn_has_come(make):
    world = make(hooks=["before_run"])
    tab = world.tab("a")
    first = tab.run("one")
    second = tab.run("two", if_busy="queue")
    assert [x.run_id for x in world.of(e.JudgeRun)] == [first]
    allow(world, first)
    world.end(first)
    assert [x.run_id for x in world.of(e.JudgeRun)] == [first, second]


def test_state_changed_before_the_run_is_announced_is_said_again(make):
    from handspan_protocol import frames as f

    world = make(hooks=["before_run"])
    tab = world.tab("a")
    run = tab.run("hi")
    tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    allow(world, run)
    assert world.kinds()[:3] == ["STATE_SNAPSHOT", "RUN_STARTED", "STATE_SNAPSHOT"]


# ---- after_step -------------------------------------------------------------------------------


def test_after_step_stands_between_a_settled_step_and_what_comes_next(make):
    world = make(hooks=["after_step"])
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run("hi")
    world.call(run, "t")
    world.end(run, "tool_calls")
    assert world.of(e.ReviewStep) == []
    tab.result(tab.call("t"), 1)
    asked = world.of(e.ReviewStep)[0]
    assert (asked.run_id, asked.depth, asked.finish_reason) == (run, 0, "tool_calls")
    assert [value.value for value in asked.calls] == [1]
    assert world.depth(run) == 0
    assert tell(world, i.StepReviewed(run, 1)) == []
    tell(world, i.StepReviewed(run, 0))
    assert world.depth(run) == 1
    world.end(run)
    tell(world, i.StepReviewed(run, 1))
    assert world.reason() == "completed"


def test_p5_an_abort_between_steps_ends_the_run_and_the_hook(make):
    world = make(hooks=["after_step"])
    tab = world.tab("a")
    run = tab.run("hi")
    world.end(run)
    tab.abort(run)
    assert [x.subject for x in world.of(e.StopHook)] == [run]
    assert world.reason() == "aborted"
    assert tell(world, i.StepReviewed(run, 0)) == []


# ---- suggestions ------------------------------------------------------------------------------


def made(world, run, *items):
    return tell(world, i.SuggestionsMade(RunId(run), items))


def test_suggestions_come_after_the_end_and_stay_until_the_next_run(make):
    world = make(hooks=["suggest"])
    tab = world.tab("a")
    run = tab.run("hi")
    world.text(run, "Hello.")
    world.end(run)
    asked = world.of(e.Suggest)[0]
    assert (asked.value.run_id, asked.value.text) == (run, "Hello.")
    made(world, run, "more", "less")
    assert world.kinds()[-2:] == ["RUN_FINISHED", "suggestions"]
    assert world.thread("t1").picture(tab.id).suggestions == ("more", "less")
    assert made(world, run, "again") == []
    world.end(tab.run("next"))
    assert world.thread("t1").picture(tab.id).suggestions == ()


def test_the_next_run_stops_the_thinking_about_the_last_one(make):
    world = make(hooks=["suggest"])
    run = world.start()
    world.end(run)
    world.start()
    assert [x.run_id for x in world.of(e.StopSuggesting)] == [run]
    assert made(world, run, "late") == []


@pytest.mark.parametrize("how", ["aborted", "failed", "queued", "nobody"])
def test_nothing_is_suggested_where_nobody_would_read_it(make, how):
    world = make(hooks=[] if how == "nobody" else ["suggest"])
    run = world.start()
    match how:
        case "aborted":
            world.abort()
        case "failed":
            world.fail(run)
        case "queued":
            world.start(if_busy="queue")
            world.end(run)
        case "nobody":
            world.end(run)
    assert world.of(e.Suggest) == []


def test_a_thread_that_is_deleted_stops_suggesting(make):
    world = make(hooks=["suggest"])
    run = world.start()
    world.end(run)
    tell(world, i.Deleted())
    assert [x.run_id for x in world.of(e.StopSuggesting)] == [run]
