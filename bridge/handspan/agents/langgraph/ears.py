"""What models say and what the graph's own tools do, heard as LangChain's callbacks tell it.

Owns the way from a message chunk to the step's items: text, thoughts, tokens, why a turn was cut,
and the calls in the model's own text. A callback runs inline, so all is said before the graph goes
on. Deliberately carries nothing out, and says nothing of the page's own tools: the run does.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ag_ui.core import BaseEvent, ToolCallArgsEvent, ToolCallStartEvent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import ToolException
from langgraph.constants import TAG_NOSTREAM

from handspan.model.assembler import Assembler
from handspan.model.history import Asked
from handspan.model.provided import answered, called, is_the_pages
from handspan.model.voice import Turn
from handspan_protocol.codec import encode
from handspan_protocol.content import error_text
from handspan_protocol.errors import UsageError

from .messages import said_in
from .step import Step

OURS: Final = "handspan:page-tool"
"""The tag of a tool that the page carries out; the run shows its calls."""

_CUTS: Final = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
}
"""Why a provider cut a turn, to `run.finish_reason`. *Source:* OpenAI finish_reason and
incomplete_details, Anthropic stop_reason, Google finish_reason, Ollama done_reason."""


@dataclass(slots=True)
class _Heard:
    """A turn of a model, as far as it is heard."""

    turn: Turn
    is_silent: bool
    """The graph wants it unsaid; it is only counted."""
    began: bool = False
    calls: Assembler = field(default_factory=Assembler)
    fragments: list[BaseEvent] = field(default_factory=list)
    """What the assembler made of its calls."""


class Ears(BaseCallbackHandler):
    """Of one step; for the graph's config."""

    run_inline = True

    def __init__(self, step: Step) -> None:
        self._step = step
        self._heard: dict[uuid.UUID, _Heard] = {}
        """Turns under way."""
        self._own: dict[uuid.UUID, str] = {}
        """Calls of the graph's own tools under way."""

    # ---- models ------------------------------------------------------------------------------

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: uuid.UUID, **more: Any
    ) -> None:
        is_silent = TAG_NOSTREAM in (more.get("tags") or ())
        self._heard[run_id] = _Heard(Turn(self._step.voice), is_silent)

    def on_llm_new_token(self, token: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        heard, message = self._heard.get(run_id), getattr(more.get("chunk"), "message", None)
        if heard is None or heard.is_silent or not isinstance(message, AIMessageChunk):
            return
        for chunk in message.tool_call_chunks:
            heard.fragments += heard.calls.feed(
                index=chunk.get("index"),
                call_id=chunk.get("id"),
                name=chunk.get("name"),
                arguments=chunk.get("args"),
            )
        self._say(heard, message)

    def on_llm_end(self, response: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        heard, message = self._heard.pop(run_id, None), _message_of(response)
        if heard is None or message is None:
            return
        self._count(message)
        if heard.is_silent:
            return
        if not heard.began:
            self._say(heard, message)
        self._step.note(message, _calls(heard, message))
        heard.turn.end()
        if reason := _cut(message.response_metadata):
            self._step.voice.cut = reason
            self._step.voice.halt()

    def on_llm_error(self, error: BaseException, *, run_id: uuid.UUID, **more: Any) -> None:
        if heard := self._heard.pop(run_id, None):
            heard.turn.end()

    def _say(self, heard: _Heard, message: AIMessage) -> None:
        heard.began = True
        self._step.spoken.add(str(message.id))
        for is_thought, text in said_in(message):
            (heard.turn.think if is_thought else heard.turn.say)(text)

    def _count(self, message: AIMessage) -> None:
        usage: Any = message.usage_metadata
        if not usage:
            return
        told, details = message.response_metadata, usage.get("input_token_details") or {}
        self._step.run.count_usage(
            provider=told.get("model_provider"),
            model=told.get("model_name") or told.get("model"),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cached_input_tokens=details.get("cache_read"),
            cache_write_input_tokens=details.get("cache_creation"),
            reasoning_tokens=(usage.get("output_token_details") or {}).get("reasoning"),
        )

    # ---- the graph's own tools ---------------------------------------------------------------

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: uuid.UUID, **more: Any
    ) -> None:
        name = (serialized or {}).get("name") or more.get("name") or ""
        if OURS in (more.get("tags") or ()) or is_the_pages(self._step.run, name):
            return
        call_id = self._own[run_id] = str(more.get("tool_call_id") or run_id)
        self._step.voice.say(*called(call_id, name, _arguments(more.get("inputs") or {})))

    def on_tool_end(self, output: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        self._answer(run_id, _output(output))

    def on_tool_error(self, error: BaseException, *, run_id: uuid.UUID, **more: Any) -> None:
        """What the tool raised may hold secrets: only what it says to a model is shown."""
        told = str(error) if isinstance(error, ToolException) else type(error).__name__
        self._answer(run_id, error_text("handler_error", told))

    def _answer(self, run_id: uuid.UUID, text: str) -> None:
        if call_id := self._own.pop(run_id, None):
            self._step.voice.say(answered(call_id, text))


# ---- messages, read ----------------------------------------------------------------------------


def _message_of(response: Any) -> AIMessage | None:
    for generation in (response.generations or [[]])[0][:1]:
        message = getattr(generation, "message", None)
        return message if isinstance(message, AIMessage) else None
    return None


def _calls(heard: _Heard, message: AIMessage) -> Iterator[Asked]:
    """The turn's calls as the model wrote them; those of a model that does not stream only where
    LangChain could not read them."""
    for call in message.invalid_tool_calls:
        yield Asked(str(call["id"]), str(call["name"]), call["args"] or "")
    for event in heard.fragments:
        if isinstance(event, ToolCallStartEvent):
            deltas = [
                each.delta
                for each in heard.fragments
                if isinstance(each, ToolCallArgsEvent) and each.tool_call_id == event.tool_call_id
            ]
            yield Asked(event.tool_call_id, event.tool_call_name, "".join(deltas))


def _cut(metadata: Mapping[str, Any]) -> str | None:
    details = metadata.get("incomplete_details") or {}
    reasons = [metadata.get(k) for k in ("finish_reason", "stop_reason", "done_reason")]
    told = [str(reason).lower() for reason in [*reasons, details.get("reason")] if reason]
    return next((_CUTS[reason] for reason in told if reason in _CUTS), None)


# ---- own tools, shown --------------------------------------------------------------------------


def _arguments(inputs: Mapping[str, Any]) -> str:
    """The JSON text of what a tool was given. What JSON cannot hold was injected by the graph, and
    is nothing that the model wrote."""
    return encode({key: value for key, value in inputs.items() if _is_json(value)}).decode()


def _output(output: Any) -> str:
    """What a tool gave, as text; the type of what has none."""
    value = output.text if isinstance(output, ToolMessage) else output
    if isinstance(value, str):
        return str(value)
    return (encode(value) if _is_json(value) else encode(f"({type(value).__name__})")).decode()


def _is_json(value: Any) -> bool:
    try:
        encode(value)
    except UsageError:
        return False
    return True
