"""AutoGen: an AssistantAgent, or a team, as an agent; its loop runs inside one step.

    AutoGen(lambda tools: AssistantAgent("helper", model_client, workbench=tools,
                                         model_client_stream=True, max_tool_iterations=10))
    AutoGen(AssistantAgent("helper", model_client, ...))     # copied for each run

AutoGen's agents remember, so each step gets a fresh one: from the function, or a copy of the
instance with an empty model context. It is given the thread's history; the thread is the memory.
The page's tools are a Workbench that tells what the page has now.

Three parts of an AssistantAgent are taken over for the run, since its events come too late and tell
too little (why a turn ended is in none of them): its model client is heard (`_Ear`: text as it
streams, thoughts, usage, a turn that was cut), its workbenches are one (`_Desk`: whatever happens
in a tool, its call gets a result), its model context gets the history. Any other agent is only
listened to.

*AutoGen's hang*: an AssistantAgent waits for ever when a tool call ends in an exception or is
cancelled, since the end of its queue of events is never put (autogen-agentchat 0.7.5,
`_process_model_result`). No exception leaves the desk, and whatever is at work hangs on the run's
CancellationToken.
"""

import asyncio
import copy
import re
import uuid
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from typing import Any, Final

from ag_ui.core import (
    ActivitySnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import (
    BaseChatMessage,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    StructuredMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallSummaryMessage,
)
from autogen_core import CancellationToken, FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import (
    StaticStreamWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)

from handspan.model import history as h
from handspan.model.prompt import instructions_of
from handspan.ports import AgentFailed
from handspan_protocol.codec import encode
from handspan_protocol.content import error_text, result_text
from handspan_protocol.errors import RunCode, UsageError

__all__ = ["AutoGen", "PageTools"]

Json = Any
Messages = Sequence[LLMMessage]

CLEANUP_S: Final = 5.0
"""How long what was cancelled may take to end; as `Policy.cleanup_grace`."""

_NAME: Final = 64
"""Characters of a tool's name that AutoGen's clients take."""


class AutoGen:
    """An agent of AutoGen's, or a team.

    `agent`: a function of the page's tools (a Workbench), sync or async, that makes an agent or a
    team for each step; or an AssistantAgent, which is copied each time, and has the page's tools
    beside its own. `instructions` stand behind the agent's own system messages.

    Raises:
        UsageError: it is an instance of another kind: what it remembers cannot be told apart.
    """

    def __init__(
        self, agent: AssistantAgent | Callable[[Workbench], Any], *, instructions: str = ""
    ) -> None:
        is_instance = isinstance(agent, ChatAgent | Team)
        if (is_instance and type(agent) is not AssistantAgent) or not (
            is_instance or callable(agent)
        ):
            raise UsageError(
                f"a {type(agent).__name__} keeps what it heard: give AutoGen a function that makes"
                " one for each run, AutoGen(lambda tools: ...)"
            )
        self._agent = agent
        self._instructions = instructions

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        voice = _Voice(run, instructions_of(run, self._instructions))
        agent = await self._made(voice)
        task = voice.begin(_listen(agent, voice))
        try:
            async for item in voice.items():
                yield item
            _end(run, voice, task)
        finally:
            await voice.stop(task, at_once=not isinstance(agent, Team))

    async def _made(self, voice: "_Voice") -> Any:
        tools = PageTools(voice)
        if isinstance(self._agent, AssistantAgent):
            agent: Any = _copied(self._agent, tools)
        else:
            agent = self._agent(tools)
            agent = await agent if isinstance(agent, Awaitable) else agent
        if not isinstance(agent, ChatAgent | Team):
            raise UsageError(f"an agent or a team was expected, not a {type(agent).__name__}")
        is_team = isinstance(agent, Team)
        voice.has_history = not is_team and not hasattr(agent, "model_context")
        for each in _members(agent):
            await _take_over(each, voice, tools, named=is_team)
        return agent


def _copied(agent: AssistantAgent, tools: "PageTools") -> AssistantAgent:
    """The same agent without what it heard, and with the page's tools.

    Raises:
        UsageError: its model context cannot be made anew.
    """
    made, context = copy.copy(agent), agent.model_context
    try:
        made._model_context = type(context).load_component(context.dump_component())
    except Exception as error:
        raise UsageError(
            f"a {type(context).__name__} cannot be copied: give AutoGen a function that makes the"
            " agent"
        ) from error
    made._workbench = [*agent._workbench, tools]
    made._is_running = False
    return made


def _members(agent: Any) -> Iterator[Any]:
    """A team's, and its teams', and themselves; or the agent alone."""
    yield agent
    for each in getattr(agent, "_participants", ()) if isinstance(agent, Team) else ():
        yield from _members(each)


async def _take_over(agent: Any, voice: "_Voice", tools: "PageTools", *, named: bool) -> None:
    """Hear an agent's model, give it the history, and see its tools through. A team's own model,
    which chooses who speaks, is only counted."""
    own, desk = vars(agent), None
    speaks = not isinstance(agent, Team)
    benches = own.get("_workbench")
    if speaks and isinstance(benches, Sequence):
        others = [bench for bench in benches if bench is not tools]
        desk = _Desk(voice, others, tools if len(others) < len(benches) else None)
        agent._workbench = [desk]
    if isinstance(own.get("_model_client"), ChatCompletionClient):
        name = agent.name if named else None
        agent._model_client = _Ear(agent._model_client, voice, desk, name=name, speaks=speaks)
        voice.heard_agents |= {agent.name} if speaks else set()
    if speaks and hasattr(agent, "model_context"):
        for message in spelled(voice.run.messages, agent.name):
            await agent.model_context.add_message(message)


def _end(run: Any, voice: "_Voice", task: "asyncio.Task[None]") -> None:
    """What the agent's end means for the step.

    Raises:
        AgentFailed: it failed in a way that one line can tell.
        Exception: it failed otherwise.
    """
    if voice.cut is not None:
        run.finish_reason = voice.cut
        return
    try:
        task.result()
    except asyncio.CancelledError:
        raise AgentFailed("the agent was cancelled from inside", RunCode.AGENT_ERROR) from None
    except Exception as error:
        raise _told(voice.problem or error) from error


def _told(error: Exception) -> Exception:
    """A provider's refusal as one line without its body; anything else as it is."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return error
    return AgentFailed(f"the model's provider answered {status} ({type(error).__name__})")


# ---- the step under way ------------------------------------------------------------------------


class _Voice:
    """What an agent under way says and does, between its tasks and the step's items."""

    def __init__(self, run: Any, instructions: str) -> None:
        self.run = run
        self.instructions = instructions
        self.token = CancellationToken()
        self.cut: str | None = None
        """Why the model was cut off; nothing is carried out then."""
        self.problem: Exception | None = None
        """What a model's client raised last; a team tells only its text."""
        self.heard_agents: set[str] = set()
        """Names of those whose model is heard; their messages are no news."""
        self.has_history = False
        """Whether the agent has no model context, so that its task is the whole history."""
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._work: set[asyncio.Task[Any]] = set()
        self._turns: deque[_Turn] = deque()
        """Those under way that have said something; the first one has the word."""

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start the agent; `items` end when it does."""
        task = asyncio.create_task(work, name="handspan-autogen")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # seen: nobody may be there to ask for it
        self._said.put_nowait(_END)

    async def stop(self, task: "asyncio.Task[None]", *, at_once: bool) -> None:
        """End the agent with all that is at work for it. A team is let end by itself, which it does
        when what it waits for is cancelled: else its runtime would be left behind."""
        self.token.cancel()
        if at_once:
            task.cancel()
        _, late = await asyncio.wait({task, *self._work}, timeout=CLEANUP_S)
        for each in late:
            each.cancel()
        if late:
            await asyncio.wait(late, timeout=CLEANUP_S)

    def linked(
        self, work: Coroutine[Any, Any, Any], token: CancellationToken | None = None
    ) -> "asyncio.Task[Any]":
        """Start what ends with the run, or with this token."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        self.token.link_future(task)
        if token is not None and token is not self.token:
            token.link_future(task)
        return task

    def say(self, item: Any) -> None:
        self._said.put_nowait(item)

    def say_in_turn(self, turn: "_Turn", item: Any) -> None:
        """Say an item of a turn; held back while one that began before is under way."""
        if turn not in self._turns:
            self._turns.append(turn)
        if self._turns[0] is turn:
            self.say(item)
        else:
            turn.held.append(item)

    def end_turn(self, turn: "_Turn") -> None:
        """The turn is over; who was held back speaks, as far as they have come."""
        turn.over = True
        while self._turns and self._turns[0].over:
            self._turns.popleft()
            for item in self._turns[0].held if self._turns else ():
                self.say(item)

    async def items(self) -> AsyncIterator[Any]:
        """All that is said, until the agent has ended."""
        while (item := await self._said.get()) is not _END:
            if not isinstance(item, asyncio.Future):
                yield item
            elif not item.done():
                item.set_result(None)

    async def heard(self) -> None:
        """Return when all that was said before has been taken."""
        told = asyncio.get_running_loop().create_future()
        self._said.put_nowait(told)
        await told


_END: Final = object()


class _Turn:
    """One turn of a model, while it is said: thoughts and text."""

    def __init__(self, voice: _Voice, name: str | None) -> None:
        self.held: list[Any] = []
        self.over = False
        self.text = ""
        self._voice = voice
        self._name = name
        self._id = f"ag-{uuid.uuid4().hex}"

    def say(self, text: str) -> None:
        """A delta of its text."""
        if not text:
            return
        if not self.text:
            start = TextMessageStartEvent(message_id=self._id, role="assistant", name=self._name)
            self._voice.say_in_turn(self, start)
        self.text += text
        self._voice.say_in_turn(self, TextMessageContentEvent(message_id=self._id, delta=text))

    def think(self, text: str) -> None:
        """A delta of its thoughts."""
        if text:
            self._voice.say_in_turn(self, self._voice.run.reasoning(text))

    def end(self) -> None:
        """All of it is said."""
        if self.text:
            self._voice.say_in_turn(self, TextMessageEndEvent(message_id=self._id))
        self._voice.end_turn(self)


# ---- the model, heard --------------------------------------------------------------------------


class _Cut(Exception):  # noqa: N818 (it is the turn that was cut)
    """The model's turn is not whole; the agent must not go on with it."""


class _Ear(ChatCompletionClient):
    """A model client, and what it says is heard before its agent has it."""

    def __init__(
        self,
        client: ChatCompletionClient,
        voice: _Voice,
        desk: "_Desk | None",
        *,
        name: str | None,
        speaks: bool,
    ) -> None:
        self._client = client
        self._voice = voice
        self._desk = desk
        self._name = name
        self._speaks = speaks

    async def create(self, messages: Messages, **options: Any) -> CreateResult:
        work = self._client.create(self._instructed(messages), **self._shaped(options))
        turn = _Turn(self._voice, self._name)
        try:
            result: CreateResult = await self._voice.linked(work, options.get("cancellation_token"))
            self._finish(turn, result, thought=False)
        except Exception as error:
            self._voice.problem = error
            raise
        finally:
            turn.end()
        return result

    async def create_stream(
        self, messages: Messages, **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        stream = self._client.create_stream(self._instructed(messages), **self._shaped(options))
        turn, thoughts = _Turn(self._voice, self._name), _Thoughts()
        try:
            async for chunk in self._read(stream, options.get("cancellation_token")):
                if isinstance(chunk, CreateResult):
                    self._said(turn, thoughts.rest())
                    self._finish(turn, chunk, thought=thoughts.seen)
                else:
                    self._said(turn, thoughts.split(chunk))
                yield chunk
        except Exception as error:
            self._voice.problem = error
            raise
        finally:
            turn.end()

    async def _read(self, stream: Any, token: CancellationToken | None) -> AsyncIterator[Any]:
        """The stream, closed at once when the run or the token is cancelled, whatever its client
        makes of tokens."""
        read: asyncio.Queue[Any] = asyncio.Queue()

        async def reads() -> None:
            async with aclosing(stream):
                async for chunk in stream:
                    read.put_nowait(chunk)

        reader = self._voice.linked(reads(), token)
        reader.add_done_callback(lambda _: read.put_nowait(_END))
        try:
            while (chunk := await read.get()) is not _END:
                yield chunk
            await reader
        finally:
            reader.cancel()

    def _shaped(self, options: dict[str, Any]) -> dict[str, Any]:
        """A request begins: nothing is expected of tools any more."""
        if self._desk is None:
            return options
        self._desk.expected = ()
        tools = [t for t in options.get("tools", ()) if not isinstance(t, _Unlisted)]
        return {**options, "tools": tools}

    def _instructed(self, messages: Messages) -> Messages:
        """What the run is told stands behind the agent's own instructions."""
        if not self._voice.instructions:
            return messages
        own = next(
            (n for n, m in enumerate(messages) if not isinstance(m, SystemMessage)), len(messages)
        )
        return [
            *messages[:own],
            SystemMessage(content=self._voice.instructions),
            *messages[own:],
        ]

    def _said(self, turn: _Turn, parts: "Iterator[tuple[bool, str]]") -> None:
        for is_thought, text in parts:
            if self._speaks:
                (turn.think if is_thought else turn.say)(text)

    def _finish(self, turn: _Turn, result: CreateResult, *, thought: bool) -> None:
        """What the end of a turn tells. A text beside calls is a thought to AutoGen: what was
        streamed already is not said again.

        Raises:
            _Cut: the turn was cut.
        """
        usage = result.usage
        self._voice.run.count_usage(
            input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens
        )
        if not self._speaks:
            return
        if result.thought and not thought and result.thought.strip() != turn.text.strip():
            turn.think(result.thought)
        if isinstance(result.content, str):
            turn.say("" if turn.text else result.content)
        elif self._desk is not None:
            self._desk.expected = _made_whole(result.content)
        if result.finish_reason in ("length", "content_filter"):
            self._voice.cut = result.finish_reason
            raise _Cut(result.finish_reason)

    # ---- as the client itself ----------------------------------------------------------------

    async def close(self) -> None:
        await self._client.close()

    def actual_usage(self) -> Any:
        return self._client.actual_usage()

    def total_usage(self) -> Any:
        return self._client.total_usage()

    def count_tokens(self, messages: Messages, **options: Any) -> int:
        return self._client.count_tokens(messages, **options)

    def remaining_tokens(self, messages: Messages, **options: Any) -> int:
        return self._client.remaining_tokens(messages, **options)

    @property
    def capabilities(self) -> Any:
        return self._client.capabilities

    @property
    def model_info(self) -> Any:
        return self._client.model_info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _made_whole(calls: Sequence[FunctionCall]) -> tuple[str, ...]:
    """Their names; arguments that are empty are an empty object, which AutoGen does not know."""
    for call in calls:
        if not call.arguments.strip():
            call.arguments = "{}"
    return tuple(call.name for call in calls)


class _Thoughts:
    """Tells thoughts from text in a stream that begins with <think>, as AutoGen's clients write it
    and many models do; cut anywhere."""

    def __init__(self) -> None:
        self.seen = False
        self._kept = ""
        """What cannot be told yet."""
        self._state = self._before

    def split(self, chunk: str) -> Iterator[tuple[bool, str]]:
        """Whether each is a thought, and the text."""
        self._kept += chunk
        state = None
        while state != self._state:
            state = self._state
            yield from state()

    def rest(self) -> Iterator[tuple[bool, str]]:
        """What was held back, at the end."""
        text, self._kept = self._kept, ""
        yield self._state == self._inside, text

    def _before(self) -> Iterator[tuple[bool, str]]:
        start = self._kept.lstrip()
        if start.startswith(_OPENING):
            self._kept, self._state, self.seen = start[len(_OPENING) :], self._inside, True
        elif not _OPENING.startswith(start):
            self._state = self._text
        yield from ()

    def _inside(self) -> Iterator[tuple[bool, str]]:
        thought, tag, rest = self._kept.partition(_CLOSING)
        if tag:
            self._kept, self._state = rest, self._behind
        else:
            told = len(thought) - _overlap(thought, _CLOSING)
            thought, self._kept = thought[:told], thought[told:]
        yield True, thought

    def _behind(self) -> Iterator[tuple[bool, str]]:
        """Empty lines between the two are nobody's."""
        self._kept = self._kept.lstrip("\n")
        if self._kept:
            self._state = self._text
        yield from ()

    def _text(self) -> Iterator[tuple[bool, str]]:
        text, self._kept = self._kept, ""
        yield False, text


_OPENING: Final = "<think>"
_CLOSING: Final = "</think>"


def _overlap(text: str, tag: str) -> int:
    """How many characters at the text's end may begin the tag."""
    return next((n for n in range(len(tag) - 1, 0, -1) if text.endswith(tag[:n])), 0)


# ---- tools -------------------------------------------------------------------------------------


class PageTools(Workbench):
    """The page's tools, as they are now, and the bridge's; for one run.

    Names are spelled as AutoGen's clients take them ([a-zA-Z0-9_-]), and read back.
    """

    component_provider_override = "handspan.agents.autogen.PageTools"

    def __init__(self, voice: Any) -> None:
        self._voice = voice
        self._names: dict[str, str] = {}

    async def list_tools(self) -> list[ToolSchema]:
        return [self._schema(tool) for tool in self._voice.run.current_tools()]

    def _schema(self, tool: Any) -> ToolSchema:
        name = _spelled_name(tool.name)
        while self._names.get(name, tool.name) != tool.name:
            name = f"{name[: _NAME - 1]}_"
        self._names[name] = tool.name
        return ToolSchema(name=name, description=tool.description, parameters=tool.parameters)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Have the run carry out the call. Never raises for one that fails or is cancelled."""
        work = self._carry_out(self._names.get(name, name), arguments)
        return await _result(self._voice, name, work, cancellation_token)

    async def _carry_out(self, name: str, arguments: Any) -> tuple[str, bool]:
        await self._voice.heard()
        if not isinstance(arguments, Mapping | None):
            arguments = encode(arguments).decode()  # the bridge says what is wrong with it
        result = await self._voice.run.call_tool(name, arguments)
        if result.ok:
            return result_text(result.value), False
        return error_text(result.error.code, result.error.message), True

    async def start(self) -> None:
        """There is nothing to start, nor to stop, and nothing is kept."""

    async def stop(self) -> None: ...

    async def reset(self) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


def _spelled_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


async def _result(
    voice: _Voice,
    name: str,
    work: Coroutine[Any, Any, tuple[str, bool]],
    token: CancellationToken | None,
) -> ToolResult:
    """What comes of a tool's work, by whatever door it leaves; only what cancels the caller goes
    through."""
    try:
        text, failed = await voice.linked(_no_exit(work), token)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        text, failed = error_text("aborted", "the call was cancelled"), True
    except Exception as error:
        text, failed = error_text("handler_error", f"{type(error).__name__}: {error}"), True
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=failed)


async def _no_exit(work: Coroutine[Any, Any, Any]) -> Any:
    """The work; a tool that leaves by `sys.exit` or the like has failed, and the loop lives."""
    try:
        return await work
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"the tool left by {type(error).__name__}") from error


class _Unlisted(dict[str, Any]):
    """The schema of a tool that nobody has, listed only while its call is carried out."""


class _Desk(StaticStreamWorkbench):
    """All workbenches of one agent as one: its own, then the page's, then whatever was asked for.

    Its own tools are shown with their results, unless the page has the name too.
    """

    def __init__(self, voice: _Voice, others: Sequence[Workbench], page: PageTools | None) -> None:
        super().__init__([])
        self.expected: tuple[str, ...] = ()
        """Names that the model has just called: they are found, so that the bridge can answer."""
        self._voice = voice
        self._others = others
        self._page = page
        self._own: dict[str, Workbench] = {}
        """Who has which tool, as they were listed last."""
        self._listed: list[ToolSchema] = []

    async def list_tools(self) -> list[ToolSchema]:
        """What there is. A workbench that cannot tell while calls are carried out would hang the
        agent: then it is what there was."""
        try:
            self._listed = await self._list()
        except Exception:
            if not self.expected:
                raise
        names = {tool["name"] for tool in self._listed}
        missing = [name for name in self.expected if name not in names]
        unlisted: list[Any] = [_Unlisted(name=name) for name in missing if self._page is not None]
        return [*self._listed, *unlisted]

    async def _list(self) -> list[ToolSchema]:
        listed = [(bench, tool) for bench in self._others for tool in await bench.list_tools()]
        pages = await self._page.list_tools() if self._page is not None else []
        self._own = {tool["name"]: bench for bench, tool in reversed(listed)}
        own = [tool for _, tool in listed]
        return [*own, *(tool for tool in pages if tool["name"] not in self._own)]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        events = self.call_tool_stream(name, arguments, cancellation_token, call_id)
        result: ToolResult = [event async for event in events][-1]
        return result

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """What the tool says while it works, then its ToolResult."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        work = self._work(name, arguments, cancellation_token, call_id, events)
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: events.put_nowait(_END))
        try:
            while (event := await events.get()) is not _END:
                yield event
            yield await task
        finally:
            task.cancel()

    async def _work(
        self,
        name: str,
        arguments: Any,
        token: CancellationToken | None,
        call_id: str | None,
        events: "asyncio.Queue[Any]",
    ) -> ToolResult:
        bench = self._own.get(name)
        if bench is None and self._page is not None:
            return await self._page.call_tool(name, arguments, token, call_id)
        if bench is None:
            return ToolResult(
                name=name, result=[TextResultContent(content=f"no tool {name}")], is_error=True
            )
        shown = self._show(name, arguments)
        work = _own_result(bench, (name, arguments, self._voice.token, call_id), events)
        result = await _result(self._voice, name, work, token)
        self._show_result(shown, result)
        return result

    def _show(self, name: str, arguments: Any) -> str | None:
        if any(tool.name == name for tool in self._voice.run.current_tools()):
            return None
        call_id = f"ag-{uuid.uuid4().hex}"
        self._voice.say(ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name))
        args = encode(arguments or {}).decode()
        self._voice.say(ToolCallArgsEvent(tool_call_id=call_id, delta=args))
        self._voice.say(ToolCallEndEvent(tool_call_id=call_id))
        return call_id

    def _show_result(self, call_id: str | None, result: ToolResult) -> None:
        if call_id is not None:
            text = result.to_text(replace_image="[image]")
            self._voice.say(
                ToolCallResultEvent(message_id=f"r-{call_id}", tool_call_id=call_id, content=text)
            )


async def _own_result(
    bench: Workbench, request: tuple[Any, ...], events: "asyncio.Queue[Any]"
) -> tuple[str, bool]:
    """What a tool of the agent's own gives."""
    if not isinstance(bench, StaticStreamWorkbench):
        result = await bench.call_tool(*request)
        return result.to_text(), result.is_error
    async for event in bench.call_tool_stream(*request):
        if isinstance(event, ToolResult):
            return event.to_text(), event.is_error
        events.put_nowait(event)
    return "", False


# ---- what the agent's stream tells -------------------------------------------------------------


async def _listen(agent: Any, voice: _Voice) -> None:
    """Run the agent on the thread's newest user message, and say what nobody heard yet."""
    name = "assistant" if isinstance(agent, Team) else agent.name
    stream = agent.run_stream(
        task=_task(voice, name), cancellation_token=voice.token, output_task_messages=False
    )
    turns: dict[str, _Turn] = {}
    async with aclosing(stream):
        async for message in stream:
            if not isinstance(message, TaskResult):
                _hear(message, voice, turns, isinstance(agent, Team))


def _hear(message: Any, voice: _Voice, turns: dict[str, _Turn], named: bool) -> None:
    match message:
        case HandoffMessage():
            voice.say(_handoff(message))
        case ToolCallSummaryMessage():
            _whole(message, voice, turns, named)
        case StructuredMessage():
            voice.run.output = message.content.model_dump(mode="json")
    if message.source in voice.heard_agents or isinstance(message, HandoffMessage):
        return
    match message:
        case ModelClientStreamingChunkEvent():
            _turn_of(message, voice, turns, message.full_message_id, named).say(message.content)
        case ThoughtEvent():
            voice.say(voice.run.reasoning(message.content))
        case BaseChatMessage() if not isinstance(message, ToolCallSummaryMessage):
            _whole(message, voice, turns, named)
    if (usage := message.models_usage) is not None:
        voice.run.count_usage(
            input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens
        )


def _turn_of(
    message: Any, voice: _Voice, turns: dict[str, _Turn], key: str | None, named: bool
) -> _Turn:
    return turns.setdefault(key or message.source, _Turn(voice, message.source if named else None))


def _whole(message: Any, voice: _Voice, turns: dict[str, _Turn], named: bool) -> None:
    """A message as a whole, unless it was streamed."""
    turn = _turn_of(message, voice, turns, message.id, named)
    turn.say("" if turn.text else message.to_text())
    turn.end()


def _handoff(message: HandoffMessage) -> ActivitySnapshotEvent:
    content = {"from": message.source, "to": message.target}
    return ActivitySnapshotEvent(
        message_id=f"ag-{uuid.uuid4().hex}", activity_type="handoff", content=content
    )


# ---- history -----------------------------------------------------------------------------------


def _task(voice: _Voice, name: str) -> list[BaseChatMessage] | None:
    """What the agent is asked: the user's message at the history's end; all of the history for an
    agent that has no model context."""
    turns = h.turns(voice.run.messages)
    if voice.has_history:
        return [_chat_message(t, name) for t in turns if isinstance(t, _SPOKEN)] or None
    last = turns[-1] if turns else None
    return [_chat_message(last, name)] if isinstance(last, h.UserTurn) else None


_SPOKEN: Final = (h.UserTurn, h.ModelTurn)


def _chat_message(turn: h.UserTurn | h.ModelTurn, name: str) -> BaseChatMessage:
    if isinstance(turn, h.ModelTurn):
        return TextMessage(content=turn.text, source=name)
    content = _content(turn)
    if isinstance(content, str):
        return TextMessage(content=content, source="user")
    return MultiModalMessage(content=content, source="user")


def spelled(messages: Sequence[Any], name: str) -> list[LLMMessage]:
    """The thread's history as a model context, without the user's message at its end. Thoughts are
    left out: they are a model's own."""
    turns = h.turns(messages)
    if turns and isinstance(turns[-1], h.UserTurn):
        turns.pop()
    return [message for turn in turns for message in _spell(turn, name)]


def _spell(turn: h.Turn, name: str) -> Iterator[LLMMessage]:
    match turn:
        case h.SystemTurn(text):
            yield SystemMessage(content=text)
        case h.UserTurn():
            yield UserMessage(content=_content(turn), source="user")
        case h.ModelTurn(calls=()):
            yield from [AssistantMessage(content=turn.text, source=name)] if turn.text else []
        case h.ModelTurn():
            yield _asked(turn, name)
        case h.ResultsTurn(answers):
            results = [_answered(answer) for answer in answers]
            yield FunctionExecutionResultMessage(content=results)


def _asked(turn: h.ModelTurn, name: str) -> AssistantMessage:
    """Calls; the text beside them is a thought to AutoGen, which its clients send as text."""
    calls = [
        FunctionCall(id=call.id, name=_spelled_name(call.name), arguments=call.arguments or "{}")
        for call in turn.calls
    ]
    return AssistantMessage(content=calls, thought=turn.text or None, source=name)


def _answered(answer: h.Answer) -> FunctionExecutionResult:
    return FunctionExecutionResult(
        content=h.text_of(answer.parts),
        name=_spelled_name(answer.name),
        call_id=answer.call_id,
        is_error=answer.failed,
    )


def _content(turn: h.UserTurn) -> str | list[str | Image]:
    if all(isinstance(part, h.Text) for part in turn.parts):
        return h.text_of(turn.parts)
    return [_image(part) or h.described(part) for part in turn.parts]


def _image(part: h.Part) -> Image | None:
    """An image that AutoGen can hold; None: it is none, or elsewhere, or broken."""
    if not isinstance(part, h.Media) or part.kind != "image" or part.data is None:
        return None
    try:
        return Image.from_base64(part.data)
    except Exception:
        return None
