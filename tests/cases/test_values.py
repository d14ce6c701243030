"""What goes over the wire: bytes, numbers, sizes, fields that are not there.

Cases C127, C130, C135, C138; P4, P12, P14.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.house import house
from tests.acceptance.raw import Raw

from handspan import Policy, UsageError
from handspan.testing import call

MANY = "é 你好 🌍 \u2028"
"""Characters of one to four bytes."""


# ---- bytes -----------------------------------------------------------------------------------


async def test_a_message_that_is_cut_inside_a_character_is_whole_again() -> None:
    """C127: in two fragments, cut at every byte; in keys, in values, and in an escape."""
    async with house("hi") as home:
        socket = await home.greeted(threads=[{"threadId": "t1"}])
        value = {MANY: MANY, "escaped": "\\ud83c\\udf0d"}
        body = {"type": "state.update", "threadId": "t1", "state": value}
        whole = json.dumps(body, ensure_ascii=False).encode()
        for cut in range(len(whole) + 1):
            await socket.line.send(_fragments(whole, cut), text=True)
            reply = await socket.expect(type="reply", id=f"cut-{cut}")
            assert reply["result"] == {}
        assert home.bridge.threads[0].state == value
        events = [e for f in socket.seen if f["type"] == "events" for e in f["events"]]
        assert {json.dumps(e["snapshot"]) for e in events} == {json.dumps(value)}


def _fragments(whole: bytes, cut: int) -> list[bytes]:
    """The frame with an id of its own, in two pieces."""
    head = b'{"id":"cut-%d",' % cut
    return [head + whole[1:cut], whole[cut:]] if cut else [head, whole[1:]]


async def test_text_of_many_bytes_comes_back_from_a_page_as_it_went_there() -> None:
    """C127: to the handler, from it, and to the model."""
    async with house([MANY, call("echo", {MANY: MANY})], "ok") as home:
        page = await home.page(tools={"echo": lambda args: args[MANY]})
        await page.run(MANY).finished
        assert page.calls[0].args == {MANY: MANY}
        assert [m.content for m in home.steps[1].messages if m.role != "assistant"] == [MANY, MANY]
        assert page.messages[1]["content"] == MANY


# ---- numbers that are none -------------------------------------------------------------------


def strict(text: str) -> Any:
    """Read JSON as a browser does."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} in {text}")

    return json.loads(text, parse_constant=refuse)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "place"),
    [({"a": NAN, "b": [INF]}, "/a"), ({"b": [1, -INF]}, "/b/1"), (INF, ""), ([{"x/y": NAN}], "/0")],
)
async def test_a_number_that_json_has_not_is_an_error_of_the_call(value: Any, place: str) -> None:
    """C130: told with its place; every frame is strict JSON, and the run ends."""

    def odd() -> Any:
        """Odd numbers."""
        return value

    async with house([call("odd")], "ok", tools=[odd]) as home:
        socket = await home.greeted()
        await socket.send(type="run.start", id="1", threadId="t1", message="go")
        frames: list[Any] = []
        while not any(e["type"] == "RUN_FINISHED" for f in frames for e in f.get("events", ())):
            frames.append(strict(await socket.line.recv()))  # type: ignore[arg-type]
        assert home.codes() == ["invalid_result"]
        told = home.steps[1].results[0].error
        assert told.code == "invalid_result"
        assert place in told.message


@pytest.mark.parametrize("number", [NAN, INF, -INF])
@pytest.mark.parametrize("way", ["set_state", "patch_state", "custom", "call", "output"])
async def test_an_agent_that_says_such_a_number_is_told_so_at_once(way: str, number: float) -> None:
    """C130: a UsageError where it stands; what it says besides is heard."""
    caught: list[UsageError] = []
    moves: dict[str, Any] = {
        "set_state": lambda run: run.set_state({"x": [number]}),
        "patch_state": lambda run: run.patch_state([{"op": "add", "path": "/x", "value": number}]),
        "custom": lambda run: run.custom("odd", {"x": number}),
        "call": lambda run: run.call("t", {"x": number}),
        "output": lambda run: setattr(run, "output", number),
    }

    async def agent(run: Any) -> Any:
        try:
            moves[way](run)
        except UsageError as error:
            caught.append(error)
        yield "still here"

    async with house(agent=agent) as home:
        page = await home.page()
        assert await page.run("go").finished == {"reason": "completed", "depth": 0}
        assert len(caught) == 1
        assert page.thread().text == "still here"
        assert (page.state, home.events(kind="CUSTOM")) == ({}, [])


# ---- sizes -----------------------------------------------------------------------------------

LIMIT = 64 * 1024


async def test_a_result_of_the_limit_goes_and_one_byte_more_is_an_error_of_the_call() -> None:
    """C135: the page itself says so, before it sends; its session is as usable as before."""
    sizes = [LIMIT - 1, LIMIT, LIMIT + 1, 10 * LIMIT]
    step = [call("t", {"bytes": size}) for size in sizes]
    async with house(step, "ok", policy=Policy(result_bytes=LIMIT)) as home:
        page = await home.page(tools={"t": lambda args: "x" * (args["bytes"] - 2)})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert home.codes() == [None, None, "result_too_large", "result_too_large"]
        assert [len(m["content"]) + 2 for m in home.results()[:2]] == sizes[:2]
        assert (await page.run_tool("t", {"bytes": 10}))["outcome"] == "ok"
        assert page.closed_with is None


async def test_a_page_that_does_not_look_at_the_limit_gets_the_same_answer() -> None:
    """C135: the server measures too; the socket lives."""
    async with house([call("t")], "ok", policy=Policy(result_bytes=LIMIT)) as home:
        page = await home.page(tools={"t": None})
        run = page.run("go")
        held = await page.next_call()
        await held.start()
        assert await held.answer("x" * LIMIT) == "applied"
        await run.finished
        assert home.codes() == ["result_too_large"]
        assert page.closed_with is None


async def test_a_frame_beyond_all_limits_ends_the_socket_and_the_call_is_not_lost() -> None:
    """C135: closed with 1009; the page may come back and say that it was too large."""
    policy = Policy(frame_bytes=2 * LIMIT, result_bytes=LIMIT)
    async with house([call("t")], "ok", policy=policy) as home:
        page = await home.page(tools={"t": None})
        page.run("go")
        held = await page.next_call()
        await held.start()
        named = {"callId": held.call_id, "attempt": held.attempt}
        page.send({"type": "tool.result", "id": "huge", **named, "result": "x" * (3 * LIMIT)})
        assert await page.closed() == 1009
        assert home.results() == []
        assert (await page.connect())["resumed"] is True
        assert await held.fail("it was too large", "result_too_large") == "applied"
        await page.until(lambda: page.thread().last_run)
        assert home.codes() == ["result_too_large"]
        assert len(home.steps) == 2


# ---- fields that are not there ---------------------------------------------------------------

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "protocol" / "schema" / "page.json").read_text("utf-8")
)
FRAMES = [SCHEMA["$defs"][one["$ref"].split("/")[-1]] for one in SCHEMA["oneOf"]]
KINDS = {
    kind: frame
    for frame in FRAMES
    if (kind := frame["properties"]["type"]["const"]) not in ("hello", "bye", "pong")
}
"""Commands and notices; not what is said once, at the beginning or the end, or has no fields."""
SOME: dict[str, Any] = {
    "threadId": "t1",
    "callId": "c-none",
    "name": "t",
    "attempt": 1,
    "approved": True,
    "digest": "d",
    "visible": True,
    "state": 1,
    "result": 1,
    "runId": "r-1",
}
"""A value for each field that must be there, or of which one must."""
ONE_OF = {"state.update": ("state",), "tool.result": ("result",), "run.abort": ("runId",)}


def frame_of(kind: str) -> dict[str, Any]:
    """The smallest frame of its kind."""
    needed = {*KINDS[kind]["required"], *ONE_OF.get(kind, ())} - {"type", "id"}
    return {"type": kind, **{name: SOME[name] for name in sorted(needed)}}


async def answer(socket: Raw, frame: dict[str, Any]) -> dict[str, Any]:
    """What the server says to this frame, before the reply to the next; empty: nothing."""
    await socket.send(**frame)
    await socket.send(type="thread.list", id="after")
    while (told := await socket.receive())["type"] not in ("reply", "error"):
        pass
    if told.get("id") == "after":
        return {}
    await socket.expect(type="reply", id="after")
    return told.get("error") or told


@pytest.mark.parametrize("kind", KINDS)
async def test_null_for_what_may_be_left_out_and_a_field_from_the_future_are_nothing(
    kind: str,
) -> None:
    """C138: accepted as the frame without them is."""
    frame = frame_of(kind)
    optional = [name for name in KINDS[kind]["properties"] if name not in {*frame, "id"}]
    more = {**dict.fromkeys(optional), "future": {"x": None}, "parent": None}
    told = []
    for fields in ({}, more):
        async with house("hi") as home:
            socket = await home.greeted(threads=[{"threadId": "t1"}])
            given = {} if kind in ("tool.progress", "visibility") else {"id": "n"}
            told.append(await answer(socket, {**frame, **given, **fields}))
    shown = [{k: v for k, v in one.items() if k != "result"} for one in told]
    assert shown[0] == shown[1]
    assert told[0].get("code") != "invalid_frame"


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (kind, field)
        for kind in KINDS
        for field in frame_of(kind)
        if field in KINDS[kind]["required"] and field != "type"
    ],
)
async def test_null_for_what_must_be_there_is_refused_by_its_name(kind: str, field: str) -> None:
    """C138."""
    async with house("hi") as home:
        socket = await home.greeted()
        told = await answer(socket, {**frame_of(kind), "id": "n", field: None})
        assert told["code"] == "invalid_frame"
        assert field in told["message"] or told.get("path") == f"/{field}"
