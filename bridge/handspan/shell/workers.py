"""Agents, server tools and stop conditions at work: what the core ordered, done as tasks.

Owns the tasks (a `Crew`), the Run each step is given, and the way its outcome comes home as an
input of its thread. Deliberately knows no page and no socket. Above sits `driver`.
"""

import asyncio
import inspect
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.effects import CallValue
from handspan.core.parties import ANONYMOUS, ThreadKey
from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan.ports import Clock

from .crew import Crew
from .run import Run
from .socket import where
from .steps import speak
from .tick import Tick
from .tools import ServerTool, run_tool
from .values import call_result

Json = Any
_LOG = logging.getLogger("handspan.workers")


class Home(Protocol):
    """Where outcomes go: the driver."""

    loop: asyncio.AbstractEventLoop
    tick: Tick

    def tell_thread(self, key: ThreadKey, message: i.ThreadInput) -> None: ...

    def expect(self, ticket: str) -> "asyncio.Future[Any]":
        """A future that a GiveValue of this ticket resolves."""

    def new_ticket(self) -> str: ...


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
    ) -> None:
        self.crew = Crew(clock, policy.cleanup_grace)
        self._home = home
        self._policy = policy
        self._agents = agents
        self._tools = tools
        self._runs: dict[tuple[str, int], Run] = {}
        """The Run of each step that is being spoken."""

    def start_step(self, thread: Thread, effect: e.StartStep) -> None:
        """Invoke the agent."""
        run = Run(effect, StepDesk(self._home, thread), thread.thread_id)
        name = (effect.run_id, effect.depth)
        self._runs[name] = run
        self.crew.start(name, self._speak(thread.space.key, effect, run))

    async def _speak(self, key: ThreadKey, effect: e.StartStep, run: Run) -> None:
        agent = self._agents[effect.agent]
        try:
            ended = await speak(agent, run)
        finally:
            self._runs.pop((effect.run_id, effect.depth), None)
        self._home.tell_thread(key, ended)

    def stop_step(self, effect: e.StopStep) -> None:
        """Close the agent's stream; what it still says counts no more."""
        name = (effect.run_id, effect.depth)
        run = self._runs.pop(name, None)
        if run is not None:
            run.aborted = True
        self.crew.call_off(name)

    def start_tool(self, thread: Thread, effect: e.StartTool) -> None:
        """Carry out a server tool."""
        tool = self._tools[effect.name]
        self.crew.start(effect.call_id, self._carry_out(thread, tool, effect))

    async def _carry_out(self, thread: Thread, tool: ServerTool, effect: e.StartTool) -> None:
        run = self._runs.get((effect.run_id, effect.depth)) or self._run_for(thread, effect)
        answer = await run_tool(tool, effect.args, run)
        self._home.tell_thread(thread.space.key, i.ToolReturned(effect.call_id, answer))

    def _run_for(self, thread: Thread, effect: e.StartTool) -> Run:
        """A Run for a tool whose step is no longer, or never was, an agent's."""
        run = thread.run
        step = e.StartStep(
            run_id=effect.run_id,
            depth=effect.depth,
            agent=run.agent if run else "",
            tools=(),
            context=(),
            messages=thread.space.transcript.view(),
            state=thread.space.transcript.state,
            results=(),
            forwarded_props=run.forwarded_props if run else None,
            principal=run.principal if run else ANONYMOUS,
        )
        return Run(step, StepDesk(self._home, thread), thread.thread_id)

    def stop_tool(self, effect: e.StopTool) -> None:
        """Cancel a server tool."""
        self.crew.call_off(effect.call_id)

    def judge_stops(self, thread: Thread, effect: e.JudgeStops) -> None:
        """Evaluate the stop conditions."""
        name = ("stops", effect.run_id, effect.depth)
        self.crew.start(name, self._judge(thread.space.key, effect))

    async def _judge(self, key: ThreadKey, effect: e.JudgeStops) -> None:
        steps = [[call_result(value) for value in step] for step in effect.steps]
        stop = False
        for condition in self._policy.stop_when:
            try:
                verdict = condition(steps)
                stop = stop or bool(await verdict if inspect.isawaitable(verdict) else verdict)
            except Exception as error:
                _LOG.error("a stop condition failed and does not count: %s", where(error))
        self._home.tell_thread(key, i.StopsJudged(effect.run_id, effect.depth, stop))


class StepDesk:
    """`run.Desk` for one thread."""

    def __init__(self, home: Home, thread: Thread) -> None:
        self._home = home
        self._thread = thread
        self.loop = home.loop
        self.say = partial(home.tell_thread, thread.space.key)
        """Tell the run's thread."""
        self.later = home.tick.say

    def state(self) -> Json:
        return self._thread.space.transcript.state

    def expect(self, ticket: str) -> "asyncio.Future[CallValue]":
        return self._home.expect(ticket)

    def ticket(self) -> str:
        return self._home.new_ticket()
