"""How a driver begins and ends, with a store that keeps things and with one that does not."""

import asyncio

import pytest
from tests.acceptance.restarts import Service, service
from tests.fake_store import FakeStore

from handspan import Bridge, Run
from handspan.core import inputs as i
from handspan.core.parties import Asker, ThreadKey
from handspan.stores.memory import MemoryStore
from handspan.testing.clock import settle
from handspan.testing.leftovers import of_work
from handspan_protocol.errors import Unavailable


async def silent(run: Run):
    """It never says anything."""
    await asyncio.Event().wait()
    yield ""


async def talking(run: Run):
    yield "hi"


class Opened(FakeStore):
    """A store that says when it was opened and closed."""

    def __init__(self, **given):
        super().__init__(**given)
        self.told = []

    def open(self, soon):
        self.told.append("open")
        super().open(soon)

    async def close(self):
        self.told.append("close")
        await super().close()


class Taken(FakeStore):
    """Another process has it."""

    def open(self, soon):
        raise Unavailable("another process has it")


# ---- the beginning ------------------------------------------------------------------------------


async def test_a_store_that_cannot_be_had_is_told_to_who_begins():
    bridge = Bridge(store=Taken(), agents={"default": silent})
    with pytest.raises(Unavailable, match="another process has it"):
        bridge._at_work()


async def test_p16_sessions_are_back_before_runs_go_on_so_that_calls_find_their_pages():
    async with service(silent) as here:
        page = await here.page(tools={"t": ({}, None)})
        page.run("go")
        await settle()
        await here.restart()
        driver, _ = here.bridge._at_work()
        (session,) = driver.hub.sessions.values()
        (thread,) = driver.hub.threads.values()
        assert thread.space.pages.keys() == {session.id}
        assert driver.timers.names == [session.id]
        assert session.running.total() == 1


async def test_a_thread_at_rest_is_not_read_before_somebody_asks():
    async with service(talking) as here:
        page = await here.page()
        await page.run("go").finished
        await here.restart()
        driver, _ = here.bridge._at_work()
        assert (len(driver.hub.threads), len(driver.hub.sessions)) == (0, 1)


@pytest.mark.parametrize("what", ["sessions", "threads"])
async def test_what_somebody_has_spoiled_keeps_nobody_else_from_coming_back(what, caplog):
    async with service(silent) as here:
        pages = [await here.page(threads=[name]) for name in ("t1", "t2")]
        for page, name in zip(pages, ("t1", "t2"), strict=True):
            page.run("go", thread=name)
        await settle()
        shelf = getattr(here.store.kept, what)
        spoiled = next(iter(shelf))
        shelf[spoiled] = dict.fromkeys(shelf[spoiled], b"no JSON")
        await here.restart()
        driver, _ = here.bridge._at_work()
        assert (len(driver.hub.sessions), len(driver.hub.threads)) == (
            (1, 2) if what == "sessions" else (2, 1)
        )
        assert len(driver.hub.active) == len(driver.hub.threads)
        assert "no JSON" not in caplog.text
        assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1


async def test_pages_of_one_application_have_their_tools_compiled_once():
    async with service(silent) as here:
        for _ in range(3):
            await here.page(tools={"t": ({"parameters": {"type": "object"}}, None)})
        await here.restart()
        driver, _ = here.bridge._at_work()
        specs = {id(one.tools.current["t"]) for one in driver.hub.sessions.values()}
        assert (len(driver.hub.sessions), len(specs)) == (3, 1)


async def test_a_store_that_keeps_nothing_is_not_asked_what_it_has():
    bridge = Bridge(store=MemoryStore(), agents={"default": silent})
    driver, _ = bridge._at_work()
    assert (driver.ledger.on, driver.hub.sessions) == (False, {})
    await bridge.close()


# ---- going down ---------------------------------------------------------------------------------


async def drained(here: Service):
    """The driver of the moment, and its drain under way."""
    driver, _ = here.bridge._at_work()
    task = asyncio.ensure_future(driver.drain())
    await settle()
    return driver, task


async def test_without_runs_a_drain_says_goodbye_at_once():
    async with service(talking) as here:
        page = await here.page()
        await page.run("go").finished
        await settle()
        driver, task = await drained(here)
        assert task.done()
        assert driver.is_draining
        assert driver.outlets.sockets == {}
        assert (await page.expect(type="goaway"))["reason"] == "restart"


async def test_a_drain_waits_for_the_last_run_and_refuses_others():
    done = asyncio.Event()

    async def waiting(run: Run):
        await done.wait()
        yield "done"

    async with service(waiting) as here:
        page = await here.page()
        run = page.run("go")
        await settle()
        _, task = await drained(here)
        assert not task.done()
        refused = page.run("more", thread="t2")
        with pytest.raises(Exception, match="draining"):
            await refused.finished
        done.set()
        assert (await run.finished)["reason"] == "completed"
        await settle()
        assert task.done()


async def test_p12_a_drain_waits_no_longer_than_its_grace():
    async with service(silent) as here:
        page = await here.page()
        page.run("go")
        await settle()
        _, task = await drained(here)
        await here.advance(9.9)
        assert not task.done()
        await here.advance(0.2)
        assert task.done()


# ---- the end ------------------------------------------------------------------------------------


async def test_close_aborts_what_nobody_keeps_also_what_waits_and_leaves_nothing():
    bridge = Bridge(store=MemoryStore(), agents={"default": silent})
    driver, _ = bridge._at_work()
    run = asyncio.ensure_future(bridge.run("one", thread_id="t1"))
    await settle()
    (key,) = driver.hub.active
    waits = i.RunRequested(asker=Asker(None, "x"), message=None, if_busy="queue")
    driver.tell_thread(key, waits)
    assert driver.hub.threads[key].runs.queue
    async with asyncio.timeout(5):
        await bridge.close()
    assert (await run).reason == "aborted"
    assert driver.hub.active == set()
    assert list(of_work(driver)) == []


async def test_p16_close_leaves_what_a_store_keeps_to_the_next_process():
    async with service(silent) as here:
        page = await here.page()
        page.run("go")
        await settle()
        await here.bridge.close()
        entries = here.store.kept.threads.values()
        assert [part for found in entries for part, _ in found].count("run") == 1
        here.store = here.store.crash()
        here.bridge = here.begin()
        await settle()
        driver, _ = here.bridge._at_work()
        assert len(driver.hub.active) == 1


async def test_a_store_is_closed_last_with_everything_that_was_written():
    store = Opened(by_itself=False)
    bridge = Bridge(store=store, agents={"default": talking})
    bridge._at_work()
    run = asyncio.ensure_future(bridge.run("go", thread_id="t1"))
    await settle()
    assert not run.done()
    await bridge.close()
    run.cancel()
    assert store.told == ["open", "close"]
    assert len(store.kept.threads) == 1


async def test_what_comes_behind_the_end_is_not_heard():
    bridge = Bridge(store=MemoryStore(), agents={"default": talking})
    driver, _ = bridge._at_work()
    await bridge.close()
    driver.tell_thread(ThreadKey("anonymous", "t1"), i.Restored(()), create=True)
    assert driver.hub.threads == {}
    assert driver.timers.names == []
