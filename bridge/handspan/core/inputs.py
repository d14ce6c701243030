"""What can happen: the past facts that a thread is told, as frozen data. Decides nothing.

Every input could cross a network: plain values, no callables except compiled validators.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from handspan_protocol.frames import ContextItem, JournalEntry
from handspan_protocol.ids import CallId, DocumentId, RunId, SessionId

from .answer import Answer
from .parties import ANONYMOUS, Asker, PageView, Principal
from .said import CallForgone as CallForgone
from .said import CallSaid as CallSaid
from .said import DelegateSaid as DelegateSaid
from .said import EventSaid as EventSaid
from .said import HandoffSaid as HandoffSaid
from .said import ReasoningSaid as ReasoningSaid
from .said import StateSaid as StateSaid
from .said import StepEnded as StepEnded
from .said import StepFailed as StepFailed
from .said import StepShaped as StepShaped
from .said import TextSaid as TextSaid
from .said import UsageSaid as UsageSaid

Json = Any

# ---- what a thread is told by sessions -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageOpened:
    """The page wants the thread's stream; its tools are at the thread's service."""

    page: PageView


@dataclass(frozen=True, slots=True)
class PageClosed:
    """The page no longer reads the stream; calls it holds stay its own."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class PageChanged:
    """Tools, context, visibility or the socket of a page on this thread are new."""

    page: PageView


@dataclass(frozen=True, slots=True)
class PageReturned:
    """The page's socket is back; its journal says which calls it knows.

    `document_before` differs from `page.document` when the page was loaded anew.
    """

    page: PageView
    journal: tuple[JournalEntry, ...]
    document_before: DocumentId


@dataclass(frozen=True, slots=True)
class DocumentGone:
    """The document was away for `page_grace`, or its session ended; `since` is when it was lost."""

    session: SessionId
    since: float
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequested:
    """`run.start`, or `bridge.run`. `message` is a checked AG-UI user message without an id."""

    asker: Asker
    run_id: RunId | None = None
    agent: str | None = None
    message: Mapping[str, Json] | None = None
    after: str | None = None
    context: tuple[ContextItem, ...] = ()
    forwarded_props: Json = None
    if_busy: Literal["reject", "queue", "replace"] = "reject"
    principal: Principal = ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeRequested:
    """`tool.invoke`, or `bridge.call_tool`: a run whose step 0 is the call itself."""

    asker: Asker
    name: str
    raw: str
    run_id: RunId | None = None
    follow_up: bool | str = False
    if_busy: Literal["reject", "queue", "replace"] = "reject"
    principal: Principal = ANONYMOUS


@dataclass(frozen=True, slots=True)
class AbortRequested:
    """`run.abort`; run None: the running one."""

    asker: Asker
    run_id: RunId | None


@dataclass(frozen=True, slots=True)
class LeaveAsked:
    """`tool.started`: may the handler start?"""

    asker: Asker
    call_id: CallId
    attempt: int


@dataclass(frozen=True, slots=True)
class ProgressMade:
    session: SessionId
    call_id: CallId
    attempt: int
    progress: float | None
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ResultGiven:
    """`tool.result` of a page."""

    asker: Asker
    call_id: CallId
    attempt: int
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGiven:
    """`approval.answer`."""

    asker: Asker
    call_id: CallId
    digest: str
    approved: bool
    reason: str | None
    args: Mapping[str, Json] | None
    remember: bool


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The session could not take the call it was offered: it holds too many."""

    session: SessionId
    call_id: CallId
    attempt: int


@dataclass(frozen=True, slots=True)
class StateGiven:
    """`state.update`: a patch, or (patch None) the whole state."""

    asker: Asker
    patch: tuple[Json, ...] | None
    state: Json


# ---- what a thread is told by the driver -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A server tool's answer."""

    call_id: CallId
    answer: Answer


@dataclass(frozen=True, slots=True)
class StopsJudged:
    """Whether one of `Policy.stop_when` holds after this step."""

    run_id: RunId
    depth: int
    stop: bool


# ---- what hooks say --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJudged:
    """`before_run`: the request as it may run, or why it may not (a RunCode and words)."""

    run_id: RunId
    request: RunRequested | InvokeRequested | None = None
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CallJudged:
    """`before_call`."""

    call_id: CallId
    verdict: Literal["allow", "deny", "ask"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ArgumentsRepaired:
    """`repair_arguments`: others, to be checked again; None: they stay bad."""

    call_id: CallId
    args: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class ResultRevised:
    """`after_call`: another answer; None: it stays as it is."""

    call_id: CallId
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class StepReviewed:
    """`after_step` is through."""

    run_id: RunId
    depth: int


@dataclass(frozen=True, slots=True)
class SuggestionsMade:
    """What the user might say next, after this run."""

    run_id: RunId
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """The process began anew, and this was read from the store; these pages may come back.

    `readers`: those that read the thread when the process ended.
    """

    pages: tuple[PageView, ...]
    readers: frozenset[SessionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The thread is no longer wanted: everything of it ends."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """The thread leaves memory."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """`next_deadline()` has come."""


ThreadInput = (
    PageOpened
    | PageClosed
    | PageChanged
    | PageReturned
    | DocumentGone
    | RunRequested
    | InvokeRequested
    | AbortRequested
    | LeaveAsked
    | ProgressMade
    | ResultGiven
    | CallRefused
    | ApprovalGiven
    | StateGiven
    | TextSaid
    | ReasoningSaid
    | EventSaid
    | CallSaid
    | HandoffSaid
    | StateSaid
    | UsageSaid
    | CallForgone
    | StepEnded
    | StepFailed
    | DelegateSaid
    | StepShaped
    | ToolReturned
    | StopsJudged
    | RunJudged
    | CallJudged
    | ArgumentsRepaired
    | ResultRevised
    | StepReviewed
    | SuggestionsMade
    | Restored
    | Deleted
    | Evicted
    | DeadlinePassed
)
