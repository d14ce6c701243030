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
from handspan_protocol.errors import CallCode, CallStatus, CancelReason, CommandCode, PeerError
from handspan_protocol.frames import ToolCancel
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
from .registry import Found, is_withheld, offered, resolve, unknown_tool
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
            self._refuse_name(run, call)
            return
        args = _read(call, found.spec)
        if isinstance(args, BadArguments):
            call.spec = found.spec
            self.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
            return
        call.args = args
        self.assign(call, found)
        if self.approvals.needed(found.spec):
            self.approvals.ask(call, CallEvent.ASKED, None)
        else:
            call.move(CallEvent.READY)

    def _refuse_name(self, run: Run, call: Call) -> None:
        if is_withheld(call.name, self._space.serving(run.starter), self._space.server):
            self.refuse(call, CallCode.UNAVAILABLE, "this tool is not available now")
        else:
            known = self.offered(run)
            self.refuse(call, CallCode.UNKNOWN_TOOL, unknown_tool(call.name, known))

    def offered(self, run: Run) -> tuple[ToolSpec, ...]:
        """What the run's agent is shown now."""
        return offered(run.agent, run.starter, self._space.serving(run.starter), self._space.server)

    def find(self, run: Run, name: str) -> Found | None:
        """Who answers this name now."""
        agent = None if run.invoked else run.agent
        pages = self._space.serving(run.starter)
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
        """`approval.answer` to the open question; the first answer decides.

        Raises:
            PeerError: `unknown_call`: nobody was asked about it.
        """
        if not call.asked:
            raise PeerError(CommandCode.UNKNOWN_CALL, "nobody was asked about this call")
        said = (given.digest, given.approved, given.reason, given.args, given.remember)
        if call.approval is None or given.digest != call.approval.digest:
            return CallStatus.DUPLICATE if said == call.decision else CallStatus.LATE
        call.approval, call.decision = None, said
        self._decide(call, given)
        return CallStatus.APPLIED

    def _decide(self, call: Call, given: ApprovalGiven) -> None:
        assert call.spec is not None  # resolved before anybody was asked
        if not given.approved:
            message = given.reason or "the user said no"
            self.settle(call, refusal(CallEvent.DENIED, CallCode.DENIED, message))
            return
        if given.args is not None:
            args = fit(call.name, dict(given.args), call.spec)
            if isinstance(args, BadArguments):
                self.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
                return
            call.args = args
        if given.remember:
            self.approvals.remember(call.spec)
        call.move(CallEvent.APPROVED)

    def ask_again(self, session: SessionId) -> None:
        """Send every open question to a page that has just come."""
        self.approvals.ask_again(session, self.open_calls.values())

    def assign(self, call: Call, found: Found) -> None:
        """This tool, and who has it, will carry the call out."""
        call.spec = found.spec
        call.holder = found.session
        call.homeless_until = None

    def resend(self, call: Call) -> None:
        """The same document is back and does not know the call: the same attempt again."""
        call.move(CallEvent.RESENT)
        self._dispatch.offer(call)

    # ---- ends --------------------------------------------------------------------------------

    def refuse(self, call: Call, code: CallCode, message: str) -> None:
        """One of ours settles a call that was never carried out."""
        self.settle(call, refusal(CallEvent.REFUSED, code, message))

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
                self.take(call, reason)
        tell(self._space, call, "settled", **settlement.told())
        if call.ticket is not None:
            self._space.do(GiveValue(call.ticket, call.value()))
        self._on_settled(call)
        self._forget_old()

    def _stop_tool(self, call: Call, settlement: Settlement) -> None:
        if settlement.by is not CallEvent.ANSWERED:
            self._space.do(StopTool(call.id))

    def take(self, call: Call, reason: CancelReason | None) -> None:
        """The call is no longer its holder's; with a reason a page at work is told to stop."""
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

    def deadline_passed(self) -> None:
        """Settle what is overdue, tell progress that waited."""
        now = self._space.now
        for call in list(self.open_calls.values()):
            if call.deadline is not None and now >= call.deadline:
                message = "the tool did not answer in time; it may still have been carried out"
                self.settle(call, refusal(CallEvent.DEADLINE, CallCode.TIMEOUT, message))
            elif call.approval is not None and now >= call.approval.expires_at:
                message = "nobody answered the request for approval"
                expired = refusal(CallEvent.EXPIRED, CallCode.APPROVAL_EXPIRED, message)
                self.settle(call, expired)
            elif (
                call.progress_waiting is not None and now >= call.progress_at + PROGRESS_INTERVAL_S
            ):
                tell_progress(self._space, call)

    def forget(self, run: Run) -> None:
        """Drop every open call of a run that could not be ended in good order."""
        for call in [c for c in self.open_calls.values() if c.run_id == run.id]:
            del self.open_calls[call.id]
            self.take(call, CancelReason.ABORTED)

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


def _read(call: Call, spec: ToolSpec) -> dict[str, Json] | BadArguments:
    """The call's text, read and checked under the schema of the tool that will carry it out."""
    args = parse_arguments(call.raw)
    return args if isinstance(args, BadArguments) else fit(call.name, args, spec)


def fit(name: str, args: dict[str, Json], spec: ToolSpec) -> dict[str, Json] | BadArguments:
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
    if answer.code is not None:
        return answer.code
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
