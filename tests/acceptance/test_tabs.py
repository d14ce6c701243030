"""Several pages on one thread: who executes, who sees, who may. Protocol 6, P2, P8, behaviour 7."""

from typing import Any

import pytest
from tests.acceptance.house import House, house

from handspan import Principal
from handspan.testing import Refused, call


def whoever(token: str | None, request: Any) -> Principal | None:
    return Principal(token) if token else None


async def tab(home: House, title: str, **options: Any) -> Any:
    return await home.page(threads=("t1",), tools={"title": lambda args: title}, **options)


async def test_only_the_tab_that_started_a_run_executes_its_calls() -> None:
    """C081."""
    async with house([call("title")], lambda run: [str(run.results[0].value)]) as home:
        a, b = await tab(home, "A"), await tab(home, "B")
        await a.run("go").finished
        await b.run("go").finished
        assert [m["content"] for m in home.results()] == ["A", "B"]
        assert len(a.calls) == len(b.calls) == 1
        await b.leave()
        await a.run("go").finished
        assert [m["content"] for m in home.results()] == ["A", "B", "A"]


async def test_both_tabs_see_all_of_it() -> None:
    async with house([call("title")], "end") as home:
        a, b = await tab(home, "A"), await tab(home, "B")
        await a.run("go").finished
        await b.until(lambda: b.thread().last_run)
        assert b.events == a.events
        assert b.messages == a.messages


async def test_a_tool_that_the_starter_lacks_is_answered_by_another_tab_of_the_thread() -> None:
    """Protocol 6, rule 3: the most recently visible first."""
    async with house([call("title")], "end") as home:
        starter = await home.page(threads=("t1",))
        older, newer = await tab(home, "older"), await tab(home, "newer")
        await older.look(False)
        await newer.look(False)
        await older.look(True)
        await older.ask("thread.list")
        await starter.run("go").finished
        assert [m["content"] for m in home.results()] == ["older"]
        assert newer.calls == []


async def test_a_tab_that_does_not_have_the_thread_open_is_never_asked() -> None:
    async with house([call("title")], "end") as home:
        starter = await home.page(threads=("t1",))
        elsewhere = await home.page(threads=("t2",), tools={"title": lambda args: "no"})
        await starter.run("go").finished
        assert elsewhere.calls == []
        assert home.codes() == ["unknown_tool"]


async def test_the_exact_tool_of_another_tab_comes_before_the_starter_s_wildcard() -> None:
    """Protocol 6: 3 before 4."""
    async with house([call("title")], "end") as home:
        starter = await home.page(threads=("t1",), tools={"*": lambda args: "wild"})
        await tab(home, "exact")
        await starter.run("go").finished
        assert [m["content"] for m in home.results()] == ["exact"]


async def test_the_agent_is_shown_only_what_can_be_answered() -> None:
    """Protocol 5 and 6: the starter's tools and those of the other tabs, each once."""
    async with house("hi") as home:
        page = await home.page(threads=("t1",), tools={"mine": None, "both": None})
        await home.page(threads=("t1",), tools={"theirs": None, "both": None})
        await page.run("go").finished
        names = [t.name for t in home.steps[0].tools]
        assert sorted(names) == ["both", "mine", "theirs"]


async def test_threads_of_another_principal_are_neither_reachable_nor_shown() -> None:
    """Behaviour 7."""
    async with house([call("title")], "end", authenticate=whoever) as home:
        ann = await tab(home, "ann's", token="ann")
        await ann.run("secret plans").finished
        bob = await tab(home, "bob's", token="bob")
        await bob.until(lambda: bob.thread().snapshots)
        assert bob.messages == []
        listed = (await bob.ask("thread.list"))["threads"]
        assert "secret" not in str(listed)
        run = ann.run("more")
        assert await bob.abort(run.id) is False
        await run.finished
        for kind, extra in (("tool.started", {}), ("tool.result", {"result": 1})):
            with pytest.raises(Refused) as refused:
                await bob.ask(kind, callId=ann.calls[0].call_id, attempt=1, **extra)
            assert refused.value.code == "unknown_call"
        await bob.run("mine").finished
        assert [m["content"] for m in bob.messages if m["role"] == "tool"] == ["bob's"]
        assert len([m for m in ann.messages if m["role"] == "user"]) == 2
        with pytest.raises(Refused) as refused:
            await bob.ask("thread.delete", threadId="never")
        assert refused.value.code == "unknown_thread"


async def test_without_an_authenticator_tabs_share_a_thread_by_its_id() -> None:
    async with house("hi") as home:
        a = await home.page(threads=("shared",))
        await a.run("from a").finished
        b = await home.page(threads=("shared",))
        await b.until(lambda: b.thread().snapshots)
        assert b.messages == a.messages


async def test_a_session_of_another_principal_cannot_be_resumed() -> None:
    """P9."""
    async with house("hi", authenticate=whoever) as home:
        ann = await home.page(token="ann")
        thief = await home.page(token="bob", connect=False)
        thief.session = dict(ann.session)
        welcome = await thief.connect(documentId=ann.document.id)
        assert welcome["resumed"] is False
        assert welcome["reason"] == "unknown_session"
        assert ann.is_open
        await ann.run("still here").finished


async def test_a_thread_deleted_by_one_tab_is_gone_for_the_other() -> None:
    async with house("hi") as home:
        a, b = await home.page(), await home.page()
        await a.run("go").finished
        await a.ask("thread.delete", threadId="t1")
        await b.open("t1")
        await b.until(lambda: b.thread().snapshots >= 2)
        assert b.messages == []
