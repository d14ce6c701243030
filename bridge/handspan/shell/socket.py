"""One page's socket, whatever carries it: the rules of its life before anybody reads its frames.

Owns the socket's writer, the deadline for the first frame, the rate of incoming frames, and the
promise that the gate hears of a socket's end exactly once. Deliberately does not know what a frame
says, what a session is, or what the transport is made of. Above sits the gate (the driver); below
sits a transport (`websocket`, or memory in `handspan.testing`), which does four things:

    socket = Socket(gate, connection, ...)
    socket.opened()
    await socket.received(text)       # for each text message, one after another
    socket.lost()                     # when the connection is gone, whoever ended it
"""

import itertools
import logging
import traceback
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from handspan.core.policy import Policy
from handspan.ports import Clock, Connection, Handle, Request
from handspan_protocol.codec import frame_bytes
from handspan_protocol.errors import CloseCode, CommandCode
from handspan_protocol.frames import Error

from .writer import Writer

__all__ = ["Gate", "Socket", "one_line_logger", "where"]

RATE_STRIKES: Final = 3
"""Refused frames within `RATE_STRIKES_WITHIN_S` that close the socket. *Source:* behaviour.md 6."""

RATE_STRIKES_WITHIN_S: Final = 10.0

_RATE_LIMITED: Final = frame_bytes(
    Error(
        code=CommandCode.RATE_LIMITED,
        message="too many messages; this one was not read",
        retryable=True,
    )
)
_LOG = logging.getLogger("handspan.socket")
_ids = itertools.count(1)


class Gate(Protocol):
    """Who takes what sockets bring. Of these only `received` may wait."""

    def connected(self, socket: "Socket") -> None:
        """A socket opened; it is not welcomed yet."""

    async def received(self, socket: "Socket", text: str) -> None:
        """One text message; the socket's next one comes when this returns."""

    def disconnected(self, socket: "Socket") -> None:
        """The socket is gone; exactly once for each `connected`."""

    def draining(self) -> bool:
        """Whether the server takes no new sockets any more."""

    def metrics(self) -> str:
        """Prometheus text."""


class Socket:
    """One socket, from its opening to its end.

    `on_welcomed` is called once, when the socket is welcomed or lost, whichever is first: it then
    no longer counts among the sockets before welcome. `backlog`: see `Writer`.
    """

    def __init__(
        self,
        gate: Gate,
        connection: Connection,
        *,
        request: Request,
        policy: Policy,
        clock: Clock,
        on_welcomed: Callable[[], None] = lambda: None,
        backlog: Callable[[], int] | None = None,
    ) -> None:
        self.id: int = next(_ids)
        """Unique in this process; for logs."""
        self.connection = connection
        self.request = request
        self.session_id: str = ""
        """Set by the gate before it opens a thread on the writer."""
        self.heard_at: float = clock.now()
        """When the transport last heard anything, a pong included; kept by the transport."""
        self.closed = False
        """No frame is taken or written any more; set by `close` or by the end of the connection."""
        self.writer = Writer(
            connection,
            session_id=lambda: self.session_id,
            heartbeat=policy.heartbeat,
            send_timeout=policy.send_timeout,
            clock=clock,
            on_dead=self._died,
            backlog=backlog,
        )
        self._gate = gate
        self._policy = policy
        self._clock = clock
        self._on_welcomed = on_welcomed
        self._welcomed = False
        self._counted_as_unwelcomed = True
        self._announced = False
        self._lost = False
        self._hello_timer: Handle | None = None
        self._bucket = _Bucket(policy.frames_per_second, policy.frames_burst, clock.now())
        self._strikes: deque[float] = deque(maxlen=RATE_STRIKES)

    # ---- for the gate ----

    @property
    def welcomed(self) -> bool:
        """Whether `welcome` has been sent; set to True by the gate."""
        return self._welcomed

    @welcomed.setter
    def welcomed(self, value: bool) -> None:
        self._welcomed = value
        if value:
            self._no_longer_unwelcomed()

    def close(self, code: int, reason: str = "") -> None:
        """Write what is queued, then begin the closing handshake; takes and writes nothing more."""
        if self.closed:
            return
        self._say(f"closed by us, code {int(code)}")
        self.writer.flush()
        self._end()
        self.connection.close(code, reason)

    # ---- for the transport ----

    def opened(self) -> None:
        """Announce the socket to the gate, and wait for its first frame no longer than allowed."""
        when = self._clock.now() + self._policy.hello_timeout
        self._hello_timer = self._clock.call_at(when, self._no_hello)
        self._say(f"opened from {self.request.address}")
        self._announced = True
        self._gate.connected(self)

    async def received(self, text: str) -> None:
        """Take one text message. What goes wrong with it ends this socket and harms no other."""
        if self.closed:
            return
        self.heard_at = self._clock.now()
        if not self._bucket.take(self.heard_at):
            self._strike(self.heard_at)
            return
        self._stop_hello_timer()
        try:
            await self._gate.received(self, text)
        except Exception as error:
            _LOG.error("socket %d: its frame failed, %s", self.id, where(error))
            self.close(CloseCode.OUR_FAULT)

    def lost(self) -> None:
        """The connection is gone: tell the gate, once. Never raises."""
        if self._lost:
            return
        self._lost = True
        self._say("lost")
        self._end()
        self._no_longer_unwelcomed()
        if not self._announced:
            return
        try:
            self._gate.disconnected(self)
        except Exception as error:
            _LOG.error("socket %d: its end failed, %s", self.id, where(error))

    # ---- inside ----

    def _end(self) -> None:
        self.closed = True
        self.writer.stop()
        self._stop_hello_timer()

    def _died(self) -> None:
        """The writer has aborted the connection; its end comes through the transport."""
        self._say("aborted by its writer")
        self._end()

    def _no_hello(self) -> None:
        self.close(CloseCode.NO_HELLO, "no hello")

    def _stop_hello_timer(self) -> None:
        if self._hello_timer is not None:
            self._hello_timer.cancel()
            self._hello_timer = None

    def _no_longer_unwelcomed(self) -> None:
        if self._counted_as_unwelcomed:
            self._counted_as_unwelcomed = False
            self._on_welcomed()

    def _strike(self, now: float) -> None:
        """A frame over the rate is not read, which its sender is told; the third one ends it."""
        self.writer.control(_RATE_LIMITED)
        self._strikes.append(now)
        if len(self._strikes) == RATE_STRIKES and now - self._strikes[0] <= RATE_STRIKES_WITHIN_S:
            self.close(CloseCode.TOO_MANY_MESSAGES, "too many messages")

    def _say(self, what: str) -> None:
        _LOG.info("socket %d %s", self.id, what, extra={"socket": self.id})


class _Bucket:
    """A token bucket: `burst` frames at once, `per_second` in the long run."""

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def where(error: BaseException) -> str:
    """Type and place of an exception on one line, without its text, which may hold a payload."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def one_line_logger(name: str) -> logging.Logger:
    """A log for a library that would write tracebacks and, at DEBUG, payloads: it gets neither."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.WARNING)
    if _one_line not in logger.filters:
        logger.addFilter(_one_line)
    return logger


def _one_line(record: logging.LogRecord) -> bool:
    if record.exc_info and record.exc_info[1] is not None:
        record.msg, record.args = f"{record.getMessage()}, {where(record.exc_info[1])}", ()
    record.exc_info = None
    return True
