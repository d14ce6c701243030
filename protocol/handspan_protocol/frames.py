"""The frames: one frozen dataclass for each `type`, the fields of protocol.md in snake_case.

Reading, writing and the JSON Schema are in `codec`; this module only says what there is.
`None` is an absent optional. Where presence itself decides, the default is ABSENT.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from ag_ui.core import ContentPart
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from pydantic.alias_generators import to_camel

from .ids import ID_PATTERN, CallId, DocumentId, RunId, SessionId, ThreadId

_T = TypeVar("_T")
_WIRE = ConfigDict(alias_generator=to_camel, extra="ignore")


class Absent(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The field was not there; needed where null is a value (`tool.result.result`, `state`)."""


def _absent() -> Any:
    return ABSENT


def _empty_if_null(value: Any) -> Any:
    return "" if value is None else value


Json = Any
"""Any JSON value, as `codec.parse_json` returns it."""

ThreadId_ = Annotated[ThreadId, Field(pattern=rf"^{ID_PATTERN}$")]
RunId_ = Annotated[RunId, Field(pattern=rf"^{ID_PATTERN}$")]
CallId_ = Annotated[CallId, Field(pattern=rf"^{ID_PATTERN}$")]
CommandId = Annotated[StrictStr, Field(min_length=1, max_length=256)]
Attempt = Annotated[StrictInt, Field(ge=1)]
Offset = Annotated[StrictInt, Field(ge=0)]
Number = StrictInt | StrictFloat
Items = Annotated[tuple[_T, ...], Field(fail_fast=True)]
"""An array from a page. Reading stops at the first item that is wrong: to tell a million of them
takes seconds (measured 10 s for a frame of 2 MiB, 2026-11)."""

Text = Annotated[
    StrictStr, BeforeValidator(_empty_if_null, json_schema_input_type=StrictStr | None)
]
"""A string that null leaves empty: null is absent for an optional field."""

IfBusy = Literal["reject", "queue", "replace"]


# ---- parts of frames -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    name: StrictStr | None = None
    version: StrictStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClaim:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    id: SessionId
    secret: StrictStr


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWish:
    """A thread to open: from after (epoch, offset), or as a snapshot when either is absent."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    thread_id: ThreadId_
    epoch: StrictStr | None = None
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One unsettled call as the page remembers it."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    call_id: CallId_
    attempt: Attempt
    state: Literal["received", "started", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    name: Annotated[StrictStr, Field(min_length=1, max_length=128)]
    description: Annotated[
        StrictStr, BeforeValidator(_empty_if_null, json_schema_input_type=StrictStr | None)
    ] = ""
    value: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageError:
    """A handler's failure as the page tells it."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    message: StrictStr
    code: StrictStr | None = None
    data: Json = None


# ---- page -> server --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame. `tools` stay raw: each is judged alone by `tools.read_tool`."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["hello"] = "hello"
    protocol: StrictInt
    document_id: Annotated[DocumentId, Field(pattern=rf"^{ID_PATTERN}$")]
    client: ClientInfo | None = None
    token: StrictStr | None = None
    session: SessionClaim | None = None
    threads: Items[ThreadWish] | None = None
    calls: Items[JournalEntry] | None = None
    tools: Items[Json] | None = None
    context: Items[ContextItem] | None = None
    visible: StrictBool | None = None
    reload: StrictBool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsUpdate:
    """`set` replaces all (None: it was not there); else `remove` first, then `add`."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tools.update"] = "tools.update"
    id: CommandId
    set: Items[Json] | None = None
    add: Items[Json] | None = None
    remove: Items[StrictStr] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUpdate:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["context.update"] = "context.update"
    id: CommandId
    set: Items[ContextItem] | None = None
    add: Items[ContextItem] | None = None
    remove: Items[StrictStr] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOpen:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["thread.open"] = "thread.open"
    id: CommandId
    thread_id: ThreadId_ | None = None
    epoch: StrictStr | None = None
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadClose:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["thread.close"] = "thread.close"
    id: CommandId
    thread_id: ThreadId_


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["run.start"] = "run.start"
    id: CommandId
    thread_id: ThreadId_
    run_id: RunId_ | None = None
    agent: StrictStr | None = None
    message: StrictStr | dict[str, Json] | None = None
    after: StrictStr | None = None
    context: Items[ContextItem] | None = None
    forwarded_props: Json = None
    if_busy: IfBusy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAbort:
    """Names a run, or a thread and so its running one."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["run.abort"] = "run.abort"
    id: CommandId
    run_id: RunId_ | None = None
    thread_id: ThreadId_ | None = None
    reason: StrictStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoke:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tool.invoke"] = "tool.invoke"
    id: CommandId
    thread_id: ThreadId_
    run_id: RunId_ | None = None
    name: StrictStr
    args: Json = None
    follow_up: StrictBool | StrictStr | None = None
    if_busy: Literal["reject", "queue"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tool.started"] = "tool.started"
    id: CommandId
    call_id: CallId_
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """No reply, no id needed; one with an id gets none either."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tool.progress"] = "tool.progress"
    call_id: CallId_
    attempt: Attempt
    progress: Number | None = None
    total: Number | None = None
    message: StrictStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Exactly one of result, content, error is there; `codec` has checked it.

    `result` is ABSENT unless it is the one; a null result is the value None.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tool.result"] = "tool.result"
    id: CommandId
    call_id: CallId_
    attempt: Attempt
    result: Json = field(default_factory=_absent)
    content: Items[ContentPart] | None = None
    error: PageError | None = None
    context: Items[ContextItem] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["approval.answer"] = "approval.answer"
    id: CommandId
    call_id: CallId_
    digest: StrictStr
    approved: StrictBool
    reason: StrictStr | None = None
    args: dict[str, Json] | None = None
    remember: StrictBool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUpdate:
    """Exactly one of patch (RFC 6902) and state; `state` is ABSENT unless it is the one."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["state.update"] = "state.update"
    id: CommandId
    thread_id: ThreadId_
    patch: Items[dict[str, Json]] | None = None
    state: Json = field(default_factory=_absent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadList:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["thread.list"] = "thread.list"
    id: CommandId


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDelete:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["thread.delete"] = "thread.delete"
    id: CommandId
    thread_id: ThreadId_


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["visibility"] = "visibility"
    visible: StrictBool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["pong"] = "pong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["bye"] = "bye"


Command = (
    ToolsUpdate
    | ContextUpdate
    | ThreadOpen
    | ThreadClose
    | RunStart
    | RunAbort
    | ToolInvoke
    | ToolStarted
    | ToolResult
    | ApprovalAnswer
    | StateUpdate
    | ThreadList
    | ThreadDelete
)
"""What has an `id` and gets one `reply`."""

Notice = ToolProgress | Visibility | Pong | Bye
"""What gets no reply."""

PageFrame = Hello | Command | Notice


# ---- server -> page --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGrant:
    """The session's name and its newest secret; the secret stands nowhere else."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    id: SessionId
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WireError:
    """`reply.error`, `welcome.threads[].error`."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    code: str
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOpened:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    thread_id: ThreadId
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedTool:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    name: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsVerdict:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    accepted: tuple[str, ...] = ()
    rejected: tuple[RejectedTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["events"] = "events"
    thread_id: ThreadId
    epoch: str
    offset: int
    events: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Exactly one of result and error."""

    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["reply"] = "reply"
    id: str
    result: Json = field(default_factory=_absent)
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
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
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["tool.cancel"] = "tool.cancel"
    call_id: CallId
    attempt: int
    reason: Literal["aborted", "timeout", "superseded", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
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
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["ping"] = "ping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goaway:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
    type: Literal["goaway"] = "goaway"
    reconnect_after_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    __pydantic_config__: ClassVar[ConfigDict] = _WIRE
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
