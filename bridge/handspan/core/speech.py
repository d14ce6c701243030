"""What the agents of a thread say: each word to the step it belongs to, or to nobody.

Owns the meaning of an agent's items while its step is under way, and the bound of what a run may
say. What comes when the step is over says nothing (P5), except that a tool of the step which is
still at work may call others and change the state. Deliberately decides nothing of how a run goes
on; `emission` makes what is said a valid sequence. *Source:* behaviour.md 2, protocol.md 1.
"""

from collections.abc import Collection
from typing import Any

from handspan_protocol.errors import CallCode, PeerError, RunCode, UsageError, outcome_of
from handspan_protocol.ids import CallId

from . import inputs as i
from .call import CallState
from .desk import Desk
from .effects import CallValue, GiveValue
from .emission import Misplaced
from .endings import CUT, Endings
from .follow_up import is_whole
from .live import Live
from .proposals import Proposals
from .run import Run
from .sink import change_state
from .space import Space

Json = Any

_TOO_MUCH = "the run said more than it may"


class Speech:
    """The ears of a thread."""

    __slots__ = ("_agents", "_desk", "_endings", "_live", "_proposals", "_space")

    def __init__(
        self,
        space: Space,
        live: Live,
        *,
        desk: Desk,
        proposals: Proposals,
        endings: Endings,
        agents: Collection[str],
    ) -> None:
        self._space = space
        self._live = live
        self._desk = desk
        self._proposals = proposals
        self._endings = endings
        self._agents = agents

    # ---- words -------------------------------------------------------------------------------

    def text_said(self, event: i.TextSaid) -> None:
        run = self._live.speaking(event.run_id, event.depth)
        if run is not None and run.step.emission is not None:
            most, root = self._space.policy.output_bytes, run.root
            for delta in event.deltas:
                if root.said_chars + len(delta) > most:
                    self._endings.fail(root, RunCode.OUTPUT_LIMIT, _TOO_MUCH)
                    break
                run.step.emission.text(delta)

    def reasoning_said(self, event: i.ReasoningSaid) -> None:
        run = self._live.speaking(event.run_id, event.depth)
        if run is not None and run.step.emission is not None:
            run.step.emission.reasoning(event.text)
            self._check_output(run)

    def event_said(self, event: i.EventSaid) -> None:
        of_a_tool = event.event.get("type") == "CUSTOM"
        find = self._live.waiting if of_a_tool else self._live.speaking
        run = find(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            return
        try:
            run.step.emission.event(event.event)
        except (Misplaced, UsageError, PeerError) as problem:
            self._endings.fail(run, RunCode.AGENT_ERROR, str(problem))
        else:
            self._check_output(run)

    def state_said(self, event: i.StateSaid) -> None:
        run = self._live.waiting(event.run_id, event.depth)
        if run is None:
            return
        try:
            change_state(self._space, event.patch, event.state, run.owner)
        except (UsageError, PeerError) as problem:
            self._endings.fail(run, RunCode.AGENT_ERROR, str(problem))

    def usage_said(self, event: i.UsageSaid) -> None:
        run = self._live.speaking(event.run_id, event.depth)
        if run is not None:
            run.root.count_usage(event.usage)

    # ---- moves -------------------------------------------------------------------------------

    def call_said(self, event: i.CallSaid) -> None:
        """A whole call; with a ticket it is carried out now, and its value always comes."""
        find = self._live.speaking if event.ticket is None else self._live.waiting
        run = find(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            if event.ticket is not None:
                self._space.do(GiveValue(event.ticket, _too_late(event)))
            return
        call = self._desk.calls[run.step.emission.call(event.wish, event.name, event.raw)]
        if event.ticket is not None:
            call.ticket, call.by_tool = event.ticket, event.by_tool or call.by_tool
            self._proposals.propose(call)
        self._check_output(run)

    def handoff_said(self, event: i.HandoffSaid) -> None:
        """The first one of a step counts."""
        run = self._live.speaking(event.run_id, event.depth)
        if run is None or run.step.handoff is not None:
            return
        if event.agent in self._agents:
            run.step.handoff = event.agent
        else:
            message = f"no agent {event.agent[:64]!r} to hand over to"
            self._endings.fail(run, RunCode.AGENT_ERROR, message)

    def step_shaped(self, event: i.StepShaped) -> None:
        """Hooks chose who speaks in this step, and which tools it may not call."""
        run = self._live.speaking(event.run_id, event.depth)
        if run is not None:
            run.step.agent, run.step.withheld = event.agent, event.withheld

    # ---- ends --------------------------------------------------------------------------------

    def step_ended(self, event: i.StepEnded) -> None:
        run = self._live.speaking(event.run_id, event.depth)
        if run is None or run.step.emission is None:
            return
        run.step.emission.close()
        if event.has_output:
            run.output, run.has_output = event.output, True
        self.end_step(run, event.finish_reason)

    def end_step(self, run: Run, finish_reason: str | None) -> None:
        """Nothing more is said; what was called and waited for the end is carried out now."""
        run.step.ended, run.step.finish_reason = True, finish_reason
        self._space.record("step_ended", runId=run.root.id, depth=run.depth)
        for call in run.step.calls:
            if call.state is not CallState.PROPOSED or call.hook is not None:
                continue
            if not is_whole(finish_reason):
                self._desk.refuse(call, CallCode.TRUNCATED_TURN, CUT)
            elif run.reflecting:
                self._desk.refuse(call, CallCode.LIMIT, "the run is at its depth limit")
            else:
                self._proposals.propose(call)

    def step_failed(self, event: i.StepFailed) -> None:
        run = self._live.speaking(event.run_id, event.depth)
        if run is not None:
            self._endings.fail(run, RunCode(event.code), event.message)

    # ---- parts -------------------------------------------------------------------------------

    def _check_output(self, run: Run) -> None:
        """What a run says is bounded with all its sub-runs; a run that a word ended is over."""
        root = run.root
        over = root.said_chars > self._space.policy.output_bytes
        if over and self._live.root is root:
            self._endings.fail(root, RunCode.OUTPUT_LIMIT, _TOO_MUCH)


def _too_late(event: i.CallSaid) -> CallValue:
    code = CallCode.ABORTED_BEFORE_START
    return CallValue(
        call_id=CallId(""),
        name=event.name,
        outcome=outcome_of(code).value,
        code=code,
        message="the step is over; it was not carried out",
    )
