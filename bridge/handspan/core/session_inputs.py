"""What a session is told: by its socket, by its threads, by time. Past facts, as frozen data.

Its counterpart for threads is `inputs`. Nothing here decides anything.
"""

from dataclasses import dataclass
from typing import Any, Literal

from handspan_protocol.errors import PeerError
from handspan_protocol.frames import ApprovalRequest, Command, Hello, Notice, ToolCall, ToolCancel
from handspan_protocol.ids import CallId, ThreadId

from .inputs import DeadlinePassed
from .parties import ConnectionId, Principal, ThreadKey

Json = Any


@dataclass(frozen=True, slots=True)
class Greeted:
    """A hello that was judged to belong to this session; the connection is its live one now."""

    connection: ConnectionId
    hello: Hello
    refusal: Literal["unknown_session", "session_in_use"] | None = None
    """Why the session that the page asked for was not resumed."""
    denied: frozenset[ThreadId] = frozenset()
    """Threads of the hello that `authorize` does not let it open."""
    principal: Principal | None = None
    """Who it is, with the attributes of today; None: as before."""


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A command or notice. `allowed` False: `authorize` said no."""

    connection: ConnectionId
    frame: Command | Notice
    allowed: bool = True


@dataclass(frozen=True, slots=True)
class SocketLost:
    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Answered:
    """A thread's answer to a command of this session: a result, or an error."""

    ticket: str
    result: Json = None
    error: PeerError | None = None


@dataclass(frozen=True, slots=True)
class CallOffered:
    """A thread gives this session a call; it is written once the socket has the log to `after`."""

    key: ThreadKey
    frame: ToolCall
    after: int


@dataclass(frozen=True, slots=True)
class CallTaken:
    """A call is no longer this session's: it settled or moved. `cancel` tells a page at work."""

    call_id: CallId
    cancel: ToolCancel | None


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A human at this page may answer."""

    frame: ApprovalRequest


@dataclass(frozen=True, slots=True)
class RunCounted:
    """A run of this session's was taken on (+1) or is over (-1), running or queued."""

    key: ThreadKey
    running: Literal[1, 0, -1]
    queued: Literal[1, 0, -1]


@dataclass(frozen=True, slots=True)
class PageExpected:
    """After a restart: a thread counts on this session's page, and must hear of it, back or not."""

    key: ThreadKey


@dataclass(frozen=True, slots=True)
class ThreadGone:
    """A thread of this principal was deleted."""

    key: ThreadKey


@dataclass(frozen=True, slots=True)
class Draining:
    """The server is going down: new runs are refused."""


SessionInput = (
    Greeted
    | FrameReceived
    | SocketLost
    | Answered
    | CallOffered
    | CallTaken
    | ApprovalAsked
    | RunCounted
    | PageExpected
    | ThreadGone
    | Draining
    | DeadlinePassed
)
