"""Chat completions: the request for a step, and what its stream says.

The form that most servers speak (OpenAI, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter, ...), each
a little differently: the reading takes what any of them sends. Pure, and without a library:
chunks are JSON objects. Above sit the adapters that send the request.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from handspan.core.arguments import BadArguments, parse_arguments

from .assembler import Assembler
from .history import (
    Answer,
    Media,
    ModelTurn,
    ResultsTurn,
    SystemTurn,
    Text,
    UserTurn,
    described,
    text_of,
    turns,
)
from .names import Names, call_id_of
from .narrow import as_object, plain
from .prompt import instructions_of
from .thinking import Thinking, opened, sealed
from .usage import counts, part

Json = Any
Message = dict[str, Any]

ADAPTER: Final = "chat"
"""Whose sealed thoughts these are."""

ID_MOST: Final = 40
"""Characters of a call's id. *Source:* OpenAI's answer to a longer one."""

_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where servers put thoughts: DeepSeek and vLLM, OpenRouter and Groq."""

_REASONS: Final[Mapping[str, str]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "eos": "stop",
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "error": "error",
}
"""What servers call the end of a turn, in our words; what is not here is unknown, so not whole."""


WHOLE: Final = ("stop", "tool_calls")
"""Ends of a turn that was not cut; one that was cut stays so, whatever comes behind."""

_NONE: Final = object()


# ---- the request -----------------------------------------------------------------------------


def request_of(
    run: Any,
    names: Names,
    *,
    instructions: str = "",
    narrowest: bool = False,
    options: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """`messages`, `tools` and the options of one request; without tools nothing is said of them.

    `narrowest`: schemas with the keywords alone that every server knows.
    """
    request: dict[str, Json] = {"messages": list(_messages(run, names, instructions))}
    tools = [_tool(tool, names, narrowest) for tool in run.tools]
    return with_tools(request, tools, options or {})


def with_tools(
    request: Mapping[str, Json], tools: list[Message], options: Mapping[str, Json]
) -> dict[str, Json]:
    """A request with its tools and options, of which one that is None is left out.

    Without tools nothing is said of them, whatever the options say (C159).
    """
    said = {key: value for key, value in options.items() if value is not None}
    if tools:
        return {**request, "tools": tools, **said}
    about_tools = ("tools", "tool_choice", "parallel_tool_calls")
    return {**request, **{key: said[key] for key in said if key not in about_tools}}


def _tool(tool: Any, names: Names, narrowest: bool) -> Message:
    function = {
        "name": names.theirs(tool.name),
        "description": tool.description,
        "parameters": (plain if narrowest else as_object)(tool.parameters),
    }
    return {"type": "function", "function": function}


def _messages(run: Any, names: Names, instructions: str) -> Iterator[Message]:
    told = instructions_of(run, instructions)
    if told:
        yield {"role": "system", "content": told}
    for turn in turns(run.messages):
        match turn:
            case SystemTurn(text):
                yield {"role": "system", "content": text}
            case UserTurn(parts):
                yield {"role": "user", "content": _content(parts)}
            case ModelTurn():
                yield from _model(turn, names)
            case ResultsTurn(answers):
                yield from map(_result, answers)


def _model(turn: ModelTurn, names: Names) -> Iterator[Message]:
    """Thoughts alone are nothing that was said."""
    if not (turn.text or turn.calls):
        return
    message: Message = {"role": "assistant", "content": turn.text or None}
    for thought in turn.thoughts:
        message |= opened(ADAPTER, thought.opaque) or {}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call_id_of(call.id, ID_MOST),
                "type": "function",
                "function": {
                    "name": names.theirs(call.name),
                    "arguments": object_text(call.arguments),
                },
            }
            for call in turn.calls
        ]
    yield message


def object_text(arguments: str) -> str:
    """The text of a call's arguments as it was, where it is an object; else {} (behaviour.md 2)."""
    parsed = parse_arguments(arguments)
    return "{}" if isinstance(parsed, BadArguments) or not arguments.strip() else arguments


def _result(answer: Answer) -> Message:
    return {
        "role": "tool",
        "tool_call_id": call_id_of(answer.call_id, ID_MOST),
        "content": text_of(answer.parts),
    }


def _content(parts: Iterable[Text | Media]) -> str | list[Json]:
    shown = [_part(part) for part in parts]
    if len(shown) == 1 and shown[0]["type"] == "text":
        text: str = shown[0]["text"]
        return text
    return shown


def _part(part: Text | Media) -> dict[str, Json]:
    if isinstance(part, Media):
        url = part.url or f"data:{part.mime_type};base64,{part.data}"
        if part.kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        if part.mime_type == "application/pdf" and part.data:
            return {"type": "file", "file": {"filename": "document.pdf", "file_data": url}}
        kind = _AUDIO.get(part.mime_type or "")
        if kind and part.data:
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": kind}}
    return {"type": "text", "text": described(part)}


_AUDIO: Final[Mapping[str, str]] = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


# ---- the stream ------------------------------------------------------------------------------


class Reader:
    """Reads one turn's chunks; what comes out are items of an agent.

    `name` is the turn's own, for its thoughts.
    """

    def __init__(self, names: Names, name: str) -> None:
        self.finish_reason: str | None = None
        """When the turn has ended: in our words; None as long as the server gave none."""
        self.usage: Mapping[str, Json] = {}
        """Arguments for `run.count_usage`."""
        self._choice: Json = _NONE
        self._names = names
        self._calls = Assembler()
        self._thinking = Thinking(name)
        self._details: list[Json] = []
        self._thought_in: dict[str, list[str]] = {}

    def feed(self, chunk: Mapping[str, Json]) -> Iterator[Any]:
        """The items of one chunk."""
        if isinstance(chunk.get("usage"), Mapping):
            self.usage = _usage(chunk["usage"])
        for choice in self._mine(chunk.get("choices") or ()):
            delta = choice.get("delta")
            yield from self._delta((choice.get("message") if delta is None else delta) or {})
            reason = choice.get("finish_reason")
            if reason and self.finish_reason in (None, *WHOLE):
                self.finish_reason = _REASONS.get(reason, "unknown")

    def _mine(self, choices: Sequence[Mapping[str, Json]]) -> Iterable[Mapping[str, Json]]:
        """Of several answers the first one that spoke."""
        if choices and self._choice is _NONE:
            self._choice = choices[0].get("index") or 0
        return [each for each in choices if (each.get("index") or 0) == self._choice][:1]

    def end(self) -> Iterator[Any]:
        """The stream is over: what is open is ended. A turn without an end was cut off."""
        yield from self._thinking.end()
        kept = self._kept()
        if kept:
            yield from self._thinking.seal(sealed(ADAPTER, kept))
        if self.finish_reason is None:
            self.finish_reason = "unknown"
        yield from self._calls.end()

    def _delta(self, delta: Mapping[str, Json]) -> Iterator[Any]:
        yield from self._thoughts(delta)
        text = delta.get("content") or delta.get("refusal")
        if isinstance(text, list):
            text = "".join(part.get("text") or "" for part in text if isinstance(part, Mapping))
        if text:
            yield from self._thinking.end()
            yield text
        for fragment in _fragments(delta):
            yield from self._thinking.end()
            yield from self._call(fragment)

    def _thoughts(self, delta: Mapping[str, Json]) -> Iterator[Any]:
        for field in _THOUGHTS:
            thought = delta.get(field)
            if isinstance(thought, str) and thought:
                self._thought_in.setdefault(field, []).append(thought)
                yield from self._thinking.say(thought)
                break
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:
            yield from self._thinking.begin()
            self._details += details

    def _call(self, fragment: Mapping[str, Json]) -> Iterator[Any]:
        function = fragment.get("function") or {}
        name = function.get("name")
        yield from self._calls.feed(
            index=fragment.get("index"),
            call_id=fragment.get("id"),
            name=self._names.own(name) if isinstance(name, str) else None,
            arguments=function.get("arguments"),
        )

    def _kept(self) -> dict[str, Json]:
        """What the server wants back with this turn: its details, or thoughts where it put them."""
        if self._details:
            return {"reasoning_details": _joined(self._details)}
        field = next(iter(self._thought_in), None)
        return {} if field is None else {field: "".join(self._thought_in[field])}


def _fragments(delta: Mapping[str, Json]) -> Iterable[Mapping[str, Json]]:
    """Of calls; the older `function_call` counts where there is nothing else: some send both."""
    function = delta.get("function_call")
    older = [{"index": 0, "function": function}] if isinstance(function, Mapping) else []
    return delta.get("tool_calls") or older


def _joined(details: Iterable[Json]) -> list[Json]:
    """Details as they were before they were cut: pieces of one index are one."""
    whole: list[Json] = []
    places: dict[Json, int] = {}
    for piece in details:
        index = piece.get("index") if isinstance(piece, Mapping) else None
        at = None if index is None else places.get((index, piece.get("type")))
        if at is None:
            if index is not None:
                places[index, piece.get("type")] = len(whole)
            whole.append(dict(piece) if isinstance(piece, Mapping) else piece)
        else:
            _add(whole[at], piece)
    return whole


def _add(whole: dict[str, Json], piece: Mapping[str, Json]) -> None:
    for key, value in piece.items():
        grows = key in ("text", "summary", "data") and isinstance(whole.get(key), str)
        if grows and isinstance(value, str):
            whole[key] += value
        elif value is not None:
            whole[key] = value


def _usage(usage: Mapping[str, Json]) -> dict[str, int]:
    into, out = part(usage, "prompt_tokens_details"), part(usage, "completion_tokens_details")
    told = {
        "input_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "cached_input_tokens": into.get("cached_tokens"),
        "reasoning_tokens": out.get("reasoning_tokens"),
    }
    return counts(told)


__all__ = ["WHOLE", "Reader", "object_text", "request_of", "with_tools"]
