"""The step under way, as a graph's tools and callbacks find it in the graph's own config.

Owns what they share for that one step; deliberately does not know what any of them does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.config import get_config

from handspan.model.history import Asked
from handspan.model.names import Names
from handspan.model.voice import Voice

Json = Any

KEY: Final = "handspan"
"""Where in `configurable` the step is found."""


class Step:
    """A step whose graph is at work."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.voice = Voice(run)
        self.names = Names(tool.name for tool in run.tools)
        """As models were shown the page's tools last."""
        self.asked: dict[str, Asked] = {}
        """The calls that models made, by id, in their own text."""
        self.spoken: set[str] = set()
        """Ids of the messages that were heard; what the stream tells of them is no news."""

    def note(self, message: AIMessage, calls: Iterable[Asked]) -> None:
        """Keep a turn's calls. Ids come again in later turns, and twice in one: what an id does not
        tell apart is not known here."""
        made = (*message.tool_calls, *message.invalid_tool_calls)
        ids = Counter(str(call["id"]) for call in made)
        for call_id in ids:
            self.asked.pop(call_id, None)
        self.asked |= {call.id: call for call in calls if ids[call.id] <= 1}

    def arguments_of(self, call: Mapping[str, Any]) -> Mapping[str, Json] | str:
        """A LangChain call's arguments: as the model wrote them, where that is known."""
        asked = self.asked.get(call["id"] or "")
        known = asked is not None and asked.name == call["name"]
        return asked.arguments if asked is not None and known else call["args"]


def step_here() -> Step | None:
    """The step whose graph runs here; None: the graph runs without a bridge, or none does."""
    try:
        step = get_config().get("configurable", {}).get(KEY)
    except RuntimeError:
        return None
    return step if isinstance(step, Step) else None
