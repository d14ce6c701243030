"""A page's calls: what it was asked to do, what it answered, and the handlers that do it.

Owns the rule of the leave to start (a handler of a tool that is neither readOnly nor idempotent
runs only after `tool.started` was answered `go`), and what a handler's end becomes. Above sits
`page`; the server's half of the same rules is `core.call`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from handspan_protocol.codec import encode
from handspan_protocol.errors import CallCode, UsageError

__all__ = ["Handler", "PageCall", "PageTool", "carry_out"]

Json = Any
Handler = Callable[..., Any]
"""`handler(args)` or `handler(args, call)`, sync or async; returns any JSON."""

RESULT_BYTES: Final = 1024 * 1024
"""Before a welcome has told the server's own limit."""


class Desk(Protocol):
    """What a call asks of its page."""

    async def ask(self, frame: dict[str, Json]) -> Mapping[str, Json]:
        """Send a command; its result."""

    def tell(self, frame: dict[str, Json]) -> None:
        """Send a notice."""

    def fresh_context(self) -> dict[str, Json]:
        """{"context": ...} when it has changed since it was last sent, else nothing."""

    def note(self, call: "PageCall", state: str | None) -> None:
        """Keep in the journal how far the call is; None: it is answered for good."""

    def result_bytes(self) -> int:
        """How large a result may be."""


@dataclass(slots=True)
class PageTool:
    """A registered tool: its definition in the words of the wire, and who carries it out."""

    definition: Mapping[str, Json]
    handler: Handler | None
    revision: int | None = 0
    """The tool set's revision since which it is so; None: not told yet."""

    @property
    def starts_at_once(self) -> bool:
        return bool(self.definition.get("readOnly") or self.definition.get("idempotent"))


@dataclass(slots=True, eq=False)
class PageCall:
    """One attempt of one call, as the page that holds it sees it; a handler's second argument.

    In manual mode a test answers it: `start`, `progress`, then `answer`, `give` or `fail`.
    """

    desk: Desk = field(repr=False)
    frame: Mapping[str, Json] = field(repr=False)
    """The `tool.call` as it came."""
    call_id: str
    attempt: int
    name: str
    args: Json
    signal: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the call is cancelled, with the reason beside it."""
    reason: str | None = None
    state: Literal["received", "started", "done"] = "received"

    @classmethod
    def of(cls, desk: Desk, frame: Mapping[str, Json]) -> "PageCall":
        return cls(desk, frame, frame["callId"], frame["attempt"], frame["name"], frame["args"])

    @property
    def aborted(self) -> bool:
        return self.signal.is_set()

    @property
    def thread_id(self) -> str:
        return str(self.frame["threadId"])

    @property
    def run_id(self) -> str:
        return str(self.frame["runId"])

    @property
    def depth(self) -> int:
        return int(self.frame["depth"])

    @property
    def raw_args(self) -> str:
        """The model's own text."""
        return str(self.frame["rawArgs"])

    @property
    def tool_name(self) -> str | None:
        """The called name, when the tool is "*"."""
        return self.frame.get("toolName")

    async def start(self) -> str:
        """Ask for leave to start: "go", or why not."""
        status = await self._ask({"type": "tool.started"})
        if status == "go":
            self._becomes("started")
        return status

    def progress(
        self, progress: float | None = None, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far it is; nobody answers."""
        said = {"progress": progress, "total": total, "message": message}
        told = {key: value for key, value in said.items() if value is not None}
        self.desk.tell({"type": "tool.progress", **self._named(), **told})

    async def answer(self, result: Json = None) -> str:
        """Give a result, any JSON; returns the status."""
        return await self._settle({"result": result})

    async def give(self, parts: list[Json]) -> str:
        """Give AG-UI content parts as the result."""
        return await self._settle({"content": parts})

    async def fail(self, message: str, code: str | None = None, data: Json = None) -> str:
        """Say that it did not work."""
        error = {"message": message, "code": code, "data": data}
        told = {key: value for key, value in error.items() if value is not None}
        return await self._settle({"error": told})

    def cancel(self, reason: str) -> None:
        """Set the signal."""
        self.reason = reason
        self.signal.set()
        self.desk.note(self, None)

    async def _settle(self, said: dict[str, Json]) -> str:
        self._becomes("done")
        status = await self._ask({"type": "tool.result", **said, **self.desk.fresh_context()})
        self.desk.note(self, None)
        return status

    async def _ask(self, frame: dict[str, Json]) -> str:
        return str((await self.desk.ask({**frame, **self._named()}))["status"])

    def _named(self) -> dict[str, Json]:
        return {"callId": self.call_id, "attempt": self.attempt}

    def _becomes(self, state: Literal["started", "done"]) -> None:
        self.state = state
        if not self.aborted:
            self.desk.note(self, state)


async def carry_out(call: PageCall, tool: PageTool | None) -> None:
    """Do what a page's library does with a call."""
    if tool is None or tool.handler is None or _changed(tool, call):
        await call.fail("the page has no such tool any more", CallCode.UNAVAILABLE.value)
        return
    if not tool.starts_at_once and await call.start() != "go":
        call.desk.note(call, None)
        return
    try:
        value = await _handled(tool.handler, call)
        size = len(encode(value))
    except UsageError as problem:
        await _unless_aborted(call, call.fail(f"the result is no JSON: {problem}"))
        return
    except Exception as problem:
        await _unless_aborted(call, call.fail(str(problem) or type(problem).__name__))
        return
    await asyncio.sleep(0)  # the turn that a browser's library lets its framework have
    if size > call.desk.result_bytes():
        too_large = call.fail(f"the result has {size} bytes", CallCode.RESULT_TOO_LARGE.value)
        await _unless_aborted(call, too_large)
    else:
        await _unless_aborted(call, call.answer(value))


def _changed(tool: PageTool, call: PageCall) -> bool:
    return tool.revision is None or tool.revision > int(call.frame["revision"])


async def _unless_aborted(call: PageCall, answer: Any) -> None:
    """A cancelled call is answered no more."""
    if call.aborted:
        answer.close()
    else:
        await answer


async def _handled(handler: Handler, call: PageCall) -> Json:
    takes = len(inspect.signature(handler).parameters)
    given = (call.args, call)[: min(takes, 2)]
    value = handler(*given)
    return await value if isinstance(value, Awaitable) else value
