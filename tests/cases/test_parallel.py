"""Several calls in one turn, of pages and of the server.

Cases C036, C038, C040, C045, C106; P1, P2, P12.
"""

import asyncio
import itertools
import json
from typing import Any

import pytest
from tests.acceptance.house import Gate, house, still_house, streamed

from handspan import Policy
from handspan.testing import Pause, call

LOOK = {"readOnly": True}


async def test_equal_runs_give_histories_that_are_equal_to_the_byte() -> None:
    """C036: whatever the order in which the answers come."""
    histories = set()
    for order in itertools.permutations(range(4)):
        async with still_house([call("t", {"n": n}) for n in range(4)], "ok") as home:
            page = await home.world.page(tools={"t": (LOOK, None)})
            run = page.run("go")
            calls = [await page.next_call() for _ in order]
            for at in order:
                await home.world.advance(0.1)
                await calls[at].answer(at)
            await run.finished
            histories.add(json.dumps(home.history()))
    assert len(histories) == 1


class Crowd:
    """How many are at work at the same time."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def work(self, pause: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await pause
        self.now -= 1


async def test_calls_that_do_not_depend_on_each_other_overlap() -> None:
    """C040: five of 200 ms take 200 ms together."""
    crowd = Crowd()
    async with still_house([call("t", {"n": n}) for n in range(5)], "ok") as home:

        async def slow(args: Any) -> int:
            await crowd.work(home.world.sleep(0.2))
            return int(args["n"])

        page = await home.world.page(tools={"t": (LOOK, slow)})
        run = page.run("go")
        await home.world.advance(0.2)
        assert (await run.finished)["reason"] == "completed"
        assert crowd.most == 5
        assert [m["content"] for m in home.results()] == ["0", "1", "2", "3", "4"]


async def test_server_tools_overlap_up_to_the_cap_that_was_set() -> None:
    """C040: with a cap of two never more than two are at work, and all are done."""
    crowd = Crowd()

    async def slow(n: int) -> int:
        """Takes 200 ms."""
        await crowd.work(home.world.sleep(0.2))
        return n

    step = [call("slow", {"n": n}) for n in range(5)]
    async with still_house(step, "ok", policy=Policy(server_tools_at_once=2), tools=[slow]) as home:
        page = await home.world.page()
        run = page.run("go")
        await home.world.advance(0.7)
        assert (await run.finished)["reason"] == "completed"
        assert crowd.most == 2
        assert [m["content"] for m in home.results()] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("server_first", [True, False])
async def test_a_tool_of_the_server_is_told_before_the_slow_one_of_the_page(
    server_first: bool,
) -> None:
    """C038: it runs once, one model is called next, and sees both results in call order."""
    ran: list[int] = []

    def quick() -> str:
        """At once."""
        ran.append(1)
        return "server"

    names = ["quick", "slow"] if server_first else ["slow", "quick"]
    async with house([call(name) for name in names], "ok", tools=[quick]) as home:
        page = await home.page(tools={"slow": None})
        run = page.run("go")
        held = await page.next_call()
        await page.until(
            lambda: [
                e["value"]["outcome"]
                for e in page.events
                if e["type"] == "CUSTOM" and e["value"]["state"] == "settled"
            ]
        )
        told = [e["content"] for e in page.events if e["type"] == "TOOL_CALL_RESULT"]
        assert told == (["server"] if server_first else [])
        assert len(home.steps) == 1
        await held.start()
        await held.answer("page")
        await run.finished
        assert ran == [1]
        assert [r.value for r in home.steps[1].results] == (
            ["server", "page"] if server_first else ["page", "server"]
        )
        assert [m.content for m in home.steps[1].messages if m.role == "tool"] == [
            r.value for r in home.steps[1].results
        ]


async def test_a_call_goes_to_its_page_when_the_turn_has_ended_and_the_text_is_whole() -> None:
    """C045: so no page can answer before it; one follow-up, and the text stands complete."""
    gate = Gate()
    step = [*streamed("c1", "t", "{}"), Pause(gate.opened), "and this is the rest"]
    async with house(step, "ok") as home:
        page = await home.page(tools={"t": lambda args: "answered"})
        run = page.run("go")
        await page.until(lambda: any(e["type"] == "TOOL_CALL_END" for e in page.events))
        await page.ask("thread.list")
        assert page.calls == []
        gate.open()
        await run.finished
        assert len(home.steps) == 2
        assert [m["content"] for m in home.results()] == ["answered"]
        assert "and this is the rest" in [m.get("content") for m in home.history()]


async def test_a_page_may_answer_while_the_step_that_waits_for_it_still_speaks() -> None:
    """C045: an answer that came before the end of the turn is kept, and not lost at the end."""
    answered = asyncio.Event()

    async def agent(run: Any) -> Any:
        waiting = asyncio.ensure_future(run.call_tool("t"))
        yield "one "
        await answered.wait()
        yield "two "
        yield f"three {(await waiting).value}"

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": None})
        run = page.run("go")
        held = await page.next_call()
        await held.start()
        assert await held.answer("!") == "applied"
        answered.set()
        assert (await run.finished)["reason"] == "completed"
        assert page.thread().text == "one two three !"
        assert [m["content"] for m in home.results()] == ["!"]


async def test_a_tool_that_waits_for_a_human_is_answered_by_its_id_and_by_nobody_else() -> None:
    """C106: of two that wait the second is answered; the first waits on, and so does the run."""
    step = [call("ask_user", {"q": "name?"}), call("ask_user", {"q": "age?"})]
    async with still_house(step, "ok") as home:
        definition = {"parallel": True, "timeoutMs": 900_000}
        page = await home.world.page(tools={"ask_user": (definition, None)})
        run = page.run("go")
        name, age = await page.next_call(), await page.next_call()
        for held in (name, age):
            await held.start()
        await home.world.advance(600.0)
        assert await age.answer(42) == "applied"
        await home.world.settle()
        assert (home.results(), len(home.steps), name.aborted) == ([], 1, False)
        watcher = await home.world.page()
        snapshot = await watcher.expect(type="snapshot")
        assert snapshot["run"]["status"] == "waiting"
        assert await name.answer("Ann") == "applied"
        await run.finished
        assert [m["content"] for m in home.results()] == ["Ann", "42"]
        assert len(home.steps) == 2
