"""Anthropic's models, behind the Messages API.

    Anthropic("claude-sonnet-4-5")

Results stand together, first, in one user message. Thinking comes signed and goes back as it came.
*Source:* Anthropic's API reference, "Messages", "Streaming", "Extended thinking"; case C160.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from anthropic import AsyncAnthropic, AsyncStream, DefaultAsyncHttpxClient

from handspan.core.arguments import BadArguments, parse_arguments
from handspan.model.assembler import Assembler
from handspan.model.chat import WHOLE, with_tools
from handspan.model.history import (
    Answer,
    Asked,
    Media,
    ModelTurn,
    ResultsTurn,
    SystemTurn,
    Text,
    Turn,
    UserTurn,
    described,
    turns,
)
from handspan.model.keys import check_reach, key_of
from handspan.model.names import Names, call_id_of
from handspan.model.narrow import as_object
from handspan.model.patience import Patience, Provider
from handspan.model.prompt import instructions_of
from handspan.model.thinking import Thinking, opened, sealed
from handspan.model.usage import counts, part

Json = Any
Block = dict[str, Any]

ADAPTER: Final = "anthropic"
"""Whose sealed thoughts these are."""

MAX_TOKENS: Final = 8_192
"""Of one turn, when nothing else was said; the API wants a number."""

BEGIN: Final = "(The user did something in the page.)"
"""Before a history that does not begin with the user: a button's. The API wants the user first."""

GO_ON: Final = "Go on."
"""Behind a history that ends with the model: newer models refuse to continue their own words."""

_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class Anthropic:
    """An agent that is one of Anthropic's models.

    `max_tokens`: of one turn. `instructions`: what the model is told before the history. `options`:
    further fields of every request (`thinking`, `temperature`, ...). `client`: an AsyncAnthropic of
    yours (Bedrock's and Vertex' too), in place of one made here.

    Raises:
        UsageError: there is no key (ANTHROPIC_API_KEY, or `api_key`), or what was given cannot
            work.
    """

    def __init__(
        self,
        model: str,
        *,
        max_tokens: int = MAX_TOKENS,
        base_url: str | None = None,
        api_key: str | None = None,
        instructions: str = "",
        options: Mapping[str, Json] | None = None,
        patience: Patience | None = None,
        client: Any = None,
    ) -> None:
        check_reach("Anthropic", AsyncAnthropic, client, base_url, api_key)
        self.model = model
        self.instructions = instructions
        self._client = (client or _client(base_url, api_key)).with_options(max_retries=0)
        self._options = {"max_tokens": max_tokens, **(options or {})}
        secrets = [key for key in [getattr(self._client, "api_key", None)] if key]
        self._provider = Provider("Anthropic", secrets, patience)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        names = Names(tool.name for tool in run.tools)
        reader = Reader(names, f"{run.id}.{run.depth}")
        request = {"model": self.model, **self._request(run, names)}
        said: Any = self._provider.items(run, request, self._send, reader)
        async with aclosing(said):
            async for item in said:
                yield item
        run.finish_reason = reader.finish_reason
        run.count_usage(provider="Anthropic", model=self.model, **reader.usage)

    def _request(self, run: Any, names: Names) -> dict[str, Json]:
        history = turns(run.messages)
        request: dict[str, Json] = {"messages": messages_of(history, names)}
        told = [instructions_of(run, self.instructions)]
        told += [turn.text for turn in history if isinstance(turn, SystemTurn)]
        if any(told):
            request["system"] = "\n\n".join(text for text in told if text)
        tools = [_tool(tool, names) for tool in run.tools]
        return with_tools(request, tools, self._options)

    async def _send(self, request: Mapping[str, Json]) -> Any:
        """Raw events: the library's own objects would cost more than all else that is done."""
        return await self._client.post(
            "/v1/messages",
            body={**request, "stream": True},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )


def _client(base_url: str | None, api_key: str | None) -> AsyncAnthropic:
    """Its time-outs and retries are ours: see `model.patience`. A history goes to no other host."""
    key = key_of("Anthropic", "ANTHROPIC_API_KEY", api_key)
    return AsyncAnthropic(
        base_url=base_url,
        api_key=key,
        timeout=None,
        http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=None),
    )


# ---- the request -----------------------------------------------------------------------------


def _tool(tool: Any, names: Names) -> Block:
    return {
        "name": names.theirs(tool.name),
        "description": tool.description,
        "input_schema": as_object(tool.parameters),
    }


def messages_of(history: Iterable[Turn], names: Names) -> list[Block]:
    """The history in turns of user and model, the user's first and last."""
    messages: list[Block] = []
    for turn in history:
        role, blocks = _spelled(turn, names)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    if not messages or messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [_text(BEGIN)]})
    if messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": [_text(GO_ON)]})
    return messages


def _spelled(turn: Turn, names: Names) -> tuple[str, list[Block]]:
    match turn:
        case UserTurn(parts):
            return "user", [_part(part) for part in parts]
        case ResultsTurn(answers):
            return "user", [_result(answer) for answer in answers]
        case ModelTurn():
            return "assistant", list(_model(turn, names))
    return "user", []


def _model(turn: ModelTurn, names: Names) -> Iterator[Block]:
    """Thoughts alone are nothing that was said."""
    if not (turn.text or turn.calls):
        return
    for thought in turn.thoughts:
        block = opened(ADAPTER, thought.opaque)
        if block is not None:
            yield block
    if turn.text:
        yield _text(turn.text)
    for call in turn.calls:
        yield {
            "type": "tool_use",
            "id": call_id_of(call.id),
            "name": names.theirs(call.name),
            "input": _input(call),
        }


def _input(call: Asked) -> dict[str, Json]:
    """The API wants an object, also where the model wrote none (behaviour.md 2)."""
    parsed = parse_arguments(call.arguments)
    return {} if isinstance(parsed, BadArguments) else dict(parsed)


def _result(answer: Answer) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call_id_of(answer.call_id)}
    content = [_part(part) for part in answer.parts]
    if content:
        block["content"] = content
    return {**block, "is_error": True} if answer.failed else block


def _part(part: Text | Media) -> Block:
    if isinstance(part, Media):
        if part.kind == "image" and (part.url or part.mime_type in _IMAGES):
            return {"type": "image", "source": _source(part)}
        if part.kind == "document" and (part.url or part.mime_type == "application/pdf"):
            return {"type": "document", "source": _source(part)}
    return _text(described(part))


def _source(part: Media) -> Block:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.mime_type, "data": part.data}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


# ---- the stream ------------------------------------------------------------------------------


class Reader:
    """Reads one message's events; what comes out are items of an agent."""

    def __init__(self, names: Names, name: str) -> None:
        self.finish_reason: str | None = None
        self.usage: dict[str, int] = {}
        self._names = names
        self._calls = Assembler()
        self._thinking = Thinking(name)
        self._blocks: dict[Any, Block] = {}
        """Of thoughts: as they go back, by their index."""
        self._foreign: set[Any] = set()
        """Indexes of blocks that are no business of ours: tools of the provider's own."""

    def feed(self, event: Mapping[str, Json]) -> Iterable[Any]:
        """The items of one event; of kinds that are not known none."""
        take = _TAKES.get(event.get("type") or "")
        return () if take is None else take(self, event)

    def end(self) -> Iterator[Any]:
        """The stream is over; a message that never ended was cut off."""
        yield from self._thinking.end()
        yield from self._calls.end()
        if self.finish_reason is None:
            self.finish_reason = "unknown"

    def _message(self, event: Mapping[str, Json]) -> Iterable[Any]:
        self._count(part(part(event, "message"), "usage"))
        return ()

    def _block(self, event: Mapping[str, Json]) -> Iterator[Any]:
        block = event.get("content_block") or {}
        for index in list(self._blocks):
            yield from self._thought_over(index)
        match block.get("type"):
            case "tool_use":
                yield from self._calls.feed(
                    index=event.get("index"),
                    call_id=block.get("id"),
                    name=self._names.own(block.get("name") or ""),
                    arguments=block.get("input") or None,
                )
            case "thinking" | "redacted_thinking":
                self._blocks[event.get("index")] = dict(block)
                yield from self._thinking.begin()
                yield from self._thinking.say(block.get("thinking") or "")
            case "text":
                yield block.get("text") or ""
            case _:
                self._foreign.add(event.get("index"))

    def _delta(self, event: Mapping[str, Json]) -> Iterator[Any]:
        delta, index = event.get("delta") or {}, event.get("index")
        match delta.get("type"):
            case "text_delta":
                yield delta.get("text") or ""
            case "input_json_delta" if index not in self._foreign:
                yield from self._calls.feed(index=index, arguments=delta.get("partial_json"))
            case "thinking_delta":
                self._add(index, "thinking", delta)
                yield from self._thinking.say(delta.get("thinking") or "")
            case "signature_delta":
                self._add(index, "signature", delta)

    def _add(self, index: Any, field: str, delta: Mapping[str, Json]) -> None:
        block = self._blocks.setdefault(index, {"type": "thinking", "thinking": ""})
        block[field] = (block.get(field) or "") + (delta.get(field) or "")

    def _block_over(self, event: Mapping[str, Json]) -> Iterator[Any]:
        index = event.get("index")
        if index in self._blocks:
            yield from self._thought_over(index)
        elif index is not None:
            yield from self._calls.end_at(index)

    def _thought_over(self, index: Any) -> Iterator[Any]:
        """Without a signature they are refused, and so is every later request."""
        block = self._blocks.pop(index)
        is_signed = block.get("type") == "redacted_thinking" or block.get("signature")
        return self._thinking.end(sealed(ADAPTER, block) if is_signed else None)

    def _message_over(self, event: Mapping[str, Json]) -> Iterable[Any]:
        self._count(part(event, "usage"))
        reason = (event.get("delta") or {}).get("stop_reason")
        if reason and self.finish_reason in (None, *WHOLE):
            self.finish_reason = _REASONS.get(reason, "unknown")
        return ()

    def _count(self, usage: Mapping[str, Json]) -> None:
        """Later counts stand for the whole message so far."""
        self.usage |= counts({ours: usage.get(theirs) for theirs, ours in _USAGE.items()})


_USAGE: Final[Mapping[str, str]] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_input_tokens",
    "cache_creation_input_tokens": "cache_write_input_tokens",
}

_TAKES: Final[Mapping[str, Callable[[Reader, Mapping[str, Json]], Iterable[Any]]]] = {
    "message_start": Reader._message,
    "content_block_start": Reader._block,
    "content_block_delta": Reader._delta,
    "content_block_stop": Reader._block_over,
    "message_delta": Reader._message_over,
}
