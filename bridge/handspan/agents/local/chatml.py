"""A conversation with tools as the text that a model of the ChatML kind goes on from.

The form is that of llama.cpp's `chatml-function-calling`: the model begins its turn with
`functions.NAME:` and a call's arguments, or with `message:` and a text. It is spelled here since
the library's own handler streams no automatic choice, shows a model neither what a tool is for nor
what came of a call, and escapes what the user said as if it were HTML (llama-cpp-python 0.3.36).

Pure: a request of chat completions in, turns out. Deliberately knows no tokens: see `engine`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from handspan_protocol.codec import encode

Json = Any
Message = Mapping[str, Json]

MESSAGE: Final = "message:"
"""How a turn begins that is a text."""

NEXT: Final = "\n"
"""Between the calls of a turn."""

NOTHING_TOLD: Final = "You are a helpful assistant."
"""Where neither instructions nor tools are; models of this kind expect a system turn."""

HOW: Final = (
    "To call one, answer functions.NAME: and its arguments."
    " To say something, answer message: and a text."
)
"""Told when no example shows it."""


class Turn(NamedTuple):
    """One turn of the text: who, and what."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An exchange as it should go, shown to the model before the conversation.

    `says`: the user's message. `call` and `args`: the call it leads to; shown only where there is
    such a tool. `result` and `answer`: what comes of the call, and what is then said. Without a
    call: the answer alone.
    """

    says: str
    call: str = ""
    args: Mapping[str, Json] = field(default_factory=dict)
    result: Json = None
    answer: str = ""


def beginning_of(tool: str) -> str:
    """How a turn begins that is a call of this tool."""
    return f"functions.{tool}:"


def begun(beginning: str) -> str:
    """The text of a turn up to what is the model's own."""
    return f"{beginning}\n"


def head_of(request: Mapping[str, Json], examples: Iterable[Example] = ()) -> list[Turn]:
    """What stands before the conversation: instructions, tools, examples."""
    tools = [tool["function"] for tool in request.get("tools") or ()]
    names = {tool["name"] for tool in tools}
    shown = [each for each in examples if not each.call or each.call in names]
    told = "\n\n".join(filter(None, [_leading(request["messages"]), *_listing(tools, shown)]))
    system = [Turn("system", told or NOTHING_TOLD)]
    return system + [turn for example in shown for turn in _exchange(example, bool(tools))]


def exchanges_of(request: Mapping[str, Json]) -> list[list[Turn]]:
    """The conversation; each exchange begins with what the user said, but perhaps the first."""
    messages = list(request["messages"])
    rest = messages[1:] if _leading(messages) else messages
    exchanges: list[list[Turn]] = []
    for message in rest:
        if message["role"] == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1] += _turns(message, has_tools=bool(request.get("tools")))
    return [exchange for exchange in exchanges if exchange]


def _leading(messages: Sequence[Message]) -> str:
    first = messages[0] if messages else {"role": ""}
    return _text(first["content"]) if first["role"] == "system" else ""


def _listing(tools: Sequence[Message], examples: Sequence[Example]) -> Iterator[str]:
    """The tools; one that no example shows with the names of its parameters."""
    if not tools:
        return
    shown = {example.call for example in examples}
    lines = (f"{_signature(tool, shown)}: {tool['description']}" for tool in tools)
    yield "\n".join(["You can call these functions:", *lines])
    if not shown - {""}:
        yield HOW


def _signature(tool: Message, shown: set[str]) -> str:
    name = str(tool["name"])
    return name if name in shown else f"{name}({', '.join(tool['parameters']['properties'])})"


def _exchange(example: Example, has_tools: bool) -> Iterator[Turn]:
    yield Turn("user", example.says)
    if example.call:
        yield Turn("assistant", _call(example.call, _json(example.args)))
    if example.call and example.answer:
        result = example.result
        yield _result(result if isinstance(result, str) else encode(result).decode())
    if example.answer:
        yield Turn("assistant", _said(example.answer, has_tools))


def _turns(message: Message, has_tools: bool) -> Iterator[Turn]:
    text = _text(message.get("content"))
    match message["role"]:
        case "tool":
            yield _result(text)
        case "assistant":
            yield from [Turn("assistant", _said(text, has_tools))] if text else []
            functions = [call["function"] for call in message.get("tool_calls") or ()]
            calls = [_call(function["name"], function["arguments"]) for function in functions]
            yield from [Turn("assistant", NEXT.join(calls))] if calls else []
        case role:
            yield Turn(str(role), text)


def _said(text: str, has_tools: bool) -> str:
    return begun(MESSAGE) + text if has_tools else text


def _call(name: str, arguments: str) -> str:
    return begun(beginning_of(name)) + arguments


def _result(text: str) -> Turn:
    """As the user's, since ChatML has no turn for it."""
    return Turn("user", f"Result: {text}")


def _json(args: Mapping[str, Json]) -> str:
    """Spaced as the grammar of arguments does."""
    return json.dumps(dict(args), ensure_ascii=False)


def _text(content: Json) -> str:
    """What is no text is named."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part['type']}]" for part in content or ())
