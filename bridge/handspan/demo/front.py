"""The agent that a visitor talks to: what is to be planned it hands over, the rest it does."""

from collections.abc import AsyncIterator
from typing import Any, Final

from handspan.agents.keyword import KeywordAgent
from handspan.shell.values import Handoff

from .errand import errand_in
from .words import spoken

PLANNER: Final = "planner"
"""The name of the agent that plans."""


class Front:
    """Hands an errand over to the planner; anything else is the keyword agent's."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._keyword = KeywordAgent(pause_s)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        is_errand = run.depth == 0 and errand_in(run.messages) is not None
        return self._hand_over() if is_errand else self._keyword(run)

    async def _hand_over(self) -> AsyncIterator[Any]:
        async for word in spoken("That is one for the planner.", self._pause_s):
            yield word
        yield Handoff(PLANNER)
