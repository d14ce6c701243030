"""The runs of one thread: the one under way, and those that wait for it.

Owns how a run begins and goes from step to step. `speech` hears what its agents say, `subruns`
begins what its steps delegate, `proposals` and `desk` see its calls through, `follow_up` says
whether to go on, and `endings` ends it. Deliberately does not know pages' commands; above sits
`thread`.

Resuming at depth n+1 is a new Step of the same Run: a loop, whose events cost the same at every
depth. A step has settled when it has ended and nothing of it is open, no call and no sub-run: count
decides, never time. *Source:* behaviour.md 2 and 4.
"""

from collections import deque
from dataclasses import replace
from typing import Literal, assert_never

from handspan_protocol.errors import CommandCode, PeerError, RunCode, StopReason
from handspan_protocol.ids import RunId

from . import inputs as i
from . import session_inputs as s
from .admission import Request, Roster, why_not
from .call import Call
from .desk import Desk
from .effects import (
    JudgeRun,
    JudgeStops,
    ReviewStep,
    RunOver,
    RunValue,
    StartStep,
    StopStep,
)
from .emission import Emission
from .endings import Endings
from .follow_up import Continue, Judge, Stop, should_continue
from .live import Live
from .proposals import Proposals
from .reports import invoke_result, run_started, say_as_user, show_results
from .run import Asking, Run, Step
from .sink import StepSink
from .space import Space
from .speech import Speech
from .subruns import Subruns
from .suggesting import Suggesting

Change = Literal[1, 0, -1]

_BROKE = "something broke in the server"


class Runs:
    """One run at a time, and a queue behind it."""

    def __init__(self, space: Space, roster: Roster) -> None:
        self.space = space
        self.live = Live()
        self.desk = Desk(space, self.live, roster.hooks, self._call_over)
        self.proposals = Proposals(space, self.live, self.desk, roster.hooks)
        self.endings = Endings(space, self.live, self.desk, self._over)
        self.speech = Speech(
            space,
            self.live,
            desk=self.desk,
            proposals=self.proposals,
            endings=self.endings,
            agents=roster.agents,
        )
        self.subruns = Subruns(space, self.live, roster.agents, self.start_step)
        self.suggesting = Suggesting(space, roster.hooks)
        self.queue: deque[Request] = deque()
        self.unheard: set[RunId] = set()  # that wait, and could not be kept over a restart
        self._roster = roster

    @property
    def run(self) -> Run | None:
        """The top-level run under way."""
        return self.live.root

    # ---- requests ----------------------------------------------------------------------------

    def requested(self, event: Request) -> None:
        problem = self._why_not_now(event)
        if problem is not None:
            self.space.reply(event.asker, error=problem)
            return
        run_id = event.run_id or RunId(self.space.ids.new("run"))
        request = replace(event, run_id=run_id)
        self.live.used.add(run_id)
        waits = self.run is not None
        self.count(request, running=0 if waits else 1, queued=1 if waits else 0)
        if waits:
            self.space.record("run_queued", runId=run_id)
        self._tell_accepted(request, queued=waits)
        if self.run is None:
            self._begin(request)
        elif request.if_busy == "replace":
            self.queue.appendleft(request)
            self.endings.abort(self.run)
        else:
            self.queue.append(request)

    def _why_not_now(self, request: Request) -> PeerError | None:
        if request.run_id in self.live.used:
            return PeerError(CommandCode.DUPLICATE_ID, "this run id was used before in the thread")
        if self.run is not None and request.if_busy == "reject":
            return PeerError(CommandCode.BUSY, "a run is under way on this thread")
        return why_not(request, self.space, self._roster)

    def _tell_accepted(self, request: Request, *, queued: bool) -> None:
        if isinstance(request, i.RunRequested):
            more = {"queued": True} if queued else {}
            self.space.reply(request.asker, {"runId": request.run_id, **more})

    def count(self, request: Request, *, running: Change, queued: Change) -> None:
        if request.asker.session is not None:
            self.space.tell(request.asker.session, s.RunCounted(self.space.key, running, queued))

    # ---- beginning ---------------------------------------------------------------------------

    def _new_run(self, request: Request) -> Run:
        """The thread is this run's."""
        assert request.run_id is not None  # given in `requested`
        self.suggesting.stop()
        run = Run(id=request.run_id, request=request, agent="default", principal=request.principal)
        self.live.add(run)
        self.space.record("run_started", runId=run.id)
        return run

    def _begin(self, request: Request, restarts: int = 0) -> None:
        run = self._new_run(request)
        run.restarts = restarts
        if "before_run" in self._roster.hooks:
            run.asking = "before_run"
            self.space.do(JudgeRun(run.id, request))
        else:
            self._open(run)

    def begin_again(self, run: Run) -> None:
        """A run that nobody has seen yet begins once more, after a restart."""
        self.live.remove(run)
        self._begin(run.request, run.restarts)

    def run_judged(self, event: i.RunJudged) -> None:
        """`before_run` let it begin, perhaps changed; or it is over before its first step."""
        run = self._asked(event.run_id, "before_run")
        if run is None:
            return
        if event.request is None:
            code = RunCode(event.code or RunCode.AGENT_ERROR)
            self.endings.fail(run, code, event.message or "")
            return
        run.request = event.request
        problem = why_not(event.request, self.space, self._roster)
        if problem is None:
            self._open(run)
        else:
            self.endings.fail(run, RunCode.AGENT_ERROR, problem.message)

    def _open(self, run: Run) -> None:
        request = run.request
        self.space.record("run_opened", runId=run.id)
        if isinstance(request, i.RunRequested):
            run.agent = request.agent or "default"
            run.context, run.forwarded_props = request.context, request.forwarded_props
            run.context_began = self.space.context_of(run.starter, (), ())
            run_started(self.space, run, request.message, request.after)
            run.since = self.space.transcript.last_id
            self.start_step(run)
        else:
            run_started(self.space, run)
            run.since = self.space.transcript.last_id
            self._open_step(run).call(None, request.name, request.raw)
            self.speech.end_step(run, None)

    def state_changed(self) -> None:
        """A page changed the state; between runs that is said again when the next one starts."""
        self.space.state_changed_between = self.run is None or not self.run.announced

    # ---- steps -------------------------------------------------------------------------------

    def hear_step(self, run: Run) -> Emission:
        """From now on the step is heard."""
        run.step.opened = True
        run.step.emission = Emission(StepSink(self.space, self.desk, run))
        return run.step.emission

    def _open_step(self, run: Run) -> Emission:
        run.step.base = self.space.transcript.last_id
        emission = self.hear_step(run)
        self.space.emit({"type": "STEP_STARTED", "stepName": run.step.name}, run.owner)
        return emission

    def start_step(self, run: Run) -> None:
        """Invoke the run's agent."""
        self._open_step(run)
        self.space.do(
            StartStep(
                run_id=run.id,
                depth=run.depth,
                agent=run.agent,
                tools=() if run.reflecting else self.desk.offered(run),
                context=self.space.context_of(run.starter, run.context, run.context_began),
                messages=self.space.transcript.shown_to(run.owner),
                state=self.space.transcript.state,
                results=run.results,
                forwarded_props=run.forwarded_props,
                principal=run.principal,
                parent=run.parent.id if run.parent else None,
            )
        )

    # ---- going on ----------------------------------------------------------------------------

    def move_on(self) -> None:
        """After every input: dispatch what can go, and decide where a step has settled."""
        if self.desk.open_calls:
            self.desk.pump()
        moved = True
        while moved:
            moved = False
            for run in self.live:
                if run.step.ended and self._settled(run):
                    moved = self._go_on(run) or moved

    def _settled(self, run: Run) -> bool:
        return not (run.asking or run.subs or run.step.open_calls)

    def _go_on(self, run: Run) -> bool:
        """Whether something came of it but a question."""
        if not run.step.counted:
            run.count_round()
        if "after_step" in self._roster.hooks and not run.step.reviewed:
            run.asking = "after_step"
            self.space.do(
                ReviewStep(
                    run_id=run.id,
                    depth=run.depth,
                    calls=run.results,
                    finish_reason=run.step.finish_reason,
                )
            )
            return False
        self._follow_up(run, None)
        if self.desk.open_calls:
            self.desk.pump()
        return run.asking is None

    def step_reviewed(self, event: i.StepReviewed) -> None:
        run = self._asked(event.run_id, "after_step", event.depth)
        if run is not None:
            run.step.reviewed = True

    def stops_judged(self, event: i.StopsJudged) -> None:
        run = self._asked(event.run_id, "stop_when", event.depth)
        if run is not None:
            self._follow_up(run, event.stop)

    def _asked(self, run_id: RunId, what: Asking, depth: int = 0) -> Run | None:
        """The run that waits for this answer; it waits no more."""
        run = self.live.get(run_id)
        if run is None or run.asking != what or run.depth != depth:
            return None
        run.asking = None
        return run

    def _follow_up(self, run: Run, stop_condition: bool | None) -> None:
        match should_continue(run.facts(stop_condition), self.space.policy):
            case Judge():
                run.asking = "stop_when"
                self.space.do(JudgeStops(run.id, run.depth, tuple(run.rounds)))
            case Continue():
                self._next_step(run)
            case Stop(reason):
                self._stop(run, StopReason.MAX_DEPTH if run.reflecting else reason)
            case never:
                assert_never(never)

    def _stop(self, run: Run, reason: StopReason) -> None:
        reflects = self.space.policy.reflect == "at_limit" and not run.reflecting
        if reason is StopReason.MAX_DEPTH and reflects:
            run.reflecting = True
            self._next_step(run)
        else:
            self.endings.finish(run, reason)

    def _next_step(self, run: Run) -> None:
        self.endings.close_step(run)
        if run.invoked and isinstance(run.follow_up, str) and run.follow_up:
            say_as_user(self.space, run.follow_up)
        run.agent = run.step.handoff or run.agent
        run.step, run.restarts = Step(depth=run.depth + 1), 0
        self.start_step(run)

    # ---- ends --------------------------------------------------------------------------------

    def abort_requested(self, event: i.AbortRequested) -> None:
        run = self.run if event.run_id is None else self.live.get(event.run_id)
        if run is not None:
            self.endings.abort(run)
            self.space.reply(event.asker, {"aborted": True})
            return
        queued = [r for r in self.queue if r.run_id == event.run_id]
        for request in queued:
            self.queue.remove(request)
            self._drop_queued(request)
        self.space.reply(event.asker, {"aborted": bool(queued)})

    def has(self, run_id: RunId) -> bool:
        """Whether this run, or sub-run, is under way or waiting here."""
        return self.live.get(run_id) is not None or any(r.run_id == run_id for r in self.queue)

    def end_all(self) -> None:
        """Abort what is under way and what waits behind it."""
        while self.queue:
            self._drop_queued(self.queue.popleft())
        if self.run is not None:
            self.endings.abort(self.run)
        self.suggesting.stop()

    def give_up(self) -> None:
        """Something broke: end the run as a failed one, and, where even that fails, drop it."""
        run = self.run
        if run is None:
            return
        try:
            self.endings.fail(run, RunCode.INTERNAL, _BROKE)
            self.move_on()
        except Exception:
            self._drop(run)

    def _drop(self, run: Run) -> None:
        for one in self.live:
            self.space.do(StopStep(one.id, one.depth))
        self.live.clear()
        self.desk.forget_open()
        self.space.do(RunOver(run.asker, run.value("failed", RunCode.INTERNAL, _BROKE)))
        self.count(run.request, running=-1, queued=0)

    def _over(self, run: Run, reason: str, code: str | None, message: str | None) -> None:
        """A top-level run has ended; the thread is the next one's."""
        self.space.record("run_ended", runId=run.id, reason=reason)
        value = run.value(reason, code, message)
        self.space.do(RunOver(run.asker, value))
        self.count(run.request, running=-1, queued=0)
        if isinstance(run.request, i.InvokeRequested) and not run.replied:
            self.space.reply(run.asker, error=_never_began(code))
        if self.queue:
            self.next_request()
        elif reason == StopReason.COMPLETED.value:
            self.suggesting.begin(value)

    def _drop_queued(self, request: Request) -> None:
        assert request.run_id is not None  # given in `requested`
        self.space.record("run_dropped", runId=request.run_id)
        self.count(request, running=0, queued=-1)
        if isinstance(request, i.InvokeRequested):
            self.space.reply(request.asker, error=_never_began(None))
        value = RunValue(run_id=request.run_id, reason=StopReason.ABORTED.value, depth=0)
        self.space.do(RunOver(request.asker, value))

    def next_request(self) -> None:
        """The queue's head takes the thread; what can no longer start fails at once."""
        while self.run is None and self.queue:
            request = self.queue.popleft()
            problem = why_not(request, self.space, self._roster)
            if request.run_id in self.unheard:
                problem = PeerError(CommandCode.INTERNAL, "the server was restarted")
            self.count(request, running=1, queued=-1)
            if problem is None:
                self._begin(request)
            else:
                self._begin_in_vain(request, problem)

    def _begin_in_vain(self, request: Request, problem: PeerError) -> None:
        """It was accepted, and can no longer be carried out: everybody sees that it failed."""
        run = self._new_run(request)
        fits = problem.code is not CommandCode.TOO_LARGE
        if isinstance(request, i.RunRequested):
            run_started(self.space, run, request.message if fits else None)
        else:
            run.replied = True
            self.space.reply(request.asker, error=problem)
        self.endings.fail(run, RunCode.AGENT_ERROR, problem.message)

    # ---- parts -------------------------------------------------------------------------------

    def _call_over(self, call: Call) -> None:
        run = self.live.of(call)
        show_results(self.space, run.step.calls)
        if run.invoked and call is run.step.calls[0]:
            run.replied = True
            self.space.reply(run.asker, invoke_result(call))


def _never_began(code: str | None) -> PeerError:
    """The answer to a `tool.invoke` whose call was never made."""
    if code in (None, RunCode.DENIED.value):
        return PeerError(CommandCode.DENIED, "the run was over before it began")
    return PeerError(CommandCode.INTERNAL, "this could not be done")
