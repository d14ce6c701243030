"""AG-UI servers of ours: events of 1.0, of before, and in chunks."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import RunAgentInput
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined
from tests.contract.agents.wire import Call, Reply, serving, sse

from handspan.agents import RemoteAGUI

Json = Any
Events = Iterator[dict[str, Json]]
Ask = tuple[str, str, str]
"""A call: its id, its name, its arguments."""


# ---- how servers say a turn -------------------------------------------------------------------


def modern(turn: Turn, asks: list[Ask], key: str) -> Events:
    """Start, deltas, end, as AG-UI 1.0 has it."""
    if turn.thought:
        yield {"type": "REASONING_START", "messageId": f"{key}-span"}
        yield {"type": "REASONING_MESSAGE_START", "messageId": f"{key}-r", "role": "reasoning"}
        for piece in pieces(turn.thought):
            yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": f"{key}-r", "delta": piece}
        yield {"type": "REASONING_MESSAGE_END", "messageId": f"{key}-r"}
        yield {"type": "REASONING_END", "messageId": f"{key}-span"}
    yield from _text(turn, key)
    for call_id, name, args in asks:
        yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name}
        for piece in pieces(args):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": piece}
        if not turn.cut:
            yield {"type": "TOOL_CALL_END", "toolCallId": call_id}


def before_1_0(turn: Turn, asks: list[Ask], key: str) -> Events:
    """THINKING_* without ids, nulls for what is absent, a timestamp that is none."""
    if turn.thought:
        yield {"type": "THINKING_START", "title": None}
        yield {"type": "THINKING_TEXT_MESSAGE_START"}
        for piece in pieces(turn.thought):
            yield {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": piece, "timestamp": 1.5}
        yield {"type": "THINKING_TEXT_MESSAGE_END"}
        yield {"type": "THINKING_END"}
    for event in modern(Turn(text=turn.text, cut=turn.cut), asks, key):
        yield {**event, "rawEvent": None, "timestamp": 1.5}


def in_chunks(turn: Turn, asks: list[Ask], key: str) -> Events:
    """Chunk events, which name a thing once. One whose turn is cut needs a start to be told."""
    for piece in pieces(turn.thought):
        yield {"type": "REASONING_MESSAGE_CHUNK", "messageId": f"{key}-r", "delta": piece}
    for piece in pieces(turn.text):
        yield {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"{key}-m", "delta": piece}
    if turn.cut:
        yield from modern(Turn(cut=True), asks, key)
        return
    for call_id, name, args in asks:
        yield {"type": "TOOL_CALL_CHUNK", "toolCallId": call_id, "toolCallName": name}
        for piece in pieces(args):
            yield {"type": "TOOL_CALL_CHUNK", "delta": piece}


def _text(turn: Turn, key: str) -> Events:
    if turn.text:
        yield {"type": "TEXT_MESSAGE_START", "messageId": f"{key}-m", "role": "assistant"}
        for piece in pieces(turn.text):
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": f"{key}-m", "delta": piece}
        yield {"type": "TEXT_MESSAGE_END", "messageId": f"{key}-m"}


# ---- the subject ------------------------------------------------------------------------------


class AGUI:
    """One way of speaking."""

    loops = False
    thinks = True

    def __init__(self, say: Callable[[Turn, list[Ask], str], Events], counts: bool = True) -> None:
        self.name = f"agui-{say.__name__}"
        self.counts = counts
        self._say = say

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        runs: set[str] = set()

        def answer(call: Call) -> Reply:
            assert call.path == "/agent"
            assert call.headers["x-key"] == "secret-key"
            assert call.body["runId"] not in runs, "every run is another one"
            runs.add(call.body["runId"])
            turn = script.play(asked_of(call.body))
            return Reply(list(self._stream(turn, call.body)), hangs=turn.hangs)

        async with serving(answer, script) as url:
            yield RemoteAGUI(f"{url}/agent", headers={"x-key": "secret-key"})

    def _stream(self, turn: Turn, body: Json) -> Iterator[str]:
        run = {"threadId": body["threadId"], "runId": body["runId"]}
        asks = [
            (ask.id or f"{body['runId']}-{n}", ask.name, _args(ask.args))
            for n, ask in enumerate(turn.calls)
        ]
        yield ": a comment\r\n\r\n"
        yield sse({"type": "RUN_STARTED", **run})
        yield sse({"type": "STEP_STARTED", "stepName": "think"})
        for event in self._say(turn, asks, body["runId"]):
            yield sse(event, event=event["type"])
        if turn.hangs:
            return
        yield sse({"type": "STEP_FINISHED", "stepName": "think"})
        yield sse({"type": "SOMETHING_NEW", "value": 1})
        usage = {"inputTokens": turn.tokens[0], "outputTokens": turn.tokens[1]}
        yield sse({"type": "RUN_FINISHED", **run, **({"usage": [usage]} if self.counts else {})})


def _args(args: Json) -> str:
    return args if isinstance(args, str) else json.dumps(dict(args))


def asked_of(body: Json) -> Asked:
    """What the server was shown; AG-UI's own library reads it."""
    read = RunAgentInput.model_validate(body)
    assert read.protocol_version == "1.0"
    names: dict[str, str] = {}
    history = joined(_told(body["messages"], names))
    return Asked(tuple(tool["name"] for tool in body["tools"]), history)


def _told(messages: list[Json], names: dict[str, str]) -> Iterator[UserText | Said | Result]:
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["toolCallId"] == open_ids.pop(0), "results stand in call order"
            yield Result(names[message["toolCallId"]], message["content"])
            continue
        assert not open_ids, "every call has its result at once"
        if message["role"] == "user":
            yield UserText(message["content"])
        elif message["role"] == "assistant":
            calls = message.get("toolCalls", [])
            names.update((call["id"], call["function"]["name"]) for call in calls)
            open_ids = [call["id"] for call in calls]
            said = tuple(call["function"]["name"] for call in calls)
            yield Said(message.get("content") or "", said)


SUBJECTS = [AGUI(modern), AGUI(before_1_0, counts=False), AGUI(in_chunks)]
