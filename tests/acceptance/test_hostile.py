"""What a stranger broke once: each input gets its code, and harms nothing else (P12, P14).

Every test ends by asking the same server for a plain run on the same thread.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from handspan import Bridge, Policy, Principal, Run
from handspan.core.policy import Policy as CorePolicy
from handspan.testing import Page
from handspan_protocol.tools import read_tool

WAIT_S = 5


def nested(levels: int) -> Any:
    return json.loads('{"a":' * levels + "1" + "}" * levels)


async def asked(page: Page, kind: str, **fields: Any) -> dict[str, Any]:
    """A command's whole reply, whatever it says."""
    page.send({"type": kind, "id": f"raw-{len(page.frames)}-{kind}", **fields})
    wanted = f"raw-{len(page.frames)}-{kind}"
    for _ in range(2_000):
        found = [f for f in page.frames if f["type"] == "reply" and f["id"] == wanted]
        if found:
            return dict(found[0])
        await asyncio.sleep(0)
    raise AssertionError(f"no reply to {kind}")


async def still_serves(bridge: Bridge, thread: str = "t1") -> None:
    async with asyncio.timeout(WAIT_S), Page(bridge, threads=[thread]) as page:
        assert (await page.run("hello").finished)["reason"] == "completed"


def house(agent: Callable[..., Any] | None = None, **policy: Any) -> Bridge:
    async def speaks(run: Run) -> AsyncIterator[Any]:
        yield "hi"

    return Bridge(policy=Policy(**policy), agents={"default": agent or speaks})


# ---- state ---------------------------------------------------------------------------------------


async def test_p12_a_patch_of_copies_is_refused_before_it_has_grown() -> None:
    """Each copy doubles the document; what counts is what the patch writes."""
    bridge = house()
    async with Page(bridge) as page:
        await asked(page, "state.update", threadId="t1", state={"a": ["x"]})
        patch = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
        reply = await asked(page, "state.update", threadId="t1", patch=patch)
        assert reply["error"]["code"] == "too_large"
    await still_serves(bridge)
    assert bridge.threads[0].state == {"a": ["x"]}
    await bridge.close()


async def test_p12_a_patch_of_too_many_operations_is_refused() -> None:
    bridge = house()
    async with Page(bridge) as page:
        patch = [{"op": "test", "path": "", "value": {}}] * 30_000
        reply = await asked(page, "state.update", threadId="t1", patch=patch)
        assert reply["error"]["code"] == "too_large"
    await still_serves(bridge)
    await bridge.close()


async def test_p12_a_state_cannot_be_nested_deeper_by_patches_than_a_frame_may_be() -> None:
    bridge = house()
    async with Page(bridge) as page:
        assert "result" in await asked(page, "state.update", threadId="t1", state=nested(120))
        patch = [{"op": "add", "path": "/a" * 120, "value": nested(120)}]
        reply = await asked(page, "state.update", threadId="t1", patch=patch)
        assert reply["error"]["code"] == "too_large"
    await still_serves(bridge)
    await bridge.close()


# ---- what raises inside --------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [10**400, 10**18, 1])
async def test_p12_any_integer_may_be_a_timeout_and_is_cut(wish: int) -> None:
    assert 0 < CorePolicy().timeout_of(wish) <= 900
    bridge = house()
    tool = {"name": "x", "description": "", "timeoutMs": wish}
    async with Page(bridge, auto=False) as page:
        await asked(page, "tools.update", set=[tool])
        page.send({"type": "tool.invoke", "id": "i", "threadId": "t1", "name": "x"})
        call = await page.expect(type="tool.call")
        assert 0 < call["timeoutMs"] <= 900_000
        await asked(page, "run.abort", threadId="t1")
    await still_serves(bridge)
    await bridge.close()


async def test_p14_an_observer_sees_a_message_as_deep_as_a_frame_may_be() -> None:
    bridge = house()
    seen: list[str] = []
    bridge.observe(lambda _, event: seen.append(event["type"]))
    message = {"role": "user", "content": "x", "metadata": nested(124)}
    async with Page(bridge) as page:
        reply = await asked(page, "run.start", threadId="t1", message=message)
        assert "result" in reply
    await still_serves(bridge)
    assert seen.count("RUN_STARTED") == 2
    await bridge.close()


# ---- agents and tools that leave by other doors --------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "a"
        if len(run.messages) < 3:
            raise error

    return agent


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), GeneratorExit(), SystemExit(3), BaseException("x")]
)
async def test_p14_an_agent_may_leave_by_any_door(error: BaseException) -> None:
    bridge = house(raising(error))
    async with asyncio.timeout(WAIT_S):
        done = await bridge.run("go", thread_id="t1")
    assert done.reason == "failed"
    assert done.error is not None
    assert done.error.code == "agent_error"
    await still_serves(bridge)
    await bridge.close()


@pytest.mark.parametrize("reason", [["a"], {}, 7])
async def test_p14_a_finish_reason_that_is_none_fails_the_step(reason: Any) -> None:
    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "a"
        if len(run.messages) < 3:
            run.finish_reason = reason

    bridge = house(agent)
    async with asyncio.timeout(WAIT_S):
        assert (await bridge.run("go", thread_id="t1")).reason == "failed"
    await still_serves(bridge)
    await bridge.close()


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, SystemExit, GeneratorExit, StopIteration]
)
async def test_p14_a_server_tool_may_leave_by_any_door(
    error: type[BaseException], sync: bool
) -> None:
    bridge = house()
    if sync:

        def leaves() -> None:
            raise error
    else:

        async def leaves() -> None:
            raise error

    bridge.add_tool(leaves)
    async with asyncio.timeout(WAIT_S):
        done = await bridge.call_tool("t1", "leaves")
    assert done.error is not None
    assert done.error.code == "handler_error"
    await still_serves(bridge)
    await bridge.close()


async def test_p14_a_sync_agent_that_exits_does_not_take_the_server_along() -> None:
    bridge = house(lambda run: sys.exit(1) if len(run.messages) < 2 else "hi")
    async with asyncio.timeout(WAIT_S):
        assert (await bridge.run("go", thread_id="t1")).reason == "failed"
    await still_serves(bridge)
    await bridge.close()


# ---- floods of small things ----------------------------------------------------------------------


async def test_p12_a_list_of_junk_tools_gets_a_short_answer() -> None:
    bridge = house()
    async with Page(bridge) as page:
        reply = await asked(page, "tools.update", add=[1] * 100_000)
        assert len(json.dumps(reply)) < 200_000
        last = reply["result"]["rejected"][-1]
        assert last["code"] == "too_many_tools"
    await still_serves(bridge)
    await bridge.close()


async def test_p12_more_threads_than_may_be_open_are_not_all_answered() -> None:
    bridge = house()
    page = Page(bridge)
    threads = [{"threadId": f"t{n}"} for n in range(20_000)]
    await page.connect(threads=threads)
    assert len(page.welcome["threads"]) < 1_000
    assert [t for t in page.welcome["threads"] if t.get("error", {}).get("code") == "limit"]
    await page.leave()
    await bridge.close()


async def test_p12_a_journal_of_strangers_is_answered_and_the_page_is_welcome() -> None:
    bridge = house()
    page = Page(bridge)
    calls = [{"callId": f"c{n}", "attempt": 1, "state": "received"} for n in range(20_000)]
    await page.connect(calls=calls)
    assert (await page.run("hello").finished)["reason"] == "completed"
    await page.leave()
    await bridge.close()


async def test_p12_the_context_of_a_run_has_the_bound_of_every_context() -> None:
    bridge = house()
    async with Page(bridge) as page:
        big = [{"name": "n", "description": "", "value": "x" * 300_000}]
        reply = await asked(page, "run.start", threadId="t1", message="hi", context=big)
        assert reply["error"]["code"] == "too_large"
    await still_serves(bridge)
    await bridge.close()


@pytest.mark.parametrize("name", ["", "a b\n", "x" * 65, "x" * 100_000, "поиск"])
async def test_p13_what_cannot_be_a_name_reaches_nobody(name: str) -> None:
    bridge = house()
    async with Page(bridge, tools={"*": lambda args: "taken"}) as page:
        reply = await asked(page, "tool.invoke", threadId="t1", name=name)
        assert reply["error"]["code"] == "unknown_tool"
    assert bridge.threads[0].messages == ()
    await still_serves(bridge)
    await bridge.close()


def test_a_tool_is_read_whatever_integer_it_names() -> None:
    tool = read_tool({"name": "x", "description": "", "timeoutMs": 10**400})
    assert getattr(tool, "timeout_ms", 1) > 0


# ---- opening -------------------------------------------------------------------------------------


async def test_p9_a_session_that_ends_while_its_page_waits_for_leave_gives_a_new_one() -> None:
    asked_for, go_on = asyncio.Event(), asyncio.Event()

    async def authorize(
        principal: Principal, action: str, thread_id: str, name: Any = None
    ) -> bool:
        if thread_id == "slow":
            asked_for.set()
            await go_on.wait()
        return True

    async def speaks(run: Run) -> AsyncIterator[Any]:
        yield "hi"

    bridge = Bridge(agents={"default": speaks}, authorize=authorize)
    async with asyncio.timeout(WAIT_S), Page(bridge) as first:
        second = Page(bridge, threads=["slow"])
        second.session = dict(first.session or {})
        opening = asyncio.create_task(second.connect(documentId=first.document.id))
        await asked_for.wait()
        await first.bye()
        go_on.set()
        await opening
        assert second.welcome["resumed"] is False
        assert second.welcome["reason"] == "unknown_session"
        await second.leave()
    await bridge.close()
