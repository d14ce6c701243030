"""Protocol 3 (`tool.invoke`): a button carries out a call, with and without the agent after it."""

import json
from typing import Any

import pytest
from tests.acceptance.house import Gate, house, object_of

from handspan import Principal
from handspan.testing import Refused, call


async def test_a_button_leaves_a_call_and_its_result_and_asks_no_model() -> None:
    """C122, P1."""
    async with house("never") as home:
        page = await home.page(tools={"t": lambda args: args["x"] + 1})
        settled = await page.run_tool("t", {"x": 1}, followUp=False)
        assert settled["outcome"] == "ok"
        assert settled["result"] == 2
        assert home.steps == []
        asking, answer = home.history()
        assert asking["role"] == "assistant"
        assert [c["function"]["name"] for c in asking["toolCalls"]] == ["t"]
        assert asking["toolCalls"][0]["id"] == answer["toolCallId"] == settled["callId"]
        started, finished = (
            e for e in home.events() if e["type"] in ("RUN_STARTED", "RUN_FINISHED")
        )
        assert started["runId"] == settled["runId"]
        assert finished["result"] == {"reason": "no_follow_up", "depth": 0}


async def test_without_saying_so_there_is_no_follow_up() -> None:
    async with house("never") as home:
        page = await home.page(tools={"t": ({"followUp": True}, lambda args: 1)})
        await page.run_tool("t")
        await page.until(lambda: page.thread().last_run)
        assert home.steps == []


async def test_with_follow_up_the_agent_takes_over_at_depth_one() -> None:
    """C123."""
    async with house("zero", "one") as home:
        page = await home.page(tools={"t": ({"followUp": False}, lambda args: 42)})
        settled = await page.run_tool("t", {"x": 1}, followUp=True, runId="button")
        assert settled["runId"] == "button"
        await page.until(lambda: page.thread().last_run)
        assert page.thread().last_run["result"] == {"reason": "completed", "depth": 1}
        assert [m["role"] for m in page.messages] == ["assistant", "tool", "assistant"]
        assert page.messages[-1]["content"] == "one"
        assert [s.depth for s in home.steps] == [1]
        assert [r.value for r in home.steps[0].results] == [42]
        assert [e["stepName"] for e in page.events if e["type"] == "STEP_STARTED"] == [
            "step-0",
            "step-1",
        ]


async def test_a_text_is_added_as_a_user_message_after_the_result() -> None:
    """C123: the trigger's choice rules over the tool's default."""
    async with house("zero", "one") as home:
        page = await home.page(tools={"t": ({"followUp": False}, lambda args: 42)})
        await page.run_tool("t", followUp="explain")
        await page.until(lambda: page.thread().last_run)
        assert [(m["role"], m.get("content")) for m in page.messages] == [
            ("assistant", page.messages[0].get("content")),
            ("tool", "42"),
            ("user", "explain"),
            ("assistant", "one"),
        ]
        start = next(e for e in page.events if e["type"] == "TEXT_MESSAGE_START")
        assert start["role"] == "user"
        assert len(home.steps) == 1


@pytest.mark.parametrize("follow_up", [True, "explain"])
async def test_a_call_that_fails_is_never_followed_up(follow_up: Any) -> None:
    def broken(args: Any) -> None:
        raise ValueError("no")

    async with house("zero", "one") as home:
        page = await home.page(tools={"t": broken})
        settled = await page.run_tool("t", followUp=follow_up)
        assert settled["outcome"] == "error"
        assert settled["error"]["code"] == "handler_error"
        assert "result" not in settled
        await page.until(lambda: page.thread().last_run)
        assert page.thread().last_run["result"]["reason"] == "no_follow_up"
        assert home.steps == []
        assert [m["role"] for m in page.messages] == ["assistant", "tool"]


async def test_an_unknown_tool_is_an_error_and_leaves_no_trace() -> None:
    """C122."""
    async with house("never") as home:
        page = await home.page()
        with pytest.raises(Refused) as refused:
            await page.run_tool("nope", {"a": 1})
        assert refused.value.code == "unknown_tool"
        assert home.history() == []
        assert home.events() == []


async def test_bad_arguments_of_a_button_settle_the_call() -> None:
    """P3."""
    async with house("never") as home:
        page = await home.page(tools={"t": ({"parameters": object_of(x={})}, lambda args: 1)})
        settled = await page.run_tool("t", {"y": 1}, followUp=True)
        assert settled["outcome"] == "error"
        assert settled["error"]["code"] == "invalid_arguments"
        assert page.calls == []


async def test_the_wildcard_answers_a_button_too() -> None:
    async with house("never") as home:
        page = await home.page(tools={"*": lambda args: args})
        settled = await page.run_tool("zzz", {"k": 1})
        assert settled["result"] == {"toolName": "zzz", "args": {"k": 1}}


async def test_a_button_on_a_busy_thread_is_refused_or_waits_as_asked() -> None:
    """C126: histories never interleave."""
    async with house([call("ask")], "done") as home:
        page = await home.page(tools={"ask": None, "t": lambda args: "pressed"})
        run = page.run("go")
        asked = await page.next_call("ask")
        with pytest.raises(Refused) as refused:
            await page.run_tool("t")
        assert refused.value.code == "busy"
        waiting = page.document.post(
            {"type": "tool.invoke", "threadId": "t1", "name": "t", "args": {}, "ifBusy": "queue"}
        )
        await page.ask("thread.list")
        assert not waiting.done()
        await asked.start()
        await asked.answer("yes")
        await run.finished
        await page.until(waiting.done)
        assert waiting.result()["result"] == "pressed"
        assert [m["content"] for m in home.results()] == ["yes", "pressed"]


async def test_replacing_is_not_for_buttons() -> None:
    """Protocol 3: ifBusy is reject or queue."""
    async with house("x") as home:
        page = await home.page(tools={"t": lambda args: 1})
        with pytest.raises(Refused) as refused:
            await page.run_tool("t", ifBusy="replace")
        assert refused.value.code == "invalid_frame"
        assert refused.value.path == "/ifBusy"


async def test_a_server_tool_may_be_invoked_only_if_it_says_so() -> None:
    """Behaviour 7."""

    def secret() -> str:
        """Not for pages."""
        return "s"

    def price(sku: str) -> float:
        """For pages."""
        return 9.5

    async with house("x", tools=[secret]) as home:
        home.bridge.tool(invoke=True)(price)
        page = await home.page()
        with pytest.raises(Refused) as refused:
            await page.run_tool("secret")
        assert refused.value.code == "forbidden"
        assert home.history() == []
        assert (await page.run_tool("price", {"sku": "a"}))["result"] == 9.5


async def test_authorize_is_asked_with_the_tool_s_name() -> None:
    """Behaviour 7."""
    asked: list[Any] = []

    async def authorize(
        principal: Principal, action: str, thread_id: str | None, name: str | None = None
    ) -> bool:
        asked.append((action, thread_id, name))
        return name != "forbidden_one"

    async with house("hi", authorize=authorize) as home:
        page = await home.page(tools={"fine": lambda args: 1, "forbidden_one": lambda args: 1})
        await page.run_tool("fine")
        with pytest.raises(Refused) as refused:
            await page.run_tool("forbidden_one")
        assert refused.value.code == "forbidden"
        await page.run("x").finished
        await page.set_state({})
        await page.abort()
        assert ("invoke", "t1", "fine") in asked
        assert ("invoke", "t1", "forbidden_one") in asked
        assert [a for a in asked if a[0] == "run"] == [("run", "t1", None)]
        assert {a[0] for a in asked} >= {"open", "run", "invoke", "abort", "state"}
        assert len(home.results()) == 1


async def test_a_button_can_be_stopped() -> None:
    async with house("never") as home:
        page = await home.page(tools={"t": None})
        answer = page.document.post(
            {"type": "tool.invoke", "threadId": "t1", "runId": "b", "name": "t", "followUp": True}
        )
        asked = await page.next_call()
        await asked.start()
        assert await page.abort("b")
        await page.until(answer.done)
        assert answer.result()["outcome"] == "aborted"
        assert answer.result()["error"]["code"] == "aborted"
        await page.until(lambda: page.thread().last_run)
        assert page.thread().last_run["result"]["reason"] == "aborted"
        assert home.steps == []


async def test_the_reply_comes_when_the_call_has_settled_not_when_the_run_is_over() -> None:
    gate = Gate()

    async def agent(run: Any) -> Any:
        await gate.wait()
        yield "end"

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": lambda args: 1})
        settled = await page.run_tool("t", followUp=True)
        assert settled["outcome"] == "ok"
        await gate.reached.wait()
        assert page.thread().run is not None
        gate.open()
        await page.until(lambda: page.thread().last_run)
        assert json.loads(home.results()[0]["content"]) == 1
