"""Agents of pydantic-ai with the page's tools in their hands.

    bridge.add_agent("default", PydanticAI(Agent("openai:gpt-5.2")))

The library's loop runs inside one step. What it is given for that run alone is a capability: it
puts the page's tools beside the agent's own, as they are before each model request, and has their
calls carried out by the bridge; it counts tokens, and stops a run whose answer was cut. The agent
itself is never changed, so one serves any number of runs at once. Deliberately without the
library's memory: the thread's history is told anew each time.

Above sits the bridge, below `pydantic_ai`, of which only the public interface is used.
"""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

from ag_ui.core import (
    BaseEvent,
)
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, RunContext, ToolDefinition
from pydantic_ai import exceptions as problems
from pydantic_ai import messages as m
from pydantic_ai.capabilities import AbstractCapability, ReinjectSystemPrompt
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from handspan.model import history
from handspan.model.failures import told as failure_told
from handspan.model.names import Names
from handspan.model.prompt import instructions_of
from handspan.model.provided import answered, called
from handspan.model.results import content_of
from handspan.model.results import told as told_of
from handspan.model.thinking import Thinking, opened, sealed
from handspan.ports import AgentFailed
from handspan_protocol.errors import RunCode

__all__ = ["PydanticAI"]

Json = Any

_SEAL: Final = "pydantic-ai"
"""Whose thoughts the opaque ones are."""

_ANY: Final = "handspan:any"
"""The tool behind names that nobody has; no page can have one of this name, no model sees it."""

_CUT: Final = frozenset(["length", "content_filter", "error"])
"""Of pydantic_ai.messages.FinishReason: ends that are none."""

_LINE_CHARS: Final = 300
"""Of a library's message that is shown; the log has the rest."""


class PydanticAI:
    """A pydantic-ai agent as an agent of the bridge.

    `deps(run)` makes what the agent's tools find in `ctx.deps`; `options` go to `agent.iter` as
    they are (model, model_settings, usage_limits, ...). A structured output becomes `run.output`.
    """

    def __init__(
        self,
        agent: Any,
        *,
        deps: Callable[[Any], Any] | None = None,
        capabilities: Iterable[Any] = (),
        **options: Any,
    ) -> None:
        self._agent = agent
        self._deps = deps
        self._capabilities = tuple(capabilities)
        self._options = options

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        page = _Page(run)
        try:
            async with self._agent.iter(
                message_history=_messages(history.turns(run.messages), page.names),
                instructions=instructions_of(run) or None,
                deps=self._deps(run) if self._deps else None,
                capabilities=[ReinjectSystemPrompt(), page, *self._capabilities],
                **self._options,
            ) as going:
                async for item in _said(going, page):
                    yield item
        except _WasCut as cut:
            run.finish_reason = cut.reason
        except problems.UserError as mistake:
            raise AgentFailed(_line(mistake), RunCode.AGENT_ERROR) from mistake
        except problems.AgentRunError as failure:
            raise AgentFailed(_failure(failure)) from failure


# ---- the loop's events ---------------------------------------------------------------------------


async def _said(going: Any, page: "_Page") -> AsyncIterator[Any]:
    """All that the run says, as items; its output goes to the page's run."""
    teller = _Teller(page)
    async for node in going:
        if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
            stream: Any = node.stream(going.ctx)
            async with stream as events:
                async for event in events:
                    for item in teller.items(event):
                        yield item
    _give_output(page.run, going.result)


class _Teller:
    """Makes items of the library's events."""

    def __init__(self, page: "_Page") -> None:
        self._page = page
        self._thinking = Thinking(f"{page.run.id}-thoughts-{page.run.depth}")

    def items(self, event: Any) -> Iterator[str | BaseEvent]:
        match event:
            case m.PartStartEvent(part=m.TextPart(content=text)):
                yield text
            case m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text)):
                yield text
            case m.PartStartEvent(part=m.ThinkingPart(content=text)):
                yield from self._thinking.say(text)
            case m.PartDeltaEvent(delta=m.ThinkingPartDelta(content_delta=text)):
                yield from self._thinking.say(text or "")
            case m.PartEndEvent(part=m.ThinkingPart() as part):
                yield from self._thinking.end(_sealed(part))
            case m.FunctionToolCallEvent(part=call) if call.tool_name in self._page.shown:
                yield from called(call.tool_call_id, call.tool_name, call.args_as_json_str())
            case m.FunctionToolResultEvent(part=result) if result.tool_name in self._page.shown:
                yield answered(result.tool_call_id, result.model_response_str())


def _give_output(run: Any, result: AgentRunResult[Any]) -> None:
    """A text was said already, unless a tool gave it."""
    if isinstance(result.output, DeferredToolRequests):
        raise AgentFailed(
            "the agent's own tools that wait for an approval or a result from outside are not"
            " carried out here; approval of the page's tools is the bridge's",
            RunCode.AGENT_ERROR,
        )
    if isinstance(result.output, str) and result.output == (result.response.text or ""):
        return
    run.output = to_jsonable_python(result.output, fallback=str)


# ---- the page's tools ----------------------------------------------------------------------------


class _WasCut(Exception):  # noqa: N818 (no error: the model's answer was cut)
    """The model's answer ended before its end: nothing of it is carried out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Page(AbstractCapability[Any]):
    """What one run of the agent has of its page."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.own: set[str] = set()
        """Names of the agent's own tools; they come before the page's."""
        self.shown: set[str] = set()
        """Those of which the page sees the calls: a call to a name of its own would be its own."""
        self.names = Names(tool.name for tool in run.tools)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _Hands(wrapped=toolset, page=self)

    def tools(self) -> Iterator[ToolDefinition]:
        """The page's tools as they are now."""
        tools = self.run.current_tools()
        self.names = Names(tool.name for tool in tools)
        for tool in tools:
            yield ToolDefinition(
                name=self.names.theirs(tool.name),
                description=tool.description,
                parameters_json_schema=tool.parameters,
            )

    async def call(self, name: str, args: dict[str, Json]) -> Json:
        """Have it carried out; what fails is the model's to know, never an exception."""
        return _shown(await self.run.call_tool(self.names.own(name), _written(args)))

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        asked = request_context.model_request_parameters
        shown = [tool for tool in asked.function_tools if tool.name != _ANY]
        request_context.model_request_parameters = replace(asked, function_tools=shown)
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: m.ModelResponse
    ) -> m.ModelResponse:
        self._count(response)
        if response.finish_reason in _CUT:
            raise _WasCut(response.finish_reason)
        response = _with_fresh_ids(response, request_context.messages)
        _take_unknown(ctx, response.tool_calls)
        return response

    def _count(self, response: m.ModelResponse) -> None:
        usage = response.usage
        self.run.count_usage(
            provider=response.provider_name,
            model=response.model_name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cache_read_tokens or None,
            cache_write_input_tokens=usage.cache_write_tokens or None,
            reasoning_tokens=usage.details.get("reasoning_tokens"),
        )


def _with_fresh_ids(response: m.ModelResponse, before: Iterable[m.ModelMessage]) -> m.ModelResponse:
    """A call's id that was used before is another call under a fresh id; the library refuses two of
    one id in one response. *Source:* behaviour.md 3."""
    used = {
        call.tool_call_id
        for told in before
        if isinstance(told, m.ModelResponse)
        for call in told.tool_calls
    }
    return replace(response, parts=[_once(part, used) for part in response.parts])


def _once(part: Any, used: set[str]) -> Any:
    if not isinstance(part, m.ToolCallPart):
        return part
    if part.tool_call_id in used:
        part = replace(part, tool_call_id=f"call_{uuid4().hex}")
    used.add(part.tool_call_id)
    return part


def _take_unknown(ctx: RunContext[Any], calls: Iterable[m.ToolCallPart]) -> None:
    """Names that nobody has are the bridge's to answer: a page's `*`, or what there is instead."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    if not tools or _ANY not in tools:
        return
    for call in calls:
        if call.tool_name not in tools:
            any_tool = tools[_ANY]
            named = replace(any_tool.tool_def, name=call.tool_name)
            tools[call.tool_name] = replace(any_tool, tool_def=named)


@dataclass
class _Hands(WrapperToolset[Any]):
    """The agent's own tools, and the page's behind them."""

    page: _Page = field(kw_only=True)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        own = await self.wrapped.get_tools(ctx)
        page = {tool.name: self._tool(tool) for tool in self.page.tools()}
        self.page.own, self.page.shown = set(own), own.keys() - page.keys()
        return {_ANY: self._tool(ToolDefinition(name=_ANY)), **page, **own}

    def _tool(self, definition: ToolDefinition) -> ToolsetTool[Any]:
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=0, args_validator=_Unread()
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        if name in self.page.own:
            return await super().call_tool(name, tool_args, ctx, tool)
        return await self.page.call(name, tool_args)


class _Unread:
    """Arguments as the model wrote them: it is the bridge that checks them (P3)."""

    def validate_json(self, input: Any, **_: Any) -> Any:  # noqa: A002 (the library's name)
        return _Args(input if isinstance(input, str) else bytes(input).decode())

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002
        return input


class _Args(dict[str, Json]):
    """The object that a text holds, and the text; empty when it holds none."""

    def __init__(self, raw: str) -> None:
        super().__init__(_object(raw))
        self.raw = raw


def _written(args: dict[str, Json]) -> str | dict[str, Json]:
    """The model's own text, unless a hook of the library changed what it says."""
    if isinstance(args, _Args) and args == _object(args.raw):
        return args.raw
    return dict(args)


def _object(raw: str) -> dict[str, Json]:
    try:
        said = json.loads(raw)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _shown(result: Any) -> Json:
    """A result as the model is told it (protocol.md 3)."""
    parts = content_of(result)
    return _content(parts) if parts else told_of(result)


# ---- the history ---------------------------------------------------------------------------------


def _messages(turns: Iterable[history.Turn], names: Names) -> list[m.ModelMessage]:
    """The history in the library's form; the last message is a request, since a model is asked."""
    told: list[m.ModelMessage] = [_message(turn, names) for turn in turns]
    if not told or isinstance(told[-1], m.ModelResponse):
        told.append(m.ModelRequest(parts=[]))
    return told


def _message(turn: history.Turn, names: Names) -> m.ModelMessage:
    match turn:
        case history.SystemTurn(text):
            return m.ModelRequest(parts=[m.SystemPromptPart(text)])
        case history.UserTurn(parts):
            return m.ModelRequest(parts=[m.UserPromptPart(_content(parts))])
        case history.ModelTurn():
            return m.ModelResponse(parts=list(_response_parts(turn, names)))
        case history.ResultsTurn(answers):
            return m.ModelRequest(parts=[_answer(each, names) for each in answers])


def _response_parts(turn: history.ModelTurn, names: Names) -> Iterator[m.ModelResponsePart]:
    for thought in turn.thoughts:
        yield from _thought(thought)
    if turn.text:
        yield m.TextPart(turn.text)
    for call in turn.calls:
        arguments = call.arguments if _object(call.arguments) else "{}"
        yield m.ToolCallPart(names.theirs(call.name), arguments, call.id)


def _answer(answer: history.Answer, names: Names) -> m.ToolReturnPart:
    return m.ToolReturnPart(names.theirs(answer.name), _content(answer.parts), answer.call_id)


def _thought(thought: history.Thought) -> Iterator[m.ThinkingPart]:
    kept = opened(_SEAL, thought.opaque)
    if isinstance(kept, dict):
        yield m.ThinkingPart(thought.text, **kept)
    elif thought.text:
        yield m.ThinkingPart(thought.text)


def _sealed(part: m.ThinkingPart) -> str | None:
    """What the provider wants back with this thought; None: nothing."""
    told = {
        "id": part.id,
        "signature": part.signature,
        "provider_name": part.provider_name,
        "provider_details": part.provider_details,
    }
    kept = {key: value for key, value in told.items() if value is not None}
    return sealed(_SEAL, kept) if kept else None


def _content(parts: Sequence[history.Part]) -> Any:
    """A text as it is; several parts, or what is no text, as a list."""
    if all(isinstance(part, history.Text) for part in parts):
        return history.text_of(parts)
    return [_part(part) for part in parts]


def _part(part: history.Part) -> str | m.MultiModalContent:
    if isinstance(part, history.Media) and part.url:
        return _URLS[part.kind](part.url, media_type=part.mime_type)
    if isinstance(part, history.Media) and part.mime_type:
        try:
            data = base64.b64decode(part.data or "", validate=True)
        except binascii.Error:
            return history.described(part)
        return m.BinaryContent(data, media_type=part.mime_type)
    return history.described(part)


_URLS: Final[dict[str, Callable[..., m.MultiModalContent]]] = {
    "image": m.ImageUrl,
    "audio": m.AudioUrl,
    "video": m.VideoUrl,
    "document": m.DocumentUrl,
}


# ---- failures ------------------------------------------------------------------------------------


def _failure(failure: problems.AgentRunError) -> str:
    """One line that helps, and no secrets."""
    match failure:
        case problems.ModelHTTPError():
            return failure_told(failure.model_name, failure)
        case problems.ModelAPIError():
            return failure_told(failure.model_name, failure.__cause__ or failure)
        case problems.RunCancelled():
            return "the agent's run was cancelled by itself"
    return _line(failure)


def _line(problem: Exception) -> str:
    said = getattr(problem, "message", None) or str(problem) or type(problem).__name__
    return str(said).strip().splitlines()[0][:_LINE_CHARS]
