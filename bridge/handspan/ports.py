"""What the bridge needs from outside, as Protocols: small, and each with one reason to exist.

Above sit the rooms that implement them (agents, stores, shell); below sits the core, which knows
only IdSource. A contract suite in tests/contract runs over every implementation of a port.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from handspan.core.effects import Fact
from handspan.core.parties import Principal

__all__ = [
    "Agent",
    "Authenticator",
    "Authorizer",
    "Clock",
    "Connection",
    "Handle",
    "Principal",
    "Readable",
    "Request",
    "Store",
    "Stream",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is known of a socket before its first frame; given to `authenticate`."""

    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None
    address: str = ""
    """The peer's address, or the one forwarded by a trusted proxy."""
    secure: bool = False


class Connection(Protocol):
    """One open socket, as its writer sees it. All but `drained` return at once."""

    def transmit(self, message: bytes) -> bool:
        """Write one text message; False when the transport is full (the message was taken)."""

    async def drained(self) -> None:
        """Return when the transport is below its limit again; raise ConnectionError if it died."""

    def close(self, code: int, reason: str = "") -> None:
        """Begin the closing handshake, under a deadline; never waits."""

    def abort(self) -> None:
        """Drop the transport at once."""


class Readable(Protocol):
    """A log of encoded events. Asked with every event of every socket, so attributes where they can
    be."""

    @property
    def epoch(self) -> str:
        """The name of the log; another epoch is another log."""

    @property
    def head(self) -> int:
        """The offset after the newest event that may be read."""

    def read(self, offset: int, limit_bytes: int) -> list[bytes] | None:
        """Encoded events from `offset` on, up to the limit or one; None: it no longer reaches."""


class Stream(Protocol):
    """One thread's log as a socket's writer reads it."""

    @property
    def thread_id(self) -> str:
        """The thread's id on the wire."""

    @property
    def log(self) -> Readable:
        """Its events; the same object as long as the stream lives."""

    def snapshot(self, session_id: str) -> bytes:
        """The encoded `snapshot` frame at `head`, as this session sees it."""


class Handle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic seconds and the one timer."""

    def now(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Handle: ...


class Agent(Protocol):
    """Any callable that answers a Run with items; see `handspan.shell.steps` for the kinds."""

    def __call__(self, run: Any, /) -> AsyncIterator[Any] | Awaitable[Any] | Any: ...


Authenticator = Callable[[str | None, Request], "Principal | Awaitable[Principal | None] | None"]
"""`authenticate(token, request)`: who this is, or None."""

Authorizer = Callable[..., "bool | Awaitable[bool]"]
"""`authorize(principal, action, thread_id, name=None)`."""


class Store(Protocol):
    """Where threads survive. `record` is called before anything that says so is sent."""

    def record(self, facts: tuple[Fact, ...]) -> None:
        """Keep the facts, in order."""

    def forget(self, principal: str, thread_id: str) -> None:
        """Delete a thread for good."""

    def close(self) -> None: ...
