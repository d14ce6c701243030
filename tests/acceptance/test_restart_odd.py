"""P16 and P2 where a crash, a deploy or a deep value comes at an odd moment.

Each of these went wrong once. `tests/acceptance/restarts.py` has the harness, and
`test_restart.py` the plain cases.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.acceptance.restarts import Service, service

from handspan import Bridge, Principal, Run
from handspan.testing import Page
from handspan.testing.clock import settle
from handspan.testing.story import HandspanError
from handspan_protocol.errors import CloseCode, Unavailable


def calling(name: str, args: Any = None) -> Any:
    """An agent that calls a tool at depth 0, and then says what came of it."""

    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            yield run.call(name, args or {})
        else:
            yield f"It was {[r.value if r.error is None else r.error.code for r in run.results]}."

    return agent


async def greeting(run: Run) -> AsyncIterator[Any]:
    yield "hi"


async def endless(run: Run) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield ""


def keep_without_a_word(here: Service) -> None:
    """All that was written is kept, and the process ends before anybody hears of it."""
    for written in here.store.waiting:
        here.store.kept.apply(written.changes, written.at)
    here.store.waiting.clear()
    here.store._by_itself = True


# ---- a reply that was lost ----------------------------------------------------------------------


async def test_p2_leave_to_start_that_was_lost_in_the_crash_is_given_again() -> None:
    """The page never had it, so it has not begun; asked again, it hears the same."""
    ran: list[int] = []

    def t(_: Any) -> int:
        ran.append(1)
        return 7

    async with service(calling("t")) as here:
        page = await here.page(tools={"t": t})
        here.hold_commits()
        run = page.run("go")
        await settle()
        await here.commit()
        assert ran == []
        keep_without_a_word(here)
        await here.restart()
        await page.reconnect()
        assert (await run.finished)["reason"] == "completed"
        assert (ran, here.codes()) == ([1], [None])


async def test_a_button_of_one_whose_attributes_are_no_json_is_answered() -> None:
    """The run cannot go on without them; its call is taken back, and its asker hears of it."""
    who = Principal("ann", db=object())
    async with service(None, authenticate=lambda *_: who) as here:
        page = await here.page(tools={"t": ({"idempotent": True}, None)})
        asked = asyncio.ensure_future(page.run_tool("t", {}))
        held = await page.next_call("t")
        await here.restart()
        await page.reconnect()
        await settle()
        assert asked.done()
        assert here.history()[-1]["toolCallId"] == held.call_id
        [look] = here.bridge.threads
        assert look.run_id is None


# ---- a deploy -----------------------------------------------------------------------------------


async def test_p10_an_approval_is_for_the_server_tool_as_it_was() -> None:
    """The process that comes does something else under the same name."""
    ran: list[str] = []
    version = ["first"]

    def setup(bridge: Bridge) -> None:
        is_first, mine = version[0] == "first", version[0]

        async def pay(amount: int) -> None:
            ran.append(mine)

        pay.__doc__ = "Pay play money." if is_first else "Pay real money."
        bridge.tool(approval="always")(pay)

    async with service(calling("pay", {"amount": 1}), setup=setup) as here:
        page = await here.page()
        run = page.run("go")
        old = await page.expect(type="approval.request")
        version[0] = "second"
        await here.restart()
        await page.reconnect()
        await settle()
        new = [frame for frame in page.frames if frame["type"] == "approval.request"][-1]
        assert new["digest"] != old["digest"]
        answer = {"callId": old["callId"], "approved": True}
        status = await page.ask("approval.answer", digest=old["digest"], **answer)
        assert (status["status"], ran) == ("late", [])
        status = await page.ask("approval.answer", digest=new["digest"], **answer)
        assert (await run.finished)["reason"] == "completed"
        assert (status["status"], ran) == ("applied", ["second"])


def _ending(end: Any) -> str:
    """Of what a run ended with: its reason, or the code of its error."""
    return str(end.code if isinstance(end, HandspanError) else end["reason"])


async def test_p16_a_run_whose_agent_is_gone_fails_in_its_turn_and_the_next_one_goes_on() -> None:
    """It was accepted: everybody sees what became of it."""
    agents, done = {"slow": greeting}, asyncio.Event()

    async def waiting(run: Run) -> AsyncIterator[Any]:
        await done.wait()
        yield "hi"

    def setup(bridge: Bridge) -> None:
        for name, agent in agents.items():
            bridge.agent(name)(agent)

    async with service(waiting, setup=setup) as here:
        page = await here.page()
        runs = [page.run("one")]
        await settle()
        runs += [page.run("two", agent="slow", ifBusy="queue"), page.run("3", ifBusy="queue")]
        await settle()
        agents.clear()
        await here.restart()
        await page.reconnect()
        done.set()
        ends = await asyncio.gather(*(run.finished for run in runs), return_exceptions=True)
        assert [_ending(end) for end in ends] == ["completed", "agent_error", "completed"]
        await settle()
        said = [m["content"] for m in here.history()]
        assert said == ["one", "hi", "two", "3", "hi"]
        assert page.messages == here.history()


# ---- commits that come late ---------------------------------------------------------------------


async def test_p8_a_thread_that_was_deleted_while_its_opening_waited_leaves_no_ghost() -> None:
    async with service(greeting) as here:
        page = await here.page()
        await page.run("x").finished
        here.hold_commits()
        asked = [
            asyncio.ensure_future(page.ask(name, threadId=thread_id))
            for name in ("thread.open", "thread.delete")
            for thread_id in ("t1", "t2")
        ]
        await settle()
        here.store._by_itself = True
        await here.commit()
        async with asyncio.timeout(5):
            await asyncio.gather(*asked)
        assert (await page.ask("thread.list"))["threads"] == []
        assert list(here.bridge.threads) == []


async def begun(here: Service, ran: list[str]) -> asyncio.Task[Any]:
    """A run whose server tool waits for its record to be kept."""
    here.hold_commits()
    run = asyncio.ensure_future(here.bridge.run("go", thread_id="t1"))
    await settle()
    while not any(c.part == "call" for w in here.store.waiting for c in w.changes):
        await here.commit()
    assert ran == []
    return run


def paying(ran: list[str]) -> Any:
    def setup(bridge: Bridge) -> None:
        @bridge.tool
        async def pay() -> None:
            """Pay."""
            ran.append("began")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ran.append("stopped")
                raise

    return setup


async def test_p2_closing_begins_no_tool_whose_record_was_not_kept_yet() -> None:
    ran: list[str] = []
    async with service(calling("pay"), setup=paying(ran)) as here:
        run = await begun(here, ran)
        await here.bridge.close()
        run.cancel()
        assert ran == []
        await here.restart()


async def test_p4_a_server_tool_is_stopped_at_once_also_while_commits_wait() -> None:
    ran: list[str] = []
    async with service(calling("pay"), setup=paying(ran)) as here:
        page = await here.page()
        run = page.run("go")
        await settle()
        here.hold_commits()
        asked = asyncio.ensure_future(page.ask("run.abort", threadId="t1"))
        await settle()
        assert (ran, asked.done()) == (["began", "stopped"], False)
        await here.commit()
        here.store._by_itself = True
        assert (await run.finished)["reason"] == "aborted"
        assert (await asked)["aborted"] is True


async def test_p4_a_server_tool_that_was_stopped_before_it_began_never_begins() -> None:
    ran: list[str] = []
    async with service(calling("pay"), setup=paying(ran)) as here:
        page = await here.page()
        run = await begun(here, ran)
        asked = asyncio.ensure_future(page.ask("run.abort", threadId="t1"))
        await settle()
        here.store._by_itself = True
        await here.commit()
        assert (await asked)["aborted"] is True
        assert (ran, (await run).reason) == ([], "aborted")


# ---- deep values --------------------------------------------------------------------------------


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


async def test_p16_a_page_may_answer_as_deep_as_it_can() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": lambda _: nested(127)})
        assert (await page.run("go").finished)["reason"] == "completed"
        await here.restart()
        await page.reconnect()
        assert (await page.run("more").finished)["reason"] == "completed"
        await settle()
        assert page.messages == here.history()
        assert len(here.history()) > 4


@pytest.mark.parametrize("depth", [127, 250])
async def test_p16_a_deep_result_of_a_server_tool_does_not_keep_the_next_process_from_coming(
    depth: int,
) -> None:
    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            yield run.call("tree", {})
        else:
            seen.append(run.results[0].value)
            await asyncio.Event().wait()

    def setup(bridge: Bridge) -> None:
        @bridge.tool
        async def tree() -> object:
            """A tree."""
            return nested(depth)

    seen: list[Any] = []
    async with service(agent, setup=setup) as here:
        page = await here.page()
        page.run("go")
        await settle()
        await here.restart()
        assert seen == [nested(depth)] * 2


# ---- a store that fails once --------------------------------------------------------------------


async def failing_once(here: Service, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A page that opened t1 when it could not be read, and is back."""
    page = await here.page(threads=[])
    read, failures = here.store.thread, [Unavailable("busy")]

    def reading(key: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(key)

    monkeypatch.setattr(here.store, "thread", reading)
    page.wanted.append("t1")  # as `client/` does, before it has the reply
    asked = asyncio.ensure_future(page.open("t1"))
    assert await page.closed() == CloseCode.OUR_FAULT
    await page.reconnect()
    await asked
    return page


async def test_a_page_whose_thread_cannot_be_read_at_once_comes_back_and_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with service(greeting) as here:
        await (await here.page()).run("go").finished
        await here.restart()
        page = await failing_once(here, monkeypatch)
        await settle()
        assert page.thread("t1").messages == here.history() != []


async def test_a_page_whose_thread_could_not_be_read_at_once_hears_what_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with service(greeting) as here:
        page = await here.page()
        await page.run("go").finished
        await here.restart()
        other = await failing_once(here, monkeypatch)
        await page.reconnect()
        await page.run("more").finished
        await settle()
        assert other.thread("t1").messages == page.messages == here.history()
