"""The Run that an agent is given: what it may see, and what it may do, in one step.

Owns the step's face towards the agent and nothing else; what it does goes to the driver as inputs
of the thread. Everything it hands out is a copy or cannot be changed (P11). It may be used from a
worker thread, since a sync agent or tool lives in one.
"""

import asyncio
import copy
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from handspan.core import inputs as i
from handspan.core.arguments import ToolSpec
from handspan.core.parties import Asker
from handspan_protocol.codec import encode
from handspan_protocol.content import copy_json
from handspan_protocol.errors import RunCode, UsageError
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import RunId
from handspan_protocol.tools import Tool, parameters_of

from .items import check_text, input_of, raw_of
from .values import (
    CallItem,
    CallResult,
    ReasoningItem,
    RunResult,
    call_result,
    messages_of,
    run_result,
)

if TYPE_CHECKING:
    from ag_ui.core import Message

    from handspan.core.effects import StartStep

Json = Any


class Desk(Protocol):
    """What a Run asks of the driver."""

    loop: asyncio.AbstractEventLoop
    """Where `say` must be called."""

    @property
    def say(self) -> Callable[[i.ThreadInput], None]:
        """Tell the run's thread."""

    @property
    def later(self) -> Callable[[Callable[[], None]], None]:
        """Have something called at the end of the loop's tick."""

    def state(self) -> Json:
        """The thread's state as it is now."""

    def tools(self, run_id: RunId) -> Sequence[ToolSpec]:
        """What this run's agent may be shown now."""

    def expect(self, what: str, ticket: str) -> "asyncio.Future[Any]":
        """A future for the "call" or the "result" (of a sub-run) with this ticket."""

    def new(self, kind: str) -> str:
        """A fresh id."""

    async def ask(self, name: str, value: Any, default: Callable[[Any], Awaitable[Any]]) -> Any:
        """The hooks' answer; see `handspan.shell.hooks`."""


class Run:
    """One step of a run, as its agent (or a server tool) sees it."""

    def __init__(self, step: "StartStep", desk: Desk, thread_id: str) -> None:
        self.id: str = step.run_id
        self.thread_id: str = thread_id
        self.agent: str = step.agent
        """The name it is known by."""
        self.depth: int = step.depth
        self.principal = step.principal
        self.results: list[CallResult] = [call_result(v, step.run_id) for v in step.results]
        """Of the previous step's calls, in call order."""
        self.instructions: str = ""
        self.finish_reason: str | None = None
        """Set by an agent: "stop", "tool_calls", or why the model was cut off."""
        self.aborted: bool = False
        """Whether the step was stopped; what it says then counts no more."""
        self._by_tool = False
        self._over = False
        self._output: Json = None
        self._has_output = False
        self._step = step
        self._desk = desk
        self._home = threading.get_ident()
        self._unsaid: list[str] = []
        """Deltas of this tick, which the thread is told together."""

    # ---- what there is -----------------------------------------------------------------------

    @cached_property
    def messages(self) -> "list[Message]":
        """The history, as ag_ui.core messages; the new user message is the last."""
        return messages_of(self._step.messages)

    @cached_property
    def tools(self) -> list[Tool]:
        """What the model may be shown, each with a whole `parameters` schema."""
        return [shown(spec.tool) for spec in self._step.tools]

    def current_tools(self) -> list[Tool]:
        """`tools` as they would be if the step began now; for agents that ask a model again inside
        their step. What `before_step` hooks made of a tool that has not changed since stands."""
        began = {spec.name: spec.digest for spec in self._step.tools}
        shaped = {tool.name: tool for tool in self.tools}
        now = self._desk.tools(self._run_id)
        kept = {spec.name for spec in now if began.get(spec.name) == spec.digest}
        return [
            shaped[spec.name] if spec.name in kept else shown(spec.tool)
            for spec in now
            if spec.name not in kept or spec.name in shaped
        ]

    @cached_property
    def forwarded_props(self) -> Json:
        """What the page sent along with its request."""
        return copy_json(self._step.forwarded_props)

    @property
    def parent(self) -> str | None:
        """Of a sub-run: the id of the run whose step waits for it."""
        return self._step.parent

    @cached_property
    def context(self) -> tuple[ContextItem, ...]:
        """What the page says of itself: name, description, value."""
        return tuple(replace(x, value=copy_json(x.value)) for x in self._step.context)

    @property
    def state(self) -> Json:
        """A copy of the thread's state as it is now."""
        return copy_json(self._desk.state())

    @property
    def output(self) -> Json:
        """The run's structured result; set it, and RUN_FINISHED carries it."""
        return self._output

    @output.setter
    def output(self, value: Json) -> None:
        encode(value)
        self._output, self._has_output = value, True

    # ---- items -------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        args: Mapping[str, Json] | str | None = None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> CallItem:
        """A tool call to yield; it is carried out when the step ends.

        `args` as a str is taken as the model's own text, whatever it says.

        Raises:
            UsageError: `args` is nothing that JSON can hold.
        """
        check_text("a tool's name", name)
        check_text("a call's id", id or "")
        return CallItem(name, raw_of(args), id)

    def reasoning(self, text: str) -> ReasoningItem:
        """A delta of thoughts to yield."""
        check_text("a thought", text)
        return ReasoningItem(text)

    # ---- moves -------------------------------------------------------------------------------

    async def call_tool(
        self, name: str, args: Mapping[str, Json] | str | None = None
    ) -> CallResult:
        """Carry out a call now, inside the step; never raises for a call that fails.

        A caller who is cancelled meanwhile takes the call with him: it is settled as aborted.

        Raises:
            UsageError: `args` is no JSON, or the step is over.
        """
        check_text("a tool's name", name)
        raw = raw_of(args)
        self._check_open()
        ticket = self._desk.new("ticket")
        future = self._desk.expect("call", ticket)
        self._say(
            i.CallSaid(
                run_id=self._run_id,
                depth=self.depth,
                name=name,
                raw=raw,
                ticket=ticket,
                by_tool=self._by_tool,
            )
        )
        try:
            return call_result(await future, self.id)
        except asyncio.CancelledError:
            self._say(i.CallForgone(self._run_id, ticket))
            raise

    async def delegate(self, agent: str, message: str) -> RunResult:
        """Have another agent answer `message` in a sub-run, at depth + 1, and wait for its end.

        Never raises for a sub-run that fails: its reason is "failed", with the error; "aborted"
        when it was stopped. A caller who is cancelled meanwhile takes it with him.

        Raises:
            UsageError: the agent's name or the message is no str, or the step is over.
        """
        if not isinstance(agent, str) or not isinstance(message, str):
            raise UsageError("run.delegate wants an agent's name and a text")
        self._check_open()
        sub_id, ticket = RunId(self._desk.new("run")), self._desk.new("ticket")
        future = self._desk.expect("result", ticket)
        self._say(
            i.DelegateSaid(
                run_id=self._run_id,
                depth=self.depth,
                sub_id=sub_id,
                agent=agent,
                text=message,
                ticket=ticket,
                by_tool=self._by_tool,
            )
        )
        try:
            value, messages = await future
        except asyncio.CancelledError:
            self._say(i.AbortRequested(Asker(None, ""), sub_id))
            raise
        return run_result(value, messages)

    async def model_request(self, request: Mapping[str, Json], send: Callable[[Any], Any]) -> Any:
        """Send a request to the model by way of the `model_request` hooks; for adapters.

        `send(request)`, sync or async, opens the stream. What the hooks answer in its stead is
        returned; what `send` raises comes out as it is.

        Raises:
            AgentFailed: a hook failed; it fails the step, with code agent_error.
            UsageError: the step is over: no model is called (P5), whatever a hook says.
        """
        self._check_open()

        async def default(asked: Any) -> Any:
            self._check_open()
            sent = send(asked)
            return await sent if inspect.isawaitable(sent) else sent

        return await self._desk.ask("model_request", request, default)

    def set_state(self, value: Json) -> None:
        """Replace the thread's state.

        Raises:
            UsageError: it is nothing that JSON can hold.
        """
        encode(value)
        self._say(i.StateSaid(self._run_id, self.depth, None, copy_json(value)))

    def patch_state(self, ops: Sequence[Mapping[str, Json]]) -> None:
        """Patch the thread's state (RFC 6902), all of it or none; a bad patch fails the step."""
        encode(list(ops))
        self._say(i.StateSaid(self._run_id, self.depth, tuple(copy_json(list(ops))), None))

    def custom(self, name: str, value: Json = None) -> None:
        """Emit an AG-UI CUSTOM event; names that begin with `handspan.` are the bridge's own."""
        if name.startswith("handspan."):
            raise UsageError("names that begin with handspan. are the bridge's own")
        encode(value)
        event = {"type": "CUSTOM", "name": name, "value": copy_json(value)}
        self._say(i.EventSaid(self._run_id, self.depth, event))

    def count_usage(
        self, *, provider: str | None = None, model: str | None = None, **tokens: int | None
    ) -> None:
        """Count tokens that a model used in this step; RUN_FINISHED tells their sums, by model.

        `tokens`: input_tokens, output_tokens, total_tokens, reasoning_tokens, cached_input_tokens,
        cache_write_input_tokens. *Source:* AG-UI 1.0, TokenUsage.
        """
        from ag_ui.core import TokenUsage

        told = TokenUsage(provider=provider, model=model, **tokens)
        usage = told.model_dump(by_alias=True, exclude_none=True)
        if usage.keys() - {"provider", "model"}:
            self._say(i.UsageSaid(self._run_id, self.depth, usage))

    def abort(self) -> None:
        """Abort the run with all its sub-runs, or, in a sub-run, that one."""
        self._say(i.AbortRequested(Asker(None, ""), self._run_id))

    # ---- inside ------------------------------------------------------------------------------

    @property
    def _run_id(self) -> Any:
        return self._step.run_id

    def _check_open(self) -> None:
        if self.aborted or self._over:
            raise UsageError("the step is over")
        if asyncio.get_running_loop() is not self._desk.loop:
            raise UsageError(
                "a Run is awaited on the bridge's own loop; from another thread, by"
                " asyncio.run_coroutine_threadsafe"
            )

    def _say(self, message: i.ThreadInput) -> None:
        if threading.get_ident() == self._home:
            self._say_now(message)
        else:
            self._desk.loop.call_soon_threadsafe(self._say_now, message)

    def _say_now(self, message: i.ThreadInput) -> None:
        self._say_texts()
        self._desk.say(message)

    def _say_texts(self) -> None:
        """At the end of the tick, and before anything else is said."""
        deltas, self._unsaid = self._unsaid, []
        if deltas:
            self._desk.say(i.TextSaid(self._step.run_id, self.depth, tuple(deltas)))

    def take(self, item: Any) -> None:
        """Say one item of the agent.

        Raises:
            UsageError: it is no item.
        """
        if isinstance(item, str):
            if not self._unsaid:
                self._desk.later(self._say_texts)
            self._unsaid.append(item if type(item) is str else str.__str__(item))
            return
        message = input_of(item, self._run_id, self.depth)
        if message is not None:
            self._say(message)

    def ended(self) -> i.StepEnded:
        """The step's end, with what the agent left on the Run.

        Raises:
            UsageError: a finish_reason that is none.
        """
        self._over = True
        self._say_texts()
        if self.finish_reason is not None and not isinstance(self.finish_reason, str):
            raise UsageError(f"finish_reason is a str, not {type(self.finish_reason).__name__}")
        return i.StepEnded(
            self._run_id, self.depth, self.finish_reason, self._output, self._has_output
        )

    def failed(self, code: RunCode, message: str) -> i.StepFailed:
        """The step's end when it failed."""
        self._over = True
        self._say_texts()
        return i.StepFailed(self._run_id, self.depth, code.value, message)


def for_tool(run: Run) -> Run:
    """The same for a server tool of this step, which may outlive what its agent says."""
    made = copy.copy(run)
    made._by_tool, made._over, made._unsaid = True, False, []
    for name in ("messages", "tools", "context", "forwarded_props"):
        made.__dict__.pop(name, None)
    return made


def shown(tool: Tool) -> Tool:
    """A copy of the tool as users see it, with a whole `parameters` schema."""
    return replace(tool, parameters=copy_json(parameters_of(tool)))
