"""The adapter: an agent or a team is made for each step, taken over, and run on the newest message.

Owns how an agent is made ready for one run; deliberately does not know what is said on the way
(`ear`, `stream`), nor what its tools do (`desk`, `tools`).
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import Workbench

from handspan.model.prompt import instructions_of
from handspan_protocol.errors import UsageError

from .desk import Desk
from .ear import Ear
from .messages import spelled
from .step import Step
from .stream import listen
from .tools import PageTools


class AutoGen:
    """An agent of AutoGen's, or a team; one serves any number of runs at once.

    `agent`: a function of the page's tools (a Workbench), sync or async, that makes an agent or a
    team for each step; or an AssistantAgent, which is copied each time, and has the page's tools
    beside its own. `instructions` stand behind the agent's own system messages. A structured
    message becomes `run.output`.

    Raises:
        UsageError: it is an instance of another kind: what it remembers cannot be told apart.
    """

    def __init__(
        self, agent: AssistantAgent | Callable[[Workbench], Any], *, instructions: str = ""
    ) -> None:
        is_assistant = type(agent) is AssistantAgent
        if not is_assistant and (isinstance(agent, ChatAgent | Team) or not callable(agent)):
            raise UsageError(
                f"a {type(agent).__name__} keeps what it heard: give AutoGen a function that makes"
                " one for each run, AutoGen(lambda tools: ...)"
            )
        self._agent = agent
        self._instructions = instructions

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        """Answer a Run with items.

        Raises:
            AgentFailed: a provider refused, or the agent was cancelled by itself.
            UsageError: the function gave no agent, or the instance cannot be copied.
        """
        step = Step(run, instructions_of(run, self._instructions))
        agent = await self._made(step)
        step.voice.begin(listen(agent, step))
        try:
            async for item in step.voice.items():
                yield item
            step.voice.conclude()
        finally:
            await step.stop(at_once=not isinstance(agent, Team))

    async def _made(self, step: Step) -> Any:
        tools = PageTools(step)
        if isinstance(self._agent, AssistantAgent):
            agent: Any = _copied(self._agent, tools)
        else:
            agent = self._agent(tools)
            agent = await agent if isinstance(agent, Awaitable) else agent
        if not isinstance(agent, ChatAgent | Team):
            raise UsageError(f"an agent or a team was expected, not a {type(agent).__name__}")
        for each in _members(agent):
            await _take_over(each, step, tools, named=isinstance(agent, Team))
        return agent


def _copied(agent: AssistantAgent, tools: PageTools) -> AssistantAgent:
    """The same agent without what it heard, and with the page's tools.

    Raises:
        UsageError: its model context cannot be made anew.
    """
    made, context = copy.copy(agent), agent.model_context
    try:
        made._model_context = type(context).load_component(context.dump_component())
    except Exception as error:
        raise UsageError(
            f"a {type(context).__name__} cannot be copied: give AutoGen a function that makes the"
            " agent"
        ) from error
    made._workbench = [*agent._workbench, tools]
    made._is_running = False
    return made


def _members(agent: Any) -> Iterator[Any]:
    """A team's, and its teams', and themselves; or the agent alone."""
    yield agent
    for each in getattr(agent, "_participants", ()) if isinstance(agent, Team) else ():
        yield from _members(each)


async def _take_over(agent: Any, step: Step, tools: PageTools, *, named: bool) -> None:
    """Hear an agent's model, give it the history, and see its tools through. A team's own model,
    which chooses who speaks, is only counted. `named`: it speaks under its name."""
    client = vars(agent).get("_model_client")
    is_heard = isinstance(client, ChatCompletionClient)
    if isinstance(agent, Team):
        if is_heard:
            vars(agent)["_model_client"] = Ear(client, step, speaks=False)
        return
    desk = _desk(agent, step, tools)
    if is_heard:
        agent._model_client = Ear(client, step, desk, name=agent.name if named else None)
        step.heard_agents.add(agent.name)
    if hasattr(agent, "model_context"):
        for message in spelled(step.run.messages, agent.name, step.names):
            await agent.model_context.add_message(message)


def _desk(agent: Any, step: Step, tools: PageTools) -> Desk | None:
    """An agent's workbenches made one; None: it has no such thing."""
    benches = vars(agent).get("_workbench")
    if not isinstance(benches, Sequence):
        return None
    others = [bench for bench in benches if bench is not tools]
    desk = Desk(step, others, tools if len(others) < len(benches) else None)
    agent._workbench = [desk]
    return desk
