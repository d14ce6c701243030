"""Agents and server tools at work: what the core ordered, done as tasks.

Owns the tasks (a `Crew`), the Run each step is given, and the way its outcome comes home as an
input of its thread. Ids of runs and calls are fresh in their thread only, so whatever is at work
here is named with its thread (P8). Deliberately knows no page and no socket. Above sits `driver`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.arguments import ToolSpec
from handspan.core.parties import ANONYMOUS, ThreadKey
from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan.ports import Clock
from handspan_protocol.errors import RunCode
from handspan_protocol.ids import CallId, RunId

from .crew import Crew
from .hooks import Hooks, Waterfall
from .ids import Ids
from .run import Run, for_tool
from .shaping import shape
from .socket import where
from .steps import invoke, speak
from .tick import Tick
from .tools import ServerTool, run_tool
from .waiters import Waiters

Json = Any
_LOG = logging.getLogger("handspan.workers")


class Home(Protocol):
    """Where outcomes go: the driver."""

    loop: asyncio.AbstractEventLoop
    tick: Tick
    ids: Ids
    waiters: Waiters

    def tell_thread(self, key: ThreadKey, message: i.ThreadInput) -> None: ...


class Workers:
    """Everything that runs beside the loop of inputs and effects."""

    def __init__(
        self,
        home: Home,
        *,
        policy: Policy,
        clock: Clock,
        agents: Mapping[str, Any],
        tools: Mapping[str, ServerTool],
        hooks: Hooks,
    ) -> None:
        self.crew = Crew(clock, policy.cleanup_grace)
        self.waterfall = Waterfall(hooks, self.crew, clock, policy.hook_timeout)
        self._home = home
        self._agents = agents
        self._tools = tools
        self._runs: dict[tuple[ThreadKey, RunId, int], Run] = {}
        """The Run of each step that is being spoken."""
        self._newest: dict[tuple[ThreadKey, RunId], Run] = {}
        """Of each run under way, and each sub-run, the Run of its newest step."""
        self._lent: dict[tuple[ThreadKey, CallId], Run] = {}
        """The Run of each server tool at work."""

    def start_step(self, thread: Thread, effect: e.StartStep) -> None:
        """Invoke the agent."""
        key, run = thread.space.key, self._run(thread, effect)
        name = (key, effect.run_id, effect.depth)
        self._runs[name] = self._newest[key, effect.run_id] = run
        self.crew.start(("step", *name), self._speak(key, effect, run))

    async def _speak(self, key: ThreadKey, effect: e.StartStep, run: Run) -> None:
        try:
            ended: i.ThreadInput = await speak(partial(self._begin, key, effect), run)
        except Exception as error:  # a step always ends
            _LOG.error("a step could not be ended: %s", where(error))
            message = "the agent failed"
            ended = i.StepFailed(effect.run_id, effect.depth, RunCode.INTERNAL.value, message)
        finally:
            self._runs.pop((key, effect.run_id, effect.depth), None)
        self._home.tell_thread(key, ended)

    async def _begin(self, key: ThreadKey, effect: e.StartStep, run: Run) -> Any:
        """What the step's agent says, once hooks have shaped the step."""
        shaped = await shape(run, effect, self.waterfall, self._agents)
        if shaped is not None:
            self._home.tell_thread(key, shaped)
        return await invoke(self._agents[run.agent], run)

    def stop_step(self, thread: Thread, effect: e.StopStep) -> None:
        """Close the agent's stream; what it still says counts no more."""
        name = (thread.space.key, effect.run_id, effect.depth)
        run = self._runs.pop(name, None)
        if run is not None:
            run.aborted = True
        self.forget(thread, effect.run_id)
        self.crew.call_off(("step", *name))

    def start_tool(self, thread: Thread, effect: e.StartTool) -> None:
        """Carry out a server tool, unless its call settled while the order waited."""
        if effect.call_id not in thread.desk.open_calls:
            return
        key, run = thread.space.key, for_tool(self.run_of(thread, effect.run_id, effect.depth))
        self._lent[key, effect.call_id] = run
        self.crew.start(("tool", key, effect.call_id), self._carry_out(key, effect, run))

    async def _carry_out(self, key: ThreadKey, effect: e.StartTool, run: Run) -> None:
        answer = await run_tool(self._tools[effect.name], effect.args, run)
        self._lent.pop((key, effect.call_id), None)
        self._home.tell_thread(key, i.ToolReturned(effect.call_id, answer))

    def doing(self, task: "asyncio.Task[Any] | None") -> str:
        """What this task is, in words for a log; may be asked from any thread."""
        match self.crew.name_of(task):
            case ("step", ThreadKey() as key, str(run_id), int(depth)):
                run = self._runs.get((key, RunId(run_id), depth))
                return f"the agent {run.agent!r} at depth {depth}" if run else "an agent"
            case ("tool", *_):
                return "a server tool"
            case None:
                return "something that is no agent's"
        return "a hook"

    def run_of(self, thread: Thread, run_id: RunId, depth: int) -> Run:
        """The Run that this step was given; for a step without an agent, one made for it."""
        run = self._newest.get((thread.space.key, run_id))
        return run if run and run.depth == depth else self._run_for(thread, run_id, depth)

    def forget(self, thread: Thread, run_id: RunId) -> None:
        """The run, or the sub-run, is over."""
        self._newest.pop((thread.space.key, run_id), None)

    def _run_for(self, thread: Thread, run_id: RunId, depth: int) -> Run:
        """A Run for a step that never was an agent's."""
        run = thread.runs.live.get(run_id)
        step = e.StartStep(
            run_id=run_id,
            depth=depth,
            agent=run.agent if run else "",
            tools=(),
            context=(),
            messages=thread.space.transcript.shown_to(run.owner if run else None),
            state=thread.space.transcript.state,
            results=(),
            forwarded_props=run.forwarded_props if run else None,
            principal=run.principal if run else ANONYMOUS,
            parent=run.parent.id if run and run.parent else None,
        )
        return self._run(thread, step)

    def _run(self, thread: Thread, step: e.StartStep) -> Run:
        desk = StepDesk(self._home, thread, self.waterfall)
        return Run(step, desk, thread.thread_id)

    def stop_tool(self, thread: Thread, effect: e.StopTool) -> None:
        """Cancel a server tool; a sync one can only look at `run.aborted`."""
        name = (thread.space.key, effect.call_id)
        run = self._lent.pop(name, None)
        if run is not None:
            run.aborted = True
        self.crew.call_off(("tool", *name))


class StepDesk:
    """`run.Desk` for one thread."""

    def __init__(self, home: Home, thread: Thread, waterfall: Waterfall) -> None:
        self._thread = thread
        self.loop = home.loop
        self.expect = home.waiters.expect
        self.new = home.ids.new
        self.ask = waterfall.ask
        self.say = partial(home.tell_thread, thread.space.key)
        """Tell the run's thread."""
        self.later = home.tick.say

    def tools(self, run_id: RunId) -> Sequence[ToolSpec]:
        run = self._thread.runs.live.get(run_id)
        if run is None or run.reflecting:
            return ()
        return [s for s in self._thread.desk.offered(run) if s.name not in run.step.withheld]

    def state(self) -> Json:
        return self._thread.space.transcript.state
