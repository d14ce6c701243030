"""What an application may get wrong: it is told so, and nobody else notices (P14)."""

import asyncio
import threading
from typing import Any

import pytest
from tests.acceptance.house import house, still_house

from handspan import (
    AgentFailed,
    Ask,
    Bridge,
    Deny,
    Handoff,
    ToolError,
    UsageError,
)
from handspan.core.transcript import broken_rules
from handspan.testing import ScriptedAgent, call
from handspan.testing.clock import settle


class Own(BaseException):
    pass


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("provider_error", "provider_error"),
        ("output_limit", "output_limit"),
        ("junk", "agent_error"),
        (None, "agent_error"),
        (5, "agent_error"),
    ],
)
async def test_an_agent_that_fails_with_any_code_ends_its_run(code: Any, told: str) -> None:
    async def agent(run: Any) -> Any:
        yield "half"
        raise AgentFailed("quota", code=code)

    async with still_house(agent=agent) as home:
        result = await home.bridge.run("hi", thread_id="t1")
        assert (result.reason, result.error.code) == ("failed", told)
        await settle()


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, SystemExit, Own])
async def test_an_observer_may_leave_by_any_door(error: Any) -> None:
    async with still_house("Hello.") as home:

        @home.bridge.observe
        def leaves(thread_id: str, event: Any) -> None:
            event["type"] = "changed"
            raise error

        assert (await home.bridge.run("hi", thread_id="t1")).text == "Hello."
        assert {event["type"] for event in home.events()} >= {"RUN_STARTED", "RUN_FINISHED"}
        await settle()


@pytest.mark.parametrize("reason", [float("nan"), b"x", object(), 123, ["a"], "x" * 9_000])
@pytest.mark.parametrize("kind", [Deny, Ask])
async def test_a_reason_that_is_no_text_is_none(kind: Any, reason: Any) -> None:
    """A question must be one that can be sent, and a refusal one that history can hold."""
    async with still_house([call("t")], "ok") as home:

        @home.bridge.hook("before_call")
        async def says(asked: Any, next: Any) -> Any:
            return kind(reason)

        asked: list[Any] = []
        page = await home.world.page(tools={"t": lambda args: 1})
        page.on_approval(asked.append)
        run = page.run("go")
        await settle()
        if kind is Ask:
            assert asked[0].get("reason") in (None, "x" * 2_000)
        assert (await run.finished)["reason"] == "completed"
        assert broken_rules(home.history()) == []
        assert len(str(home.results()[0]["content"])) < 2_500
        await settle()


@pytest.mark.parametrize("reason", [123, object(), float("nan")])
async def test_a_run_is_denied_for_whatever_reason(reason: Any) -> None:
    async with still_house("ok") as home:

        @home.bridge.hook("before_run")
        async def no(asked: Any, next: Any) -> Any:
            return Deny(reason)

        result = await home.bridge.run("hi", thread_id="t1")
        assert result.error.code == "denied"
        assert isinstance(result.error.message, str)
        await settle()


@pytest.mark.parametrize(
    "failure", [(5,), (None,), (object(),), ("m", object()), ("m", 5), ("m", "a b")]
)
async def test_a_tool_error_of_any_kind_settles_its_call_at_once(failure: Any) -> None:
    async def fails() -> None:
        raise ToolError(*failure)

    async with still_house([call("fails")], "ok", tools=[fails]) as home:
        result = await home.bridge.run("hi", thread_id="t1")
        assert result.reason == "completed"
        assert home.codes() == ["handler_error"]
        assert broken_rules(home.history()) == []
        await settle()


@pytest.mark.parametrize(
    "item",
    [
        lambda run: run.call(5),
        lambda run: run.call(None),
        lambda run: run.call("t", id=5),
        lambda run: run.reasoning(5),
        lambda run: Handoff(5),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_item_fails_the_step_and_the_history_stays_valid(item: Any) -> None:
    async def agent(run: Any) -> Any:
        yield "half"
        yield item(run)

    async with still_house(agent=agent) as home:
        result = await home.bridge.run("hi", thread_id="t1")
        assert result.error.code == "agent_error"
        assert broken_rules(home.history()) == []
        await settle()


async def test_a_call_inside_the_step_wants_a_name() -> None:
    async def agent(run: Any) -> str:
        with pytest.raises(UsageError):
            await run.call_tool(["a"])
        return "ok"

    async with still_house(agent=agent) as home:
        assert (await home.bridge.run("hi", thread_id="t1")).text == "ok"
        await settle()


async def test_a_run_is_awaited_on_its_own_loop() -> None:
    def tool(run: Any) -> str:
        with pytest.raises(UsageError, match="own loop"):
            asyncio.run(run.call_tool("t"))
        return "ok"

    async with still_house(agent=tool) as home:
        assert (await home.bridge.run("hi", thread_id="t1")).text == "ok"
        await settle()


async def test_a_bridge_at_work_is_not_used_on_another_loop() -> None:
    async with house("ok") as home:
        page = await home.page()
        raised: list[Any] = []

        def elsewhere() -> None:
            try:
                asyncio.run(home.bridge.run("hi"))
            except UsageError as error:
                raised.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join, 5)
        assert len(raised) == 1
        assert (await page.run("go").finished)["reason"] == "completed"
        assert len(home.bridge.sessions) == 1


async def test_who_drains_refuses_runs_from_python_too() -> None:
    bridge = Bridge(agents={"default": ScriptedAgent(["Hello."])}, tools=[lone])
    await bridge.drain()
    assert (await bridge.run("hi")).error.code == "draining"
    assert (await bridge.call_tool("t1", "lone")).error.code == "draining"
    await bridge.close()


async def lone() -> int:
    "Nothing."
    return 1


@pytest.mark.parametrize(
    "misuse",
    [
        lambda bridge: bridge.run("hi", thread_id=5),
        lambda bridge: bridge.run("hi", principal="ann"),
        lambda bridge: bridge.run("hi", agent=["a"]),
        lambda bridge: bridge.call_tool("t1", "lone", args=[1]),
        lambda bridge: bridge.call_tool("t1", 5),
        lambda bridge: bridge.call_tool("t1", "lone", follow_up=5),
    ],
)
async def test_misuse_from_python_is_told_as_such(misuse: Any) -> None:
    bridge = Bridge(agents={"default": ScriptedAgent(["Hello."])}, tools=[lone])
    with pytest.raises(UsageError):
        await misuse(bridge)
    await bridge.close()


@pytest.mark.parametrize("ends", ["aborted", "deleted"])
async def test_p7_a_late_answer_finds_its_own_call_and_no_other_of_its_id(ends: str) -> None:
    """Providers number their calls; pages name them by their id alone."""
    step = [call("pay", {"who": "ann"}, id="call_0")]
    async with house(step, step, "ok") as home:
        page = await home.greeted(
            tools=[{"name": "pay", "description": "pays"}],
            threads=[{"threadId": "t1"}, {"threadId": "t2"}],
        )
        await page.ask("run.start", threadId="t1", message="go")
        first = await page.expect(type="tool.call")
        if ends == "aborted":
            await page.ask("run.abort", threadId="t1")
        else:
            await page.ask("thread.delete", threadId="t1")
        await page.ask("run.start", threadId="t2", message="go")
        second = await page.expect(type="tool.call")
        assert second["callId"] != first["callId"]
        answer = {"callId": first["callId"], "attempt": 1, "result": "paid ann"}
        said = await page.ask("tool.result", **answer)
        told = said.get("result", {}).get("status") or said["error"]["code"]
        assert told == ("aborted" if ends == "aborted" else "unknown_call")
        assert home.results("t2") == []
