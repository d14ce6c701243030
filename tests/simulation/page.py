"""A document: one load of a page with the library in it, as the protocol wants it.

A second implementation of what `handspan.client` does, made of plain synchronous moves: the journal
of calls, leave to start, turns, commands that are sent again, cursors, the session in the tab's
storage. Independent of `handspan.testing.Page`, and of the JavaScript. What it may assume of time
and of the browser is its `tab`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.kit import FAILING, handler_time, overlaps, starts_at_once

if TYPE_CHECKING:
    from .lines import Line
    from .tab import Tab

Json = Any
Frame = dict[str, Any]
Then = Callable[[Json, Json], None]

SUPERSEDED: Final = 4409
FOR_GOOD: Final = frozenset({1008, 3000, 3003, *range(4500, 5000)})
STORED_BYTES: Final = 64 * 1024
"""Answers up to this are kept over a reload."""


@dataclass(slots=True, eq=False)
class Entry:
    """One attempt of one call in the journal."""

    frame: Frame
    state: str = "received"
    answer: Frame | None = None
    aborted: bool = False

    @property
    def call_id(self) -> str:
        return str(self.frame["callId"])

    @property
    def attempt(self) -> int:
        return int(self.frame["attempt"])

    @property
    def named(self) -> Frame:
        return {"callId": self.call_id, "attempt": self.attempt}


@dataclass(slots=True, eq=False)
class Command:
    frame: Frame
    keep: bool
    then: Then | None


@dataclass(slots=True)
class Cursor:
    epoch: str | None = None
    offset: int | None = None


@dataclass(slots=True, eq=False)
class Told:
    """What the server knows of a tool, and since which revision; None: it has not said yet."""

    definition: Json
    since: int | None = 0


@dataclass(eq=False)
class Document:
    """One page load."""

    tab: "Tab"
    name: str
    alive: bool = True
    """False: unloaded; nothing happens in it any more."""
    down: str | None = None
    """Why it has no socket: waiting, parked, hidden, over."""
    ready: bool = False
    line: "Line | None" = None
    threads: dict[str, Cursor] = field(default_factory=dict)
    journal: dict[str, Entry] = field(default_factory=dict)
    lied: set[str] = field(default_factory=set)
    """Calls that it answered before it had them; of what it then does nobody tells it to stop."""
    waiting: dict[str, Command] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    """Digests of the open approval requests, by call."""
    runs: list[str] = field(default_factory=list)
    """Runs that were asked for here, or heard of."""
    seen_calls: dict[str, int] = field(default_factory=dict)
    """Calls that were heard of, with the newest attempt that came here, or 0."""

    def __post_init__(self) -> None:
        tab = self.tab
        self.world = tab.world
        self._rng = Random(f"{self.world.seed}/{self.name}")
        self._count = 0
        self._lines = 0
        self._attempt = 0
        self._timer: Any = None
        self._turns: dict[str, list[Entry]] = {}
        self._told: dict[str, Told] = {}
        self._heartbeat = 20.0
        self._rest = 0.0
        self.reload = tab.storage.pop("mark", False)
        self.session = tab.storage.get("session")
        for thread_id in tab.threads:
            self.threads[thread_id] = Cursor()
        for frame, answer in tab.storage.get("done", ()):
            self.journal[frame["callId"]] = Entry(frame, "done", answer)
        self.open()

    # ---- the socket ----------------------------------------------------------------------------

    def open(self) -> None:
        self._let_go()
        self.down = None
        self._lines += 1
        self.line = self.world.network.connect(self, f"{self.name}/{self._lines}")
        self._listen()

    def opened(self, line: "Line") -> None:
        if line is not self.line:
            return
        self._write(self._hello())
        self.ready = True
        for command in list(self.waiting.values()):
            self._write(command.frame)
        for entry in list(self.journal.values()):
            self._send_answer(entry)

    def _hello(self) -> Frame:
        self._mark_told(0)
        hello = {
            "type": "hello",
            "protocol": 1,
            "documentId": self.name,
            "client": {"name": "simulated", "version": "1"},
            "threads": [
                {"threadId": t}
                if c.epoch is None
                else {"threadId": t, "epoch": c.epoch, "offset": c.offset}
                for t, c in self.threads.items()
            ],
            "calls": [{**e.named, "state": e.state} for e in self.journal.values()],
            "tools": list(self.tab.tools.values()),
            "visible": self.tab.visible,
            "reload": self.reload,
        }
        if self.session:
            hello["session"] = dict(self.session)
        return hello

    def heard(self, line: "Line", frame: Frame) -> None:
        if line is not self.line:
            return
        self.world.history.note("heard", self.name, frame)
        kind = frame["type"]
        if kind == "goaway":
            self._rest = frame["reconnectAfterMs"] / 1000
        elif kind == "ping":
            self._write({"type": "pong"})
        self._listen()
        take = _TAKES.get(kind)
        if take is not None:
            take(self, frame)

    def ended(self, line: "Line", code: int) -> None:
        if line is not self.line:
            return
        if code == SUPERSEDED:
            self._fall("parked")
            self.session = None
            self.tab.storage.pop("session", None)
            self._end_calls()
        elif code in FOR_GOOD:
            self._fall("over")
            self._end_calls()
            self.waiting.clear()
        else:
            self._retry()

    def _retry(self) -> None:
        self._fall("waiting")
        self._attempt += 1
        delay = self._rng.random() * min(0.25 * 2**self._attempt, 4.0) + self._rest
        self._rest = 0.0
        self._timer = self.tab.later(self, delay, self.open)

    def _fall(self, why: str) -> None:
        self._let_go()
        self.down = why

    def _let_go(self) -> None:
        old, self.line, self.ready = self.line, None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if old is None:
            return
        old.close()
        for name in [n for n, command in self.waiting.items() if not command.keep]:
            then = self.waiting.pop(name).then
            if then is not None:
                then(None, None)

    def _listen(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.tab.later(self, 2 * self._heartbeat, self._retry)

    def _write(self, frame: Frame) -> None:
        if self.line is not None:
            self.world.history.note("said", self.name, frame)
            self.line.send(frame)

    def wake(self, *reasons: str) -> None:
        if self.alive and self.down in reasons:
            self.open()

    def hide(self) -> None:
        """pagehide: the tab may be reloaded, closed, or shown again."""
        if self.down != "over":
            self.tab.storage["mark"] = True
            self._fall("hidden")

    def show(self) -> None:
        self.tab.storage.pop("mark", None)
        self.wake("hidden")

    def bye(self) -> None:
        """The library is closed on purpose."""
        self._write({"type": "bye"})
        self._fall("over")
        self._end_calls()
        self.waiting.clear()
        self.tab.storage.pop("session", None)

    def unload(self) -> None:
        self.alive = False
        if self.line is not None:
            self._let_go()
        if self._timer is not None:
            self._timer.cancel()

    # ---- commands ------------------------------------------------------------------------------

    def command(self, frame: Frame, then: Then | None = None, *, keep: bool = True) -> None:
        """Send one; a kept one goes again over every new socket until it is answered."""
        if self.down == "over" or (not keep and not self.ready):
            return
        if keep:
            self.wake("parked")
            self.flush_tools()
        self._count += 1
        name = str(self._count)
        self.waiting[name] = Command({**frame, "id": name}, keep, then)
        if self.ready:
            self._write(self.waiting[name].frame)

    def _reply(self, frame: Frame) -> None:
        command = self.waiting.pop(frame["id"], None)
        if command is not None and command.then is not None:
            command.then(frame.get("result"), frame.get("error"))

    def open_thread(self, thread_id: str) -> None:
        """Open it without a cursor; one that is open is shown anew."""
        self.threads.setdefault(thread_id, Cursor())
        self.command({"type": "thread.open", "threadId": thread_id}, keep=False)

    def close_thread(self, thread_id: str) -> None:
        del self.threads[thread_id]
        self.command({"type": "thread.close", "threadId": thread_id}, keep=False)

    def look(self, *, visible: bool) -> None:
        self.tab.visible = visible
        if self.ready:
            self._write({"type": "visibility", "visible": visible})
        if visible:
            self.wake("parked", "waiting")

    # ---- tools ---------------------------------------------------------------------------------

    def _mark_told(self, since: int | None) -> tuple[list[Json], list[str], list[Told]]:
        own = self.tab.tools
        removed = [name for name in self._told if name not in own]
        for name in removed:
            del self._told[name]
        news = []
        for name, tool in own.items():
            known = self._told.get(name)
            if known is None or known.definition is not tool:
                self._told[name] = Told(tool, since)
                news.append(self._told[name])
        return [told.definition for told in news], removed, news

    def flush_tools(self) -> None:
        if not self.ready:
            return
        added, removed, news = self._mark_told(None)
        if not (added or removed):
            return

        def then(result: Json, error: Json) -> None:
            for told in news:
                told.since = 0 if result is None else result["revision"]

        self.command({"type": "tools.update", "add": added, "remove": removed}, then, keep=False)

    def find(self, name: str, revision: int | None = None) -> Json:
        """The tool of this name, unless it has changed since the revision."""
        tool, told = self.tab.tools.get(name), self._told.get(name)
        if tool is None or told is None or told.definition is not tool:
            return None
        if revision is not None and (told.since is None or told.since > revision):
            return None
        return tool

    # ---- frames --------------------------------------------------------------------------------

    def _welcome(self, frame: Frame) -> None:
        self._attempt = 0
        self.reload = False
        self._heartbeat = frame["heartbeatMs"] / 1000
        self.session = frame["session"]
        self.tab.storage["session"] = frame["session"]
        if not frame["resumed"]:
            self._end_calls()
            for told in self._told.values():
                told.since = 0
        self.tab.secrets.append(frame["session"])

    def _snapshot(self, frame: Frame) -> None:
        if frame["threadId"] in self.threads:
            self.threads[frame["threadId"]] = Cursor(frame["epoch"], frame["offset"])
        for call in frame["calls"]:
            self.seen_calls.setdefault(call["callId"], 0)
            if call["last"] is not None:
                self._told_of_call(call["last"])
        if frame["run"] is not None:
            self.runs.append(frame["run"]["runId"])

    def _events(self, frame: Frame) -> None:
        cursor = self.threads.get(frame["threadId"])
        if cursor is None:
            return
        cursor.epoch, cursor.offset = frame["epoch"], frame["offset"]
        for event in frame["events"]:
            if event["type"] == "RUN_STARTED":
                self.runs.append(event["runId"])
            elif event["type"] == "CUSTOM" and event["name"] == "handspan.call":
                self._told_of_call(event["value"])

    def _told_of_call(self, value: Json) -> None:
        self.seen_calls.setdefault(value["callId"], 0)
        if value["state"] != "waiting_approval":
            self.questions.pop(value["callId"], None)

    def _asked(self, frame: Frame) -> None:
        call_id, digest = frame["callId"], frame["digest"]
        if self.questions.get(call_id) == digest:
            return
        self.questions[call_id] = digest
        answer = self.tab.verdict(f"{call_id}/{digest}", frame)
        if answer is not None:
            told = {"type": "approval.answer", "callId": call_id, "digest": digest, **answer[1]}
            self.tab.later(self, answer[0], lambda: self._answer_question(told))

    def _answer_question(self, told: Frame) -> None:
        if self.questions.get(told["callId"]) == told["digest"]:
            self.command(told)

    # ---- calls ---------------------------------------------------------------------------------

    def _call(self, frame: Frame) -> None:
        entry = self.journal.get(frame["callId"])
        if entry is not None and frame["attempt"] <= entry.attempt:
            if frame["attempt"] == entry.attempt and entry.state == "done":
                self._send_answer(entry)
            return
        if entry is not None:
            self._abort(entry)
        entry = self.journal[frame["callId"]] = Entry(frame)
        self.seen_calls[frame["callId"]] = frame["attempt"]
        tool = self.find(frame["name"])
        if tool is not None and not overlaps(tool):
            turns = self._turns.setdefault(frame["threadId"], [])
            turns.append(entry)
            if len(turns) > 1:
                return
        self._carry_out(entry)

    def _carry_out(self, entry: Entry) -> None:
        tool = self.find(entry.frame["name"], entry.frame["revision"])
        if tool is None or starts_at_once(tool):
            self._start(entry)
        else:
            asked = {"type": "tool.started", **entry.named}
            self.command(asked, lambda result, error: self._leave(entry, result))

    def _leave(self, entry: Entry, result: Json) -> None:
        if entry.aborted:
            return
        if result is not None and result["status"] == "go":
            self._start(entry)
        else:
            self._drop(entry)
            self._turn_over(entry)

    def _start(self, entry: Entry) -> None:
        name = entry.frame["name"]
        tool = self.find(name, entry.frame["revision"])
        if tool is None:
            self._finish(entry, {"error": {"code": "unavailable", "message": "no tool"}})
            return
        entry.state = "started"
        what = {**entry.named, "name": name, "once": not starts_at_once(tool)}
        self.world.history.note("begin", self.name, what)
        seconds = handler_time(self._rng, name)
        if seconds is not None:
            self.tab.later(self, seconds, lambda: self._ended(entry, what))

    def _ended(self, entry: Entry, what: Frame) -> None:
        self.world.history.note("end", self.name, what)
        if entry.aborted:
            return
        if what["name"] in FAILING:
            answer: Frame = {"error": {"message": f"no, says {self.name}", "code": "no"}}
        else:
            answer = {"result": {"by": self.name, **entry.named}}
        self._finish(entry, answer)

    def _finish(self, entry: Entry, answer: Frame) -> None:
        entry.state, entry.answer = "done", answer
        self._save()
        self._turn_over(entry)
        self._send_answer(entry)

    def _send_answer(self, entry: Entry) -> None:
        if entry.answer is None or not self.ready:
            return
        self.flush_tools()
        answer = entry.answer
        frame = {"type": "tool.result", **entry.named, **answer}
        self.command(
            frame, lambda result, error: self._taken(entry, answer, result, error), keep=False
        )

    def _taken(self, entry: Entry, answer: Frame, result: Json, error: Json) -> None:
        if result is not None:
            self._drop(entry)
        elif error is not None and self.journal.get(entry.call_id) is entry:
            if "error" in answer:
                self._drop(entry)
            elif entry.answer is answer:
                entry.answer = {"error": {"message": error["code"]}}
                self._send_answer(entry)

    def _cancel(self, frame: Frame) -> None:
        entry = self.journal.get(frame["callId"])
        if entry is not None and entry.attempt == frame["attempt"]:
            self._abort(entry)
            self._drop(entry)

    def _abort(self, entry: Entry) -> None:
        if not entry.aborted:
            entry.aborted = True
            self._turn_over(entry)

    def _drop(self, entry: Entry) -> None:
        if self.journal.get(entry.call_id) is entry:
            del self.journal[entry.call_id]
            self._save()

    def _end_calls(self) -> None:
        for entry in list(self.journal.values()):
            self._abort(entry)
        self.journal.clear()
        self._save()

    def _turn_over(self, entry: Entry) -> None:
        """Frees its turn; the next one begins."""
        turns = self._turns.get(entry.frame["threadId"], [])
        if entry not in turns:
            return
        first = turns[0] is entry
        turns.remove(entry)
        while first and turns:
            if not turns[0].aborted:
                self._carry_out(turns[0])
                return
            turns.pop(0)

    def _save(self) -> None:
        self.tab.storage["done"] = [
            (entry.frame, entry.answer)
            for entry in self.journal.values()
            if entry.answer is not None and len(str(entry.answer)) <= STORED_BYTES
        ]


_TAKES: Final[dict[str, Callable[[Document, Frame], None]]] = {
    "welcome": Document._welcome,
    "snapshot": Document._snapshot,
    "events": Document._events,
    "reply": Document._reply,
    "approval.request": Document._asked,
    "tool.call": Document._call,
    "tool.cancel": Document._cancel,
}
