"""Sockets of real pages: the only module that knows the websockets library.

Owns the listening port: who may open a socket and who gets an HTTP answer, reading each socket in
order, and every guard against a peer that stalls. What a frame says is the gate's business, what a
socket may do is `Socket`'s, what is written `Writer`'s.

Why so much is done by hand: once a peer stops reading, websockets 17.4 waits for its write buffer
without a deadline, in `send`, in `close` and in its keepalive. So here nothing is ever awaited on
the way out. Frames, pings and the closing frame are put into the transport synchronously, and a
timer stands behind each of them that aborts the transport:

| the peer | is found by | after |
|---|---|---|
| takes nothing of what is sent | the writer's deadline | `send_timeout` |
| is silent, pings included | the pulse | three heartbeats |
| does not answer a close | the closing deadline | `CLOSE_DEADLINE_S` |
| sends pings and reads no pongs | `_Line` | `ECHO_BYTES_MAX` |
| opens TCP and asks nothing | websockets' `open_timeout` | `OPEN_TIMEOUT_S` |
"""

import asyncio
import logging
import ssl as tls
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as websockets_serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Handshake
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol

from handspan import ports
from handspan.core.policy import Policy
from handspan_protocol.errors import CloseCode
from handspan_protocol.version import SUBPROTOCOL

from .entrance import Entrance
from .framing import text_frame
from .http import Answer, Site
from .origin import Door
from .pulse import Pulse
from .socket import Gate, Socket, one_line_logger, where

__all__ = ["CLOSE_DEADLINE_S", "Listener", "WebsocketConnection", "serve"]

CLOSE_DEADLINE_S: Final = 5.0
"""A peer answers a closing frame in a round trip; then its transport is aborted."""

OPEN_TIMEOUT_S: Final = 10.0
"""From the TCP connection to the end of the handshake, or of an HTTP answer."""

WRITE_LIMIT_BYTES: Final = 64 * 1024
"""The transport is full above this: about one `events` frame beyond what the kernel takes."""

READ_QUEUE_FRAMES: Final = 4
"""Frames read ahead of the gate; with frames of 2 MiB this is most of what a socket can hold."""

ECHO_BYTES_MAX: Final = 64 * 1024
"""Pongs that may pile up in a full transport; 500 pings of the largest size."""

READS_IN_A_ROW: Final = 32
"""Messages of one socket before the others get a turn."""

ACCEPT_BACKLOG: Final = 1_024
"""Pages that reconnect at once after a restart."""

CLIENT: Final = Path(__file__).parent.parent / "client"

_SUBPROTOCOL: Final = Subprotocol(SUBPROTOCOL)
_LOG = logging.getLogger("handspan.socket")


class WebsocketConnection:
    """`ports.Connection` over one websockets connection."""

    def __init__(self, line: "_Line", clock: ports.Clock, close_deadline: float) -> None:
        self._line = line
        self._clock = clock
        self._close_deadline = close_deadline
        self._closing: ports.Handle | None = None

    def transmit(self, *messages: bytes) -> bool:
        """Write texts, past the library (`framing`) and in one go; False: it is full, or gone."""
        line = self._line
        if line.protocol.state is not State.OPEN:
            return False
        try:
            line.transport.write(b"".join(map(text_frame, messages)))
        except (OSError, RuntimeError):  # uvloop raises RuntimeError for a closed transport
            self.abort()
        return not line.paused

    @property
    def is_open(self) -> bool:
        """Neither closing nor closed."""
        return self._line.state is State.OPEN

    @property
    def is_full(self) -> bool:
        """The transport holds more than its limit."""
        return self._line.paused

    async def drained(self) -> None:
        """Return when the transport is below its limit.

        Raises:
            ConnectionError: it is closing, or has died.
        """
        try:
            await self._line.drain()
        except OSError as error:
            raise ConnectionError from error
        if not self.is_open:
            raise ConnectionError("the connection is closing")

    def close(self, code: int, reason: str = "") -> None:
        """Put a closing frame behind what was written; abort if it is not answered in time."""
        if self.is_open:
            self._line.protocol.send_close(code, reason.encode()[:120].decode(errors="ignore"))
            self._write_out()
        self.expect_end()

    def ping(self) -> None:
        """Send a ping that browsers answer by themselves."""
        self._line.protocol.send_ping(b"")
        self._write_out()

    def abort(self) -> None:
        """Drop the transport; what it still holds is lost."""
        self._line.transport.abort()

    def backlog(self) -> int:
        """Bytes that the network has not taken yet."""
        return self._line.transport.get_write_buffer_size()

    def expect_end(self) -> None:
        """The connection is closing: abort it when that takes too long."""
        if self._closing is None and self._line.state is not State.CLOSED:
            when = self._clock.now() + self._close_deadline
            self._closing = self._clock.call_at(when, self.abort)

    def forget(self) -> None:
        """The connection is gone; no timer stays behind."""
        if self._closing is not None:
            self._closing.cancel()

    def _write_out(self) -> None:
        try:
            self._line.send_data()
        except (OSError, RuntimeError):  # uvloop raises RuntimeError for a closed transport
            self.abort()


class _Line(ServerConnection):
    """websockets' own connection, with an ear on its callbacks. They must stay synchronous."""

    def __init__(self, listener: "Listener", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection = WebsocketConnection(self, listener.clock, listener.close_deadline)
        self.asked: ports.Request | None = None
        """Set when the handshake was found good."""
        self.page: Socket | None = None
        """Set when the socket is open."""
        self._listener = listener
        self._echoed_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.line_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.connection.forget()
        self._listener.line_lost(self)

    def data_received(self, data: bytes) -> None:
        """Feed websockets; see to it that what it answers by itself stays bounded."""
        was_full = self.paused
        before = self.connection.backlog() if was_full else 0
        super().data_received(data)
        if self.page is not None:
            self.page.heard_at = self._listener.clock.now()
        if self.state is State.CLOSING:
            self.connection.expect_end()
        if was_full:
            self._echoed_bytes += max(0, self.connection.backlog() - before)
            if self._echoed_bytes > ECHO_BYTES_MAX:
                self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._echoed_bytes = 0


class Listener:
    """A listening port and its open sockets; made by `serve`."""

    def __init__(self, gate: Gate, entrance: Entrance, policy: Policy, clock: ports.Clock) -> None:
        self.addresses: tuple[tuple[str, int], ...] = ()
        """(host, port) of each listening socket."""
        self.clock = clock
        self.close_deadline = min(CLOSE_DEADLINE_S, policy.send_timeout)
        self._gate = gate
        self._entrance = entrance
        self._policy = policy
        self._server: Server | None = None
        self._lines: set[_Line] = set()
        """Every TCP connection, from its first byte to its last."""
        self._opening: set[_Line] = set()
        """Those that are not sockets yet, or never will be."""
        self._unwelcomed: set[_Line] = set()
        """Accepted as sockets, not welcomed yet."""
        self._tasks: dict[Socket, asyncio.Task[Any]] = {}

    @property
    def port(self) -> int:
        """The first address' port."""
        return self.addresses[0][1]

    @property
    def sockets(self) -> Collection[Socket]:
        """The open ones."""
        return self._tasks.keys()

    def stop_accepting(self) -> None:
        """Close the port; sockets stay open. HTTP, `/readyz` too, is answered no more."""
        if self._server is not None:
            self._server.close(close_connections=False)

    async def close_all(self, code: int, reason: str = "", *, deadline: float) -> None:
        """Close every socket, and abort those that are not gone after `deadline` seconds."""
        tasks = dict(self._tasks)
        for socket in tasks:
            socket.close(code, reason)
        if tasks:
            await asyncio.wait(tasks.values(), timeout=deadline)
        for socket in tasks.keys() & self._tasks.keys():
            socket.connection.abort()

    async def start(self, host: str, port: int, ssl: tls.SSLContext | None) -> None:
        """Listen."""
        self._server = await websockets_serve(
            self._attend,
            host,
            port,
            ssl=ssl,
            backlog=ACCEPT_BACKLOG,
            create_connection=cast(type[ServerConnection], partial(_Line, self)),
            process_request=self._judge,
            select_subprotocol=_select_subprotocol,
            compression=None,
            server_header=None,
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=self.close_deadline,
            ping_interval=None,
            max_size=self._policy.frame_bytes,
            max_queue=READ_QUEUE_FRAMES,
            write_limit=WRITE_LIMIT_BYTES,
            logger=one_line_logger("handspan.websockets"),
        )
        self.addresses = tuple(s.getsockname()[:2] for s in self._server.sockets)

    async def stop(self) -> None:
        """Leave nothing behind: no port, no socket, no task."""
        self.stop_accepting()
        await self.close_all(CloseCode.RESTART, "the server stops", deadline=self.close_deadline)
        for line in set(self._lines):
            line.transport.abort()
        if self._server is not None:
            with anyio.move_on_after(self.close_deadline):
                await self._server.wait_closed()

    def line_opened(self, line: _Line) -> None:
        """A TCP connection; too many that ask nothing are dropped without an answer."""
        self._lines.add(line)
        self._opening.add(line)
        if len(self._opening) > 2 * self._policy.unwelcomed_sockets:
            line.transport.abort()

    def line_lost(self, line: _Line) -> None:
        """Its TCP connection is gone."""
        self._lines.discard(line)
        self._opening.discard(line)
        self._unwelcomed.discard(line)

    def _judge(self, line: ServerConnection, handshake: Handshake) -> Response | None:
        """None lets the socket open; anything else answers an HTTP request."""
        assert isinstance(line, _Line)
        verdict = self._entrance.judge(
            str((line.remote_address or ("",))[0]),
            handshake.method,
            handshake.path,
            handshake.headers.raw_items(),
            unwelcomed=len(self._unwelcomed),
        )
        if isinstance(verdict, Answer):
            return _response(verdict)
        self._unwelcomed.add(line)
        line.asked = verdict
        return None

    async def _attend(self, line: ServerConnection) -> None:
        """One socket from its opening to its end; the root of its only task."""
        assert isinstance(line, _Line) and line.asked is not None  # noqa: PT018
        socket = Socket(
            self._gate,
            line.connection,
            request=line.asked,
            policy=self._policy,
            clock=self.clock,
            on_welcomed=lambda: self._unwelcomed.discard(line),
            backlog=line.connection.backlog,
        )
        pulse = Pulse(line.connection, socket, clock=self.clock, heartbeat=self._policy.heartbeat)
        self._opening.discard(line)
        self._tasks[socket] = cast(asyncio.Task[Any], asyncio.current_task())
        line.page = socket
        try:
            socket.opened()
            await _read(line, socket)
        except Exception as error:
            _LOG.error("socket %d failed, %s", socket.id, where(error))
            socket.close(CloseCode.OUR_FAULT)
            await line.wait_closed()
        finally:
            line.transport.abort()  # a no-op unless this task was cancelled
            pulse.stop()
            del self._tasks[socket]
            socket.lost()


@asynccontextmanager
async def serve(
    gate: Gate,
    *,
    host: str,
    port: int,
    policy: Policy,
    clock: ports.Clock,
    ssl: tls.SSLContext | None = None,
    origins: Iterable[str] = (),
    allow_hosts: Iterable[str] = (),
    authenticated: bool = False,
    static: Path | None = None,
    metrics_open: bool = False,
) -> AsyncIterator[Listener]:
    """Listen on `host` and `port` (0: any) while the context lasts; then leave nothing behind.

    `authenticated`: every hello needs a token. `static`: a folder with the demo, served at `/`.

    Raises:
        UsageError: `origins` or `allow_hosts` cannot be what they should.
        OSError: the port cannot be had.
    """
    door = Door.of(host, origins, allow_hosts, authenticated=authenticated)
    site = Site(CLIENT, static, gate.draining, gate.metrics, metrics_open=metrics_open)
    entrance = Entrance(gate, door, site, policy, secure=ssl is not None)
    listener = Listener(gate, entrance, policy, clock)
    await listener.start(host, port, ssl)
    try:
        yield listener
    finally:
        with anyio.CancelScope(shield=True):
            await listener.stop()


async def _read(line: _Line, socket: Socket) -> None:
    """Hand each message to the socket, in order, until the connection is gone.

    Reading goes on after a close of ours, for the peer's answer to it may stand behind messages.
    """
    while True:
        for _ in range(READS_IN_A_ROW):
            try:
                message = await line.recv()
            except ConnectionClosed:
                return
            if isinstance(message, str):
                await socket.received(message)
            else:
                socket.close(CloseCode.BINARY_FRAME, "text frames only")
        await asyncio.sleep(0)


def _select_subprotocol(_: object, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Ours when the page offers it; a page that offers none is welcome too."""
    return _SUBPROTOCOL if _SUBPROTOCOL in offered else None


def _response(answer: Answer) -> Response:
    headers = Headers([*answer.headers, ("Connection", "close")])
    return Response(answer.status.value, answer.status.phrase, headers, answer.body)
