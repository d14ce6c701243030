"""What a graph's stream tells that no model said: messages of nodes, custom data, updates.

Deliberately leaves alone what models say: the ears have heard it before it comes here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ag_ui.core import BaseEvent
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from handspan.ports import AgentFailed
from handspan_protocol.codec import encode
from handspan_protocol.errors import RunCode, UsageError

from .messages import said_in
from .step import Step

Json = Any
Namespace = tuple[str, ...]
"""Of the subgraph that tells it; () is the graph itself."""


def read(step: Step, namespace: Namespace, mode: str, part: Any) -> None:
    """Take one part of the stream, as `astream` gives it with `subgraphs=True`.

    Raises:
        AgentFailed: the graph was interrupted.
    """
    _READERS[mode](step, namespace, part)


def _message(step: Step, namespace: Namespace, part: Any) -> None:
    """A message that no model said: a node wrote it."""
    message = part[0]
    if isinstance(message, AIMessage) and str(message.id) not in step.spoken:
        step.spoken.add(str(message.id))
        for is_thought, text in said_in(message):
            step.voice.say(step.run.reasoning(text) if is_thought else text)


def _custom(step: Step, namespace: Namespace, part: Any) -> None:
    """What a node wrote with its stream writer: an AG-UI event, or a value for CUSTOM."""
    if isinstance(part, BaseEvent):
        step.voice.say(part)
    else:
        step.run.custom("langgraph", decoded(part))


def _update(step: Step, namespace: Namespace, part: Any) -> None:
    """What nodes made of the state."""
    if "__interrupt__" in part:
        message = (
            "the graph was interrupted: nobody can resume it here; ask by a tool's approval, or"
            " by a tool of the page"
        )
        raise AgentFailed(message, RunCode.AGENT_ERROR)
    for update in part.values() if not namespace else ():
        if isinstance(update, Mapping) and update.get("structured_response") is not None:
            step.run.output = decoded(update["structured_response"])


_READERS: Final[Mapping[str, Callable[[Step, Namespace, Any], None]]] = {
    "messages": _message,
    "custom": _custom,
    "updates": _update,
}

MODES: Final[list[Any]] = [*_READERS]
"""The `stream_mode` that `read` takes."""


def decoded(value: Any) -> Json:
    """A value as JSON, as far as it has such a form; else its text."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    try:
        encode(value)
    except UsageError:
        return str(value)
    return value
