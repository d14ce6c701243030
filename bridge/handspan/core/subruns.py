"""Sub-runs: a step starts one and waits for its result (`run.delegate`).

Owns whether one may begin and how. Once begun it is a run like any other: it speaks, calls tools,
resumes and ends by the same rules, at its own depths, under the controller of its root.
Deliberately does not know how a step is opened: that is the `open_step` it was given.
*Source:* behaviour.md 2.
"""

from collections.abc import Callable, Collection

from handspan_protocol.errors import CommandCode, StopReason

from .effects import GiveResult, RunValue
from .inputs import DelegateSaid
from .live import Live
from .reports import subrun_started
from .run import Run, Step
from .space import Space


class Subruns:
    """Begins sub-runs; who asked always gets a result, and never an exception."""

    __slots__ = ("_agents", "_live", "_open_step", "_space")

    def __init__(
        self,
        space: Space,
        live: Live,
        agents: Collection[str],
        open_step: Callable[[Run], None],
    ) -> None:
        self._space = space
        self._live = live
        self._agents = agents
        self._open_step = open_step

    def delegate_said(self, event: DelegateSaid) -> None:
        parent = self._live.waiting(event.run_id, event.depth)
        if parent is None:
            self._refuse(event, StopReason.ABORTED.value)
            return
        problem = self._why_not(event, parent)
        if problem is not None:
            self._refuse(event, "failed", *problem)
        else:
            self._begin(event, parent)

    def _why_not(self, event: DelegateSaid, parent: Run) -> tuple[CommandCode, str] | None:
        policy = self._space.policy
        if event.agent not in self._agents:
            return CommandCode.UNKNOWN_AGENT, f"there is no agent {event.agent[:64]!r}"
        if parent.root.subs_made >= policy.subruns_per_run:
            return CommandCode.LIMIT, f"over {policy.subruns_per_run} sub-runs in one run"
        if parent.depth + 1 > policy.max_depth:
            return CommandCode.LIMIT, f"a sub-run would be deeper than {policy.max_depth}"
        return None

    def _refuse(
        self,
        event: DelegateSaid,
        reason: str,
        code: CommandCode | None = None,
        message: str | None = None,
    ) -> None:
        value = RunValue(
            run_id=event.sub_id, reason=reason, depth=event.depth, code=code, message=message
        )
        self._space.do(GiveResult(event.ticket, value, ()))

    def _begin(self, event: DelegateSaid, parent: Run) -> None:
        assert parent.step.emission is not None  # of `waiting`
        parent.step.emission.end_texts()
        root = parent.root
        root.subs_made += 1
        root.step.delegated = True
        sub = Run(
            id=event.sub_id,
            request=root.request,
            agent=event.agent,
            principal=root.principal,
            parent=parent,
            ticket=event.ticket,
            by_tool=event.by_tool or parent.by_tool,
            context=root.context,
            context_began=root.context_began,
            forwarded_props=root.forwarded_props,
            step=Step(depth=parent.depth + 1),
        )
        self._live.add(sub)
        self._space.record("subrun_started", runId=sub.id)
        subrun_started(self._space, sub, event.text)
        self._open_step(sub)
