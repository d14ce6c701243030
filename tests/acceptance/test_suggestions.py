"""`bridge.suggest` through a real bridge: api.md, protocol 1 and 2 (`handspan.suggestions`)."""

import asyncio
from typing import Any

import pytest
from tests.acceptance.house import Gate, House, house, still_house

from handspan import Run
from handspan.testing import RunFailed, call


def made(home: House) -> list[Any]:
    """What was emitted of suggestions."""
    return [
        event["value"]
        for event in home.events(kind="CUSTOM")
        if event["name"] == "handspan.suggestions"
    ]


async def test_suggestions_come_after_the_run_and_stay_for_newcomers() -> None:
    async with house("tea or coffee?") as home:

        @home.bridge.suggest
        async def questions(result: Any) -> list[str]:
            return ["tea", result.text]

        page = await home.page()
        run = page.run("hi")
        await run.finished
        await page.until(lambda: page.thread().suggestions)
        assert page.thread().suggestions == ["tea", "tea or coffee?"]
        assert made(home) == [{"runId": run.id, "items": ["tea", "tea or coffee?"]}]
        assert home.events()[-1]["type"] == "CUSTOM"
        late = await home.page(threads=["t1"])
        await late.until(lambda: late.thread().suggestions)
        assert late.thread().suggestions == page.thread().suggestions


async def test_the_next_run_clears_them_everywhere() -> None:
    gate = Gate()

    async def agent(run: Run) -> str:
        if run.messages[-1].content == "wait":
            await gate.wait()
        return "ok"

    async with still_house(agent=agent) as home:
        home.bridge.suggest(lambda result: ["more"])
        page = await home.world.page()
        await page.run("hi").finished
        await home.world.settle()
        assert page.thread().suggestions == ["more"]
        page.run("wait")
        await gate.reached.wait()
        await home.world.settle()
        assert page.thread().suggestions == []
        late = await home.world.page(threads=["t1"])
        assert late.thread().suggestions == []
        gate.open()
        await home.world.settle()


async def test_they_hold_nobody_up_and_the_next_run_calls_them_off() -> None:
    gate, left = Gate(), []
    async with still_house("ok") as home:

        @home.bridge.suggest
        async def slow(result: Any) -> list[str]:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                left.append(result.run_id)
                raise
            return ["too late"]

        page = await home.world.page()
        first = page.run("a")
        await first.finished
        await gate.reached.wait()
        assert (await home.bridge.run("b", thread_id="t1")).reason == "completed"
        await home.world.settle()
        assert left == [first.id]
        assert made(home) == []
        gate.open()
        await home.world.settle()
        assert len(made(home)) == 1


@pytest.mark.parametrize("end", ["fails", "aborted", "no_follow_up"])
async def test_only_a_run_that_completed_is_asked_about(end: str) -> None:
    asked: list[Any] = []
    gate = Gate()

    async def agent(run: Run) -> Any:
        if end == "fails":
            raise ValueError
        if end == "aborted":
            await gate.wait()
        yield run.call("t")

    async with still_house(agent=agent) as home:
        home.bridge.suggest(lambda result: asked.append(result) or [])
        page = await home.world.page(tools={"t": ({"followUp": False}, lambda args: 1)})
        run = page.run("hi")
        await home.world.settle()
        if end == "aborted":
            await page.abort()
        if end == "fails":
            with pytest.raises(RunFailed):
                await run.finished
        else:
            assert (await run.finished)["reason"] == end
        await home.world.settle()
        assert asked == []


async def test_one_that_raises_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """P14."""
    async with still_house("ok") as home:

        @home.bridge.suggest
        async def broken(result: Any) -> list[str]:
            raise ValueError("secret")

        page = await home.world.page()
        assert (await page.run("a").finished)["reason"] == "completed"
        await home.world.settle()
        assert made(home) == []
        assert (await page.run("b").finished)["reason"] == "completed"
        await home.world.settle()
        assert len(caplog.records) == 2


async def test_a_plain_function_may_block_without_blocking_the_bridge() -> None:
    import threading

    release = threading.Event()
    async with house([call("t")], "ok") as home:

        @home.bridge.suggest
        def slow(result: Any) -> list[str]:
            assert release.wait(5)
            return ["at last"]

        page = await home.page(tools={"t": lambda args: 1})
        await page.run("a").finished
        assert await page.ask("thread.list")
        release.set()
        await page.until(lambda: page.thread().suggestions)
        assert page.thread().suggestions == ["at last"]


async def test_a_bridge_that_closes_calls_them_off() -> None:
    gate = Gate()
    async with still_house("ok") as home:

        @home.bridge.suggest
        async def slow(result: Any) -> list[str]:
            await gate.wait()
            return []

        page = await home.world.page()
        await page.run("a").finished
        await gate.reached.wait()
        await home.bridge.close()
