"""Anthropic's Messages API from a server of ours, in the events of its documentation."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from tests.contract.agents.chat_subject import id_of, text_of
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined
from tests.contract.agents.wire import Call, Reply, serving, sse

from handspan.agents import Anthropic

Json = Any
SIGNATURE = "EqQBCgIYAhIM=="


class Messages:
    """The events, in order."""

    name = "anthropic"
    loops = False
    thinks = True
    counts = True

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        def answer(call: Call) -> Reply:
            assert call.path == "/v1/messages"
            turn = script.play(asked_of(call.body))
            return Reply([sse(e, e["type"]) for e in events(turn)], hangs=turn.hangs)

        async with serving(answer, script) as url:
            agent = Anthropic("some-model", base_url=url, api_key="secret-key")
            yield agent
            await agent._client.close()


def events(turn: Turn) -> Iterator[dict[str, Json]]:
    """One message as it is streamed."""
    usage = {"input_tokens": turn.tokens[0], "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, (kind, block) in enumerate(_blocks(turn)):
        yield {"type": "content_block_start", "index": index, "content_block": kind}
        for delta in block:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if turn.hangs and kind["type"] == "text":
            return
        yield {"type": "content_block_stop", "index": index}
    reason = "max_tokens" if turn.cut else "tool_use" if turn.calls else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": turn.tokens[1]}}
    yield {"type": "message_stop"}


def _blocks(turn: Turn) -> Iterator[tuple[Json, list[Json]]]:
    if turn.thought:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.thought)]
        deltas += [{"type": "signature_delta", "signature": SIGNATURE}]
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if turn.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)]
        yield {"type": "text", "text": ""}, deltas
    for number, ask in enumerate(turn.calls):
        kind = {"type": "tool_use", "id": id_of(ask, number), "name": ask.name, "input": {}}
        parts = ["", *pieces(text_of(ask))]
        yield kind, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def asked_of(body: Json) -> Asked:
    """What the server was shown; checks what it demands."""
    assert isinstance(body["max_tokens"], int)
    assert ("tools" in body) or "tool_choice" not in body
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == roles[-1] == "user"
    assert all(one != other for one, other in pairwise(roles))
    names: dict[str, str] = {}
    history = joined(_told(body["messages"], names))
    return Asked(tuple(tool["name"] for tool in body.get("tools", ())), history)


def _told(messages: list[Json], names: dict[str, str]) -> Iterator[UserText | Said | Result]:
    open_ids: list[str] = []
    for message in messages:
        kinds = [block["type"] for block in message["content"]]
        assert kinds == sorted(kinds, key=_rank), "results and thoughts stand first"
        for block in message["content"]:
            match block["type"]:
                case "tool_result":
                    assert block["tool_use_id"] == open_ids.pop(0), "results stand in call order"
                    text = "".join(part["text"] for part in block.get("content", ()))
                    yield Result(names[block["tool_use_id"]], text)
                case "tool_use":
                    assert isinstance(block["input"], dict)
                    names[block["id"]] = block["name"]
                    open_ids.append(block["id"])
                    yield Said("", (block["name"],))
                case "thinking":
                    assert block["signature"] == SIGNATURE
                case "text":
                    assert block["text"].strip()
                    user = message["role"] == "user"
                    yield UserText(block["text"]) if user else Said(block["text"])
        assert not (open_ids and message["role"] == "user"), "every call has its result at once"


def _rank(kind: str) -> int:
    return ("thinking", "tool_result", "text", "tool_use").index(kind)


SUBJECTS = [Messages()]
