"""Calls that an agent's own library carries out, with tools of the agent's own: shown, not made.

The page sees such a call with its result, and nobody is asked to carry it out. Pure, and without a
library. *Source:* protocol.md 1 (TOOL_CALL_RESULT is taken from an agent).
"""

from typing import Any

from ag_ui.core import (
    BaseEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)


def is_the_pages(run: Any, name: str) -> bool:
    """Whether the page has a tool of this name now: a call shown under it would be carried out."""
    return any(tool.name == name for tool in run.current_tools())


def called(call_id: str, name: str, arguments: str) -> list[BaseEvent]:
    """The call; `arguments` is the JSON text of an object."""
    return [
        ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name),
        ToolCallArgsEvent(tool_call_id=call_id, delta=arguments),
        ToolCallEndEvent(tool_call_id=call_id),
    ]


def answered(call_id: str, text: str) -> BaseEvent:
    """What came of it, as the model is shown it."""
    return ToolCallResultEvent(message_id=f"{call_id}-result", tool_call_id=call_id, content=text)
