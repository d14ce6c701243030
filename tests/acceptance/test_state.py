"""State, tools and context: what a page says of itself, and when the next step sees it. P11."""

import asyncio
from typing import Any

import pytest
from tests.acceptance.house import Gate, house, object_of

from handspan import Policy
from handspan.testing import Refused, call

# ---- state -----------------------------------------------------------------------------------


async def test_state_is_replaced_and_patched_and_everybody_on_the_thread_sees_it() -> None:
    async with house("hi") as home:
        page = await home.page()
        other = await home.page(threads=("t1",))
        await page.set_state({"cart": []})
        await page.patch_state([{"op": "add", "path": "/cart/-", "value": {"sku": 1}}])
        await other.until(lambda: other.state == {"cart": [{"sku": 1}]})
        assert page.state == other.state
        late = await home.page(threads=("t1",))
        await late.until(lambda: late.thread().snapshots)
        assert late.state == {"cart": [{"sku": 1}]}
        await page.run("go").finished
        assert home.steps[0].state == {"cart": [{"sku": 1}]}


async def test_state_changed_between_runs_is_repeated_after_the_next_run_started() -> None:
    """Protocol 1."""
    async with house("hi") as home:
        page = await home.page()
        await page.run("go").finished
        await page.set_state({"n": 1})
        run = page.run("go")
        await run.finished
        assert [e["type"] for e in run.events[:2]] == ["RUN_STARTED", "STATE_SNAPSHOT"]
        assert run.events[1]["snapshot"] == {"n": 1}


@pytest.mark.parametrize("value", [None, 0, False, "", [], {"deep": {"a": None}}])
async def test_any_json_is_a_state(value: Any) -> None:
    """P4, presence decides."""
    async with house("hi") as home:
        page = await home.page()
        await page.set_state(value)
        await page.until(lambda: page.events and page.state == value)
        assert home.bridge.threads[0].state == value


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"patch": [], "state": {}},
        {"patch": [{"op": "replace", "path": "/none", "value": 1}]},
        {"patch": [{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/a"}]},
        {"patch": [{"op": "remove", "path": "/a"}, {"op": "dance", "path": "/a"}]},
        {"patch": [{"path": "/a"}]},
        {"patch": {}},
        {"patch": "x"},
    ],
)
async def test_a_bad_state_update_is_refused_and_changes_nothing(fields: dict[str, Any]) -> None:
    """All of a patch or none."""
    async with house("hi") as home:
        page = await home.page()
        await page.set_state({"a": 1})
        with pytest.raises(Refused) as refused:
            await page.ask("state.update", threadId="t1", **fields)
        assert refused.value.code == "invalid_frame"
        assert home.bridge.threads[0].state == {"a": 1}


async def test_a_state_that_is_too_large_is_refused() -> None:
    """P12."""
    async with house("hi", policy=Policy(state_bytes=100)) as home:
        page = await home.page()
        await page.set_state({"a": 1})
        with pytest.raises(Refused) as refused:
            await page.set_state({"a": "x" * 200})
        assert refused.value.code == "too_large"
        with pytest.raises(Refused) as refused:
            await page.patch_state([{"op": "add", "path": "/b", "value": "x" * 200}])
        assert refused.value.code == "too_large"
        assert home.bridge.threads[0].state == {"a": 1}


async def test_the_state_of_a_thread_that_is_not_there_is_unknown() -> None:
    async with house("hi") as home:
        page = await home.page()
        with pytest.raises(Refused) as refused:
            await page.set_state({}, thread_id="nowhere")
        assert refused.value.code == "unknown_thread"


async def test_an_agent_changes_the_state_and_reads_it_back() -> None:
    async def agent(run: Any) -> Any:
        run.set_state({"n": 1})
        run.patch_state([{"op": "add", "path": "/m", "value": 2}])
        yield f"{run.state['n']}{run.state['m']}"

    async with house(agent=agent) as home:
        page = await home.page()
        await page.run("go").finished
        assert page.state == {"n": 1, "m": 2}
        assert page.thread().text == "12"


# ---- tools -----------------------------------------------------------------------------------


async def test_tools_update_adds_removes_and_replaces_and_tells_what_it_took() -> None:
    async with house("hi") as home:
        socket = await home.greeted(tools=[{"name": "a", "description": "a"}])
        added = await socket.ask(
            "tools.update", add=[{"name": "b", "description": "b"}, {"name": "no good"}]
        )
        assert added["result"]["accepted"] == ["b"]
        assert [r["code"] for r in added["result"]["rejected"]] == ["bad_name"]
        removed = await socket.ask("tools.update", remove=["a", "never-was"])
        assert removed["result"]["revision"] > added["result"]["revision"]
        assert home.bridge.sessions[0].tools == ("b",)
        await socket.ask("tools.update", set=[{"name": "c", "description": "c"}])
        assert home.bridge.sessions[0].tools == ("c",)
        await socket.ask("tools.update", set=[])
        assert home.bridge.sessions[0].tools == ()


async def test_the_next_step_sees_exactly_the_current_set() -> None:
    """C033, C097: registration frames sent before the result are in force for the follow-up."""

    async with house([call("t", {"n": 1})], [call("v"), call("u")], "end") as home:
        page = await home.page(tools={"u": lambda args: 1})

        def change(args: Any) -> str:
            page.remove_tool("u")
            page.tool("v", {}, lambda args: "new")
            page.tool("t", {"description": "second", "parameters": object_of(m={})}, change)
            return "changed"

        page.tool("t", {"description": "first", "parameters": object_of(n={})}, change)
        await page.run("go").finished
        seen = [{t.name: t.description for t in step.tools} for step in home.steps]
        assert seen[0] == {"u": "u", "t": "first"}
        assert seen[1] == {"t": "second", "v": "v"}
        assert home.codes() == [None, None, "unknown_tool"]


async def test_a_tool_described_anew_is_checked_by_its_new_schema() -> None:
    """C033, P11."""
    async with house([call("t", {"old": 1})], [call("t", {"new": 1})], "end") as home:
        page = await home.page()
        page.tool("t", {"parameters": object_of(old={})}, lambda args: "v1")
        page.tool("t", {"parameters": object_of(new={})}, lambda args: "v2")
        await page.run("go").finished
        assert home.codes() == ["invalid_arguments", None]
        assert home.results()[1]["content"] == "v2"


async def test_a_tool_set_that_comes_during_a_step_does_not_change_what_that_step_was_shown() -> (
    None
):
    gate = Gate()
    seen: list[Any] = []

    async def agent(run: Any) -> Any:
        await gate.wait()
        seen.append([t.name for t in run.tools])
        if run.depth == 0:
            yield run.call("a", {})

    async with house(agent=agent) as home:
        page = await home.page(tools={"a": lambda args: 1})
        run = page.run("go")
        await gate.reached.wait()
        page.tool("b", {}, lambda args: 1)
        await page.ask("thread.list")
        gate.open()
        await run.finished
        assert seen == [["a"], ["a", "b"]]


# ---- context ---------------------------------------------------------------------------------


def context_of(step: Any) -> dict[str, Any]:
    return {item.name: item.value for item in step.context}


async def test_context_is_set_added_and_removed() -> None:
    async with house("hi") as home:
        page = await home.page(context={"a": 1})
        assert await page.ask("context.update", add=[{"name": "b", "value": 2}]) == {}
        await page.run("go").finished
        assert context_of(home.steps[-1]) == {"a": 1, "b": 2}
        await page.ask("context.update", remove=["a"])
        await page.run("go").finished
        assert context_of(home.steps[-1]) == {"b": 2}
        await page.ask("context.update", set=[{"name": "c", "description": "d", "value": None}])
        await page.run("go").finished
        assert context_of(home.steps[-1]) == {"c": None}


async def test_context_that_came_with_a_result_is_seen_by_the_next_step() -> None:
    """Behaviour 2: the next step never sees stale state."""
    cart: list[int] = []

    def add(args: Any) -> str:
        cart.append(args["n"])
        return "added"

    async with house([call("add", {"n": 1})], [call("add", {"n": 2})], "end") as home:
        page = await home.page(tools={"add": add}, context={"cart": lambda: list(cart)})
        await page.run("go").finished
        assert [context_of(step)["cart"] for step in home.steps] == [[], [1], [1, 2]]


async def test_context_that_is_too_large_is_refused_and_the_old_one_stands() -> None:
    """P12."""
    async with house("hi", policy=Policy(context_bytes=100)) as home:
        page = await home.page(context={"a": 1})
        with pytest.raises(Refused) as refused:
            await page.ask("context.update", add=[{"name": "b", "value": "x" * 200}])
        assert refused.value.code == "too_large"
        await page.run("go").finished
        assert context_of(home.steps[0]) == {"a": 1}


async def test_the_context_of_one_page_is_not_shown_to_the_run_of_another() -> None:
    """P8."""
    async with house("hi") as home:
        await home.page(threads=("t1",), context={"who": "other"})
        page = await home.page(context={"who": "me"})
        await page.run("go").finished
        assert context_of(home.steps[0]) == {"who": "me"}


# ---- what an agent may do meanwhile ----------------------------------------------------------


async def test_custom_events_go_out_in_the_order_they_were_said() -> None:
    """P6."""

    async def agent(run: Any) -> Any:
        for n in range(5):
            run.custom("tick", {"n": n})
            yield str(n)
            await asyncio.sleep(0)

    async with house(agent=agent) as home:
        page = await home.page()
        await page.run("go").finished
        told = [
            e.get("delta") or e["value"]["n"]
            for e in page.events
            if e["type"] in ("CUSTOM", "TEXT_MESSAGE_CONTENT")
        ]
        assert told == [0, "0", 1, "1", 2, "2", 3, "3", 4, "4"]
