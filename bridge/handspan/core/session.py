"""One page's identity, outliving its sockets. `handle(input, now)` is all there is to it.

Owns the hello and the resume, the page's tools and context, which threads it reads, the calls it
holds, and the answers to its commands. Threads are reached by messages only (`TellThread`,
`TellCall`) and answer by messages (`Answered`, `CallOffered`, ...). Deliberately knows no socket
(only which connection is the live one), no clock and no thread's inside.

A session without a socket waits: after `page_grace` its document counts as gone, after
`resume_window` the session ends. *Source:* protocol.md 2 and 3, behaviour.md 5.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from handspan_protocol import frames as f
from handspan_protocol.codec import encode
from handspan_protocol.errors import CloseCode, CommandCode, PeerError
from handspan_protocol.ids import DocumentId, SessionId, ThreadId
from handspan_protocol.version import PROTOCOL_VERSION

from . import effects as e
from . import inputs as i
from . import session_inputs as s
from .arguments import Compile, ToolSpec
from .commands import COMMANDS
from .context import ContextSet
from .entries import Change, Entry
from .greeting import JOURNAL_READ, sort_wishes
from .holding import Holding
from .keys import Secrets
from .parties import ConnectionId, IdSource, PageView, Principal, ThreadKey
from .policy import Policy
from .replies import Replies
from .session_inputs import SessionInput
from .session_keeping import KnownTools, SessionKeeping, load
from .toolset import ToolSet

Json = Any


class Session:
    """The machine. Only the driver calls `handle`."""

    def __init__(
        self,
        session_id: SessionId,
        principal: Principal,
        *,
        origin: str | None = None,
        policy: Policy,
        ids: IdSource,
        compile_schema: Compile,
        server_tools: Mapping[str, ToolSpec],
        agents: Collection[str],
    ) -> None:
        self.id = session_id
        self.principal = principal
        self.origin = origin
        """Where its page came from; a resume must come from there too."""
        self.document = DocumentId("")
        self.connection: ConnectionId | None = None
        """The live one; frames of another are not heard."""
        self.tools = ToolSet(policy, compile_schema, server_tools)
        self.context = ContextSet(policy.context_bytes)
        self.open: dict[ThreadId, None] = {}
        """Threads whose stream the page reads."""
        self.holding = Holding(policy.open_calls_per_session)
        self.running: Counter[ThreadKey] = Counter()
        self.queued: Counter[ThreadKey] = Counter()
        self.had_open: frozenset[ThreadId] = frozenset()
        """What its page read when the process ended."""
        self.expected: set[ThreadKey] = set()
        """Threads that count on its page since a restart of the process."""
        self.over = False
        self.policy = policy
        self.ids = ids
        self._agents = agents
        self._compile = compile_schema
        self.secrets = Secrets()
        self.replies = Replies(policy.replies, policy.replies_bytes)
        self.keeping: SessionKeeping | None = None
        """What a store has of it; None: it is kept nowhere."""
        self._visible, self._seen_at = True, 0.0
        self._lost_at: float | None = None
        self._gone = self.draining = False
        self._now = 0.0
        self._effects: list[e.SessionEffect] = []

    # ---- the machine -------------------------------------------------------------------------

    def handle(self, event: SessionInput, now: float) -> list[e.SessionEffect]:
        """Take one input at `now` (monotonic seconds); returns what must be done, in order."""
        self._now = now
        effects: list[e.SessionEffect] = []
        self._effects = effects
        if not self.over:
            _HANDLERS[type(event)](self, event)
        return effects

    def next_deadline(self) -> float | None:
        """When DeadlinePassed is due."""
        if self._lost_at is None or self.over:
            return None
        end = self._lost_at + self.policy.resume_window
        return end if self._gone else min(end, self._lost_at + self.policy.page_grace)

    def keep(self) -> None:
        """From now on it is kept."""
        self.keeping = SessionKeeping(self)

    def restore(
        self, entries: Iterable[Entry], now: float, known: KnownTools | None = None
    ) -> None:
        """Be what a store has of it: a session whose page has just lost its socket."""
        load(self, entries, self._compile, {} if known is None else known)
        self.keeping = SessionKeeping(self)
        self._lost_at = self._seen_at = now

    def changes(self) -> list[Change]:
        """What must be written so that everything up to here is kept."""
        return self.keeping.changes() if self.keeping is not None else []

    def knows(self, secret: str) -> bool:
        """Whether this is one of the good secrets; in constant time."""
        return self.secrets.good(secret)

    def view(self) -> PageView:
        """The session as its threads see it."""
        return PageView(
            session=self.id,
            document=self.document,
            tools=self.tools.current,
            revision=self.tools.revision,
            context=self.context.items,
            attached=self.connection is not None,
            seen_at=self._seen_at,
            visible=self._visible,
        )

    # ---- opening and losing the socket -------------------------------------------------------

    def _greeted(self, event: s.Greeted) -> None:
        hello, before = event.hello, self.document
        resumed = before != ""
        if self.connection is not None:
            self.do(e.CloseSocket(self.connection, CloseCode.SUPERSEDED, "superseded"))
        self.connection, self.document = event.connection, hello.document_id
        self.principal = event.principal or self.principal
        self._lost_at, self._gone = None, False
        self._look(hello.visible is not False)
        verdict = f.ToolsVerdict()
        if hello.tools is not None:
            verdict = self.tools.replace(hello.tools)
        wishes, refused = sort_wishes(event, self.policy.open_threads)
        self._welcome(event, resumed, verdict, [*wishes.values()], refused)
        if hello.context is not None:
            self.take_context(hello.context)
        self._reopen(wishes, (hello.calls or ())[:JOURNAL_READ], before)

    def take_context(self, items: tuple[f.ContextItem, ...]) -> bool:
        """Context that came along with something else; too much of it costs only itself."""
        try:
            self.context.replace(items)
        except PeerError as problem:
            self._send(f.Error(code=problem.code, message=problem.message, retryable=False))
            return False
        return True

    def _welcome(
        self,
        event: s.Greeted,
        resumed: bool,
        verdict: f.ToolsVerdict,
        wishes: list[f.ThreadWish],
        refused: list[f.ThreadOpened],
    ) -> None:
        secret = self.ids.secret()
        claimed = event.hello.session.secret if resumed and event.hello.session else None
        self.secrets.rotate(secret, claimed)
        self._send(
            f.Welcome(
                protocol=PROTOCOL_VERSION,
                session=f.SessionGrant(id=self.id, secret=secret),
                resumed=resumed,
                reason=event.refusal,
                agents=tuple(self._agents),
                limits=self.policy.told(),
                heartbeat_ms=round(self.policy.heartbeat * 1000),
                threads=(*(f.ThreadOpened(thread_id=w.thread_id) for w in wishes), *refused),
                tools=verdict,
            )
        )

    def _reopen(
        self,
        wishes: Mapping[ThreadId, f.ThreadWish],
        journal: tuple[f.JournalEntry, ...],
        before: DocumentId,
    ) -> None:
        related, was_open = sorted(self._related()), set(self.open)
        left, self.expected = was_open | {key.thread_id for key in self.expected}, set()
        self.open = dict.fromkeys(wishes)
        for key in related:
            self.do(e.TellThread(key, i.PageReturned(self.view(), journal, before)))
        for wish in wishes.values():
            self.do(e.OpenStream(self.key(wish.thread_id), wish.epoch, wish.offset))
            if wish.thread_id not in was_open:
                message = i.PageOpened(self.view())
                self.do(e.TellThread(self.key(wish.thread_id), message, create=True))
        for thread_id in sorted(left - set(wishes)):
            self.do(e.TellThread(self.key(thread_id), i.PageClosed(self.id)))
        for cancel in self.holding.unknown(journal):
            self._send(cancel)

    def _socket_lost(self, event: s.SocketLost) -> None:
        if event.connection != self.connection:
            return
        self.connection = None
        self._lost_at = self._now
        self.tell_threads()

    def _deadline_passed(self, _: i.DeadlinePassed) -> None:
        if self._lost_at is None:
            return
        if self._now >= self._lost_at + self.policy.resume_window:
            self._end(self._lost_at)
        elif not self._gone and self._now >= self._lost_at + self.policy.page_grace:
            self._gone = True
            self._tell_gone(self._lost_at, ended=False)

    def _tell_gone(self, since: float, *, ended: bool) -> None:
        for key in sorted(self._related()):
            self.do(e.TellThread(key, i.DocumentGone(self.id, since, ended)))

    def _end(self, since: float) -> None:
        """The session is no more: its threads are told, its socket is closed."""
        self._tell_gone(since, ended=True)
        if self.connection is not None:
            self.do(e.CloseSocket(self.connection, CloseCode.NORMAL, "bye"))
        self.over = True
        self.do(e.SessionOver())

    # ---- frames ------------------------------------------------------------------------------

    def _frame_received(self, event: s.FrameReceived) -> None:
        if event.connection != self.connection:
            return
        frame = event.frame
        if isinstance(frame, f.ToolProgress | f.Visibility | f.Pong | f.Bye):
            _NOTICES[type(frame)](self, frame)
            return
        known = self.replies.begin(self.document, frame)
        if known == "new":
            self._command(frame, event.allowed)
        elif known == "other_body":
            message = "this id was used for another command"
            error = f.WireError(code=CommandCode.DUPLICATE_ID, message=message)
            self._send(f.Reply(id=frame.id, error=error))
        elif isinstance(known, f.Reply):
            self._send(known)

    def _command(self, frame: Any, allowed: bool) -> None:
        if not allowed:
            self._refuse(frame.id, PeerError(CommandCode.FORBIDDEN, "not allowed"))
            return
        try:
            COMMANDS[type(frame)](self, frame)
        except PeerError as problem:
            self._refuse(frame.id, problem)

    # ---- notices -----------------------------------------------------------------------------

    def _tool_progress(self, frame: f.ToolProgress) -> None:
        message = i.ProgressMade(
            self.id, frame.call_id, frame.attempt, frame.progress, frame.total, frame.message
        )
        self.do(e.TellCall(frame.call_id, message, None))

    def _visibility(self, frame: f.Visibility) -> None:
        self._look(frame.visible)
        self.tell_threads()

    def _pong(self, _: f.Pong) -> None:
        """Heard; that is all a pong is for."""

    def _bye(self, _: f.Bye) -> None:
        self._end(self._now)

    # ---- what threads say --------------------------------------------------------------------

    def _answered(self, event: s.Answered) -> None:
        self._finish(event.ticket, event.result, event.error)

    def _call_offered(self, event: s.CallOffered) -> None:
        frame = event.frame
        if not self.holding.take(event.key, frame.call_id, frame.attempt):
            refused = i.CallRefused(self.id, frame.call_id, frame.attempt)
            self.do(e.TellThread(event.key, refused))
        elif self.connection is not None:
            self.do(e.SendCall(frame, event.after))

    def _call_taken(self, event: s.CallTaken) -> None:
        if self.holding.give_up(event.call_id, event.cancel):
            self.do(e.DropCall(event.call_id, event.cancel))

    def _run_counted(self, event: s.RunCounted) -> None:
        self.running[event.key] += event.running
        self.queued[event.key] += event.queued
        self.running, self.queued = +self.running, +self.queued

    def _page_expected(self, event: s.PageExpected) -> None:
        self.expected.add(event.key)

    def _thread_gone(self, event: s.ThreadGone) -> None:
        if event.key.thread_id in self.open:
            del self.open[event.key.thread_id]
            self.do(e.CloseStream(event.key.thread_id))

    # ---- parts -------------------------------------------------------------------------------

    def do(self, effect: e.SessionEffect) -> None:
        self._effects.append(effect)

    def _send(self, frame: f.ServerFrame) -> None:
        if self.connection is not None:
            self.do(e.SendFrame(frame))

    def reply(self, command: str, result: Json) -> None:
        self._finish(self.ticket(command), result, None)

    def _refuse(self, command: str, problem: PeerError) -> None:
        self._finish(self.ticket(command), None, problem)

    def ticket(self, command: str) -> str:
        """Names a command among those of every document that the session has had."""
        return f"{self.document} {command}"

    def _finish(self, ticket: str, result: Json, problem: PeerError | None) -> None:
        """Keep the reply for the document that asked; a later document has asked something else."""
        document, _, command = ticket.partition(" ")
        if problem is None:
            reply, size = f.Reply(id=command, result=result), len(encode(result))
        else:
            error = f.WireError(code=problem.code, message=problem.message, path=problem.path)
            reply, size = f.Reply(id=command, error=error), len(problem.message) + 64
        kept = self.replies.finish(DocumentId(document), reply, size)
        if kept and document == self.document:
            self._send(reply)

    def key(self, thread_id: ThreadId) -> ThreadKey:
        return ThreadKey(self.principal.id, thread_id)

    def _related(self) -> set[ThreadKey]:
        """Threads that must hear of this page: it reads them, holds calls or started runs there."""
        held = {key for key, _ in self.holding.calls.values()}
        started = self.running.keys() | self.queued.keys()
        return {self.key(thread_id) for thread_id in self.open} | held | started | self.expected

    def tell_threads(self) -> None:
        message = i.PageChanged(self.view())
        for key in sorted(self._related()):
            self.do(e.TellThread(key, message))

    def _look(self, visible: bool) -> None:
        self._seen_at = self._now if visible or self._visible else self._seen_at
        self._visible = visible

    def check_room(self, thread_id: ThreadId) -> None:
        if thread_id not in self.open and len(self.open) >= self.policy.open_threads:
            raise PeerError(CommandCode.LIMIT, f"over {self.policy.open_threads} open threads")

    def open_thread(self, thread_id: ThreadId, epoch: str | None, offset: int | None) -> None:
        self.open[thread_id] = None
        key = self.key(thread_id)
        self.do(e.OpenStream(key, epoch, offset))
        self.do(e.TellThread(key, i.PageOpened(self.view()), create=True))


_HANDLERS: Final[Mapping[type, Callable[[Session, Any], None]]] = {
    s.Greeted: Session._greeted,
    s.FrameReceived: Session._frame_received,
    s.SocketLost: Session._socket_lost,
    s.Answered: Session._answered,
    s.CallOffered: Session._call_offered,
    s.CallTaken: Session._call_taken,
    s.ApprovalAsked: lambda session, event: session._send(event.frame),
    s.RunCounted: Session._run_counted,
    s.PageExpected: Session._page_expected,
    s.ThreadGone: Session._thread_gone,
    s.Draining: lambda session, _: setattr(session, "draining", True),
    i.DeadlinePassed: Session._deadline_passed,
}

_NOTICES: Final[Mapping[type, Callable[[Session, Any], None]]] = {
    f.ToolProgress: Session._tool_progress,
    f.Visibility: Session._visibility,
    f.Pong: Session._pong,
    f.Bye: Session._bye,
}
