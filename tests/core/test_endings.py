"""How runs end: in one turn, innermost first, with nothing left open (P5, P6)."""

import pytest
from tests.core.builders import page, spec
from tests.core.scenarios import KEY, a_run, a_space, logged

from handspan.core import effects as e
from handspan.core import session_inputs as s
from handspan.core.call import CallEvent, CallState, Settlement
from handspan.core.desk import Desk
from handspan.core.emission import Emission
from handspan.core.endings import CUT, Endings
from handspan.core.inputs import Answer
from handspan.core.live import Live
from handspan.core.sink import StepSink
from handspan_protocol.errors import RunCode, StopReason
from handspan_protocol.frames import ToolCancel


class House:
    """The parts that an ending needs, and who is told of it."""

    def __init__(self, *, hooks=(), over=lambda call: None):
        self.space = a_space()
        self.live = Live()
        self.desk = Desk(self.space, self.live, set(hooks), over)
        self.over = []
        self.endings = Endings(self.space, self.live, self.desk, self.told)

    def told(self, run, *how):
        self.over.append((run.id, *how))

    def run(self, name="r1", parent=None, **step):
        """A run that is announced and whose step speaks."""
        run = a_run(name, parent=parent, ticket=f"of-{name}")
        run.announced = True
        run.step.opened = True
        run.step.emission = Emission(StepSink(self.space, self.desk, run))
        self.live.add(run)
        return run

    def call(self, run, name, *events, holder=None):
        """A call of the run's step, moved by these events."""
        call = self.desk.announce(run, name, "t", "m1")
        call.spec, call.holder, call.ended = spec("t"), holder, True
        for event in events:
            if event is CallEvent.TURN:
                call.dispatch(holder, 99.0)
            else:
                call.move(event)
        return call

    @property
    def kinds(self):
        """What was said: types, and whose, and of a call its state."""
        return [
            (event["type"], event.get("subagentRunId") or event.get("value", {}).get("state"))
            for event in logged(self.space)
        ]


READY, TURN, LEAVE = CallEvent.READY, CallEvent.TURN, CallEvent.LEAVE
OUTCOMES = {"success": {"type": "success"}, "cancelled": {"type": "cancelled"}}


def finished(outcome, reason):
    return {
        "type": "RUN_FINISHED",
        "threadId": "t1",
        "runId": "r1",
        "outcome": OUTCOMES[outcome],
        "result": {"reason": reason, "depth": 0},
    }


# ---- a run --------------------------------------------------------------------------------------


def test_a_run_that_came_to_its_end_says_so_once():
    house = House()
    run = house.run()
    run.step.ended = True
    house.endings.finish(run, StopReason.COMPLETED)
    assert logged(house.space) == [
        {"type": "STEP_FINISHED", "stepName": "step-0"},
        finished("success", "completed"),
    ]
    assert house.space.effects == []
    assert house.over == [("r1", "completed", None, None)]
    assert (house.live.root, run.step.opened) == (None, False)
    assert house.endings.last_run == {
        "runId": "r1",
        "outcome": {"type": "success"},
        "result": {"reason": "completed", "depth": 0},
    }


def test_p5_an_aborted_run_is_recorded_then_wound_up():
    house = House()
    run = house.run()
    house.endings.abort(run)
    assert house.space.effects == [
        e.Record((e.Fact(KEY, "run_aborted", {"runId": "r1"}),)),
        e.StopStep("r1", 0),
    ]
    assert logged(house.space)[-1] == finished("cancelled", "aborted")
    assert (run.step.ended, house.live.root) == (True, None)
    assert house.over == [("r1", "aborted", None, None)]
    assert house.endings.last_run["outcome"] == {"type": "cancelled"}


@pytest.mark.parametrize(
    ("message", "told"),
    [("boom", "boom"), ("", "the agent failed"), ("x" * 2_001, "x" * 2_000)],
)
def test_a_failed_run_says_what_broke_in_bounded_words(message, told):
    house = House()
    run = house.run()
    house.endings.fail(run, RunCode.PROVIDER_ERROR, message)
    error = {"code": "provider_error", "message": told}
    assert logged(house.space)[-1] == {"type": "RUN_ERROR", **error}
    assert house.over == [("r1", "failed", "provider_error", told)]
    assert house.endings.last_run == {"runId": "r1", "error": error}
    assert house.space.effects == [e.StopStep("r1", 0)]


def test_nothing_has_ended_in_the_beginning():
    assert House().endings.last_run is None


# ---- what it leaves -----------------------------------------------------------------------------


def test_p6_what_is_open_is_ended_before_the_step_is():
    house = House()
    run = house.run()
    run.step.emission.reasoning("hm")
    run.step.emission.text("half a")
    run.step.emission.event({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "t"})
    house.endings.abort(run)
    kinds = [kind for kind, _ in house.kinds]
    assert kinds[-6:] == [
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "CUSTOM",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert kinds.count("TEXT_MESSAGE_END") == kinds.count("REASONING_END") == 1


STANDS = [
    ("proposed", (), "aborted_before_start", "truncated_turn"),
    ("queued", (READY,), "aborted_before_start", "aborted_before_start"),
    ("dispatched", (READY, TURN), "aborted_before_start", "aborted_before_start"),
    ("started", (READY, TURN, LEAVE), "aborted", "aborted"),
]


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    ("events", "aborted", "cut"), [c[1:] for c in STANDS], ids=[c[0] for c in STANDS]
)
def test_p5_every_open_call_settles_by_how_far_it_came(events, aborted, cut, failed):
    house = House()
    house.space.pages["a"] = page("a")
    run = house.run()
    call = house.call(run, "c1", *events, holder="a")
    if failed:
        house.endings.fail(run, RunCode.AGENT_ERROR, "boom")
    else:
        house.endings.abort(run)
    assert call.final.code == (cut if failed else aborted)
    assert house.desk.open_calls == {}
    out = TURN in events
    cancel = ToolCancel(call_id="c1", attempt=1, reason="aborted")
    told = [x.message for x in house.space.effects if isinstance(x, e.TellSession)]
    assert told == ([s.CallTaken("c1", cancel)] if out else [])
    if failed and not events:
        assert call.final.answer.error_message == CUT


def test_p1_results_stand_before_the_end_of_the_step_and_what_was_there_is_kept():
    house = House()
    run = house.run()
    done = house.call(run, "c1", READY, TURN, LEAVE)
    house.call(run, "c2")
    house.desk.settle(done, Settlement(by=CallEvent.ANSWERED, answer=Answer(value="kept")))
    house.endings.abort(run)
    results = [x for x in logged(house.space) if x["type"] == "TOOL_CALL_RESULT"]
    assert [x["toolCallId"] for x in results] == ["c1", "c2"]
    assert results[0]["content"] == "kept"
    assert [kind for kind, _ in house.kinds][-2:] == ["STEP_FINISHED", "RUN_FINISHED"]


def test_a_result_that_waits_for_its_hook_is_withheld():
    """P5: the hook may be one that redacts."""
    house = House(hooks=["after_call"])
    run = house.run()
    call = house.call(run, "c1", READY, TURN, LEAVE)
    house.desk.settle(call, Settlement(by=CallEvent.ANSWERED, answer=Answer(value="kept")))
    assert not call.over
    house.endings.abort(run)
    assert e.StopHook("c1") in house.space.effects
    assert (call.over, call.result_shown, call.final.code) == (True, True, "aborted")
    (shown,) = [x["content"] for x in logged(house.space) if x["type"] == "TOOL_CALL_RESULT"]
    assert "it was carried out" in shown
    assert "kept" not in shown


def test_a_call_that_is_over_is_left_alone():
    told = []
    house = House(over=told.append)
    run = house.run()
    call = house.call(run, "c1", READY, TURN, LEAVE)
    house.desk.settle(call, Settlement(by=CallEvent.ANSWERED, answer=Answer(value=1)))
    house.endings.abort(run)
    assert told == [call]


@pytest.mark.parametrize("asking", ["before_run", "after_step", "stop_when"])
def test_p5_a_question_that_is_open_is_called_off(asking):
    house = House()
    run = house.run()
    run.step.ended, run.asking = True, asking
    house.endings.abort(run)
    assert house.space.effects[1:] == [e.StopHook("r1")]
    assert run.asking is None


def test_p6_a_run_that_never_began_begins_and_ends():
    house = House()
    run = a_run("r1")
    house.live.add(run)
    house.endings.fail(run, RunCode.DENIED, "not today")
    assert [kind for kind, _ in house.kinds] == ["RUN_STARTED", "RUN_ERROR"]
    assert house.space.effects == []


def test_a_step_that_never_spoke_is_ended_too():
    house = House()
    run = house.run()
    run.step.emission = None
    house.endings.abort(run)
    assert e.StopStep("r1", 0) in house.space.effects
    assert run.step.ended is True


@pytest.mark.parametrize("opened", [True, False])
def test_a_step_is_closed_once(opened):
    house = House()
    run = house.run()
    run.step.opened = opened
    for _ in range(2):
        house.endings.close_step(run)
    assert house.kinds == ([("STEP_FINISHED", None)] if opened else [])


# ---- sub-runs -----------------------------------------------------------------------------------


def with_sub():
    house = House()
    root = house.run("r1")
    sub = house.run("sub", parent=root)
    house.space.effects = []
    return house, root, sub


def given(house):
    return [
        (x.ticket, x.value.run_id, x.value.reason, x.value.code, x.value.message)
        for x in house.space.effects
        if isinstance(x, e.GiveResult)
    ]


def test_a_sub_run_that_finished_gives_its_result_to_who_waits():
    house, root, sub = with_sub()
    sub.step.emission.text("It is 42.")
    sub.step.emission.close()
    sub.step.ended = True
    house.endings.finish(sub, StopReason.COMPLETED)
    assert given(house) == [("of-sub", "sub", "completed", None, None)]
    (result,) = house.space.effects
    assert result.value.text == "It is 42."
    assert [message["content"] for message in result.messages] == ["It is 42."]
    assert house.kinds[-2:] == [("STEP_FINISHED", "sub"), ("SUBAGENT_FINISHED", "sub")]
    assert (list(house.live), house.over, root.subs) == ([root], [], {})
    assert house.endings.last_run is None


def test_p5_an_aborted_sub_run_is_a_result_and_no_failure():
    house, root, sub = with_sub()
    house.endings.abort(sub)
    assert given(house) == [("of-sub", "sub", "aborted", None, None)]
    assert house.kinds[-2:] == [("STEP_FINISHED", "sub"), ("SUBAGENT_ERROR", "sub")]
    error = logged(house.space)[-1]
    assert (error["code"], error["message"]) == ("aborted", "the run was aborted")
    assert (list(house.live), root.step.ended, house.over) == ([root], False, [])


def test_a_failed_sub_run_tells_its_code_and_its_words():
    house, _, sub = with_sub()
    house.endings.fail(sub, RunCode.AGENT_ERROR, "no luck")
    assert given(house) == [("of-sub", "sub", "failed", "agent_error", "no luck")]
    error = logged(house.space)[-1]
    assert (error["code"], error["message"]) == ("agent_error", "no luck")


def test_p5_a_run_takes_its_sub_runs_with_it_innermost_first():
    house, root, sub = with_sub()
    deep = house.run("deep", parent=sub)
    call = house.call(deep, "c1")
    house.endings.abort(root)
    ends = ("STEP_FINISHED", "SUBAGENT_ERROR", "RUN_FINISHED")
    assert [kind for kind in house.kinds if kind[0] in ends] == [
        ("STEP_FINISHED", "deep"),
        ("SUBAGENT_ERROR", "deep"),
        ("STEP_FINISHED", "sub"),
        ("SUBAGENT_ERROR", "sub"),
        ("STEP_FINISHED", None),
        ("RUN_FINISHED", None),
    ]
    assert [one[1] for one in given(house)] == ["deep", "sub"]
    assert (call.final.code, call.state) == ("aborted_before_start", CallState.SETTLED)
    assert (len(house.live), house.over) == (0, [("r1", "aborted", None, None)])
