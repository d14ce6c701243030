"""LangGraph's three ways to make a graph, over a chat model that plays the script."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import create_react_agent, tools_condition
from tests.contract.agents.scripted_subject import pieces
from tests.contract.agents.stage import Asked, Result, Said, Script, Turn, UserText, joined

from handspan.agents.langgraph import LangGraph, PageToolNode, PageTools, with_page_tools
from handspan_protocol.codec import encode

Json = Any


class ScriptedChat(BaseChatModel):
    """A LangChain model that streams what a script says."""

    script: Any
    tools: tuple[str, ...] = ()
    schemas: tuple[Any, ...] = ()
    hasty: bool = False
    """Whether it says all of a turn without waiting once."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Any:
        spelled = [convert_to_openai_tool(tool)["function"] for tool in tools]
        names = tuple(tool["name"] for tool in spelled)
        return self.model_copy(update={"tools": names, "schemas": tuple(spelled)})

    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn = self.script.play(Asked(self.tools, joined(_told(messages))))
        for message in _chunks(turn, len(self.script.asked)):
            yield ChatGenerationChunk(message=message)
            if not self.hasty:
                await asyncio.sleep(0)
        if turn.hangs:
            await self.script.hang()
        yield ChatGenerationChunk(message=_last(turn))


def _chunks(turn: Turn, number: int) -> Iterator[AIMessageChunk]:
    for piece in pieces(turn.thought):
        yield AIMessageChunk([{"type": "reasoning", "reasoning": piece, "index": 0}])
    for piece in pieces(turn.text):
        yield AIMessageChunk(piece)
    for index, ask in enumerate(turn.calls):
        args = ask.args if isinstance(ask.args, str) else encode(dict(ask.args)).decode()
        opening: Any = {"name": ask.name, "id": ask.id or f"call-{number}-{index}", "args": ""}
        yield AIMessageChunk("", tool_call_chunks=[{**opening, "index": index}])
        for piece in pieces(args):
            fragment: Any = {"name": None, "id": None, "args": piece, "index": index}
            yield AIMessageChunk("", tool_call_chunks=[fragment])


def _last(turn: Turn) -> AIMessageChunk:
    taken, given = turn.tokens
    whole = "tool_calls" if turn.calls else "stop"
    return AIMessageChunk(
        "",
        usage_metadata={
            "input_tokens": taken,
            "output_tokens": given,
            "total_tokens": taken + given,
        },
        response_metadata={"finish_reason": "length" if turn.cut else whole},
    )


def _told(messages: Iterable[BaseMessage]) -> Iterator[UserText | Said | Result]:
    for message in messages:
        if isinstance(message, HumanMessage):
            yield UserText(message.text)
        elif isinstance(message, AIMessage):
            yield Said(message.text, tuple(call["name"] for call in message.tool_calls))
        elif isinstance(message, ToolMessage):
            yield Result(str(message.name), message.text)


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


def by_hand(model: Any) -> Any:
    """A graph of one's own: a model node and a tool node."""

    async def ask(state: State) -> dict[str, Any]:
        return {"messages": [await with_page_tools(model).ainvoke(state["messages"])]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("tools", PageToolNode())
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return graph.compile()


def react(model: Any) -> Any:
    """LangGraph's own agent, which is deprecated and in use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return create_react_agent(lambda *_: with_page_tools(model), PageToolNode())


class Subject:
    """One way to make the graph."""

    loops = True
    thinks = True
    counts = True

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self.name = name
        self._make = make

    @asynccontextmanager
    async def open(self, script: Script) -> AsyncIterator[Any]:
        yield LangGraph(self._make(ScriptedChat(script=script)))


SUBJECTS = [
    Subject("langgraph-create_agent", lambda m: create_agent(m, middleware=[PageTools()])),
    Subject("langgraph-react", react),
    Subject("langgraph-by-hand", by_hand),
]
