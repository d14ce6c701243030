"""A bridge without a bridge: real Threads and Sessions, routed as `shell/driver.py` does, purely.

`World` holds the machines, the one queue between them, and the time, which only a test moves.
`Tab` is a page: it speaks frames, keeps a journal, and folds what its stream says. Both are small
real implementations: nothing here knows what a test expects.
"""

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tests.core.page_fold import PageFold

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.arguments import ToolSpec
from handspan.core.parties import ANONYMOUS, Asker, ConnectionId, PageView, Principal, ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.thread import Roster, Thread
from handspan.core.toolset import specify
from handspan.schema import SchemaRoom
from handspan_protocol import frames as f
from handspan_protocol.codec import encode, frame_bytes, parse_json
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.ids import CallId, DocumentId, RunId, SessionId, ThreadId
from handspan_protocol.strict_json import ENCODED_NESTING_MAX
from handspan_protocol.tools import Tool, read_tool

Json = Any
COMPILE = SchemaRoom().compile
EPOCH_S = 1_000.0
"""When a test's time begins; not 0, so that no default passes for a moment."""


class CountedIds:
    """Ids that are the same in every run of a test; `drawn` is what was given out, for a replay.

    They have a colon, so that no id that a test lets an agent choose was guessed.
    """

    def __init__(self, claim: Callable[[str | None, "CountedIds"], CallId] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.drawn: list[str] = []
        self._claim = claim

    def new(self, kind: str) -> str:
        self.counts[kind] += 1
        return self._give(f"{kind}:{self.counts[kind]}")

    def secret(self) -> str:
        return self.new("secret")

    def claim_call(self, wish: str | None) -> CallId:
        if self._claim is not None:
            return CallId(self._give(self._claim(wish, self)))
        return CallId(self._give(wish or self.fresh("c")))

    def adopt_call(self, call_id: CallId) -> None:
        """Ids are counted, so none that a store has comes again."""

    def fresh(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"{kind}:{self.counts[kind]}"

    def _give(self, drawn: str) -> str:
        self.drawn.append(drawn)
        return drawn


class DrawnIds:
    """Gives out what was drawn before, in order: the ids of a replay."""

    def __init__(self, drawn: Iterable[str]) -> None:
        self._drawn = iter(list(drawn))

    def new(self, kind: str) -> str:
        return next(self._drawn)

    def secret(self) -> str:
        return next(self._drawn)

    def claim_call(self, wish: str | None) -> CallId:
        return CallId(next(self._drawn))

    def adopt_call(self, call_id: CallId) -> None:
        """Nothing is drawn for it."""


# ---- parts ------------------------------------------------------------------------------------


def tool(name: str, **fields: Json) -> dict[str, Json]:
    """A tool as a page registers it."""
    return {"name": name, "description": f"does {name}", **fields}


def takes(*required: str, **kinds: str) -> dict[str, Json]:
    """The JSON Schema of an object with these properties, by their types."""
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    return {"type": "object", "properties": properties, "required": list(required)}


def spec(name: str, *, invoke: bool = False, **fields: Json) -> ToolSpec:
    """A tool with its compiled judges."""
    read = read_tool(tool(name, **fields))
    assert isinstance(read, Tool), read
    made = specify(read, COMPILE, invoke=invoke)
    assert isinstance(made, ToolSpec), made
    return made


def specs(*made: ToolSpec) -> dict[str, ToolSpec]:
    return {one.name: one for one in made}


def page(session: str, *made: ToolSpec, **fields: Json) -> PageView:
    """A page as a thread sees it."""
    given = {"document": DocumentId(f"doc-{session}"), **fields}
    return PageView(session=SessionId(session), tools=specs(*made), **given)


# ---- the world --------------------------------------------------------------------------------


class World:
    """Machines, and the one queue between them."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        agents: Iterable[str] = ("default",),
        server: Iterable[ToolSpec] = (),
        hooks: Iterable[str] = (),
    ) -> None:
        self.policy = policy or Policy()
        self.now = EPOCH_S
        self.agents = tuple(agents)
        self.server = specs(*server)
        self.hooks = set(hooks)
        self.roster = Roster(self.agents, self.server, self.hooks)
        self.threads: dict[ThreadKey, Thread] = {}
        self.sessions: dict[SessionId, Session] = {}
        self.tabs: list[Tab] = []
        self.calls: dict[tuple[str, str], ThreadKey] = {}
        self.effects: list[tuple[Any, Any]] = []
        """Every effect of every machine, in order, each with whose it is."""
        self.answers: dict[str, Any] = {}
        """What Python's askers were answered, by ticket."""
        self.log: dict[ThreadKey, list[dict[str, Json]]] = {}
        """Every event of every thread, also those that left its ring."""
        self.logs: dict[str, list[dict[str, Json]]] = {}
        """The same by epoch: of threads that were deleted too."""
        self.forgotten: list[tuple[ThreadKey, list[tuple[Any, float, list[Any]]], CountedIds]] = []
        """Of each deleted thread: its key, its history, its ids."""
        self.histories: dict[Any, list[tuple[Any, float, list[Any]]]] = {}
        """Every input of every machine, with its time and its effects: for P15."""
        self.id_sources: dict[Any, CountedIds] = {}
        self.principals: dict[SessionId, Principal] = {}
        self.watchers: list[Callable[[Any, Any, list[Any]], None]] = []
        """Called after each `handle`: (whose, the input, its effects)."""
        self._names = Counter[str]()
        self._queue: deque[tuple[Any, Any, bool]] = deque()
        self._connections = itertools.count(1)

    # ---- machines ------------------------------------------------------------------------------

    def key(self, thread: str | ThreadKey, principal: str = "anonymous") -> ThreadKey:
        return thread if isinstance(thread, ThreadKey) else ThreadKey(principal, ThreadId(thread))

    def thread(self, thread: str | ThreadKey) -> Thread:
        """The thread, made when it is not there."""
        key = self.key(thread)
        if key not in self.threads:
            ids = CountedIds(lambda wish, source: self._claim(key, wish, source))
            self.id_sources[key] = ids
            ids.counts = self._names
            self.threads[key] = Thread(key, self.policy, ids, self.roster)
            self.log[key] = self.logs[self.threads[key].epoch] = []
        return self.threads[key]

    def _claim(self, key: ThreadKey, wish: str | None, ids: CountedIds) -> CallId:
        other = self.calls.get((key.principal, wish or ""))
        elsewhere = (
            other is not None
            and other != key
            and other in self.threads
            and wish in self.threads[other].desk.open_calls
        )
        call_id = ids.fresh("call") if wish is None or elsewhere else wish
        self.calls[key.principal, call_id] = key
        return CallId(call_id)

    def session(self, principal: Principal = ANONYMOUS) -> Session:
        self._names["s"] += 1
        name = SessionId(f"s:{self._names['s']}")
        ids = CountedIds()
        ids.counts = self._names
        self.id_sources[name] = ids
        self.principals[name] = principal
        self.sessions[name] = self.fresh_session(name, principal, ids)
        return self.sessions[name]

    def fresh_session(self, name: SessionId, principal: Principal, ids: Any) -> Session:
        return Session(
            name,
            principal,
            policy=self.policy,
            ids=ids,
            compile_schema=COMPILE,
            server_tools=self.server,
            agents=self.agents,
        )

    def tab(self, name: str = "a", *, threads: Iterable[str] = ("t1",), **hello: Json) -> "Tab":
        """A page that has said hello and opened these threads."""
        tab = Tab(self, name)
        tab.connect(threads=threads, **hello)
        return tab

    # ---- the queue -----------------------------------------------------------------------------

    def tell(self, target: Any, message: Any, *, create: bool = False) -> list[Any]:
        """Give an input to a machine and everything that follows from it; returns its effects."""
        first = len(self.effects)
        self._queue.append((target, message, create))
        while self._queue:
            target, message, create = self._queue.popleft()
            self._handle(target, message, create)
        for tab in self.tabs:
            tab.read_streams()
        return [effect for _, effect in self.effects[first:]]

    def _handle(self, target: Any, message: Any, create: bool) -> None:
        if isinstance(target, ThreadKey):
            if create:
                self.thread(target)
            if target not in self.threads:
                self._nobody_home(message)
                return
            machine: Any = self.threads[target]
            head = machine.head
        elif target in self.sessions:
            machine = self.sessions[target]
        else:
            return
        effects = machine.handle(message, self.now)
        self.histories.setdefault(target, []).append((message, self.now, plain(effects)))
        if isinstance(target, ThreadKey):
            from_ring = machine.log.read(head, 1 << 62)
            assert from_ring is not None, "one input made more events than the ring holds"
            self.log[target] += [
                parse_json(event, nesting=ENCODED_NESTING_MAX) for event in from_ring
            ]
        for watch in self.watchers:
            watch(target, message, effects)
        for effect in effects:
            self.effects.append((target, effect))
            _CARRY_OUT.get(type(effect), _ignore)(self, target, effect)

    def _nobody_home(self, message: Any) -> None:
        asker = getattr(message, "asker", None)
        if isinstance(message, i.AbortRequested):
            self._answer(asker, {"aborted": False}, None)
        elif asker is not None:
            self._answer(asker, None, PeerError(CommandCode.UNKNOWN_THREAD, "no such thread"))

    def _answer(self, asker: Asker, result: Json, error: PeerError | None) -> None:
        if asker.session is not None:
            self._queue.append((asker.session, s.Answered(asker.ticket, result, error), False))
        else:
            self.answers[asker.ticket] = error.code.value if error is not None else result

    # ---- effects -------------------------------------------------------------------------------

    def _reply(self, _: Any, effect: e.Reply) -> None:
        self._answer(effect.asker, effect.result, effect.error)

    def _tell_session(self, _: Any, effect: e.TellSession) -> None:
        self._queue.append((effect.session, effect.message, False))

    def _tell_thread(self, _: Any, effect: e.TellThread) -> None:
        self._queue.append((effect.key, effect.message, effect.create))

    def _tell_call(self, session: SessionId, effect: e.TellCall) -> None:
        key = self.calls.get((self.sessions[session].principal.id, effect.call_id))
        if key is not None and key in self.threads:
            self._queue.append((key, effect.message, False))
        elif effect.ticket is not None:
            error = PeerError(CommandCode.UNKNOWN_CALL, "no such call")
            self._queue.append((session, s.Answered(effect.ticket, None, error), False))

    def _abort_anywhere(self, session: SessionId, effect: e.AbortAnywhere) -> None:
        message = i.AbortRequested(effect.asker, effect.run_id)
        for key, thread in self.threads.items():
            mine = key.principal == self.sessions[session].principal.id
            if mine and thread.runs.has(effect.run_id):
                self._queue.append((key, message, False))
                return
        self._nobody_home(message)

    def _list_threads(self, session: SessionId, effect: e.ListThreads) -> None:
        rows = [{"threadId": key.thread_id} for key in self.threads]
        self._queue.append((session, s.Answered(effect.ticket, {"threads": rows}), False))

    def _delete_thread(self, session: SessionId, effect: e.DeleteThread) -> None:
        key = ThreadKey(self.sessions[session].principal.id, effect.thread_id)
        if key not in self.threads:
            error = PeerError(CommandCode.UNKNOWN_THREAD, "no such thread")
            self._queue.append((session, s.Answered(effect.ticket, None, error), False))
            return
        self._queue.append((key, i.Deleted(), False))
        for other in self.sessions.values():
            if other.principal.id == key.principal:
                self._queue.append((other.id, s.ThreadGone(key), False))
        self._queue.append((session, s.Answered(effect.ticket, {}), False))

    def _thread_over(self, key: ThreadKey, _: e.ThreadOver) -> None:
        if self.threads.pop(key, None) is not None:
            self.forgotten.append((key, self.histories.pop(key), self.id_sources.pop(key)))

    def _session_over(self, session: SessionId, _: e.SessionOver) -> None:
        self.sessions.pop(session, None)

    def _to_tab(self, session: SessionId, effect: Any) -> None:
        live = self.sessions[session].connection
        for tab in self.tabs:
            closes = isinstance(effect, e.CloseSocket) and effect.connection == tab.connection
            meant = not isinstance(effect, e.CloseSocket) and tab.connection == live
            if tab.connection is not None and (closes or meant):
                tab.take(effect)

    # ---- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        machines: list[Any] = [*self.threads.values(), *self.sessions.values()]
        times = [at for machine in machines if (at := machine.next_deadline()) is not None]
        return min(times, default=None)

    def wait(self, seconds: float) -> None:
        """Let time pass; every deadline on the way is told at its own moment."""
        end = self.now + seconds
        for _ in range(10_000):
            due = self.next_deadline()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self._deadlines()
        else:
            raise AssertionError("a deadline that has passed stays where it is")
        self.now = end

    def _deadlines(self) -> None:
        for target, machine in [*self.threads.items(), *self.sessions.items()]:
            at = machine.next_deadline()
            if at is not None and at <= self.now:
                self.tell(target, i.DeadlinePassed())

    # ---- agents, as the driver's workers speak --------------------------------------------------

    def depth(self, run: str) -> int:
        return self.running(run).depth

    def running(self, run: str) -> Any:
        """The run, or sub-run, of this id."""
        return self.thread(self.home(run)).runs.live.get(RunId(run))

    def home(self, run: str) -> ThreadKey:
        for key, thread in self.threads.items():
            if thread.runs.live.get(RunId(run)) is not None:
                return key
        raise AssertionError(f"{run} is not under way")

    def text(self, run: str, text: str) -> list[Any]:
        return self.tell(self.home(run), i.TextSaid(RunId(run), self.depth(run), (text,)))

    def think(self, run: str, text: str) -> list[Any]:
        return self.tell(self.home(run), i.ReasoningSaid(RunId(run), self.depth(run), text))

    def event(self, run: str, kind: str, **fields: Json) -> list[Any]:
        said = i.EventSaid(RunId(run), self.depth(run), {"type": kind, **fields})
        return self.tell(self.home(run), said)

    def call(self, run: str, name: str, args: Json = None, **more: Any) -> list[Any]:
        raw = args if isinstance(args, str) else json.dumps({} if args is None else args)
        said = i.CallSaid(run_id=RunId(run), depth=self.depth(run), name=name, raw=raw, **more)
        return self.tell(self.home(run), said)

    def hand_over(self, run: str, agent: str) -> list[Any]:
        return self.tell(self.home(run), i.HandoffSaid(RunId(run), self.depth(run), agent))

    def delegate(
        self,
        run: str,
        agent: str = "default",
        text: str = "do it",
        sub: str = "",
        **more: Any,
    ) -> str:
        """Start a sub-run; returns its id, which is its ticket too."""
        name = sub or f"sub-{sum(isinstance(x, e.StartStep) for _, x in self.effects)}"
        said = i.DelegateSaid(
            run_id=RunId(run),
            depth=self.depth(run),
            sub_id=RunId(name),
            agent=agent,
            text=text,
            ticket=name,
            **more,
        )
        self.tell(self.home(run), said)
        return name

    def end(self, run: str, finish_reason: str | None = None, **more: Any) -> list[Any]:
        ended = i.StepEnded(RunId(run), self.depth(run), finish_reason, **more)
        return self.tell(self.home(run), ended)

    def fail(self, run: str, message: str = "boom", code: str = "agent_error") -> list[Any]:
        return self.tell(self.home(run), i.StepFailed(RunId(run), self.depth(run), code, message))

    def returned(self, call_id: str, value: Json = None, thread: str = "t1") -> list[Any]:
        return self.tell(self.key(thread), i.ToolReturned(CallId(call_id), i.Answer(value=value)))

    def judged(self, call: str, verdict: Any, reason: str | None = None) -> list[Any]:
        return self.tell(self.key("t1"), i.CallJudged(CallId(call), verdict, reason))

    def judge(self, run: str, stop: bool) -> list[Any]:
        return self.tell(self.home(run), i.StopsJudged(RunId(run), self.depth(run), stop))

    def start(self, thread: str = "t1", message: str | None = "hi", **fields: Any) -> str:
        """A run from Python; returns its id."""
        ticket = f"ticket-{len(self.answers)}"
        told = None if message is None else {"role": "user", "content": message}
        request = i.RunRequested(asker=Asker(None, ticket), message=told, **fields)
        self.tell(self.key(thread), request, create=True)
        answer = self.answers[ticket]
        return answer["runId"] if isinstance(answer, dict) else answer

    def abort(self, thread: str = "t1", run: str | None = None) -> Json:
        ticket = f"ticket-{len(self.answers)}"
        asked = i.AbortRequested(Asker(None, ticket), None if run is None else RunId(run))
        self.tell(self.key(thread), asked)
        return self.answers[ticket]

    # ---- looking -------------------------------------------------------------------------------

    def events(self, thread: str = "t1", *kinds: str) -> list[dict[str, Json]]:
        """The thread's events so far, of these types (none: of all)."""
        return [ev for ev in self.log[self.key(thread)] if not kinds or ev["type"] in kinds]

    def kinds(self, thread: str = "t1") -> list[str]:
        """Types in order; a handspan.call is told by its state."""
        told = {"CUSTOM": lambda ev: f"{ev['name'][9:]} {ev['value'].get('state', '')}".strip()}
        return [told.get(ev["type"], lambda ev: ev["type"])(ev) for ev in self.events(thread)]

    def messages(self, thread: str = "t1") -> list[dict[str, Json]]:
        return parse_json(encode(list(self.thread(thread).space.transcript.view())))

    def roles(self, thread: str = "t1") -> list[str]:
        return [message["role"] for message in self.messages(thread)]

    def results(self, thread: str = "t1") -> list[Json]:
        """What history says of each call, in order."""
        return [m["content"] for m in self.messages(thread) if m["role"] == "tool"]

    def outcomes(self, thread: str = "t1") -> list[str]:
        """Of each result, in order: its code, or its outcome."""
        told = [m["metadata"]["handspan"] for m in self.messages(thread) if m["role"] == "tool"]
        return [one.get("code", one["outcome"]) for one in told]

    def last_run(self, thread: str = "t1") -> Json:
        return self.thread(thread).runs.endings.last_run

    def reason(self, thread: str = "t1") -> str:
        """How the last run ended: its reason, or the code of its error."""
        last = self.last_run(thread)
        return last["result"]["reason"] if "result" in last else last["error"]["code"]

    def steps(self, run: str | None = None) -> list[e.StartStep]:
        """Every step that was ordered (of this run)."""
        found = [x for _, x in self.effects if isinstance(x, e.StartStep)]
        return [x for x in found if run in (None, x.run_id)]

    def of(self, kind: type) -> list[Any]:
        """Every effect of this type so far."""
        return [effect for _, effect in self.effects if isinstance(effect, kind)]


def _ignore(*_: Any) -> None:
    """Agents, server tools and stores are the test's own business."""


_CARRY_OUT: Mapping[type, Callable[..., None]] = {
    e.Reply: World._reply,
    e.TellSession: World._tell_session,
    e.ThreadOver: World._thread_over,
    e.TellThread: World._tell_thread,
    e.TellCall: World._tell_call,
    e.AbortAnywhere: World._abort_anywhere,
    e.ListThreads: World._list_threads,
    e.DeleteThread: World._delete_thread,
    e.SessionOver: World._session_over,
    e.SendFrame: World._to_tab,
    e.SendCall: World._to_tab,
    e.DropCall: World._to_tab,
    e.CloseSocket: World._to_tab,
    e.OpenStream: World._to_tab,
    e.CloseStream: World._to_tab,
}


# ---- a page -----------------------------------------------------------------------------------


class Tab:
    """A page: one document at a time, and a socket that a test takes away."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.document = DocumentId(f"{name}.1")
        self.claim: f.SessionClaim | None = None
        self.connection: ConnectionId | None = None
        self.frames: list[Any] = []
        """Control frames in the order they came, over all sockets."""
        self.calls: list[f.ToolCall] = []
        self.replies: dict[str, f.Reply] = {}
        self.journal: dict[tuple[str, int], str] = {}
        """Unsettled calls as the page knows them: received, started, done."""
        self.folds: dict[str, PageFold] = {}
        """What its streams add up to, by thread."""
        self.closed: list[int] = []
        self._cursors: dict[str, tuple[str, int]] = {}
        self._commands = itertools.count(1)
        world.tabs.append(self)

    @property
    def id(self) -> SessionId:
        assert self.claim is not None, "hello first"
        return self.claim.id

    @property
    def session(self) -> Session:
        return self.world.sessions[self.id]

    @property
    def tool_names(self) -> list[str]:
        """What its session has registered."""
        session = self.world.sessions.get(self.id)
        return list(session.tools.current) if session is not None else []

    @property
    def welcome(self) -> f.Welcome:
        return [x for x in self.frames if isinstance(x, f.Welcome)][-1]

    # ---- sockets -------------------------------------------------------------------------------

    def connect(self, *, threads: Iterable[str] = (), journal: Any = None, **hello: Json) -> None:
        """Say hello on a new socket; resumes when the session is known, as `Greeter` does."""
        world = self.world
        frame = f.Hello(
            protocol=1,
            document_id=self.document,
            session=self.claim,
            threads=tuple(self._wish(thread) for thread in threads),
            calls=tuple(self._journal() if journal is None else journal),
            **hello,
        )
        session = world.sessions.get(self.claim.id) if self.claim else None
        refusal: Any = None
        if session is None or self.claim is None or not session.knows(self.claim.secret):
            refusal = "unknown_session" if self.claim else None
            session = world.session()
        connection = ConnectionId(next(world._connections))
        self.connection, old = connection, self.connection
        world.tell(session.id, s.Greeted(connection, frame, refusal))
        if old is not None:
            world.tell(session.id, s.SocketLost(old))
        self.read_streams()

    def _wish(self, thread: str) -> f.ThreadWish:
        epoch, offset = self._cursors.get(thread, (None, None))
        return f.ThreadWish(thread_id=ThreadId(thread), epoch=epoch, offset=offset)

    def _journal(self) -> Iterable[f.JournalEntry]:
        for (call_id, attempt), state in self.journal.items():
            told: Any = state
            yield f.JournalEntry(call_id=CallId(call_id), attempt=attempt, state=told)

    def drop(self) -> None:
        """The socket is gone, the document lives."""
        connection, self.connection = self.connection, None
        self.world.tell(self.id, s.SocketLost(connection))

    def back(self, **hello: Json) -> None:
        """The same document on a new socket."""
        hello.setdefault("threads", list(self._cursors))
        self.connect(**hello)

    def reload(self, **hello: Json) -> None:
        """A new document of the same session: it knows nothing of the old one."""
        if self.connection is not None:
            self.drop()
        number = int(self.document.rsplit(".")[-1]) + 1
        self.document = DocumentId(f"{self.name}.{number}")
        threads = hello.pop("threads", list(self._cursors))
        self.journal, self._cursors, self.folds = {}, {}, {}
        self.connect(threads=threads, **hello)

    def bye(self) -> None:
        self.notice(f.Bye())
        self.connection = None

    # ---- what comes -----------------------------------------------------------------------------

    def take(self, effect: Any) -> None:
        match effect:
            case e.SendFrame(frame):
                self._take_frame(frame)
            case e.SendCall(frame, after):
                self.read_streams()
                key = self.world.key(frame.thread_id)
                assert after <= self.world.threads[key].head
                self.calls.append(frame)
                self.journal[frame.call_id, frame.attempt] = "received"
            case e.DropCall(call_id, cancel):
                for key in [key for key in self.journal if key[0] == call_id]:
                    del self.journal[key]
                if cancel is not None:
                    self.frames.append(cancel)
            case e.CloseSocket(_, code, _):
                self.connection = None
                self.closed.append(code)
            case e.OpenStream():
                self._open(effect)
            case e.CloseStream(thread_id):
                self.folds.pop(thread_id, None)
                self._cursors.pop(thread_id, None)

    def _take_frame(self, frame: Any) -> None:
        self.frames.append(frame)
        match frame:
            case f.Welcome():
                self.claim = f.SessionClaim(id=frame.session.id, secret=frame.session.secret)
            case f.Reply():
                self.replies.setdefault(frame.id, frame)
            case f.ToolCancel():
                self.journal.pop((frame.call_id, frame.attempt), None)

    def _open(self, effect: e.OpenStream) -> None:
        thread = self.world.thread(effect.key)
        name = effect.key.thread_id
        same = effect.epoch == thread.epoch and effect.offset is not None
        if same and thread.space.log.reaches(effect.offset or 0) and name in self.folds:
            self._cursors[name] = (thread.epoch, effect.offset or 0)
            return
        shown = parse_json(thread.snapshot(self.session.id), nesting=ENCODED_NESTING_MAX)
        self.folds[name] = PageFold.of_snapshot(shown)
        self._cursors[name] = (shown["epoch"], shown["offset"])

    def read_streams(self) -> None:
        """Take what the logs have behind the cursors."""
        if self.connection is None:
            return
        for name, (epoch, offset) in list(self._cursors.items()):
            thread = self.world.threads.get(self.world.key(name))
            if thread is None or name not in self.folds or offset == thread.head:
                continue
            assert epoch == thread.epoch
            events = thread.log.read(offset, 1 << 62)
            if events is None:
                self._open(e.OpenStream(self.world.key(name), None, None))
                continue
            for event in events:
                self.folds[name].apply(parse_json(event))
            self._cursors[name] = (epoch, thread.head)

    # ---- what it says ---------------------------------------------------------------------------

    def command(self, kind: type, **fields: Any) -> str:
        """Send a command; returns its id."""
        name = fields.pop("id", None) or str(next(self._commands))
        self.frame(kind(id=name, **fields))
        return name

    def frame(self, frame: Any, *, allowed: bool = True) -> list[Any]:
        assert self.connection is not None, f"{self.name} has no socket"
        return self.world.tell(self.id, s.FrameReceived(self.connection, frame, allowed))

    notice = frame

    def ask(self, kind: type, **fields: Any) -> Json:
        """The answer to a command: its result, its error's code, or None while it is at work."""
        return self.answer(self.command(kind, **fields))

    def answer(self, command: str) -> Json:
        reply = self.replies.get(command)
        if reply is None:
            return None
        return reply.error.code if reply.error is not None else reply.result

    def run(self, message: Json = "hi", thread: str = "t1", **fields: Any) -> str:
        """Start a run; returns its id (or the code of the refusal)."""
        given = {"thread_id": ThreadId(thread), "message": message, **fields}
        answer = self.ask(f.RunStart, **given)
        return answer["runId"] if isinstance(answer, dict) else answer

    def invoke(self, name: str, args: Json = None, thread: str = "t1", **fields: Any) -> str:
        """Send a `tool.invoke`; returns the command's id."""
        given = {"thread_id": ThreadId(thread), "name": name, "args": args, **fields}
        return self.command(f.ToolInvoke, **given)

    def abort(self, run: str | None = None, thread: str | None = None) -> Json:
        return self.ask(f.RunAbort, run_id=run, thread_id=thread)

    def started(self, call: f.ToolCall, attempt: int | None = None) -> Json:
        attempt = attempt or call.attempt
        status = self.ask(f.ToolStarted, call_id=call.call_id, attempt=attempt)
        if status == {"status": "go"}:
            self.journal[call.call_id, attempt] = "started"
        return status["status"] if isinstance(status, dict) else status

    def result(self, call: f.ToolCall, value: Json = None, **fields: Any) -> Json:
        given: dict[str, Any] = {"call_id": call.call_id, "attempt": call.attempt}
        if not fields.keys() & {"error", "content"}:
            given["result"] = value
        self.journal.pop((call.call_id, fields.get("attempt", call.attempt)), None)
        status = self.ask(f.ToolResult, **(given | fields))
        return status["status"] if isinstance(status, dict) else status

    def error(
        self, call: f.ToolCall, message: str = "broken", code: str | None = None, **fields: Any
    ) -> Json:
        return self.result(call, error=f.PageError(message=message, code=code), **fields)

    def progress(self, call: f.ToolCall, progress: float, **fields: Any) -> list[Any]:
        given = {"call_id": call.call_id, "attempt": call.attempt, **fields}
        return self.frame(f.ToolProgress(progress=progress, **given))

    def approve(self, question: f.ApprovalRequest, approved: bool = True, **fields: Any) -> Json:
        given = {"call_id": question.call_id, "digest": question.digest, **fields}
        status = self.ask(f.ApprovalAnswer, approved=approved, **given)
        return status["status"] if isinstance(status, dict) else status

    def tools(self, *made: Json) -> Json:
        """Register exactly these."""
        return self.ask(f.ToolsUpdate, set=made)

    def open(self, thread: str, **fields: Any) -> Json:
        return self.ask(f.ThreadOpen, thread_id=ThreadId(thread), **fields)

    def close(self, thread: str) -> Json:
        return self.ask(f.ThreadClose, thread_id=ThreadId(thread))

    # ---- looking --------------------------------------------------------------------------------

    def call(self, name: str) -> f.ToolCall:
        """The newest call of this tool that came."""
        return [call for call in self.calls if name in (call.name, call.tool_name)][-1]

    @property
    def names(self) -> list[str]:
        """The names of the calls that came, in order."""
        return [call.tool_name or call.name for call in self.calls]

    @property
    def questions(self) -> list[f.ApprovalRequest]:
        return [x for x in self.frames if isinstance(x, f.ApprovalRequest)]

    @property
    def cancels(self) -> list[tuple[str, str]]:
        """Each cancel that came: (call id, reason)."""
        return [(x.call_id, x.reason) for x in self.frames if isinstance(x, f.ToolCancel)]


def plain(effects: Iterable[Any]) -> list[Any]:
    """Effects in a form that can be compared later: an error by what it says, messages as text."""
    return [_plain(effect) for effect in effects]


def _plain(effect: Any) -> Any:
    match effect:
        case e.Reply(asker, _, PeerError() as error):
            return asker, error.code, error.message, error.path
        case e.Broke(error):
            return type(error), str(error)
        case e.StartStep() | e.Suggest() | e.GiveResult():
            return replace(effect, messages=encode(list(effect.messages)))
    return effect


def picture(thread: Thread, session: str = "nobody") -> dict[str, Json]:
    """A thread's snapshot as a page reads it."""
    return parse_json(frame_bytes(thread.picture(SessionId(session))))
