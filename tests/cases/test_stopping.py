"""Ends that nobody planned: a stop, a timeout, a page that goes, a server that goes.

Cases C065, C071, C074, C075, C142, C153, C155; P1, P5, P6, P12.
"""

import asyncio
import logging
from typing import Any

import anyio
import pytest
from ag_ui.core import RunErrorEvent
from tests.acceptance.house import House, house, still_house

from handspan import Bridge, Policy
from handspan.testing import Lost, Pause, ScriptedAgent, call

ENDS = ("RUN_FINISHED", "RUN_ERROR")


def states(home: House, thread_id: str = "t1") -> dict[str, list[str]]:
    """What an observer was told of each call, in order."""
    told: dict[str, list[str]] = {}
    for event in home.events(thread_id, "CUSTOM"):
        told.setdefault(event["value"]["callId"], []).append(event["value"]["state"])
    return told


# ---- a stop is no error ----------------------------------------------------------------------


async def torn(run: Any) -> Any:
    """A stream that breaks when it is stopped, as a provider's client does."""
    try:
        yield "Hel"
        await asyncio.Event().wait()
    finally:
        raise ConnectionResetError("the provider's stream was closed")


async def says_so(run: Any) -> Any:
    """A remote agent that tells its own stop as an error."""
    try:
        yield "Hel"
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        yield RunErrorEvent(message="AbortError", code="abort")


@pytest.mark.parametrize("agent", [torn, says_so])
async def test_a_stop_is_one_quiet_end_however_the_agent_takes_it(
    agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C065: aborted, once, no error; nothing of it stands in the log as one."""
    unhandled: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(told))
    with caplog.at_level(logging.DEBUG):
        async with house(agent=agent) as home:
            page = await home.page()
            run = page.run("go")
            await page.until(lambda: page.thread().text == "Hel")
            assert await page.abort()
            assert await run.finished == {"reason": "aborted", "depth": 0}
            assert [e["type"] for e in home.events() if e["type"] in ENDS] == ["RUN_FINISHED"]
            await page.ask("thread.list")
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
    assert unhandled == []


# ---- time ------------------------------------------------------------------------------------


async def test_a_handler_that_is_too_slow_is_told_and_the_model_goes_on_without_it() -> None:
    """C071: at its own time; the signal fires, its late result changes nothing."""
    told: list[Any] = []
    async with still_house([call("slow")], "ok") as home:

        async def slow(args: Any, held: Any) -> str:
            await home.world.sleep(1.0)
            told.append((held.aborted, held.reason))
            return "at last"

        page = await home.world.page(tools={"slow": ({"timeoutMs": 150}, slow)})
        run = page.run("go")
        await home.world.advance(0.149)
        assert home.results() == []
        await home.world.advance(0.002)
        assert (await run.finished)["reason"] == "completed"
        assert home.codes() == ["timeout"]
        assert len(home.steps) == 2
        await home.world.advance(1.0)
        assert told == [(True, "timeout")]
        assert len(home.results()) == 1


async def test_without_a_wish_of_its_own_a_tool_has_the_time_of_the_policy() -> None:
    """C071: a setting, visible in every call; there is no "for ever", only the maximum."""
    async with still_house([call("slow")], "ok", policy=Policy(tool_timeout=5.0)) as home:
        page = await home.world.page(tools={"slow": None})
        page.run("go")
        held = await page.next_call()
        assert held.frame["timeoutMs"] == 5_000
        await held.start()
        await home.world.advance(4.9)
        assert home.results() == []
        await home.world.advance(0.2)
        assert home.codes() == ["timeout"]


# ---- each start has its end ------------------------------------------------------------------


async def said_goodbye(home: House, page: Any) -> None:
    await page.bye()
    await home.world.advance(31.0)


async def lost(home: House, page: Any) -> None:
    page.cut()
    await home.world.advance(31.0)


async def reloaded(home: House, page: Any) -> None:
    await page.reload(tools=[])
    await home.world.advance(31.0)


async def stopped(home: House, page: Any) -> None:
    await page.abort()


async def deleted(home: House, page: Any) -> None:
    await page.ask("thread.delete", threadId="t1")


@pytest.mark.parametrize("leave", [said_goodbye, lost, reloaded, stopped, deleted])
async def test_every_call_that_was_sent_out_has_one_end_however_its_page_goes(leave: Any) -> None:
    """C074: an observer hears one end for each start, and then the end of the run."""
    async with still_house([call("a"), call("b"), call("look")], "ok") as home:
        page = await home.world.page(
            tools={"a": None, "b": None, "look": ({"readOnly": True}, None)}
        )
        page.run("go")
        started, look = await page.next_call("a"), await page.next_call("look")
        await started.start()
        await leave(home, page)
        await home.world.settle()
        told = states(home)
        assert {started.call_id, look.call_id} <= told.keys()
        assert [s.count("settled") for s in told.values()] == [1] * 3
        assert all(s[-1] == "settled" for s in told.values())
        results = [e["toolCallId"] for e in home.events(kind="TOOL_CALL_RESULT")]
        assert sorted(results) == sorted(told)
        assert [e["type"] for e in home.events() if e["type"] in ENDS] == ["RUN_FINISHED"]


async def test_a_server_that_goes_ends_every_call_and_its_run() -> None:
    """C074: over a real socket; an observer hears the ends before the server is gone."""
    agent = ScriptedAgent([[call("a"), call("b")], "never"])
    home = House(Bridge(agents={"default": agent}), agent)
    async with home.bridge.running() as address:
        home.url = address.ws
        page = await home.page(tools={"a": None, "b": None})
        page.run("go")
        await (await page.next_call()).start()
    await home.stack.aclose()
    assert [s[-1] for s in states(home).values()] == ["settled"] * 2
    assert len(home.events(kind="TOOL_CALL_RESULT")) == 2
    assert home.events()[-1]["result"]["reason"] == "aborted"


async def test_a_waiting_program_wakes_when_the_page_that_it_waits_for_is_gone() -> None:
    """C074: code that awaits a call in Python gets a result that says so."""
    async with still_house("never") as home:
        page = await home.world.page(tools={"t": None})
        waiting = asyncio.ensure_future(home.bridge.call_tool("t1", "t"))
        held = await page.next_call()
        await held.start()
        await page.bye()
        result = await waiting
        assert (result.outcome, result.error.code) == ("unknown", "outcome_unknown")


# ---- a lost socket is no stop ----------------------------------------------------------------


async def test_a_run_goes_on_through_a_lost_socket_and_what_was_missed_comes() -> None:
    """C075: inside the grace."""
    gate = anyio.Event()
    async with house([call("t")], ["one ", Pause(gate), "two"]) as home:
        page = await home.page(tools={"t": None})
        watcher = await home.page(threads=("t1",))
        run = page.run("go")
        held = await page.next_call()
        await held.start()
        page.cut()
        gate.set()
        async with asyncio.timeout(5):
            while home.bridge.sessions[0].attached:
                await watcher.ask("thread.list")
        assert home.bridge.threads[0].run_id == run.id
        await page.reconnect()
        assert await held.answer("kept") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert page.events == home.events()
        assert page.thread().text == "one two"
        assert page.thread().snapshots == 1


async def test_outside_the_grace_a_run_is_aborted_if_the_policy_says_so() -> None:
    """C075: the history is valid, and a page that comes later is served."""
    policy = Policy(on_disconnect="abort")
    async with still_house([call("t"), call("t")], "ok", policy=policy) as home:
        page = await home.world.page(tools={"t": None})
        page.run("go")
        await (await page.next_call()).start()
        page.cut()
        await home.world.advance(31.0)
        (end,) = home.events(kind="RUN_FINISHED")
        assert end["result"]["reason"] == "aborted"
        assert len(home.results()) == 2
        assert None not in home.codes()
        assert len(home.steps) == 1
        await page.reconnect()
        assert (await page.run("again", ifBusy="reject").accepted)["runId"]
        await page.abort()


async def test_a_page_that_vanished_without_a_close_is_gone_within_the_bound() -> None:
    """C142: two heartbeats until it is known, then the grace; the call is told as lost."""
    policy = Policy(heartbeat=20.0, page_grace=30.0)
    async with still_house([call("t")], "ok", policy=policy) as home:
        page = await home.world.page(tools={"t": ({"timeoutMs": 900_000}, None)})
        page.run("go")
        held = await page.next_call()
        await held.start()
        page.vanish()
        await home.world.advance(20.0)
        assert home.bridge.sessions[0].attached
        await home.world.advance(2 * 20.0)
        assert not home.bridge.sessions[0].attached
        await home.world.advance(30.0)
        assert home.codes() == ["outcome_unknown"]
        assert [e["type"] for e in home.events() if e["type"] in ENDS] == ["RUN_FINISHED"]


# ---- nobody waits for ever -------------------------------------------------------------------


async def test_a_close_while_a_reply_is_awaited_wakes_both_sides() -> None:
    """C155: the page's waiting command fails, the server's call settles by its rule."""
    async with still_house("never") as home:
        page = await home.world.page(tools={"t": None})
        pressed = asyncio.ensure_future(page.run_tool("t"))
        held = await page.next_call()
        await held.start()
        page.cut()
        answering = asyncio.ensure_future(held.answer("on its way"))
        await home.world.settle()
        await page.leave()
        for waiting in (pressed, answering):
            with pytest.raises(Lost):
                await waiting
        assert home.results() == []
        await home.world.advance(31.0)
        assert home.codes() == ["outcome_unknown"]


async def test_a_server_that_forgot_the_page_wakes_what_waits_when_it_comes_back() -> None:
    """C155: the new session knows nothing of the command, and its handler is told to stop."""
    async with still_house("never") as home:
        page = await home.world.page(tools={"t": None})
        pressed = asyncio.ensure_future(page.run_tool("t"))
        held = await page.next_call()
        await held.start()
        page.cut()
        await home.world.advance(121.0)
        assert (await page.connect())["resumed"] is False
        with pytest.raises(Lost):
            await pressed
        assert (held.aborted, held.reason) == (True, "unknown")
        assert home.codes() == ["outcome_unknown"]


CROWD = 300
"""Calls of each route; all together more than the 1,024 settled ones that a thread remembers."""


async def test_of_a_thousand_calls_that_ended_badly_nothing_is_left() -> None:
    """C153: timeouts, stops, lost pages, pages that say goodbye; the thread is as it was."""
    crowd = [call("t", {"n": n}) for n in range(CROWD)]
    limits = dict.fromkeys(("calls_per_step", "open_calls_per_run"), CROWD)
    policy = Policy(**limits, open_calls_per_session=CROWD)  # type: ignore[arg-type]
    async with still_house(crowd, "ok", policy=policy) as home:
        definition = {"readOnly": True, "timeoutMs": 1_000}

        async def page() -> Any:
            return await home.world.page(tools={"t": (definition, None)})

        here = await page()
        for route in ("timeout", "abort", "drop", "bye"):
            here.run("go")
            await here.until(lambda page=here, all=CROWD: len(page.calls) % all == 0 and page.calls)
            await home.world.settle()
            assert sum(s.held_calls for s in home.bridge.sessions) == CROWD
            match route:
                case "timeout":
                    await home.world.advance(1.0)
                case "abort":
                    await here.abort()
                case "drop":
                    here.cut()
                    await home.world.advance(31.0)
                    await here.reconnect()
                case "bye":
                    await here.bye()
                    await home.world.advance(31.0)
            await home.world.settle()
            assert sum(s.held_calls for s in home.bridge.sessions) == 0
            assert home.bridge.threads[0].open_calls == 0
            assert home.world.leftovers() == []
        assert len(home.results()) == 4 * CROWD
        assert None not in home.codes()
