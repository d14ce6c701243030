"""What a page sends: one frozen dataclass for each `type`. *Source:* protocol.md 2 and 3.

Reading is in `codec`; this module only says what there is.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StrictStr

from .ids import ID_PATTERN, DocumentId
from .parts import (
    WIRE,
    Attempt,
    CallId_,
    ClientInfo,
    CommandId,
    ContextItem,
    IfBusy,
    Items,
    JournalEntry,
    Json,
    Number,
    Offset,
    PageError,
    RunId_,
    SessionClaim,
    ThreadId_,
    ThreadWish,
    absent,
)

if TYPE_CHECKING:
    from ag_ui.core import ContentPart


def know_parts() -> None:
    """Import what content is made of, which only the reading of frames needs: 0.2 s."""
    from ag_ui.core import ContentPart

    globals()["ContentPart"] = ContentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame. `tools` stay raw: each is judged alone by `tools.read_tool`."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["tools.update"] = "tools.update"
    id: CommandId
    set: Items[Json] | None = None
    add: Items[Json] | None = None
    remove: Items[StrictStr] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUpdate:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["context.update"] = "context.update"
    id: CommandId
    set: Items[ContextItem] | None = None
    add: Items[ContextItem] | None = None
    remove: Items[StrictStr] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOpen:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["thread.open"] = "thread.open"
    id: CommandId
    thread_id: ThreadId_ | None = None
    epoch: StrictStr | None = None
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadClose:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["thread.close"] = "thread.close"
    id: CommandId
    thread_id: ThreadId_


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["run.abort"] = "run.abort"
    id: CommandId
    run_id: RunId_ | None = None
    thread_id: ThreadId_ | None = None
    reason: StrictStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoke:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["tool.started"] = "tool.started"
    id: CommandId
    call_id: CallId_
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """No reply, no id needed; one with an id gets none either."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["tool.result"] = "tool.result"
    id: CommandId
    call_id: CallId_
    attempt: Attempt
    result: Json = field(default_factory=absent)
    content: "Items[ContentPart] | None" = None
    error: PageError | None = None
    context: Items[ContextItem] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["state.update"] = "state.update"
    id: CommandId
    thread_id: ThreadId_
    patch: Items[dict[str, Json]] | None = None
    state: Json = field(default_factory=absent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadList:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["thread.list"] = "thread.list"
    id: CommandId


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDelete:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["thread.delete"] = "thread.delete"
    id: CommandId
    thread_id: ThreadId_


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["visibility"] = "visibility"
    visible: StrictBool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    type: Literal["pong"] = "pong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
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
