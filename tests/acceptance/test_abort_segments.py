"""A stop and what it races with, in one TCP segment: the first decides, the other is told (P5)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.acceptance.abort_cells import PLACES, Moment, Place
from tests.acceptance.abort_stage import Stage, stage
from tests.acceptance.abort_wire import Wire

from handspan.testing import PageCall

ABORTED, NOT_STARTED = ("aborted",), ("aborted_before_start",)
Frame = Mapping[str, Any]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def moment(call: str, codes: tuple[str | None, ...], frame: str = "tool.call") -> Moment:
    """The page holds this call, or was asked about it."""
    return Moment(calls=(call,), codes=codes, frame=frame, hangs=False)


async def together(set: Stage, wire: Wire, *frames: Frame) -> list[Any]:
    """Send these in one segment; their results, or codes of errors."""
    set.mark()
    with wire.corked():
        posts = [set.page.document.post(frame) for frame in frames]
    await set.page.until(lambda: all(post.done() for post in posts))
    assert wire.arrived_whole
    return [post.result() for post in posts]


def stop(set: Stage) -> Frame:
    return {"type": "run.abort", "runId": set.target}


def result(held: PageCall, value: Any = "in time") -> Frame:
    return {"type": "tool.result", "callId": held.call_id, "attempt": held.attempt, "result": value}


def started(held: PageCall) -> Frame:
    return {"type": "tool.started", "callId": held.call_id, "attempt": held.attempt}


def yes(request: Frame) -> Frame:
    named = {"callId": request["callId"], "digest": request["digest"]}
    return {"type": "approval.answer", **named, "approved": True}


async def held_by(set: Stage) -> PageCall:
    """The call that the page holds; one that needs leave has it."""
    await set.reach()
    held = await set.page.next_call(set.moment.calls[-1])
    if held.name != "glance":
        assert await held.start() == "go"
    return held


# ---- the last result -------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["unstarted", "glance"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_result_behind_the_stop_is_told_aborted(wire: Wire, place: str, tool: str) -> None:
    """P2, P5, P7; behaviour 4."""
    async with stage(PLACES[place], moment(tool, ABORTED), opened=wire.page) as set:
        held = await held_by(set)
        assert await together(set, wire, stop(set), result(held)) == [
            {"aborted": True},
            {"status": "aborted"},
        ]
        await set.run.finished
        await set.checked()


@pytest.mark.parametrize("tool", ["unstarted", "glance"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_result_before_the_stop_is_applied_and_the_next_step_begins_nothing(
    wire: Wire, place: str, tool: str
) -> None:
    """P2, P5; behaviour 4: the run goes on to its next step, and that is what is stopped."""
    async with stage(PLACES[place], moment(tool, (None,)), opened=wire.page) as set:
        held = await held_by(set)
        assert await together(set, wire, result(held), stop(set)) == [
            {"status": "applied"},
            {"aborted": True},
        ]
        set.in_time, set.went_on = {held.call_id}, 1
        await set.run.finished
        await set.checked()
        assert set.home.results()[-1]["content"] == "in time"
        assert await held.answer("in time") == "duplicate"
        assert await held.answer("other") == "conflict"


@pytest.mark.parametrize("place", [p for p, place in PLACES.items() if place.stopped == 0])
async def test_a_stop_behind_the_result_that_ends_a_run_finds_it_over_or_its_caller(
    wire: Wire, place: str
) -> None:
    """`followUp: false`: a run that has ended by itself is stopped by nobody."""
    levels = PLACES[place].levels
    async with stage(PLACES[place], moment("final", (None,)), opened=wire.page) as set:
        held = await held_by(set)
        said = await together(set, wire, result(held), stop(set))
        assert said == [{"status": "applied"}, {"aborted": levels > 0}]
        reason = "aborted" if levels else "no_follow_up"
        assert (await set.run.finished)["reason"] == reason
        await set.nothing_left()
        assert set.home.codes()[-1] is None
        kinds = [e["type"] for e in set.heard if e["type"].startswith(("RUN_", "SUBAGENT_"))]
        ends = ["SUBAGENT_FINISHED", *["SUBAGENT_ERROR"] * (levels - 1)][: min(levels, 2)]
        assert kinds == [
            "RUN_STARTED",
            *["SUBAGENT_STARTED"] * levels,
            *ends,
            "RUN_FINISHED",
        ]
        set.check_silence()
        await set.next_message()


async def test_a_stop_of_a_sub_run_behind_the_result_that_ends_it_finds_it_over(
    wire: Wire,
) -> None:
    """And its caller gets what it was."""
    place = Place(1, levels=1, stopped=1)
    async with stage(place, moment("final", (None,)), opened=wire.page) as set:
        held = await held_by(set)
        said = await together(set, wire, result(held), stop(set))
        assert said == [{"status": "applied"}, {"aborted": False}]
        assert (await set.run.finished)["reason"] == "completed"
        assert [told.reason for told in set.told] == ["no_follow_up"]
        await set.nothing_left()
        await set.next_message()


@pytest.mark.parametrize("tool", ["unstarted", "glance", "final"])
async def test_a_result_that_waits_for_a_hook_is_shown_to_nobody(wire: Wire, tool: str) -> None:
    """P5: the hook is called off before it has begun, and it may be one that redacts."""
    asked: list[Any] = []
    async with stage(PLACES["depth 1"], moment(tool, ABORTED), opened=wire.page) as set:

        @set.home.bridge.hook("after_call")
        async def revise(value: Any, next: Any) -> Any:
            asked.append(value.name)
            return await next(replace(value, value="revised"))

        held = await held_by(set)
        said = await together(set, wire, result(held), stop(set))
        assert said == [{"status": "applied"}, {"aborted": True}]
        set.in_time = {held.call_id}
        await set.run.finished
        await set.checked()
        assert asked == ["climb"]
        revised, withheld = [m["content"] for m in set.home.results()]
        assert revised == "revised"
        assert "it was carried out" in withheld


@pytest.mark.parametrize("hook", ["after_step", "before_step"])
async def test_a_hook_between_steps_is_not_asked_when_the_stop_is_behind_the_result(
    wire: Wire, hook: str
) -> None:
    """P5."""
    asked: list[int] = []
    async with stage(PLACES["depth 1"], moment("glance", (None,)), opened=wire.page) as set:

        @set.home.bridge.hook(hook)
        async def look(value: Any, next: Any) -> Any:
            asked.append(value.run.depth)
            return await next(value)

        held = await held_by(set)
        before = list(asked)
        said = await together(set, wire, result(held), stop(set))
        assert said == [{"status": "applied"}, {"aborted": True}]
        set.in_time, set.went_on = {held.call_id}, int(hook == "before_step")
        await set.run.finished
        await set.nothing_left()
        assert asked == before
        await set.checked()


async def test_a_stop_condition_is_not_asked_when_the_stop_is_behind_the_result(
    wire: Wire,
) -> None:
    """P5."""
    asked: list[int] = []

    def never(steps: Any) -> bool:
        asked.append(len(steps))
        return False

    options = {"opened": wire.page, "policy": {"stop_when": [never]}}
    async with stage(PLACES["depth 1"], moment("glance", (None,)), **options) as set:
        held = await held_by(set)
        said = await together(set, wire, result(held), stop(set))
        assert said == [{"status": "applied"}, {"aborted": True}]
        set.in_time = {held.call_id}
        await set.run.finished
        await set.checked()
        assert asked == [1]


# ---- leave -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
async def test_leave_before_the_stop_is_given_and_taken_back_at_once(
    wire: Wire, place: str
) -> None:
    """P2, P5: it may have started, and that is what the model is told."""
    async with stage(PLACES[place], moment("unstarted", ABORTED), opened=wire.page) as set:
        await set.reach()
        held = await set.page.next_call("unstarted")
        said = await together(set, wire, started(held), stop(set))
        assert said == [{"status": "go"}, {"aborted": True}]
        await set.run.finished
        await set.checked()


@pytest.mark.parametrize("place", PLACES)
async def test_leave_behind_the_stop_is_refused(wire: Wire, place: str) -> None:
    """P5: nothing starts."""
    async with stage(PLACES[place], moment("unstarted", NOT_STARTED), opened=wire.page) as set:
        await set.reach()
        held = await set.page.next_call("unstarted")
        said = await together(set, wire, stop(set), started(held), result(held))
        assert said == [{"aborted": True}, {"status": "aborted"}, {"status": "aborted"}]
        await set.run.finished
        await set.checked()


# ---- approval --------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["ask", "charge"])
@pytest.mark.parametrize("place", PLACES)
async def test_an_approval_behind_the_stop_is_late(wire: Wire, place: str, tool: str) -> None:
    """P5, P10."""
    asked = moment(tool, NOT_STARTED, "approval.request")
    async with stage(PLACES[place], asked, opened=wire.page) as set:
        await set.reach()
        request = next(f for f in set.page.frames if f["type"] == "approval.request")
        said = await together(set, wire, stop(set), yes(request))
        assert said == [{"aborted": True}, {"status": "late"}]
        await set.run.finished
        await set.checked()


@pytest.mark.parametrize("tool", ["ask", "charge"])
@pytest.mark.parametrize("place", PLACES)
async def test_an_approval_before_the_stop_is_applied_and_starts_nothing(
    wire: Wire, place: str, tool: str
) -> None:
    """P5, P10; protocol 4: a tool.call not yet written when its call settles is never written."""
    codes = NOT_STARTED if tool == "ask" else ABORTED
    asked = moment(tool, codes, "approval.request")
    async with stage(PLACES[place], asked, opened=wire.page) as set:
        await set.reach()
        request = next(f for f in set.page.frames if f["type"] == "approval.request")
        said = await together(set, wire, yes(request), stop(set))
        assert said == [{"status": "applied"}, {"aborted": True}]
        await set.run.finished
        await set.nothing_left()
        set.check_end()
        set.check_subs()
        set.check_calls()
        assert await set.page.approve(request) == "duplicate"
        assert await set.page.approve(request, False) == "late"
        set.check_silence()
        await set.next_message()


# ---- runs ------------------------------------------------------------------------------------


async def test_a_run_and_its_stop_in_one_segment_begin_and_end_and_no_model_is_called(
    wire: Wire,
) -> None:
    """P5, P6."""
    async with stage(PLACES["depth 0"], Moment(), opened=wire.page) as set:
        start = {"type": "run.start", "threadId": "t1", "runId": "r1", "message": "go"}
        set.before |= set.tasks()
        said = await together(set, wire, start, {"type": "run.abort", "runId": "r1"})
        assert said == [{"runId": "r1"}, {"aborted": True}]
        await set.page.until(lambda: set.heard and set.heard[-1]["type"] == "RUN_FINISHED")
        await set.nothing_left()
        assert [e["type"] for e in set.heard] == [
            "RUN_STARTED",
            "STEP_STARTED",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ]
        assert set.steps == []
        await set.next_message()


@pytest.mark.parametrize("place", PLACES)
async def test_of_two_stops_in_one_segment_the_second_finds_nothing(wire: Wire, place: str) -> None:
    async with stage(PLACES[place], moment("unstarted", ABORTED), opened=wire.page) as set:
        await held_by(set)
        said = await together(set, wire, stop(set), stop(set))
        assert said == [{"aborted": True}, {"aborted": False}]
        await set.run.finished
        await set.checked()


async def test_a_message_behind_the_stop_finds_the_thread_free(wire: Wire) -> None:
    """P5: the abort waits for nobody, so the next run is never `busy`."""
    async with stage(PLACES["depth 1"], moment("unstarted", ABORTED), opened=wire.page) as set:
        held = await held_by(set)
        start = {"type": "run.start", "threadId": "t1", "runId": "r2", "message": "again"}
        said = await together(set, wire, stop(set), start, result(held))
        assert said == [{"aborted": True}, {"runId": "r2"}, {"status": "aborted"}]
        await set.page.until(lambda: (set.page.thread().last_run or {}).get("runId") == "r2")
        assert set.page.thread().last_run["result"] == {"reason": "completed", "depth": 0}
        await set.nothing_left()
        set.check_calls()
