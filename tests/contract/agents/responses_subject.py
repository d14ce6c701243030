"""OpenAI's Responses API from a server of ours, in the events of its documentation."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.agents.chat_subject import id_of, text_of
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined
from tests.contract.agents.wire import Call, Reply, serving, sse

from handspan.agents import OpenAIResponses

Json = Any


class Responses:
    """The events, in order."""

    name = "responses"
    loops = False
    thinks = True
    counts = True

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        def answer(call: Call) -> Reply:
            assert call.path == "/v1/responses"
            turn = script.play(asked_of(call.body))
            return Reply(list(_stream(turn)), hangs=turn.hangs)

        async with serving(answer, script) as url:
            agent = OpenAIResponses("some-model", base_url=f"{url}/v1", api_key="secret-key")
            yield agent
            await agent._client.close()


def _stream(turn: Turn) -> Iterator[str]:
    for number, event in enumerate(_events(turn)):
        yield sse({**event, "sequence_number": number}, event["type"])


def _events(turn: Turn) -> Iterator[dict[str, Json]]:
    yield {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
    place = 0
    if turn.thought:
        yield from _reasoning(turn.thought, place)
        place += 1
    if turn.text:
        item = {"id": "msg_1", "type": "message", "role": "assistant"}
        named = {"item_id": "msg_1", "output_index": place, "content_index": 0}
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        for piece in pieces(turn.text):
            yield {"type": "response.output_text.delta", "delta": piece, **named}
        if turn.hangs:
            return
        yield {"type": "response.output_text.done", "text": turn.text, **named}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
        place += 1
    for number, ask in enumerate(turn.calls):
        item = {"id": f"fc_{number}", "type": "function_call", "call_id": id_of(ask, number)}
        item |= {"name": ask.name, "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        named = {"item_id": item["id"], "output_index": place}
        for piece in pieces(text_of(ask)):
            yield {"type": "response.function_call_arguments.delta", "delta": piece, **named}
        if not turn.cut:
            done = {**item, "arguments": text_of(ask), "status": "completed"}
            yield {"type": "response.output_item.done", "output_index": place, "item": done}
        place += 1
    usage = {"input_tokens": turn.tokens[0], "output_tokens": turn.tokens[1]}
    usage |= {"total_tokens": sum(turn.tokens)}
    if turn.cut:
        why = {"reason": "max_output_tokens"}
        response = {"status": "incomplete", "incomplete_details": why, "usage": usage}
        yield {"type": "response.incomplete", "response": response}
    else:
        yield {"type": "response.completed", "response": {"status": "completed", "usage": usage}}


def _reasoning(thought: str, place: int) -> Iterator[dict[str, Json]]:
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": None}
    named = {"item_id": "rs_1", "output_index": place, "summary_index": 0}
    yield {"type": "response.output_item.added", "output_index": place, "item": item}
    yield {"type": "response.reasoning_summary_part.added", **named}
    for piece in pieces(thought):
        yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **named}
    summary = [{"type": "summary_text", "text": thought}]
    done = {**item, "summary": summary, "encrypted_content": "sealed"}
    yield {"type": "response.output_item.done", "output_index": place, "item": done}


def asked_of(body: Json) -> Asked:
    """What the server was shown; checks what it demands."""
    assert body["store"] is False
    assert ("tools" in body) or "tool_choice" not in body
    names: dict[str, str] = {}
    history = joined(_told(body["input"], names))
    return Asked(tuple(tool["name"] for tool in body.get("tools", ())), history)


def _told(items: list[Json], names: dict[str, str]) -> Iterator[UserText | Said | Result]:
    open_ids: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type", item.get("role"))
        if kind == "function_call_output":
            assert item["call_id"] == open_ids.pop(0), "outputs stand in call order"
            yield Result(names[item["call_id"]], item["output"])
        elif kind == "function_call":
            names[item["call_id"]] = item["name"]
            open_ids.append(item["call_id"])
            yield Said("", (item["name"],))
        elif kind == "reasoning":
            assert item["encrypted_content"] == "sealed"
            assert "status" not in item
            follows = items[number + 1]
            assert follows.get("type") == "function_call" or follows["role"] == "assistant"
        else:
            assert not open_ids, "every call has its output at once"
            text = item["content"]
            whole = text if isinstance(text, str) else "".join(part["text"] for part in text)
            yield UserText(whole) if kind == "user" else Said(whole)


SUBJECTS = [Responses()]
