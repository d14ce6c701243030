"""AutoGen: an AssistantAgent of a function, a copied one, and a team, over a client that plays the
script."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    UserMessage,
)
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined

from handspan.agents.autogen import AutoGen
from handspan_protocol.codec import encode

Json = Any


class ScriptedClient(ChatCompletionClient):
    """A client of AutoGen's that streams what a script says, thoughts as <think>."""

    def __init__(self, script: Script, *, hasty: bool = False) -> None:
        self.script = script
        self.hasty = hasty
        """Whether it says all of a turn without waiting once."""
        self.shown: list[Sequence[LLMMessage]] = []
        self.schemas: list[Any] = []

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        async for chunk in self.create_stream(messages, **options):
            last = chunk
        assert isinstance(last, CreateResult)
        return last

    async def create_stream(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = (), **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        self.shown.append(messages)
        spelled = [tool if isinstance(tool, dict) else tool.schema for tool in tools]
        self.schemas.append(spelled)
        names = tuple(tool["name"] for tool in spelled)
        turn = self.script.play(Asked(names, joined(_told(messages))))
        thought = f"<think>{turn.thought}</think>" if turn.thought else ""
        for piece in pieces(thought + turn.text):
            yield piece
            if not self.hasty:
                await asyncio.sleep(0)
        if turn.hangs:
            await self.script.hang()
        yield _result(turn, len(self.script.asked))

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    total_usage = actual_usage

    def count_tokens(self, messages: Sequence[LLMMessage], **options: Any) -> int:
        return 0

    remaining_tokens = count_tokens

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> Any:
        flags = dict.fromkeys(("vision", "json_output", "structured_output"), False)
        return {**flags, "function_calling": True, "family": "unknown"}


def _result(turn: Turn, number: int) -> CreateResult:
    calls = [
        FunctionCall(
            id=ask.id or f"call-{number}-{index}",
            name=ask.name,
            arguments=ask.args if isinstance(ask.args, str) else encode(dict(ask.args)).decode(),
        )
        for index, ask in enumerate(turn.calls)
    ]
    beside = turn.text if calls else ""
    return CreateResult(
        finish_reason="length" if turn.cut else "function_calls" if calls else "stop",
        content=calls or turn.text,
        usage=RequestUsage(*turn.tokens),
        cached=False,
        thought=turn.thought or beside or None,
    )


def _told(messages: Iterable[LLMMessage]) -> Iterator[UserText | Said | Result]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield UserText(str(message.content))
        elif isinstance(message, AssistantMessage) and isinstance(message.content, str):
            yield Said(message.content)
        elif isinstance(message, AssistantMessage):
            yield Said(message.thought or "", tuple(call.name for call in message.content))
        elif isinstance(message, FunctionExecutionResultMessage):
            for result in message.content:
                yield Result(result.name, result.content)


def assistant(script: Script, **more: Any) -> AssistantAgent:
    """An agent that streams and goes on until its model calls nothing more."""
    return AssistantAgent(
        "helper",
        ScriptedClient(script),
        model_client_stream=True,
        max_tool_iterations=30,
        **more,
    )


class Subject:
    """One way to make the agent."""

    loops = True
    thinks = True
    counts = True

    def __init__(self, name: str, make: Callable[[Script], Any]) -> None:
        self.name = name
        self._make = make

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        yield AutoGen(self._make(script))


SUBJECTS = [
    Subject("autogen-made", lambda s: lambda tools: assistant(s, workbench=tools)),
    Subject("autogen-copied", assistant),
    Subject(
        "autogen-team",
        lambda s: lambda tools: RoundRobinGroupChat([assistant(s, workbench=tools)], max_turns=1),
    ),
]
