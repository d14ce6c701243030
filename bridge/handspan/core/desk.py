"""Where a thread's calls are seen through, from their announcement to their one end.

Owns every call of the run under way and the newest settled ones: who gets each (registry), when
its turn has come, what becomes of it when its page goes away, and in which order results are
shown. Each change of a call's state is one of its own transitions (`call`). Deliberately does not
know runs: who is told that a call settled is the `on_settled` it was given.
`approvals` asks humans, `dispatch` gives calls out, `reports` tells everybody. *Source:*
behaviour.md 3, protocol.md 6.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from handspan_protocol.codec import encode
from handspan_protocol.errors import CallCode, CallStatus, CancelReason
from handspan_protocol.frames import JournalEntry, ToolCancel
from handspan_protocol.ids import WILDCARD, CallId, MessageId, RunId, SessionId, is_id
from handspan_protocol.limits import PROGRESS_INTERVAL_S

from .approvals import Approvals
from .arguments import BadArguments, ToolSpec, check_arguments, parse_arguments, told
from .call import (
    Call,
    CallEvent,
    CallState,
    Settlement,
    judge_result,
    judge_start,
    refusal,
)
from .dispatch import Dispatch
from .effects import GiveValue, StopTool
from .inputs import Answer, ApprovalGiven
from .registry import Found, offered, resolve, unknown_tool
from .reports import tell, tell_progress
from .run import Run
from .session_inputs import CallTaken
from .space import Space

Json = Any

SETTLED_KEPT: Final = 1_024
"""Settled calls a thread remembers, to tell late, duplicate and conflicting answers apart."""

_REASONS: Final[Mapping[CallEvent, CancelReason]] = {
    CallEvent.ABORTED: CancelReason.ABORTED,
    CallEvent.DEADLINE: CancelReason.TIMEOUT,
}


class Desk:
    """The calls of one thread."""

    __slots__ = ("_dispatch", "_on_settled", "_space", "approvals", "calls", "open_calls")

    def __init__(self, space: Space, on_settled: Callable[[Call], None]) -> None:
        self._space = space
        self._on_settled = on_settled
        self.calls: dict[CallId, Call] = {}
        """Open ones and the newest settled ones, in the order they were made."""
        self.open_calls: dict[CallId, Call] = {}
        self.approvals = Approvals(space)
        self._dispatch = Dispatch(space)

    # ---- making calls ------------------------------------------------------------------------

    def announce(self, run: Run, wish: str | None, name: str, message: MessageId) -> Call:
        """A call's start was seen: it is proposed, under its own id or a fresh one."""
        call_id = self._space.ids.claim_call(wish if self._usable(wish) else None)
        call = Call(id=call_id, run_id=run.id, depth=run.depth, name=name, message_id=message)
        if len(run.step.calls) >= self._space.policy.calls_per_step:
            call.over_limit = f"over {self._space.policy.calls_per_step} calls in one step"
        elif self._open_of(run.id) >= self._space.policy.open_calls_per_run:
            call.over_limit = f"over {self._space.policy.open_calls_per_run} open calls in one run"
        self.calls[call.id] = self.open_calls[call.id] = call
        run.step.calls.append(call)
        return call

    def propose(self, run: Run, call: Call) -> None:
        """The call is final and may be carried out: resolve, read, ask or queue it."""
        if call.over_limit is not None:
            self.refuse(call, CallCode.LIMIT, f"this call is {call.over_limit}")
            return
        found = self.find(run, call.name)
        if found is None:
            known = self.offered(run)
            self.refuse(call, CallCode.UNKNOWN_TOOL, unknown_tool(call.name, known))
            return
        args = _read(call, found.spec)
        if isinstance(args, BadArguments):
            call.spec = found.spec
            self.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
            return
        call.args = args
        self._assign(call, found)
        if self.approvals.needed(found.spec):
            self.approvals.ask(call, CallEvent.ASKED, None)
        else:
            call.move(CallEvent.READY)

    def offered(self, run: Run) -> tuple[ToolSpec, ...]:
        """What the run's agent is shown now."""
        return offered(run.agent, run.starter, self._space.pages.values(), self._space.server)

    def find(self, run: Run, name: str) -> Found | None:
        """Who answers this name now; pages whose session is over are not asked."""
        agent = None if run.invoked else run.agent
        pages = self._space.pages.values()
        return resolve(name, agent, run.starter, pages, self._space.server)

    def calls_of(self, run: Run) -> list[Call]:
        """All calls of this run, in the order they were made."""
        return [call for call in self.calls.values() if call.run_id == run.id]

    def pump(self, run: Run) -> None:
        """Dispatch every queued call of the run whose turn has come."""
        calls = [c for c in self.open_calls.values() if c.run_id == run.id and c.ended]
        self._dispatch.pump(calls)

    # ---- what pages say ----------------------------------------------------------------------

    def leave(self, call: Call, session: SessionId, attempt: int) -> CallStatus:
        """`tool.started`: GO has been recorded."""
        status = judge_start(call, session, attempt)
        if status is CallStatus.GO:
            call.move(CallEvent.LEAVE)
            self._space.record("call_started", callId=call.id, attempt=attempt)
            tell(self._space, call, "started")
        return status

    def result(self, call: Call, session: SessionId, attempt: int, answer: Answer) -> CallStatus:
        """`tool.result`: only APPLIED has changed anything (P7)."""
        status = judge_result(call, session, attempt, answer)
        if status is CallStatus.APPLIED:
            self.answer(call, answer)
        return status

    def answer(self, call: Call, answer: Answer) -> None:
        """The holder's answer settles the call."""
        code = _code_of(answer)
        if code is None:
            code, answer = self._checked(call, answer)
        self.settle(call, Settlement(by=CallEvent.ANSWERED, answer=answer, code=code))

    def _checked(self, call: Call, answer: Answer) -> tuple[CallCode | None, Answer]:
        size = len(encode(answer.value if answer.content is None else list(answer.content)))
        if size > self._space.policy.result_bytes:
            return CallCode.RESULT_TOO_LARGE, Answer(
                error_message=f"the result has {size} bytes, over {self._space.policy.result_bytes}"
            )
        returns = call.spec.returns if call.spec else None
        problems = returns.problems(answer.value) if returns and answer.content is None else ()
        if not problems:
            return None, answer
        return CallCode.INVALID_RESULT, Answer(
            error_message="the result does not fit the tool's schema: " + told(problems)
        )

    # ---- approval ----------------------------------------------------------------------------

    def approve(self, call: Call, given: ApprovalGiven) -> CallStatus:
        """`approval.answer` to the open question."""
        if call.approval is None or given.digest != call.approval.digest:
            return CallStatus.LATE
        if not given.approved:
            message = given.reason or "the user said no"
            call.approval = None
            self.settle(call, refusal(CallEvent.DENIED, CallCode.DENIED, message))
            return CallStatus.APPLIED
        if given.args is not None and call.spec is not None:
            args = _fit(call.name, dict(given.args), call.spec)
            if isinstance(args, BadArguments):
                call.approval = None
                self.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
                return CallStatus.APPLIED
            call.args = args
        if given.remember and call.spec is not None:
            self.approvals.remember(call.spec)
        call.approval = None
        call.move(CallEvent.APPROVED)
        return CallStatus.APPLIED

    def ask_again(self, session: SessionId) -> None:
        """Send every open question to a page that has just come."""
        self.approvals.ask_again(session, self.open_calls.values())

    # ---- pages that come, change and go --------------------------------------------------------

    def page_changed(self, run: Run, session: SessionId) -> None:
        """The page's tools are new: what it no longer has is resolved again."""
        for call in list(self.open_calls.values()):
            if call.state not in (CallState.QUEUED, CallState.WAITING_APPROVAL):
                continue
            if call.holder == session and not self._still_held(call):
                self._resolve_again(run, call, CallCode.UNAVAILABLE)
            elif call.holder is None and call.homeless_until is not None:
                self._try_home(run, call)

    def _still_held(self, call: Call) -> bool:
        page = self._space.pages.get(call.holder) if call.holder is not None else None
        spec = page.tools.get(call.spec.name) if page is not None and call.spec else None
        same = spec is not None and call.spec is not None and spec.digest == call.spec.digest
        return same and spec is not None and spec.tool.available

    def returned(
        self, session: SessionId, journal: Iterable[JournalEntry], *, same_document: bool
    ) -> None:
        """The page is back: what its journal lacks is sent again, or lost with its document.

        A result that a journal announces ("done") is waited for, whoever held the call.
        """
        known = {(entry.call_id, entry.attempt): entry.state for entry in journal}
        for call in list(self.open_calls.values()):
            if call.holder != session or not call.out:
                continue
            state = known.get((call.id, call.attempt))
            if state == "done" or (same_document and state is not None):
                continue
            if same_document and call.state is CallState.DISPATCHED:
                call.move(CallEvent.RESENT)
                self._dispatch.offer(call)
            else:
                self.lose(call, self._space.now)

    def gone(self, session: SessionId, since: float) -> None:
        """The session's document went away: what it held is lost, or may move."""
        for call in list(self.open_calls.values()):
            if call.holder == session and call.out:
                self.lose(call, since)

    def lose(self, call: Call, since: float) -> None:
        """The holder's document went away with this call."""
        self._take(call, None)
        if call.state is CallState.STARTED and not call.repeatable:
            message = (
                "the page went away while the tool was running; it may or may not have been"
                " carried out, so check before calling it again"
            )
            self.settle(call, refusal(CallEvent.LOST_FOR_GOOD, CallCode.OUTCOME_UNKNOWN, message))
            return
        started = call.state is CallState.STARTED
        call.lost_as = CallCode.OUTCOME_UNKNOWN if started else CallCode.PAGE_GONE
        call.move(CallEvent.LOST)
        call.deadline = None
        call.holder = None
        call.homeless_until = since + self._space.policy.page_grace

    def rehome(self, run: Run, session: SessionId | None = None) -> None:
        """Look once more for somebody for each queued call that has nobody, or only `session`."""
        for call in list(self.open_calls.values()):
            if call.state is not CallState.QUEUED:
                continue
            if session is not None and call.holder == session:
                self._resolve_again(run, call, call.lost_as)
            elif call.holder is None and call.homeless_until is not None:
                self._try_home(run, call)

    def _try_home(self, run: Run, call: Call) -> None:
        found = self.find(run, call.name)
        if found is not None:
            self._move_to(call, found)
        elif call.homeless_until is not None and self._space.now >= call.homeless_until:
            self.nobody(call, call.lost_as)

    def _resolve_again(self, run: Run, call: Call, code: CallCode) -> None:
        found = self.find(run, call.name)
        if found is None:
            self.nobody(call, code)
        else:
            self._move_to(call, found)

    def _move_to(self, call: Call, found: Found) -> None:
        args = _read(call, found.spec)
        if isinstance(args, BadArguments):
            call.approval = None
            self.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
            return
        changed = call.spec is None or call.spec.digest != found.spec.digest
        self._assign(call, found)
        if call.state is CallState.WAITING_APPROVAL:
            self.approvals.ask(
                call, CallEvent.ASKED, call.approval.reason if call.approval else None
            )
        elif changed and self.approvals.needed(found.spec):
            message = "the tool changed after the call was approved; call it again"
            self.refuse(call, CallCode.UNAVAILABLE, message)
        else:
            call.move(CallEvent.MOVED)

    def _assign(self, call: Call, found: Found) -> None:
        call.spec = found.spec
        call.holder = found.session
        call.homeless_until = None

    # ---- ends --------------------------------------------------------------------------------

    def refuse(self, call: Call, code: CallCode, message: str) -> None:
        """One of ours settles a call that was never carried out."""
        self.settle(call, refusal(CallEvent.REFUSED, code, message))

    def nobody(self, call: Call, code: CallCode) -> None:
        """Nobody is left who could carry out a queued call."""
        event = CallEvent.NOBODY if call.state is CallState.QUEUED else CallEvent.REFUSED
        call.approval = None
        self.settle(call, refusal(event, code, _NOBODY[code]))

    def abort(self, call: Call) -> None:
        """The run was aborted: whether the call had started is told in its code."""
        begun = call.state is CallState.STARTED or (
            call.state is CallState.DISPATCHED and call.repeatable
        )
        code = CallCode.ABORTED if begun else CallCode.ABORTED_BEFORE_START
        self.settle(call, refusal(CallEvent.ABORTED, code, "the run was aborted"))

    def settle(self, call: Call, settlement: Settlement) -> None:
        """The one door to the end (P2): told at once, shown in its turn."""
        was_out = call.out
        call.settle(settlement)
        call.approval = None
        del self.open_calls[call.id]
        self._space.record("call_settled", callId=call.id, outcome=settlement.outcome.value)
        if was_out:
            reason = _REASONS.get(settlement.by)
            if call.holder is None:
                self._stop_tool(call, settlement)
            else:
                self._take(call, reason)
        tell(self._space, call, "settled", **settlement.told())
        if call.ticket is not None:
            self._space.do(GiveValue(call.ticket, call.value()))
        self._on_settled(call)
        self._forget_old()

    def _stop_tool(self, call: Call, settlement: Settlement) -> None:
        if settlement.by is not CallEvent.ANSWERED:
            self._space.do(StopTool(call.id))

    def _take(self, call: Call, reason: CancelReason | None) -> None:
        if call.holder is None or call.holder not in self._space.pages:
            return
        cancel = None
        if reason is not None:
            cancel = ToolCancel(call_id=call.id, attempt=call.attempt, reason=reason.value)
        self._space.tell(call.holder, CallTaken(call.id, cancel))

    # ---- time --------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When `deadline_passed` has something to do."""
        times = [t for call in self.open_calls.values() for t in _times(call)]
        return min(times, default=None)

    def deadline_passed(self, run: Run) -> None:
        """Settle what is overdue, give up what nobody came for, tell progress that waited."""
        now = self._space.now
        for call in list(self.open_calls.values()):
            if call.deadline is not None and now >= call.deadline:
                message = "the tool did not answer in time; it may still have been carried out"
                self.settle(call, refusal(CallEvent.DEADLINE, CallCode.TIMEOUT, message))
            elif call.approval is not None and now >= call.approval.expires_at:
                message = "nobody answered the request for approval"
                expired = refusal(CallEvent.EXPIRED, CallCode.APPROVAL_EXPIRED, message)
                self.settle(call, expired)
            elif call.homeless_until is not None and now >= call.homeless_until:
                self._try_home(run, call)
            elif (
                call.progress_waiting is not None and now >= call.progress_at + PROGRESS_INTERVAL_S
            ):
                tell_progress(self._space, call)

    # ---- parts -------------------------------------------------------------------------------

    def _usable(self, wish: str | None) -> bool:
        known = wish in self.calls or (wish and self._space.transcript.has_call(wish))
        return wish is not None and is_id(wish) and not known

    def _open_of(self, run_id: RunId) -> int:
        return sum(call.run_id == run_id for call in self.open_calls.values())

    def _forget_old(self) -> None:
        while len(self.calls) - len(self.open_calls) > SETTLED_KEPT:
            oldest = next(c for c in self.calls.values() if not c.open)
            del self.calls[oldest.id]


_NOBODY: Final[Mapping[CallCode, str]] = {
    CallCode.UNAVAILABLE: "the page no longer has this tool",
    CallCode.NO_CLIENT: "no page that has this tool is connected",
    CallCode.PAGE_GONE: "the page went away before the tool was started; it was not carried out",
    CallCode.OUTCOME_UNKNOWN: "the page went away; whether the tool was carried out is unknown",
}


def _read(call: Call, spec: ToolSpec) -> dict[str, Json] | BadArguments:
    """The call's text, read and checked under the schema of the tool that will carry it out."""
    args = parse_arguments(call.raw)
    return args if isinstance(args, BadArguments) else _fit(call.name, args, spec)


def _fit(name: str, args: dict[str, Json], spec: ToolSpec) -> dict[str, Json] | BadArguments:
    """The arguments when they fit; a wildcard's schema is of {toolName, args}."""
    if spec.name != WILDCARD or name == WILDCARD:
        return check_arguments(args, spec)
    wrapped = check_arguments({"toolName": name, "args": args}, spec)
    return wrapped if isinstance(wrapped, BadArguments) else args


def _code_of(answer: Answer) -> CallCode | None:
    """The call's code for an answer: a page's own code stays `handler_error` with two exceptions.

    *Source:* protocol.md 8.
    """
    if not answer.failed:
        return None
    if answer.error_code in (CallCode.UNAVAILABLE, CallCode.RESULT_TOO_LARGE):
        return CallCode(answer.error_code)
    return CallCode.HANDLER_ERROR


def _times(call: Call) -> Iterable[float]:
    if call.deadline is not None:
        yield call.deadline
    if call.approval is not None:
        yield call.approval.expires_at
    if call.homeless_until is not None:
        yield call.homeless_until
    if call.progress_waiting is not None:
        yield call.progress_at + PROGRESS_INTERVAL_S
