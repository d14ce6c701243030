"""What the server sends: one frozen dataclass for each `type`. *Source:* protocol.md 2 and 4.

Writing is in `codec`; this module only says what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from .ids import CallId, RunId, SessionId, ThreadId
from .parts import WIRE, Json, absent


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGrant:
    """The session's name and its newest secret; the secret stands nowhere else."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    id: SessionId
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WireError:
    """`reply.error`, `welcome.threads[].error`."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    code: str
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOpened:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    thread_id: ThreadId
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedTool:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsVerdict:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    accepted: tuple[str, ...] = ()
    rejected: tuple[RejectedTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["welcome"] = "welcome"
    protocol: int
    session: SessionGrant
    resumed: bool
    reason: Literal["unknown_session", "session_in_use"] | None = None
    agents: tuple[str, ...]
    limits: Mapping[str, Json]
    heartbeat_ms: int
    threads: tuple[ThreadOpened, ...]
    tools: ToolsVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A whole thread at (epoch, offset); its parts are plain JSON, made by the transcript."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["snapshot"] = "snapshot"
    thread_id: ThreadId
    epoch: str
    offset: int
    messages: tuple[Json, ...]
    state: Json
    run: Json
    last_run: Json
    calls: tuple[Json, ...]
    open: Json
    suggestions: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Described here for the schema; written by `codec.events_bytes` from encoded events."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["events"] = "events"
    thread_id: ThreadId
    epoch: str
    offset: int
    events: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Exactly one of result and error."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["reply"] = "reply"
    id: str
    result: Json = field(default_factory=absent)
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["tool.call"] = "tool.call"
    call_id: CallId
    attempt: int
    thread_id: ThreadId
    run_id: RunId
    depth: int
    name: str
    args: Json
    raw_args: str
    tool_name: str | None = None
    timeout_ms: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCancel:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["tool.cancel"] = "tool.cancel"
    call_id: CallId
    attempt: int
    reason: Literal["aborted", "timeout", "superseded", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["approval.request"] = "approval.request"
    call_id: CallId
    thread_id: ThreadId
    run_id: RunId
    name: str
    args: Json
    digest: str
    reason: str | None = None
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["ping"] = "ping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goaway:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["goaway"] = "goaway"
    reconnect_after_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["error"] = "error"
    code: str
    message: str
    retryable: bool
    id: str | None = None


ServerFrame = (
    Welcome
    | Snapshot
    | Events
    | Reply
    | ToolCall
    | ToolCancel
    | ApprovalRequest
    | Ping
    | Goaway
    | Error
)
