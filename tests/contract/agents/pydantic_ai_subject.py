"""pydantic-ai with its own FunctionModel."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent
from pydantic_ai import messages as m
from pydantic_ai.models.function import (
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
    FunctionStreamedResponse,
)
from pydantic_ai.usage import RequestUsage
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined

from handspan.agents.pydantic_ai import PydanticAI
from handspan_protocol.codec import encode


class Model(FunctionModel):
    """Plays a script; the turn that is played also says how it ended, and what it took."""

    def __init__(self, script: Script) -> None:
        super().__init__(stream_function=self._play, model_name="scripted")
        self._script = script
        self._turns: list[Turn] = []

    async def _play(self, messages: list[m.ModelMessage], info: Any) -> AsyncIterator[Any]:
        names = tuple(tool.name for tool in info.function_tools)
        turn = self._script.play(Asked(names, joined(told(messages))))
        self._turns.append(turn)
        try:
            for item in self._items(turn):
                yield item
            if turn.hangs:
                await self._script.hang()
        finally:
            if turn.hangs:  # it may be given up before it is asked for more
                self._script.stopped.set()

    def _items(self, turn: Turn) -> Iterator[Any]:
        for piece in pieces(turn.thought):
            yield {0: DeltaThinkingPart(content=piece)}
        for piece in pieces(turn.text) or [""]:
            yield piece
        for number, ask in enumerate(turn.calls, start=1):
            name = ask.id or f"call-{len(self._script.asked)}-{number}"
            yield {number: DeltaToolCall(name=ask.name, json_args="", tool_call_id=name)}
            args = ask.args if isinstance(ask.args, str) else encode(dict(ask.args)).decode()
            for piece in pieces(args):
                yield {number: DeltaToolCall(json_args=piece)}

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with super().request_stream(*args, **kwargs) as response:
            response.__class__ = Counted
            response.turn = self._turns[-1]
            response.finish_reason = "length" if response.turn.cut else "stop"
            yield response


class Counted(FunctionStreamedResponse):
    """Takes what its turn says, in place of an estimate."""

    turn: Turn

    @property
    def usage(self) -> RequestUsage:
        taken = self.turn.tokens
        return RequestUsage(input_tokens=taken[0], output_tokens=taken[1])


def told(messages: Iterable[m.ModelMessage]) -> Iterable[UserText | Said | Result]:
    """What the model was shown, in the words of the stage."""
    for message in messages:
        if isinstance(message, m.ModelResponse):
            yield Said(message.text or "", tuple(call.tool_name for call in message.tool_calls))
            continue
        for part in message.parts:
            if isinstance(part, m.UserPromptPart):
                yield UserText(str(part.content))
            elif isinstance(part, m.ToolReturnPart):
                yield Result(part.tool_name, part.model_response_str())


class Subject:
    """The adapter over an agent that has nothing of its own."""

    name = "pydantic_ai"
    loops = True
    thinks = True
    counts = True

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        yield PydanticAI(Agent(Model(script)))


SUBJECTS = [Subject()]
