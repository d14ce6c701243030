"""What an agent says in one step, in whichever form, made into a valid AG-UI sequence (P6).

Owns the forms: the short ones (a str, a call, thoughts) and the agent's own AG-UI events, of which
some are taken, chunks expanded, and the frame of a run dropped (protocol.md 1). One that is out of
order raises Misplaced, which fails the step. A stray delta or end of a *call* is only dropped
(C006, C017): providers send them, and they change nothing. What names the agent's own id means its
newest. Deliberately does not know what becomes of a call; what is open is kept by `sequence`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from handspan_protocol.codec import encode
from handspan_protocol.content import scrub
from handspan_protocol.ids import CallId

from .sequence import Event, Misplaced, Sequence, Sink

__all__ = ["Emission", "Misplaced", "Sink"]

Json = Any


class Emission(Sequence):
    """The two ways to speak: short forms and events."""

    __slots__ = ()

    # ---- the short forms ---------------------------------------------------------------------

    def text(self, delta: str) -> None:
        """The hot path: a delta of the running text."""
        if not delta:
            return
        if self._text is None:
            self._close_reasoning()
            self._close_texts()
            self._text = self._begin_text(None, "assistant")
            self._text_head = _CONTENT_HEAD % encode(self._text)
        self._sink.say(self._text_head, self._text, delta if delta.isascii() else scrub(delta))

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
        free = wish is not None and wish not in self._open_calls
        provider_id = wish if free and wish is not None else self._sink.new_id("c")
        call_id = self._begin_call(provider_id, name)
        self._call_delta(call_id, raw)
        self._end_call(provider_id)
        return call_id

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
        if self._sink.is_anothers(ours):
            raise Misplaced(f"REASONING_ENCRYPTED_VALUE for {entity}, which is another's")
        self._sink.emit({**_clean(event), "entityId": ours})

    def _take_activity(self, event: Mapping[str, Json]) -> None:
        message = _text_of(event, "messageId")
        if self._sink.is_anothers(message):
            raise Misplaced(f"{event.get('type')} for {message}, which is another's")
        if self._sink.role_of(message) not in (None, "activity"):
            raise Misplaced(f"{event.get('type')} for {message}, which is no activity")
        if event["type"] == "ACTIVITY_DELTA":
            whole = isinstance(event.get("patch"), list)
        else:
            whole = bool(_text_of(event, "activityType")) and isinstance(event.get("content"), dict)
        if not whole:
            raise Misplaced(f"{event['type']} for {message} without its content")
        if message == self._anchor:  # the name of a text that said nothing: no calls hang on it
            self._anchor = None
        self._sink.emit(_clean(event))

    def _take_custom(self, event: Mapping[str, Json]) -> None:
        if not _text_of(event, "name").startswith("handspan."):
            self._sink.emit(_clean(event))

    def _take_state(self, event: Mapping[str, Json]) -> None:
        self._sink.state_given(_clean(event))

    def _take_raw(self, event: Mapping[str, Json]) -> None:
        self._sink.emit(_clean(event))


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


_CONTENT_HEAD: Final = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":%b,"delta":'

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
