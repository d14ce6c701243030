"""Chat completions from a server of ours, in the ways in which servers are known to speak."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Ask, Asked, Result, Said, Script, Turn, UserText, joined
from tests.contract.agents.wire import Call, Reply, serving, sse

from handspan.agents import OpenAIChat

Json = Any
Fragments = Iterator[dict[str, Json]]


def text_of(ask: Ask) -> str:
    """A call's arguments as the model wrote them."""
    return ask.args if isinstance(ask.args, str) else json.dumps(dict(ask.args))


def id_of(ask: Ask, number: int) -> str:
    return ask.id or f"call_{number}"


# ---- how servers cut a call -------------------------------------------------------------------


def openai(number: int, ask: Ask) -> Fragments:
    """Id and name once, then pieces by index."""
    head = {"name": ask.name, "arguments": ""}
    yield {"index": number, "id": id_of(ask, number), "type": "function", "function": head}
    for piece in pieces(text_of(ask)):
        yield {"index": number, "function": {"arguments": piece}}


def repeating(number: int, ask: Ask) -> Fragments:
    """Id and name with every fragment, as llama.cpp's chatml does."""
    for piece in pieces(text_of(ask)) or [""]:
        function = {"name": ask.name, "arguments": piece}
        yield {"index": number, "id": id_of(ask, number), "function": function}


def whole(number: int, ask: Ask) -> Fragments:
    """All in one, as Ollama and Mistral do."""
    function = {"name": ask.name, "arguments": text_of(ask)}
    yield {"index": number, "id": id_of(ask, number), "function": function}


def one_index(number: int, ask: Ask) -> Fragments:
    """Every call at index 0, told apart by its id alone."""
    for fragment in openai(number, ask):
        yield {**fragment, "index": 0}


def no_index(number: int, ask: Ask) -> Fragments:
    """No index at all, as Gemini's."""
    for fragment in openai(number, ask):
        yield {key: value for key, value in fragment.items() if key != "index"}


def no_id(number: int, ask: Ask) -> Fragments:
    """An index and no id, or an empty one."""
    for fragment in openai(number, ask):
        yield {**fragment, "id": ""}


def as_object(number: int, ask: Ask) -> Fragments:
    """Arguments as an object, or none at all."""
    given = json.loads(ask.args or "null") if isinstance(ask.args, str) else dict(ask.args)
    yield {"index": number, "id": id_of(ask, number), "function": {"name": ask.name}} | (
        {"function": {"name": ask.name, "arguments": given}} if given else {}
    )


def name_late(number: int, ask: Ask) -> Fragments:
    """The name behind the arguments."""
    for piece in pieces(text_of(ask)):
        yield {"index": number, "id": id_of(ask, number), "function": {"arguments": piece}}
    yield {"index": number, "id": id_of(ask, number), "function": {"name": ask.name}}


# ---- the subject ------------------------------------------------------------------------------


class Chat:
    """One way of speaking."""

    loops = False
    thinks = True
    counts = True

    def __init__(
        self,
        fragments: Callable[[int, Ask], Fragments],
        finish: str = "tool_calls",
        thoughts: str = "reasoning_content",
        between: bool = False,
    ) -> None:
        self.name = f"chat-{fragments.__name__}"
        self._fragments = fragments
        self._finish = finish
        self._thoughts = thoughts
        self._between = between

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        def answer(call: Call) -> Reply:
            assert call.path == "/v1/chat/completions"
            turn = script.play(asked_of(call.body))
            return Reply(list(self._stream(turn)), hangs=turn.hangs)

        async with serving(answer, script) as url:
            agent = OpenAIChat("some-model", base_url=f"{url}/v1", api_key="secret-key")
            yield agent
            await agent._client.close()

    def _stream(self, turn: Turn) -> Iterator[str]:
        for piece in pieces(turn.thought):
            yield chunk({self._thoughts: piece})
        for piece in pieces(turn.text):
            yield chunk({"content": piece})
        for fragment in self._calls(turn):
            yield chunk({"tool_calls": [fragment], "content": None})
        if turn.hangs:
            return
        yield chunk({}, "length" if turn.cut else self._finish if turn.calls else "stop")
        into, out = turn.tokens
        usage = {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}
        yield sse({"object": "chat.completion.chunk", "choices": [], "usage": usage})
        yield sse("[DONE]")

    def _calls(self, turn: Turn) -> Fragments:
        """One after the other, or a piece of each in turn."""
        streams = [list(self._fragments(n, ask)) for n, ask in enumerate(turn.calls)]
        if not self._between:
            for stream in streams:
                yield from stream
            return
        while any(streams):
            for stream in streams:
                if stream:
                    yield stream.pop(0)


def chunk(delta: Json, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def asked_of(body: Json) -> Asked:
    """What the server was shown; checks what every server demands."""
    names: dict[str, str] = {}
    assert body["stream"] is True
    assert ("tools" in body) or not ({"tool_choice", "parallel_tool_calls"} & body.keys())
    history = joined(_told(body["messages"], names))
    return Asked(tuple(tool["function"]["name"] for tool in body.get("tools", ())), history)


def _told(messages: list[Json], names: dict[str, str]) -> Iterator[UserText | Said | Result]:
    open_ids: list[str] = []
    for message in messages:
        assert "content" in message
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_ids.pop(0), "results stand in call order"
            yield Result(names[message["tool_call_id"]], message["content"])
            continue
        assert not open_ids, "every call has its result at once"
        if message["role"] == "user":
            yield UserText(message["content"])
        elif message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            for call in calls:
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                names[call["id"]] = call["function"]["name"]
                open_ids.append(call["id"])
            yield Said(message["content"] or "", tuple(c["function"]["name"] for c in calls))


SUBJECTS = [
    Chat(openai),
    Chat(repeating, finish="stop"),
    Chat(whole, thoughts="reasoning"),
    Chat(one_index),
    Chat(no_index, finish="function_call"),
    Chat(no_id, between=True),
    Chat(as_object, finish="stop"),
    Chat(name_late, between=True),
]
