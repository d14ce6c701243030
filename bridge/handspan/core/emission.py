"""What an agent says in one step, made into a valid AG-UI sequence (P6).

Owns what is open: the text, the reasoning, the calls whose text is under way; and the names an
agent uses for them. Texts and calls are put in the order of emission: a call closes the open text
and stands in the assistant message before it; the next text opens a new message. Ids that are
missing, malformed or used before get fresh ones, and what names the agent's id means its newest.
Deliberately does not know what becomes of a call.

Events of an agent are taken, expanded or dropped as protocol.md 1 lists them; one that is out of
order raises Misplaced, which fails the step. A stray delta or end of a *call* is only dropped
(C006, C017): providers send them, and they change nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from handspan_protocol.content import scrub
from handspan_protocol.ids import CallId, MessageId

Json = Any
Event = dict[str, Any]


class Sink(Protocol):
    """Where a step's sequence goes: the thread, for one step of one run."""

    def emit(self, event: Event) -> None:
        """Take one event of the sequence."""

    def new_id(self, kind: str) -> str: ...

    def message_taken(self, message_id: str) -> bool:
        """Whether a message of the thread has this id."""

    def call_started(self, wish: str | None, name: str, message_id: MessageId) -> CallId:
        """Announce a call; returns the id it gets."""

    def call_said(self, call_id: CallId, delta: str) -> None: ...

    def call_ended(self, call_id: CallId) -> None: ...

    def call_provided(self, call_id: CallId, content: Json) -> None:
        """The agent gave the call's result itself."""

    def state_given(self, event: Event) -> None:
        """Take a STATE_SNAPSHOT or STATE_DELTA; it is checked before it is emitted."""


class Misplaced(Exception):
    """The agent's event cannot stand where it came; the message names it."""


class Emission:
    """One step's sequence under way; `sink` takes what it comes to."""

    __slots__ = (
        "_aliases",
        "_anchor",
        "_open_calls",
        "_reasoning",
        "_sink",
        "_spans",
        "_steps_calls",
        "_text",
        "_texts",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._text: MessageId | None = None
        """The text of `str` items that is open."""
        self._texts: dict[str, MessageId] = {}
        """Texts of explicit events that are open: the agent's id to ours."""
        self._aliases: dict[str, MessageId] = {}
        """Every message id the agent used in this step, to its newest."""
        self._reasoning: dict[str, MessageId] = {}
        self._spans: list[str] = []
        self._anchor: MessageId | None = None
        """The assistant message that a call made now belongs to."""
        self._steps_calls: dict[str, CallId] = {}
        """The agent's call ids to ours, newest."""
        self._open_calls: dict[str, CallId] = {}

    # ---- the short forms ---------------------------------------------------------------------

    def text(self, delta: str) -> None:
        """The hot path: a delta of the running text."""
        if not delta:
            return
        if self._text is None:
            self._close_reasoning()
            self._close_texts()
            self._text = self._begin_text(None, "assistant")
        self._sink.emit(
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._text, "delta": scrub(delta)}
        )

    def reasoning(self, delta: str) -> None:
        """A delta of the running thoughts."""
        if not delta:
            return
        if not self._spans:
            self._close_texts()
            self._span(self._sink.new_id("r"))
        if not self._reasoning:
            self._begin_reasoning(self._sink.new_id("r"), {})
        message = next(reversed(self._reasoning.values()))
        self._sink.emit(
            {"type": "REASONING_MESSAGE_CONTENT", "messageId": message, "delta": scrub(delta)}
        )

    def call(self, wish: str | None, name: str, raw: str) -> CallId:
        """A whole call at once."""
        provider_id = wish if wish is not None else self._sink.new_id("c")
        call_id = self._begin_call(provider_id, name, fresh=True)
        self._call_delta(call_id, raw)
        self._end_call(provider_id)
        return call_id

    def close(self) -> None:
        """End what is open, innermost first: texts, thoughts, spans, calls."""
        self._close_texts()
        self._close_reasoning()
        for provider_id in list(self._open_calls):
            self._end_call(provider_id)

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

    # ---- an agent's own events ---------------------------------------------------------------

    def event(self, event: Mapping[str, Json]) -> None:
        """Take one AG-UI event of the agent.

        Raises:
            Misplaced: it is out of order, or of a kind no agent may send.
        """
        kind = event.get("type")
        if kind in _DROPPED:
            return
        take = _TAKES.get(kind) if isinstance(kind, str) else None
        if take is None:
            raise Misplaced(f"an agent may not emit {kind}")
        take(self, event)

    def _take_text_start(self, event: Mapping[str, Json]) -> None:
        agent_id = _text_of(event, "messageId")
        if agent_id in self._texts:
            raise Misplaced(f"TEXT_MESSAGE_START for {agent_id}, which is open")
        self._close_reasoning()
        self._close_texts()
        role = event.get("role") or "assistant"
        self._texts[agent_id] = self._begin_text(agent_id, role, _kept(event, "name"))

    def _take_text_content(self, event: Mapping[str, Json]) -> None:
        message = self._open_text(_text_of(event, "messageId"), "TEXT_MESSAGE_CONTENT")
        if _text_of(event, "delta"):
            self._sink.emit({**_clean(event), "messageId": message})

    def _take_text_end(self, event: Mapping[str, Json]) -> None:
        agent_id = _text_of(event, "messageId")
        if agent_id in self._texts:
            self._end_text(self._texts.pop(agent_id))
        elif agent_id not in self._aliases:
            raise Misplaced(f"TEXT_MESSAGE_END for {agent_id}, which was never started")

    def _take_text_chunk(self, event: Mapping[str, Json]) -> None:
        agent_id = event.get("messageId") or next(reversed(self._texts), None)
        if agent_id is None:
            agent_id = self._sink.new_id("m")
        if agent_id not in self._texts:
            self._take_text_start({**event, "messageId": agent_id})
        if event.get("delta"):
            self._take_text_content(
                {"type": "TEXT_MESSAGE_CONTENT", "messageId": agent_id, "delta": event["delta"]}
            )

    def _take_call_start(self, event: Mapping[str, Json]) -> None:
        provider_id = event.get("toolCallId") or self._sink.new_id("c")
        if provider_id not in self._open_calls:
            self._begin_call(provider_id, _text_of(event, "toolCallName"))

    def _take_call_args(self, event: Mapping[str, Json]) -> None:
        call_id = self._open_calls.get(event.get("toolCallId") or self._newest_open() or "")
        if call_id is not None:
            self._call_delta(call_id, _text_of(event, "delta"))

    def _take_call_end(self, event: Mapping[str, Json]) -> None:
        provider_id = event.get("toolCallId") or self._newest_open() or ""
        if provider_id in self._open_calls:
            self._end_call(provider_id)

    def _take_call_chunk(self, event: Mapping[str, Json]) -> None:
        provider_id = event.get("toolCallId") or self._newest_open()
        if provider_id is None or (event.get("toolCallId") and provider_id not in self._open_calls):
            for other in list(self._open_calls):
                self._end_call(other)
            self._take_call_start({**event, "toolCallId": provider_id or self._sink.new_id("c")})
            provider_id = self._newest_open() or ""
        if event.get("delta"):
            self._take_call_args({"toolCallId": provider_id, "delta": event["delta"]})

    def _take_call_result(self, event: Mapping[str, Json]) -> None:
        provider_id = _text_of(event, "toolCallId")
        call_id = self._steps_calls.get(provider_id)
        if call_id is None:
            raise Misplaced(f"TOOL_CALL_RESULT for {provider_id}, which this step did not call")
        if provider_id in self._open_calls:
            self._end_call(provider_id)
        self._sink.call_provided(call_id, event.get("content"))

    def _take_reasoning_start(self, event: Mapping[str, Json]) -> None:
        self._close_texts()
        self._span(_text_of(event, "messageId"))

    def _take_reasoning_end(self, event: Mapping[str, Json]) -> None:
        span = _text_of(event, "messageId")
        if span not in self._spans:
            raise Misplaced(f"REASONING_END for {span}, which is not open")
        self._close_reasoning()

    def _take_thought_start(self, event: Mapping[str, Json]) -> None:
        agent_id = _text_of(event, "messageId")
        if agent_id in self._reasoning:
            raise Misplaced(f"REASONING_MESSAGE_START for {agent_id}, which is open")
        self._close_texts()
        self._begin_reasoning(agent_id, _kept(event, "metadata"))

    def _take_thought_content(self, event: Mapping[str, Json]) -> None:
        agent_id = _text_of(event, "messageId")
        if agent_id not in self._reasoning:
            raise Misplaced(f"REASONING_MESSAGE_CONTENT for {agent_id}, which is not open")
        if _text_of(event, "delta"):
            self._sink.emit({**_clean(event), "messageId": self._reasoning[agent_id]})

    def _take_thought_end(self, event: Mapping[str, Json]) -> None:
        agent_id = _text_of(event, "messageId")
        if agent_id not in self._reasoning:
            raise Misplaced(f"REASONING_MESSAGE_END for {agent_id}, which is not open")
        self._sink.emit(
            {"type": "REASONING_MESSAGE_END", "messageId": self._reasoning.pop(agent_id)}
        )

    def _take_thought_chunk(self, event: Mapping[str, Json]) -> None:
        agent_id = event.get("messageId") or next(reversed(self._reasoning), None)
        if agent_id is None or agent_id not in self._reasoning:
            agent_id = agent_id or self._sink.new_id("r")
            self._take_thought_start({**event, "messageId": agent_id})
        if event.get("delta"):
            self._take_thought_content(
                {
                    "type": "REASONING_MESSAGE_CONTENT",
                    "messageId": agent_id,
                    "delta": event["delta"],
                }
            )

    def _take_encrypted(self, event: Mapping[str, Json]) -> None:
        entity = _text_of(event, "entityId")
        ours = self._steps_calls.get(entity) or self._aliases.get(entity) or entity
        self._sink.emit({**_clean(event), "entityId": ours})

    def _take_activity(self, event: Mapping[str, Json]) -> None:
        _text_of(event, "messageId")
        self._sink.emit(_clean(event))

    def _take_custom(self, event: Mapping[str, Json]) -> None:
        if _text_of(event, "name").startswith("handspan."):
            raise Misplaced("CUSTOM names that begin with handspan. are the bridge's own")
        self._sink.emit(_clean(event))

    def _take_state(self, event: Mapping[str, Json]) -> None:
        self._sink.state_given(_clean(event))

    def _take_raw(self, event: Mapping[str, Json]) -> None:
        self._sink.emit(_clean(event))

    # ---- parts -------------------------------------------------------------------------------

    def _fresh_message(self, wish: str | None) -> MessageId:
        good = wish is not None and 0 < len(wish) <= 128 and not self._sink.message_taken(wish)
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
        self._anchor = message if role == "assistant" else None
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
        self._spans.append(agent_id)
        self._sink.emit({"type": "REASONING_START", "messageId": agent_id})

    def _begin_reasoning(self, agent_id: str, more: Mapping[str, Json]) -> None:
        message = self._fresh_message(agent_id)
        self._reasoning[agent_id] = message
        self._sink.emit(
            {"type": "REASONING_MESSAGE_START", "messageId": message, "role": "reasoning", **more}
        )

    def _close_reasoning(self) -> None:
        for message in reversed(self._reasoning.values()):
            self._sink.emit({"type": "REASONING_MESSAGE_END", "messageId": message})
        self._reasoning.clear()
        for span in reversed(self._spans):
            self._sink.emit({"type": "REASONING_END", "messageId": span})
        self._spans.clear()

    def _begin_call(self, provider_id: str, name: str, *, fresh: bool = False) -> CallId:
        self._close_texts()
        self._close_reasoning()
        if self._anchor is None:
            self._anchor = MessageId(self._sink.new_id("m"))
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


def _text_of(event: Mapping[str, Json], key: str) -> str:
    value = event.get(key)
    if not isinstance(value, str):
        raise Misplaced(f"{event.get('type')} without a {key}")
    return value


def _kept(event: Mapping[str, Json], *keys: str) -> Event:
    return {key: event[key] for key in keys if event.get(key) is not None}


def _clean(event: Mapping[str, Json]) -> Event:
    """The event without absent optionals and without an owner of the agent's choosing."""
    return {k: v for k, v in event.items() if v is not None and k != "subagentRunId"}


_DROPPED: Final = frozenset(
    [
        "RUN_STARTED",
        "RUN_FINISHED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "SUBAGENT_ERROR",
    ]
)
"""The frame of a run is the bridge's own. *Source:* protocol.md 1."""

_TAKES: Final[Mapping[str, Callable[[Emission, Mapping[str, Json]], None]]] = {
    "TEXT_MESSAGE_START": Emission._take_text_start,
    "TEXT_MESSAGE_CONTENT": Emission._take_text_content,
    "TEXT_MESSAGE_END": Emission._take_text_end,
    "TEXT_MESSAGE_CHUNK": Emission._take_text_chunk,
    "TOOL_CALL_START": Emission._take_call_start,
    "TOOL_CALL_ARGS": Emission._take_call_args,
    "TOOL_CALL_END": Emission._take_call_end,
    "TOOL_CALL_CHUNK": Emission._take_call_chunk,
    "TOOL_CALL_RESULT": Emission._take_call_result,
    "REASONING_START": Emission._take_reasoning_start,
    "REASONING_END": Emission._take_reasoning_end,
    "REASONING_MESSAGE_START": Emission._take_thought_start,
    "REASONING_MESSAGE_CONTENT": Emission._take_thought_content,
    "REASONING_MESSAGE_END": Emission._take_thought_end,
    "REASONING_MESSAGE_CHUNK": Emission._take_thought_chunk,
    "REASONING_ENCRYPTED_VALUE": Emission._take_encrypted,
    "STATE_SNAPSHOT": Emission._take_state,
    "STATE_DELTA": Emission._take_state,
    "ACTIVITY_SNAPSHOT": Emission._take_activity,
    "ACTIVITY_DELTA": Emission._take_activity,
    "RAW": Emission._take_raw,
    "CUSTOM": Emission._take_custom,
}
