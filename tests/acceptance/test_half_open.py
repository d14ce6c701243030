"""Sockets that only one side believes in: found within a bound, and their sessions come back. C142.

Time is virtual and the line in memory, but for the last part, where a network stands between.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.acceptance.house import Gate, House, house, still_house
from tests.fault_proxy import FaultProxy

from handspan import Policy
from handspan.shell.pulse import SILENT_HEARTBEATS
from handspan.testing import Page, call

PATIENCE_S = 5.0


def attached(home: House, page: Page) -> bool | None:
    """Whether the server believes that the page is there; None: it has forgotten its session."""
    assert page.session is not None
    known = {look.id: look.attached for look in home.bridge.sessions}
    return known.get(page.session["id"])


class Talker:
    """An agent that calls `t`, and then says what it is let to."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def __call__(self, run: Any) -> Any:
        if run.depth == 0:
            yield "before "
            yield run.call("t", {"n": 1})
            await self.gate.wait()
            yield "while nobody heard it "
        else:
            yield "after"


# ---- a page that vanished ---------------------------------------------------------------------


@pytest.mark.parametrize("heartbeat", [1.0, 20.0])
async def test_a_page_that_vanished_is_missed_in_time_and_resumes_where_it_was(
    heartbeat: float,
) -> None:
    """Not before it was asked, and not later than three heartbeats; nothing is lost or doubled."""
    agent = Talker()
    async with still_house(agent=agent, policy=Policy(heartbeat=heartbeat)) as home:
        page = await home.world.page(tools={"t": ({"timeoutMs": 600_000}, None)})
        run = page.run("go")
        await agent.gate.reached.wait()
        await home.world.settle()
        page.vanish()
        agent.gate.open()
        await home.world.advance(heartbeat)
        assert attached(home, page) is True
        await home.world.advance((SILENT_HEARTBEATS - 1) * heartbeat)
        assert attached(home, page) is False
        assert (await page.connect())["resumed"] is True
        held = await page.next_call()
        assert await held.start() == "go"
        assert await held.answer("done") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert page.events == home.events()
        assert page.messages == home.history()
        assert (page.thread().snapshots, [each.attempt for each in page.calls]) == (1, [1])


async def test_its_grace_and_its_window_count_from_when_it_was_missed() -> None:
    policy = Policy(heartbeat=20.0, page_grace=30.0, resume_window=120.0)
    async with still_house([call("t")], "ok", policy=policy) as home:
        page = await home.world.page(tools={"t": ({"timeoutMs": 600_000}, None)})
        page.run("go")
        await page.next_call()
        page.vanish()
        await home.world.advance(60.0 + 29.0)
        assert home.results() == []
        await home.world.advance(2.0)
        assert home.codes() == ["page_gone"]
        await home.world.advance(88.0)
        assert attached(home, page) is False
        await home.world.advance(2.0)
        assert attached(home, page) is None
        assert (await page.connect())["resumed"] is False


async def test_a_page_that_vanished_while_it_was_talked_to_is_missed_in_send_timeout() -> None:
    """The transport is full: a ping would not get through, and nobody waits for one."""
    policy = Policy(heartbeat=1_000.0, send_timeout=10.0)
    async with still_house(["x" * 60_000] * 20, policy=policy) as home:
        page = await home.world.page(threads=("t1",))
        other = await home.world.page(threads=("t1",))
        page.vanish()
        await other.run("go").finished
        await home.world.advance(9.0)
        assert attached(home, page) is True
        await home.world.advance(2.0)
        assert attached(home, page) is False
        assert (await page.connect())["resumed"] is True
        await page.until(lambda: page.thread().last_run)
        assert page.messages == other.messages == home.history()
        assert page.thread().snapshots == 1


async def test_what_it_sent_before_it_was_missed_counts_once() -> None:
    """Its reply went nowhere; it is sent again over the next socket."""
    async with still_house([call("t")], "ok") as home:
        page = await home.world.page(tools={"t": None})
        run = page.run("go")
        held = await page.next_call()
        await held.start()
        page.stop_reading()
        answer = page.document.post(
            {"type": "tool.result", "callId": held.call_id, "attempt": 1, "result": "done"}
        )
        await home.world.settle()
        page.vanish()
        await home.world.advance(60.0)
        assert attached(home, page) is False
        assert [m["content"] for m in home.results()] == ["done"]
        await page.connect()
        await page.until(answer.done)
        assert answer.result() == {"status": "applied"}
        assert (await run.finished)["reason"] == "completed"
        assert len(home.steps) == 2


@pytest.mark.parametrize("pongs", [True, False])
async def test_a_page_that_is_there_is_never_missed_however_quiet_it_is(pongs: bool) -> None:
    """`ping` frames go out each heartbeat; one whose scripts are busy answers the transport's."""
    async with still_house("hi", policy=Policy(heartbeat=20.0)) as home:
        page = await home.world.page()
        page.pongs = pongs
        await home.world.advance(3_600.0)
        assert attached(home, page) is True
        assert sum(frame["type"] == "ping" for frame in page.frames) == 180


# ---- a page that does not read ----------------------------------------------------------------


async def test_a_page_that_stopped_reading_is_dropped_and_resumes_with_its_call() -> None:
    policy = Policy(send_timeout=10.0)
    script: list[Any] = [[*(["x" * 60_000] * 20), call("t", {"n": 1})], "ok"]
    async with still_house(*script, policy=policy) as home:
        page = await home.world.page(tools={"t": None})
        page.stop_reading()
        run = page.run("go")
        await home.world.settle()
        await home.world.advance(9.0)
        assert attached(home, page) is True
        await home.world.advance(2.0)
        assert attached(home, page) is False
        assert (await page.reconnect())["resumed"] is True
        held = await page.next_call()
        assert await held.start() == "go"
        assert await held.answer("done") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert page.messages == home.history()
        assert [each.attempt for each in page.calls] == [1]


# ---- over a network ---------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what only the server's own timers bring about."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_network_that_carries_nothing_more_costs_a_page_its_socket_only() -> None:
    """No FIN, no reset: both ends stay open, and what was on its way comes late."""
    policy = Policy(heartbeat=0.4)
    agent = Talker()
    async with (
        house(agent=agent, policy=policy) as home,
        FaultProxy(int(home.url.rsplit(":")[-1])).running() as proxy,
    ):
        page = Page.dial(f"ws://127.0.0.1:{proxy.port}/", tools={"t": None})
        home.pages.append(page)
        home.stack.push_async_callback(page.leave)
        await page.connect()
        run = page.run("go")
        await agent.gate.reached.wait()
        await page.until(lambda: page.thread().text == "before ")
        proxy.stall()
        agent.gate.open()
        await until(lambda: attached(home, page) is False)
        assert page.closed_with is None, "the page was to believe in its socket"
        assert (await page.reconnect())["resumed"] is True
        proxy.flow()
        held = await page.next_call()
        assert await held.start() == "go"
        assert await held.answer("done") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert page.events == home.events()
        assert page.messages == home.history()
        await page.leave()


async def test_a_page_that_stops_reading_a_real_socket_is_dropped_and_resumes() -> None:
    """25 MB: more than the kernels and the page's own library take for it."""
    policy = Policy(send_timeout=0.5, output_bytes=1 << 26, log_bytes=1 << 26)
    async with house(["z" * 500_000] * 50, policy=policy) as home:
        page = await home.page(threads=("t1",))
        page.stop_reading()
        other = await home.page(threads=("t2",))
        await other.run("go", thread_id="t1").accepted
        await until(lambda: attached(home, page) is False)
        assert attached(home, other) is True
        await until(lambda: bool(home.events(kind="RUN_FINISHED")))
        assert (await page.reconnect())["resumed"] is True
        await page.until(lambda: page.thread().last_run)
        assert page.messages == home.history()
