"""Steps and tools at work on one thread are nobody else's (P8), whatever ids their users chose."""

import asyncio
import threading
from typing import Any

import pytest

from handspan import Bridge, Principal, Run
from handspan.testing import Page, World


class Shop:
    """A bridge whose agent, or tool, waits until it is told to go on; one gate a principal."""

    def __init__(self) -> None:
        self.gates = {"ann": asyncio.Event(), "bob": asyncio.Event()}
        self.stopped: list[str] = []
        self.bridge = Bridge(authenticate=lambda token, request: Principal(token or ""))

    async def wait(self, who: str) -> None:
        try:
            await self.gates[who].wait()
        except asyncio.CancelledError:
            self.stopped.append(who)
            raise


async def test_two_runs_of_one_id_on_two_threads_do_not_meet() -> None:
    """Run ids are chosen by pages, and need be fresh in their thread only."""
    shop = Shop()

    @shop.bridge.agent
    async def waits(run: Run) -> str:
        await shop.wait(run.principal.id)
        return "done"

    await _stop_ann_and_let_bob_finish(shop)


async def test_two_calls_of_one_id_of_two_users_do_not_meet() -> None:
    """Providers number their calls: `call_0` is open in many threads at once."""
    shop = Shop()

    @shop.bridge.agent
    async def calls(run: Run) -> Any:
        if run.depth == 0:
            yield run.call("slow", id="call_0")
        else:
            yield run.results[0].value

    @shop.bridge.tool
    async def slow(run: Run) -> str:
        "Takes its time."
        await shop.wait(run.principal.id)
        return "done"

    await _stop_ann_and_let_bob_finish(shop)


async def _stop_ann_and_let_bob_finish(shop: Shop) -> None:
    async with World(shop.bridge) as world:
        ann: Page = await world.page(token="ann")
        bob: Page = await world.page(token="bob")
        first, second = ann.run("go", run_id="mine"), bob.run("go", run_id="mine")
        await world.settle()
        await ann.abort()
        assert (await first.finished)["reason"] == "aborted"
        await world.settle()
        assert shop.stopped == ["ann"]
        shop.gates["bob"].set()
        assert (await second.finished)["reason"] == "completed"
        assert bob.thread().text == "done"
        assert world.leftovers() == []


@pytest.mark.parametrize("inside", [True, False])
async def test_a_sync_tool_sees_that_it_was_stopped(inside: bool) -> None:
    """It cannot be cancelled, so it looks at `run.aborted`; in the step and behind it."""
    started, seen = asyncio.Event(), asyncio.Event()
    bridge = Bridge()
    loop = asyncio.get_running_loop()

    @bridge.agent
    async def agent(run: Run) -> Any:
        if inside:
            await run.call_tool("patient")
        else:
            yield run.call("patient")

    @bridge.tool
    def patient(run: Run) -> None:
        "Looks whether it is still wanted."
        loop.call_soon_threadsafe(started.set)
        for _ in range(500):  # five seconds: the thread ends also where the test fails
            if run.aborted:
                loop.call_soon_threadsafe(seen.set)
                return
            threading.Event().wait(0.01)

    async with Page(bridge) as page:
        page.run("go")
        async with asyncio.timeout(5):
            await started.wait()
            await page.abort()
            await seen.wait()
    await bridge.close()
