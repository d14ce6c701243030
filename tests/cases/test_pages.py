"""One session over many sockets, and whose it is.

Cases C085, C087, C088, C093, C098, C148; P2, P8, P9.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.acceptance.house import House, house

from handspan import Principal
from handspan.testing import Pause, call

ROUNDS = 50


async def test_what_belongs_to_a_session_is_done_once_however_often_it_connects() -> None:
    """C085: one session, one run, one set of tools; a command sent again is not done again."""
    async with house("hello") as home:
        page = await home.page(tools={"t": lambda args: 1})
        first = page.session["id"]
        start = {"type": "run.start", "id": "start", "threadId": "t1", "message": "hi"}
        for _ in range(5):
            page.send(start)
            assert (await page.reconnect())["resumed"] is True
        page.send(start)
        await page.until(lambda: page.thread().last_run)
        assert [look.id for look in home.bridge.sessions] == [first]
        assert [look.tools for look in home.bridge.sessions] == [("t",)]
        assert len(home.events(kind="RUN_STARTED")) == 1
        assert [m["role"] for m in home.history()] == ["user", "assistant"]


async def test_connect_close_connect_leaves_one_session_and_one_tool() -> None:
    """C093: as a component that is mounted twice; what was registered twice is there once."""
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": lambda args: "first"})
        await page.leave()
        await page.connect()
        page.tool("t", {}, lambda args: "second")
        await page.run("go").finished
        assert [(s.attached, s.tools) for s in home.bridge.sessions] == [(True, ("t",))]
        assert [t.name for t in home.steps[0].tools] == ["t"]
        assert [m["content"] for m in home.results()] == ["second"]


async def test_a_storm_of_reconnects_with_the_same_tools_changes_nothing() -> None:
    """C098: no new revision, nothing told to observers or to the other pages."""
    tools = {f"t{n}": lambda args: 1 for n in range(30)}
    async with house("hi") as home:
        page = await home.page(tools=tools)
        other = await home.page(threads=("t1",))
        revision = (await page.ask("tools.update", add=[]))["revision"]
        await other.ask("thread.list")
        heard = len(other.frames)
        for _ in range(ROUNDS):
            page.cut()
            assert (await page.connect())["resumed"] is True
        assert (await page.ask("tools.update", add=[]))["revision"] == revision
        await other.ask("thread.list")
        assert [f["type"] for f in other.frames[heard:]] == ["reply"]
        assert home.events() == []
        assert len(home.bridge.sessions) == 2


# ---- what a page sees after it was away ------------------------------------------------------


def shape(messages: list[Any]) -> list[Any]:
    """A history without its ids."""
    return [(m["role"], m.get("content"), len(m.get("toolCalls", ()))) for m in messages]


@pytest.mark.parametrize("away", ["reconnect", "reload"])
@pytest.mark.parametrize("when", ["in the text", "behind the follow-up"])
async def test_a_page_that_comes_back_during_a_second_run_sees_each_message_once(
    away: str, when: str
) -> None:
    """C087: the old answer stays as it was, the new one stands apart, each id once."""
    gates = {"in the text": asyncio.Event(), "behind the follow-up": asyncio.Event()}

    def slow(point: str, run: Any) -> list[Any]:
        second = run.messages[-1].content == "second" or run.depth == 1
        return [Pause(gates[point])] if second and len(run.messages) > 3 else []

    def first_step(run: Any) -> list[Any]:
        return ["old or ", *slow("in the text", run), "new", call("t", {"n": len(run.messages)})]

    def follow_up(run: Any) -> list[Any]:
        return ["and ", *slow("behind the follow-up", run), "so on"]

    async with house(first_step, follow_up) as home:
        page = await home.page(tools={"t": ({"idempotent": True}, lambda args: args["n"])})
        calm = await home.page(threads=("t1",))
        await page.run("first").finished
        gates["in the text" if when != "in the text" else "behind the follow-up"].set()
        page.run("second")
        text = "old or " if when == "in the text" else "and "
        await page.until(lambda: page.messages[-1].get("content") == text and page.thread().run)
        await getattr(page, away)()
        gates[when].set()
        for one in (page, calm):
            await one.until(lambda one=one: len(one.messages) == 8 and one.thread().run is None)
        assert page.messages == calm.messages == home.history()
        assert max(Counter(m["id"] for m in page.messages).values()) == 1
        first, second = (shape(page.messages[at : at + 4]) for at in (0, 4))
        assert [m[0] for m in first] == [m[0] for m in second]
        runs = [e["runId"] for e in calm.events if e["type"] in ("RUN_STARTED", "RUN_FINISHED")]
        assert runs[0] == runs[1] != runs[2] == runs[3]


async def test_a_call_that_nobody_has_begun_is_offered_to_the_page_that_was_reloaded() -> None:
    """C088: under its id, marked as another attempt; once."""
    async with house([call("buy")], "ok") as home:
        page = await home.page(tools={"buy": None})
        page.run("go")
        held = await page.next_call()
        await page.reload()
        offered = await page.next_call()
        assert (offered.call_id, offered.attempt) == (held.call_id, held.attempt + 1)
        await offered.start()
        await offered.answer("bought")
        await page.until(lambda: page.thread().last_run)
        assert [m["content"] for m in home.results()] == ["bought"]
        assert [c.attempt for c in page.calls] == [2]


async def test_a_handler_whose_result_did_not_leave_is_not_run_again_by_the_same_page() -> None:
    """C088: the page answers from what it knows."""
    bought: list[int] = []
    async with house([call("buy")], "ok") as home:
        page = await home.page()

        @page.tool("buy")
        def buy(args: Any) -> str:
            bought.append(1)
            page.cut()
            return "bought"

        page.run("go")
        await page.until(lambda: bought)
        await page.reconnect()
        await page.until(lambda: page.thread().last_run)
        assert bought == [1]
        assert [m["content"] for m in home.results()] == ["bought"]
        assert len([f for f in page.frames if f["type"] == "tool.call"]) == 1


# ---- whose session it is ---------------------------------------------------------------------


def named(token: str | None, request: Any) -> Principal | None:
    return Principal(token) if token else None


async def claimed(home: House, session: dict[str, str], token: str) -> dict[str, Any]:
    """What a stranger is told who presents this session; without what is new every time."""
    stranger = await home.raw()
    told = await stranger.hello("d-stranger", token=token, session=session)
    return {key: value for key, value in told.items() if key != "session"} | {
        "is another": told["session"]["id"] != session["id"]
    }


async def test_another_user_with_the_id_and_even_the_secret_of_a_session_gets_nothing() -> None:
    """C148: the same answer as for a session that never was; the owner notices nothing."""
    async with house([call("t")], "ok", authenticate=named) as home:
        ann = await home.page(token="ann", tools={"t": None})
        run = ann.run("go")
        held = await ann.next_call()
        await held.start()
        session = dict(ann.session)
        guesses = [
            {"id": "s-that-never-was", "secret": session["secret"]},
            {"id": session["id"], "secret": "guessed"},
            session,
        ]
        told = [await claimed(home, guess, "bob") for guess in guesses]
        assert told == [told[0]] * 3
        assert (told[0]["resumed"], told[0]["reason"]) == (False, "unknown_session")
        assert told[0]["is another"]
        assert ann.is_open
        assert await held.answer("mine") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert ann.events == home.events()


async def test_a_rightful_owner_takes_over_from_a_socket_that_is_dead_but_open() -> None:
    """C148: nobody is locked out by his own half-open connection."""
    async with house([call("t")], "ok", authenticate=named) as home:
        ann = await home.page(token="ann", tools={"t": None})
        run = ann.run("go")
        held = await ann.next_call()
        await held.start()
        ann.vanish()
        assert (await ann.connect())["resumed"] is True
        assert await held.answer("mine") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert [s.principal for s in home.bridge.sessions] == ["ann"]
