"""What must be done: the orders that the two machines give, as frozen data, in order.

The driver carries out the effects of one `handle` in order; outcomes come home as inputs. `Record`
stands before whatever says the same to a page. Events need no effect: they enter the thread's log
inside `handle`, and the sockets read the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handspan_protocol.errors import PeerError
from handspan_protocol.frames import ContextItem, ServerFrame, ToolCall, ToolCancel
from handspan_protocol.ids import CallId, RunId, SessionId, ThreadId

from .arguments import BadArguments, ToolSpec
from .inputs import InvokeRequested, RunRequested, ThreadInput
from .parties import Asker, ConnectionId, Principal, ThreadKey
from .session_inputs import SessionInput

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValue:
    """A settled call as agents, hooks and callers see it."""

    call_id: CallId
    name: str
    outcome: str
    value: Json = None
    content: tuple[Json, ...] | None = None
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValue:
    """A run that is over, as its callers see it."""

    run_id: RunId
    reason: str
    depth: int
    text: str = ""
    output: Json = None
    code: str | None = None
    message: str | None = None
    usage: tuple[Mapping[str, Json], ...] = ()
    """AG-UI TokenUsage, one a model; of a sub-run none: the run has them."""


# ---- facts for the store ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a durable store must know before a page hears of it (P16).

    `kind` is one of run_queued, run_dropped, run_started, run_opened, run_resumed, run_aborted,
    run_ended, subrun_started, step_ended, call_asked, call_decided, call_dispatched,
    call_started, call_settled, call_revised, state; `data` names the run or the call. What is kept
    of them is found by `keeping`.
    """

    key: ThreadKey
    kind: str
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Record:
    """Keep these facts before the effects behind this one are carried out."""

    facts: tuple[Fact, ...]


# ---- orders of a thread ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a command: a result, or an error."""

    asker: Asker
    result: Json = None
    error: PeerError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    """Invoke the agent once, with everything it may see."""

    run_id: RunId
    depth: int
    agent: str
    tools: tuple[ToolSpec, ...]
    context: tuple[ContextItem, ...]
    messages: Sequence[Mapping[str, Json]]
    state: Json
    results: tuple[CallValue, ...]
    forwarded_props: Json
    principal: Principal
    parent: RunId | None = None
    """Of a sub-run: the run whose step waits for it."""


@dataclass(frozen=True, slots=True)
class StopStep:
    """Close the agent's stream; nothing it still says counts."""

    run_id: RunId
    depth: int


@dataclass(frozen=True, slots=True)
class StartTool:
    """Run a server tool."""

    call_id: CallId
    run_id: RunId
    depth: int
    name: str
    args: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class StopTool:
    """Cancel a server tool; its cleanup goes on behind, bounded by `cleanup_grace`."""

    call_id: CallId


@dataclass(frozen=True, slots=True)
class GiveValue:
    """Wake who waits inside a step for this call (`run.call_tool`)."""

    ticket: str
    value: CallValue


@dataclass(frozen=True, slots=True)
class GiveResult:
    """Wake who waits inside a step for this sub-run (`run.delegate`); `messages` are its own."""

    ticket: str
    value: RunValue
    messages: Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class JudgeStops:
    """Evaluate `Policy.stop_when` over the steps so far; the verdict comes as StopsJudged."""

    run_id: RunId
    depth: int
    steps: tuple[tuple[CallValue, ...], ...]


# ---- questions to hooks; asked only where somebody registered one ----------------------------


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """Ask `before_run`; the answer comes as RunJudged."""

    run_id: RunId
    request: RunRequested | InvokeRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCall:
    """Ask `before_call`; the answer comes as CallJudged. `asks`: what the tool itself wishes."""

    call_id: CallId
    run_id: RunId
    depth: int
    name: str
    args: Mapping[str, Json]
    spec: ToolSpec
    asks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairArguments:
    """Ask `repair_arguments`; the answer comes as ArgumentsRepaired."""

    call_id: CallId
    run_id: RunId
    depth: int
    name: str
    raw: str
    bad: BadArguments
    spec: ToolSpec


@dataclass(frozen=True, slots=True)
class ReviseResult:
    """Ask `after_call`; the answer comes as ResultRevised."""

    run_id: RunId
    depth: int
    value: CallValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStep:
    """Ask `after_step`; StepReviewed says that it is through."""

    run_id: RunId
    depth: int
    calls: tuple[CallValue, ...]
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class StopHook:
    """The answer is no longer wanted: of this call, or of this run."""

    subject: CallId | RunId


@dataclass(frozen=True, slots=True)
class Suggest:
    """Think of what the user might say next; it comes as SuggestionsMade."""

    value: RunValue
    messages: Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class StopSuggesting:
    run_id: RunId


@dataclass(frozen=True, slots=True)
class RunOver:
    """A run has ended, in whatever way; `asker` is who asked for it."""

    asker: Asker
    value: RunValue


@dataclass(frozen=True, slots=True)
class Broke:
    """An invariant of the machine broke on this input; it has mended itself, somebody must look."""

    error: Exception


@dataclass(frozen=True, slots=True)
class ThreadOver:
    """The thread may be forgotten, in memory and in the store."""


@dataclass(frozen=True, slots=True)
class TellSession:
    session: SessionId
    message: SessionInput


ThreadEffect = (
    Record
    | Reply
    | StartStep
    | StopStep
    | StartTool
    | StopTool
    | GiveValue
    | GiveResult
    | JudgeStops
    | JudgeRun
    | JudgeCall
    | RepairArguments
    | ReviseResult
    | ReviewStep
    | StopHook
    | Suggest
    | StopSuggesting
    | RunOver
    | Broke
    | ThreadOver
    | TellSession
)


# ---- orders of a session ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Write a control frame to the session's live socket."""

    frame: ServerFrame


@dataclass(frozen=True, slots=True)
class SendCall:
    """Write a tool.call, not before the socket has the thread's log up to `after`."""

    frame: ToolCall
    after: int


@dataclass(frozen=True, slots=True)
class DropCall:
    """Drop a tool.call that was not written yet; where it was, write `cancel` instead."""

    call_id: CallId
    cancel: ToolCancel | None


@dataclass(frozen=True, slots=True)
class CloseSocket:
    connection: ConnectionId
    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Put the socket's cursor on the thread: after (epoch, offset), or a snapshot."""

    key: ThreadKey
    epoch: str | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class CloseStream:
    thread_id: ThreadId


@dataclass(frozen=True, slots=True)
class TellThread:
    """`create`: a thread that is not there is made; otherwise the message falls to the ground."""

    key: ThreadKey
    message: ThreadInput
    create: bool = False


@dataclass(frozen=True, slots=True)
class TellCall:
    """For the thread that has this call; where there is none `unknown` is the session's answer."""

    call_id: CallId
    message: ThreadInput
    ticket: str | None


@dataclass(frozen=True, slots=True)
class AbortAnywhere:
    """Abort a run of which only the id is known."""

    asker: Asker
    run_id: RunId


@dataclass(frozen=True, slots=True)
class ListThreads:
    ticket: str


@dataclass(frozen=True, slots=True)
class DeleteThread:
    ticket: str
    thread_id: ThreadId


@dataclass(frozen=True, slots=True)
class SessionOver:
    """The session is no more; its name may be forgotten."""


SessionEffect = (
    SendFrame
    | SendCall
    | DropCall
    | CloseSocket
    | OpenStream
    | CloseStream
    | TellThread
    | TellCall
    | AbortAnywhere
    | ListThreads
    | DeleteThread
    | SessionOver
)
