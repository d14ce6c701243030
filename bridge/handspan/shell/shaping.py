"""The step as `before_step` hooks want it: what its Run shows, and who speaks.

Owns the reading of what they answer, for this one step. Above sits `workers`, in whose step's task
the hooks are asked.
"""

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from handspan.core import inputs as i
from handspan.core.effects import StartStep
from handspan_protocol.errors import UsageError
from handspan_protocol.tools import Tool

from .answers import check_agent
from .asks import Step
from .hooks import Waterfall, as_it_is
from .run import Run
from .values import messages_of


async def shape(
    run: Run, effect: StartStep, waterfall: Waterfall, agents: Collection[str]
) -> i.StepShaped | None:
    """Ask, and have `run` show what was answered; what the core must know of it, if anything.

    Raises:
        HookFailed: a hook did not answer.
        UsageError: it answered what cannot be.
    """
    if not waterfall.wanted("before_step"):
        return None
    asked = Step(run, run.agent, run.instructions, run.messages, run.tools)
    said: Step = await waterfall.ask("before_step", asked, as_it_is)
    _put_on(run, said, agents)
    shown = {tool.name for tool in run.tools}
    withheld = frozenset(spec.name for spec in effect.tools if spec.name not in shown)
    if run.agent == effect.agent and not withheld:
        return None
    return i.StepShaped(effect.run_id, effect.depth, run.agent, withheld)


def _put_on(run: Run, said: Step, agents: Collection[str]) -> None:
    check_agent("before_step", said.agent, agents)
    if not isinstance(said.instructions, str):
        raise UsageError("before_step: instructions is a str")
    run.messages = _messages(said.messages)
    run.tools = _tools(said.tools)
    run.agent, run.instructions = said.agent, said.instructions


def _messages(said: Any) -> Any:
    try:
        return messages_of(said)
    except (ValidationError, TypeError):
        raise UsageError("before_step: messages is a list of ag_ui.core messages") from None


def _tools(said: Any) -> list[Tool]:
    tools = list(said) if isinstance(said, list | tuple) else [said]
    if not all(isinstance(tool, Tool) for tool in tools):
        raise UsageError("before_step: tools is a list of tools, as the step had them")
    return tools
