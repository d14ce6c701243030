"""Whether what happened is what was promised: reads a history from beginning to end.

Owns its own idea of the protocol (who holds a call, which secrets are good, what a log says), built
only from what the server wrote and read, what documents did and what agents were shown. It never
looks into the server. Each finding names the promise that is broken.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from tests.core.page_fold import PageFold, comparable
from tests.core.verifier import Stream
from tests.simulation.history import History, Record
from tests.simulation.kit import TOOLS, starts_at_once

from handspan.core.policy import Policy

Json = Any
Frame = dict[str, Any]
Run = tuple[str, str]
"""A thread and a run of it: ids of runs are fresh in their thread only."""
Asked = tuple[str, str, str]
"""A command by its session, its document and its id."""

APPROVED: Final = frozenset({"ask", "iask"})
"""Tools that no handler may carry out before a human said yes."""

KEPT: Final = frozenset(
    {"run.start", "run.abort", "tool.invoke", "tool.started", "state.update", "thread.open"}
)
"""Commands whose answer outlives the server's process."""


@dataclass(slots=True)
class LineSeen:
    document: str
    hello: Frame | None = None
    hello_at: float = 0.0
    session: str | None = None
    early: list[tuple[Frame, int]] = field(default_factory=list)
    """Commands that were read before the welcome was written."""
    written: dict[tuple[str, str], int] = field(default_factory=dict)
    """How far each log was written to it."""


@dataclass(slots=True)
class SessionSeen:
    good: set[str]
    line: str
    document: str
    took_at: float
    over: bool = False
    over_at: float = 0.0
    doubted: bool = False
    """A page that was never told whether it had it said bye."""


@dataclass(slots=True)
class CallSeen:
    """One call, as it could be seen from outside."""

    run: Run = ("", "")
    name: str = ""
    place: tuple[str, str, int] = ("", "", 0)
    """Thread, epoch and offset of its start."""
    orders: list[tuple[str, str, int]] = field(default_factory=list)
    """Session, document and attempt of each `tool.call` that was written."""
    dispatched: int = 0
    """How often it was told to be."""
    left: set[int] = field(default_factory=set)
    """Attempts that were answered `go`."""
    spent: bool = False
    """One of them was of a tool that must not run twice."""
    begun: set[int] = field(default_factory=set)
    begun_once: int | None = None
    """The attempt in which a handler began that must not run twice."""
    applied: tuple[str, Frame] | None = None
    settled: Json = None
    settled_as: tuple[int, str, str, int] = (0, "", "", 0)
    """Record, thread, epoch and offset of its end."""
    content: str | None = None
    content_at: tuple[str, str, int] = ("", "", 0)
    denied: bool = False
    approved: bool = False


class Checker:
    """Takes records one by one; `findings` says what is wrong."""

    def __init__(self, policy: Policy) -> None:
        self.findings: list[str] = []
        self._policy = policy
        self._at = 0.0
        self._index = 0
        self._life = 0
        self._lines: dict[str, LineSeen] = {}
        self._sessions: dict[str, SessionSeen] = {}
        self._secrets: set[str] = set()
        self._asked: dict[Asked, tuple[Frame, int]] = {}
        self._first_asked: dict[tuple[str, str], int] = {}
        """Each command, with the record in which it was first read."""
        self._replied: dict[Asked, tuple[int, Frame]] = {}
        """With the life in which it was answered first."""
        self._calls: dict[str, CallSeen] = defaultdict(CallSeen)
        self._logs: dict[tuple[str, str], list[Json]] = defaultdict(list)
        self._shown: dict[tuple[str, str], int] = defaultdict(int)
        """How much of each log has ever left the server."""
        self._streams: dict[tuple[str, str], Stream] = defaultdict(Stream)
        self._broken_streams: set[tuple[str, str]] = set()
        self._joined_late: set[tuple[str, str]] = set()
        """Logs that began in the middle of a run, which has not ended yet."""
        self._in_doubt: set[Run] = set()
        """Runs whose end nobody had been shown when the server died."""
        self._over: dict[Run, tuple[int, Json, tuple[str, str, int]]] = {}
        """Each run and sub-run that has ended: record, last event, place."""
        self._started: dict[Run, tuple[str, str, int]] = {}
        """Where each run began."""
        self._accepted: dict[Run, Frame] = {}
        """Each `run.start` that was answered, by run."""
        self._invoked: set[tuple[int, Run, int]] = set()
        self._folds: dict[tuple[str, str], Fold] = {}
        self._statuses: list[tuple[str, Frame, str]] = []
        self._states: dict[str, str] = {}
        """Paths of state updates that were answered, with their threads."""
        self._aborted: set[str] = set()
        """Runs whose abort was answered `aborted: true`."""
        self._remembered = False

    def judge(self, history: History) -> list[str]:
        for index, record in enumerate(history.records):
            self._index, self._at = index, record.at
            judge = _JUDGES.get(record.kind)
            if judge is not None:
                judge(self, record)
        self._finally()
        return self.findings

    def _wrong(self, what: str) -> None:
        self.findings.append(f"at {self._at:.3f}: {what}")

    # ---- what the server read ------------------------------------------------------------------

    def _took(self, record: Record) -> None:
        frame = record.what
        line = self._lines.setdefault(record.who, LineSeen(_document(record.who)))
        kind = frame["type"]
        if kind == "hello":
            line.hello, line.hello_at = frame, record.at
            line.written = {
                (t["threadId"], t["epoch"]): t["offset"] for t in frame["threads"] if "epoch" in t
            }
        session = self._sessions.get(line.session or "")
        if session is not None and session.line == record.who:
            session.took_at = record.at
            if kind == "bye":
                session.over, session.over_at = True, record.at
        if kind == "bye" and line.session is None:
            self._bye_before_welcome(line)
        if "id" in frame:
            self._ask(line, frame)
        if kind == "approval.answer" and frame["approved"]:
            self._calls[frame["callId"]].approved = True
            self._remembered = self._remembered or frame.get("remember", False)

    def _bye_before_welcome(self, line: LineSeen) -> None:
        """It may have been given the session it asked for, and ended it, before it was told so."""
        claimed = (line.hello or {}).get("session") or {}
        session = self._sessions.get(claimed.get("id", ""))
        if session is not None:
            session.doubted = True

    def _ask(self, line: LineSeen, frame: Frame) -> None:
        """Before the welcome nobody knows of which session it is; one sent again is the first."""
        first = self._first_asked.setdefault((line.document, frame["id"]), self._index)
        if line.session is None:
            line.early.append((frame, first))
        else:
            name = (line.session, line.document, frame["id"])
            self._asked.setdefault(name, (frame, first))

    # ---- what the server wrote -----------------------------------------------------------------

    def _sent(self, record: Record) -> None:
        frame = record.what
        line = self._lines.setdefault(record.who, LineSeen(_document(record.who)))
        kind = frame["type"]
        if kind == "welcome":
            self._welcome(record.who, line, frame)
            return
        session = self._sessions.get(line.session or "")
        if session is not None and session.line != record.who:
            self._wrong(f"P9: {kind} on {record.who}, but {session.line} is the newest socket")
        judge = _WRITTEN.get(kind)
        if judge is not None:
            judge(self, line, frame)

    def _welcome(self, name: str, line: LineSeen, frame: Frame) -> None:
        hello = line.hello
        if hello is None:
            self._wrong("a welcome without a hello")
            return
        granted, claimed = frame["session"], hello.get("session")
        secret, session_id = granted["secret"], granted["id"]
        if secret in self._secrets:
            self._wrong("P9: a secret is given twice")
        self._secrets.add(secret)
        line.session = session_id
        for early, index in line.early:
            self._asked.setdefault((session_id, line.document, early["id"]), (early, index))
        known = self._sessions.get(session_id)
        if frame["resumed"]:
            if known is None or claimed is None or claimed["id"] != session_id:
                self._wrong(f"P9: {line.document} resumed a session that it did not ask for")
            elif claimed["secret"] not in known.good:
                self._wrong(f"P9: {line.document} resumed {session_id} with a secret that is void")
        elif known is not None:
            self._wrong(f"P9: {session_id} is given as a new session, but it was there before")
        elif claimed is not None:
            self._why_not_resumed(line, claimed, frame)
        good = {secret, claimed["secret"]} if frame["resumed"] and claimed else {secret}
        self._sessions[session_id] = SessionSeen(good, name, line.document, self._at)

    def _why_not_resumed(self, line: LineSeen, claimed: Frame, frame: Frame) -> None:
        """A page that shows its secret in time gets its session."""
        known = self._sessions.get(claimed["id"])
        if known is not None and known.over and known.over_at >= line.hello_at:
            return  # it ended while it was looked for
        if known is not None and known.doubted:
            return
        if known is None or known.over or claimed["secret"] not in known.good:
            if frame["reason"] != "unknown_session":
                self._wrong("P9: a wrong secret is not answered like an unknown session")
            return
        hello = line.hello or {}
        its_own = known.document == line.document or hello.get("reload")
        if its_own and self._at - known.took_at < self._policy.resume_window:
            self._wrong(f"P9: {line.document} could not resume {claimed['id']}: {frame['reason']}")

    # ---- replies -------------------------------------------------------------------------------

    def _reply(self, line: LineSeen, reply: Frame) -> None:
        name = (line.session or "", line.document, reply["id"])
        before = self._replied.get(name)
        if before is not None:
            if before[1] != reply and self._must_stand(before[0], name):
                self._wrong(f"P2: a command is answered twice: {before[1]}, {reply}")
            return
        self._replied[name] = (self._life, reply)
        asked = self._asked.get(name)
        if asked is None:
            self._wrong(f"an answer to what was never asked: {reply}")
            return
        frame, index = asked
        judge = _ANSWERED.get(frame["type"])
        if judge is not None:
            judge(self, line, frame, reply, index)

    def _must_stand(self, life: int, name: Asked) -> bool:
        """Some answers need not outlive the process: the command says itself what it is about."""
        return life == self._life or self._asked[name][0]["type"] in KEPT

    def _answer_to_start(self, line: LineSeen, frame: Frame, reply: Frame, index: int) -> None:
        """Leave may be written later than it was given, while a page does not read."""
        status, call = _status(reply), self._calls[frame["callId"]]
        if status != "go":
            return
        attempt, call_id = frame["attempt"], frame["callId"]
        self._holds(call, line, frame)
        if call.spent or attempt in call.left:
            self._wrong(f"P2: {call_id} is given leave to start a second time")
        if call.settled is not None and call.settled_as[0] < index:
            self._wrong(f"P2: {call_id} is given leave to start, but it had settled")
        if call.run in self._over and self._over[call.run][0] < index:
            self._wrong(f"P5: {call_id} is given leave to start, but its run was over")
        call.left.add(attempt)
        call.spent = not _repeatable(call)

    def _answer_to_result(self, line: LineSeen, frame: Frame, reply: Frame, index: int) -> None:
        status, call_id = _status(reply), frame["callId"]
        call = self._calls[call_id]
        self._statuses.append((line.document, frame, status))
        if status == "not_owner":
            own = [n for s, _, n in call.orders if s == line.session and n >= frame["attempt"]]
            if own:
                self._wrong(f"P7: {call_id} is not {line.session}'s, which was given it")
        if status != "applied":
            return
        self._holds(call, line, frame)
        if call.applied is not None:
            self._wrong(f"P2: two results of {call_id} are applied")
        if call.settled is not None and call.settled_as[0] < index:
            self._wrong(f"P2: a result of {call_id} is applied after it had settled")
        call.applied = (line.document, frame)

    def _holds(self, call: CallSeen, line: LineSeen, frame: Frame) -> None:
        newest = call.orders[-1] if call.orders else ("", "", 0)
        if newest[2] < frame["attempt"] <= call.dispatched:
            return  # its order is not written yet: nobody can say who holds it, and a liar guessed
        if (newest[0], newest[2]) != (line.session, frame["attempt"]):
            self._wrong(
                f"P7: {frame['type']} of {frame['callId']}, attempt {frame['attempt']}, is taken"
                f" from {line.session}; the newest order is {newest}"
            )

    def _answer_to_run(self, _: LineSeen, frame: Frame, reply: Frame, __: int) -> None:
        if "result" in reply:
            self._accepted[frame["threadId"], reply["result"]["runId"]] = frame

    def _answer_to_abort(self, _: LineSeen, frame: Frame, reply: Frame, index: int) -> None:
        if not reply.get("result", {}).get("aborted"):
            return
        run_id = frame.get("runId")
        if any(run[0] == frame.get("threadId", run[0]) for run in self._in_doubt):
            return  # it may have ended so in a process of which nobody was shown the end
        if run_id is None:
            ends = [end for _, end, _ in self._over.values() if _reason(end) == "aborted"]
            if not ends:
                self._wrong("P5: an abort was answered, but no run has ended so")
            return
        self._aborted.add(run_id)
        known = [run for run in self._over.keys() | self._started.keys() if run[1] == run_id]
        ends = [self._over[run] for run in known if run in self._over]
        if known and not any(_reason(end) == "aborted" and at > index for at, end, _ in ends):
            self._wrong(f"P5: the abort of {run_id} is answered, but it ended {ends}")

    def _answer_to_state(self, _: LineSeen, frame: Frame, reply: Frame, __: int) -> None:
        if "result" in reply:
            self._states[frame["patch"][0]["path"][1:]] = frame["threadId"]

    def _answer_to_approval(self, _: LineSeen, frame: Frame, reply: Frame, __: int) -> None:
        if _status(reply) == "applied":
            call = self._calls[frame["callId"]]
            call.denied = not frame["approved"]

    # ---- orders and questions ------------------------------------------------------------------

    def _order(self, line: LineSeen, frame: Frame) -> None:
        call_id, attempt = frame["callId"], frame["attempt"]
        call = self._calls[call_id]
        call.run, call.name = (frame["threadId"], frame["runId"]), frame["name"]
        if call.settled is not None:
            self._wrong(f"P2: {call_id} is sent to {line.document}, but it is settled")
        if call.run in self._over:
            self._wrong(f"P5: {call_id} is sent to {line.document}, but its run is over")
        if call.denied:
            self._wrong(f"P10: {call_id} is sent to {line.document}, but it was denied")
        order = (line.session or "", line.document, attempt)
        if call.orders:
            last = call.orders[-1]
            if attempt < last[2] or (attempt == last[2] and order != last):
                self._wrong(f"P2: {call_id} is sent as {order} after {last}")
            if call.spent:
                self._wrong(f"P2: {call_id} is sent again, though it was started")
        call.orders.append(order)

    def _question(self, line: LineSeen, frame: Frame) -> None:
        """One that overlaps with its answer is closed by the events behind it."""
        call = self._calls[frame["callId"]]
        _, thread_id, epoch, offset = call.settled_as
        if call.settled is not None and line.written.get((thread_id, epoch), -1) > offset:
            self._wrong(f"P10: {line.document} is asked about {frame['callId']}, which is over")

    # ---- logs ----------------------------------------------------------------------------------

    def _event(self, record: Record) -> None:
        thread_id, (epoch, event, last_run) = record.who, record.what
        name = (thread_id, epoch)
        log = self._logs[name]
        place = (thread_id, epoch, len(log))
        log.append(event)
        self._stream(name, event)
        kind = event["type"]
        if kind == "RUN_STARTED":
            self._started[thread_id, event["runId"]] = place
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            run_id = event.get("runId") or last_run or self._under_way(thread_id)
            self._ended((thread_id, run_id), event, place)
        elif kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR"):
            self._ended((thread_id, event["subagentRunId"]), event, place)
        elif kind == "TOOL_CALL_START":
            self._call_started(event, place)
        elif kind == "TOOL_CALL_RESULT":
            self._call_result(event, place)
        elif kind == "CUSTOM" and event["name"] == "handspan.call":
            self._told_of_call(event["value"], place)

    def _stream(self, name: tuple[str, str], event: Json) -> None:
        if name in self._broken_streams or self._is_late(name, event):
            return
        try:
            self._streams[name].take(event)
        except Exception as error:
            self._broken_streams.add(name)
            self._wrong(f"P6: {error!r} at {event} of {name}")

    def _is_late(self, name: tuple[str, str], event: Json) -> bool:
        """A log that begins in the middle of a run is judged from its end on."""
        kind = event["type"]
        if name in self._joined_late:
            if kind in ("RUN_FINISHED", "RUN_ERROR"):
                self._joined_late.discard(name)
            return True
        if name in self._streams or kind == "RUN_STARTED":
            return False
        between = kind.startswith("STATE_") or event.get("name") == "handspan.suggestions"
        if not between and kind not in ("RUN_FINISHED", "RUN_ERROR"):
            self._joined_late.add(name)
        return True

    def _under_way(self, thread_id: str) -> str:
        """The run that was begun last on this thread, or was accepted first, and has not ended."""
        begun = [run for run in reversed(self._started) if run[0] == thread_id]
        known = [*begun, *(run for run in self._accepted if run[0] == thread_id)]
        over = self._over.keys() | self._in_doubt
        return next((run[1] for run in known if run not in over), "")

    def _ended(self, run: Run, event: Json, place: tuple[str, str, int]) -> None:
        if run in self._over:
            self._wrong(f"P5: {run} ends twice")
        self._over[run] = (self._index, event, place)

    def _call_started(self, event: Json, place: tuple[str, str, int]) -> None:
        call_id = event["toolCallId"]
        call = self._calls[call_id]
        if call.place[0] and (call.orders or call.settled or call.place[1] == place[1]):
            self._wrong(f"P7: {call_id} of {place} is the name of another call, of {call.place}")
        self._calls[call_id].place = place

    def _call_result(self, event: Json, place: tuple[str, str, int]) -> None:
        call = self._calls[event["toolCallId"]]
        if call.content is not None and call.content != event["content"]:
            self._wrong(f"P2: {event['toolCallId']} has two results")
        call.content, call.content_at = event["content"], place

    def _told_of_call(self, value: Json, place: tuple[str, str, int]) -> None:
        call = self._calls[value["callId"]]
        if call.settled is not None:
            self._wrong(f"P2: {value} is told of a call that had settled")
        call.dispatched += value["state"] == "dispatched"
        if value["state"] == "settled":
            call.settled, call.settled_as = value, (self._index, *place)

    def _events_written(self, line: LineSeen, frame: Frame) -> None:
        """What leaves is what the log says; deltas of one text may have become one."""
        name, end = (frame["threadId"], frame["epoch"]), frame["offset"]
        start = line.written.get(name)
        if start is not None and joined(self._logs[name][start:end]) != joined(frame["events"]):
            self._wrong(
                f"P6: {line.document} is shown other events than {name} has from {start} to {end}"
            )
        self._shown[name] = max(self._shown[name], end)
        line.written[name] = end

    def _snapshot_written(self, line: LineSeen, frame: Frame) -> None:
        name = (frame["threadId"], frame["epoch"])
        if frame["offset"] > len(self._logs[name]):
            self._wrong(f"P9: {line.document} gets a snapshot beyond the head of {name}")
        self._shown[name] = max(self._shown[name], frame["offset"])
        line.written[name] = frame["offset"]

    # ---- documents -----------------------------------------------------------------------------

    def _heard(self, record: Record) -> None:
        frame, kind = record.what, record.what["type"]
        if kind == "snapshot":
            fold = PageFold.of_snapshot(orjson.loads(orjson.dumps(frame)))
            where = (record.who, frame["threadId"])
            self._folds[where] = Fold(fold, frame["epoch"], frame["offset"])
        elif kind == "events":
            self._fold(record.who, frame)

    def _fold(self, document: str, frame: Frame) -> None:
        """Missed events come once and in order, or as a snapshot (P9)."""
        fold = self._folds.get((document, frame["threadId"]))
        if fold is None:
            self._wrong(f"P9: {document} gets events of a thread before its snapshot")
            return
        if frame["epoch"] != fold.epoch or frame["offset"] <= fold.offset:
            self._wrong(
                f"P9: {document} is at {fold.offset} of {fold.epoch}, and gets events up to"
                f" {frame['offset']} of {frame['epoch']}"
            )
            return
        log = self._logs[frame["threadId"], fold.epoch]
        if joined(log[fold.offset : frame["offset"]]) != joined(frame["events"]):
            self._wrong(
                f"P9: {document} is at {fold.offset} of {fold.epoch}, and gets other events than"
                f" there are up to {frame['offset']}"
            )
        for event in orjson.loads(orjson.dumps(frame["events"])):
            try:
                fold.fold.apply(event)
            except Exception as error:
                self._wrong(f"P6: {document} cannot fold {event}: {error!r}")
        fold.offset = frame["offset"]

    def _begin(self, record: Record) -> None:
        what = record.what
        call_id, attempt = what["callId"], what["attempt"]
        call = self._calls[call_id]
        if attempt in call.begun:
            self._wrong(f"P2: attempt {attempt} of {call_id} begins in {record.who} too")
        if call.begun_once is not None and (what["once"] or attempt > call.begun_once):
            self._wrong(f"P2: {call_id}, which must not run twice, begins in {record.who} too")
        if what["name"] in APPROVED and not (call.approved or self._remembered):
            self._wrong(f"P10: {call_id} begins in {record.who}, and nobody said yes")
        call.begun.add(attempt)
        if what["once"]:
            call.begun_once = attempt

    # ---- agents --------------------------------------------------------------------------------

    def _agent_invoked(self, record: Record) -> None:
        what = record.what
        for problem in broken(what["messages"]):
            self._wrong(f"P1: at depth {what['depth']} of {record.who} an agent sees: {problem}")
        run = (what["threadId"], record.who)
        if run in self._over:
            self._wrong(f"P5: an agent is invoked for {run}, which is over")
        step = (what["life"], run, what["depth"])
        if step in self._invoked:
            self._wrong(f"P2: depth {what['depth']} of {record.who} begins twice")
        self._invoked.add(step)

    # ---- lives ---------------------------------------------------------------------------------

    def _server(self, record: Record) -> None:
        if record.what == "begins":
            self._life += 1
        elif record.what == "crashes":
            self._forget_unseen()

    def _forget_unseen(self) -> None:
        """What nobody was shown may never have been kept."""
        for call_id, call in list(self._calls.items()):
            thread_id = call.place[0]
            if thread_id and self._is_unseen(*call.place) and not call.orders:
                del self._calls[call_id]
                continue
            if call.settled is not None and self._is_unseen(*call.settled_as[1:]):
                call.settled = None
            if call.content is not None and self._is_unseen(*call.content_at):
                call.content = None
        for run, (_, _, place) in list(self._over.items()):
            if self._is_unseen(*place):
                del self._over[run]
                self._in_doubt.add(run)
        for run, place in list(self._started.items()):
            if self._is_unseen(*place):
                del self._started[run]

    def _is_unseen(self, thread_id: str, epoch: str, offset: int) -> bool:
        return offset >= self._shown[thread_id, epoch]

    def _complaint(self, record: Record) -> None:
        self._wrong(f"{record.who}: {record.what}")

    # ---- the end -------------------------------------------------------------------------------

    def _at_rest(self, record: Record) -> None:
        threads = record.what["threads"]
        for thread_id, picture in threads.items():
            for message in picture["messages"]:
                if message["role"] == "tool":
                    self._calls[message["toolCallId"]].content = message["content"]
            for problem in broken_by_owner(picture["messages"]):
                self._wrong(f"P1: the history of {thread_id}: {problem}")
            shown = comparable(orjson.loads(orjson.dumps(picture)))
            for document, open_threads in record.what["pages"].items():
                if thread_id in open_threads:
                    self._same(document, thread_id, shown)
        self._kept(threads)

    def _same(self, document: str, thread_id: str, shown: Json) -> None:
        fold = self._folds.get((document, thread_id))
        if fold is None:
            self._wrong(f"P9: {document} was never shown {thread_id}")
            return
        mine = fold.fold.shown()
        for part, value in shown.items():
            if mine[part] != value:
                self._wrong(f"P9: {document} has other {part} of {thread_id}: {mine[part]} {value}")

    def _kept(self, threads: dict[str, Json]) -> None:
        """What was acknowledged is there (P16)."""
        for path, thread_id in self._states.items():
            if path not in (threads.get(thread_id, {}).get("state") or {}):
                self._wrong(f"P16: the state of {thread_id} has no {path}, which was accepted")
        for run, frame in self._accepted.items():
            if run[1] in self._aborted:
                continue
            if run not in self._over and run not in self._in_doubt:
                self._wrong(f"P5: {run} was accepted, and never ended")
            messages = threads.get(run[0], {}).get("messages", ())
            asked = frame.get("message")
            if asked is not None and not any(m.get("content") == asked for m in messages):
                self._wrong(f"P16: {asked!r} of {run} was accepted, and is in no history")
        for call_id, call in self._calls.items():
            if call.applied is not None and call.content is None:
                self._wrong(f"P16: the result of {call_id} was applied, and is in no history")

    def _finally(self) -> None:
        for run in self._started.keys() - self._over.keys() - self._in_doubt:
            self._wrong(f"P5: {run} never ended")
        for document, frame, status in self._statuses:
            self._truly(document, frame, status)

    def _truly(self, document: str, frame: Frame, status: str) -> None:
        """The status of a result says what became of the call."""
        call = self._calls[frame["callId"]]
        if call.content is None or call.settled is None:
            return
        mine = call.content == _content(frame)
        told = f"P7: {document} is told {status} of {frame}, but {call.settled}: {call.content}"
        outcome = call.settled["outcome"]
        true = {
            "applied": mine,
            "duplicate": mine,
            "conflict": not mine and outcome in ("ok", "error"),
            "aborted": outcome == "aborted",
            "late": outcome not in ("ok", "aborted"),
        }
        if not true.get(status, True):
            self._wrong(told)


@dataclass(slots=True)
class Fold:
    """What one document has of one thread."""

    fold: PageFold
    epoch: str
    offset: int


# ---- parts -------------------------------------------------------------------------------------


def broken(messages: Iterable[Json]) -> list[str]:
    """P1, of the messages of one owner: each call has its one result, behind it, in call order."""
    wrong: list[str] = []
    due: list[str] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            if not due or due[0] != message["toolCallId"]:
                wrong.append(f"a result of {message['toolCallId']}, where {due} are due")
            else:
                due.pop(0)
        elif due:
            wrong.append(f"a message of role {role}, where results of {due} are due")
            due = []
        due += [call["id"] for call in message.get("toolCalls") or ()]
    if due:
        wrong.append(f"no results of {due}")
    return wrong


def broken_by_owner(messages: Iterable[Json]) -> list[str]:
    by_owner: dict[str | None, list[Json]] = defaultdict(list)
    for message in messages:
        by_owner[message.get("subagentRunId")].append(message)
    return [problem for own in by_owner.values() for problem in broken(own)]


def joined(events: Iterable[Json]) -> list[Json]:
    """The same with deltas that stand side by side made one, as a lagging page may get them."""
    told: list[Json] = []
    for event in events:
        last = told[-1] if told else {}
        if "delta" in event and _but_delta(last) == _but_delta(event) and _is_text(event):
            told[-1] = {**last, "delta": last["delta"] + event["delta"]}
        else:
            told.append(event)
    return told


def _is_text(event: Json) -> bool:
    return event["type"] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS")


def _but_delta(event: Json) -> Json:
    return {key: value for key, value in event.items() if key != "delta"}


def _document(line: str) -> str:
    return line.rpartition("/")[0]


def _status(reply: Frame) -> str:
    result, error = reply.get("result"), reply.get("error")
    return str(error["code"] if result is None else result["status"])


def _reason(end: Json) -> str:
    if end["type"] == "SUBAGENT_ERROR":
        return str(end["code"])
    return str((end.get("result") or {}).get("reason", end["type"]))


def _repeatable(call: CallSeen) -> bool:
    tool = TOOLS.get(call.name)
    return tool is not None and starts_at_once(tool)


def _content(frame: Frame) -> str:
    """What a result is in history. *Source:* protocol.md 3."""
    if "error" in frame:
        error = frame["error"]
        told = {"code": error.get("code", "handler_error"), "message": error["message"]}
        return orjson.dumps({"error": told}).decode()
    return orjson.dumps(frame["result"]).decode()


_WRITTEN: Final[dict[str, Any]] = {
    "reply": Checker._reply,
    "tool.call": Checker._order,
    "approval.request": Checker._question,
    "events": Checker._events_written,
    "snapshot": Checker._snapshot_written,
}

_ANSWERED: Final[dict[str, Any]] = {
    "tool.started": Checker._answer_to_start,
    "tool.result": Checker._answer_to_result,
    "run.start": Checker._answer_to_run,
    "run.abort": Checker._answer_to_abort,
    "state.update": Checker._answer_to_state,
    "approval.answer": Checker._answer_to_approval,
}

_JUDGES: Final[dict[str, Any]] = {
    "took": Checker._took,
    "sent": Checker._sent,
    "event": Checker._event,
    "heard": Checker._heard,
    "begin": Checker._begin,
    "invoked": Checker._agent_invoked,
    "life": Checker._server,
    "wrong": Checker._complaint,
    "rest": Checker._at_rest,
}
