"""One page load: its commands, the calls it holds, its threads and the runs it started.

Owns the journal of unsettled calls and the tasks of the handlers; all of it goes when the document
is unloaded. Above sits `page`, which outlives it; below sit `outbox`, `calls` and `story`.
"""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any, Protocol

from handspan_protocol.errors import HandspanError

from .calls import RESULT_BYTES, PageCall, PageTool, carry_out
from .outbox import Lost, Outbox
from .story import PageRun, Story, given

__all__ = ["Document", "Window"]

Json = Any


class Window(Protocol):
    """The page around a document."""

    auto: bool
    tools: dict[str, PageTool]
    welcome: Mapping[str, Json]

    def send(self, frame: Mapping[str, Json]) -> None:
        """Send a frame, if there is a socket."""

    def context_now(self) -> list[dict[str, Json]]:
        """The whole context as it is now."""

    def stir(self) -> None:
        """Something has changed: whoever waits for it looks again."""


class Document:
    """Made by a page, and unloaded once."""

    def __init__(self, window: Window, document_id: str) -> None:
        self.id = document_id
        self.outbox = Outbox(window.send)
        self.calls: list[PageCall] = []
        """Every attempt it was given, in order."""
        self.threads: dict[str, Story] = {}
        self._window = window
        self._open_calls: dict[str, PageCall] = {}
        self._noted: dict[str, dict[str, Json]] = {}
        self._taken: set[PageCall] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs: list[PageRun] = []
        self._sent_context: list[dict[str, Json]] = []

    @property
    def journal(self) -> list[dict[str, Json]]:
        """What a hello says of the calls: those whose result nobody has acknowledged."""
        return list(self._noted.values())

    def welcomed(self, *, resumed: bool) -> None:
        """The server took the hello with all the tools; what had no reply is sent again."""
        for tool in self._window.tools.values():
            tool.revision = 0
        if resumed:
            self.outbox.send_again()
            return
        self.outbox.lose("the server knows the session no more")
        for call in list(self._open_calls.values()):
            call.cancel("unknown")

    def unload(self) -> None:
        """The end of the page load: nothing of it goes on."""
        self.outbox.lose("the document is gone")
        for task in self._tasks:
            task.cancel()
        for run in self._runs:
            run.end(Lost("the document is gone"))
        self._open_calls.clear()
        self._noted.clear()

    # ---- commands ----------------------------------------------------------------------------

    def post(self, frame: Mapping[str, Json]) -> "asyncio.Future[Any]":
        """Send a command, and do not wait."""
        return self.outbox.post(frame)

    async def ask(self, frame: Mapping[str, Json]) -> Any:
        """Send a command and wait for its result."""
        return await given(self.post(frame), f"the reply to {frame['type']}")

    def tell(self, frame: Mapping[str, Json]) -> None:
        """Send a notice."""
        self._window.send(frame)

    def start_run(self, thread_id: str, run_id: str | None, fields: Mapping[str, Json]) -> PageRun:
        """Send `run.start`, with the newest context and a runId of the page's own choice."""
        wanted = run_id or f"{self.id}-r{len(self._runs) + 1}"
        said = {"threadId": thread_id, "runId": wanted, **fields, **self.fresh_context()}
        run = PageRun(wanted, self.post({"type": "run.start", **said}))
        self._runs.append(run)
        self.thread(thread_id).watch(run)
        return run

    def change_tools(self, change: Mapping[str, Json]) -> None:
        """Send `tools.update`; until it is answered, older calls of these tools are refused."""
        names = [tool["name"] for tool in change.get("add", ())]
        tools = [self._window.tools[name] for name in names]
        for tool in tools:
            tool.revision = None
        answer = self.post({"type": "tools.update", **change})
        answer.add_done_callback(lambda done: _revise(tools, done))

    # ---- threads -----------------------------------------------------------------------------

    def thread(self, thread_id: str) -> Story:
        """What this document knows of a thread."""
        return self.threads.setdefault(thread_id, Story(thread_id))

    def wish(self, thread_id: str) -> dict[str, Json]:
        """A hello's entry: from where the thread is to be heard."""
        story = self.thread(thread_id)
        cursor = {} if story.epoch is None else {"epoch": story.epoch, "offset": story.offset}
        return {"threadId": thread_id, **cursor}

    # ---- context -----------------------------------------------------------------------------

    def whole_context(self) -> list[dict[str, Json]]:
        """All of it, noted as sent; as it is now, whatever the page changes in place later."""
        self._sent_context = copy.deepcopy(self._window.context_now())
        return self._sent_context

    def fresh_context(self) -> dict[str, Json]:
        """{"context": all of it} when it is not what was sent last, else nothing."""
        before = self._sent_context
        return {"context": now} if (now := self.whole_context()) != before else {}

    def send_context(self) -> None:
        """Send `context.update` with all of it."""
        self.post({"type": "context.update", "set": self.whole_context()})

    # ---- calls -------------------------------------------------------------------------------

    def take_call(self, frame: Mapping[str, Json]) -> None:
        """A `tool.call`. The same attempt again is passed over: the journal knows it."""
        known = self._open_calls.get(frame["callId"])
        if known is not None:
            if known.attempt == frame["attempt"]:
                return
            known.cancel("superseded")
        call = PageCall.of(self, frame)
        self.calls.append(call)
        self._open_calls[call.call_id] = call
        self.note(call, "received")
        tool = self._window.tools.get(call.name)
        if self._window.auto and (tool is None or tool.handler is not None):
            task = asyncio.get_running_loop().create_task(self._handle(call, tool))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def take_cancel(self, frame: Mapping[str, Json]) -> None:
        """A `tool.cancel`; one for another attempt means nothing here."""
        call = self._open_calls.get(frame["callId"])
        if call is not None and call.attempt == frame["attempt"]:
            call.cancel(frame["reason"])

    def next_call(self, name: str | None) -> PageCall | None:
        """The first call (of this name) that was not asked for yet."""
        for call in self.calls:
            if call not in self._taken and name in (None, call.name):
                self._taken.add(call)
                return call
        return None

    def note(self, call: PageCall, state: str | None) -> None:
        """Keep in the journal how far a call is; None: its story is over."""
        if self._open_calls.get(call.call_id) is not call:
            return
        if state is None:
            del self._open_calls[call.call_id]
            del self._noted[call.call_id]
        else:
            entry = {"callId": call.call_id, "attempt": call.attempt, "state": state}
            self._noted[call.call_id] = entry
        self._window.stir()

    def result_bytes(self) -> int:
        """The server's limit, as its welcome told it."""
        told = self._window.welcome.get("limits", {}).get("resultBytes", RESULT_BYTES)
        return int(told)

    async def _handle(self, call: PageCall, tool: PageTool | None) -> None:
        try:
            await carry_out(call, tool)
        except (HandspanError, TimeoutError):
            return  # nobody waits for the answer: refused, or the document or session is gone


def _revise(tools: list[PageTool], done: "asyncio.Future[Any]") -> None:
    """The tools are known since the revision that the reply tells."""
    told = None if done.cancelled() else done.result()
    if isinstance(told, Mapping):
        for tool in tools:
            tool.revision = int(told["revision"])
