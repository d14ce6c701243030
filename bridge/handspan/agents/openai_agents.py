"""Agents of the OpenAI Agents SDK with the page's tools in their hands.

    bridge.add_agent("default", OpenAIAgents(Agent(name="helper", instructions="Be kind.")))

The library's loop runs inside one step. For each run the agent, and each that it hands off to, is
copied: the copy has the page's tools beside its own, as they are before each turn, and a model that
passes everything on and notes what it must: tokens, an answer that was cut, names that nobody has.
Only an id that a call had before is replaced: the library wants each once, and many servers count
anew in each answer.
The agents themselves are never changed, so one serves any number of runs at once. Deliberately
without the library's sessions: the thread's history is told anew each time, to the first agent.

Above sits the bridge, below `agents`; tracing is off unless asked for, and nothing is sent anywhere
but to the models. Works with openai-agents 0.12 and later.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from ag_ui.core import (
    ActivitySnapshotEvent,
    BaseEvent,
)
from openai import OpenAIError
from pydantic_core import to_jsonable_python

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    RunConfig,
    Runner,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    handoff,
)
from agents import exceptions as problems
from handspan.model import history
from handspan.model.failures import told as failure_told
from handspan.model.names import Names
from handspan.model.prompt import instructions_of
from handspan.model.provided import answered, called
from handspan.model.results import content_of
from handspan.model.results import told as told_of
from handspan.model.thinking import Thinking, opened, sealed
from handspan.ports import AgentFailed
from handspan_protocol.codec import encode
from handspan_protocol.errors import RunCode

__all__ = ["OpenAIAgents"]

Json = Any

_SEAL: Final = "openai-agents"
"""Whose thoughts the opaque ones are."""

_CUT: Final[Mapping[str | None, str]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""Why a response is incomplete, in our words. *Source:* the Responses API."""

_TAKES_BACK: Final = ("encrypted_content", "provider_data")
"""Thoughts are sent back only with one of these: without, a provider that kept nothing refuses."""

_JSON_TOOL: Final = "json_tool_call"
"""The name by which some models give a structured output. *Source:* agents.run_internal."""

_GRACE_S: Final = 5.0
"""For a loop that was cancelled to end. *Source:* Policy.cleanup_grace."""

_LINE_CHARS: Final = 300
"""Of a library's message that is shown; the log has the rest."""


class OpenAIAgents:
    """An agent of the SDK as an agent of the bridge.

    `context(run)` makes the run's context object; `tracing=True` turns the SDK's tracing on;
    `options` go to `Runner.run_streamed` as they are (max_turns, run_config, hooks, ...). An output
    that is no text becomes `run.output`.
    """

    def __init__(
        self,
        agent: Agent[Any],
        *,
        context: Callable[[Any], Any] | None = None,
        tracing: bool = False,
        run_config: RunConfig | None = None,
        **options: Any,
    ) -> None:
        self._agent = agent
        self._context = context
        self._config = replace(run_config or RunConfig(), tracing_disabled=not tracing)
        self._options = options

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        page = _Page(run, self._config)
        told = list(_input(history.turns(run.messages), page.names))
        if not told:
            raise AgentFailed("there is nothing to answer", RunCode.AGENT_ERROR)
        going = Runner.run_streamed(
            page.agent(self._agent),
            told,
            context=self._context(run) if self._context else None,
            run_config=page.config,
            **self._options,
        )
        try:
            async for item in _said(going, page):
                yield item
        except _WasCut as cut:
            run.finish_reason = cut.reason
        except (problems.AgentsException, OpenAIError) as failure:
            raise _failed(failure) from failure
        finally:
            await _over(going)


async def _over(going: Any) -> None:
    """Nothing of the run is left behind."""
    if not going.run_loop_task.done():
        going.cancel()
        await asyncio.wait({going.run_loop_task}, timeout=_GRACE_S)


# ---- the loop's events ---------------------------------------------------------------------------


async def _said(going: Any, page: "_Page") -> AsyncIterator[Any]:
    """All that the run says, as items; its output goes to the page's run."""
    teller = _Teller(page)
    reader = asyncio.create_task(_read(going, page.heard))
    try:
        while (event := await page.heard.get()) is not None:
            for item in teller.items(event):
                yield item
            page.heard.task_done()
        await reader
    finally:
        reader.cancel()
        await asyncio.wait({reader}, timeout=_GRACE_S)
    _give_output(going, teller.text, page.run)


async def _read(going: Any, heard: "asyncio.Queue[Any]") -> None:
    """What the loop itself tells; the model's words come from the model."""
    try:
        async for event in going.stream_events():
            if event.type == "run_item_stream_event":
                heard.put_nowait(event)
    finally:
        heard.put_nowait(None)


def _give_output(going: Any, text: str, run: Any) -> None:
    """A text was said already, unless a tool gave it."""
    if getattr(going, "interruptions", None):
        raise AgentFailed(
            "the agent's own tools that wait for an approval are not carried out here; approval of"
            " the page's tools is the bridge's",
            RunCode.AGENT_ERROR,
        )
    if going.final_output is not None and going.final_output != text:
        run.output = to_jsonable_python(going.final_output, fallback=str)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The model is asked: what it is told came of its calls."""

    results: Sequence[Mapping[str, Json]]


class _Teller:
    """Makes items of the library's events."""

    def __init__(self, page: "_Page") -> None:
        self.text = ""
        """Of the newest response."""
        self._is_whole = False
        self._thinks = False
        self._page = page
        self._thinking = Thinking(f"{page.run.id}-thoughts-{page.run.depth}")
        self._calls: set[str] = set()
        """Calls of tools of the agents' own that were shown."""
        self._open: set[str] = set()
        """Those that have no result yet."""
        self._handoffs = 0

    def items(self, event: Any) -> Iterator[str | BaseEvent]:
        if isinstance(event, _Asked):
            for item in event.results:
                yield from self._resulted(item)
        elif event.type == "run_item_stream_event":
            yield from self._item(event.name, event.item)
        else:
            yield from self._raw(event)

    def _raw(self, data: Any) -> Iterator[str | BaseEvent]:
        if self._is_whole:
            self.text, self._is_whole = "", False
        match data.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self.text += data.delta
                yield from self._thinking.end()
                yield data.delta
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._thought(data.delta)
            case "response.reasoning_summary_part.added" if data.summary_index:
                yield from self._thought("\n\n")
            case "response.output_item.done" if data.item.type == "reasoning":
                yield from self._thought_over(_sealed(data.item))
            case "response.output_item.done" if data.item.type == "function_call":
                yield from self._called(data.item)
            case "response.completed":
                yield from self._thinking.end()
                for item in data.response.output:
                    yield from self._called(item) if item.type == "function_call" else ()
                self._is_whole = True

    def _thought(self, delta: str) -> Iterator[BaseEvent]:
        self._thinks = True
        yield from self._thinking.say(delta)

    def _thought_over(self, opaque: str | None) -> Iterator[BaseEvent]:
        """Its item may come when the text has begun, and may have had no words."""
        thinks, self._thinks = self._thinks, False
        if not thinks:
            yield from self._thinking.end(opaque)
            return
        yield from self._thinking.end()
        if opaque is not None:
            yield from self._thinking.seal(opaque)

    def _item(self, name: str, item: Any) -> Iterator[BaseEvent]:
        if name == "handoff_occured":
            yield self._handed_off(item)
        elif name == "tool_output":
            yield from self._resulted(item.raw_item)

    def _called(self, call: Any) -> Iterator[BaseEvent]:
        """A call of a tool of an agent's own, which the library carries out."""
        if call.name in self._page.shown and call.call_id not in self._calls:
            self._calls.add(call.call_id)
            self._open.add(call.call_id)
            yield from called(call.call_id, call.name, call.arguments)

    def _resulted(self, item: Mapping[str, Json]) -> Iterator[BaseEvent]:
        """What came of it; the loop tells it to us, and to the model, in whichever order."""
        call_id, output = item.get("call_id"), item.get("output")
        if call_id in self._open:
            self._open.remove(call_id)
            text = output if isinstance(output, str) else encode(output).decode()
            yield answered(call_id, text)

    def _handed_off(self, item: Any) -> BaseEvent:
        self._handoffs += 1
        return ActivitySnapshotEvent(
            message_id=f"{self._page.run.id}-handoff-{self._page.run.depth}-{self._handoffs}",
            activity_type="handoff",
            content={"from": item.source_agent.name, "to": item.target_agent.name},
        )


# ---- the page's tools ----------------------------------------------------------------------------


class _WasCut(Exception):  # noqa: N818 (no error: the model's answer was cut)
    """The model's answer ended before its end: nothing of it is carried out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Page:
    """What one run of the agents has of its page."""

    def __init__(self, run: Any, config: RunConfig) -> None:
        self.run = run
        self.shown: set[str] = set()
        """The agent's own tools of which the page sees the calls: those of names it has not."""
        self.names = Names(tool.name for tool in run.tools)
        self.instructions = instructions_of(run)
        self.config = replace(
            config,
            model=_Model(config.model, self) if isinstance(config.model, Model) else config.model,
            model_provider=_Provider(config.model_provider, self),
        )
        self.used: set[str] = set()
        """Ids of calls that models made in this run."""
        self._copies: dict[int, tuple[Agent[Any], Agent[Any]]] = {}
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        """Events for the page, from the model and from the loop; None: it is over. The loop goes on
        without waiting for who reads them: what may not overtake them joins the queue."""

    # ---- agents ------------------------------------------------------------------------------

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """The copy of it that has the page's tools; the same one each time."""
        if id(agent) in self._copies:
            return self._copies[id(agent)][1]
        copied: Any = copy.copy(agent)
        self._copies[id(agent)] = self._copies[id(copied)] = (agent, copied)
        if isinstance(agent.model, Model):
            copied.model = _Model(agent.model, self)
        copied.handoffs = [self._handoff(each) for each in agent.handoffs]
        copied.get_all_tools = lambda context: self._tools(copied, context)
        return self._copies[id(agent)][1]

    def _handoff(self, target: Agent[Any] | Handoff[Any, Any]) -> Handoff[Any, Any]:
        given = target if isinstance(target, Handoff) else handoff(target)

        async def to_the_copy(context: Any, raw: str) -> Agent[Any]:
            return self.agent(await given.on_invoke_handoff(context, raw))

        return replace(given, on_invoke_handoff=to_the_copy)

    # ---- tools -------------------------------------------------------------------------------

    async def _tools(self, agent: Any, context: Any) -> list[Any]:
        """The agent's own tools, and the page's as they are now behind them."""
        own = await type(agent).get_all_tools(agent, context)
        mine = {tool.name for tool in own}
        taken = mine | {each.tool_name for each in agent.handoffs}
        page = self.run.current_tools()
        self.names = Names(tool.name for tool in page)
        hers = {self.names.theirs(tool.name): tool for tool in page}
        self.shown = mine - hers.keys()
        return [*own, *(self._tool(n, t) for n, t in hers.items() if n not in taken)]

    def _tool(self, name: str, tool: Any = None) -> FunctionTool:
        async def invoke(_: Any, raw: str) -> Any:
            return _shown(await self.run.call_tool(self.names.own(name), raw))

        return FunctionTool(
            name=name,
            description=tool.description if tool else "",
            params_json_schema=tool.parameters if tool else {"type": "object", "properties": {}},
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )

    def take_unknown(self, called: Iterable[Any], tools: list[Any], known: set[str]) -> None:
        """Names that nobody has are the bridge's to answer: a page's `*`, or what there is."""
        have = known | {tool.name for tool in tools}
        for name in {call.name for call in called if not getattr(call, "namespace", None)} - have:
            tools.append(self._tool(name))

    def count(self, response: Any) -> None:
        usage = response.usage
        if usage is None:
            return
        cached, thought = usage.input_tokens_details, usage.output_tokens_details
        self.run.count_usage(
            model=response.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cached_input_tokens=getattr(cached, "cached_tokens", None) or None,
            reasoning_tokens=getattr(thought, "reasoning_tokens", None) or None,
        )


class _Provider(ModelProvider):
    """Another provider, whose models are ours to hear."""

    def __init__(self, provider: ModelProvider, page: _Page) -> None:
        self._provider = provider
        self._page = page

    def get_model(self, model_name: str | None) -> Model:
        return _Model(self._provider.get_model(model_name), self._page)


class _Model(Model):
    """Another model, heard as it answers one run."""

    def __init__(self, model: Model, page: _Page) -> None:
        self._model = model
        self._page = page

    def __getattr__(self, name: str) -> Any:
        """What a model may have beside the interface."""
        return getattr(self._model, name)

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        return await self._model.get_response(*args, **kwargs)

    def get_retry_advice(self, request: Any) -> Any:
        return self._model.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        """The SDK tells models that a run is over, since 0.20 or so."""
        clean = getattr(self._model, "_cleanup_on_run_end", None)
        if clean is not None:
            await clean(owner)

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        instructions, put, settings, tools, schema, handoffs, *rest = asked
        told = "\n\n".join(filter(None, [instructions, self._page.instructions])) or None
        self._page.heard.put_nowait(_Asked(_results(put)))
        events: Any = self._model.stream_response(
            told, put, settings, tools, schema, handoffs, *rest, **more
        )
        calls: dict[str, Any] = {}
        ids = _Ids(self._page.used | _ids(put))
        known = {each.tool_name for each in handoffs} | ({_JSON_TOOL} if schema else set())
        try:
            async for told_event in events:
                event = ids.in_event(told_event)
                _note_calls(event, calls)
                if event.type in ("response.completed", "response.incomplete"):
                    self._whole(event.response)
                    self._page.used |= calls.keys()
                    self._page.take_unknown(calls.values(), tools, known)
                self._page.heard.put_nowait(event)
                yield event
        except Exception:
            await self._page.heard.join()
            raise
        finally:
            await events.aclose()
        await self._page.heard.join()

    def _whole(self, response: Any) -> None:
        """Raises: _WasCut: it is not."""
        self._page.count(response)
        if response.status == "incomplete":
            why = getattr(response.incomplete_details, "reason", None)
            raise _WasCut(_CUT.get(why, "unknown"))


class _Ids:
    """The ids of one response's calls: one that was used before is another call under a fresh id.

    The events that tell of a call tell of it under one id. *Source:* behaviour.md 3.
    """

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._given: dict[Any, list[str]] = {}
        """Ours for the calls that came with an id, in their order."""
        self._places: dict[tuple[str, Any], list[int]] = {}
        """Where they stood, by the kind of event that told it."""

    def in_event(self, event: Any) -> Any:
        """The event with our ids."""
        match event.type:
            case "response.output_item.added" | "response.output_item.done":
                item = self._item(event.type, event.output_index, event.item)
                return event.model_copy(update={"item": item})
            case "response.completed" | "response.incomplete":
                told = enumerate(event.response.output)
                items = [self._item(event.type, place, item) for place, item in told]
                response = event.response.model_copy(update={"output": items})
                return event.model_copy(update={"response": response})
        return event

    def _item(self, kind: str, place: int, item: Any) -> Any:
        if item.type != "function_call":
            return item
        return item.model_copy(update={"call_id": self._ours(kind, place, item.call_id)})

    def _ours(self, kind: str, place: int, theirs: Any) -> str:
        places = self._places.setdefault((kind, theirs), [])
        if place not in places:
            places.append(place)
        given, number = self._given.setdefault(theirs, []), places.index(place)
        if number == len(given):
            given.append(theirs if theirs and theirs not in self._used else f"call_{uuid4().hex}")
            self._used.add(given[-1])
        return given[number]


def _ids(put: Any) -> set[str]:
    """Of the calls that stand in what a model is told."""
    items = put if isinstance(put, list) else []
    return {item["call_id"] for item in items if item.get("type") == "function_call"}


def _results(put: Any) -> list[Mapping[str, Json]]:
    """Of the calls that stand in what a model is told."""
    items = put if isinstance(put, list) else []
    return [item for item in items if item.get("type") == "function_call_output"]


def _note_calls(event: Any, calls: dict[str, Any]) -> None:
    """Keep the calls that an event tells of, each once."""
    told: Sequence[Any] = ()
    if event.type == "response.output_item.done":
        told = (event.item,)
    elif event.type == "response.completed":
        told = event.response.output
    calls.update((item.call_id, item) for item in told if item.type == "function_call")


def _shown(result: Any) -> Any:
    """A result as the model is told it (protocol.md 3)."""
    parts = content_of(result)
    return [_output(part) for part in parts] if parts else told_of(result)


def _output(part: history.Part) -> ToolOutputText | ToolOutputImage | ToolOutputFileContent:
    if isinstance(part, history.Media) and part.kind == "image":
        return ToolOutputImage(image_url=_address(part))
    return ToolOutputText(text=history.described(part))


# ---- the history ---------------------------------------------------------------------------------


def _input(turns: Iterable[history.Turn], names: Names) -> Iterator[Any]:
    """The history as items of the Responses API, which is the library's form."""
    for turn in turns:
        match turn:
            case history.SystemTurn(text):
                yield {"role": "system", "content": text}
            case history.UserTurn(parts):
                yield {"role": "user", "content": _content(parts)}
            case history.ModelTurn():
                yield from _said_items(turn, names)
            case history.ResultsTurn(answers):
                yield from map(_result_item, answers)


def _said_items(turn: history.ModelTurn, names: Names) -> Iterator[Any]:
    for thought in turn.thoughts:
        kept = opened(_SEAL, thought.opaque)
        if isinstance(kept, dict):
            yield kept
    if turn.text:
        yield {"role": "assistant", "content": turn.text}
    for call in turn.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": names.theirs(call.name),
            "arguments": call.arguments if _is_object(call.arguments) else "{}",
        }


def _result_item(answer: history.Answer) -> Any:
    output = _content(answer.parts)
    return {"type": "function_call_output", "call_id": answer.call_id, "output": output}


def _sealed(item: Any) -> str | None:
    """The thoughts as the provider wants them back; None: it does not."""
    kept = item.model_dump(mode="json", exclude_none=True)
    return sealed(_SEAL, kept) if any(key in kept for key in _TAKES_BACK) else None


def _content(parts: Sequence[history.Part]) -> Any:
    """A text as it is; several parts, or what is no text, as a list."""
    if all(isinstance(part, history.Text) for part in parts):
        return history.text_of(parts)
    return [_part(part) for part in parts]


def _part(part: history.Part) -> Any:
    if isinstance(part, history.Media) and part.kind == "image":
        return {"type": "input_image", "image_url": _address(part), "detail": "auto"}
    if isinstance(part, history.Media) and part.kind == "document" and part.url:
        return {"type": "input_file", "file_url": part.url}
    if isinstance(part, history.Media) and part.kind == "document":
        return {"type": "input_file", "filename": "document", "file_data": _address(part)}
    return {"type": "input_text", "text": history.described(part)}


def _address(part: history.Media) -> str:
    return part.url or f"data:{part.mime_type or 'application/octet-stream'};base64,{part.data}"


def _is_object(raw: str) -> bool:
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


# ---- failures ------------------------------------------------------------------------------------


def _failed(failure: Exception) -> AgentFailed:
    """One line that helps, and no secrets."""
    match failure:
        case problems.UserError():
            return AgentFailed(_line(str(failure)), RunCode.AGENT_ERROR)
        case (
            problems.InputGuardrailTripwireTriggered() | problems.OutputGuardrailTripwireTriggered()
        ):
            name = failure.guardrail_result.guardrail.get_name()
            return AgentFailed(f"a guardrail stopped the agent: {name}", RunCode.DENIED)
        case OpenAIError():
            return AgentFailed(failure_told("the model", failure))
    return AgentFailed(_line(str(failure) or type(failure).__name__))


def _line(said: str) -> str:
    return said.strip().splitlines()[0][:_LINE_CHARS]
