"""How a run ends, or a sub-run: finished, failed or aborted, with nothing left open (P5, P6).

Owns the order in which what was begun is ended, innermost first: the agent's stream with its texts
and thoughts, the calls with their results, the sub-runs, the step. All in one turn: nobody is
waited for, and what comes later finds nothing to change. Deliberately does not know what comes
next on the thread: who is told that a run is over is the `on_over` it was given.
*Source:* behaviour.md 4, protocol.md 1.
"""

from collections.abc import Callable
from typing import Any

from handspan_protocol.errors import RunCode, StopReason
from handspan_protocol.limits import ERROR_MESSAGE_CHARS

from .call import CallState
from .desk import Desk
from .effects import GiveResult, StopHook, StopStep
from .live import Live
from .reports import (
    run_finished,
    run_started,
    show_results,
    subrun_failed,
    subrun_finished,
)
from .run import Run
from .space import Space

Json = Any

CUT = "the turn was cut off before this call was complete; it was not carried out"

_ABORTED = "the run was aborted"


class Endings:
    """Ends runs. `on_over(run, reason, code, message)` hears of a top-level run's end."""

    __slots__ = ("_desk", "_live", "_on_over", "_space", "last_run")

    def __init__(
        self,
        space: Space,
        live: Live,
        desk: Desk,
        on_over: Callable[[Run, str, str | None, str | None], None],
    ) -> None:
        self._space = space
        self._live = live
        self._desk = desk
        self._on_over = on_over
        self.last_run: dict[str, Json] | None = None
        """`snapshot.lastRun`."""

    def finish(self, run: Run, reason: StopReason) -> None:
        """It came to its end by itself."""
        self.close_step(run)
        result = run.result(reason.value)
        if run.parent is None:
            self._finished(run, {"type": "success"}, result)
        else:
            subrun_finished(self._space, run, result)
        self._over(run, reason.value)

    def abort(self, run: Run) -> None:
        """It goes no further, and whatever it began is ended."""
        self._space.record("run_aborted", runId=run.id)
        self._wind_up(run, failed=False)
        reason = StopReason.ABORTED.value
        if run.parent is None:
            self._finished(run, {"type": "cancelled"}, run.result(reason))
        else:
            subrun_failed(self._space, run, reason, _ABORTED)
        self._over(run, reason)

    def fail(self, run: Run, code: RunCode, message: str) -> None:
        """Its agent, or something around it, broke; what was visible stays."""
        self._wind_up(run, failed=True)
        told = message[:ERROR_MESSAGE_CHARS] or "the agent failed"
        if run.parent is None:
            error = {"code": code.value, "message": told}
            self._space.emit({"type": "RUN_ERROR", **error})
            self.last_run = {"runId": run.id, "error": error}
        else:
            subrun_failed(self._space, run, code.value, told)
        self._over(run, "failed", code.value, told)

    def close_step(self, run: Run) -> None:
        """The step is over: its last results, and its end."""
        show_results(self._space, run.step.calls)
        if run.step.opened:
            run.step.opened = False
            self._space.emit({"type": "STEP_FINISHED", "stepName": run.step.name}, run.owner)

    # ---- parts -------------------------------------------------------------------------------

    def _wind_up(self, run: Run, *, failed: bool) -> None:
        """End everything the run began, innermost first; nobody is asked, nobody waited for."""
        if not run.announced:
            run_started(self._space, run)
        if run.asking is not None:
            run.asking = None
            self._space.do(StopHook(run.id))
        self._silence(run)
        for call in run.step.calls:
            if call.open and failed and call.state is CallState.PROPOSED:
                self._desk.cut(call, CUT)
            elif call.open:
                self._desk.abort(call)
            elif not call.over:
                self._desk.let_go(call)
        show_results(self._space, run.step.calls)
        for sub in list(run.subs.values()):
            self.abort(sub)
        self.close_step(run)

    def _silence(self, run: Run) -> None:
        """Close the agent's stream and end what it left open."""
        if run.step.opened and not run.step.ended:
            self._space.do(StopStep(run.id, run.depth))
            if run.step.emission is not None:
                run.step.emission.close()
        run.step.ended = True

    def _finished(self, run: Run, outcome: dict[str, Json], result: Any) -> None:
        run_finished(self._space, run, outcome, result)
        self.last_run = {"runId": run.id, "outcome": outcome, "result": result}

    def _over(
        self, run: Run, reason: str, code: str | None = None, message: str | None = None
    ) -> None:
        self._live.remove(run)
        if run.parent is None:
            self._on_over(run, reason, code, message)
            return
        messages = self._space.transcript.shown_to(run.id)
        self._space.do(GiveResult(run.ticket, run.value(reason, code, message), messages))
