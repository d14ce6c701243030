"""P16: what a page was told survives the process, and what was under way goes on.

Behaviour 3's table for a restart of the server; `tests/acceptance/restarts.py` has the harness.
"""

import asyncio
from typing import Any

import pytest
from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from tests.acceptance.restarts import service

from handspan import Bridge, Run
from handspan.testing.clock import settle
from handspan.testing.story import HandspanError


def calling(name: str, args: Any = None, **more: Any) -> Any:
    """An agent that calls a tool at depth 0, and then says what came of it."""

    async def agent(run: Run) -> Any:
        if run.depth == 0:
            yield "I will. "
            yield run.call(name, args or {}, **more)
        else:
            yield f"It was {[r.value if r.error is None else r.error.code for r in run.results]}."

    return agent


IDEMPOTENT = [pytest.param({"idempotent": True}, id="idempotent"), pytest.param({}, id="other")]


async def test_p16_a_run_that_was_acknowledged_goes_on_in_the_next_process() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({}, None)})
        run = page.run("go")
        held = await page.next_call("t")
        await held.start()
        await here.restart()
        welcome = await page.reconnect()
        assert welcome["resumed"] is True
        assert await held.answer(5) == "applied"
        assert await run.finished == {"reason": "completed", "depth": 1}
        await settle()
        assert page.messages == here.history()
        assert [m["content"] for m in here.history() if m["role"] == "assistant"] == [
            "I will. ",
            "It was [5].",
        ]


@pytest.mark.parametrize("definition", IDEMPOTENT)
async def test_p2_a_call_that_the_page_has_not_received_is_sent_again(definition: Any) -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": (definition, None)})
        page.vanish()
        other = await here.page(tools={"u": ({}, None)})
        run = other.run("go")
        await settle()
        await here.restart()
        await page.connect()
        held = await page.next_call("t")
        assert held.attempt == 1
        await held.start()
        await held.answer("done")
        await other.connect()
        assert (await run.finished)["reason"] == "completed"
        assert len([c for c in page.calls if c.name == "t"]) == 1


@pytest.mark.parametrize("definition", IDEMPOTENT)
@pytest.mark.parametrize("started", [True, False])
async def test_p2_a_new_document_gets_only_what_may_be_run_again(
    definition: Any, started: bool
) -> None:
    """Behaviour 3, dispatched and started: the document went away, together with the server."""
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": (definition, None)})
        page.run("go")
        held = await page.next_call("t")
        if started:
            await held.start()
        await here.restart()
        await page.reload()
        await settle()
        if started and not definition:
            assert here.codes() == ["outcome_unknown"]
        else:
            again = await page.next_call("t")
            assert (again.call_id, again.attempt) == (held.call_id, 2)
            await again.start()
            await again.answer(1)
            await settle()
            assert here.codes() == [None]


async def test_p7_an_answer_whose_reply_was_lost_is_a_duplicate_in_the_next_process() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({}, None)})
        page.run("go")
        held = await page.next_call("t")
        await held.start()
        assert await held.answer(5) == "applied"
        await here.restart()
        await page.reconnect()
        frame = {"callId": held.call_id, "attempt": 1}
        assert await page.ask("tool.result", **frame, result=5) == {"status": "duplicate"}
        assert await page.ask("tool.result", **frame, result=6) == {"status": "conflict"}
        assert await page.ask("tool.started", **frame) == {"status": "late"}


async def test_the_model_is_asked_again_where_it_was_cut_off_and_half_a_text_is_gone() -> None:
    asked: list[int] = []

    async def agent(run: Run) -> Any:
        asked.append(len(run.messages))
        yield f"Try {len(asked)}"
        if len(asked) == 1:
            await never()

    async with service(agent) as here:
        page = await here.page()
        run = page.run("go")
        await settle()
        assert page.thread().text == "Try 1"
        await here.restart()
        await page.reconnect()
        assert (await run.finished)["reason"] == "completed"
        await settle()
        assert [m["content"] for m in page.messages] == ["go", "Try 2"]
        assert asked == [1, 1]
        assert page.messages == here.history()


async def test_p16_nothing_is_told_before_it_is_kept() -> None:
    """The reply, the events, the order, the leave and the verdict, each behind its commit."""
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({}, None)})
        here.hold_commits()
        run = page.run("go")
        await settle()
        assert (page.thread().events, page.calls) == ([], [])
        await here.commit()
        assert (await run.accepted)["runId"] == run.id
        assert page.thread().text == "I will. "
        [held] = page.calls
        go = asyncio.ensure_future(page.ask("tool.started", callId=held.call_id, attempt=1))
        await settle()
        assert not go.done()
        await here.commit()
        assert await go == {"status": "go"}
        applied = asyncio.ensure_future(held.answer(5))
        await settle()
        assert not applied.done()
        await here.commit()
        assert await applied == "applied"
        await here.commit()
        assert (await run.finished)["reason"] == "completed"


async def test_p16_what_was_not_kept_was_never_there() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({}, None)})
        here.hold_commits()
        run = page.run("go")
        await settle()
        await here.restart()
        assert here.bridge.threads == []
        here.hold_commits()
        again = asyncio.ensure_future(page.reconnect())  # and the command is sent again
        await settle()
        await here.commit()
        await again
        await settle()
        await here.commit()
        assert (await run.accepted)["runId"] == run.id


@pytest.mark.parametrize("definition", IDEMPOTENT)
async def test_p2_a_page_that_never_comes_back_is_given_up_after_the_grace(definition: Any) -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": (definition, None)})
        page.run("go")
        held = await page.next_call("t")
        await held.start()
        await here.restart()
        await here.advance(31)
        assert here.codes() == ["outcome_unknown"]
        [look] = here.bridge.threads
        assert look.run_id is None
        await here.advance(120)
        assert here.bridge.sessions == []
        assert here.store.sessions() == {}


async def test_a_run_is_closed_by_a_restart_where_the_policy_says_so() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({}, None)})
        run = page.run("go")
        held = await page.next_call("t")
        await held.start()
        await here.restart(on_restart="close")
        await page.reconnect()
        await settle()
        with pytest.raises(HandspanError) as failed:
            await run.finished
        assert failed.value.code == "internal"
        assert held.aborted
        assert here.codes() == ["outcome_unknown"]


async def test_runs_that_wait_begin_after_a_restart_in_their_order() -> None:
    asked: list[str] = []

    async def agent(run: Run) -> Any:
        asked.append(run.messages[-1].content)
        yield run.call("t") if run.depth == 0 else "ok"

    async with service(agent) as here:
        page = await here.page(tools={"t": ({}, None)})
        runs = [page.run(text, ifBusy="queue") for text in ("one", "two", "three")]
        held = await page.next_call("t")
        await here.restart()
        await page.reconnect()
        for _ in runs:
            await held.start()
            await held.answer(1)
            held = await page.next_call("t") if _ is not runs[-1] else held
        assert [(await run.finished)["reason"] for run in runs] == ["completed"] * 3
        assert [text for text in asked if isinstance(text, str) and text in "one two three"] == [
            "one",
            "two",
            "three",
        ]


async def test_p10_a_question_to_a_human_is_asked_again_and_its_answer_counts_once() -> None:
    async with service(calling("t")) as here:
        page = await here.page(tools={"t": ({"approval": "always"}, lambda args: "yes")})
        run = page.run("go")
        asked = await page.expect(type="approval.request")
        await here.restart()
        await page.reconnect()
        again = await page.expect(type="approval.request")
        assert {**again, "expiresMs": 0} == {**asked, "expiresMs": 0}
        answer = {"callId": asked["callId"], "digest": asked["digest"], "approved": True}
        assert await page.ask("approval.answer", **answer) == {"status": "applied"}
        await here.restart()
        await page.reconnect()
        assert await page.ask("approval.answer", **answer) == {"status": "duplicate"}
        assert (await run.finished)["reason"] == "completed"


async def test_p2_a_server_tool_at_work_is_run_again_only_if_it_may_be() -> None:
    ran: list[str] = []

    def tools(bridge: Bridge) -> None:
        async def once() -> str:
            "Not twice."
            ran.append("once")
            if ran.count("once") == 1:
                await never()
            return "x"

        async def often() -> str:
            "As often as you like."
            ran.append("often")
            if ran.count("often") == 1:
                await never()
            return "y"

        bridge.tool(once)
        bridge.tool(idempotent=True)(often)

    async def agent(run: Run) -> Any:
        if run.depth == 0:
            yield run.call("once")
            yield run.call("often")
        else:
            yield "ok"

    async with service(agent, setup=tools) as here:
        page = await here.page()
        run = page.run("go")
        await settle()
        await here.restart()
        await page.reconnect()
        assert (await run.finished)["reason"] == "completed"
        assert here.codes() == ["outcome_unknown", None]
        assert sorted(ran) == ["often", "often", "once"]


async def test_a_step_that_called_from_inside_is_not_asked_again_but_goes_on() -> None:
    depths: list[int] = []

    async def agent(run: Run) -> Any:
        depths.append(run.depth)
        if run.depth == 0:
            yield "Let me see. "
            await run.call_tool("t", {})
            await run.call_tool("t", {})
            yield "never said"
        else:
            yield f"after {len(run.messages)} messages"

    async with service(agent) as here:
        page = await here.page(tools={"t": ({}, None)})
        run = page.run("go")
        first = await page.next_call("t")
        await first.start()
        await first.answer(1)
        second = await page.next_call("t")
        await second.start()
        await here.restart()
        await page.reconnect()
        assert await second.answer(2) == "applied"
        assert await run.finished == {"reason": "completed", "depth": 1}
        assert depths == [0, 1]
        assert here.codes() == [None, None]


async def test_a_run_that_had_delegated_is_closed_since_nobody_waits_any_more() -> None:
    async def helper(run: Run) -> Any:
        yield run.call("t")

    async def agent(run: Run) -> Any:
        await run.delegate("helper", "please")
        yield "never"

    async with service(agent, setup=lambda bridge: bridge.add_agent("helper", helper)) as here:
        page = await here.page(tools={"t": ({}, None)})
        run = page.run("go")
        held = await page.next_call("t")
        await held.start()
        await here.restart()
        await page.reconnect()
        with pytest.raises(HandspanError):
            await run.finished
        assert held.aborted
        here.check()


async def test_a_button_is_answered_by_the_next_process() -> None:
    async with service(calling("u")) as here:
        page = await here.page(tools={"t": ({}, None)})
        pressed = asyncio.ensure_future(page.run_tool("t", {}))
        held = await page.next_call("t")
        await held.start()
        await here.restart()
        await page.reconnect()
        await held.answer("pushed")
        told = await pressed
        assert (told["outcome"], told["result"]) == ("ok", "pushed")


async def test_p16_state_that_was_taken_is_there_and_a_repeated_patch_is_not_applied_twice() -> (
    None
):
    async with service(calling("u")) as here:
        page = await here.page()
        await page.set_state({"n": []})
        patch = [{"op": "add", "path": "/n/-", "value": 1}]
        frame = {"type": "state.update", "id": "p1", "threadId": "t1", "patch": patch}
        page.send(frame)
        await page.expect(type="reply", id="p1")
        await here.restart()
        await page.reconnect()
        page.send(frame)
        assert (await page.expect(type="reply", id="p1"))["result"] == {}
        assert page.state == {"n": [1]}


async def test_a_thread_that_nobody_reads_comes_from_the_store_when_it_is_asked_for() -> None:
    async with service(calling("u")) as here:
        page = await here.page(threads=["a"])
        await page.run("hello").finished
        await here.restart()
        assert here.bridge.threads == []
        listed = (await page.reconnect(threads=[])) and await page.ask("thread.list")
        assert [(row["threadId"], row["title"]) for row in listed["threads"]] == [("a", "hello")]
        await page.open("a")
        assert [m["content"] for m in page.messages if m["role"] == "user"] == ["hello"]
        await page.ask("thread.delete", threadId="a")
        await here.restart()
        await page.reconnect(threads=[])
        assert await page.ask("thread.list") == {"threads": []}


async def test_p9_the_secrets_outlive_the_process_and_a_wrong_one_is_still_wrong() -> None:
    async with service(calling("u")) as here:
        page = await here.page()
        first = dict(page.session)
        await page.reconnect()
        await here.restart()
        assert all(
            page.session["secret"] not in str(e.body)
            for es in here.store.sessions().values()
            for e in es
        )
        thief = await here.page()
        thief.session = {**page.session, "secret": "0" * 64}
        assert (await thief.reconnect())["reason"] == "unknown_session"
        page.session = first  # the welcome with the newer one may have been lost
        assert (await page.reconnect())["resumed"] is True


async def test_observers_see_every_event_once_also_what_is_not_kept_yet() -> None:
    seen: list[str] = []

    def watch(bridge: Bridge) -> None:
        bridge.observe(lambda thread_id, event: seen.append(event["type"]))

    async with service(calling("t"), setup=watch) as here:
        page = await here.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        assert seen == [event["type"] for event in page.thread().events]


async def test_p7_a_providers_id_is_not_given_to_a_call_of_another_thread_after_a_restart() -> None:
    """A page may still have an answer for the first one, and names it by its id alone."""

    async def agent(run: Run) -> Any:
        if run.depth == 0:
            yield ToolCallStartEvent(tool_call_id="call_1", tool_call_name="t")
            yield ToolCallArgsEvent(tool_call_id="call_1", delta="{}")
            yield ToolCallEndEvent(tool_call_id="call_1")

    async with service(agent) as here:
        page = await here.page(threads=["a", "b"], tools={"t": lambda args: 1})
        await page.run("go", thread_id="a").finished
        await here.restart()
        await page.reconnect()
        await page.run("go", thread_id="b").finished
        assert [call.call_id for call in page.calls] == ["call_1", "c-1"]


async def test_a_call_that_waits_for_a_page_which_never_comes_back_is_given_up() -> None:
    async with service(calling("t")) as here:
        holder = await here.page(tools={"t": ({}, None)})
        starter = await here.page()
        holder.cut()
        await settle()
        run = starter.run("go")
        await settle()
        await here.restart()
        await starter.reconnect()
        await here.advance(31)
        assert (await run.finished)["reason"] == "completed"
        assert here.codes() == ["no_client"]


async def test_another_tab_that_had_the_tool_has_it_still_before_it_is_back() -> None:
    """Protocol 6: a page that has the thread open answers; a restart does not forget that."""

    async def agent(run: Run) -> Any:
        if run.depth == 0:
            await gate.wait()
            yield run.call("t")

    gate = asyncio.Event()
    async with service(agent) as here:
        other = await here.page(tools={"t": lambda args: "from the other tab"})
        starter = await here.page()
        run = starter.run("go")
        await settle()
        await here.restart()
        gate.set()
        await starter.reconnect()
        await settle()
        await other.reconnect()
        await run.finished
        assert here.codes() == [None]


async def never() -> None:
    await asyncio.get_running_loop().create_future()
