"""Behaviour 3 and 5 under virtual time: how long a page may be away, and what of its calls."""

import asyncio
from typing import Any

import anyio
import pytest
from tests.acceptance.house import House, still_house

from handspan import Policy
from handspan.testing import Page, Pause, call


async def holding(home: House, **definition: Any) -> tuple[Page, Any, Page]:
    """A page that holds a call, the call, and another page that watches the thread."""
    page = await home.world.page(tools={"t": (definition, None)})
    watcher = await home.world.page(threads=("t1",))
    page.run("go")
    return page, await page.next_call(), watcher


async def test_a_call_waits_for_its_page_as_long_as_the_grace() -> None:
    async with still_house([call("t")], "ok") as home:
        page, asked, watcher = await holding(home, timeoutMs=600_000)
        page.cut()
        await home.world.advance(29.0)
        assert watcher.thread().run is not None
        await page.reconnect()
        await home.world.advance(31.0)
        assert watcher.thread().run is not None
        assert await asked.start() == "go"
        assert await asked.answer("back") == "applied"
        await home.world.settle()
        assert home.codes() == [None]


async def test_a_page_that_did_not_start_and_stays_away_is_page_gone() -> None:
    """Not started: safe to say so (protocol 8)."""
    async with still_house([call("t")], "ok") as home:
        page, _, watcher = await holding(home)
        page.cut()
        await home.world.advance(31.0)
        assert watcher.thread().last_run["result"]["reason"] == "completed"
        assert home.codes() == ["page_gone"]


async def test_a_page_that_had_started_and_stays_away_leaves_the_outcome_unknown() -> None:
    async with still_house([call("t")], "ok") as home:
        page, asked, _ = await holding(home)
        assert await asked.start() == "go"
        page.cut()
        await home.world.advance(29.0)
        assert home.results() == []
        await home.world.advance(2.0)
        assert home.codes() == ["outcome_unknown"]


@pytest.mark.parametrize("definition", [{"idempotent": True}, {"readOnly": True}])
async def test_an_idempotent_call_goes_to_another_page_when_its_own_is_gone(
    definition: dict[str, Any],
) -> None:
    async with still_house([call("t")], "ok") as home:
        page, asked, _ = await holding(home, **definition)
        await asked.start()
        other = await home.world.page(threads=("t1",), tools={"t": (definition, lambda args: "b")})
        page.cut()
        await home.world.advance(31.0)
        assert [c.attempt for c in other.calls] == [2]
        assert [m["content"] for m in home.results()] == ["b"]


async def test_a_call_that_did_not_start_goes_to_another_page_when_its_own_is_gone() -> None:
    """P2: a second attempt only when the first provably did not start."""
    async with still_house([call("t")], "ok") as home:
        page, asked, _ = await holding(home)
        other = await home.world.page(threads=("t1",), tools={"t": lambda args: "other"})
        page.cut()
        await home.world.advance(31.0)
        assert [(c.call_id, c.attempt) for c in other.calls] == [(asked.call_id, 2)]
        assert [m["content"] for m in home.results()] == ["other"]


async def test_a_call_made_while_the_page_is_away_waits_for_it_and_then_says_no_client() -> None:
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        if run.depth == 0:
            await gate.wait()
            yield run.call("t", {})

    async with still_house(agent=agent) as home:
        page = await home.world.page(tools={"t": lambda args: 1})
        watcher = await home.world.page(threads=("t1",))
        page.run("go")
        await home.world.settle()
        page.cut()
        await home.world.advance(5.0)
        gate.set()
        await home.world.advance(24.0)
        assert home.results() == []
        await home.world.advance(40.0)
        assert home.codes() == ["no_client"]
        assert watcher.thread().run is None


async def test_a_call_made_while_the_page_is_away_is_given_to_it_when_it_returns() -> None:
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        if run.depth == 0:
            await gate.wait()
            yield run.call("t", {})

    async with still_house(agent=agent) as home:
        page = await home.world.page(tools={"t": lambda args: "here"})
        run = page.run("go")
        await home.world.settle()
        page.cut()
        gate.set()
        await home.world.advance(10.0)
        await page.reconnect()
        await run.finished
        assert [(c.attempt, c.state) for c in page.calls] == [(1, "done")]
        assert home.codes() == [None]


async def test_a_session_can_be_resumed_within_its_window_and_not_after_it() -> None:
    async with still_house("hi") as home:
        page = await home.world.page()
        page.cut()
        await home.world.advance(119.0)
        assert (await page.reconnect())["resumed"] is True
        page.cut()
        await home.world.advance(121.0)
        assert home.bridge.sessions == []
        welcome = await page.reconnect()
        assert welcome["resumed"] is False
        assert welcome["reason"] == "unknown_session"


async def test_what_was_missed_in_the_window_comes_as_events_and_not_as_a_snapshot() -> None:
    """Behaviour 5: the thread's log is the only stream."""
    async with still_house("one", "two") as home:
        page = await home.world.page()
        other = await home.world.page(threads=("t1",))
        page.cut()
        await home.world.advance(100.0)
        await other.run("go").finished
        await page.reconnect()
        await home.world.settle()
        assert page.thread().snapshots == 1
        assert page.messages == other.messages


async def test_a_page_that_is_gone_keeps_its_tools_only_for_the_grace() -> None:
    """Protocol 5."""
    async with still_house("hi", "hi") as home:
        page = await home.world.page(tools={"t": lambda args: 1})
        other = await home.world.page(threads=("t1",))
        page.cut()
        await home.world.advance(29.0)
        await other.run("go").finished
        await home.world.advance(2.0)
        await other.run("go").finished
        assert [[t.name for t in step.tools] for step in home.steps] == [["t"], []]


async def test_a_disconnect_is_not_an_abort_unless_the_policy_says_so() -> None:
    """Behaviour 4: `on_disconnect`."""
    for policy, reason in ((Policy(), None), (Policy(on_disconnect="abort"), "aborted")):
        stop = asyncio.Event()

        async def agent(run: Any, stop: asyncio.Event = stop) -> Any:
            yield "thinking"
            await stop.wait()

        async with still_house(agent=agent, policy=policy) as home:
            page = await home.world.page()
            page.run("go")
            await home.world.settle()
            page.cut()
            await home.world.advance(29.0)
            assert home.bridge.threads[0].run_id is not None
            await home.world.advance(2.0)
            ended = home.events(kind="RUN_FINISHED")
            assert [e["result"]["reason"] for e in ended] == ([reason] if reason else [])
            stop.set()
            await home.world.settle()


async def test_a_bye_ends_the_session_at_once() -> None:
    async with still_house([call("t")], "ok") as home:
        page, asked, _ = await holding(home)
        await asked.start()
        page.send({"type": "bye"})
        await home.world.settle()
        assert home.codes() == ["outcome_unknown"]
        assert len(home.bridge.sessions) == 1


async def test_a_new_document_takes_over_from_a_socket_that_does_not_answer_a_ping() -> None:
    """Behaviour 5: within 2 s; meanwhile the new socket is not read further."""
    async with still_house("hi") as home:
        page = await home.world.page()
        session = page.session["id"]
        page.vanish()
        page.renew()
        coming = asyncio.ensure_future(page.connect())
        await home.world.advance(1.9)
        assert not coming.done()
        await home.world.advance(0.2)
        welcome = await coming
        assert welcome["resumed"] is True
        assert welcome["session"]["id"] == session


async def test_a_page_that_does_not_read_is_dropped_and_may_come_back() -> None:
    """Behaviour 6: a send blocked for send_timeout."""
    async with still_house(["x" * 60_000] * 20) as home:
        page = await home.world.page()
        watcher = await home.world.page(threads=("t1",))
        page.run("go")
        await home.world.settle()
        page.cut()
        await page.reconnect()
        page.stop_reading()
        run = watcher.run("go")
        await home.world.settle()
        await home.world.advance(11.0)
        await run.finished
        attached = {s.id: s.attached for s in home.bridge.sessions}
        assert attached[page.session["id"]] is False
        assert attached[watcher.session["id"]] is True
        await page.reconnect()
        await page.until(lambda: page.messages == watcher.messages)


async def test_a_page_that_reads_slowly_costs_nothing_but_its_own_lag() -> None:
    """Behaviour 6."""
    async with still_house(["x" * 1_000] * 500) as home:
        page = await home.world.page()
        slow = await home.world.page(threads=("t1",))
        slow.stop_reading()
        assert (await page.run("go").finished)["reason"] == "completed"
        await home.world.advance(5.0)
        slow.go_on_reading()
        await slow.until(lambda: slow.thread().last_run)
        assert slow.messages == page.messages
        assert slow.thread().snapshots == 1


async def test_a_run_on_a_thread_nobody_reads_goes_on() -> None:
    """Architecture: runs belong to the server, not to a connection."""
    async with still_house(["a", lambda run: run.call("t")], "end") as home:
        page = await home.world.page(threads=("t1",))
        page.run("go")
        await home.world.settle()
        await page.leave()
        await home.world.advance(200.0)
        assert home.bridge.threads[0].run_id is None
        assert [e["type"] for e in home.events()][-1] == "RUN_FINISHED"


async def test_a_task_that_was_called_off_leaves_no_timer_behind() -> None:
    async with still_house([Pause(anyio.Event())]) as home:
        page = await home.world.page()
        run = page.run("go")
        await home.world.settle()
        await page.abort()
        await run.finished
        await page.leave()
        await home.world.settle()
    assert home.world.leftovers() == []
