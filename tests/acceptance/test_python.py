"""The bridge from Python: runs, calls, agents, server tools. api.md."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import (
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    UserMessage,
)
from tests.acceptance.house import house

from handspan import Bridge, Handoff, Policy, Principal, Run, ToolError, UsageError
from handspan.core.transcript import broken_rules
from handspan.testing import Page, ScriptedAgent, call


async def test_a_run_from_python_gives_its_whole_result() -> None:
    async def agent(run: Any) -> Any:
        if run.depth == 0:
            yield "Let me see. "
            yield run.call("price", {"sku": "a"})
        else:
            run.output = {"price": run.results[0].value}
            yield f"It is {run.results[0].value}."

    async def price(sku: str) -> float:
        """The price of an article."""
        return 9.5

    bridge = Bridge(agents={"default": agent}, tools=[price])
    result = await bridge.run("how much?")
    assert result.reason == "completed"
    assert result.depth == 1
    assert result.text == "Let me see. It is 9.5."
    assert result.output == {"price": 9.5}
    assert result.error is None
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    await bridge.close()


async def test_runs_on_one_thread_share_its_history_and_others_do_not() -> None:
    agent = ScriptedAgent(["hi"])
    bridge = Bridge(agents={"default": agent})
    await bridge.run("one", thread_id="a")
    await bridge.run("two", thread_id="a")
    await bridge.run("other")
    await bridge.run("mine", thread_id="a", principal=Principal("ann"))
    assert [len(run.messages) for run in agent.seen] == [1, 3, 1, 1]
    assert len(bridge.threads) == 3
    await bridge.close()


async def test_a_run_that_fails_is_a_result_with_its_error() -> None:
    async def agent(run: Any) -> Any:
        yield "so far"
        raise RuntimeError("password hunter2")

    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("go")
    assert result.reason == "failed"
    assert result.error is not None
    assert result.error.code == "agent_error"
    assert "hunter2" not in result.error.message
    assert result.text == "so far"
    await bridge.close()


async def test_a_busy_thread_is_a_failed_result_and_misuse_raises() -> None:
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "x"
        await gate.wait()

    bridge = Bridge(agents={"default": agent})
    first = asyncio.ensure_future(bridge.run("a", thread_id="t"))
    await asyncio.sleep(0)
    second = await bridge.run("b", thread_id="t")
    assert second.reason == "failed"
    assert second.error is not None
    assert second.error.code == "busy"
    gate.set()
    assert (await first).reason == "completed"
    for wrong in ({"agent": "nobody"}, {"thread_id": "no id!"}):
        with pytest.raises(UsageError):
            await bridge.run("x", **wrong)
    with pytest.raises(UsageError):
        await bridge.run({"role": "system", "content": "x"})
    await bridge.close()


async def test_a_caller_who_is_cancelled_takes_the_run_with_him() -> None:
    started = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "x"
        started.set()
        await asyncio.Event().wait()

    bridge = Bridge(agents={"default": agent})
    task = asyncio.ensure_future(bridge.run("a", thread_id="t"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bridge.threads[0].run_id is None
    await bridge.close()


async def test_a_call_from_python_is_carried_out_by_a_page_of_the_thread() -> None:
    async with house("hi", "and then?") as home:
        page = await home.page(tools={"t": lambda args: args["n"] + 1})
        result = await home.bridge.call_tool("t1", "t", {"n": 1})
        assert (result.outcome, result.value, result.error) == ("ok", 2, None)
        assert result.ok
        assert home.steps == []
        await home.bridge.call_tool("t1", "t", {"n": 1}, follow_up=True)
        await page.until(lambda: page.messages[-1].get("content") == "and then?")
        failed = await home.bridge.call_tool("t1", "nope")
        assert failed.outcome == "error"
        assert failed.error.code == "unknown_tool"
        assert len(home.results()) == 2


async def test_a_run_from_python_uses_the_tools_of_the_pages_on_its_thread() -> None:
    """Protocol 6, rule 3: the first page rule for a run that no session started."""
    async with house([call("t")], "end") as home:
        page = await home.page(threads=("t1",), tools={"t": lambda args: "page"})
        result = await home.bridge.run("go", thread_id="t1")
        assert result.reason == "completed"
        assert [m["content"] for m in home.results()] == ["page"]
        await page.until(lambda: page.thread().last_run)
        assert page.messages == home.history()


# ---- agents ----------------------------------------------------------------------------------


async def generator(run: Run) -> Any:
    yield "he"
    yield "llo"


async def coroutine(run: Run) -> str:
    return "hello"


def plain(run: Run) -> str:
    return "hello"


def sync_generator(run: Run) -> Any:
    yield "he"
    yield "llo"


async def of_events(run: Run) -> Any:
    yield TextMessageStartEvent(message_id="m1", role="assistant")
    yield TextMessageContentEvent(message_id="m1", delta="hello")
    yield TextMessageEndEvent(message_id="m1")


class Callable_:  # noqa: N801 - an instance is the agent
    async def __call__(self, run: Run) -> Any:
        yield "hello"


@pytest.mark.parametrize(
    "agent", [generator, coroutine, plain, sync_generator, of_events, Callable_()]
)
async def test_an_agent_may_be_any_callable(agent: Any) -> None:
    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("go")
    assert (result.reason, result.text) == ("completed", "hello")
    assert broken_rules([m.model_dump(by_alias=True) for m in result.messages]) == []
    await bridge.close()


async def test_a_sync_agent_does_not_block_the_loop() -> None:
    """It lives in a worker thread."""
    told = threading.Event()

    def slow(run: Run) -> str:
        assert told.wait(5)
        return "done"

    bridge = Bridge(agents={"default": slow, "quick": coroutine})
    waiting = asyncio.ensure_future(bridge.run("go"))
    assert (await bridge.run("go", agent="quick")).text == "hello"
    told.set()
    assert (await waiting).text == "done"
    await bridge.close()


async def test_several_agents_and_a_handoff_between_them() -> None:
    """Behaviour 2: the first handoff counts, the siblings' calls are settled first."""
    seen: list[tuple[str, int]] = []

    async def front(run: Run) -> Any:
        seen.append((run.agent, run.depth))
        yield "One moment. "
        yield run.call("look", {})
        yield Handoff("billing")
        yield Handoff("nobody")

    async def billing(run: Run) -> Any:
        seen.append((run.agent, run.depth))
        yield f"I see {run.results[0].value}."

    async with house(agent=front, agents={"billing": billing}) as home:
        page = await home.page(tools={"look": lambda args: "a bill"})
        run = page.run("go")
        assert await run.finished == {"reason": "completed", "depth": 1}
        assert seen == [("default", 0), ("billing", 1)]
        assert page.thread().text == "One moment. I see a bill."
        assert len(home.events(kind="RUN_STARTED")) == 1


async def test_a_handoff_without_calls_goes_on_too() -> None:
    async def front(run: Run) -> Any:
        yield Handoff("billing")

    bridge = Bridge(agents={"default": front, "billing": coroutine})
    assert (await bridge.run("go")).text == "hello"
    await bridge.close()


async def test_an_endless_handoff_ends_at_the_greatest_depth() -> None:
    async def again(run: Run) -> Any:
        yield Handoff("default")

    bridge = Bridge(agents={"default": again}, policy=Policy(max_depth=3))
    result = await bridge.run("go")
    assert (result.reason, result.depth) == ("max_depth", 3)
    await bridge.close()


async def test_a_step_may_call_a_tool_and_wait_for_it() -> None:
    """Behaviour 2: `run.call_tool`."""

    async def agent(run: Run) -> Any:
        if run.depth:
            return
        yield "First "
        one = await run.call_tool("double", {"n": 1})
        two = await run.call_tool("double", {"n": one.value})
        yield f"then {two.value}"

    async with house(agent=agent) as home:
        page = await home.page(tools={"double": lambda args: args["n"] * 2})
        assert (await page.run("go").finished)["reason"] == "completed"
        shape = [(m["role"], m.get("content"), len(m.get("toolCalls", ()))) for m in home.history()]
        assert ("tool", "2", 0) in shape
        assert ("tool", "4", 0) in shape
        assert shape[1][:2] == ("assistant", "First ")
        assert "then 4" in [m.get("content") for m in home.history()]


async def test_calls_made_side_by_side_inside_a_step_join_one_message() -> None:
    async def agent(run: Run) -> Any:
        if run.depth == 0:
            both = await asyncio.gather(run.call_tool("t", {"n": 1}), run.call_tool("t", {"n": 2}))
            yield str([r.value for r in both])

    async with house(agent=agent) as home:
        page = await home.page(tools={"t": ({"readOnly": True}, None)})
        run = page.run("go")
        first, second = await page.next_call(), await page.next_call()
        await second.answer("b")
        await first.answer("a")
        await run.finished
        asking = [m for m in home.history() if m.get("toolCalls")]
        assert [len(m["toolCalls"]) for m in asking] == [2]
        assert [m["content"] for m in home.results()] == ["a", "b"]
        assert "['a', 'b']" in [m.get("content") for m in home.history()]


async def test_a_call_inside_a_step_that_fails_is_a_result_and_no_exception() -> None:
    async def agent(run: Run) -> Any:
        if run.depth == 0:
            result = await run.call_tool("nope")
            yield f"{result.outcome} {result.error.code if result.error else ''}"

    bridge = Bridge(agents={"default": agent})
    assert (await bridge.run("go")).text == "error unknown_tool"
    await bridge.close()


async def test_an_agent_may_stop_its_own_run() -> None:
    async def agent(run: Run) -> Any:
        yield "a"
        run.abort()
        yield "b"

    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("go")
    assert (result.reason, result.text) == ("aborted", "a")
    await bridge.close()


async def test_an_agent_that_yields_something_strange_fails_its_step() -> None:
    async def agent(run: Run) -> Any:
        yield "a"
        yield 7

    bridge = Bridge(agents={"default": agent})
    result = await bridge.run("go")
    assert result.reason == "failed"
    assert result.error is not None
    assert result.error.code == "agent_error"
    await bridge.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: 2}])
async def test_state_that_json_cannot_hold_is_a_usage_error_to_the_agent(value: Any) -> None:
    """P4; cases.md, Decided."""
    raised: list[BaseException] = []

    async def agent(run: Run) -> Any:
        try:
            run.set_state({"x": value})
        except UsageError as error:
            raised.append(error)
        yield "on"

    bridge = Bridge(agents={"default": agent})
    assert (await bridge.run("go", thread_id="t")).text == "on"
    assert len(raised) == 1
    assert bridge.threads[0].state == {}
    await bridge.close()


# ---- server tools ----------------------------------------------------------------------------


async def result_of(*tools: Any, args: Any = None, **options: Any) -> Any:
    """What one call of a server tool comes to."""
    name = options.pop("name", tools[0].__name__)
    agent = ScriptedAgent([[call(name, args or {})], "ok"])
    bridge = Bridge(agents={"default": agent})
    for tool in tools:
        bridge.tool(**options)(tool) if options else bridge.add_tool(tool)
    await bridge.run("go")
    await bridge.close()
    return agent.seen[1].results[0]


async def test_a_server_tool_has_its_schema_from_its_signature() -> None:
    def find(query: str, limit: int = 10) -> list[str]:
        """Finds things."""
        return [query] * limit

    agent = ScriptedAgent([[call("find", {"query": "a", "limit": 2})], [call("find", {})], "ok"])
    bridge = Bridge(agents={"default": agent}, tools=[find])
    await bridge.run("go")
    shown = agent.seen[0].tools[0]
    assert (shown.name, shown.description) == ("find", "Finds things.")
    assert shown.parameters["required"] == ["query"]
    assert shown.parameters["properties"]["limit"]["type"] == "integer"
    assert agent.seen[1].results[0].value == ["a", "a"]
    assert agent.seen[2].results[0].error.code == "invalid_arguments"
    await bridge.close()


async def test_a_tool_error_speaks_to_the_model_and_any_other_exception_does_not() -> None:
    def told() -> None:
        """Says why."""
        raise ToolError("the shop is closed")

    def silent() -> None:
        """Says nothing."""
        raise RuntimeError("password hunter2")

    result = await result_of(told)
    assert (result.outcome, result.error.message) == ("error", "the shop is closed")
    result = await result_of(silent)
    assert result.error.code == "handler_error"
    assert "hunter2" not in result.error.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": {"b": float("nan")}}])
async def test_a_server_tool_s_value_that_json_cannot_hold_is_an_invalid_result(value: Any) -> None:
    """cases.md, Decided; P4."""

    def odd() -> Any:
        """Odd."""
        return value

    assert (await result_of(odd)).error.code == "invalid_result"


async def test_a_server_tool_gets_the_run() -> None:
    def who(run: Run, greeting: str) -> str:
        """Who."""
        return f"{greeting} {run.principal.id} at depth {run.depth}"

    result = await result_of(who, args={"greeting": "hi"})
    assert result.value == "hi anonymous at depth 0"


async def test_server_tools_overlap_and_results_stand_in_call_order() -> None:
    """Behaviour 3 (Order)."""
    second_ran = asyncio.Event()

    async def first() -> str:
        """Waits for the second."""
        async with asyncio.timeout(5):
            await second_ran.wait()
        return "1"

    async def second() -> str:
        """Second."""
        second_ran.set()
        return "2"

    agent = ScriptedAgent([[call("first"), call("second")], "ok"])
    bridge = Bridge(agents={"default": agent}, tools=[first, second])
    await bridge.run("go")
    assert [r.value for r in agent.seen[1].results] == ["1", "2"]
    await bridge.close()


async def test_a_tool_of_the_server_and_one_of_the_page_in_one_step() -> None:
    async def server_side() -> str:
        """On the server."""
        return "server"

    async with house([call("page_side"), call("server_side")], "ok", tools=[server_side]) as home:
        page = await home.page(tools={"page_side": lambda args: "page"})
        await page.run("go").finished
        assert [m["content"] for m in home.results()] == ["page", "server"]
        assert len(home.steps) == 2


async def test_a_server_tool_that_takes_too_long_times_out() -> None:
    async def slow() -> None:
        """Slow."""
        await asyncio.Event().wait()

    result = await result_of(slow, timeout=0.05)
    assert result.error.code == "timeout"


async def test_what_a_bridge_cannot_use_is_refused_when_it_is_given() -> None:
    def tool(a: int) -> int:
        """T."""
        return a

    with pytest.raises(UsageError):
        Bridge(agents={"default": 7})  # type: ignore[dict-item]
    with pytest.raises(UsageError):
        Bridge(agents={"no id!": coroutine})
    with pytest.raises(UsageError):
        Bridge(store="postgres://")
    with pytest.raises(UsageError):
        Bridge().tool(name="no good!")(tool)
    with pytest.raises(UsageError):
        Bridge().tool(invented=True)(tool)
    with pytest.raises(UsageError):
        Bridge(policy=Policy(calls_per_step=-1))


async def test_a_bridge_can_be_looked_at() -> None:
    async with house([call("ask")], "ok") as home:
        page = await home.page(tools={"ask": None})
        page.run("go", run_id="r1")
        asked = await page.next_call()
        (thread,) = home.bridge.threads
        assert (thread.thread_id, thread.run_id, thread.open_calls) == ("t1", "r1", 1)
        (session,) = home.bridge.sessions
        assert session.id == page.session["id"]
        assert session.held_calls == 1
        assert session.threads == ("t1",)
        await asked.start()
        await asked.answer(1)
        await page.until(lambda: page.thread().last_run)


async def test_a_bridge_that_closes_leaves_no_run_and_no_page_behind() -> None:
    started = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "x"
        started.set()
        await asyncio.Event().wait()

    bridge = Bridge(agents={"default": agent})
    page = Page(bridge)
    await page.connect()
    page.run("go")
    async with asyncio.timeout(5):
        await started.wait()
        await bridge.close()
    assert await page.closed() == 1012
    assert bridge.threads == []
    await page.leave()


async def test_a_draining_bridge_takes_no_new_runs_and_says_goodbye() -> None:
    """Behaviour 6."""
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "x"
        await gate.wait()

    async with house(agent=agent) as home:
        page = await home.page()
        run = page.run("go")
        await page.until(lambda: page.thread().text == "x")
        draining = asyncio.ensure_future(home.bridge.drain())
        await page.ask("thread.list")
        refused = page.run("more", thread_id="t2")
        with pytest.raises(Exception, match="draining"):
            await refused.finished
        gate.set()
        assert (await run.finished)["reason"] == "completed"
        assert (await page.expect(type="goaway"))["reconnectAfterMs"] >= 0
        assert await page.closed() == 1012
        await draining


@pytest.mark.parametrize(
    "message",
    [
        {"content": "hi", "metadata": {"n": float("nan")}},
        {"content": "hi", "metadata": {"at": datetime(2026, 11, 30, tzinfo=UTC)}},
        [{"type": "text", "text": "hi", "metadata": {"n": float("inf")}}],
        UserMessage(id="u", content="hi", metadata={"n": float("inf")}),
    ],
)
async def test_p4_a_message_that_json_cannot_hold_is_misuse(message: Any) -> None:
    bridge = Bridge(agents={"default": ScriptedAgent(["Hello."])})
    with pytest.raises(UsageError):
        await bridge.run(message)
    await bridge.close()


async def test_p4_half_a_pair_in_a_message_is_mended() -> None:
    agent = ScriptedAgent(["Hello."])
    bridge = Bridge(agents={"default": agent})
    await bridge.run("a\ud800b")
    assert agent.seen[0].messages[0].content == "a\ufffdb"
    await bridge.close()
