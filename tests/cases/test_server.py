"""The server among proxies, strangers, restarts and blocking code, over real sockets.

Cases C140, C141, C144, C146, C147, C157; P9, P12, P14.
"""

import asyncio
import logging
import threading
from typing import Any

import pytest
from tests.acceptance.house import House, house, still_house
from tests.acceptance.raw import raw
from tests.cases.idle_proxy import IdleProxy
from websockets.exceptions import InvalidStatus

from handspan import Bridge, Policy, Principal, UsageError
from handspan.testing import Page, Pause, call

IDLE_S = 1.0
"""What the proxy allows; ten heartbeats, so that a slow machine does not make it drop one."""


# ---- silence ---------------------------------------------------------------------------------


def port_of(home: House) -> int:
    return int(home.url.rsplit(":")[-1])


async def waiting(home: House, proxy: IdleProxy) -> tuple[Page, Any, Any]:
    """A page behind the proxy whose call waits for a human."""
    page = Page.dial(f"ws://127.0.0.1:{proxy.port}/", tools={"ask": None})
    home.stack.push_async_callback(page.leave)
    await page.connect()
    run = page.run("go")
    held = await page.next_call()
    await held.start()
    return page, run, held


async def test_a_call_that_waits_survives_a_proxy_that_drops_what_is_silent() -> None:
    """C140: pings go both ways, before the proxy loses its patience; one connection, one result."""
    policy = Policy(heartbeat=IDLE_S / 10)
    async with (
        house([call("ask")], "ok", policy=policy) as home,
        IdleProxy(port_of(home), IDLE_S).running() as proxy,
    ):
        page, run, held = await waiting(home, proxy)
        assert page.welcome["heartbeatMs"] == 100
        for _ in range(15):
            await page.expect(type="ping")
        assert await held.answer("yes") == "applied"
        assert (await run.finished)["reason"] == "completed"
        assert (proxy.dropped.is_set(), page.closed_with) == (False, None)
        await page.leave()


async def test_without_pings_that_proxy_drops_it() -> None:
    """C140: the proof that the proxy of the test before this one is one."""
    async with (
        house([call("ask")], "ok", policy=Policy(heartbeat=60.0)) as home,
        IdleProxy(port_of(home), IDLE_S / 10).running() as proxy,
    ):
        page, run, held = await waiting(home, proxy)
        assert await page.closed() == 1006
        assert proxy.dropped.is_set()
        await page.reconnect()
        assert await held.answer("yes") == "applied"
        assert (await run.finished)["reason"] == "completed"


def test_the_heartbeat_is_a_setting_below_what_proxies_allow() -> None:
    """C140."""
    assert 0 < Policy().heartbeat <= 30
    with pytest.raises(UsageError):
        Policy(heartbeat=0)


@pytest.mark.parametrize("blocking", ["a tool", "an agent"])
async def test_code_that_blocks_does_not_keep_others_from_being_served(blocking: str) -> None:
    """C141: it is in a thread of its own; pings go out, another page is answered meanwhile."""
    begun, go_on = threading.Event(), threading.Event()

    def block() -> str:
        """Blocks."""
        begun.set()
        assert go_on.wait(10)
        return "done"

    async def calls_it(run: Any) -> Any:
        if run.depth == 0:
            yield run.call("block")

    slow = calls_it if blocking == "a tool" else lambda run: block()
    agents = {"quick": lambda run: "at once"}
    policy = Policy(heartbeat=0.05)
    async with house(agent=slow, agents=agents, tools=[block], policy=policy) as home:
        page = await home.page()
        run = page.run("slow")
        try:
            await page.until(lambda: begun.is_set() and any(map(_is_ping, page.frames)))
            for _ in range(3):
                await page.expect(type="ping")
            other = await home.page(threads=("t2",))
            assert (await other.run("hi", agent="quick").finished)["reason"] == "completed"
            assert not run.is_over
        finally:
            go_on.set()
        assert (await run.finished)["reason"] == "completed"
        assert page.closed_with is None


def _is_ping(frame: Any) -> bool:
    return bool(frame["type"] == "ping")


# ---- restarts and refusals -------------------------------------------------------------------


async def test_a_server_that_restarts_says_so_to_every_page() -> None:
    """C144: 1012, which a page may retry, after a word about when."""
    async with house([Pause(asyncio.Event())], policy=Policy(drain_grace=0.05)) as home:
        pages = [await home.page(threads=(f"t{n}",)) for n in range(3)]
        pages[0].run("go")
        await pages[0].until(lambda: pages[0].thread().run)
        await home.bridge.drain()
        assert [await page.closed() for page in pages] == [1012] * 3
        for page in pages:
            assert page.frames[-1]["type"] == "goaway"
            assert page.frames[-1]["reconnectAfterMs"] >= 0


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"type": "hello", "protocol": 1, "documentId": "d", "token": "wrong"}, 3000),
        ({"type": "hello", "protocol": 99, "documentId": "d", "token": "right"}, 4503),
        ({"type": "run.start", "id": "1", "threadId": "t1", "message": "hi"}, 4500),
    ],
)
async def test_who_is_refused_for_good_is_told_by_a_code_that_is_not_retried(
    first: dict[str, Any], code: int
) -> None:
    """C144: and nothing of what he said was done."""

    def one(token: str | None, request: Any) -> Principal | None:
        return Principal("ann") if token == "right" else None

    async with house("hi", authenticate=one) as home:
        socket = await home.raw()
        await socket.send(**first)
        assert await socket.closed() == code
        assert (home.bridge.sessions, home.bridge.threads) == ([], [])


# ---- strangers -------------------------------------------------------------------------------

ORIGINS = {"own": True, "allowed": True, "absent": True, "null": False, "evil": False}
HOSTS = {"own": True, "evil": False}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("origin", ORIGINS)
async def test_only_an_allowed_origin_under_an_own_name_may_open_a_socket(
    origin: str, host: str
) -> None:
    """C146: both count, also when they agree with each other; no Origin is not a browser."""
    async with house("hi", origins=["https://shop.example"]) as home:
        named = home.url.removeprefix("ws://") if host == "own" else "evil.example"
        given = {
            "own": f"http://{named}",
            "allowed": "https://shop.example",
            "absent": None,
            "null": "null",
            "evil": "https://evil.example",
        }[origin]
        status = await handshake(home, given, named)
        assert status == (101 if ORIGINS[origin] and HOSTS[host] else 403)
        assert home.bridge.sessions == []


async def handshake(home: House, origin: str | None, host: str) -> int:
    """The status of an upgrade with these headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(home))
    lines = [
        "GET / HTTP/1.1",
        f"Host: {host}",
        *([f"Origin: {origin}"] if origin is not None else []),
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(5):
        status = int((await reader.readline()).split()[1])
    writer.transport.abort()
    return status


TOKEN = "tok-5eb63bbbe01eeed093cb22bb8f5acdc3"


async def test_a_token_is_in_the_first_frame_and_in_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C147: good, wrong, in the address; nothing is done before it was looked at."""

    def look(token: str | None, request: Any) -> Principal | None:
        if token == TOKEN + "-breaks":
            raise RuntimeError(f"no such token: {token}")
        return Principal("ann") if token == TOKEN else None

    with caplog.at_level(logging.DEBUG):
        async with house("hi", authenticate=look, policy=Policy(hello_timeout=0.1)) as home:
            early = await home.raw()
            await early.send(type="run.start", id="1", threadId="t1", message="hi")
            assert await early.closed() == 4500
            silent = await home.raw()
            assert await silent.closed() == 4408
            for wrong in (TOKEN + "-wrong", TOKEN + "-breaks"):
                stranger = await home.raw()
                await stranger.send(type="hello", protocol=1, documentId="d", token=wrong)
                assert await stranger.closed() == 3000
                assert TOKEN not in str(stranger.seen)
            with pytest.raises(InvalidStatus):
                async with raw(f"{home.url}/chat?token={TOKEN}"):
                    pass
            assert home.streams == {}
            ann = await home.page(token=TOKEN)
            assert (await ann.run("hello").finished)["reason"] == "completed"
            secrets = [TOKEN, ann.session["secret"]]
    ours = [r for r in caplog.records if r.name.startswith("handspan")]
    lines = [caplog.handler.format(record) for record in ours]
    assert lines
    for secret in secrets:
        assert [line for line in lines if secret in line] == []


# ---- memory ----------------------------------------------------------------------------------


async def test_of_many_threads_the_newest_stay_and_one_that_runs() -> None:
    """C157: a hundred visitors, room for ten; the oldest is at work all the while."""
    async with still_house(policy=Policy(threads=10, thread_idle=3_600.0)) as home:
        bridge, gate = home.bridge, asyncio.Event()

        async def agent(run: Any) -> Any:
            if run.thread_id == "busy":
                await gate.wait()
            yield "hi"

        bridge.add_agent("default", agent)
        running = asyncio.ensure_future(bridge.run("go", thread_id="busy"))
        await home.world.settle()
        for n in range(99):
            await bridge.run("go", thread_id=f"t{n}")
        await home.world.advance(120.0)
        kept = {look.thread_id for look in bridge.threads}
        assert kept == {"busy", *(f"t{n}" for n in range(90, 99))}
        gate.set()
        assert (await running).reason == "completed"
        await home.world.settle()


async def test_a_thread_that_nobody_used_for_long_leaves_memory_and_one_that_is_read_stays() -> (
    None
):
    """C157: by age."""
    async with still_house("hi", policy=Policy(thread_idle=600.0)) as home:
        page = await home.world.page(threads=("read",))
        await page.run("go").finished
        await home.bridge.run("go", thread_id="forgotten")
        await home.world.advance(500.0)
        assert {look.thread_id for look in home.bridge.threads} == {"read", "forgotten"}
        await home.world.advance(300.0)
        assert {look.thread_id for look in home.bridge.threads} == {"read"}


@pytest.mark.parametrize("name", ["threads", "thread_idle", "log_bytes", "log_events"])
def test_what_bounds_the_memory_is_checked_when_it_is_set(name: str) -> None:
    """C157."""
    for wrong in (0, -1, float("nan"), "many"):
        with pytest.raises(UsageError, match=name):
            Bridge(policy=Policy(**{name: wrong}))
