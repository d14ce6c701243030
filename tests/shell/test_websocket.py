"""Real sockets on 127.0.0.1 against a small gate; time is virtual, so nothing here waits for it.

Peers that misbehave are plain TCP sockets which write frames by hand and never read.
"""

import asyncio
import base64
import json
import os
import socket as tcp
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from handspan.core.policy import Policy
from handspan.shell.socket import Socket
from handspan.shell.websocket import WRITE_LIMIT_BYTES, Listener, serve

PATIENCE_S = 5.0


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    if request.param == "uvloop":
        policy: asyncio.AbstractEventLoopPolicy = pytest.importorskip("uvloop").EventLoopPolicy()
        return policy
    return asyncio.DefaultEventLoopPolicy()


class VirtualClock:
    """Stands still until `advance`."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.timers: list[tuple[float, Callable[[], None], list[bool]]] = []

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        live = [True]
        self.timers.append((when, callback, live))

        class Timer:
            def cancel(self) -> None:
                live[0] = False

        return Timer()

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due = [t for t in self.timers if t[0] <= self.time]
        self.timers = [t for t in self.timers if t[0] > self.time]
        for _, callback, live in sorted(due, key=lambda t: t[0]):
            if live[0]:
                callback()

    def live(self) -> int:
        return sum(1 for *_, live in self.timers if live[0])


class FakeGate:
    """Welcomes who says hello, echoes the rest, and remembers everything."""

    def __init__(self) -> None:
        self.opened: list[Socket] = []
        self.gone: list[Socket] = []
        self.texts: list[str] = []
        self.is_draining = False
        self.refuses = False
        self.changed = asyncio.Event()

    def connected(self, socket: Socket) -> None:
        self.opened.append(socket)
        self.changed.set()
        if self.refuses:
            raise RuntimeError("SECRET")

    async def received(self, socket: Socket, text: str) -> None:
        self.texts.append(text)
        self.changed.set()
        if text == "hello":
            socket.welcomed = True
            socket.writer.control(b'{"type":"welcome"}')
        elif text == "refuse me":
            socket.writer.control(b'{"type":"error"}')
            socket.close(3000, "unauthenticated")
        elif text.startswith("fail"):
            raise RuntimeError(text)
        else:
            socket.writer.control(json.dumps({"type": "echo", "text": text}).encode())

    def disconnected(self, socket: Socket) -> None:
        self.gone.append(socket)
        self.changed.set()
        if self.refuses:
            raise RuntimeError("SECRET")

    def draining(self) -> bool:
        return self.is_draining

    def metrics(self) -> str:
        if self.refuses:
            raise RuntimeError("SECRET")
        return "handspan_sockets 1\n"

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Ring:
    """A thread's log that keeps its newest events; `ports.Stream`."""

    def __init__(self, keep: int) -> None:
        self.thread_id = "t1"
        self.epoch = "e1"
        self.log = self
        self.keep = keep
        self.base = 0
        self.events: list[bytes] = []

    @property
    def head(self) -> int:
        return self.base + len(self.events)

    @property
    def readable(self) -> int:
        return self.head

    def add(self, event: bytes) -> None:
        self.events.append(event)
        if len(self.events) > self.keep:
            del self.events[0]
            self.base += 1

    def read(self, offset: int, limit_bytes: int) -> list[bytes] | None:
        if offset < self.base:
            return None
        taken: list[bytes] = []
        for event in self.events[offset - self.base :]:
            limit_bytes -= len(event) + 1
            if limit_bytes < 0 and taken:
                break
            taken.append(event)
        return taken

    def snapshot(self, session_id: str) -> bytes:
        return b'{"type":"snapshot","threadId":"t1","offset":%d}' % self.head


class House:
    """A listener with its gate and clock."""

    def __init__(self, gate: FakeGate, clock: VirtualClock, listener: Listener) -> None:
        self.gate = gate
        self.clock = clock
        self.listener = listener

    @asynccontextmanager
    async def page(self, *, hello: bool = True, **options: Any) -> AsyncIterator[ClientConnection]:
        uri = f"ws://127.0.0.1:{self.listener.port}/"
        options = {"ping_interval": None, "compression": None, "close_timeout": 1} | options
        async with connect(uri, **options) as page:
            if hello:
                await page.send("hello")
                assert json.loads(await page.recv())["type"] == "welcome"
            yield page

    async def http(self, request: str) -> tuple[int, str]:
        """Status and the whole response of a raw request; {port} is filled in."""
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
            writer.write(request.replace("{port}", str(self.listener.port)).encode("latin-1"))
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split()[1])
            body = b"" if status == 101 else await reader.read()
            writer.close()
            return status, (head + body).decode("latin-1")

    async def handshake(self, *headers: str, path: str = "/") -> int:
        lines = [f"GET {path} HTTP/1.1", *UPGRADE, *headers]
        return (await self.http("\r\n".join(lines) + "\r\n\r\n"))[0]

    async def stalled(self, *, hello: bool = True) -> tuple[tcp.socket, Socket]:
        """A page that never reads: its TCP socket, and the server's end."""
        peer = tcp.socket()
        peer.setsockopt(tcp.SOL_SOCKET, tcp.SO_RCVBUF, 4096)
        peer.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(peer, ("127.0.0.1", self.listener.port))
        count = len(self.gate.opened)
        request = "\r\n".join(["GET / HTTP/1.1", "Host: localhost", *UPGRADE]) + "\r\n\r\n"
        await loop.sock_sendall(peer, request.encode())
        await self.gate.until(lambda: len(self.gate.opened) > count)
        end = self.gate.opened[count]
        if hello:
            await loop.sock_sendall(peer, frame(0x1, b"hello"))
            await self.gate.until(lambda: end.welcomed)
        return peer, end


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    f"Sec-WebSocket-Key: {base64.b64encode(b'0' * 16).decode()}",
)


def frame(opcode: int, payload: bytes) -> bytes:
    """A final frame of a client, masked with zeros."""
    assert len(payload) < 126
    return bytes([0x80 | opcode, 0x80 | len(payload)]) + bytes(4) + payload


@asynccontextmanager
async def house(*, draining: bool = False, **options: Any) -> AsyncIterator[House]:
    policy = {
        name: options.pop(name) for name in list(options) if name in Policy.__dataclass_fields__
    }
    gate, clock = FakeGate(), VirtualClock()
    gate.is_draining = draining
    settings = {"host": "127.0.0.1", "port": 0, "policy": Policy(**policy), "clock": clock}
    async with asyncio.timeout(4 * PATIENCE_S), serve(gate, **settings | options) as listener:
        yield House(gate, clock, listener)
        gate.refuses = False
    assert sorted(s.id for s in gate.opened) == sorted(s.id for s in gate.gone)
    assert clock.live() == 0
    assert not [t for t in asyncio.all_tasks() if "_attend" in repr(t)]


async def close_code(page: ClientConnection) -> int | None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await page.recv()
            except ConnectionClosed:
                return page.close_code


async def turns(count: int = 20) -> None:
    """Let the loop run; what it has to do by itself is done then."""
    for _ in range(count):
        await asyncio.sleep(0)


# ---- a socket's life ----


async def test_messages_come_in_order_and_the_end_is_told_once() -> None:
    async with house() as h:
        async with h.page() as page:
            for n in range(100):
                await page.send(str(n))
            got = [json.loads(await page.recv())["text"] for _ in range(100)]
            assert got == [str(n) for n in range(100)]
            end = h.gate.opened[0]
            assert (end.closed, end.welcomed, list(h.listener.sockets)) == (False, True, [end])
        await h.gate.until(lambda: h.gate.gone == [end])
        assert end.closed
        assert h.gate.texts == ["hello", *map(str, range(100))]


async def test_the_subprotocol_is_ours_or_none() -> None:
    async with house() as h:
        async with h.page(subprotocols=["other", "handspan.v1"]) as page:
            assert page.subprotocol == "handspan.v1"
        async with h.page() as page:
            assert page.subprotocol is None


async def test_the_request_is_known_before_the_first_frame() -> None:
    async with house(trusted_proxies=("127.0.0.0/8",)) as h:
        headers = {"X-Forwarded-For": "6.6.6.6, 5.5.5.5", "X-Forwarded-Proto": "https"}
        origin = f"https://127.0.0.1:{h.listener.port}"
        async with h.page(additional_headers=headers, origin=origin):
            request = h.gate.opened[0].request
            assert (request.address, request.secure, request.path) == ("5.5.5.5", True, "/")
            assert request.origin == origin
            assert request.headers["x-forwarded-for"] == "6.6.6.6, 5.5.5.5"


async def test_what_was_queued_before_a_close_is_written_before_it() -> None:
    async with house() as h, h.page(hello=False) as page:
        await page.send("refuse me")
        assert json.loads(await page.recv()) == {"type": "error"}
        assert await close_code(page) == 3000
        assert page.close_reason == "unauthenticated"


async def test_a_closed_socket_takes_nothing_more() -> None:
    async with house() as h, h.page(hello=False) as page:
        await page.send("refuse me")
        for _ in range(50):
            await page.send("too late")
        assert await close_code(page) == 3000
        assert h.gate.texts == ["refuse me"]


# ---- who may come in ----


EVIL = "Origin: http://evil.example"
OWN = "Origin: http://localhost:{port}"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Host: localhost:{port}", OWN], 101),
        (["Host: 127.0.0.1:{port}", OWN], 101),
        (["Host: localhost:{port}"], 101),
        (["Host: localhost:{port}", "Origin: https://app.example"], 101),
        (["Host: app.example", "Origin: https://app.example"], 101),
        (["Host: localhost:{port}", EVIL], 403),
        (["Host: localhost:{port}", "Origin: null"], 403),
        (["Host: localhost:{port}", "Origin: "], 403),
        (["Host: localhost:{port}", OWN, EVIL], 403),
        (["Host: localhost:{port}", "Origin: http://localhost:1"], 403),
        (["Host: evil.example", "Origin: http://evil.example"], 403),
        (["Host: evil.example:{port}", "Origin: http://evil.example:{port}"], 403),
        (["Host: evil.example", OWN], 403),
        (["Host: evil.example"], 403),
        (["Host: localhost", "Host: localhost"], 403),
        ([], 403),
        (["Host: localhost:{port}", "X-Forwarded-For: 127.0.0.1"], 403),
    ],
)
async def test_host_and_origin_decide_before_the_upgrade(headers: list[str], status: int) -> None:
    async with house(origins=["https://app.example"]) as h:
        assert await h.handshake(*headers) == status
        await turns()
        assert len(h.gate.opened) == (status == 101)


async def test_with_an_authenticator_no_origin_is_left_to_the_token() -> None:
    async with house(authenticated=True) as h:
        assert await h.handshake("Host: localhost", "X-Forwarded-For: 6.6.6.6") == 101
        assert await h.handshake("Host: localhost", "Origin: null") == 403


async def test_sockets_are_at_the_root_only() -> None:
    async with house() as h:
        for path in ("/livez", "/client/handspan.js", "/x", "//"):
            assert await h.handshake("Host: localhost", path=path) == 404
        assert await h.handshake("Host: localhost", path="/?x=1") == 101


async def test_a_draining_server_takes_no_sockets() -> None:
    async with house(draining=True) as h:
        assert await h.handshake("Host: localhost") == 503


async def test_sockets_before_welcome_are_limited() -> None:
    async with house(unwelcomed_sockets=2) as h:
        async with h.page(hello=False) as first, h.page(hello=False):
            assert await h.handshake("Host: localhost") == 503
            await first.send("hello")
            await first.recv()
            async with h.page(hello=False):
                assert await h.handshake("Host: localhost") == 503
        await h.gate.until(lambda: len(h.gate.gone) == 3)
        async with h.page(hello=False), h.page(hello=False):
            pass


async def test_connections_that_ask_nothing_are_limited() -> None:
    async with house(unwelcomed_sockets=1) as h:
        address = ("127.0.0.1", h.listener.port)
        peers = [await asyncio.open_connection(*address) for _ in range(3)]
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                assert await peers[2][0].read() == b""
        for _, writer in peers:
            writer.close()


# ---- frames that are refused ----


async def test_a_binary_frame_closes_1003() -> None:
    async with house() as h, h.page() as page:
        await page.send(b"binary")
        assert await close_code(page) == 1003
        assert h.gate.texts == ["hello"]


async def test_a_frame_that_is_too_large_closes_1009() -> None:
    async with house(frame_bytes=10_000) as h:
        async with h.page() as page:
            await page.send("x" * 10_000)
            assert len(json.loads(await page.recv())["text"]) == 10_000
            await page.send("x" * 10_001)
            assert await close_code(page) == 1009
        async with h.page() as page:
            await page.send(["x" * 6_000, "x" * 6_000])
            assert await close_code(page) == 1009


async def test_bad_utf8_closes_1007() -> None:
    async with house() as h, h.page() as page:
        await page.send(b"\xff\xfe", text=True)
        assert await close_code(page) == 1007


async def test_no_hello_closes_4408_and_any_first_frame_stops_that_timer() -> None:
    async with (
        house(hello_timeout=5) as h,
        h.page(hello=False) as silent,
        h.page(hello=False) as speaking,
    ):
        await speaking.send("not welcome yet")
        await speaking.recv()
        h.clock.advance(4.9)
        assert not h.gate.opened[0].closed
        h.clock.advance(0.2)
        assert await close_code(silent) == 4408
        await speaking.send("still there")
        assert json.loads(await speaking.recv())["text"] == "still there"


async def test_too_many_frames_are_dropped_told_and_in_the_end_closed_4429() -> None:
    async with house(frames_per_second=1, frames_burst=3) as h, h.page() as page:
        for n in range(4):  # hello was the first of three
            await page.send(str(n))
        answers = [json.loads(await page.recv()) for _ in range(4)]
        assert [a["type"] for a in answers] == ["echo", "echo", "error", "error"]
        assert (answers[2]["code"], answers[2]["retryable"]) == ("rate_limited", True)
        h.clock.advance(10.5)  # a full bucket, and the two strikes are forgiven
        for n in range(5):
            await page.send(str(n))
        answers = [json.loads(await page.recv()) for _ in range(5)]
        assert [a["type"] for a in answers] == ["echo"] * 3 + ["error"] * 2
        await page.send("the third within 10 s")
        assert json.loads(await page.recv())["type"] == "error"
        assert await close_code(page) == 4429
        assert len(h.gate.texts) == 6


async def test_a_frame_that_fails_closes_1011_and_harms_no_other_socket(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with house() as h, h.page() as bad, h.page() as good:
        await bad.send("fail with TOKEN-IN-PAYLOAD")
        assert await close_code(bad) == 1011
        await good.send("still there")
        assert json.loads(await good.recv())["text"] == "still there"
    ours = [r for r in caplog.records if r.name.startswith("handspan")]
    assert any("RuntimeError" in r.getMessage() for r in ours)
    for record in ours:
        assert "TOKEN-IN-PAYLOAD" not in record.getMessage()
        assert "\n" not in record.getMessage()
        assert record.exc_info is None


async def test_a_gate_that_raises_at_the_opening_closes_1011_and_is_told_the_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with house() as h:
        h.gate.refuses = True
        async with h.page(hello=False) as page:
            assert await close_code(page) == 1011
        await h.gate.until(lambda: len(h.gate.gone) == 1)
        assert (await h.http("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 500
    assert "SECRET" not in caplog.text


# ---- peers that stall ----


async def test_a_stalled_page_is_bounded_and_aborted_while_another_stays_at_full_speed() -> None:
    """C154: 32 MB of events; the page that reads gets them all, in order, before anything else."""
    event = b'{"type":"TEXT_MESSAGE_CONTENT","delta":"' + b"x" * 32_000 + b'"}'
    ring = Ring(keep=64)
    async with house(send_timeout=10) as h, h.page(max_size=None) as page:
        reading = h.gate.opened[0]
        peer, stalled = await h.stalled()
        for end in (reading, stalled):
            end.writer.open(ring, 0)
        seen, backlog = 0, 0
        for sent in range(1, 1_001):
            ring.add(event)
            reading.writer.wake()
            stalled.writer.wake()
            if sent % 16 == 0 or sent == 1_000:
                while seen < sent:
                    answer = json.loads(await asyncio.wait_for(page.recv(), PATIENCE_S))
                    assert answer["type"] == "events"
                    seen += len(answer["events"])
                    assert answer["offset"] == seen
                backlog = max(backlog, stalled.connection.backlog())  # type: ignore[attr-defined]
        assert 0 < backlog <= WRITE_LIMIT_BYTES + 66_000
        assert not stalled.closed
        h.clock.advance(10)
        await h.gate.until(lambda: stalled in h.gate.gone)
        ring.add(event)
        reading.writer.wake()
        assert json.loads(await page.recv())["offset"] == 1_001
        peer.close()


async def test_a_page_that_reads_again_gets_a_snapshot_for_what_it_missed() -> None:
    ring = Ring(keep=10)
    async with house(heartbeat=1_000) as h:
        peer, end = await h.stalled()
        end.writer.open(ring, 0)
        for _ in range(1_000):
            ring.add(b'"' + b"x" * 32_000 + b'"')
            end.writer.wake()
            await asyncio.sleep(0)
        loop, got = asyncio.get_running_loop(), b""
        async with asyncio.timeout(PATIENCE_S):
            while b'"type":"snapshot","threadId":"t1","offset":1000}' not in got:
                chunk = await loop.sock_recv(peer, 1 << 20)
                assert chunk
                got = got[-100:] + chunk
        peer.close()


async def test_a_stalled_page_is_never_closed_politely_for_long() -> None:
    async with house(send_timeout=10) as h:
        peer, end = await h.stalled()
        fill(end)
        end.close(4409, "superseded")
        await turns()
        assert h.gate.gone == []
        h.clock.advance(5)
        await h.gate.until(lambda: h.gate.gone == [end])
        peer.close()


async def test_pongs_do_not_pile_up_for_a_page_that_never_reads() -> None:
    async with house() as h:
        peer, end = await h.stalled()
        fill(end)
        loop = asyncio.get_running_loop()
        pings = frame(0x9, b"x" * 125) * 1_000
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while True:
                    await loop.sock_sendall(peer, pings)
        await h.gate.until(lambda: h.gate.gone == [end])
        peer.close()


async def test_a_silent_peer_is_pinged_and_then_aborted_while_an_idle_page_stays() -> None:
    """C142; the idle page is the websockets client, which answers protocol pings by itself."""
    async with house(heartbeat=20) as h, h.page() as page:
        idle = h.gate.opened[0]
        peer, silent = await h.stalled()
        for _ in range(2):
            heard_at = idle.heard_at
            h.clock.advance(20)
            async with asyncio.timeout(PATIENCE_S):
                assert json.loads(await page.recv())["type"] == "ping"
                while idle.heard_at == heard_at:
                    await asyncio.sleep(0)
        assert not silent.closed
        h.clock.advance(20)
        await h.gate.until(lambda: silent in h.gate.gone)
        assert idle not in h.gate.gone
        peer.close()


async def test_a_peer_that_fails_the_protocol_and_stalls_is_aborted() -> None:
    """Full of pongs, so that no writer waits; then bad UTF-8, whose closing frame gets stuck."""
    async with house() as h:
        peer, end = await h.stalled()
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while not end.connection.is_full:  # type: ignore[attr-defined]
                await loop.sock_sendall(peer, frame(0x9, b"x" * 125) * 100)
                await turns(3)
            await loop.sock_sendall(peer, frame(0x1, b"\xff"))
            while end.connection.is_open:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
        h.clock.advance(20)
        assert h.gate.gone == []
        h.clock.advance(5)
        await h.gate.until(lambda: h.gate.gone == [end])
        peer.close()


async def test_a_reset_is_an_end_like_any_other() -> None:
    async with house() as h:
        peer, end = await h.stalled()
        fill(end)
        peer.setsockopt(tcp.SOL_SOCKET, tcp.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        await h.gate.until(lambda: h.gate.gone == [end])


def fill(end: Socket) -> None:
    """Write until the transport is full."""
    while not end.connection.is_full:  # type: ignore[attr-defined]
        end.writer.control(b'"%b"' % (b"x" * 1_000_000))
        end.writer.flush()


# ---- the end ----


async def test_close_all_closes_every_socket_and_aborts_what_does_not_answer() -> None:
    async with house() as h, h.page() as page:
        peer, stalled = await h.stalled()
        fill(stalled)
        waiting = asyncio.create_task(close_code(page))
        await h.listener.close_all(1012, "restart", deadline=0.2)
        assert await waiting == 1012
        await h.gate.until(lambda: len(h.gate.gone) == 2)
        peer.close()


async def test_leaving_the_context_closes_what_is_open() -> None:
    async with house(send_timeout=0.3) as h:
        page = await connect(f"ws://127.0.0.1:{h.listener.port}/", ping_interval=None)
        peer, end = await h.stalled()
        fill(end)
        half_open = await asyncio.open_connection("127.0.0.1", h.listener.port)
    assert await close_code(page) == 1012
    peer.close()
    half_open[1].close()


async def test_a_port_that_no_longer_accepts_keeps_its_sockets() -> None:
    async with house() as h, h.page() as page:
        port = h.listener.port
        h.listener.stop_accepting()
        await turns()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await page.send("still there")
        assert json.loads(await page.recv())["text"] == "still there"


# ---- HTTP on the same port ----


@pytest.mark.parametrize(
    ("request_line", "headers", "status", "within"),
    [
        ("GET /livez HTTP/1.1", ["Host: localhost"], 200, "ok\n"),
        ("HEAD /livez HTTP/1.1", ["Host: localhost"], 200, "Content-Length: 3\r\n"),
        ("GET /livez HTTP/1.1", ["Host: localhost", EVIL], 200, "ok\n"),
        ("GET /livez HTTP/1.1", ["Host: evil.example"], 403, "forbidden\n"),
        ("GET /livez HTTP/1.1", [], 403, "forbidden\n"),
        ("GET /readyz HTTP/1.1", ["Host: localhost"], 200, "ok\n"),
        ("GET /metrics HTTP/1.1", ["Host: localhost"], 200, "handspan_sockets 1\n"),
        ("GET /metrics HTTP/1.1", ["Host: localhost", "X-Forwarded-For: 1.1.1.1"], 403, ""),
        ("GET /client/none.js HTTP/1.1", ["Host: localhost"], 404, ""),
        ("GET /client/%2e%2e/ports.py HTTP/1.1", ["Host: localhost"], 404, ""),
        ("GET / HTTP/1.1", ["Host: localhost"], 404, "Connection: close\r\n"),
        ("POST /livez HTTP/1.1", ["Host: localhost", "Content-Length: 0"], 405, "Allow: GET, HEAD"),
    ],
)
async def test_http_on_the_same_port(
    request_line: str, headers: list[str], status: int, within: str
) -> None:
    async with house() as h:
        got, text = await h.http("\r\n".join([request_line, *headers]) + "\r\n\r\n")
        assert got == status
        assert within in text
        if request_line.startswith("HEAD"):
            assert text.endswith("\r\n\r\n")
        assert "Server:" not in text


async def test_a_draining_server_says_so_and_still_answers() -> None:
    async with house(draining=True) as h:
        assert (await h.http("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 503
        assert (await h.http("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200


async def test_the_demo_and_the_socket_share_the_root(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>" + os.linesep)
    async with house(static=tmp_path) as h:
        status, text = await h.http("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (status, "<!doctype html>" in text) == (200, True)
        async with h.page():
            pass
