"""What a thread's events add up to: messages and state, as a fold over the log.

Owns the fold (`apply`), the validity of a history (P1) and cutting one without breaking it. The
page's library folds the same events to the same messages; `protocol/vectors/fold.jsonl` is the
truth both are held to. Deliberately does not know runs, calls' states, or how events travel.

Messages are AG-UI messages as JSON objects. One that is being streamed keeps its text in pieces,
so that a delta costs the same however long the text has become.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from handspan_protocol.errors import UsageError

from .patching import patched
from .shown import Shown

Json = Any
Message = dict[str, Any]


class Touched:
    """The messages that have changed, and whether all of them are others than before."""

    __slots__ = ("everything", "names")

    def __init__(self, *, everything: bool = False) -> None:
        self.everything = everything
        self.names: dict[str, None] = {}


class Transcript:
    """Messages and state; changed only by `apply`."""

    __slots__ = ("_by_id", "_call_home", "_pieces", "messages", "size_bytes", "state", "touched")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.state: Json = {}
        self.size_bytes = 0
        """A lower bound of the history's size: the text it holds, in characters."""
        self.touched: Touched | None = None
        """What has changed since somebody last asked; None: nobody wants to know."""
        self._by_id: dict[str, Message] = {}
        self._call_home: dict[str, tuple[Message, Message]] = {}
        self._pieces: dict[str, list[str]] = {}

    def apply(self, event: Mapping[str, Json]) -> None:
        """Fold one event in; events that say nothing about messages or state change nothing."""
        fold = _FOLDS.get(event["type"])
        if fold is not None:
            fold(self, event)

    def add_text(self, message_id: str, delta: str) -> None:
        """Fold in a delta of a text or of thoughts; of one that is not open it changes nothing."""
        pieces = self._pieces.get(message_id)
        if pieces is not None:
            pieces.append(delta)
            self.size_bytes += len(delta)

    def view(self) -> tuple[Message, ...]:
        """The messages as they stand; texts under way are joined. Not to be changed."""
        self._settle_pieces()
        return tuple(self.messages)

    def shown_to(self, owner: str | None) -> Sequence[Mapping[str, Json]]:
        """What an agent may see: the messages of its own run, or sub-run (`owner`), alone."""
        if owner is None:
            self._settle_pieces()
            return Shown(self.messages, len(self.messages))
        return tuple(m for m in self.view() if m.get("subagentRunId") == owner)

    def has(self, message_id: str) -> bool:
        return message_id in self._by_id

    def get(self, message_id: str) -> Message | None:
        """The message of this id, as it stands; not to be changed."""
        return self._by_id.get(message_id)

    @property
    def last_id(self) -> str | None:
        """The id of the last message; None: there is none."""
        return self.messages[-1]["id"] if self.messages else None

    def whole_part(self, message: Message) -> Message | None:
        """The message without what is still being streamed; itself, when that is nothing.

        None: there is nothing whole in it yet.
        """
        calls = message.get("toolCalls", [])
        whole = [call for call in calls if f"call {call['id']}" not in self._pieces]
        if message["id"] in self._pieces or not (whole or not calls):
            return None
        return message if len(whole) == len(calls) else {**message, "toolCalls": whole}

    def has_result(self, call_id: str) -> bool:
        """Whether a result of this call stands in the history."""
        return any(m.get("toolCallId") == call_id for m in self.messages)

    def role_of(self, message_id: str) -> str | None:
        """The role of the message of this id; None: there is none."""
        message = self._by_id.get(message_id)
        return None if message is None else str(message["role"])

    def content_of(self, message_id: str) -> Json:
        """What the message of this id holds; None: there is none."""
        message = self._by_id.get(message_id)
        return None if message is None else message["content"]

    def has_call(self, call_id: str) -> bool:
        return call_id in self._call_home

    def append(self, message: Message) -> None:
        """Add a whole message at the end; one whose id is there already is passed over."""
        if message["id"] in self._by_id:
            return
        self.messages.append(message)
        self._by_id[message["id"]] = message
        self._count(message.get("content"))
        self._touch(message["id"])

    def restore(self, messages: Iterable[Message]) -> None:
        """Take up messages in the order they once came; results find their places again."""
        for message in messages:
            home = self._call_home.get(message.get("toolCallId", ""))
            if message["role"] == "tool":
                place = self._place_of_result(home[0] if home else None)
                self.messages.insert(place, message)
                self._by_id[message["id"]] = message
                self._count(message["content"])
            else:
                self.append(message)
                self._settle_calls(message)

    def cut_behind(self, message_id: str | None) -> list[str]:
        """Let go of everything behind this message (None: of all); the ids of what has left."""
        if message_id is not None and message_id not in self._by_id:
            return []
        kept = 0 if message_id is None else self._index(self._by_id[message_id]) + 1
        gone = [message["id"] for message in self.messages[kept:]]
        self.replace(self.messages[:kept])
        return gone

    def replace(self, messages: Iterable[Message]) -> None:
        """Begin again from these messages (MESSAGES_SNAPSHOT)."""
        self.__init_messages()
        for message in messages:
            copy = dict(message)
            if "toolCalls" in copy:
                copy["toolCalls"] = [
                    {**call, "function": dict(call["function"])} for call in copy["toolCalls"]
                ]
            self.append(copy)
            self._settle_calls(copy)
        if self.touched is not None:
            self.touched.everything = True

    def cut_after(self, message_id: str) -> tuple[Message, ...] | None:
        """The history up to this message, with its results; None: there is no such message.

        A message with calls leaves or stays together with their results (C056).
        """
        index = next((i for i, m in enumerate(self.messages) if m["id"] == message_id), None)
        if index is None:
            return None
        end = index + 1
        while end < len(self.messages) and self.messages[end]["role"] == "tool":
            end += 1
        return self.view()[:end]

    # -- the fold, one method an event type --------------------------------------------------

    def _run_started(self, event: Mapping[str, Json]) -> None:
        for message in (event.get("input") or {}).get("messages", ()):
            self.append(dict(message))

    def _text_start(self, event: Mapping[str, Json]) -> None:
        self._open(event, event.get("role") or "assistant")

    def _reasoning_start(self, event: Mapping[str, Json]) -> None:
        self._open(event, "reasoning")

    def _text_content(self, event: Mapping[str, Json]) -> None:
        self.add_text(event["messageId"], event["delta"])

    def _text_end(self, event: Mapping[str, Json]) -> None:
        message = self._by_id.get(event["messageId"])
        if message is None or event["messageId"] not in self._pieces:
            return
        message["content"] = "".join(self._pieces.pop(event["messageId"]))
        if not message["content"] and message["role"] == "assistant" and "toolCalls" not in message:
            self._remove(message)

    def _call_start(self, event: Mapping[str, Json]) -> None:
        call_id = event["toolCallId"]
        home = self._by_id.get(event.get("parentMessageId") or "")
        if home is None or home["role"] != "assistant":
            home = _message(event, event.get("parentMessageId") or call_id, "assistant")
            self.append(home)
            home = self._by_id[home["id"]]
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": call_id, "type": "function", "function": function}
        home.setdefault("toolCalls", []).append(call)
        self._touch(home["id"])
        self._call_home[call_id] = (home, call)
        self._pieces[f"call {call_id}"] = []

    def _call_args(self, event: Mapping[str, Json]) -> None:
        pieces = self._pieces.get(f"call {event['toolCallId']}")
        if pieces is not None:
            pieces.append(event["delta"])
            self.size_bytes += len(event["delta"])

    def _call_end(self, event: Mapping[str, Json]) -> None:
        pieces = self._pieces.pop(f"call {event['toolCallId']}", None)
        if pieces is not None:
            self._call_home[event["toolCallId"]][1]["function"]["arguments"] = "".join(pieces)

    def _call_result(self, event: Mapping[str, Json]) -> None:
        message = _message(event, event["messageId"], "tool")
        message |= {"toolCallId": event["toolCallId"], "content": event["content"]}
        if "metadata" in event:
            message["metadata"] = event["metadata"]
        home = self._call_home.get(event["toolCallId"])
        if message["id"] in self._by_id:
            return
        self.messages.insert(self._place_of_result(home[0] if home else None), message)
        self._by_id[message["id"]] = message
        self._count(message["content"])
        self._touch(message["id"])

    def _encrypted(self, event: Mapping[str, Json]) -> None:
        home = self._call_home.get(event["entityId"])
        message, target = home if event.get("subtype") == "tool-call" and home else (None, None)
        if event.get("subtype") == "message":
            message = target = self._by_id.get(event["entityId"])
        if message is not None and target is not None:
            target["encryptedValue"] = event["encryptedValue"]
            self._touch(message["id"])

    def _activity(self, event: Mapping[str, Json]) -> None:
        old = self._by_id.get(event["messageId"])
        if old is not None and event.get("replace") is False:
            return
        message = _message(event, event["messageId"], "activity")
        message |= {"activityType": event["activityType"], "content": event["content"]}
        if old is None:
            self.append(message)
            return
        self.messages[self._index(old)] = message
        self._by_id[message["id"]] = message
        self._touch(message["id"])

    def _activity_delta(self, event: Mapping[str, Json]) -> None:
        message = self._by_id.get(event["messageId"])
        if message is None or message["role"] != "activity":
            return
        try:
            content = patched(message["content"], event["patch"])
        except UsageError:
            return
        if isinstance(content, dict):
            message["content"] = content
            self._touch(message["id"])

    def _state(self, event: Mapping[str, Json]) -> None:
        self.state = event["snapshot"]

    def _state_delta(self, event: Mapping[str, Json]) -> None:
        try:
            self.state = patched(self.state, event["delta"])
        except UsageError:
            return

    def _snapshot(self, event: Mapping[str, Json]) -> None:
        self.replace(event["messages"])

    # -- parts -------------------------------------------------------------------------------

    def _touch(self, message_id: str) -> None:
        if self.touched is not None:
            self.touched.names[message_id] = None

    def _settle_calls(self, message: Message) -> None:
        """Know the calls of a whole message."""
        for call in message.get("toolCalls", ()):
            self._call_home[call["id"]] = (message, call)
            self._count(call["function"]["arguments"])

    def __init_messages(self) -> None:
        self.messages, self._by_id = [], {}
        self._call_home, self._pieces = {}, {}
        self.size_bytes = 0

    def _open(self, event: Mapping[str, Json], role: str) -> None:
        if event["messageId"] in self._by_id:
            return
        message = _message(event, event["messageId"], role)
        message["content"] = ""
        self.append(message)
        self._pieces[message["id"]] = []

    def _settle_pieces(self) -> None:
        for key, pieces in self._pieces.items():
            if key.startswith("call "):
                function = self._call_home[key[5:]][1]["function"]
                function["arguments"] = "".join(pieces)
            else:
                self._by_id[key]["content"] = "".join(pieces)

    def _place_of_result(self, home: Message | None) -> int:
        if home is None:
            return len(self.messages)
        index = self._index(home) + 1
        while index < len(self.messages) and self.messages[index]["role"] == "tool":
            index += 1
        return index

    def _index(self, message: Message) -> int:
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index] is message:
                return index
        raise AssertionError("invariant: a message known by id stands in the list")

    def _remove(self, message: Message) -> None:
        del self.messages[self._index(message)]
        del self._by_id[message["id"]]
        self._touch(message["id"])

    def _count(self, content: Json) -> None:
        """Texts and the data of parts; what names their kinds is not counted."""
        if isinstance(content, str):
            self.size_bytes += len(content)
        elif isinstance(content, list):
            for part in content:
                self._count_part(part)

    def _count_part(self, part: Json) -> None:
        for key, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, dict):
                self._count_part(value)
            elif isinstance(value, str) and key not in ("type", "mimeType"):
                self.size_bytes += len(value)


_FOLDS: dict[str, Callable[[Transcript, Mapping[str, Json]], None]] = {
    "RUN_STARTED": Transcript._run_started,
    "TEXT_MESSAGE_START": Transcript._text_start,
    "TEXT_MESSAGE_CONTENT": Transcript._text_content,
    "TEXT_MESSAGE_END": Transcript._text_end,
    "REASONING_MESSAGE_START": Transcript._reasoning_start,
    "REASONING_MESSAGE_CONTENT": Transcript._text_content,
    "REASONING_MESSAGE_END": Transcript._text_end,
    "REASONING_ENCRYPTED_VALUE": Transcript._encrypted,
    "TOOL_CALL_START": Transcript._call_start,
    "TOOL_CALL_ARGS": Transcript._call_args,
    "TOOL_CALL_END": Transcript._call_end,
    "TOOL_CALL_RESULT": Transcript._call_result,
    "ACTIVITY_SNAPSHOT": Transcript._activity,
    "ACTIVITY_DELTA": Transcript._activity_delta,
    "STATE_SNAPSHOT": Transcript._state,
    "STATE_DELTA": Transcript._state_delta,
    "MESSAGES_SNAPSHOT": Transcript._snapshot,
}


def _message(event: Mapping[str, Json], message_id: str, role: str) -> Message:
    message: Message = {"id": message_id, "role": role}
    if event.get("subagentRunId") is not None:
        message["subagentRunId"] = event["subagentRunId"]
    return message


def broken_rules(messages: Sequence[Mapping[str, Json]]) -> list[str]:
    """What P1 forbids in this history; empty when it may be sent to a model.

    Every tool call has exactly one result, directly after its assistant message, in call order.
    Messages of sub-runs are counted apart, each owner by itself.
    """
    owners: dict[str | None, list[Mapping[str, Json]]] = {}
    for message in messages:
        owners.setdefault(message.get("subagentRunId"), []).append(message)
    return [rule for owned in owners.values() for rule in _broken_of_one(owned)]


def _broken_of_one(messages: list[Mapping[str, Json]]) -> list[str]:
    broken: list[str] = []
    awaited: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not awaited or awaited.pop(0) != message["toolCallId"]:
                broken.append(f"result of {message['toolCallId']} stands where it must not")
            continue
        broken += [f"call {call_id} has no result after its message" for call_id in awaited]
        awaited = [call["id"] for call in message.get("toolCalls") or ()]
    return broken + [f"call {call_id} has no result" for call_id in awaited]
