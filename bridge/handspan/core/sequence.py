"""What is open in one step, and how it is opened and closed (P6).

Owns the texts, thoughts and calls under way, the names an agent uses for them, and which assistant
message a call belongs to. A call closes the open text and stands in the assistant message before
it; the next text opens a new message, and so do thoughts between calls, which belong to those that
come after them. Ids that are missing, malformed or used before get fresh
ones. Deliberately does not know in which forms an agent speaks: above sits `emission`.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from handspan_protocol.content import scrub
from handspan_protocol.ids import CallId, MessageId

Json = Any
Event = dict[str, Any]


class Sink(Protocol):
    """Where a step's sequence goes: the thread, for one step of one run."""

    def emit(self, event: Event) -> None:
        """Take one event of the sequence."""

    def say(self, head: bytes, message_id: str, delta: str) -> None:
        """Take a delta of a text: the event that begins with `head` and ends with the delta."""

    def new_id(self, kind: str) -> str: ...

    def message_taken(self, message_id: str) -> bool:
        """Whether a message of the thread has this id."""

    def is_anothers(self, name: str) -> bool:
        """Whether another run, or sub-run, of this stream has begun what has this id."""

    def role_of(self, message_id: str) -> str | None:
        """The role of the thread's message of this id, if there is one."""

    def call_started(self, wish: str | None, name: str, message_id: MessageId) -> CallId:
        """Announce a call; returns the id it gets."""

    def call_said(self, call_id: CallId, delta: str) -> None: ...

    def call_ended(self, call_id: CallId) -> None: ...

    def call_provided(self, call_id: CallId, content: Json) -> None:
        """The agent gave the call's result itself."""

    def state_given(self, event: Event) -> None:
        """Take a STATE_SNAPSHOT or STATE_DELTA; it is checked before it is emitted."""


class Misplaced(Exception):  # noqa: N818 (what is wrong is its place)
    """The agent's event cannot stand where it came; the message names it."""


class Sequence:
    """One step's sequence under way; `sink` takes what it comes to."""

    __slots__ = (
        "_aliases",
        "_anchor",
        "_anchor_calls",
        "_open_calls",
        "_reasoning",
        "_sink",
        "_spans",
        "_steps_calls",
        "_text",
        "_text_head",
        "_texts",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._text: MessageId | None = None
        """The text of `str` items that is open."""
        self._text_head = b""
        """What the event of each of its deltas begins with."""
        self._texts: dict[str, MessageId] = {}
        """Texts of explicit events that are open: the agent's id to ours."""
        self._aliases: dict[str, MessageId] = {}
        """Every message id the agent used in this step, to its newest."""
        self._reasoning: dict[str, MessageId] = {}
        self._spans: dict[str, str] = {}
        """The span that is open: the agent's id to ours."""
        self._anchor: MessageId | None = None
        """The assistant message that a call made now belongs to."""
        self._anchor_calls = False
        """Whether any belongs to it."""
        self._steps_calls: dict[str, CallId] = {}
        """The agent's call ids to ours, newest."""
        self._open_calls: dict[str, CallId] = {}

    def close(self) -> None:
        """End what is open, innermost first: texts, thoughts, spans, calls."""
        self._close_texts()
        self._close_reasoning()
        for provider_id in list(self._open_calls):
            self._end_call(provider_id)

    def end_texts(self) -> None:
        """End the texts under way; the next one is a new message."""
        self._close_texts()

    @property
    def open_texts(self) -> list[str]:
        """Ids of the texts under way."""
        return [*([self._text] if self._text else []), *self._texts.values()]

    @property
    def open_reasoning(self) -> list[str]:
        """Ids of the thoughts under way."""
        return list(self._reasoning.values())

    @property
    def open_calls(self) -> list[str]:
        """Ids of the calls whose text is under way."""
        return list(self._open_calls.values())

    # ---- parts -------------------------------------------------------------------------------

    def _fresh_message(self, wish: str | None) -> MessageId:
        used = wish in self._aliases or (wish is not None and self._sink.message_taken(wish))
        good = wish is not None and 0 < len(wish) <= 128 and not used
        message = MessageId(wish if good and wish is not None else self._sink.new_id("m"))
        if wish is not None:
            self._aliases[wish] = message
        return message

    def _begin_text(
        self, wish: str | None, role: str, more: Mapping[str, Json] | None = None
    ) -> MessageId:
        message = self._fresh_message(wish)
        self._sink.emit(
            {"type": "TEXT_MESSAGE_START", "messageId": message, "role": role, **(more or {})}
        )
        self._anchor, self._anchor_calls = message if role == "assistant" else None, False
        return message

    def _open_text(self, agent_id: str, kind: str) -> MessageId:
        if agent_id not in self._texts:
            if agent_id not in self._aliases:
                raise Misplaced(f"{kind} for {agent_id}, which is not open")
            self._close_texts()
            self._texts[agent_id] = self._begin_text(agent_id, "assistant")
        return self._texts[agent_id]

    def _end_text(self, message: MessageId) -> None:
        self._sink.emit({"type": "TEXT_MESSAGE_END", "messageId": message})

    def _close_texts(self) -> None:
        if self._text is not None:
            self._end_text(self._text)
            self._text = None
        for message in self._texts.values():
            self._end_text(message)
        self._texts.clear()

    def _span(self, agent_id: str) -> None:
        if self._spans:
            raise Misplaced("REASONING_START inside a span that is open")
        span = self._sink.new_id("r") if self._sink.is_anothers(agent_id) else agent_id
        self._spans[agent_id] = span
        self._sink.emit({"type": "REASONING_START", "messageId": span})

    def _begin_reasoning(self, agent_id: str, more: Mapping[str, Json]) -> None:
        message = self._fresh_message(agent_id)
        self._reasoning[agent_id] = message
        if self._anchor_calls:
            self._anchor = None
        self._sink.emit(
            {"type": "REASONING_MESSAGE_START", "messageId": message, "role": "reasoning", **more}
        )

    def _close_reasoning(self) -> None:
        for message in reversed(self._reasoning.values()):
            self._sink.emit({"type": "REASONING_MESSAGE_END", "messageId": message})
        self._reasoning.clear()
        for span in reversed(self._spans.values()):
            self._sink.emit({"type": "REASONING_END", "messageId": span})
        self._spans.clear()

    def _begin_call(self, provider_id: str, name: str) -> CallId:
        self._close_texts()
        self._close_reasoning()
        if self._anchor is None:
            self._anchor = MessageId(self._sink.new_id("m"))
        self._anchor_calls = True
        used = provider_id in self._steps_calls
        call_id = self._sink.call_started(None if used else provider_id, name, self._anchor)
        self._steps_calls[provider_id] = self._open_calls[provider_id] = call_id
        self._sink.emit(
            {
                "type": "TOOL_CALL_START",
                "toolCallId": call_id,
                "toolCallName": scrub(name),
                "parentMessageId": self._anchor,
            }
        )
        return call_id

    def _call_delta(self, call_id: CallId, delta: str) -> None:
        if delta:
            delta = scrub(delta)
            self._sink.call_said(call_id, delta)
            self._sink.emit({"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta})

    def _end_call(self, provider_id: str) -> None:
        call_id = self._open_calls.pop(provider_id)
        self._sink.emit({"type": "TOOL_CALL_END", "toolCallId": call_id})
        self._sink.call_ended(call_id)

    def _newest_open(self) -> str | None:
        return next(reversed(self._open_calls), None)
