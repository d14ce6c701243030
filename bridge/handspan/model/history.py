"""A thread's messages as turns, such as every provider takes them.

Providers refuse a history in which a call has no result, or its results do not stand together right
behind it, in order. The thread keeps it so (P1), but what an agent is shown may have been shortened
or edited by hooks. So here it is made so once more, for all adapters: a call without a result gets
one that says so, a result without a call is left out, and so is what is empty.

Pure. Deliberately does not know any provider's form: an adapter spells each turn.
*Source:* behaviour.md 1 (P1); cases C048, C056 to C058, C160.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = [
    "Answer",
    "Asked",
    "Media",
    "ModelTurn",
    "ResultsTurn",
    "SystemTurn",
    "Text",
    "Thought",
    "Turn",
    "UserTurn",
    "described",
    "text_of",
    "turns",
]

NO_RESULT: Final = (
    '{"error":{"code":"outcome_unknown","message":"the result of this call is lost"}}'
)
"""What stands for a result that is not there; in the form of any failure (protocol.md 3)."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """What is no text: by its data (base64) or where it is."""

    kind: Literal["image", "audio", "video", "document"]
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None


Part = Text | Media


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model thought, and what its provider wants back unread; the text may be empty."""

    id: str
    text: str
    opaque: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that the model made; `arguments` is its own text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    call_id: str
    name: str
    parts: tuple[Part, ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class SystemTurn:
    """Instructions in the middle of a history; hooks put them there."""

    text: str


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user said; never empty."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What the model said: thoughts, then text, then calls. Not all of it is empty.

    With calls, a ResultsTurn follows at once that answers each of them, in order.
    """

    thoughts: tuple[Thought, ...] = ()
    text: str = ""
    calls: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultsTurn:
    """One answer to each call of the turn before, in its order."""

    answers: tuple[Answer, ...]


Turn = SystemTurn | UserTurn | ModelTurn | ResultsTurn


def turns(messages: Sequence[Any]) -> list[Turn]:
    """The history of `run.messages` (ag_ui.core messages) as turns."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    return list(_turns(messages, results))


def _turns(messages: Iterable[Any], results: dict[str, Any]) -> Iterator[Turn]:
    thoughts: list[Thought] = []
    for message in messages:
        match message.role:
            case "reasoning":
                thoughts.append(_thought(message))
            case "assistant":
                yield from _model_turns(message, tuple(thoughts), results)
                thoughts = []
            case "user":
                yield from _alone(thoughts)
                thoughts = []
                yield from _user_turn(message)
            case "system" | "developer":
                yield from [SystemTurn(message.content)] if message.content else []
    yield from _alone(thoughts)


def _alone(thoughts: list[Thought]) -> Iterator[Turn]:
    """Thoughts after which nothing was said."""
    if thoughts:
        yield ModelTurn(thoughts=tuple(thoughts))


def _model_turns(
    message: Any, thoughts: tuple[Thought, ...], results: dict[str, Any]
) -> Iterator[Turn]:
    calls = tuple(
        Asked(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()
    )
    text = message.content or ""
    if thoughts or text.strip() or calls:
        yield ModelTurn(thoughts, text if text.strip() else "", calls)
    if calls:
        yield ResultsTurn(tuple(_answer(call, results.get(call.id)) for call in calls))


def _user_turn(message: Any) -> Iterator[Turn]:
    parts = parts_of(message.content)
    if parts:
        yield UserTurn(parts)


def _thought(message: Any) -> Thought:
    return Thought(message.id, message.content or "", message.encrypted_value)


def _answer(call: Asked, message: Any) -> Answer:
    if message is None:
        return Answer(call.id, call.name, (Text(NO_RESULT),), failed=True)
    told = (message.metadata or {}).get("handspan", {})
    failed = message.error is not None or told.get("outcome", "ok") != "ok"
    return Answer(call.id, call.name, parts_of(message.content), failed)


def parts_of(content: Any) -> tuple[Part, ...]:
    """The parts that are not empty."""
    if isinstance(content, str):
        return (Text(content),) if content.strip() else ()
    return tuple(part for each in content or () for part in _part(each))


def _part(part: Any) -> Iterator[Part]:
    if part.type == "text":
        yield from [Text(part.text)] if part.text.strip() else []
        return
    source = part.source
    mime_type = source.mime_type
    if source.type == "data":
        yield Media(part.type, mime_type, data=source.value)
    elif source.type == "url":
        yield Media(part.type, mime_type, url=source.value)
    else:
        yield Text(f"[{part.type}: a file of {source.provider or 'another provider'}]")


def described(part: Part) -> str:
    """A text for a part that the reader cannot take."""
    if isinstance(part, Text):
        return part.text
    kind = part.mime_type or part.kind
    return f"[{kind} at {part.url}]" if part.url else f"[{kind}, {_bytes(part)} bytes]"


def _bytes(part: Media) -> int:
    data = part.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=")


def text_of(parts: Iterable[Part]) -> str:
    """All of it as one text; what is no text is described."""
    return "\n".join(described(part) for part in parts)
