"""The demo's bridge: two agents that need no key, or a model, and what one might say next.

    front        the agent "default": hands plans to the planner, all else to the keyword agent
    planner      the agent "planner": an errand as three cards
    suggesting   short messages that fit what has just happened
    models       a model in place of the first, by the words of `--model`
    examples     what the smallest of them is shown

Knows the demo's page (web-demo): its tools by name, its context `board`. Above sits `cli`.
"""

from typing import Any

from handspan.server import Bridge
from handspan.shell.values import RunResult

from .front import PLANNER, Front
from .planner import Planner
from .suggesting import Seen, next_messages
from .words import PAUSE_S

__all__ = ["demo_bridge"]


def demo_bridge(pause_s: float = PAUSE_S, model: Any = None) -> Bridge:
    """A bridge with the demo's agents and suggestions; `pause_s` is what they wait a word.

    `model`: an agent that is a model, in place of the one that goes by keywords.
    """
    bridge = Bridge(agents={"default": model or Front(pause_s), PLANNER: Planner(pause_s)})
    seen = Seen()

    @bridge.hook("after_step")
    def look(outcome: Any, next: Any) -> Any:  # noqa: A002
        seen.keep(outcome.run)
        return next(outcome)

    @bridge.suggest
    async def suggest(result: RunResult) -> list[str]:
        return next_messages(result.messages, seen.take(result.run_id))

    return bridge
