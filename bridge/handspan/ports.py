"""What the bridge needs from outside, as Protocols: small, and each with one reason to exist.

Above sit the rooms that implement them (agents, stores, shell); below sits the core, which knows
only IdSource. A contract suite in tests/contract runs over every implementation of a port.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from handspan.core.entries import Change, Entry
from handspan.core.parties import Principal, ThreadKey
from handspan_protocol.errors import HandspanError, RunCode
from handspan_protocol.ids import SessionId

__all__ = [
    "Agent",
    "AgentFailed",
    "Authenticator",
    "Authorizer",
    "Clock",
    "Connection",
    "Handle",
    "KeptThread",
    "Principal",
    "Readable",
    "Request",
    "Store",
    "Stream",
    "ToolSource",
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

    def transmit(self, *messages: bytes) -> bool:
        """Write text messages in one go; False when the transport is full (they were taken)."""

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
    def base(self) -> int:
        """The oldest offset that can be read from."""

    @property
    def head(self) -> int:
        """The offset after the newest event."""

    @property
    def readable(self) -> int:
        """The offset up to which it may be read: what stands behind it is not kept yet."""

    def read(self, offset: int, limit_bytes: int) -> list[bytes] | None:
        """Readable events from `offset` on, up to the limit or one; None: it no longer reaches."""


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


@runtime_checkable
class ToolSource(Protocol):
    """Where server tools come from that are known only once it is asked: another process, a
    network. Open as long as the bridge serves."""

    def opened(
        self, changed: Callable[[Sequence[Any]], None], /
    ) -> AbstractAsyncContextManager[Sequence[Any]]:
        """The tools (of `handspan.shell.tools.ServerTool`), to be had while the context lasts.

        `changed` is called on the loop's thread with all of them whenever there are others. What
        cannot be reached for a while keeps its tools; calls of them then fail.

        Raises:
            Unavailable: it cannot be had; in a line that says what and why.
        """


class AgentFailed(HandspanError):  # noqa: N818 (it is the agent that failed)
    """Raised by an adapter to fail its step with a code and a line that may be shown."""

    def __init__(self, message: str, code: RunCode | str = RunCode.PROVIDER_ERROR) -> None:
        super().__init__(message)
        self.message = str(message)
        self.code = RunCode(code) if code in _RUN_CODES else RunCode.AGENT_ERROR


_RUN_CODES: Final = {code.value for code in RunCode}

Authenticator = Callable[[str | None, Request], "Principal | Awaitable[Principal | None] | None"]
"""`authenticate(token, request)`: who this is, or None."""

Authorizer = Callable[..., "bool | Awaitable[bool]"]
"""`authorize(principal, action, thread_id, name=None)`."""


@dataclass(frozen=True, slots=True)
class KeptThread:
    """A thread that is kept, for a list of them; `about` is its entry of that part, as JSON."""

    key: ThreadKey
    updated_at: float
    """When it was last written, in seconds since 1970."""
    about: bytes
    """`{}` where it has none."""


class Store(Protocol):
    """Where threads and sessions outlive the process: entries by scope, part and name.

    One process has a store at a time. Everything is called on the loop's thread and returns at
    once, but `close`; what reads sees everything that was written before it, and may raise
    Unavailable. A thread is there from its first Put until all of it is dropped.
    """

    durable: bool
    """False: it keeps nothing, and is never written to."""

    def open(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """Begin; `soon` calls back on the loop's thread, from any other.

        Raises:
            Unavailable: it cannot be had: another process has it, or it is of a newer version.
        """

    def write(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        """Keep all of these or none, behind what was written before.

        `done` is called once, through `soon`, as soon as a crash cannot lose them any more.
        """

    def sessions(self) -> Mapping[SessionId, Sequence[Entry]]:
        """Every session that is kept, with its entries in the order they first came."""

    def thread(self, key: ThreadKey) -> Sequence[Entry]:
        """A thread's entries in the order they first came; none: it is not kept."""

    def threads(
        self, principal: str | None = None, limit: int | None = None
    ) -> Sequence[KeptThread]:
        """The threads that are kept, of one principal or of all, newest first, so many at most."""

    def has_call(self, principal: str, name: str) -> bool:
        """Whether a thread of this principal has an entry of the part "call" and of this name."""

    def unfinished(self) -> Sequence[ThreadKey]:
        """The threads that have an entry of the part "run"."""

    def sweep(self, keep: Collection[ThreadKey]) -> None:
        """Let go of threads beyond the store's own limits of age and size, but none of these."""

    @property
    def troubled(self) -> str | None:
        """Why nothing can be kept just now; None: all is well. It tries again by itself."""

    async def close(self) -> None:
        """Keep what was written, call what waits for it, and let go of the store."""
