"""A human in the loop, several times over. Cases C103, C104, C105, C107; P1, P2, P10."""

from typing import Any

from tests.acceptance.house import Gate, house

from handspan.testing import call

ASK = {"approval": "always", "parallel": True}


async def request(page: Any, name: str | None = None) -> Any:
    fields = {} if name is None else {"name": name}
    return await page.expect(type="approval.request", **fields)


async def test_a_second_question_is_answered_while_the_run_of_the_first_still_speaks() -> None:
    """C104: both are carried out, with real results and names; the talk goes on behind them."""
    gate = Gate()

    async def agent(run: Any) -> Any:
        if run.messages[-1].content == "thanks":
            yield "you are welcome"
        elif run.depth == 0:
            yield run.call("first", {"n": 1})
        else:
            yield "now the second: "
            second = await run.call_tool("second", {"n": 2})
            yield f"{second.value}, "
            await gate.wait()
            yield "done"

    async with house(agent=agent) as home:
        page = await home.page(
            tools={
                name: (ASK, lambda args, held: f"{held.name} ran") for name in ("first", "second")
            }
        )
        run = page.run("go")
        await page.approve(await request(page, "first"))
        second = await request(page, "second")
        assert page.thread().run is not None
        assert await page.approve(second) == "applied"
        await gate.reached.wait()
        assert page.thread().run is not None
        gate.open()
        assert (await run.finished)["reason"] == "completed"
        await page.run("thanks").finished
        assert [m["content"] for m in home.results()] == ["first ran", "second ran"]
        assert home.codes() == [None, None]
        made = [c for m in home.history() for c in m.get("toolCalls", ())]
        assert [c["function"]["name"] for c in made] == ["first", "second"]
        assert page.thread().text.endswith("second ran, doneyou are welcome")


async def test_what_is_allowed_is_sent_once_and_until_then_to_nobody() -> None:
    """C103."""
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": (ASK, lambda args: "ran")})
        watcher = await home.page(threads=("t1",), tools={"t": (ASK, lambda args: "wrong page")})
        run = page.run("go")
        asked = await request(page)
        assert [f for f in page.frames + watcher.frames if f["type"] == "tool.call"] == []
        assert await page.approve(asked) == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert (len(page.calls), watcher.calls) == (1, [])
        assert [m["content"] for m in home.results()] == ["ran"]


async def test_a_no_to_one_call_stands_though_its_tool_was_allowed_for_good() -> None:
    """C105: of two that were asked about, one is allowed with all later ones, one is denied."""
    step = [call("t", {"n": 1}), call("t", {"n": 2})]
    async with house(step, [call("t", {"n": 3})], "ok") as home:
        page = await home.page(tools={"t": (ASK, lambda args: f"ran {args['n']}")})
        run = page.run("go")
        one, two = await request(page), await request(page)
        assert await page.approve(one, remember=True) == "applied"
        assert await page.approve(two, False) == "applied"
        await run.finished
        assert home.codes() == [None, "denied", None]
        assert [c.args["n"] for c in page.calls] == [1, 3]
        assert len([f for f in page.frames if f["type"] == "approval.request"]) == 2


async def test_a_no_for_one_call_is_no_rule_for_the_next() -> None:
    """C105: there is nothing like "never again": the next call is asked about."""
    async with house([call("t", {"n": 1})], [call("t", {"n": 2})], "ok") as home:
        page = await home.page(tools={"t": (ASK, lambda args: "ran")})
        run = page.run("go")
        await page.approve(await request(page), False, remember=True)
        await page.approve(await request(page))
        await run.finished
        assert home.codes() == ["denied", None]


async def test_three_questions_of_one_turn_come_together_and_each_has_its_own_answer() -> None:
    """C107: answered in reverse, with arguments of their own; nothing is carried out twice."""
    ran: list[int] = []
    step = [call("t", {"n": n}) for n in (1, 2, 3)]
    async with house(step, "ok") as home:

        def handler(args: Any) -> int:
            ran.append(args["n"])
            return int(args["n"])

        page = await home.page(tools={"t": (ASK, handler)})
        run = page.run("go")
        asked = [await request(page) for _ in step]
        assert [one["args"]["n"] for one in asked] == [1, 2, 3]
        assert len({one["callId"] for one in asked}) == len({one["digest"] for one in asked}) == 3
        assert ran == []
        for one in reversed(asked):
            assert len(home.steps) == 1
            await page.approve(one, args={"n": one["args"]["n"] * 10})
        await run.finished
        assert sorted(ran) == [10, 20, 30]
        assert [m["content"] for m in home.results()] == ["10", "20", "30"]
        assert len(home.steps) == 2
