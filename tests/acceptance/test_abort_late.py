"""Whoever answers when the stop has come starts nothing: hooks, humans, agents, tools (P5)."""

import asyncio
from typing import Any

import pytest
from tests.acceptance.abort_cells import EVERYWHERE, HOOKS, MOMENTS, PLACES
from tests.acceptance.abort_stage import PATIENCE_S, Stage, stage
from tests.acceptance.house import Gate, house

from handspan import Ask
from handspan.testing import call

CELLS = [
    (place, moment)
    for place in PLACES
    for moment in HOOKS
    if moment in EVERYWHERE or place == "depth 0"
]
ENDS = ("RUN_FINISHED", "RUN_ERROR")


async def soon(event: asyncio.Event) -> None:
    """Wait for it, not for ever."""
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()


async def let_go(set: Stage) -> None:
    """What did not let itself be called off has its say, and that changes nothing."""
    set.gate.open()
    await soon(set.answered)
    await set.nothing_left()
    set.check_silence()


# ---- hooks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "moment"), CELLS)
async def test_a_hook_that_answers_after_the_stop_starts_nothing(place: str, moment: str) -> None:
    """P5: it does not let itself be cancelled, and lets everything pass when it is over."""
    async with stage(PLACES[place], MOMENTS[moment], stubborn=True) as set:
        await set.reach()
        await set.abort()
        set.check_called_off()
        set.check_end()
        set.check_subs()
        set.check_calls()
        await let_go(set)
        await set.next_message()


@pytest.mark.parametrize("moment", HOOKS)
async def test_a_hook_that_answers_in_the_turn_of_the_stop_starts_nothing(moment: str) -> None:
    """P5: the answer is on its way when the run is stopped."""
    async with stage(PLACES["depth 0"], MOMENTS[moment], stubborn=True) as set:
        await set.reach()
        set.mark()
        set.gate.open()
        set.stop_now()
        await set.run.finished
        await set.nothing_left()
        set.check_end()
        set.check_calls()
        set.check_silence()
        await set.next_message()


@pytest.mark.parametrize("moment", HOOKS)
async def test_a_late_answer_is_none_to_the_next_runs_question(moment: str) -> None:
    """P5: the next run asks the same hook, and waits for its own answer."""
    async with stage(PLACES["depth 0"], MOMENTS[moment], stubborn=True) as set:
        await set.reach()
        await set.abort()
        old, set.gate, set.armed = set.gate, Gate(), True
        await set.renewed()
        set.mark()
        old.open()
        await soon(set.answered)
        for _ in range(3):
            await set.page.ask("thread.list")
        assert not set.run.is_over
        assert (len(set.steps), len(set.page.calls)) == set.at_stop
        assert set.carried_out == []
        set.gate.open()
        assert (await set.run.finished)["reason"] == "completed"
        await set.nothing_left()
        judged, asks_model = "judged" in set.moment.calls, moment == "model_request"
        assert set.carried_out == ["judged"] * judged + ["a model"] * asks_model


@pytest.mark.parametrize("name", ["before_call", "before_step", "after_call", "after_step"])
async def test_a_hook_that_stops_its_own_run_and_says_yes_starts_nothing(name: str) -> None:
    """P5."""
    runs: list[Any] = []

    async def agent(run: Any) -> Any:
        runs.append(run)
        yield run.call("t", {}) if run.messages[-1].content == "go" else "fine"

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": ({"readOnly": True}, lambda args: 1)})

        @home.bridge.hook(name)
        async def stop(value: Any, next: Any) -> Any:
            run = getattr(value, "run", None) or runs[-1]
            if [m.content for m in run.messages] == ["go"]:
                run.abort()
            return await next(value)

        assert (await page.run("go").finished)["reason"] == "aborted"
        await page.ask("thread.list")
        assert len(runs) == (0 if name == "before_step" else 1)
        assert len(page.calls) == (1 if name.startswith("after") else 0)
        assert home.events()[-1]["type"] == "RUN_FINISHED"
        assert (await page.run("again").finished)["reason"] == "completed"


# ---- agents and tools ------------------------------------------------------------------------

STUBBORN = ["the model, silent", "a text", "half a call", "a server tool"]


@pytest.mark.parametrize("moment", [*STUBBORN, "a server tool inside the step"])
@pytest.mark.parametrize("place", PLACES)
async def test_what_goes_on_after_the_stop_is_heard_by_nobody(place: str, moment: str) -> None:
    """P5: its words, its state, its calls and its sub-runs come too late."""
    async with stage(PLACES[place], MOMENTS[moment], stubborn=True) as set:
        await set.reach()
        await set.abort()
        set.check_called_off()
        set.check_end()
        set.check_subs()
        set.check_calls()
        await let_go(set)
        assert set.tried == ["refused"] * 3
        assert set.home.bridge.threads[0].state != "late"
        await set.next_message()


# ---- humans ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["ask", "charge"])
@pytest.mark.parametrize("place", PLACES)
async def test_an_answer_of_another_tab_after_the_stop_is_late(place: str, tool: str) -> None:
    """P5, P10: with a yes, a no, other arguments, or for ever."""
    asked = "approval of a page's tool" if tool == "ask" else "approval of a server tool"
    async with stage(PLACES[place], MOMENTS[asked]) as set:
        other = await set.home.page(threads=("t1",))
        await set.reach()
        request = await other.expect(type="approval.request", name=tool)
        await set.abort()
        for fields in ({}, {"args": {"amount": 1}}, {"remember": True}, {"reason": "because"}):
            assert await other.approve(request, **fields) == "late"
        assert await other.approve(request, False) == "late"
        assert await other.approve({**request, "digest": "forged"}) == "late"
        await set.checked()


async def test_a_yes_for_ever_that_was_late_is_forgotten() -> None:
    """P10: closed when in doubt; the next call is asked about again."""
    async with stage(PLACES["depth 0"], MOMENTS["approval of a page's tool"]) as set:
        await set.reach()
        request = next(f for f in set.page.frames if f["type"] == "approval.request")
        await set.abort()
        assert await set.page.approve(request, remember=True) == "late"
        set.armed = True
        await set.renewed()
        set.mark()
        assert set.carried_out == []
        again = [f for f in set.page.frames if f["type"] == "approval.request"][-1]
        assert again["callId"] != request["callId"]
        assert await set.page.approve(again) == "applied"
        assert (await set.run.finished)["reason"] == "completed"
        assert set.carried_out == ["ask"]


async def test_a_question_that_a_hook_asked_is_closed_by_the_stop() -> None:
    """P10."""
    async with house([call("t")], "never") as home:
        page = await home.page(tools={"t": None})

        @home.bridge.hook("before_call")
        async def ask(value: Any, next: Any) -> Any:
            return Ask("are you sure?")

        run = page.run("go")
        request = await page.expect(type="approval.request")
        assert request["reason"] == "are you sure?"
        assert await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        assert home.codes() == ["aborted_before_start"]
        assert await page.approve(request) == "late"
        assert (page.calls, len(home.steps)) == ([], 1)


# ---- after the run ---------------------------------------------------------------------------


async def test_a_stopped_run_is_told_to_after_run_and_the_next_one_does_not_wait_for_it() -> None:
    """api.md, `after_run`."""
    gate, told = Gate(), []

    async with house(lambda run: [call("t")] if len(run.messages) == 1 else ["fine"]) as home:
        page = await home.page(tools={"t": None})

        @home.bridge.hook("after_run")
        async def look(value: Any, next: Any) -> Any:
            told.append(value.reason)
            if value.reason == "aborted":
                await gate.wait()
            return await next(value)

        waiting = asyncio.ensure_future(home.bridge.run("go", thread_id="t1"))
        await page.next_call("t")
        assert await page.abort()
        await soon(gate.reached)
        assert not waiting.done()
        assert (await page.run("again").finished)["reason"] == "completed"
        gate.open()
        async with asyncio.timeout(PATIENCE_S):
            assert (await waiting).reason == "aborted"
        assert told == ["aborted", "completed"]
        assert [e["type"] for e in home.events() if e["type"] in ENDS] == ["RUN_FINISHED"] * 2


# ---- suggestions -----------------------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
async def test_nothing_is_suggested_after_a_stop(moment: str) -> None:
    """Nothing stands behind the terminal event."""
    asked: list[str] = []
    async with stage(PLACES["depth 0"], MOMENTS[moment]) as set:

        @set.home.bridge.suggest
        async def next_questions(result: Any) -> list[str]:
            asked.append(result.reason)
            return []

        await set.reach()
        await set.abort()
        await set.nothing_left()
        set.check_silence()
        assert asked == []


async def test_what_is_suggested_late_for_a_run_before_the_stopped_one_is_dropped() -> None:
    """P5: the next run called it off, and was stopped itself."""
    gate, hung, answered = Gate(), Gate(), asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "so"
        if len(run.messages) > 1:
            await hung.wait()

    async with house(agent=agent) as home:

        @home.bridge.suggest
        async def next_questions(result: Any) -> list[str]:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                await gate.opened.wait()
            answered.set()
            return ["late"]

        page = await home.page()
        first = page.run("go")
        await first.finished
        await soon(gate.reached)
        assert await page.abort() is False
        assert await page.abort(first.id) is False
        second = page.run("on")
        await soon(hung.reached)
        assert await page.abort()
        assert (await second.finished)["reason"] == "aborted"
        gate.open()
        await soon(answered)
        for _ in range(3):
            await page.ask("thread.list")
        assert home.events()[-1]["type"] == "RUN_FINISHED"
        assert page.thread().suggestions == []
