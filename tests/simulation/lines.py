"""The network: sockets between documents and a server's process, and what can befall them.

Owns latency, order and loss. Each direction of a line delivers in order after a random time; it can
die, with or without anybody noticing, and the page's machine can stop reading, so that what the
server writes piles up. Deliberately does not know what a text says. At the server's end stands a
`handspan.shell.socket.Socket`, which does not notice that there is no network.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

import orjson

from handspan.ports import Handle, Request
from handspan.shell.pulse import Pulse
from handspan.shell.socket import Socket

if TYPE_CHECKING:
    from .lives import Life
    from .page import Document

__all__ = ["LOST", "Line", "Network"]

LOST: Final = 1006
CLOSE_DEADLINE_S: Final = 5.0
GAP_S: Final = 1e-6
"""Between two deliveries of one way: timers of one moment come in no order."""

_CLOSE, _PING, _PONG = object(), object(), object()


class Way:
    """One direction."""

    def __init__(self, loop: Any, delay: Callable[[], float], deliver: Callable[[Any], None]):
        self._loop = loop
        self._delay = delay
        self._deliver = deliver
        self._last = 0.0
        self.dead = False
        self.slow_until = 0.0

    def put(self, item: Any) -> None:
        if self.dead:
            return
        now = self._loop.virtual_now
        self._last = max(self._last + GAP_S, max(now, self.slow_until) + self._delay())
        self._loop.call_at(self._last, self._arrive, item)

    def _arrive(self, item: Any) -> None:
        if not self.dead:
            self._deliver(item)


class Network:
    """Connects documents to the server that is up."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.lines: list[Line] = []

    def connect(self, document: "Document", name: str) -> "Line":
        line = Line(self.world, document, name)
        self.lines.append(line)
        return line

    def open_lines(self) -> list["Line"]:
        self.lines = [line for line in self.lines if not line.over]
        return self.lines


class Line:
    """One socket, from a document's `new WebSocket` on; also the document's end of it."""

    def __init__(self, world: Any, document: "Document", name: str) -> None:
        self.name = name
        self.document: Document | None = document
        """None: the page hears nothing more."""
        self.tab = document.tab
        self.world = world
        self._rng = Random(f"{world.seed}/{name}")
        loop = world.loop
        self.up = Way(loop, self._delay, self._at_server)
        self.down = Way(loop, self._delay, self._at_page)
        self.end: ServerEnd | None = None
        self.over = False
        self._closed_early = False
        self._held: deque[Any] | None = None
        """What lies in the page's machine while it does not read."""
        loop.call_at(loop.virtual_now + self._delay(), self._arrive)

    def _delay(self) -> float:
        delay: float = self.world.latency * (0.2 + self._rng.expovariate(1.0))
        return delay

    def has_luck(self, chance: float) -> bool:
        return self._rng.random() < chance

    # ---- opening ----

    def _arrive(self) -> None:
        life: Life | None = self.world.life
        if self.up.dead or not self.tab.online or life is None or not life.takes_sockets():
            self.refuse()
        elif not self._closed_early:
            self.end = ServerEnd(self, life)
            self.down.put(_Opened)

    def refuse(self) -> None:
        self.over = True
        self._tell_end(LOST, self._delay())

    # ---- for the page ----

    def send(self, frame: dict[str, Any]) -> None:
        self.up.put(frame)

    def close(self) -> None:
        """The page is done with it: what it sent still goes, then the end."""
        self.document = None
        if self.end is None:
            self._closed_early = True
        self.up.put(_CLOSE)

    # ---- what befalls it ----

    def vanish(self, *, up: bool = True, down: bool = True) -> None:
        """From now on nothing comes through this way; nobody is told."""
        self.up.dead = self.up.dead or up
        self.down.dead = self.down.dead or down

    def cut(self, page_after: float | None, server_after: float | None) -> None:
        """What is on its way is lost; either side notices after this time, or by its own means."""
        self.vanish()
        if page_after is not None:
            self._tell_end(LOST, page_after)
        if server_after is not None and self.end is not None:
            self.world.loop.call_later(server_after, self.end.gone)

    def closed_between(self, code: int) -> None:
        """A proxy ends it with a code of its own."""
        self.cut(None, self._delay())
        self._tell_end(code, self._delay())

    def stall(self, seconds: float) -> None:
        """The page's machine reads nothing for a while."""
        if self._held is None:
            self._held = deque()
            self.world.loop.call_later(seconds, self.read_again)

    def read_again(self) -> None:
        held, self._held = self._held, None
        for item in held or ():
            self._at_page(item)

    def slow(self, seconds: float) -> None:
        self.up.slow_until = self.down.slow_until = self.world.loop.virtual_now + seconds

    def _tell_end(self, code: int, after: float) -> None:
        self.world.loop.call_later(after, self._end_at_page, code)

    def _end_at_page(self, code: int) -> None:
        document, self.document = self.document, None
        if document is not None:
            self.tab.task(document, lambda: document.ended(self, code))

    # ---- arrivals ----

    def _at_server(self, item: Any) -> None:
        if self.end is not None:
            self.end.arrived(item)

    def _at_page(self, item: Any) -> None:
        if self._held is not None:
            self._held.append(item)
            return
        document = self.document
        if item is _PING:
            self.up.put(_PONG)
        elif item is _Opened:
            if document is not None:
                self.tab.task(document, lambda: document.opened(self))
        elif isinstance(item, int):
            self.up.put(_CLOSE)
            self._end_at_page(item)
        else:
            if self.end is not None:
                self.end.delivered(len(item))
            if document is not None:
                frame = orjson.loads(item)
                self.tab.task(document, lambda: document.heard(self, frame))


class _Opened:
    """The server has accepted the socket."""


class ServerEnd:
    """`ports.Connection` with a pulse, and the reader of one socket."""

    def __init__(self, line: Line, life: "Life") -> None:
        self._line = line
        self._life = life
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._backlog = 0
        self._open = True
        self._gone = False
        self._room = asyncio.Event()
        self._closing: Handle | None = None
        driver = life.driver
        self._socket = Socket(
            life.greeter,
            self,
            request=Request(address="sim"),
            policy=driver.policy,
            clock=driver.clock,
            backlog=lambda: self._backlog,
        )
        heartbeat = driver.policy.heartbeat
        self._pulse = Pulse(self, self._socket, clock=driver.clock, heartbeat=heartbeat)
        self._history = life.world.history
        life.ends.append(self)
        self.task = life.world.loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            self._socket.opened()
            while (frame := await self._inbox.get()) is not None:
                if not self._life.dead:
                    self._history.note("took", self._line.name, frame)
                    await self._socket.received(orjson.dumps(frame).decode())
        finally:
            self._pulse.stop()
            if not self._life.dead:
                self._history.note("lost", self._line.name, None)
                self._socket.lost()
            self._line.over = True

    # ---- for the server ----

    def transmit(self, *messages: bytes) -> bool:
        if not self._open or self._life.dead:
            return False
        for message in messages:
            self._history.note("sent", self._line.name, orjson.loads(message))
            self._backlog += len(message)
            self._line.down.put(message)
        return not self.is_full

    async def drained(self) -> None:
        while self.is_full and self._open:
            self._room.clear()
            await self._room.wait()
        if not self._open:
            raise ConnectionError("the connection is closing")

    def close(self, code: int, reason: str = "") -> None:
        if self._open and not self._life.dead:
            self._open = False
            self._room.set()
            self._line.down.put(int(code))
        self.expect_end()

    def abort(self) -> None:
        if not self._gone:
            self._line.down.put(LOST)
            self.gone()

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def is_full(self) -> bool:
        return self._backlog > self._life.world.buffer_bytes

    def ping(self) -> None:
        self._line.down.put(_PING)

    def expect_end(self) -> None:
        if self._closing is None and not self._gone and not self._life.dead:
            clock = self._life.driver.clock
            self._closing = clock.call_at(clock.now() + CLOSE_DEADLINE_S, self.abort)

    # ---- for the line ----

    def arrived(self, item: Any) -> None:
        if self._gone:
            return
        if item is _CLOSE:
            self.gone()
        elif item is _PONG:
            self._socket.heard_at = self._life.driver.clock.now()
        else:
            self._inbox.put_nowait(item)

    def delivered(self, size: int) -> None:
        self._backlog -= size
        if not self.is_full:
            self._room.set()

    def gone(self) -> None:
        """The connection is no more; what has arrived is still read."""
        if self._gone:
            return
        self._gone, self._open = True, False
        if self._closing is not None:
            self._closing.cancel()
        self._room.set()
        self._line.up.dead = True
        self._inbox.put_nowait(None)

    def die(self) -> None:
        """The process is gone; mostly its machine says so to the page's."""
        if not self._gone and self._line.has_luck(0.8):
            self._line.down.put(LOST)
        self._gone, self._open = True, False
        if self._closing is not None:
            self._closing.cancel()
        self._pulse.stop()
        self._socket.closed = True
        self._socket._end()
        self._line.up.dead = True
        self._line.over = True
        self.task.cancel()
