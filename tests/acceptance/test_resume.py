"""Protocol 2, behaviour 5: a session outlives its sockets. P2, P9."""

from typing import Any

import pytest
from tests.acceptance.house import Gate, House, house

from handspan import Policy
from handspan.testing import call


def at_state(page: Any, state: str) -> Any:
    return lambda: any(c.state == state for c in page.calls)


async def holding(home: House, **definition: Any) -> tuple[Any, Any, Any]:
    """A page that holds a call which nobody answers yet."""
    page = await home.page(tools={"t": (definition, None)})
    run = page.run("go")
    return page, run, await page.next_call("t")


def sent(page: Any, kind: str) -> list[Any]:
    return [f for f in page.frames if f["type"] == kind]


# ---- the secret ------------------------------------------------------------------------------


async def test_a_page_with_its_secret_gets_its_session_back() -> None:
    async with house("hi") as home:
        page = await home.page(tools={"t": lambda args: 1})
        before = dict(page.session)
        welcome = await page.reconnect()
        assert welcome["resumed"] is True
        assert "reason" not in welcome
        assert welcome["session"]["id"] == before["id"]
        assert welcome["session"]["secret"] != before["secret"]
        assert len(home.bridge.sessions) == 1


@pytest.mark.parametrize("wrong", ["", "x", "secret", "0" * 64])
async def test_a_wrong_secret_gives_the_same_answer_as_an_unknown_session(wrong: str) -> None:
    async with house("hi") as home:
        page = await home.page()
        thief = await home.raw()
        welcome = await thief.hello(session={"id": page.session["id"], "secret": wrong})
        assert welcome["resumed"] is False
        assert welcome["reason"] == "unknown_session"
        nobody = await (await home.raw()).hello(session={"id": "s-none", "secret": wrong})
        assert nobody["reason"] == welcome["reason"]
        assert page.is_open


async def test_the_presented_secret_is_good_until_the_new_one_was_used() -> None:
    """Protocol 2: a welcome can get lost; all others are void."""
    async with house("hi") as home:
        page = await home.page()
        first = dict(page.session)
        await page.reconnect()
        second = dict(page.session)
        page.session = first  # as if the second welcome had been lost
        assert (await page.reconnect())["resumed"] is True
        third = dict(page.session)
        assert third["secret"] not in (first["secret"], second["secret"])
        page.session = second
        assert (await page.reconnect())["resumed"] is False
        page.session = third
        assert (await page.reconnect())["resumed"] is True
        page.session = first
        assert (await page.reconnect())["resumed"] is False


async def test_a_session_belongs_to_the_origin_that_opened_it() -> None:
    async with house("hi") as home:
        own = home.url.replace("ws://", "http://")
        page = await home.page(origin=own)
        other = await home.page(connect=False)
        other.session = dict(page.session)
        welcome = await other.connect(documentId=page.document.id)
        assert welcome["reason"] == "unknown_session"


# ---- the same document -----------------------------------------------------------------------


async def test_a_socket_cut_in_the_middle_of_a_run_loses_and_doubles_nothing() -> None:
    gate = Gate()

    async def agent(run: Any) -> Any:
        yield "before "
        await gate.wait()
        yield "while away "
        yield run.call("t", {"n": 1}) if run.depth == 0 else "after"

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": lambda args: "ran"})
        run = page.run("go")
        await gate.reached.wait()
        await page.until(lambda: page.thread().text == "before ")
        page.cut()
        gate.open()
        await page.reconnect()
        assert (await run.finished)["reason"] == "completed"
        assert page.events == home.events()
        assert page.messages == home.history()
        assert [c.attempt for c in page.calls] == [1]


async def test_the_newest_socket_wins_and_the_old_one_is_closed_with_4409() -> None:
    """Behaviour 5: takeover; the late close of the old one harms nothing."""
    async with house("hi") as home:
        old = await home.raw()
        welcome = await old.hello("d-1")
        new = await home.raw()
        again = await new.hello("d-1", session=welcome["session"])
        assert again["resumed"] is True
        assert await old.closed() == 4409
        await old.line.close()
        assert (await new.ask("thread.list"))["result"] == {"threads": []}
        assert [s.attached for s in home.bridge.sessions] == [True]


async def test_a_half_open_socket_is_taken_over_by_the_same_document() -> None:
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        page.vanish()
        assert (await page.reconnect())["resumed"] is True
        await asked.start()
        await asked.answer(1)
        await run.finished


async def test_a_command_that_had_no_reply_is_sent_again_and_carried_out_once() -> None:
    async with house("hi") as home:
        page = await home.page()
        page.stop_reading()
        run = page.run("go")
        await home_has(home, lambda: home.events(kind="RUN_FINISHED"))
        page.cut()
        await page.reconnect()
        await run.finished
        assert len(home.events(kind="RUN_STARTED")) == 1


async def home_has(home: House, condition: Any) -> None:
    """Wait for something on the server, by asking it over another page."""
    watcher = await home.page(threads=("t1",))
    await watcher.until(condition)


# ---- the journal -----------------------------------------------------------------------------


async def test_a_call_that_the_journal_lacks_is_sent_again_with_the_same_attempt() -> None:
    """Behaviour 3: dispatched, and the same document is back without it."""
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        await page.reconnect(calls=[])
        again = sent(page, "tool.call")[-1]
        assert len(sent(page, "tool.call")) == 2
        assert again["callId"] == asked.call_id
        assert again["attempt"] == asked.attempt == 1
        await asked.start()
        await asked.answer(1)
        await run.finished


@pytest.mark.parametrize("state", ["received", "started"])
async def test_a_call_that_the_journal_has_is_not_sent_again(state: str) -> None:
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        if state == "started":
            assert await asked.start() == "go"
        assert [e["state"] for e in page.document.journal] == [state]
        await page.reconnect()
        await page.ask("thread.list")
        assert len(sent(page, "tool.call")) == 1
        assert sent(page, "tool.cancel") == []
        if state == "received":
            assert await asked.start() == "go"
        assert await asked.answer(1) == "applied"
        await run.finished
        assert home.codes() == [None]


async def test_a_started_call_that_the_journal_lacks_counts_as_lost_with_its_document() -> None:
    """Behaviour 3: not idempotent: outcome_unknown, and the model is told so."""
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        await asked.start()
        await page.reconnect(calls=[])
        await run.finished
        assert home.codes() == ["outcome_unknown"]
        assert home.results()[0]["metadata"]["handspan"]["outcome"] == "unknown"
        assert len(sent(page, "tool.call")) == 1


async def test_a_result_made_while_the_socket_was_lost_is_sent_again_and_applied_once() -> None:
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        await asked.start()
        page.cut()
        answer = page.document.post(
            {"type": "tool.result", "callId": asked.call_id, "attempt": 1, "result": "done"}
        )
        asked._becomes("done")
        await page.reconnect()
        await page.until(answer.done)
        assert answer.result() == {"status": "applied"}
        await run.finished
        assert [m["content"] for m in home.results()] == ["done"]
        assert len(home.steps) == 2


async def test_a_result_whose_reply_was_lost_is_applied_once() -> None:
    """P2, P7."""
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        await asked.start()
        page.stop_reading()
        answer = page.document.post(
            {"type": "tool.result", "callId": asked.call_id, "attempt": 1, "result": "done"}
        )
        await home_has(home, lambda: home.events(kind="RUN_FINISHED"))
        page.cut()
        await page.reconnect()
        await page.until(answer.done)
        assert answer.result() == {"status": "applied"}
        await run.finished
        assert len(home.steps) == 2


async def test_entries_that_the_session_does_not_hold_are_called_off() -> None:
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        entries = [
            {"callId": asked.call_id, "attempt": 1, "state": "received"},
            {"callId": "c-stranger", "attempt": 1, "state": "started"},
        ]
        await page.reconnect(calls=entries)
        off = await page.expect(type="tool.cancel")
        assert (off["callId"], off["attempt"], off["reason"]) == ("c-stranger", 1, "unknown")
        assert len(sent(page, "tool.cancel")) == 1
        await asked.start()
        await asked.answer(1)
        await run.finished


async def test_a_call_settled_while_the_page_was_away_is_called_off_when_it_returns() -> None:
    async with house([call("t")], "ok") as home:
        page, run, asked = await holding(home)
        await asked.start()
        page.cut()
        other = await home.page(threads=("t1",))
        await other.until(lambda: other.thread().run)
        assert await other.abort()
        await page.reconnect()
        off = await page.expect(type="tool.cancel", callId=asked.call_id)
        assert off["attempt"] == 1
        assert off["reason"] == "aborted"
        assert asked.aborted
        await run.finished
        assert await asked.answer(1) == "aborted"


async def test_an_open_approval_is_asked_again_after_a_reconnect() -> None:
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": ({"approval": "always"}, lambda args: 1)})
        run = page.run("go")
        first = await page.expect(type="approval.request")
        await page.reconnect()
        again = await page.expect(type="approval.request")
        assert {**again, "expiresMs": 0} == {**first, "expiresMs": 0}
        assert await page.approve(again) == "applied"
        await run.finished


# ---- a new document --------------------------------------------------------------------------


async def test_a_reload_keeps_the_session_and_gets_snapshots() -> None:
    async with house("hi") as home:
        page = await home.page()
        await page.run("go").finished
        before = page.messages
        session = page.session["id"]
        welcome = await page.reload()
        assert welcome["resumed"] is True
        assert welcome["session"]["id"] == session
        await page.until(lambda: page.thread().snapshots)
        assert page.messages == before
        assert await page.ask("thread.list")


async def test_a_call_that_had_not_started_goes_to_the_new_document_as_another_attempt() -> None:
    """P2: a second attempt only when the first provably did not start."""
    async with house([call("t")], "ok") as home:
        page, run, first = await holding(home)
        await page.reload()
        second = await page.next_call()
        assert (second.call_id, second.attempt) == (first.call_id, 2)
        await second.start()
        await second.answer("second")
        await page.until(lambda: page.thread().last_run)
        assert [m["content"] for m in home.results()] == ["second"]
        assert run.id == page.thread().last_run["runId"]


async def test_a_call_that_had_started_is_not_run_again() -> None:
    async with house([call("t")], "ok") as home:
        page, _run, first = await holding(home)
        assert await first.start() == "go"
        await page.reload()
        await page.until(lambda: page.thread().last_run)
        assert home.codes() == ["outcome_unknown"]
        assert page.calls == []
        assert len(home.steps) == 2


@pytest.mark.parametrize("definition", [{"idempotent": True}, {"readOnly": True}])
async def test_a_started_call_of_an_idempotent_tool_is_given_to_the_new_document(
    definition: dict[str, Any],
) -> None:
    async with house([call("t")], "ok") as home:
        page, _run, first = await holding(home, **definition)
        await first.start()
        await page.reload()
        second = await page.next_call()
        assert second.attempt == 2
        await second.answer("again")
        await page.until(lambda: page.thread().last_run)
        assert [m["content"] for m in home.results()] == ["again"]


async def test_a_result_in_the_gone_document_s_journal_is_taken_before_anything_is_judged() -> None:
    """Behaviour 3, last line before Arguments."""
    async with house([call("t")], "ok") as home:
        page, _run, first = await holding(home)
        await first.start()
        done = [{"callId": first.call_id, "attempt": 1, "state": "done"}]
        await page.reload(calls=done)
        result = {"callId": first.call_id, "attempt": 1, "result": "saved"}
        assert await page.ask("tool.result", **result) == {"status": "applied"}
        await page.until(lambda: page.thread().last_run)
        assert [m["content"] for m in home.results()] == ["saved"]
        assert home.codes() == [None]


async def test_a_duplicated_tab_gets_a_session_of_its_own() -> None:
    """Behaviour 5: the old socket is alive."""
    async with house("hi") as home:
        page = await home.page()
        copy = await home.page(connect=False)
        copy.session = dict(page.session)
        welcome = await copy.connect()
        assert welcome["resumed"] is False
        assert welcome["reason"] == "session_in_use"
        assert page.is_open
        assert len(home.bridge.sessions) == 2


async def test_a_new_document_takes_over_when_the_old_socket_is_gone() -> None:
    async with house("hi") as home:
        page = await home.page()
        old = page.session["id"]
        page.cut()
        await home_has(home, lambda: not home.bridge.sessions[0].attached)
        page.renew()
        welcome = await page.connect()
        assert welcome["resumed"] is True
        assert welcome["session"]["id"] == old


async def test_a_new_document_keeps_the_tools_until_it_says_otherwise() -> None:
    """Protocol 5: until its first `tools` or `tools.update`."""
    async with house("hi") as home:
        socket = await home.raw()
        tools = [{"name": "t", "description": "t"}]
        welcome = await socket.hello("d-1", tools=tools, threads=[{"threadId": "t1"}])
        await socket.line.close()
        again = await home.raw()
        await again.hello("d-2", session=welcome["session"], reload=True)
        assert home.bridge.sessions[0].tools == ("t",)
        await again.ask("tools.update", add=[])
        await again.ask("tools.update", set=[])
        assert home.bridge.sessions[0].tools == ()


async def test_replies_of_another_document_are_not_given_to_the_new_one() -> None:
    """Protocol 3: replies are kept by (documentId, id)."""
    async with house("hi") as home:
        socket = await home.raw()
        welcome = await socket.hello("d-1")
        await socket.send(type="thread.open", id="1", threadId="a")
        await socket.expect(type="reply", id="1")
        await socket.line.close()
        again = await home.raw()
        await again.hello("d-2", session=welcome["session"], reload=True)
        await again.send(type="thread.open", id="1", threadId="b")
        assert (await again.expect(type="reply", id="1"))["result"] == {"threadId": "b"}


async def test_a_lost_session_gets_a_new_one_and_snapshots() -> None:
    async with house("hi", policy=Policy(resume_window=0.05, page_grace=0.05)) as home:
        page = await home.page()
        await page.run("go").finished
        watcher = await home.page(threads=("t2",))
        page.cut()
        await watcher.until(lambda: True)
        while len(home.bridge.sessions) > 1:
            await watcher.ask("thread.list")
        welcome = await page.reconnect()
        assert welcome["resumed"] is False
        assert welcome["reason"] == "unknown_session"
        assert [m["content"] for m in page.messages] == ["go", "hi"]
