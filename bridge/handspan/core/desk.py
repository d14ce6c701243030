"""Where a thread's calls are seen through, from their announcement to their one end.

Owns every call of the run under way and the newest settled ones: who has each (registry), when its
turn has come, and its end. Each change of a call's state is one of its own transitions (`call`).
Deliberately moves no runs: who is told that a call is over is the `on_over` it was given. Below
sit `approvals` (humans), `dispatch` (orders) and `reports` (everybody); above `proposals` lets
calls in.

Settled is not yet over where somebody registered `after_call`: the answer is final for who gave it,
and waits for the hook before others see it. The hook's answer is taken only while it is awaited
(`call.hook`). *Source:* behaviour.md 3, protocol.md 6.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from handspan_protocol.codec import encode
from handspan_protocol.errors import CallCode, CallStatus, CancelReason
from handspan_protocol.frames import ToolCancel
from handspan_protocol.ids import CallId, MessageId, SessionId, is_id
from handspan_protocol.limits import PROGRESS_INTERVAL_S

from .answer import Answer
from .approvals import Approvals
from .arguments import ToolSpec, told
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
from .effects import (
    GiveValue,
    ReviseResult,
    StopHook,
    StopTool,
)
from .live import Live
from .registry import Found, offered, resolve
from .reports import tell, tell_progress
from .run import Run
from .session_inputs import CallTaken
from .space import Space

Json = Any

SETTLED_KEPT: Final = 1_024
"""Settled calls a thread remembers, to tell late, duplicate and conflicting answers apart."""

_WITHHELD: Final = "it was carried out; the run ended before its result could be passed on"

_FORGONE: Final = "the agent stopped waiting for it"

_REASONS: Final[Mapping[CallEvent, CancelReason]] = {
    CallEvent.ABORTED: CancelReason.ABORTED,
    CallEvent.DEADLINE: CancelReason.TIMEOUT,
}


class Desk:
    """The calls of one thread."""

    __slots__ = (
        "_dispatch",
        "_hooks",
        "_live",
        "_on_over",
        "_space",
        "approvals",
        "calls",
        "open_calls",
    )

    def __init__(
        self, space: Space, live: Live, hooks: Collection[str], on_over: Callable[[Call], None]
    ) -> None:
        self._space = space
        self._live = live
        self._hooks = hooks
        self._on_over = on_over
        self.calls: dict[CallId, Call] = {}
        """Open ones and the newest settled ones, in the order they were made."""
        self.open_calls: dict[CallId, Call] = {}
        self.approvals = Approvals(space)
        self._dispatch = Dispatch(space)

    # ---- making calls ------------------------------------------------------------------------

    def announce(self, run: Run, wish: str | None, name: str, message: MessageId) -> Call:
        """A call's start was seen: it is proposed, under its own id or a fresh one."""
        call = Call(
            id=self._space.ids.claim_call(wish if self._usable(wish) else None),
            run_id=run.root.id,
            owner=run.owner,
            depth=run.depth,
            name=name,
            message_id=message,
            by_tool=run.by_tool,
        )
        call.over_limit = self._over_limit(run)
        self.calls[call.id] = self.open_calls[call.id] = call
        run.step.calls.append(call)
        return call

    def _over_limit(self, run: Run) -> str | None:
        policy = self._space.policy
        if len(run.step.calls) >= policy.calls_per_step:
            return f"over {policy.calls_per_step} calls in one step"
        if len(self.open_calls) >= policy.open_calls_per_run:
            return f"over {policy.open_calls_per_run} open calls in one run"
        return None

    # ---- looking -----------------------------------------------------------------------------

    def offered(self, run: Run) -> tuple[ToolSpec, ...]:
        """What the run's agent is shown now."""
        return offered(run.agent, run.starter, self._space.serving(run.starter), self._space.server)

    def find(self, call: Call) -> Found | None:
        """Who answers it now."""
        run = self._live.of(call)
        agent = None if run.invoked else run.speaker
        pages = self._space.serving(run.starter)
        return resolve(call.name, agent, run.starter, pages, self._space.server)

    def calls_of(self, run: Run) -> list[Call]:
        """All calls of this run and its sub-runs, in the order they were made."""
        return [call for call in self.calls.values() if call.run_id == run.id]

    def pump(self) -> None:
        """Dispatch every queued call whose turn has come."""
        self._dispatch.pump([call for call in self.open_calls.values() if call.ended])

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
        code, answer = self._in_size(answer)
        if code is not None:
            return code, answer
        returns = call.spec.returns if call.spec else None
        problems = returns.problems(answer.value) if returns and answer.content is None else ()
        if not problems:
            return None, answer
        return CallCode.INVALID_RESULT, Answer(
            error_message="the result does not fit the tool's schema: " + told(problems)
        )

    def _in_size(self, answer: Answer) -> tuple[CallCode | None, Answer]:
        size = len(encode(answer.value if answer.content is None else list(answer.content)))
        most = self._space.policy.result_bytes
        if size <= most:
            return None, answer
        message = f"the result has {size} bytes, over {most}"
        return CallCode.RESULT_TOO_LARGE, Answer(error_message=message)

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

    def tell_holder(self, call: Call) -> None:
        """Tell the session that it holds this call, which was given to it before a restart."""
        self._dispatch.offer(call)

    # ---- ends --------------------------------------------------------------------------------

    def refuse(self, call: Call, code: CallCode, message: str) -> None:
        """One of ours settles a call that was never carried out."""
        self.settle(call, refusal(CallEvent.REFUSED, code, message))

    def abort(self, call: Call) -> None:
        """The run was aborted: whether the call had started is told in its code."""
        stopped = refusal(CallEvent.ABORTED, _stopped(call), "the run was aborted")
        self.settle(call, stopped, at_once=True)

    def forgo(self, ticket: str) -> None:
        """The code that waited for the call has gone; a page at work on it is told to stop."""
        call = next((c for c in self.open_calls.values() if c.ticket == ticket), None)
        if call is not None:
            self.settle(call, refusal(CallEvent.ABORTED, _stopped(call), _FORGONE))

    def cut(self, call: Call, message: str) -> None:
        """The step failed before the call could be carried out."""
        cut = refusal(CallEvent.REFUSED, CallCode.TRUNCATED_TURN, message)
        self.settle(call, cut, at_once=True)

    def let_go(self, call: Call) -> None:
        """The run ends while `after_call` is at work: what it has not seen nobody is shown."""
        self._call_off(call)
        if call.settlement is not None and call.settlement.by is CallEvent.ANSWERED:
            withheld = Answer(error_message=_WITHHELD)
            call.revised = replace(call.settlement, answer=withheld, code=CallCode.ABORTED)
        self._conclude(call)

    def settle(self, call: Call, settlement: Settlement, *, at_once: bool = False) -> None:
        """The one door to the end (P2); others are told when no hook wants the result any more.

        `at_once`: the run ends in this turn, and nobody is asked.
        """
        was_out = call.out
        self._call_off(call)
        call.settle(settlement)
        call.approval = None
        del self.open_calls[call.id]
        self._space.record("call_settled", callId=call.id, outcome=settlement.outcome.value)
        if was_out:
            self._recall(call, settlement)
        self.show(call, at_once=at_once)

    def show(self, call: Call, *, at_once: bool = False) -> None:
        """It has settled: a hook sees the result first, if there is one; then everybody."""
        if "after_call" in self._hooks and not at_once:
            call.hook = "after_call"
            self._space.do(ReviseResult(call.own_run_id, call.depth, call.value()))
        else:
            self._conclude(call)

    def revised(self, call: Call, answer: Answer | None) -> None:
        """`after_call` made another answer of it, or left it."""
        if not call.awaited("after_call") or call.settlement is None:
            return
        if answer is not None:
            code = _code_of(answer)
            if code is None:
                code, answer = self._in_size(answer)
            call.revised = replace(call.settlement, answer=answer, code=code)
        self._space.record("call_revised", callId=call.id)
        self._conclude(call)

    def _recall(self, call: Call, settlement: Settlement) -> None:
        if call.holder is not None:
            self.take(call, _REASONS.get(settlement.by))
        elif settlement.by is not CallEvent.ANSWERED:
            self._space.do(StopTool(call.id))

    def _call_off(self, call: Call) -> None:
        if call.hook is not None:
            self._space.do(StopHook(call.id))
            call.hook = None

    def _conclude(self, call: Call) -> None:
        """It is over: told at once, shown in its turn."""
        if call.final is None:
            raise AssertionError(f"call {call.id} is not settled")
        tell(self._space, call, "settled", **call.final.told())
        if call.ticket is not None:
            self._space.do(GiveValue(call.ticket, call.value()))
        self._on_over(call)
        self._forget_old()

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

    def forget_open(self) -> None:
        """Drop every open call of a run that could not be ended in good order."""
        for call in list(self.open_calls.values()):
            del self.open_calls[call.id]
            self._call_off(call)
            self.take(call, CancelReason.ABORTED)

    # ---- parts -------------------------------------------------------------------------------

    def _usable(self, wish: str | None) -> bool:
        known = wish in self.calls or (wish and self._space.transcript.has_call(wish))
        return wish is not None and is_id(wish) and not known

    def _forget_old(self) -> None:
        """One whose result waits for its hook is not old: its step waits for it."""
        while len(self.calls) - len(self.open_calls) > SETTLED_KEPT:
            oldest = next((c for c in self.calls.values() if c.over), None)
            if oldest is None:
                return
            del self.calls[oldest.id]


def _stopped(call: Call) -> CallCode:
    """Which of the two a call that is aborted gets."""
    begun = call.state is CallState.STARTED or (
        call.state is CallState.DISPATCHED and call.repeatable
    )
    return CallCode.ABORTED if begun else CallCode.ABORTED_BEFORE_START


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
