"""Protocol 2: the hello and the welcome, and everything that may be wrong with a first frame."""

import asyncio
import json
from typing import Any

import pytest
from tests.acceptance.house import house
from tests.acceptance.raw import raw

from handspan import Bridge, Policy, Principal
from handspan.testing import call


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"does {name}", **fields}


async def test_a_welcome_tells_agents_limits_heartbeat_and_a_session() -> None:
    async with house(agents={"billing": lambda run: "x"}, policy=Policy(heartbeat=7.0)) as home:
        socket = await home.raw()
        welcome = await socket.hello()
        assert welcome["protocol"] == 1
        assert welcome["resumed"] is False
        assert "reason" not in welcome
        assert sorted(welcome["agents"]) == ["billing", "default"]
        assert welcome["heartbeatMs"] == 7_000
        assert welcome["threads"] == []
        assert welcome["tools"] == {"accepted": [], "rejected": []}
        assert len(welcome["session"]["secret"]) >= 43  # 256 bits in no more than base 64


async def test_the_limits_a_page_can_hit_are_told_in_camel_case() -> None:
    async with house(policy=Policy(result_bytes=1_234, frames_burst=77)) as home:
        limits = (await (await home.raw()).hello())["limits"]
        assert limits["resultBytes"] == 1_234
        assert limits["framesBurst"] == 77
        for name in ("frameBytes", "tools", "schemaBytes", "contextBytes", "stateBytes", "replies"):
            assert isinstance(limits[name], int)


async def test_the_subprotocol_is_handspan_v1() -> None:
    async with house() as home:
        socket = await home.raw()
        assert socket.line.subprotocol == "handspan.v1"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (tool("no spaces"), "bad_name"),
        (tool("x" * 65), "bad_name"),
        (tool("trailing\n"), "bad_name"),
        ({"name": "t", "description": "x" * 4_097}, "bad_description"),
        (tool("price"), "name_taken"),
        (tool("t", parameters={"type": "nonsense"}), "bad_schema"),
        (tool("t", parameters={"type": "array"}), "bad_schema"),
        (
            tool("t", parameters={"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}),
            "schema_remote_ref",
        ),
        (tool("t", parameters={"type": "object", "title": "x" * 70_000}), "schema_too_large"),
        (tool("good"), "duplicate_name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_bad_tool_is_rejected_with_its_code_and_the_good_ones_stand(
    bad: dict[str, Any], code: str
) -> None:
    """P14, C119."""

    def price() -> int:
        """The server's own."""
        return 1

    async with house(tools=[price]) as home:
        socket = await home.raw()
        verdict = (await socket.hello(tools=[tool("good"), bad, tool("fine")]))["tools"]
        assert [r["code"] for r in verdict["rejected"]] == [code]
        assert verdict["rejected"][0]["message"]
        assert bad["name"].startswith(verdict["rejected"][0]["name"])
        assert verdict["accepted"] == ["good", "fine"]


async def test_tools_beyond_the_limit_are_rejected_as_too_many() -> None:
    """P12."""
    async with house(policy=Policy(tools=2)) as home:
        verdict = (await (await home.raw()).hello(tools=[tool("a"), tool("b"), tool("c")]))["tools"]
        assert verdict["accepted"] == ["a", "b"]
        assert [(r["name"], r["code"]) for r in verdict["rejected"]] == [("c", "too_many_tools")]


async def test_a_thing_that_is_no_tool_harms_no_other() -> None:
    """P14."""
    async with house() as home:
        verdict = (await (await home.raw()).hello(tools=[7, None, {}, tool("ok")]))["tools"]
        assert verdict["accepted"] == ["ok"]
        assert len(verdict["rejected"]) == 3


async def test_another_version_is_refused_with_4503() -> None:
    async with house() as home:
        socket = await home.raw()
        await socket.send(type="hello", protocol=2, documentId="d")
        assert await socket.closed() == 4503
        assert [f["code"] for f in socket.seen] == ["unsupported_protocol"]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"run.start","id":"1","threadId":"t1","message":"hi"}',
        '{"type":"pong"}',
        '{"type":"hello","protocol":1}',
        "junk",
        "[]",
    ],
)
async def test_a_first_frame_that_is_no_hello_is_refused_with_4500(text: str) -> None:
    async with house() as home:
        socket = await home.raw()
        await socket.send_text(text)
        assert await socket.closed() == 4500
        assert home.bridge.threads == []


async def test_a_hello_that_never_comes_is_closed_with_4408() -> None:
    async with house(policy=Policy(hello_timeout=0.05)) as home:
        assert await (await home.raw()).closed() == 4408


async def test_a_binary_frame_is_closed_with_1003() -> None:
    async with house() as home:
        socket = await home.greeted()
        await socket.send_text(b"{}")
        assert await socket.closed() == 1003


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_authenticator_decides_who_gets_in(kind: str) -> None:
    seen: list[Any] = []

    def judge(token: str | None, request: Any) -> Principal | None:
        seen.append(token)
        return Principal("ann") if token == "sesame" else None

    async def judge_later(token: str | None, request: Any) -> Principal | None:
        await asyncio.sleep(0)
        return judge(token, request)

    async with house("hi", authenticate=judge if kind == "sync" else judge_later) as home:
        stranger = await home.raw()
        await stranger.send(type="hello", protocol=1, documentId="d", token="wrong")
        assert await stranger.closed() == 3000
        assert [f["code"] for f in stranger.seen] == ["unauthenticated"]
        friend = await home.page(token="sesame")
        await friend.run("hello").finished
        assert seen == ["wrong", "sesame"]
        assert [look.principal for look in home.bridge.threads] == ["ann"]


async def test_an_authenticator_that_raises_lets_nobody_in() -> None:
    """P14: closed when in doubt."""

    def broken(token: str | None, request: Any) -> Principal | None:
        raise RuntimeError("the user database is down: password hunter2")

    async with house(authenticate=broken) as home:
        socket = await home.raw()
        await socket.send(type="hello", protocol=1, documentId="d", token="x")
        assert await socket.closed() == 3000
        assert "hunter2" not in json.dumps(socket.seen)


async def test_commands_may_follow_the_hello_at_once() -> None:
    async with house("Hello.") as home:
        socket = await home.raw()
        await socket.send(type="hello", protocol=1, documentId="d", threads=[{"threadId": "t1"}])
        await socket.send(type="run.start", id="1", threadId="t1", message="hi")
        first = await socket.receive()
        assert first["type"] == "welcome"
        assert (await socket.expect(type="reply", id="1"))["result"]["runId"]
        await socket.events_until("RUN_FINISHED")


async def test_commands_wait_for_an_authenticator_that_takes_its_time() -> None:
    async def slow(token: str | None, request: Any) -> Principal:
        for _ in range(20):
            await asyncio.sleep(0)
        return Principal("ann")

    async with house("Hello.", authenticate=slow) as home:
        socket = await home.raw()
        await socket.send(type="hello", protocol=1, documentId="d")
        await socket.send(type="run.start", id="1", threadId="t1", message="hi")
        assert (await socket.receive())["type"] == "welcome"
        assert (await socket.expect(type="reply", id="1"))["result"]["runId"]


async def test_a_second_hello_is_an_error_and_changes_nothing() -> None:
    async with house() as home:
        socket = await home.greeted()
        await socket.send(type="hello", protocol=1, documentId="other")
        assert (await socket.expect(type="error"))["code"]
        assert len(home.bridge.sessions) == 1


async def test_a_thread_that_may_not_be_opened_is_told_beside_those_that_may() -> None:
    def authorize(
        principal: Any, action: str, thread_id: str | None, name: str | None = None
    ) -> bool:
        return thread_id != "private"

    async with house(authorize=authorize) as home:
        socket = await home.raw()
        wishes = [{"threadId": "private"}, {"threadId": "open"}]
        threads = {t["threadId"]: t for t in (await socket.hello(threads=wishes))["threads"]}
        assert threads["private"]["error"]["code"] == "forbidden"
        assert "error" not in threads["open"]
        snapshot = await socket.expect(type="snapshot")
        assert snapshot["threadId"] == "open"


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "s-nobody", "secret": "x"},
        {"id": "", "secret": ""},
    ],
)
async def test_an_unknown_session_gets_a_new_one_and_is_told_why(wrong: dict[str, str]) -> None:
    async with house() as home:
        welcome = await (await home.raw()).hello(session=wrong)
        assert welcome["resumed"] is False
        assert welcome["reason"] == "unknown_session"
        assert welcome["session"]["id"] != wrong["id"]


async def test_an_optional_field_may_be_null() -> None:
    async with house("x") as home:
        socket = await home.raw()
        nothing = dict.fromkeys(
            (
                "client",
                "token",
                "session",
                "threads",
                "calls",
                "tools",
                "context",
                "visible",
                "reload",
            )
        )
        assert (await socket.hello(**nothing))["resumed"] is False
        optional = dict.fromkeys(("runId", "agent", "after", "context", "forwardedProps", "ifBusy"))
        reply = await socket.ask("run.start", threadId="t1", message="hi", **optional)
        assert reply["result"]["runId"]


async def test_a_ping_comes_when_nothing_was_sent_for_a_heartbeat() -> None:
    async with house(policy=Policy(heartbeat=0.05)) as home:
        socket = await home.greeted()
        assert await socket.expect(type="ping") == {"type": "ping"}
        await socket.send(type="pong")
        reply = await socket.ask("thread.list")
        assert reply["result"] == {"threads": []}


async def test_a_foreign_origin_cannot_open_a_socket() -> None:
    """Behaviour 7."""
    async with house() as home:
        with pytest.raises(Exception, match="403"):
            async with raw(home.url, origin="https://evil.example"):
                pass
        async with raw(home.url, origin=home.url.replace("ws://", "http://")) as socket:
            await socket.hello()


async def test_a_bind_that_others_reach_needs_an_authenticator() -> None:
    """Behaviour 7."""
    with pytest.raises(Exception, match="authenticator"):
        async with Bridge().running("0.0.0.0"):
            pass


async def test_a_page_that_says_bye_ends_its_session() -> None:
    async with house([call("t")]) as home:
        page = await home.page()
        assert len(home.bridge.sessions) == 1
        page.send({"type": "bye"})
        assert await page.closed() == 1000
        assert home.bridge.sessions == []
