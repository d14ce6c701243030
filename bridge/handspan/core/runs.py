"""The runs of one thread: the one under way, and those that wait for it.

Owns how a run begins, goes from step to step, and ends, in whatever way, with nothing left open.
`desk` sees its calls through, `emission` makes what its agent says a valid sequence, `follow_up`
says whether to go on. Deliberately does not know pages' commands; above sits `thread`.

Resuming at depth n+1 is a new Step of the same Run: a loop, whose events cost the same at every
depth. *Source:* behaviour.md 2 and 4.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from handspan_protocol.errors import (
    CallCode,
    CommandCode,
    PeerError,
    RunCode,
    StopReason,
    UsageError,
)
from handspan_protocol.ids import RunId

from . import inputs as i
from . import session_inputs as s
from .admission import Request, Roster, why_not
from .call import Call, CallState
from .desk import Desk
from .effects import JudgeStops, RunOver, RunValue, StartStep, StopStep
from .emission import Emission, Misplaced
from .follow_up import Continue, Judge, Stop, is_whole, should_continue
from .reports import invoke_result, run_finished, run_started, say_as_user, show_results
from .run import Run, Step
from .sink import StepSink, change_state
from .space import Space

Json = Any
Change = Literal[1, 0, -1]

_BROKE = "something broke in the server"
_CUT = "the turn was cut off before this call was complete; it was not carried out"


class Runs:
    """One run at a time, and a queue behind it."""

    def __init__(self, space: Space, roster: Roster) -> None:
        self.space = space
        self.desk = Desk(space, self._call_settled)
        self.run: Run | None = None
        self.last_run: dict[str, Json] | None = None
        """`snapshot.lastRun`."""
        self.queue: deque[Request] = deque()
        self._roster = roster
        self._used: set[str] = set()
        self._state_changed_between = False

    # ---- starting ----------------------------------------------------------------------------

    def requested(self, event: Request) -> None:
        problem = self._why_not_now(event)
        if problem is not None:
            self.space.reply(event.asker, error=problem)
            return
        request = replace(event, run_id=event.run_id or RunId(self.space.ids.new("run")))
        self._used.add(str(request.run_id))
        waits = self.run is not None
        self._count(request, running=0 if waits else 1, queued=1 if waits else 0)
        self._tell_accepted(request, queued=waits)
        if self.run is None:
            self._begin(request)
        elif request.if_busy == "replace":
            self.queue.appendleft(request)
            self.abort(self.run)
        else:
            self.queue.append(request)

    def _why_not_now(self, request: Request) -> PeerError | None:
        if request.run_id in self._used:
            return PeerError(CommandCode.DUPLICATE_ID, "this run id was used before in the thread")
        if self.run is not None and request.if_busy == "reject":
            return PeerError(CommandCode.BUSY, "a run is under way on this thread")
        return why_not(request, self.space, self._roster)

    def _tell_accepted(self, request: Request, *, queued: bool) -> None:
        if isinstance(request, i.RunRequested):
            more = {"queued": True} if queued else {}
            self.space.reply(request.asker, {"runId": request.run_id, **more})

    def _count(self, request: Request, *, running: Change, queued: Change) -> None:
        if request.asker.session is not None:
            self.space.tell(request.asker.session, s.RunCounted(self.space.key, running, queued))

    def _begin(self, request: Request) -> None:
        assert request.run_id is not None  # given in `_requested`
        run_id, principal = request.run_id, request.principal
        self.run = run = Run(id=run_id, request=request, agent="default", principal=principal)
        self.space.record("run_started", runId=run.id)
        if isinstance(request, i.RunRequested):
            run.agent = request.agent or "default"
            run.context, run.forwarded_props = request.context, request.forwarded_props
            run.context_began = self.space.context_of(run.starter, (), ())
            self._announce(run, request.message, request.after)
            self._start_step(run)
        else:
            self._announce(run, None, None)
            self._start_invoked(run, request)

    def _announce(self, run: Run, message: Mapping[str, Json] | None, after: str | None) -> None:
        run_started(self.space, run, message, after)
        if self._state_changed_between:
            self._state_changed_between = False
            state = self.space.transcript.state
            self.space.emit({"type": "STATE_SNAPSHOT", "snapshot": state})

    def state_changed(self) -> None:
        """A page changed the state; between runs that is said again when the next one starts."""
        self._state_changed_between = self.run is None

    # ---- steps -------------------------------------------------------------------------------

    def _start_step(self, run: Run) -> None:
        step = run.step
        step.emission = Emission(StepSink(self.space, self.desk, run))
        self.space.emit({"type": "STEP_STARTED", "stepName": step.name})
        self.space.do(
            StartStep(
                run_id=run.id,
                depth=step.depth,
                agent=run.agent,
                tools=() if run.reflecting else self.desk.offered(run),
                context=self.space.context_of(run.starter, run.context, run.context_began),
                messages=self.space.transcript.view(),
                state=self.space.transcript.state,
                results=run.results,
                forwarded_props=run.forwarded_props,
                principal=run.principal,
            )
        )

    def _start_invoked(self, run: Run, request: i.InvokeRequested) -> None:
        step = run.step
        self.space.emit({"type": "STEP_STARTED", "stepName": step.name})
        Emission(StepSink(self.space, self.desk, run)).call(None, request.name, request.raw)
        self._end_step(run, None)

    def _speaking(self, run_id: RunId, depth: int) -> Run | None:
        """The run whose step is still being spoken; None: what it says comes too late."""
        run = self.run
        if run is None or run.id != run_id or run.depth != depth or run.step.ended:
            return None
        return run

    def text_said(self, event: i.TextSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is not None and run.step.emission is not None:
            for delta in event.deltas:
                run.step.emission.text(delta)
                if run.said_chars > self.space.policy.output_bytes:
                    self._check_output(run)
                    break

    def reasoning_said(self, event: i.ReasoningSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is not None and run.step.emission is not None:
            run.step.emission.reasoning(event.text)
            self._check_output(run)

    def event_said(self, event: i.EventSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            return
        try:
            run.step.emission.event(event.event)
        except (Misplaced, UsageError, PeerError) as problem:
            self._fail(run, RunCode.AGENT_ERROR, str(problem))
        else:
            self._check_output(run)

    def call_said(self, event: i.CallSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            return
        call_id = run.step.emission.call(event.wish, event.name, event.raw)
        if event.ticket is not None:
            call = self.desk.calls[call_id]
            call.ticket = event.ticket
            self.desk.propose(run, call)
        self._check_output(run)

    def handoff_said(self, event: i.HandoffSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is None or run.step.handoff is not None:
            return
        if event.agent in self._roster.agents:
            run.step.handoff = event.agent
        else:
            self._fail(run, RunCode.AGENT_ERROR, f"no agent {event.agent[:64]!r} to hand over to")

    def state_said(self, event: i.StateSaid) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is None:
            return
        try:
            change_state(self.space, event.patch, event.state)
        except (UsageError, PeerError) as problem:
            self._fail(run, RunCode.AGENT_ERROR, str(problem))

    def step_ended(self, event: i.StepEnded) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            return
        run.step.emission.close()
        if event.has_output:
            run.output, run.has_output = event.output, True
        self._end_step(run, event.finish_reason)

    def _end_step(self, run: Run, finish_reason: str | None) -> None:
        run.step.ended, run.step.finish_reason = True, finish_reason
        for call in run.step.calls:
            if call.state is not CallState.PROPOSED:
                continue
            if not is_whole(finish_reason):
                self.desk.refuse(call, CallCode.TRUNCATED_TURN, _CUT)
            elif run.reflecting:
                self.desk.refuse(call, CallCode.LIMIT, "the run is at its depth limit")
            else:
                self.desk.propose(run, call)

    def step_failed(self, event: i.StepFailed) -> None:
        run = self._speaking(event.run_id, event.depth)
        if run is not None:
            self._fail(run, RunCode(event.code), event.message)

    def stops_judged(self, event: i.StopsJudged) -> None:
        run = self.run
        asked = run is not None and run.judging and run.id == event.run_id
        if run is not None and asked and run.depth == event.depth:
            self._follow_up(run, event.stop)

    # ---- going on ----------------------------------------------------------------------------

    def move_on(self) -> None:
        """After every input: dispatch what can go, and decide when a step has settled."""
        while self.run is not None:
            run = self.run
            if self.desk.open_calls:
                self.desk.pump(run)
            if not run.step.ended or run.step.open_calls or run.judging:
                return
            run.count_round()
            self._follow_up(run, None)
            if run.judging:
                return

    def _follow_up(self, run: Run, stop_condition: bool | None) -> None:
        verdict = should_continue(run.facts(stop_condition), self.space.policy)
        run.judging = isinstance(verdict, Judge)
        match verdict:
            case Judge():
                self.space.do(JudgeStops(run.id, run.depth, tuple(run.rounds)))
            case Continue():
                self._next_step(run)
            case Stop(reason):
                self._stop(run, StopReason.MAX_DEPTH if run.reflecting else reason)

    def _stop(self, run: Run, reason: StopReason) -> None:
        reflects = self.space.policy.reflect == "at_limit" and not run.reflecting
        if reason is StopReason.MAX_DEPTH and reflects:
            run.reflecting = True
            self._next_step(run)
        else:
            self._finish(run, {"type": "success"}, reason)

    def _next_step(self, run: Run) -> None:
        self._close_step(run)
        if run.invoked and isinstance(run.follow_up, str) and run.follow_up:
            say_as_user(self.space, run.follow_up)
        run.agent = run.step.handoff or run.agent
        run.step = Step(depth=run.depth + 1)
        self._start_step(run)

    # ---- ends --------------------------------------------------------------------------------

    def abort_requested(self, event: i.AbortRequested) -> None:
        if self.run is not None and event.run_id in (None, self.run.id):
            self.abort(self.run)
            self.space.reply(event.asker, {"aborted": True})
            return
        queued = [r for r in self.queue if r.run_id == event.run_id]
        for request in queued:
            self.queue.remove(request)
            self._drop_queued(request)
        self.space.reply(event.asker, {"aborted": bool(queued)})

    def end_all(self) -> None:
        """Abort what is under way and what waits behind it."""
        while self.queue:
            self._drop_queued(self.queue.popleft())
        if self.run is not None:
            self.abort(self.run)

    def _drop_queued(self, request: Request) -> None:
        assert request.run_id is not None  # given in `_requested`
        self._count(request, running=0, queued=-1)
        if isinstance(request, i.InvokeRequested):
            denied = PeerError(CommandCode.DENIED, "the run was aborted before it began")
            self.space.reply(request.asker, error=denied)
        value = RunValue(run_id=request.run_id, reason=StopReason.ABORTED.value, depth=0)
        self.space.do(RunOver(request.asker, value))

    def abort(self, run: Run) -> None:
        """All in one turn: nothing of the run is left open, nobody is waited for (P5)."""
        self.space.record("run_aborted", runId=run.id)
        self._silence(run)
        for call in list(self.desk.open_calls.values()):
            self.desk.abort(call)
        self._finish(run, {"type": "cancelled"}, StopReason.ABORTED)

    def _fail(self, run: Run, code: RunCode, message: str) -> None:
        half = [call for call in run.step.calls if not call.ended]
        self._silence(run)
        for call in list(self.desk.open_calls.values()):
            if call in half or call.state is CallState.PROPOSED:
                self.desk.refuse(call, CallCode.TRUNCATED_TURN, _CUT)
            else:
                self.desk.abort(call)
        self._close_step(run)
        error = {"code": code.value, "message": message[:2_000] or "the agent failed"}
        self.space.emit({"type": "RUN_ERROR", **error})
        self.last_run = {"runId": run.id, "error": error}
        self._over(run, "failed", code.value, error["message"])

    def give_up(self) -> None:
        """Something broke: end the run as a failed one, and, where even that fails, drop it."""
        run = self.run
        if run is None:
            return
        try:
            self._fail(run, RunCode.INTERNAL, _BROKE)
            self.move_on()
        except Exception:
            self.run = None
            self.desk.forget(run)
            self.space.do(StopStep(run.id, run.depth))
            self.space.do(RunOver(run.asker, run.value("failed", RunCode.INTERNAL, _BROKE)))
            self._count(run.request, running=-1, queued=0)

    def _silence(self, run: Run) -> None:
        """Close the agent's stream and end what it left open."""
        if not run.step.ended:
            self.space.do(StopStep(run.id, run.depth))
            run.step.ended = True
            if run.step.emission is not None:
                run.step.emission.close()

    def _close_step(self, run: Run) -> None:
        show_results(self.space, run.step.calls)
        self.space.emit({"type": "STEP_FINISHED", "stepName": run.step.name})

    def _finish(self, run: Run, outcome: dict[str, Json], reason: StopReason) -> None:
        self._close_step(run)
        result = run.result(reason.value)
        run_finished(self.space, run, outcome, result)
        self.last_run = {"runId": run.id, "outcome": outcome, "result": result}
        self._over(run, reason.value, None, None)

    def _over(self, run: Run, reason: str, code: str | None, message: str | None) -> None:
        self.space.record("run_ended", runId=run.id, reason=reason)
        self.space.do(RunOver(run.asker, run.value(reason, code, message)))
        self._count(run.request, running=-1, queued=0)
        self.run = None
        self._next_request()

    def _next_request(self) -> None:
        """The queue's head takes the thread; what can no longer start is answered and skipped."""
        while self.run is None and self.queue:
            request = self.queue.popleft()
            problem = why_not(request, self.space, self._roster)
            if problem is None:
                self._count(request, running=1, queued=-1)
                self._begin(request)
            else:
                self._drop_queued(request)

    # ---- parts -------------------------------------------------------------------------------

    def _call_settled(self, call: Call) -> None:
        run = self.run
        if run is None or call.run_id != run.id:
            return
        show_results(self.space, run.step.calls)
        if run.invoked and isinstance(run.request, i.InvokeRequested):
            self.space.reply(run.asker, invoke_result(call))

    def _check_output(self, run: Run) -> None:
        if self.run is run and run.said_chars > self.space.policy.output_bytes:
            self._fail(run, RunCode.OUTPUT_LIMIT, "the run said more than it may")
