"""A page's end of a socket, in memory or over the network; both behave alike.

Owns the carrying of texts and the ways in which a socket ends. Deliberately does not know what a
text says. Above sits `page`, which listens as an `Ear`; below sit `handspan.shell.socket` (which
does not notice that there is no network) and `handspan.shell.dial.dial`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from handspan.ports import Handle, Request
from handspan.shell.dial import Dialled, dial
from handspan.shell.driver import Driver
from handspan.shell.greeter import Greeter
from handspan.shell.pulse import Pulse
from handspan.shell.socket import Socket
from handspan_protocol.errors import CloseCode

__all__ = ["LOST", "Ear", "Line", "Route", "Workplace", "over_memory", "over_network"]

LOST: Final = 1006
"""What an end without a close is called. *Source:* RFC 6455 7.1.5."""

WRITE_LIMIT_BYTES: Final = 64 * 1024
"""The memory between both ends is full above this, as `shell.websocket`'s transport is."""

CLOSE_DEADLINE_S: Final = 5.0
"""How long a close of the server waits for a page that does not read."""


class Ear(Protocol):
    """Who hears what comes in."""

    def heard(self, text: str) -> None:
        """One text message."""

    def ended(self, code: int, reason: str) -> None:
        """The socket is gone, and the page did not do it; at most once."""


class Line(Protocol):
    """The page's end."""

    def send(self, text: str) -> None:
        """Send one text message; a line that has ended forgets it."""

    async def close(self, code: int, reason: str = "") -> None:
        """Close in good order; the ear hears nothing more."""

    def cut(self) -> None:
        """Lose the socket without a close; both sides notice at once."""

    def vanish(self) -> None:
        """Hear and say nothing more, while the server believes that the socket is there."""

    def pause(self) -> None:
        """Read no more, so that the server's side fills up."""

    def resume(self) -> None:
        """Read again."""


Route = Callable[[Ear], Awaitable[Line]]
"""Opens a line to a server."""


class Workplace(Protocol):
    """A `Bridge`, as its pages in memory and its world see it: its inner door."""

    _clock: object
    _ids: object

    def _at_work(self) -> tuple[Driver, Greeter]:
        """The driver and the gate of the running loop."""

    async def close(self) -> None:
        """Abort what runs and forget every session."""


def over_memory(bridge: Workplace, request: Request) -> Route:
    """A route that needs no port."""

    async def route(ear: Ear) -> Line:
        driver, greeter = bridge._at_work()
        return MemoryLine(driver, greeter, request, ear)

    return route


def over_network(url: str, origin: str | None) -> Route:
    """A route over a real WebSocket."""

    async def route(ear: Ear) -> Line:
        return NetworkLine(await dial(url, origin=origin), ear)

    return route


class MemoryLine:
    """The page's end of a line in memory."""

    def __init__(self, driver: Driver, greeter: Greeter, request: Request, ear: Ear) -> None:
        self._far = _ServerEnd(driver, greeter, request, ear)

    def send(self, text: str) -> None:
        self._far.take(text)

    async def close(self, code: int, reason: str = "") -> None:
        self._far.deafen()
        self._far.end(losing=False)
        await asyncio.wait([self._far.task])

    def cut(self) -> None:
        self._far.deafen()
        self._far.end(losing=True)

    def vanish(self) -> None:
        self._far.deafen()
        self._far.pause()

    def pause(self) -> None:
        self._far.pause()

    def resume(self) -> None:
        self._far.resume()


class _ServerEnd:
    """`ports.Connection`, with a pulse; what lies between both ends is here too."""

    def __init__(self, driver: Driver, greeter: Greeter, request: Request, ear: Ear) -> None:
        self._ear: Ear | None = ear
        """None: the page hears nothing more."""
        self._clock = driver.clock
        self._frame_bytes = driver.policy.frame_bytes
        self._close_deadline = min(CLOSE_DEADLINE_S, driver.policy.send_timeout)
        self._to_server: asyncio.Queue[str | None] = asyncio.Queue()
        """None: there will be no more."""
        self._to_page: deque[bytes | tuple[int, str]] = deque()
        """Texts, and a close at the end."""
        self._backlog = 0
        self._reading = True
        self._open = True
        self._gone = False
        self._room = asyncio.Event()
        self._closing: Handle | None = None
        self._socket = Socket(
            greeter,
            self,
            request=request,
            policy=driver.policy,
            clock=driver.clock,
            backlog=lambda: self._backlog,
        )
        heartbeat = driver.policy.heartbeat
        self._pulse = Pulse(self, self._socket, clock=driver.clock, heartbeat=heartbeat)
        self.task = asyncio.get_running_loop().create_task(self._serve())
        """Ends when the server has heard of the socket's end."""

    async def _serve(self) -> None:
        try:
            self._socket.opened()
            while (text := await self._to_server.get()) is not None:
                if len(text.encode("utf-8", "surrogatepass")) > self._frame_bytes:
                    self._socket.close(CloseCode.TOO_LARGE, "too large")
                else:
                    await self._socket.received(text)
        finally:
            self._pulse.stop()
            self._socket.lost()

    # ---- for the server ----------------------------------------------------------------------

    def transmit(self, *messages: bytes) -> bool:
        if not self._open:
            return False
        for message in messages:
            self._put(message, len(message))
        return not self.is_full

    async def drained(self) -> None:
        while self.is_full and self._open:
            self._room.clear()
            await self._room.wait()
        if not self._open:
            raise ConnectionError("the connection is closing")

    def close(self, code: int, reason: str = "") -> None:
        if self._open:
            self._open = False
            self._put((code, reason), 0)
        self.expect_end()

    def abort(self) -> None:
        ear = self.deafen()
        self.end(losing=True)
        if ear is not None:
            asyncio.get_running_loop().call_soon(ear.ended, LOST, "")

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def is_full(self) -> bool:
        return self._backlog > WRITE_LIMIT_BYTES

    def ping(self) -> None:
        """A ping of the transport: whoever reads answers it by himself."""
        if self._reading and self._ear is not None:
            self._socket.heard_at = self._clock.now()

    def expect_end(self) -> None:
        if self._closing is None and not self._gone:
            when = self._clock.now() + self._close_deadline
            self._closing = self._clock.call_at(when, self.abort)

    # ---- for the page ------------------------------------------------------------------------

    def take(self, text: str) -> None:
        if not self._gone and self._ear is not None:
            self._to_server.put_nowait(text)

    def deafen(self) -> Ear | None:
        """Let the page hear nothing more; returns its ear."""
        ear, self._ear = self._ear, None
        return ear

    def pause(self) -> None:
        self._reading = False

    def resume(self) -> None:
        self._reading = True
        self._deliver()

    def end(self, *, losing: bool) -> None:
        """The line is no more. `losing`: what was on its way to the server is lost."""
        if self._gone:
            return
        self._gone, self._open = True, False
        if self._closing is not None:
            self._closing.cancel()
        self._to_page.clear()
        self._backlog = 0
        self._room.set()
        while losing and not self._to_server.empty():
            self._to_server.get_nowait()
        self._to_server.put_nowait(None)

    # ---- between -----------------------------------------------------------------------------

    def _put(self, message: bytes | tuple[int, str], size: int) -> None:
        self._to_page.append(message)
        self._backlog += size
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        while self._reading and self._to_page:
            message = self._to_page.popleft()
            if isinstance(message, tuple):
                ear = self.deafen()
                self.end(losing=False)
                if ear is not None:
                    ear.ended(*message)
                return
            self._backlog -= len(message)
            if self._ear is not None:
                self._ear.heard(message.decode())
        if not self.is_full:
            self._room.set()


class NetworkLine:
    """The page's end of a real WebSocket."""

    def __init__(self, socket: Dialled, ear: Ear) -> None:
        self._socket = socket
        self._ear: Ear | None = ear
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._task = asyncio.get_running_loop().create_task(self._read())

    def send(self, text: str) -> None:
        if self._ear is not None:
            self._socket.send(text)

    async def close(self, code: int, reason: str = "") -> None:
        self._ear = None
        self._may_read.set()
        await self._socket.close(code, reason)
        await asyncio.wait([self._task])

    def cut(self) -> None:
        self._ear = None
        self._may_read.set()
        self._socket.abort()

    def vanish(self) -> None:
        self._ear = None
        self._may_read.clear()

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def _read(self) -> None:
        while True:
            await self._may_read.wait()
            text = await self._socket.receive()
            await self._may_read.wait()
            if text is None:
                break
            if self._ear is not None:
                self._ear.heard(text)
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.ended(*self._socket.ended)
