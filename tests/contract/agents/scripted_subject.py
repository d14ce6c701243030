"""The scripted model as an agent of our own: shows that the scenarios ask what they should."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined

Json = Any


class Plain:
    """No adapter: the turns are said as they are."""

    name = "plain"
    loops = False
    thinks = True
    counts = True

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        async def agent(run: Any) -> AsyncIterator[Any]:
            turn = script.play(Asked(tuple(t.name for t in run.tools), joined(_told(run.messages))))
            run.count_usage(input_tokens=turn.tokens[0], output_tokens=turn.tokens[1])
            for item in _items(run, turn):
                yield item
            if turn.hangs:
                await script.hang()
            run.finish_reason = "length" if turn.cut else None

        yield agent


def _items(run: Any, turn: Turn) -> Iterable[Any]:
    if turn.thought:
        yield run.reasoning(turn.thought)
    yield from pieces(turn.text)
    for number, ask in enumerate(turn.calls):
        name = ask.id or f"call-{run.depth}-{number}"
        args = ask.args if isinstance(ask.args, str) else _text(ask.args)
        yield ToolCallStartEvent(tool_call_id=name, tool_call_name=ask.name)
        for piece in pieces(args):
            yield ToolCallArgsEvent(tool_call_id=name, delta=piece)
        if not turn.cut:
            yield ToolCallEndEvent(tool_call_id=name)


def _text(args: Json) -> str:
    from handspan_protocol.codec import encode

    return encode(dict(args)).decode()


def pieces(text: str, seed: int = 1) -> list[str]:
    """The text cut anywhere, the same way each time."""
    dice, cut = random.Random(seed), list[str]()
    while text:
        size = dice.randint(1, 7)
        cut.append(text[:size])
        text = text[size:]
    return cut


def _told(messages: Iterable[Any]) -> Iterable[UserText | Said | Result]:
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "user":
            yield UserText(message.content)
        elif message.role == "assistant":
            calls = message.tool_calls or []
            names.update((call.id, call.function.name) for call in calls)
            yield Said(message.content or "", tuple(call.function.name for call in calls))
        elif message.role == "tool":
            yield Result(names[message.tool_call_id], message.content)


SUBJECTS = [Plain()]
