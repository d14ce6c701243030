"""What happens at the end of a loop's tick, and in which order."""

import asyncio
from typing import Any, cast

import pytest

from handspan import Bridge, Run
from handspan.core.parties import ThreadKey
from handspan.core.thread import Thread
from handspan.shell.tick import Tick
from handspan.testing import Page
from handspan_protocol.ids import ThreadId

KEY = ThreadKey("p", ThreadId("t"))
THREAD = cast(Thread, object())


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_what_is_said_in_a_tick_is_told_before_readers_are_woken_once() -> None:
    happened: list[Any] = []
    tick = Tick(asyncio.get_running_loop(), happened.append)

    def tell() -> None:
        happened.append("told")
        tick.grew(KEY, THREAD)

    tick.say(tell)
    tick.grew(KEY, THREAD)
    assert happened == []
    await turn()
    assert happened == ["told", THREAD]
    tick.grew(KEY, THREAD)
    await turn()
    assert happened == ["told", THREAD, THREAD]


async def test_one_that_breaks_keeps_no_reader_asleep() -> None:
    happened: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: happened.append(type(context["exception"])))
    tick = Tick(loop, happened.append)

    def broken() -> None:
        raise RuntimeError

    tick.grew(KEY, THREAD)
    tick.say(broken)
    await turn()
    assert happened == [THREAD, RuntimeError]
    tick.grew(KEY, THREAD)
    await turn()
    assert happened[2:] == [THREAD]


async def test_texts_keep_their_place_among_all_that_a_step_says() -> None:
    """Deltas of one tick are told together, and before whatever comes behind them."""

    async def agent(run: Run) -> Any:
        yield "a"
        yield "b"
        run.custom("mark", 1)
        yield "c"
        run.set_state({"n": 1})
        yield run.reasoning("hm")
        yield "d"

    bridge = Bridge(agents={"default": agent})
    async with Page(bridge) as page:
        run = page.run("hi")
        await run.finished
        told = [e.get("delta") or e.get("name") or e["type"] for e in run.events]
    await bridge.close()
    wanted = ["a", "b", "mark", "c", "STATE_SNAPSHOT", "hm", "d"]
    assert [each for each in told if each in wanted] == wanted


async def test_a_text_of_a_class_of_its_own_is_taken_as_its_text() -> None:
    """Its methods are the agent's code, and none of them is called in the core (P14)."""

    class Odd(str):
        def __bool__(self) -> bool:
            raise RuntimeError

        def isascii(self) -> bool:
            raise RuntimeError

        def __str__(self) -> str:
            return "another"

    async def agent(run: Run) -> Any:
        yield Odd("odd")

    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("hi")
    await bridge.close()
    assert (result.reason, result.text) == ("completed", "odd")


@pytest.mark.parametrize("agent_ends", ["returns", "raises"])
async def test_the_last_words_of_a_step_are_heard_however_it_ends(agent_ends: str) -> None:
    async def agent(run: Run) -> Any:
        yield "last words"
        if agent_ends == "raises":
            raise ValueError

    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("hi")
    await bridge.close()
    assert result.text == "last words"
