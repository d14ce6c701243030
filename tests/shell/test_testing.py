"""`handspan.testing`: the page in Python, the virtual world, and the example of its docstring."""

import asyncio
import textwrap
from typing import Any

import anyio
import pytest

import handspan.testing
from handspan import Bridge, Policy
from handspan.testing import (
    Lost,
    ManualClock,
    Page,
    Pause,
    Refused,
    RunFailed,
    ScriptedAgent,
    SocketClosed,
    World,
    call,
    settle,
)


def bridge_of(*script: Any, **options: Any) -> Bridge:
    return Bridge(agents={"default": ScriptedAgent(script)}, **options)


async def test_the_example_of_the_package_runs() -> None:
    doc = handspan.testing.__doc__ or ""
    code = textwrap.dedent(doc[doc.index("    from") : doc.index("\n`ScriptedAgent` says")])
    source = "async def example():\n" + textwrap.indent(code, "    ")
    scope: dict[str, Any] = {}
    exec(source, scope)
    await scope["example"]()


async def test_a_page_over_memory_runs_a_tool_and_folds_the_history() -> None:
    async def double(args: dict[str, int]) -> int:
        return args["n"] * 2

    bridge = bridge_of(
        ["Let me see. ", call("double", {"n": 21})], lambda run: [f"{run.results[0].value}"]
    )
    async with Page(bridge, tools={"double": double}) as page:
        run = page.run("hi")
        assert await run.finished == {"reason": "completed", "depth": 1}
        assert [m["role"] for m in page.messages] == ["user", "assistant", "tool", "assistant"]
        assert page.messages[-1]["content"] == "42"
        assert [event async for event in run] == run.events
        assert run.events[0]["type"] == "RUN_STARTED"
        assert run.events[-1]["type"] == "RUN_FINISHED"
        assert page.thread().faults == []
    await bridge.close()


async def test_a_context_that_is_changed_in_place_is_sent_again() -> None:
    cart: list[str] = []

    async def add(args: dict[str, str]) -> None:
        cart.append(args["sku"])

    bridge = bridge_of([call("add", {"sku": "a"})], lambda run: [f"{run.context[0].value}"])
    async with Page(bridge, tools={"add": add}) as page:
        page.context("cart", "what is in it", lambda: cart)
        await page.run("hi").finished
        assert page.messages[-1]["content"] == "['a']"
    await bridge.close()


async def test_a_page_over_a_real_socket_does_the_same() -> None:
    bridge = bridge_of([call("double", {"n": 21})], lambda run: [f"{run.results[0].value}"])
    async with (
        bridge.running() as address,
        Page.dial(address.ws, tools={"double": lambda args: args["n"] * 2}) as page,
    ):
        await page.run("hi").finished
        assert page.thread().text == "42"


async def test_both_kinds_of_line_tell_the_same_close_code() -> None:
    bridge = Bridge()
    async with bridge.running() as address:
        for page in (Page(bridge), Page.dial(address.ws)):
            with pytest.raises(SocketClosed) as closed:
                await page.connect(protocol=2)
            assert closed.value.code == 4503
            assert page.frames[0]["code"] == "unsupported_protocol"
            await page.leave()


async def test_both_kinds_of_line_refuse_a_frame_that_is_too_large() -> None:
    bridge = Bridge(policy=Policy(frame_bytes=2_000))
    async with bridge.running() as address:
        for page in (Page(bridge), Page.dial(address.ws)):
            async with page:
                page.send_text("x" * 3_000)
                assert await page.closed() == 1009


async def test_a_handler_that_raises_gives_an_error_that_says_something() -> None:
    def broken(_: Any) -> None:
        raise ValueError

    bridge = bridge_of([call("broken")])
    async with Page(bridge, tools={"broken": broken}) as page:
        await page.run("hi").finished
        assert "ValueError" in page.messages[-1]["content"]
    await bridge.close()


async def test_a_handler_gets_its_call_and_its_signal() -> None:
    seen: list[Any] = []

    async def slow(args: Any, call: Any) -> None:
        seen.extend([args, call.depth, call.attempt, call.raw_args])
        call.progress(1, 2, "half")
        await call.signal.wait()
        seen.append(call.aborted)

    bridge = bridge_of([call("slow", {"a": 1})])
    async with Page(bridge, tools={"slow": slow}) as page:
        run = page.run("hi")
        await page.until(lambda: seen)
        assert await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        await page.until(lambda: len(seen) == 5)
        assert seen == [{"a": 1}, 0, 1, '{"a":1}', True]
    await bridge.close()


async def test_calls_are_only_recorded_in_manual_mode() -> None:
    bridge = bridge_of([call("ask")], "thanks")
    async with Page(bridge, tools={"ask": None}, auto=False) as page:
        run = page.run("hi")
        asked = await page.next_call("ask")
        assert asked.state == "received"
        assert await asked.start() == "go"
        assert await asked.answer({"yes": True}) == "applied"
        await run.finished
        assert page.document.journal == []
    await bridge.close()


async def test_a_tool_that_changed_after_the_call_was_made_is_unavailable() -> None:
    bridge = bridge_of([call("t")])
    async with Page(bridge, tools={"t": lambda args: 1}, auto=False) as page:
        run = page.run("hi")
        asked = await page.next_call()
        page.tool("t", {"description": "another"}, lambda args: 2)
        page.auto = True
        page.document.calls.clear()
        page.document._open_calls.clear()
        page.document.take_call(asked.frame)
        await run.finished
        assert "unavailable" in page.messages[-1]["content"]
    await bridge.close()


async def test_a_refused_run_and_a_failed_one_are_told_apart() -> None:
    def fails(_: Any) -> list[Any]:
        raise RuntimeError

    bridge = bridge_of(fails)
    async with Page(bridge) as page:
        with pytest.raises(Refused) as refused:
            await page.run("hi", agent="nobody").finished
        assert refused.value.code == "unknown_agent"
        with pytest.raises(RunFailed) as failed:
            await page.run("hi").finished
        assert failed.value.code == "agent_error"
    await bridge.close()


async def test_a_cut_page_resumes_where_it_was() -> None:
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "one "
        await gate.wait()
        yield "two"

    bridge = Bridge(agents={"default": agent})
    async with bridge.running() as address:
        for page in (Page(bridge, threads=("a",)), Page.dial(address.ws, threads=("b",))):
            gate.clear()
            async with page:
                run = page.run("hi")
                await page.expect(type="events")
                page.cut()
                gate.set()
                welcome = await page.reconnect()
                assert welcome["resumed"] is True
                await run.finished
                assert page.thread().text == "one two"
                assert page.thread().faults == []
                assert page.thread().snapshots == 1


async def test_a_command_without_a_reply_is_sent_again_after_a_reconnect() -> None:
    bridge = bridge_of("hello")
    async with Page(bridge) as page:
        page.cut()
        run = page.run("hi")
        await page.reconnect()
        assert (await run.finished)["reason"] == "completed"
    await bridge.close()


async def test_a_snapshot_in_the_middle_of_a_message_is_folded_on() -> None:
    gate = asyncio.Event()

    async def agent(run: Any) -> Any:
        yield "one "
        await gate.wait()
        yield "two"

    bridge = Bridge(agents={"default": agent})
    async with Page(bridge) as page, Page(bridge, threads=()) as late:
        run = page.run("hi")
        await page.until(lambda: page.thread().text == "one ")
        await late.open("t1")
        await late.until(lambda: late.thread("t1").snapshots)
        gate.set()
        await run.finished
        await late.until(lambda: late.thread("t1").run is None)
        assert late.thread("t1").messages == page.messages
    await bridge.close()


async def test_a_reload_loses_what_the_document_waited_for() -> None:
    bridge = bridge_of([Pause(anyio.Event())])
    async with Page(bridge) as page:
        run = page.run("hi")
        await run.accepted
        before = page.document.id
        welcome = await page.reload()
        assert welcome["resumed"] is True
        assert page.document.id != before
        with pytest.raises(Lost):
            await run.finished
        await page.until(lambda: page.thread().snapshots)
        assert page.thread().run is not None
    await bridge.close()


async def test_a_page_that_does_not_read_hears_all_of_it_later() -> None:
    bridge = bridge_of(["x" * 50_000] * 20)
    async with bridge.running() as address:
        for page in (Page(bridge, threads=("a",)), Page.dial(address.ws, threads=("b",))):
            async with page:
                run = page.run("hi")
                await run.accepted
                page.stop_reading()
                await settle()
                page.go_on_reading()
                await run.finished
                assert len(page.thread().text) == 1_000_000


async def test_a_wait_that_is_in_vain_tells_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.testing.story.PATIENCE_S", 0.01)
    bridge = Bridge()
    async with Page(bridge) as page:
        with pytest.raises(TimeoutError, match="welcome"):
            await page.expect(type="tool.call")
    await bridge.close()


# ---- virtual time --------------------------------------------------------------------------------


async def test_timers_fire_in_order_and_the_loop_settles_between_them() -> None:
    clock, seen = ManualClock(), []

    async def later() -> None:
        await asyncio.sleep(0)
        seen.append("followed")
        clock.call_at(clock.now() + 1, lambda: seen.append("third"))

    clock.call_at(5, lambda: seen.append("second"))
    clock.call_at(2, lambda: (seen.append("first"), asyncio.ensure_future(later())))
    clock.call_at(9, lambda: seen.append("not yet"))
    clock.call_at(4, lambda: seen.append("never")).cancel()
    await clock.advance(6)
    assert seen == ["first", "followed", "third", "second"]
    assert clock.now() == 6
    assert len(clock.waiting) == 1


async def test_a_world_makes_a_grace_of_half_a_minute_pass_at_once() -> None:
    bridge = bridge_of([call("ask")], "over")
    async with World(bridge) as world:
        page = await world.page(tools={"ask": None}, auto=False)
        other = await world.page(threads=("t1",))
        page.run("hi")
        await (await page.next_call()).start()
        page.cut()
        await world.advance(29.0)
        assert other.thread().run is not None
        await world.advance(2.0)
        result = next(m for m in other.messages if m["role"] == "tool")
        assert result["metadata"]["handspan"]["code"] == "outcome_unknown"
        assert world.leftovers() == []
    assert world.leftovers() == []


async def test_two_worlds_are_the_same_to_the_byte() -> None:
    async def lived() -> list[Any]:
        bridge = bridge_of(["a", call("t", {"n": 1}), call("t", {"n": 2})], "done")
        async with World(bridge) as world:
            page = await world.page(tools={"t": lambda args: args["n"]})
            await page.run("hi").finished
            return page.frames

    assert await lived() == await lived()


async def test_leftovers_name_what_is_still_there() -> None:
    bridge = bridge_of([call("ask")])
    async with World(bridge) as world:
        page = await world.page(tools={"ask": None}, auto=False)
        page.run("hi", run_id="r")
        await page.next_call()
        left = "; ".join(world.leftovers())
        assert "run r on thread t1 is under way" in left
        assert "is open" in left
        assert "holds call" in left
        await page.abort()
        await world.settle()
        assert world.leftovers() == []


async def test_a_line_that_vanished_is_found_by_its_silence() -> None:
    bridge = bridge_of("hi")
    async with World(bridge) as world:
        page = await world.page()
        page.vanish()
        assert bridge.sessions[0].attached
        await world.advance(100.0)
        assert not bridge.sessions[0].attached
