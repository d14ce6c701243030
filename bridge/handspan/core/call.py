"""One call's machine.

A call is what a model asked for: a name and a text. It is *proposed* when its start was seen. When
its step has ended, its name is resolved to who will carry it out and its text read; then it is
*queued* (a human may be asked before: *waiting_approval*). When its turn has come and its holder's
socket is there, it is *dispatched*: the order is recorded, then sent, and the clock runs. The page
asks for leave before it starts anything that must not happen twice; leave given, the call is
*started*. So "dispatched" proves "not started" wherever that matters, and a call whose page went
away may go back to the queue from *dispatched*, but from *started* only when its tool can be
repeated. In the end, and exactly once, it is *settled*, by an answer or by one of ours; whatever
comes later finds it so and changes nothing (P2, P7).

The table below is the whole of it. A pair that is not there is forbidden: to feed it is a fault of
the caller, and raises. *Source:* behaviour.md 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from handspan_protocol.content import error_text, result_text
from handspan_protocol.errors import (
    CallCode,
    CallStatus,
    CommandCode,
    Outcome,
    PeerError,
    outcome_of,
)
from handspan_protocol.ids import CallId, MessageId, RunId, SessionId

from .answer import Answer, same_answer
from .arguments import ToolSpec
from .effects import CallValue

Json = Any


class CallState(StrEnum):
    PROPOSED = "proposed"
    WAITING_APPROVAL = "waiting_approval"
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    STARTED = "started"
    SETTLED = "settled"


class CallEvent(StrEnum):
    READY = "ready"
    """Resolved, arguments good, nobody to ask."""
    ASKED = "asked"
    """A human must say yes first."""
    REFUSED = "refused"
    """Nobody, not available, bad arguments, over a limit, a truncated turn."""
    PROVIDED = "provided"
    """The agent itself gave the result."""
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    TURN = "turn"
    """Its turn, and its holder is attached."""
    MOVED = "moved"
    """The holder lost the tool or stayed away; somebody else has it."""
    NOBODY = "nobody"
    """The holder lost the tool or stayed away, and there is nobody else."""
    RESENT = "resent"
    """The same document is back and does not know the call."""
    LEAVE = "leave"
    """`tool.started`, recorded."""
    ANSWERED = "answered"
    LOST = "lost"
    """The holder's document went away, and another attempt is safe."""
    LOST_FOR_GOOD = "lost_for_good"
    """The holder's document went away after it started what must not happen twice."""
    DEADLINE = "deadline"
    ABORTED = "aborted"


_S, _E = CallState, CallEvent

TRANSITIONS: Final[Mapping[tuple[CallState, CallEvent], CallState]] = {
    (_S.PROPOSED, _E.READY): _S.QUEUED,
    (_S.PROPOSED, _E.ASKED): _S.WAITING_APPROVAL,
    (_S.PROPOSED, _E.REFUSED): _S.SETTLED,
    (_S.PROPOSED, _E.PROVIDED): _S.SETTLED,
    (_S.WAITING_APPROVAL, _E.APPROVED): _S.QUEUED,
    (_S.WAITING_APPROVAL, _E.ASKED): _S.WAITING_APPROVAL,
    (_S.WAITING_APPROVAL, _E.DENIED): _S.SETTLED,
    (_S.WAITING_APPROVAL, _E.EXPIRED): _S.SETTLED,
    (_S.WAITING_APPROVAL, _E.REFUSED): _S.SETTLED,
    (_S.QUEUED, _E.TURN): _S.DISPATCHED,
    (_S.QUEUED, _E.MOVED): _S.QUEUED,
    (_S.QUEUED, _E.NOBODY): _S.SETTLED,
    (_S.QUEUED, _E.REFUSED): _S.SETTLED,
    (_S.DISPATCHED, _E.RESENT): _S.DISPATCHED,
    (_S.DISPATCHED, _E.REFUSED): _S.SETTLED,
    (_S.DISPATCHED, _E.LEAVE): _S.STARTED,
    (_S.DISPATCHED, _E.ANSWERED): _S.SETTLED,
    (_S.DISPATCHED, _E.LOST): _S.QUEUED,
    (_S.STARTED, _E.ANSWERED): _S.SETTLED,
    (_S.STARTED, _E.LOST): _S.QUEUED,
    (_S.STARTED, _E.LOST_FOR_GOOD): _S.SETTLED,
} | {
    (state, event): _S.SETTLED
    for state in _S
    if state is not _S.SETTLED
    for event in (_E.DEADLINE, _E.ABORTED)
}


def next_state(state: CallState, event: CallEvent) -> CallState:
    """Where `event` takes a call that is in `state`.

    Raises:
        AssertionError: the table has no such move; the caller broke an invariant.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise AssertionError(f"a call that is {state} cannot take {event}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a call ended; `by` is the event that settled it."""

    by: CallEvent
    answer: Answer
    code: CallCode | None = None

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.code)

    def told(self) -> dict[str, str]:
        """{outcome, code?}, as events and messages carry it."""
        outcome = {"outcome": self.outcome.value}
        return outcome if self.code is None else outcome | {"code": self.code.value}

    def shown(self) -> str | tuple[Json, ...]:
        """What stands in history: text, or AG-UI parts. *Source:* protocol.md 3."""
        if self.code is not None:
            shown = self.answer.error_code or self.code.value
            return error_text(shown, self.answer.error_message or "")
        if self.answer.content is not None:
            return self.answer.content
        return result_text(self.answer.value)


def refusal(by: CallEvent, code: CallCode, message: str) -> Settlement:
    """A settlement of ours, with words for the model."""
    return Settlement(by=by, code=code, answer=Answer(error_message=message))


Hook = Literal["repair_arguments", "before_call", "after_call"]


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call; changed only by its own methods. Open means: not settled."""

    id: CallId
    run_id: RunId
    """The top-level run."""
    depth: int
    name: str
    message_id: MessageId
    owner: RunId | None = None
    """The sub-run that made it; None: the run itself did."""
    ticket: str | None = None
    """Who waits for it inside the step."""
    by_tool: bool = False
    """A server tool waits for it, and so it must not wait for a place among the server tools."""
    hook: Hook | None = None
    """The hook that is at work on it."""
    judged: bool = False
    """A hook let it through, or a human whom it asked: for the definition it has now, no other."""
    state: CallState = CallState.PROPOSED
    ended: bool = False
    """Its end event was seen: the text is final."""
    over_limit: str | None = None
    """Why it may not be carried out at all."""
    pieces: list[str] = field(default_factory=list)
    args: dict[str, Json] = field(default_factory=dict)
    spec: ToolSpec | None = None
    """Whose tool it is; the wildcard's when nobody has the name."""
    holder: SessionId | None = None
    """The page that has it; None: not resolved yet, or a server tool."""
    attempt: int = 0
    held: dict[SessionId, int] = field(default_factory=dict)
    """Each session that was ever given it, with its newest attempt."""
    lost_as: CallCode = CallCode.NO_CLIENT
    """What it settles as when nobody is left."""
    deadline: float | None = None
    homeless_until: float | None = None
    """Queued with nobody to carry it out; somebody may still come."""
    approval: "Approval | None" = None
    """The question that is open."""
    asked: bool = False
    """Whether a human was ever asked about it."""
    decision: tuple[Any, ...] | None = None
    """The answer that was applied."""
    settlement: Settlement | None = None
    revised: Settlement | None = None
    """What a hook made of the settlement, for everybody but who answered."""
    last: dict[str, Json] | None = None
    """The newest `handspan.call` value."""
    result_shown: bool = False
    """Its TOOL_CALL_RESULT is in the log."""
    progress_at: float = float("-inf")
    progress_waiting: dict[str, Json] | None = None

    def move(self, event: CallEvent) -> None:
        """Take `event`; see TRANSITIONS."""
        self.state = next_state(self.state, event)

    def awaited(self, hook: Hook) -> bool:
        """Whether this hook's answer is still wanted; then it is wanted no more."""
        wanted = self.hook == hook
        if wanted:
            self.hook = None
        return wanted

    @property
    def had_inside(self) -> bool:
        """Whether the step that made it has its result already: nobody need go on for it."""
        settled = self.settlement
        return self.ticket is not None or (settled is not None and settled.by is _E.PROVIDED)

    @property
    def open(self) -> bool:
        return self.state is not CallState.SETTLED

    @property
    def over(self) -> bool:
        """Settled, and its result is nobody's business any more but the reader's."""
        return not self.open and self.hook is None

    @property
    def final(self) -> Settlement | None:
        """The settlement as events, messages and agents are told it."""
        return self.revised or self.settlement

    @property
    def own_run_id(self) -> RunId:
        """The run, or sub-run, whose step made it."""
        return self.owner or self.run_id

    @property
    def out(self) -> bool:
        """Whether somebody is at work on it."""
        return self.state in (CallState.DISPATCHED, CallState.STARTED)

    @property
    def is_servers(self) -> bool:
        """Whether the server carries it out, once it is resolved: no page has it, or had it."""
        return self.holder is None and self.homeless_until is None

    @property
    def raw(self) -> str:
        """The arguments as the model wrote them."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def repeatable(self) -> bool:
        """Whether a handler may run again, and so may start without leave."""
        return self.spec is not None and (self.spec.tool.read_only or self.spec.tool.idempotent)

    @property
    def overlaps(self) -> bool:
        """Whether it needs no turn among the calls of its page."""
        return self.spec is not None and (self.spec.tool.read_only or self.spec.tool.parallel)

    def dispatch(self, session: SessionId | None, deadline: float) -> None:
        """Its turn has come: a new attempt begins."""
        self.move(CallEvent.TURN)
        self.attempt += 1
        self.deadline = deadline
        self.homeless_until = None
        if session is not None:
            self.held[session] = self.attempt

    def settle(self, settlement: Settlement) -> None:
        """The one end (P2)."""
        self.move(settlement.by)
        self.settlement = settlement
        self.deadline = self.homeless_until = self.progress_waiting = None

    def value(self) -> CallValue:
        """The settled call as agents and callers see it."""
        settled = self.final
        if settled is None:
            raise AssertionError(f"call {self.id} is not settled")
        return CallValue(
            call_id=self.id,
            name=self.name,
            outcome=settled.outcome.value,
            value=settled.answer.value,
            content=settled.answer.content,
            code=settled.answer.error_code or settled.code if settled.code else None,
            message=settled.answer.error_message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An open question to a human, bound to the call's name and arguments by `digest`."""

    digest: str
    expires_at: float
    reason: str | None = None


# ---- what a page is told about a call that it names (protocol.md 3, "Statuses") ---------------


def judge_start(call: Call, session: SessionId, attempt: int) -> CallStatus:
    """The answer to `tool.started`; GO is the leave, everything else forbids the start.

    Raises:
        PeerError: `not_owner`.
    """
    _check_holder(call, session, attempt)
    if attempt < call.attempt or call.state in (CallState.QUEUED, CallState.WAITING_APPROVAL):
        return CallStatus.STALE
    if call.state is CallState.DISPATCHED:
        return CallStatus.GO
    if call.state is CallState.STARTED:
        return CallStatus.DUPLICATE
    return CallStatus.ABORTED if _aborted(call) else CallStatus.LATE


def judge_result(call: Call, session: SessionId, attempt: int, answer: Answer) -> CallStatus:
    """The answer to `tool.result`; APPLIED says that it settles the call now.

    Raises:
        PeerError: `not_owner`.
    """
    _check_holder(call, session, attempt)
    if attempt < call.attempt or call.state in (CallState.QUEUED, CallState.WAITING_APPROVAL):
        return CallStatus.STALE
    if call.out:
        return CallStatus.APPLIED
    settled = call.settlement
    if settled is None or settled.by is not CallEvent.ANSWERED:
        return CallStatus.ABORTED if _aborted(call) else CallStatus.LATE
    return CallStatus.DUPLICATE if same_answer(settled.answer, answer) else CallStatus.CONFLICT


def _check_holder(call: Call, session: SessionId, attempt: int) -> None:
    if attempt > call.held.get(session, 0):
        raise PeerError(CommandCode.NOT_OWNER, "this session never held that attempt of the call")


def _aborted(call: Call) -> bool:
    return call.settlement is not None and call.settlement.by is CallEvent.ABORTED
