"""The OpenAI Agents SDK with a model of its interface that plays a script."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from openai.types import responses as r
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import (
    InputTokensDetails,
    OutputTokensDetails,
    ResponseUsage,
)
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined

from agents import Agent, Model
from handspan.agents.openai_agents import OpenAIAgents
from handspan_protocol.codec import encode

Json = Any


class Scripted(Model):
    """Says the events of the Responses API that its turns come to."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("only streams")

    async def stream_response(
        self, system: Any, input: Any, settings: Any, tools: Any, *_: Any, **__: Any
    ) -> AsyncIterator[Any]:
        names = tuple(tool.name for tool in tools)
        turn = self._script.play(Asked(names, joined(told(input))))
        try:
            for event in events(turn, f"r{len(self._script.asked)}"):
                yield event
            if turn.hangs:
                await self._script.hang()
            yield ended(turn, f"r{len(self._script.asked)}")
        finally:
            if turn.hangs:  # it may be given up before it is asked for more
                self._script.stopped.set()


def events(turn: Turn, name: str) -> Iterable[Any]:
    """All but the last one."""
    for piece in pieces(turn.thought):
        yield r.ResponseReasoningSummaryTextDeltaEvent(
            type="response.reasoning_summary_text.delta",
            delta=piece,
            item_id=f"{name}-thought",
            output_index=0,
            summary_index=0,
            sequence_number=0,
        )
    for piece in pieces(turn.text):
        yield r.ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta=piece,
            item_id=f"{name}-text",
            output_index=0,
            content_index=0,
            logprobs=[],
            sequence_number=0,
        )
    for number, item in enumerate(output(turn, name)):
        yield r.ResponseOutputItemDoneEvent(
            type="response.output_item.done", item=item, output_index=number, sequence_number=0
        )


def output(turn: Turn, name: str) -> list[Any]:
    """The items of the whole response."""
    items: list[Any] = []
    if turn.thought:
        summary = [Summary(text=turn.thought, type="summary_text")]
        items.append(
            r.ResponseReasoningItem(id=f"{name}-thought", summary=summary, type="reasoning")
        )
    if turn.text:
        text = r.ResponseOutputText(text=turn.text, type="output_text", annotations=[])
        items.append(
            r.ResponseOutputMessage(
                id=f"{name}-text",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        )
    for number, ask in enumerate(turn.calls):
        args = ask.args if isinstance(ask.args, str) else encode(dict(ask.args)).decode()
        items.append(
            r.ResponseFunctionToolCall(
                call_id=ask.id or f"{name}-call-{number}",
                name=ask.name,
                arguments=args,
                type="function_call",
            )
        )
    return items


def ended(turn: Turn, name: str) -> Any:
    """The event that ends the response, whole or not."""
    taken, said = turn.tokens
    response = r.Response(
        id=name,
        created_at=0,
        model="scripted",
        object="response",
        output=output(turn, name),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        status="incomplete" if turn.cut else "completed",
        incomplete_details={"reason": "max_output_tokens"} if turn.cut else None,
        usage=ResponseUsage(
            input_tokens=taken,
            output_tokens=said,
            total_tokens=taken + said,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        ),
    )
    kind = r.ResponseIncompleteEvent if turn.cut else r.ResponseCompletedEvent
    name = "response.incomplete" if turn.cut else "response.completed"
    return kind(type=name, response=response, sequence_number=0)


def told(items: Iterable[Any]) -> Iterable[UserText | Said | Result]:
    """What the model was shown, in the words of the stage."""
    names: dict[str, str] = {}
    for item in items:
        match item.get("type", "message"):
            case "message" if item["role"] == "user":
                yield UserText(item["content"])
            case "message":
                yield Said(_text(item["content"]))
            case "function_call":
                names[item["call_id"]] = item["name"]
                yield Said("", (item["name"],))
            case "function_call_output":
                yield Result(names[item["call_id"]], _text(item["output"]))


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or json.dumps(part) for part in content)


class Subject:
    """The adapter over an agent that has nothing of its own."""

    name = "openai_agents"
    loops = True
    thinks = True
    counts = True

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        yield OpenAIAgents(Agent(name="plain", model=Scripted(script)))


SUBJECTS = [Subject()]
