"""The page's tools in a graph's hands: as LangChain tools in a node, as middleware, as a tool node.

Owns what a model is shown of them and that a call, by whatever name, reaches the run: the run knows
who has it, or says that nobody does. Deliberately does not check arguments: the bridge does (P3),
against the model's own text where that is known.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, ToolException
from langgraph.prebuilt import ToolNode
from pydantic import PrivateAttr

from handspan.model.history import text_of
from handspan.model.names import Names
from handspan_protocol.errors import UsageError

from .ears import OURS
from .messages import tool_content
from .step import Step, step_here

Json = Any
Handler = Callable[[Any], Awaitable[Any]]

_ANYTHING: Final[dict[str, Json]] = {"type": "object", "properties": {}}


# ---- for nodes of one's own --------------------------------------------------------------------


def page_tools() -> list[BaseTool]:
    """The page's tools as they are now, inside a node of a graph that LangGraph runs; elsewhere
    none. Their schemas are the page's own; names that providers refuse are spelled anew.

    In a sync node they are invoked, in an async one awaited (`tool.ainvoke`). A tool gives a text,
    or content blocks where the page gave an image; one that failed gives the text that says so.
    """
    step = step_here()
    if step is None:
        return []
    tools = step.run.current_tools()
    step.names = Names(tool.name for tool in tools)
    return [_page_tool(step, tool) for tool in tools]


def with_page_tools(model: Any, tools: Sequence[Any] = ()) -> Any:
    """The model with your own tools and the page's bound, as they are now; inside a node. A page's
    tool of the same name as one of yours is left out. Without any tool: the model as it is."""
    both = _beside(tools, page_tools())
    return model.bind_tools(both) if both else model


def _beside(own: Sequence[Any], pages: Iterable[BaseTool]) -> list[Any]:
    names = {_name_of(tool) for tool in own}
    return [*own, *(tool for tool in pages if tool.name not in names)]


def _name_of(tool: Any) -> Any:
    if isinstance(tool, dict):
        return tool.get("name") or tool.get("function", {}).get("name")
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


# ---- one tool ----------------------------------------------------------------------------------


class _PageTool(BaseTool):
    """A tool that the page, or the bridge, carries out."""

    handle_tool_error: Any = True
    _step: Any = PrivateAttr(default=None)
    _page_name: str = PrivateAttr(default="")
    """Its name at the page."""
    _raw: Any = PrivateAttr(default=None)
    """The arguments as the model wrote them; None: those that LangChain gives."""

    async def _arun(self, /, **arguments: Any) -> Any:
        args = arguments if self._raw is None else self._raw
        answer = await self._step.voice.call(self._page_name, args)
        if answer.failed:
            raise ToolException(text_of(answer.parts))
        return tool_content(answer.parts)

    def _run(self, /, **arguments: Any) -> Any:
        """In a worker thread, where sync nodes live.

        Raises:
            UsageError: it is the bridge's own.
        """
        if self._step.voice.is_home:
            raise UsageError("on the bridge's own loop a page's tool is awaited: tool.ainvoke")
        work = self._arun(**arguments)
        return asyncio.run_coroutine_threadsafe(work, self._step.voice.loop).result()


def _page_tool(step: Step, tool: Any) -> _PageTool:
    made = _PageTool(
        name=step.names.theirs(tool.name),
        description=tool.description,
        args_schema=tool.parameters,
        tags=[OURS],
    )
    made._step, made._page_name = step, tool.name
    return made


def _tool_for(step: Step, call: Mapping[str, Any]) -> _PageTool:
    """Whatever answers this call, by whatever name."""
    name = call["name"]
    made = _PageTool(name=name, description=name, args_schema=_ANYTHING, tags=[OURS])
    made._step, made._page_name = step, step.names.own(name)
    made._raw = step.arguments_of(call)
    return made


# ---- for agents and tool nodes -----------------------------------------------------------------


class PageTools(AgentMiddleware[Any, Any, Any]):
    """Middleware for `langchain.agents.create_agent`: the page's tools beside the agent's own, as
    they are at each call of the model. Names that nobody has reach the run, which knows better."""

    async def awrap_model_call(self, request: Any, handler: Handler) -> Any:
        response = await handler(request.override(tools=_beside(request.tools, page_tools())))
        for message in response.result if step_here() else ():
            if isinstance(message, AIMessage):
                _make_callable(message)
        return response

    async def awrap_tool_call(self, request: Any, handler: Handler) -> Any:
        return await _carry_out(request, handler, is_own=request.tool is not None)


def _make_callable(message: AIMessage) -> None:
    """Calls whose arguments are no object are calls too: the run tells the model what is wrong.
    Without this the agent would end in silence."""
    calls = [c for c in message.invalid_tool_calls if c["id"] and c["name"]]
    message.tool_calls += [
        {"type": "tool_call", "id": c["id"], "name": str(c["name"]), "args": {}} for c in calls
    ]
    message.invalid_tool_calls = [c for c in message.invalid_tool_calls if c not in calls]


class PageToolNode(ToolNode):
    """A ToolNode with your own tools, in which every other name is the run's."""

    def __init__(self, tools: Sequence[Any] = (), **options: Any) -> None:
        """`options` are ToolNode's, without `awrap_tool_call`."""
        # create_react_agent makes no tool node where there is no tool: hence the stand-in.
        super().__init__([*tools, _stand_in()], awrap_tool_call=self._answered, **options)

    async def _answered(self, request: Any, handler: Handler) -> Any:
        is_own = request.tool is not None and request.tool.name != _STAND_IN
        return await _carry_out(request, handler, is_own=is_own)


_STAND_IN: Final = "*"
"""No model may be shown this name, and none of a provider's can be it (P13)."""


def _stand_in() -> BaseTool:
    return _PageTool(name=_STAND_IN, description="whatever the page has", args_schema=_ANYTHING)


async def _carry_out(request: Any, handler: Handler, *, is_own: bool) -> Any:
    """A call of a tool that the graph has not is the run's."""
    step = step_here()
    if step is None or is_own:
        return await handler(request)
    return await handler(request.override(tool=_tool_for(step, request.tool_call)))
