"""What a page does once it is connected: tools, context, threads, runs, calls, approvals.

Owns nothing but the words; each is a command of protocol 3 or a look at what the document knows.
`page.Page` is the whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .calls import Handler, PageCall, PageTool
from .document import Document
from .story import PageRun, Story

__all__ = ["Moves"]

Json = Any
F = TypeVar("F", bound=Handler)
T = TypeVar("T")


class Moves:
    """The half of `Page` that needs no socket of its own."""

    document: Document
    tools: dict[str, PageTool]
    thread_id: str
    wanted: list[str]
    visible: bool
    _context: dict[str, tuple[str, Any]]
    _asked: Callable[[Mapping[str, Json]], Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a socket."""
        raise NotImplementedError

    def send(self, frame: Mapping[str, Json]) -> None:
        """Send a frame as it is."""
        raise NotImplementedError

    async def until(self, condition: Callable[[], T | None], what: str = "a condition") -> T:
        """Wait until `condition()` is true."""
        raise NotImplementedError

    async def ask(self, type: str, **fields: Json) -> Json:  # noqa: A002 - the frame's field
        """Send a command with an id of its own; its result. Sent again after a reconnect.

        Raises:
            Refused: the reply is an error.
            Lost: there will be no reply.
            TimeoutError: there is none yet.
        """
        return await self.document.ask({"type": type, **fields})

    # ---- tools and context -------------------------------------------------------------------

    def tool(
        self, name: str, definition: Mapping[str, Json] | None = None, handler: Any = None
    ) -> Any:
        """Register a tool; without a handler it is a decorator.

        `definition` has the fields of protocol 5, without the name; without a description the tool
        is described by its name. `handler(args)` or `handler(args, call)`, sync or async.
        """
        if handler is None:
            return lambda function: self._register(name, definition, function)
        return self._register(name, definition, handler)

    def _register(self, name: str, definition: Mapping[str, Json] | None, handler: F) -> F:
        whole = {"description": name, **(definition or {})}
        self.tools[name] = PageTool(whole, handler)
        if self.is_open:
            self.document.change_tools({"add": [{"name": name, **whole}]})
        return handler

    def remove_tool(self, name: str) -> None:
        """Unregister a tool."""
        self.tools.pop(name, None)
        if self.is_open:
            self.document.change_tools({"remove": [name]})

    def context(self, name: str, description: str, value: Any) -> None:
        """Say something of the page: a value, or a function that is asked before it is sent."""
        self._context[name] = (description, value)
        if self.is_open:
            self.document.send_context()

    def context_now(self) -> list[dict[str, Json]]:
        """The context as it is now, functions asked."""
        return [
            {"name": name, "description": said, "value": value() if callable(value) else value}
            for name, (said, value) in self._context.items()
        ]

    # ---- threads and runs --------------------------------------------------------------------

    def thread(self, thread_id: str | None = None) -> Story:
        """A thread as this document knows it; without an id the default one."""
        return self.document.thread(thread_id or self.thread_id)

    @property
    def messages(self) -> list[Mapping[str, Json]]:
        """Of the default thread."""
        return self.thread().messages

    @property
    def state(self) -> Json:
        return self.thread().state

    @property
    def events(self) -> list[Mapping[str, Json]]:
        return self.thread().events

    async def open(self, thread_id: str | None = None, **cursor: Json) -> str:
        """Open a thread (`epoch` and `offset`: from there); without an id the server makes one."""
        wish = {} if thread_id is None else {"threadId": thread_id}
        opened = str((await self.ask("thread.open", **wish, **cursor))["threadId"])
        if opened not in self.wanted:
            self.wanted.append(opened)
        return opened

    async def close_thread(self, thread_id: str) -> None:
        """Hear no more of a thread."""
        if thread_id in self.wanted:
            self.wanted.remove(thread_id)
        await self.ask("thread.close", threadId=thread_id)

    def run(
        self,
        message: str | Mapping[str, Json] | None = None,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        **fields: Json,
    ) -> PageRun:
        """Start a run; returns at once. Further fields are those of `run.start` on the wire."""
        thread = thread_id or self.thread_id
        if thread not in self.wanted:
            self.wanted.append(thread)
        said = fields if message is None else {"message": message, **fields}
        return self.document.start_run(thread, run_id, said)

    async def run_tool(
        self, name: str, args: Json = None, *, thread_id: str | None = None, **fields: Json
    ) -> Mapping[str, Json]:
        """Carry out one call as a button does; {"callId", "runId", "outcome", ...} when it settled.

        Further fields are those of `tool.invoke` on the wire.
        """
        thread = thread_id or self.thread_id
        said = {"threadId": thread, "name": name, "args": args or {}, **fields}
        settled: Mapping[str, Json] = await self.ask("tool.invoke", **said)
        return settled

    async def abort(self, run_id: str | None = None, *, thread_id: str | None = None) -> bool:
        """Stop a run, or what runs on a thread (the default one); whether there was any."""
        named = {"runId": run_id} if run_id else {"threadId": thread_id or self.thread_id}
        return bool((await self.ask("run.abort", **named))["aborted"])

    async def set_state(self, state: Json, *, thread_id: str | None = None) -> None:
        """Replace a thread's state."""
        await self.ask("state.update", threadId=thread_id or self.thread_id, state=state)

    async def patch_state(self, patch: list[Json], *, thread_id: str | None = None) -> None:
        """Change a thread's state by an RFC 6902 patch."""
        await self.ask("state.update", threadId=thread_id or self.thread_id, patch=patch)

    async def look(self, visible: bool) -> None:
        """Tell whether the page is seen."""
        self.visible = visible
        self.send({"type": "visibility", "visible": visible})

    # ---- calls and approvals -----------------------------------------------------------------

    @property
    def calls(self) -> list[PageCall]:
        """Every call this document was given, in order, each attempt once."""
        return self.document.calls

    async def next_call(self, name: str | None = None) -> PageCall:
        """The first call (of this name) that `next_call` has not returned yet; waits for it."""
        return await self.until(lambda: self.document.next_call(name), f"a call of {name or 'any'}")

    def on_approval(self, asked: Callable[[Mapping[str, Json]], Any]) -> None:
        """Answer each `approval.request` by `asked(request)`: a bool, or fields of the answer."""
        self._asked = asked

    async def approve(
        self, request: Mapping[str, Json], approved: bool = True, **fields: Json
    ) -> str:
        """Answer an `approval.request`; returns the status."""
        named = {"callId": request["callId"], "digest": request["digest"], "approved": approved}
        return str((await self.ask("approval.answer", **{**named, **fields}))["status"])
