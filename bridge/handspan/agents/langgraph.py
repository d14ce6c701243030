"""LangGraph: a compiled graph with a `messages` state as an agent; its loop runs inside one step.

    LangGraph(create_agent(model, tools=[...], middleware=[PageTools()]))       # langchain.agents
    LangGraph(create_react_agent(lambda *_: with_page_tools(model), PageToolNode()))
    LangGraph(graph)         # your own nodes: page_tools(), with_page_tools(model), PageToolNode()

The graph is given the thread's history each time: the thread is the memory, and a checkpointer of
the graph's own is left out. Page tools are LangChain tools of the moment: whoever asks for them
gets those that the page has now. They reach the run through the graph's own config
(`configurable["handspan"]`), so one graph serves many threads at once.

What models say is heard by a callback handler, not read from the graph's stream: so it is known
before the graph goes on, and a call is never made ahead of the text before it. The stream is read
for what no model said: messages that nodes write themselves, custom data, updates.

Deliberately does not know which model speaks; above sits whoever invokes agents.
"""

import asyncio
import functools
import re
import threading
import uuid
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from pydantic import BaseModel, PrivateAttr

from handspan.model import history as h
from handspan.model.prompt import instructions_of
from handspan.ports import AgentFailed
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.content import error_text, result_text
from handspan_protocol.errors import RunCode, UsageError

__all__ = ["LangGraph", "PageTool", "PageToolNode", "PageTools", "page_tools", "with_page_tools"]

Json = Any
Graph = Pregel[Any, Any, Any, Any]

_KEY: Final = "handspan"
"""Where in `configurable` the step under way is found."""

_OURS: Final = "handspan:page-tool"
"""The tag of a tool that the page carries out; the graph's own are shown by us."""

_CUTS: Final = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
}
"""Why a provider cut a turn, to `run.finish_reason`. *Source:* OpenAI finish_reason and
incomplete_details, Anthropic stop_reason, Google finish_reason, Ollama done_reason."""


class LangGraph:
    """A graph as an agent.

    `graph`: compiled, or a function of the Run, sync or async, that gives a compiled one for each
    step. `instructions` stand before the history, as a system message. `config` is LangGraph's
    (`recursion_limit`, `tags`, ...); `context` its runtime context, or a function of the Run that
    gives it; `inputs(run)` gives what the graph's state takes beside `messages`.

    Raises:
        UsageError: `graph` is neither; a StateGraph must be compiled first.
    """

    def __init__(
        self,
        graph: Graph | Callable[[Any], Any],
        *,
        instructions: str = "",
        config: Mapping[str, Any] | None = None,
        context: Any = None,
        inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> None:
        if not isinstance(graph, Pregel) and not callable(graph):
            raise UsageError(
                f"LangGraph wants a compiled graph or a function that makes one, not a"
                f" {type(graph).__name__} (a StateGraph is compiled by its compile())"
            )
        self._graph = graph
        self._instructions = instructions
        self._config = config or {}
        self._context = context
        self._inputs = inputs

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        step = _Step(run)
        task = step.begin(self._drive(await self._compiled(run), step))
        try:
            async for item in step.items():
                yield item
            _end(run, step, task)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _compiled(self, run: Any) -> Graph:
        graph: Any = self._graph
        if not isinstance(graph, Pregel):
            graph = graph(run)
            graph = await graph if isinstance(graph, Awaitable) else graph
        if not isinstance(graph, Pregel):
            raise UsageError(f"a compiled graph was expected, not a {type(graph).__name__}")
        return graph

    async def _drive(self, graph: Graph, step: "_Step") -> None:
        run = step.run
        given = self._inputs(run) if self._inputs else {}
        messages = spelled(run.messages, instructions_of(run, self._instructions))
        parts: Any = self._wired(graph, step).astream(
            {**given, "messages": messages},
            context=self._context(run) if callable(self._context) else self._context,
            stream_mode=["messages", "custom", "updates"],
            subgraphs=True,
        )
        async with aclosing(parts):
            async for namespace, mode, part in parts:
                _READERS[mode](step, namespace, part)

    def _wired(self, graph: Graph, step: "_Step") -> Graph:
        """The graph for this step: heard, knowing its step, and without a memory of its own."""
        configurable = {
            "thread_id": step.run.thread_id,
            **(graph.config or {}).get("configurable", {}),
            **self._config.get("configurable", {}),
            _KEY: step,
        }
        config: Any = {**self._config, "configurable": configurable}
        wired = graph.with_config(config, callbacks=[_Ears(step)])
        return wired.copy({"checkpointer": None}) if wired.checkpointer else wired


def _end(run: Any, step: "_Step", task: "asyncio.Task[None]") -> None:
    """What the graph's end means for the step.

    Raises:
        AgentFailed: it failed in a way that one line can tell.
        Exception: it failed otherwise.
    """
    if step.cut is not None:
        run.finish_reason = step.cut
        return
    try:
        task.result()
    except GraphRecursionError:
        message = "the graph took more steps than its recursion_limit"
        raise AgentFailed(message, RunCode.AGENT_ERROR) from None
    except asyncio.CancelledError:
        raise AgentFailed("the graph was cancelled from inside", RunCode.AGENT_ERROR) from None
    except Exception as error:
        raise _told(error) from error


def _told(error: Exception) -> Exception:
    """A provider's refusal as one line without its body; anything else as it is."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return error
    return AgentFailed(f"the model's provider answered {status} ({type(error).__name__})")


# ---- the step under way ------------------------------------------------------------------------


class _Step:
    """What a graph under way says and does, between its tasks and the step's items."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.loop = asyncio.get_running_loop()
        self.cut: str | None = None
        """Why the model was cut off; nothing is carried out then."""
        self.spoken: set[str] = set()
        """Ids of the messages that were heard."""
        self.names: dict[str, str] = {}
        """Names of tools as models are shown them, to the page's own."""
        self.asked: dict[str, tuple[str, str]] = {}
        """The calls of models by id: name and the model's own text."""
        self._home = threading.get_ident()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Any) -> "asyncio.Task[None]":
        """Start the graph; `items` end when it does."""
        self._task = asyncio.create_task(work, name="handspan-langgraph")
        self._task.add_done_callback(self._ended)
        return self._task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # seen: nobody may be there to ask for it
        self.say(_END)

    def say(self, item: Any) -> None:
        """Say an item of the agent; from any thread."""
        if threading.get_ident() == self._home:
            self._said.put_nowait(item)
        else:
            self.loop.call_soon_threadsafe(self._said.put_nowait, item)

    async def items(self) -> AsyncIterator[Any]:
        """All that is said, until the graph has ended."""
        while (item := await self._said.get()) is not _END:
            if isinstance(item, asyncio.Future):
                if not item.done():
                    item.set_result(None)
            else:
                yield item

    async def heard(self) -> None:
        """Return when all that was said before has been taken."""
        told = self.loop.create_future()
        self._said.put_nowait(told)
        await told

    def cut_off(self, reason: str) -> None:
        """The model's turn is not whole: the graph is stopped where it is."""
        self.cut = reason
        if self._task is None:
            return
        if threading.get_ident() == self._home:
            self._task.cancel()
        else:
            self.loop.call_soon_threadsafe(self._task.cancel)

    async def call(self, name: str, args: Mapping[str, Json] | str) -> Any:
        """Have the run carry out a call; all that was said before it comes first."""
        await self.heard()
        if self.cut is not None:
            raise ToolException("the model's turn was cut off; nothing was carried out")
        return await self.run.call_tool(name, args)

    def name_for(self, name: str) -> str:
        """A tool's name as every provider takes it."""
        made = _spelled_name(name)
        while self.names.get(made, name) != name:
            made = f"{made[:63]}_"
        self.names[made] = name
        return made

    def text_of(self, name: str, args: Mapping[str, Json], call_id: str | None) -> Any:
        """A call's arguments as the model wrote them, where that is known."""
        known, raw = self.asked.get(call_id or "", ("", ""))
        return raw if known == name else args


_END: Final = object()


def _step() -> _Step | None:
    """The step whose graph runs here; None: the graph runs without a bridge."""
    try:
        step = get_config().get("configurable", {}).get(_KEY)
    except RuntimeError:
        return None
    return step if isinstance(step, _Step) else None


# ---- the page's tools --------------------------------------------------------------------------


def page_tools() -> list[BaseTool]:
    """The page's tools as they are now, inside a node of a graph that LangGraph runs; elsewhere
    none."""
    step = _step()
    return [] if step is None else [_page_tool(step, tool) for tool in step.run.current_tools()]


def with_page_tools(model: Any, tools: Sequence[Any] = ()) -> Any:
    """The model with your own tools and the page's bound, as they are now; inside a node. A page's
    tool of the same name as one of yours is left out."""
    both = _beside(tools, page_tools())
    return model.bind_tools(both) if both else model


def _beside(own: Sequence[Any], pages: Iterable[BaseTool]) -> list[Any]:
    names = {_name_of(tool) for tool in own}
    return [*own, *(tool for tool in pages if tool.name not in names)]


def _name_of(tool: Any) -> Any:
    if isinstance(tool, dict):
        return tool.get("name") or tool.get("function", {}).get("name")
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


class PageTool(BaseTool):
    """A tool that the page, or the bridge, carries out. Its schema is the page's own."""

    handle_tool_error: Any = True
    _step: Any = PrivateAttr(default=None)
    _raw: Any = PrivateAttr(default=None)

    async def _arun(self, /, **arguments: Any) -> str:
        args = arguments if self._raw is None else self._raw
        name = self._step.names.get(self.name, self.name)
        return shown(await self._step.call(name, args))

    def _run(self, /, **arguments: Any) -> str:
        """In a worker thread, where sync nodes live."""
        work = self._arun(**arguments)
        if threading.get_ident() == self._step._home:
            work.close()
            raise UsageError("on the bridge's own loop a page's tool is awaited: tool.ainvoke")
        return asyncio.run_coroutine_threadsafe(work, self._step.loop).result()


def _page_tool(step: _Step, tool: Any) -> PageTool:
    made = PageTool(
        name=step.name_for(tool.name),
        description=tool.description,
        args_schema=tool.parameters,
        tags=[_OURS],
    )
    made._step = step
    return made


def _spelled_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _tool_for(step: _Step, call: Mapping[str, Any]) -> PageTool:
    """Whatever answers this call, by whatever name: the run knows, or says that nobody does."""
    made = PageTool(
        name=call["name"], description=call["name"], args_schema=_ANYTHING, tags=[_OURS]
    )
    made._step, made._raw = step, step.text_of(call["name"], call["args"], call["id"])
    return made


_ANYTHING: Final[dict[str, Json]] = {"type": "object", "properties": {}}


def shown(result: Any) -> str:
    """What a model is shown of a CallResult that is fine.

    Raises:
        ToolException: it is not; with the text that says so. *Source:* protocol.md 3.
    """
    if not result.ok:
        raise ToolException(error_text(result.error.code, result.error.message))
    return result_text(result.value)


async def _carry_out(
    request: Any, handler: Callable[[Any], Awaitable[Any]], own: bool | None = None
) -> Any:
    """A call of a tool that the graph has not is the run's."""
    step = _step()
    if step is None or (request.tool is not None if own is None else own):
        return await handler(request)
    return await handler(request.override(tool=_tool_for(step, request.tool_call)))


class PageTools(AgentMiddleware[Any, Any, Any]):
    """Middleware for `langchain.agents.create_agent`: the page's tools beside the agent's own, as
    they are at each call of the model. Names that nobody has reach the run, which knows better."""

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        response = await handler(request.override(tools=_beside(request.tools, page_tools())))
        for message in response.result if _step() else ():
            if isinstance(message, AIMessage) and message.invalid_tool_calls:
                _make_callable(message)
        return response

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await _carry_out(request, handler)


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
        # create_react_agent makes no tool node where there is no tool: hence the stand-in.
        super().__init__([*tools, _stand_in()], awrap_tool_call=self._answered, **options)

    async def _answered(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        own = request.tool is not None and request.tool.name != _STAND_IN
        return await _carry_out(request, handler, own)


_STAND_IN: Final = "*"
"""No model may be shown this name, and none of a provider's can be it (P13)."""


def _stand_in() -> BaseTool:
    return PageTool(name=_STAND_IN, description="whatever the page has", args_schema=_ANYTHING)


# ---- what is heard -----------------------------------------------------------------------------


class _Turn:
    """One turn of a model, while it is said."""

    def __init__(self, silent: bool) -> None:
        self.silent = silent
        self.id = f"lg-{uuid.uuid4().hex}"
        self.heard = False
        self.started = False
        """Whether it has a text."""
        self.over = False
        self.held: list[Any] = []
        """What it said while another had the word."""
        self.fragments: list[list[str]] = []
        """Of its calls: id, index, name and text, put together as they come."""


class _Ears(BaseCallbackHandler):
    """Hears models and the graph's own tools, before the graph goes on."""

    run_inline = True

    def __init__(self, step: _Step) -> None:
        self._step = step
        self._turns: dict[uuid.UUID, _Turn] = {}
        self._speaking: deque[_Turn] = deque()
        """Turns that have said something and are not told yet; the first one has the word, so that
        two models that speak at once do not speak in one message."""
        self._tools: dict[uuid.UUID, str] = {}

    # ---- models ------------------------------------------------------------------------------

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: uuid.UUID, **more: Any
    ) -> None:
        self._turns[run_id] = _Turn(TAG_NOSTREAM in (more.get("tags") or ()))

    def on_llm_new_token(self, token: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        turn, message = self._turns.get(run_id), getattr(more.get("chunk"), "message", None)
        if turn is None or turn.silent or not isinstance(message, AIMessageChunk):
            return
        for fragment in message.tool_call_chunks:
            _put_together(turn.fragments, fragment)
        self._hear(turn, message)

    def on_llm_end(self, response: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        turn = self._turns.pop(run_id, None)
        message = _message_of(response)
        if turn is None or message is None:
            return
        self._count(message)
        if turn.silent:
            return
        if not turn.heard:
            self._hear(turn, message)
        self._note_calls(turn, message)
        self._close(turn)
        if reason := _cut(message.response_metadata):
            self._step.cut_off(reason)

    def on_llm_error(self, error: BaseException, *, run_id: uuid.UUID, **more: Any) -> None:
        turn = self._turns.pop(run_id, None)
        if turn is not None:
            self._close(turn)

    def _hear(self, turn: _Turn, message: AIMessage) -> None:
        turn.heard = True
        self._step.spoken.add(str(message.id))
        for kind, text in _said(message):
            if kind == "reasoning":
                self._say(turn, self._step.run.reasoning(text))
                continue
            if not turn.started:
                turn.started = True
                self._say(turn, TextMessageStartEvent(message_id=turn.id, role="assistant"))
            self._say(turn, TextMessageContentEvent(message_id=turn.id, delta=text))

    def _say(self, turn: _Turn, item: Any) -> None:
        if turn not in self._speaking:
            self._speaking.append(turn)
        if self._speaking[0] is turn:
            self._step.say(item)
        else:
            turn.held.append(item)

    def _close(self, turn: _Turn) -> None:
        """The turn is over; who was held back speaks, as far as they have come."""
        if turn.started:
            self._say(turn, TextMessageEndEvent(message_id=turn.id))
        turn.over = True
        while self._speaking and self._speaking[0].over:
            self._speaking.popleft()
            for item in self._speaking[0].held if self._speaking else ():
                self._step.say(item)

    def _note_calls(self, turn: _Turn, message: AIMessage) -> None:
        for call_id, _, name, raw in turn.fragments:
            self._step.asked[call_id] = (name, raw)
        for call in message.invalid_tool_calls:
            given = (str(call["name"]), call["args"] or "")
            self._step.asked.setdefault(str(call["id"]), given)

    def _count(self, message: AIMessage) -> None:
        usage: Any = message.usage_metadata
        if not usage:
            return
        told, details = message.response_metadata, usage.get("input_token_details") or {}
        self._step.run.count_usage(
            provider=told.get("model_provider"),
            model=told.get("model_name") or told.get("model"),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cached_input_tokens=details.get("cache_read"),
            cache_write_input_tokens=details.get("cache_creation"),
            reasoning_tokens=(usage.get("output_token_details") or {}).get("reasoning"),
        )

    # ---- the graph's own tools ---------------------------------------------------------------

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: uuid.UUID, **more: Any
    ) -> None:
        name = (serialized or {}).get("name") or more.get("name") or ""
        if _OURS in (more.get("tags") or ()) or self._is_the_pages(name):
            return
        call_id = str(more.get("tool_call_id") or run_id)
        self._tools[run_id] = call_id
        self._step.say(ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name))
        args = _json(more.get("inputs") or {})
        self._step.say(ToolCallArgsEvent(tool_call_id=call_id, delta=args))
        self._step.say(ToolCallEndEvent(tool_call_id=call_id))

    def on_tool_end(self, output: Any, *, run_id: uuid.UUID, **more: Any) -> None:
        text = output.text if isinstance(output, ToolMessage) else output
        self._answer(run_id, text if isinstance(text, str) else _json(text))

    def on_tool_error(self, error: BaseException, *, run_id: uuid.UUID, **more: Any) -> None:
        told = str(error) if isinstance(error, ToolException) else type(error).__name__
        self._answer(run_id, error_text("handler_error", told))

    def _answer(self, run_id: uuid.UUID, text: str) -> None:
        call_id = self._tools.pop(run_id, None)
        if call_id is not None:
            name = f"lg-{uuid.uuid4().hex}"
            self._step.say(
                ToolCallResultEvent(message_id=name, tool_call_id=call_id, content=str(text))
            )

    def _is_the_pages(self, name: str) -> bool:
        """A call under a name that the page has too would be taken for the page's: not shown."""
        return any(tool.name == name for tool in self._step.run.current_tools())


def _message_of(response: Any) -> AIMessage | None:
    for generation in (response.generations or [[]])[0][:1]:
        message = getattr(generation, "message", None)
        return message if isinstance(message, AIMessage) else None
    return None


def _put_together(fragments: list[list[str]], fragment: Mapping[str, Any]) -> None:
    """A call is told by a new id, then by its index, else it is the last one."""
    call_id, index = fragment.get("id") or "", str(fragment.get("index"))
    found = [f for f in fragments if (f[0] == call_id if call_id else f[1] == index)]
    if not found and not call_id:
        found = fragments[-1:]
    if not found:
        fragments.append([call_id, index, "", ""])
        found = fragments[-1:]
    found[-1][2] = fragment.get("name") or found[-1][2]
    found[-1][3] += fragment.get("args") or ""


def _said(message: AIMessage) -> Iterator[tuple[str, str]]:
    """Text and thoughts of a message, in order."""
    if isinstance(message.content, str) and not message.additional_kwargs:
        yield from [("text", message.content)] if message.content else []
        return
    for block in message.content_blocks:
        if text := _reasoning_of(block):
            yield "reasoning", text
        elif block["type"] == "text" and block["text"]:
            yield "text", block["text"]


def _reasoning_of(block: Any) -> str:
    if block["type"] == "non_standard":
        block = block["value"]
        return str(block.get("thinking") or "") if isinstance(block, dict) else ""
    return str(block.get("reasoning") or "") if block["type"] == "reasoning" else ""


def _cut(metadata: Mapping[str, Any]) -> str | None:
    details = metadata.get("incomplete_details") or {}
    reasons = [metadata.get(k) for k in ("finish_reason", "stop_reason", "done_reason")]
    told = [str(reason).lower() for reason in [*reasons, details.get("reason")] if reason]
    return next((_CUTS[reason] for reason in told if reason in _CUTS), None)


def _json(value: Any) -> str:
    """JSON text; what JSON cannot hold is left out, or told by its type."""
    try:
        return encode(value).decode()
    except Exception:
        if isinstance(value, dict):
            return "{" + ",".join(_members(value)) + "}"
        return encode(f"({type(value).__name__})").decode()


def _members(value: Mapping[Any, Any]) -> Iterator[str]:
    for key, each in value.items():
        try:
            yield f"{encode(str(key)).decode()}:{encode(each).decode()}"
        except Exception:  # noqa: S112 (an injected argument, which the model did not write)
            continue


# ---- what the stream tells ---------------------------------------------------------------------


def _read_message(step: _Step, namespace: tuple[str, ...], part: Any) -> None:
    """A message that no model said: a node wrote it."""
    message = part[0]
    if isinstance(message, AIMessage) and str(message.id) not in step.spoken:
        step.spoken.add(str(message.id))
        for kind, text in _said(message):
            step.say(step.run.reasoning(text) if kind == "reasoning" else text)


def _read_custom(step: _Step, namespace: tuple[str, ...], part: Any) -> None:
    """What a node wrote with its stream writer: an AG-UI event, or a value for CUSTOM."""
    if isinstance(part, BaseEvent):
        step.say(part)
    else:
        step.run.custom("langgraph", decoded(part))


def _read_update(step: _Step, namespace: tuple[str, ...], part: Any) -> None:
    """What nodes made of the state.

    Raises:
        AgentFailed: the graph was interrupted.
    """
    if "__interrupt__" in part:
        message = (
            "the graph was interrupted: nobody can resume it here; ask by a tool's approval, or"
            " by a tool of the page"
        )
        raise AgentFailed(message, RunCode.AGENT_ERROR)
    for update in part.values() if not namespace else ():
        if isinstance(update, Mapping) and update.get("structured_response") is not None:
            step.run.output = decoded(update["structured_response"])


_READERS: Final[Mapping[str, Callable[[_Step, tuple[str, ...], Any], None]]] = {
    "messages": _read_message,
    "custom": _read_custom,
    "updates": _read_update,
}


def decoded(value: Any) -> Json:
    """A value as JSON, as far as it has such a form."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    try:
        encode(value)
    except Exception:
        return str(value)
    return value


# ---- history -----------------------------------------------------------------------------------


def spelled(messages: Sequence[Any], instructions: str = "") -> list[BaseMessage]:
    """The thread's history as LangChain messages.

    All instructions stand in one system message in front, since some providers take no other.
    Thoughts are left out: a provider takes them only in its own form.
    """
    turns = h.turns(messages)
    told = [instructions, *(turn.text for turn in turns if isinstance(turn, h.SystemTurn))]
    system = "\n\n".join(text for text in told if text)
    made: list[BaseMessage] = [SystemMessage(system)] if system else []
    for turn in turns:
        made.extend(_spell(turn))
    for number, message in enumerate(made):
        message.id = f"history-{number}"  # known ids are not taken for news
    return made


@functools.singledispatch
def _spell(turn: h.Turn) -> Iterator[BaseMessage]:
    yield from ()


@_spell.register
def _(turn: h.UserTurn) -> Iterator[BaseMessage]:
    if all(isinstance(part, h.Text) for part in turn.parts):
        yield HumanMessage(h.text_of(turn.parts))
    else:
        yield HumanMessage(content_blocks=[_block(part) for part in turn.parts])


@_spell.register
def _(turn: h.ModelTurn) -> Iterator[BaseMessage]:
    calls = [_call(call) for call in turn.calls]
    if turn.text or calls:
        yield AIMessage(turn.text, tool_calls=calls)


@_spell.register
def _(turn: h.ResultsTurn) -> Iterator[BaseMessage]:
    for answer in turn.answers:
        yield ToolMessage(
            h.text_of(answer.parts),
            tool_call_id=answer.call_id,
            name=_spelled_name(answer.name),
            status="error" if answer.failed else "success",
        )


def _call(call: h.Asked) -> Any:
    args, name = _object(call.arguments), _spelled_name(call.name)
    return {"type": "tool_call", "id": call.id, "name": name, "args": args}


def _block(part: h.Part) -> Any:
    """A part as a content block of LangChain's."""
    if isinstance(part, h.Text):
        return {"type": "text", "text": part.text}
    block: dict[str, str] = {"type": "file" if part.kind == "document" else part.kind}
    block |= {"mime_type": part.mime_type} if part.mime_type else {}
    return block | ({"url": part.url} if part.data is None else {"base64": part.data})


def _object(arguments: str) -> dict[str, Json]:
    """A call's arguments as the object that providers want; {} for what is none."""
    try:
        value = parse_json(arguments)
    except Exception:
        return {}
    return value if isinstance(value, dict) else {}
