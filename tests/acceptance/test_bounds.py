"""Depth, repeats, sizes, rates, and input that is wrong: a documented end each. P4, P12, P14."""

import json
from typing import Any

import pytest
from tests.acceptance.house import house, object_of

from handspan import Policy, step_count, tool_called
from handspan.testing import Refused, RunFailed, ScriptedAgent, call

TOOLS = {"t": ({"readOnly": True}, lambda args: args)}


def counting(run: Any) -> list[Any]:
    return [call("t", {"n": run.depth})]


# ---- should_continue -------------------------------------------------------------------------


async def test_a_run_ends_at_the_greatest_depth_and_the_next_one_begins_at_zero() -> None:
    """C110, P12."""
    agent = ScriptedAgent([counting], repeat=True)
    async with house(agent=agent, policy=Policy(max_depth=5)) as home:
        page = await home.page(tools=TOOLS)
        for _ in range(2):
            assert await page.run("go").finished == {"reason": "max_depth", "depth": 5}
        assert [run.depth for run in agent.seen] == [0, 1, 2, 3, 4, 5] * 2
        assert len(home.results()) == 12
        assert set(home.codes()) == {None}


async def test_at_the_limit_the_agent_may_say_a_last_word_without_tools() -> None:
    """Behaviour 2: reflect."""
    offered: list[int] = []

    async def agent(run: Any) -> Any:
        offered.append(len(run.tools))
        yield run.call("t", {"n": run.depth}) if run.tools else "that is all"

    async with house(agent=agent, policy=Policy(max_depth=2, reflect="at_limit")) as home:
        page = await home.page(tools=TOOLS)
        done = await page.run("go").finished
        assert done["reason"] == "max_depth"
        assert offered == [1, 1, 1, 0]
        assert page.messages[-1]["content"] == "that is all"


async def test_the_same_calls_again_and_again_end_the_run() -> None:
    """C111: compared as canonical JSON; changing arguments never trip it."""
    same = ['{"a":1,"b":2}', '{"b":2,"a":1}', '{ "a" : 1.0, "b" : 2 }', '{"a":1,"b":2}']
    async with house(*[[call("t", raw)] for raw in same], "never") as home:
        page = await home.page(tools=TOOLS)
        assert await page.run("go").finished == {"reason": "repeating", "depth": 2}
        assert len(home.results()) == 3
        assert await page.run("go").finished == {"reason": "repeating", "depth": 2}
    async with house(*[[call("t", {"n": n})] for n in range(6)], "end") as home:
        page = await home.page(tools=TOOLS)
        assert (await page.run("go").finished)["reason"] == "completed"


async def test_results_of_tools_that_want_no_follow_up_end_the_run() -> None:
    async with house([call("t")], "never") as home:
        page = await home.page(tools={"t": ({"followUp": False}, lambda args: 1)})
        assert await page.run("go").finished == {"reason": "no_follow_up", "depth": 0}
        assert len(home.steps) == 1
    async with house([call("t"), call("u")], "on") as home:
        page = await home.page(
            tools={"t": ({"followUp": False}, lambda args: 1), "u": lambda args: 1}
        )
        assert await page.run("go").finished == {"reason": "completed", "depth": 1}


@pytest.mark.parametrize(("on_error", "steps"), [("resume", 2), ("stop", 1)])
async def test_whether_a_failed_call_is_followed_up_is_a_policy(on_error: Any, steps: int) -> None:
    def broken(args: Any) -> None:
        raise ValueError("no")

    async with house([call("t")], "on", policy=Policy(on_error=on_error)) as home:
        page = await home.page(tools={"t": broken})
        done = await page.run("go").finished
        assert len(home.steps) == steps
        assert done["reason"] == ("completed" if steps == 2 else "no_follow_up")


async def test_a_failed_call_that_wants_no_follow_up_gets_none() -> None:
    """Behaviour 2: a call of a tool with followUp false never wants one."""

    def broken(args: Any) -> None:
        raise ValueError("no")

    async with house([call("t")], "never") as home:
        page = await home.page(tools={"t": ({"followUp": False}, broken)})
        assert (await page.run("go").finished)["reason"] == "no_follow_up"


@pytest.mark.parametrize(
    ("condition", "depth"),
    [(step_count(2), 1), (tool_called("final_answer"), 2), ("async", 1)],
)
async def test_a_stop_condition_ends_the_run(condition: Any, depth: int) -> None:
    async def later(steps: Any) -> bool:
        return len(steps) >= 2

    script = [[call("t", {"n": 0})], [call("t", {"n": 1})], [call("final_answer")], "never"]
    condition = later if condition == "async" else condition
    async with house(*script, policy=Policy(stop_when=[condition])) as home:
        page = await home.page(tools={**TOOLS, "final_answer": lambda args: 42})
        assert await page.run("go").finished == {"reason": "stop_condition", "depth": depth}


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "unknown"])
async def test_calls_of_a_turn_that_was_cut_off_are_not_carried_out(reason: str) -> None:
    """Behaviour 2: truncated_turn."""

    def cut(run: Any) -> list[Any]:
        run.finish_reason = reason
        return ["as far as ", call("t", {"n": 1})]

    async with house(cut, "never") as home:
        page = await home.page(tools=TOOLS)
        assert await page.run("go").finished == {"reason": "truncated", "depth": 0}
        assert page.calls == []
        assert home.codes() == ["truncated_turn"]
        assert len(home.steps) == 1


@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
async def test_a_whole_turn_is_carried_out(reason: str | None) -> None:
    def whole(run: Any) -> list[Any]:
        run.finish_reason = reason
        return [call("t", {"n": 1})]

    async with house(whole, "end") as home:
        page = await home.page(tools=TOOLS)
        assert (await page.run("go").finished)["reason"] == "completed"


async def test_a_run_that_says_too_much_is_ended() -> None:
    """P12: output_limit."""
    async with house(["x" * 600] * 10, policy=Policy(output_bytes=1_000)) as home:
        page = await home.page()
        with pytest.raises(RunFailed) as failed:
            await page.run("go").finished
        assert failed.value.code == "output_limit"


# ---- limits of a session ---------------------------------------------------------------------


async def test_too_many_open_threads_are_refused() -> None:
    async with house("hi", policy=Policy(open_threads=2)) as home:
        page = await home.page(threads=("a", "b"))
        with pytest.raises(Refused) as refused:
            await page.open("c")
        assert refused.value.code == "limit"
        with pytest.raises(Refused) as refused:
            await page.run("go", thread_id="c").finished
        assert refused.value.code == "limit"
        await page.close_thread("a")
        await page.run("go", thread_id="c").finished
        more = await home.raw()
        welcome = await more.hello(threads=[{"threadId": f"x{n}"} for n in range(3)])
        codes = [t.get("error", {}).get("code") for t in welcome["threads"]]
        assert sorted(codes, key=str) == [None, None, "limit"]


async def test_too_many_runs_of_a_page_are_busy() -> None:
    async with house(
        [call("ask")], "end", policy=Policy(runs_per_session=2, queued_runs=1)
    ) as home:
        page = await home.page(threads=("a", "b", "c"), tools={"ask": ({"parallel": True}, None)})
        runs = [page.run("go", thread_id=name) for name in ("a", "b")]
        for run in runs:
            await run.accepted
        with pytest.raises(Refused) as refused:
            await page.run("go", thread_id="c").finished
        assert refused.value.code == "busy"
        other = await home.page(threads=("c",))
        await other.run("go").accepted
        for run in runs:
            assert await page.abort(run.id)
            await run.finished
        await other.abort()
        await other.until(lambda: other.thread().run is None)


async def test_too_many_waiting_runs_are_busy() -> None:
    async with house([call("ask")], "end", policy=Policy(queued_runs=2)) as home:
        page = await home.page(tools={"ask": None})
        run = page.run("first")
        await page.next_call()
        waiting = [page.run("more", ifBusy="queue") for _ in range(3)]
        with pytest.raises(Refused) as refused:
            await waiting[2].accepted
        assert refused.value.code == "busy"
        for one in waiting[:2]:
            assert await page.abort(one.id)
        await page.abort()
        await run.finished


async def test_too_many_frames_are_told_and_in_the_end_closed_with_4429() -> None:
    async with house("hi", policy=Policy(frames_per_second=1, frames_burst=5)) as home:
        socket = await home.greeted()
        for n in range(10):
            await socket.send(type="thread.list", id=str(n))
        assert await socket.closed() == 4429
        errors = [f for f in socket.seen if f["type"] == "error"]
        assert {f["code"] for f in errors} == {"rate_limited"}
        assert all(f["retryable"] for f in errors)


async def test_a_frame_that_is_too_large_is_closed_with_1009_and_harms_no_other() -> None:
    async with house("hi", policy=Policy(frame_bytes=10_000)) as home:
        socket, other = await home.greeted("d-1"), await home.page()
        await socket.send(type="thread.list", id="x" * 20_000)
        assert await socket.closed() == 1009
        assert (await other.run("go").finished)["reason"] == "completed"


async def test_too_many_sessions_of_a_principal_are_refused() -> None:
    from handspan import Principal

    async with house(
        policy=Policy(sessions_per_principal=2),
        authenticate=lambda token, request: Principal("ann"),
    ) as home:
        for n in range(2):
            await home.greeted(f"d-{n}")
        third = await home.raw()
        await third.send(type="hello", protocol=1, documentId="d-3")
        assert await third.closed() == 1013
        assert [f["code"] for f in third.seen] == ["limit"]


# ---- what is wrong gets its code -------------------------------------------------------------

GOOD = {"type": "thread.list", "id": "after"}

JUNK = [
    "",
    "junk",
    "{",
    "[]",
    "7",
    "null",
    '"hello"',
    "{}",
    '{"type":7}',
    '{"type":null}',
    '{"type":"thread.list","id":"n","x":NaN}',
    '{"type":"thread.list","id":"n","x":-Infinity}',
    '{"type":"thread.list","id":"n","x":1e999}',
    "[" * 200 + "]" * 200,
    '{"type":"thread.list","id":"d","x":' + "[" * 130 + "]" * 130 + "}",
    '{"type":"thread.list","id":"a"} {"type":"thread.list","id":"b"}',
    "{'type':'thread.list'}",
    '\ufeff{"type":"pong"}',
]


@pytest.mark.parametrize("text", JUNK, ids=lambda text: text[:20] or "empty")
async def test_junk_is_answered_by_an_error_and_changes_nothing(text: str) -> None:
    """P4, P14: strict JSON."""
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send_text(text)
        frame = await socket.receive()
        while frame["type"] not in ("error", "reply"):
            frame = await socket.receive()
        code = frame["code"] if frame["type"] == "error" else frame["error"]["code"]
        assert code == "invalid_frame"
        assert (await socket.ask("thread.list"))["result"] == {"threads": []}


@pytest.mark.parametrize("fields", [{}, {"id": "7"}, {"id": 7}])
async def test_an_unknown_type_is_an_error_frame(fields: dict[str, Any]) -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send(type="tool.explode", **fields)
        error = await socket.expect(type="error")
        assert error["code"] == "unknown_type"
        assert (await socket.ask("thread.list"))["result"] == {"threads": []}


@pytest.mark.parametrize("type_", ["welcome", "events", "snapshot", "tool.call", "reply", "goaway"])
async def test_a_page_that_sends_what_only_a_server_sends_is_told_so(type_: str) -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send(type=type_, id="1", threadId="t1", events=[])
        assert (await socket.expect(type="error"))["code"] == "unknown_type"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "run.start"}, "/threadId"),
    ({"type": "run.start", "threadId": 7, "message": "x"}, "/threadId"),
    ({"type": "run.start", "threadId": "no spaces", "message": "x"}, "/threadId"),
    ({"type": "run.start", "threadId": "x" * 129, "message": "x"}, "/threadId"),
    ({"type": "run.start", "threadId": "t1\n", "message": "x"}, "/threadId"),
    ({"type": "run.start", "threadId": "t1", "message": 7}, "/message"),
    ({"type": "run.start", "threadId": "t1", "message": "x", "runId": ""}, "/runId"),
    ({"type": "run.start", "threadId": "t1", "message": "x", "ifBusy": "maybe"}, "/ifBusy"),
    ({"type": "run.start", "threadId": "t1", "message": "x", "context": {}}, "/context"),
    ({"type": "run.start", "threadId": "t1", "message": "x", "context": [7]}, "/context/0"),
    ({"type": "tool.started", "callId": "c"}, "/attempt"),
    ({"type": "tool.started", "callId": "c", "attempt": 0}, "/attempt"),
    ({"type": "tool.started", "callId": "c", "attempt": True}, "/attempt"),
    ({"type": "tool.started", "callId": "c", "attempt": "1"}, "/attempt"),
    ({"type": "tool.started", "callId": "c", "attempt": 1.5}, "/attempt"),
    ({"type": "tool.invoke", "threadId": "t1"}, "/name"),
    ({"type": "tools.update", "add": {}}, "/add"),
    ({"type": "tools.update", "remove": [7]}, "/remove/0"),
    ({"type": "thread.open", "threadId": "t1", "offset": -1}, "/offset"),
    ({"type": "approval.answer", "callId": "c", "digest": "d", "approved": 1}, "/approved"),
    ({"type": "approval.answer", "callId": "c", "digest": "d", "approved": "yes"}, "/approved"),
    ({"type": "thread.delete"}, "/threadId"),
]


@pytest.mark.parametrize(("frame", "path"), WRONG, ids=lambda value: str(value)[:60])
async def test_wrong_fields_are_a_reply_with_the_path(frame: dict[str, Any], path: str) -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send(id="w", **frame)
        reply = await socket.expect(type="reply", id="w")
        assert reply["error"]["code"] == "invalid_frame"
        assert reply["error"]["path"] == path
        assert (await socket.ask("thread.list"))["result"] == {"threads": []}


@pytest.mark.parametrize("id_", [None, 7, [], {"a": 1}, True])
async def test_a_command_without_a_good_id_is_an_error_frame_and_is_not_carried_out(
    id_: Any,
) -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send(type="run.start", id=id_, threadId="t1", message="x")
        assert (await socket.expect(type="error"))["code"] == "invalid_frame"
        await socket.ask("thread.list")
        assert home.events() == []


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "visibility", "visible": "yes"},
        {"type": "tool.progress", "callId": "c"},
        {"type": "tool.progress", "callId": "c", "attempt": 1, "progress": "half"},
    ],
)
async def test_a_bad_notice_is_an_error_frame(frame: dict[str, Any]) -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        await socket.send(**frame)
        assert (await socket.expect(type="error"))["code"] == "invalid_frame"


async def test_unknown_fields_are_ignored() -> None:
    async with house("hi") as home:
        socket = await home.greeted()
        reply = await socket.ask("thread.list", future="field", __proto__={"x": 1})
        assert reply["result"] == {"threads": []}


async def test_errors_say_what_was_wrong_and_leak_nothing() -> None:
    """P14: no traceback, path or validator text."""
    async with house("hi") as home:
        socket = await home.greeted()
        for text in [*JUNK, *(json.dumps({**frame, "id": "w"}) for frame, _ in WRONG)]:
            await socket.send_text(text)
        await socket.ask("thread.list")
        told = json.dumps(socket.seen).lower()
        for leak in ("traceback", "pydantic", "validation error", ".py", "/work", "site-packages"):
            assert leak not in told


async def test_a_tool_whose_schema_would_hang_a_backtracking_engine_does_not_hang_the_server() -> (
    None
):
    """Behaviour 7, P12."""
    schema = object_of(s={"type": "string", "pattern": "^(a+)+$"})
    async with house([call("t", {"s": "a" * 5_000 + "!"})], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        rejected = page.welcome["tools"]["rejected"]
        await page.run("go").finished
        code = "unknown_tool" if rejected else "invalid_arguments"
        assert home.codes() == [code]


async def test_an_observer_that_raises_harms_nothing() -> None:
    """P14."""

    def broken(thread_id: str, event: Any) -> None:
        raise RuntimeError("no")

    async with house("hi") as home:
        home.bridge.observe(broken)
        page = await home.page()
        assert (await page.run("go").finished)["reason"] == "completed"
