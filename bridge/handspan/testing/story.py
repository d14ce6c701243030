"""One thread as a page knows it: the stream folded to messages and state, and what must hold of it.

Owns the cursor (epoch, offset) and notes every break of the stream's rules in `faults`: an event
twice, another log without a snapshot. The fold is the server's own `Transcript`. Above sits `page`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from handspan.core.transcript import Transcript
from handspan_protocol.errors import HandspanError

__all__ = ["PATIENCE_S", "PageRun", "Refused", "RunFailed", "Story", "given", "patiently"]

Json = Any
Event = Mapping[str, Json]

PATIENCE_S: Final = 5.0
"""Real seconds that a page waits for anything."""

_TERMINAL: Final = ("RUN_FINISHED", "RUN_ERROR")


class Refused(HandspanError):  # noqa: N818 - what happened
    """The server answered a command with an error."""

    def __init__(self, code: str, message: str, path: str | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.path = path


class RunFailed(HandspanError):  # noqa: N818 - what happened
    """A run ended in RUN_ERROR."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


async def patiently(waiting: Awaitable[Any], what: str) -> Any:
    """Wait at most `PATIENCE_S`.

    Raises:
        TimeoutError: in words: what was waited for.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await waiting
    except TimeoutError:
        raise TimeoutError(f"waited {PATIENCE_S:g} s for {what}") from None


class PageRun:
    """A run that this page started."""

    def __init__(self, run_id: str, accepted: "asyncio.Future[Any]") -> None:
        self.id = run_id
        self.events: list[Event] = []
        """Its events so far, RUN_STARTED first."""
        self.is_over = False
        self._accepted = accepted
        self._end: asyncio.Future[Any] = accepted.get_loop().create_future()
        self._grown = asyncio.Event()
        accepted.add_done_callback(self._answered)

    @property
    def accepted(self) -> Awaitable[Mapping[str, Json]]:
        """The reply to `run.start`; raises Refused."""
        return given(self._accepted, f"the reply to run {self.id}")

    @property
    def finished(self) -> Awaitable[Mapping[str, Json]]:
        """{"reason", "depth", "output"?}; reason "lost" when the server no longer knows the run.

        Raises Refused when it never began, and RunFailed when it ended in RUN_ERROR.
        """
        return given(self._end, f"the end of run {self.id}")

    async def __aiter__(self) -> AsyncIterator[Event]:
        at = 0
        while True:
            while at < len(self.events):
                yield self.events[at]
                at += 1
            if self.is_over:
                return
            self._grown.clear()
            await patiently(self._grown.wait(), f"the next event of run {self.id}")

    def take(self, event: Event) -> None:
        """One of its events."""
        self.events.append(event)
        if event["type"] == "RUN_FINISHED":
            self.end(event["result"])
        elif event["type"] == "RUN_ERROR":
            self.end(RunFailed(event["code"], event["message"]))
        self._grown.set()

    def end(self, how: Mapping[str, Json] | HandspanError) -> None:
        """It is over; the first end counts."""
        if not self._end.done():
            self.is_over = True
            self._end.set_result(how)
            self._grown.set()

    def _answered(self, accepted: "asyncio.Future[Any]") -> None:
        if not accepted.cancelled() and isinstance(accepted.result(), HandspanError):
            self.end(accepted.result())


async def given(future: "asyncio.Future[Any]", what: str) -> Any:
    """What a future of this module holds, waited for patiently; an error in it is raised."""
    value = await patiently(asyncio.shield(future), what)
    if isinstance(value, HandspanError):
        raise value
    return value


class _Fold(Transcript):
    """A transcript that can begin in the middle of a message."""

    __slots__ = ()

    def begin(self, snapshot: Mapping[str, Json]) -> None:
        """Hold what the snapshot holds, and be ready for the deltas of what it left open."""
        self.replace(snapshot["messages"])
        self.state = snapshot["state"]
        under_way = snapshot["open"]
        for message_id in (*under_way["messages"], *under_way["reasoning"]):
            if message_id in self._by_id:
                self._pieces[message_id] = [self._by_id[message_id]["content"]]
        for call_id in under_way["calls"]:
            if call_id in self._call_home:
                call = self._call_home[call_id][1]
                self._pieces[f"call {call_id}"] = [call["function"]["arguments"]]


class Story:
    """A thread's stream, as far as this document has heard it."""

    def __init__(self, thread_id: str) -> None:
        self.id = thread_id
        self.epoch: str | None = None
        self.offset: int | None = None
        """Both are None until the first snapshot or events."""
        self.events: list[Event] = []
        """Every event heard, in order."""
        self.snapshots = 0
        """How many came."""
        self.faults: list[str] = []
        """Breaks of the stream's rules; empty when the server is right (P9)."""
        self.run: Mapping[str, Json] | None = None
        """{"runId", "depth", "status"} of the run under way."""
        self.last_run: Mapping[str, Json] | None = None
        self.suggestions: list[Json] = []
        self._fold = _Fold()
        self._runs: dict[str, PageRun] = {}

    @property
    def messages(self) -> list[Mapping[str, Json]]:
        """AG-UI messages as JSON."""
        return [dict(message) for message in self._fold.view()]

    @property
    def state(self) -> Json:
        return self._fold.state

    @property
    def text(self) -> str:
        """All that the agent said, joined."""
        said = (m for m in self.messages if m["role"] == "assistant")
        return "".join(m.get("content") or "" for m in said)

    def watch(self, run: PageRun) -> None:
        """Tell this run its events."""
        self._runs[run.id] = run

    def take_snapshot(self, frame: Mapping[str, Json]) -> None:
        self.epoch, self.offset = frame["epoch"], frame["offset"]
        self.snapshots += 1
        self._fold.begin(frame)
        self.run, self.last_run = frame["run"], frame["lastRun"]
        self.suggestions = list(frame["suggestions"])
        for run in list(self._runs.values()):
            self._find_in_snapshot(run)

    def take_events(self, frame: Mapping[str, Json]) -> None:
        events, offset = frame["events"], frame["offset"]
        before = self.offset if self.offset is not None else 0
        if self.epoch not in (None, frame["epoch"]):
            self.faults.append(f"log {frame['epoch']} after {self.epoch} without a snapshot")
        elif offset - len(events) < before:
            self.faults.append(f"events before {offset} overlap what ended at {before}")
        self.epoch, self.offset = frame["epoch"], offset
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._fold.apply(event)
        step = _STEPS.get(event["type"])
        if step is not None:
            step(self, event)
        running = self.run["runId"] if self.run else event.get("runId")
        run = self._runs.get(running) if running else None
        if run is not None:
            run.take(event)
        if event["type"] in _TERMINAL:
            self.last_run, self.run = {**event, "runId": running}, None
            self._runs.pop(running or "", None)

    def _run_started(self, event: Event) -> None:
        self.run = {"runId": event["runId"], "depth": 0, "status": "running"}
        self.suggestions = []

    def _step_started(self, event: Event) -> None:
        name = event["stepName"]
        if self.run is not None and "subagentRunId" not in event and name.startswith("step-"):
            self.run = {**self.run, "depth": int(name.removeprefix("step-"))}

    def _custom(self, event: Event) -> None:
        if event["name"] == "handspan.suggestions":
            self.suggestions = list(event["value"]["items"])

    def _find_in_snapshot(self, run: PageRun) -> None:
        """A run that went on while the page was away may be over, or be known no more."""
        last = self.last_run
        if self.run is not None and self.run["runId"] == run.id:
            return
        if last is not None and last["runId"] == run.id:
            error = last.get("error")
            failed = RunFailed(error["code"], error["message"]) if error else None
            run.end(failed or last["result"])
        elif run.events:
            run.end({"reason": "lost", "depth": 0})
        if run.is_over:
            del self._runs[run.id]


_STEPS: Final[Mapping[str, Callable[[Story, Event], None]]] = {
    "RUN_STARTED": Story._run_started,
    "STEP_STARTED": Story._step_started,
    "CUSTOM": Story._custom,
}
