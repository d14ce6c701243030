"""Models behind OpenAI's Responses API.

    OpenAIResponses("gpt-5-mini")

The provider stores nothing (`store` is false): each request carries the whole history, a call and
its output together (C162). Items of reasoning come encrypted and go back as they came.
*Source:* OpenAI's API reference, "Responses" and "Streaming events".
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from openai import AsyncOpenAI, AsyncStream, BadRequestError, DefaultAsyncHttpxClient

from handspan.model.assembler import Assembler
from handspan.model.chat import object_text, with_tools
from handspan.model.failures import ProviderFailed
from handspan.model.history import (
    Answer,
    Media,
    ModelTurn,
    ResultsTurn,
    SystemTurn,
    Text,
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
Item = dict[str, Any]
Key = tuple[str, int | str, int | str]

ADAPTER: Final = "openai-responses"
"""Whose sealed thoughts these are."""

ENCRYPTED: Final = "reasoning.encrypted_content"
"""What is asked for, so that reasoning can go back; models that do not reason refuse it."""


class OpenAIResponses:
    """An agent that is a model behind the Responses API.

    `instructions`, `options`, `client`, `patience` and `base_url` are as of `OpenAIChat`.

    Raises:
        UsageError: there is no key (OPENAI_API_KEY, or `api_key`), or what was given cannot work.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        instructions: str = "",
        options: Mapping[str, Json] | None = None,
        patience: Patience | None = None,
        client: AsyncOpenAI | None = None,
    ) -> None:
        check_reach("OpenAIResponses", AsyncOpenAI, client, base_url, api_key)
        self.model = model
        self.instructions = instructions
        self._client = (client or _client(base_url, api_key)).with_options(max_retries=0)
        self._options = {"store": False, "include": [ENCRYPTED], **(options or {})}
        self._provider = Provider("OpenAI", [self._client.api_key], patience)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        names = Names(tool.name for tool in run.tools)
        reader = Reader(names, f"{run.id}.{run.depth}")
        request = {"model": self.model, **self._request(run, names)}
        said: Any = self._provider.items(run, request, self._send, reader)
        async with aclosing(said):
            async for item in said:
                yield item
        run.finish_reason = reader.finish_reason
        run.count_usage(provider="OpenAI", model=self.model, **reader.usage)

    def _request(self, run: Any, names: Names) -> dict[str, Json]:
        request: dict[str, Json] = {"input": list(_input(run, names))}
        told = instructions_of(run, self.instructions)
        if told:
            request["instructions"] = told
        tools = [_tool(tool, names) for tool in run.tools]
        return with_tools(request, tools, self._options)

    async def _send(self, request: Mapping[str, Json]) -> Any:
        try:
            return await self._post(request)
        except BadRequestError as refused:
            if "encrypted content" not in str(refused).lower() or "include" not in request:
                raise
        self._options.pop("include", None)
        fewer = {key: value for key, value in request.items() if key != "include"}
        return await self._post(fewer)

    async def _post(self, request: Mapping[str, Json]) -> Any:
        """Raw events: building the library's own takes it seconds once, and much each time."""
        return await self._client.post(
            "/responses",
            body={**request, "stream": True},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )


def _client(base_url: str | None, api_key: str | None) -> AsyncOpenAI:
    """Its time-outs and retries are ours: see `model.patience`. A history goes to no other host."""
    key = key_of("OpenAIResponses", "OPENAI_API_KEY", api_key)
    return AsyncOpenAI(
        base_url=base_url,
        api_key=key,
        timeout=None,
        http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=None),
    )


# ---- the request -----------------------------------------------------------------------------


def _tool(tool: Any, names: Names) -> Item:
    return {
        "type": "function",
        "name": names.theirs(tool.name),
        "description": tool.description,
        "parameters": as_object(tool.parameters),
        "strict": False,
    }


def _input(run: Any, names: Names) -> Iterator[Item]:
    for turn in turns(run.messages):
        match turn:
            case SystemTurn(text):
                yield {"role": "developer", "content": text}
            case UserTurn(parts):
                yield {"role": "user", "content": list(map(_part, parts))}
            case ModelTurn():
                yield from _model(turn, names)
            case ResultsTurn(answers):
                yield from map(_output, answers)


def _model(turn: ModelTurn, names: Names) -> Iterator[Item]:
    """Reasoning must be followed by what it led to; alone it is refused."""
    if not (turn.text or turn.calls):
        return
    for thought in turn.thoughts:
        item = opened(ADAPTER, thought.opaque)
        if item is not None:
            yield item
    if turn.text:
        yield {"role": "assistant", "content": turn.text}
    for call in turn.calls:
        yield {
            "type": "function_call",
            "call_id": call_id_of(call.id),
            "name": names.theirs(call.name),
            "arguments": object_text(call.arguments),
        }


def _output(answer: Answer) -> Item:
    parts = list(map(_part, answer.parts))
    only_text = all(part["type"] == "input_text" for part in parts)
    output: Json = "\n".join(part["text"] for part in parts) if only_text else parts
    return {"type": "function_call_output", "call_id": call_id_of(answer.call_id), "output": output}


def _part(part: Text | Media) -> Item:
    if isinstance(part, Media):
        url = part.url or f"data:{part.mime_type};base64,{part.data}"
        if part.kind == "image":
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if part.kind == "document" and part.url:
            return {"type": "input_file", "file_url": url}
        if part.mime_type == "application/pdf":
            return {"type": "input_file", "filename": "document.pdf", "file_data": url}
    return {"type": "input_text", "text": described(part)}


# ---- the stream ------------------------------------------------------------------------------


CALL: Final = "call"
"""In a key: the item is a call, which has one part."""


class Reader:
    """Reads one response's events; what comes out are items of an agent."""

    def __init__(self, names: Names, name: str) -> None:
        self.finish_reason: str | None = None
        self.usage: Mapping[str, Json] = {}
        self._names = names
        self._calls = Assembler()
        self._thinking = Thinking(name)
        self._open: dict[Json, Json] = {}
        """Calls that have begun and not ended: their ids, by where they stand."""
        self._came: set[Key] = set()
        """Parts of messages, and calls, of which something came."""
        self._words = ""
        """All text that came."""

    def feed(self, event: Mapping[str, Json]) -> Iterable[Any]:
        """The items of one event; of kinds that are not known none."""
        take = _TAKES.get(event.get("type") or "")
        return () if take is None else take(self, event)

    def end(self) -> Iterator[Any]:
        """The stream is over; a response that never ended was cut off."""
        yield from self._thinking.end()
        yield from self._calls.end()
        if self.finish_reason is None:
            self.finish_reason = "unknown"

    def _text(self, event: Mapping[str, Json]) -> Iterator[Any]:
        yield from self._thinking.end()
        self._came |= _keys(event.get("output_index"), event.get("item_id"), _part_of(event))
        delta = event.get("delta") or ""
        self._words += delta
        yield delta

    def _text_whole(self, event: Mapping[str, Json]) -> Iterator[Any]:
        """All of it once more; or for the first time."""
        keys = _keys(event.get("output_index"), event.get("item_id"), _part_of(event))
        text = event.get("text") or event.get("refusal") or ""
        if text and not keys & self._came and text.strip() not in self._words:
            yield from self._text({**event, "delta": text})

    def _message(self, place: Json, item: Mapping[str, Json]) -> Iterator[Any]:
        """Its parts of which nothing came. Some servers name an item anew each time, so what was
        said in the same words is no other part."""
        for number, each in enumerate(_objects(item.get("content"))):
            named = {"output_index": place, "item_id": item.get("id"), "content_index": number}
            yield from self._text_whole({**each, **named})

    def _thought(self, event: Mapping[str, Json]) -> Iterator[Any]:
        return self._thinking.say(event.get("delta") or "")

    def _thought_part(self, event: Mapping[str, Json]) -> Iterator[Any]:
        """A further part of a summary is a further paragraph."""
        return self._thinking.say("\n\n" if event.get("summary_index") else "")

    def _item_added(self, event: Mapping[str, Json]) -> Iterator[Any]:
        item = event.get("item") or {}
        if item.get("type") == "reasoning":
            yield from self._thinking.begin()
        elif item.get("type") == "function_call":
            yield from self._thinking.end()
            self._open[event.get("output_index")] = item.get("call_id")
            yield from self._call(event, item, item.get("arguments"))

    def _item_done(self, event: Mapping[str, Json]) -> Iterator[Any]:
        item = event.get("item") or {}
        if item.get("type") == "reasoning":
            yield from self._thinking.end(sealed(ADAPTER, _reasoning(item)))
        elif item.get("type") == "function_call":
            yield from self._whole(event, item)
        elif item.get("type") == "message":
            yield from self._message(event.get("output_index"), item)

    def _arguments(self, event: Mapping[str, Json]) -> Iterator[Any]:
        return self._calls.feed(index=event.get("output_index"), arguments=event.get("delta"))

    def _whole(self, event: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[Any]:
        """The end of a call; its arguments too, if they did not come before.

        Servers number the end otherwise than the begin: a call that is open is known by its id.
        """
        index = self._place(event.get("output_index"), item.get("call_id"))
        self._open.pop(index, None)
        event = {**event, "output_index": index}
        came = self._calls.has_text_at(index)
        yield from self._call(event, item, None if came else item.get("arguments"))
        yield from self._calls.end_at(index)

    def _place(self, index: Json, call_id: Json) -> Json:
        if index in self._open:
            return index
        return next((place for place, each in self._open.items() if each == call_id), index)

    def _arguments_whole(self, event: Mapping[str, Json]) -> Iterator[Any]:
        """All of them once more; or for the first time."""
        index = event.get("output_index")
        if not self._calls.has_text_at(index):
            yield from self._calls.feed(index=index, arguments=event.get("arguments"))

    def _call(
        self, event: Mapping[str, Json], item: Mapping[str, Json], text: Json
    ) -> Iterable[Any]:
        self._came |= _keys(event.get("output_index"), item.get("call_id"), CALL)
        return self._calls.feed(
            index=event.get("output_index"),
            call_id=item.get("call_id"),
            name=self._names.own(item.get("name") or ""),
            arguments=text,
        )

    def _over(self, event: Mapping[str, Json]) -> Iterator[Any]:
        response = event.get("response") or {}
        self.usage = _usage(part(response, "usage"))
        self.finish_reason = "stop"
        if "incomplete" in (event["type"].partition(".")[2], response.get("status")):
            why = (response.get("incomplete_details") or {}).get("reason")
            self.finish_reason = "content_filter" if why == "content_filter" else "length"
        yield from self._missed(list(_objects(response.get("output"))))

    def _missed(self, output: Sequence[Mapping[str, Json]]) -> Iterator[Any]:
        """What stands only in the whole response."""
        came = set(self._came)
        for place, item in enumerate(output):
            call_id = item.get("call_id")
            if item.get("type") == "message":
                yield from self._message(place, item)
            elif item.get("type") != "function_call":
                continue
            elif not _keys(place, call_id, CALL) & came:
                yield from self._thinking.end()
                yield from self._whole({"output_index": f"whole-{place}"}, item)
            elif call_id in self._open.values():
                yield from self._whole({}, item)

    def _failed(self, event: Mapping[str, Json]) -> Iterable[Any]:
        """Raises: ProviderFailed: the provider says so."""
        error = (event.get("response") or {}).get("error") or event
        raise ProviderFailed(str(error.get("message") or "the response failed"))


_TAKES: Final[Mapping[str, Callable[[Reader, Mapping[str, Json]], Iterable[Any]]]] = {
    "response.output_text.delta": Reader._text,
    "response.output_text.done": Reader._text_whole,
    "response.refusal.delta": Reader._text,
    "response.refusal.done": Reader._text_whole,
    "response.reasoning_summary_part.added": Reader._thought_part,
    "response.reasoning_summary_text.delta": Reader._thought,
    "response.reasoning_text.delta": Reader._thought,
    "response.output_item.added": Reader._item_added,
    "response.output_item.done": Reader._item_done,
    "response.function_call_arguments.delta": Reader._arguments,
    "response.function_call_arguments.done": Reader._arguments_whole,
    "response.completed": Reader._over,
    "response.incomplete": Reader._over,
    "response.failed": Reader._failed,
    "error": Reader._failed,
}


def _keys(place: Json, name: Json, part: int | str) -> set[Key]:
    """What a part of an item is known by: where the item stands, and its id, where it has them."""
    named = [("at", place), ("id", name)]
    return {(by, key, part) for by, key in named if isinstance(key, int | str) and key != ""}


def _part_of(event: Mapping[str, Json]) -> int:
    number = event.get("content_index")
    return number if isinstance(number, int) else 0


def _objects(items: Json) -> Iterator[Mapping[str, Json]]:
    """Those of a list; what is none has none."""
    for item in items if isinstance(items, list) else ():
        yield item if isinstance(item, Mapping) else {}


def _reasoning(item: Mapping[str, Json]) -> Item:
    """The item as it goes back: without what the provider says of its progress."""
    return {key: value for key, value in item.items() if key != "status" and value is not None}


def _usage(usage: Mapping[str, Json]) -> dict[str, int]:
    told = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "total_tokens": usage.get("total_tokens"),
        "cached_input_tokens": part(usage, "input_tokens_details").get("cached_tokens"),
        "reasoning_tokens": part(usage, "output_tokens_details").get("reasoning_tokens"),
    }
    return counts(told)
