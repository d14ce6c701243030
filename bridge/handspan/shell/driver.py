"""The driver: it alone calls the machines, and it performs what they order.

Owns the queue of inputs (so that nothing calls back into a machine while it runs), the timers, and
each effect's carrying out, in order. What a socket brings comes in through `greeter`; agents and
server tools run in a `Crew`. Deliberately decides nothing: every rule is in the core.

Sockets read the threads' logs by themselves. The driver only notes which logs have grown, and
wakes their readers once, at the end of the loop's tick (`tick`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.arguments import Compile
from handspan.core.entries import Entry
from handspan.core.parties import Asker, Principal, ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.session_keeping import KnownTools, owner_of
from handspan.core.thread import Roster, Thread
from handspan.ports import Clock, Handle, Store
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.ids import SessionId

from . import lifetime, observers
from .asking import Asking
from .hooks import Hooks
from .hub import THREADS_LISTED, Hub, listed
from .ids import Ids, SessionIds
from .ledger import Ledger
from .observers import Observer
from .outlets import Outlets
from .socket import where
from .tally import Tally
from .tick import Tick
from .timers import Timers
from .tools import ServerTool
from .waiters import Waiters
from .workers import Workers

Json = Any

SWEEP_S: Final = 60.0
"""How often idle threads are looked for, at most."""

_LOG = logging.getLogger("handspan.driver")


class Driver:
    """One bridge at work on one loop."""

    def __init__(
        self,
        *,
        policy: Policy,
        clock: Clock,
        ids: Ids,
        store: Store,
        compile_schema: Compile,
        agents: Mapping[str, Any],
        tools: Mapping[str, ServerTool],
        specs: Mapping[str, Any],
        hooks: Hooks,
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.ids = ids
        self.loop = asyncio.get_running_loop()
        self.tick = Tick(self.loop, self._wake_readers)
        self.store = store
        self.ledger = Ledger(store, self.tick.grew)
        self.roster = Roster(agents.keys(), specs, hooks.names)
        kept = store if store.durable else None
        self.hub = Hub(policy, ids, self.roster, kept, compile_schema)
        self.outlets = Outlets(self.hub, self.ledger.after)
        self.waiters = Waiters(self)
        self.workers = Workers(
            self, policy=policy, clock=clock, agents=agents, tools=tools, hooks=hooks
        )
        self.asking = Asking(self, self.workers, policy, hooks, agents.keys())
        self.tally = Tally()
        self.observers: list[Observer] = []
        self.is_draining = False
        self._closed = False
        self._compile = compile_schema
        self._queue: deque[tuple[Any, Any, bool]] = deque()
        self._running = False
        self.timers = Timers(clock, self._time_is_up)
        self.quiet = asyncio.Event()
        self._sweep: Handle | None = None
        self._plan_sweep()

    # ---- the queue ---------------------------------------------------------------------------

    def tell_thread(self, key: ThreadKey, message: i.ThreadInput, *, create: bool = False) -> None:
        """Give an input to a thread; it is handled before this returns, unless one is at work."""
        self._tell(key, message, create)

    def tell_session(self, session: SessionId, message: s.SessionInput) -> None:
        """The same for a session."""
        self._tell(session, message)

    def _tell(self, target: Any, message: Any, create: bool = False) -> None:
        if self._closed:
            return
        if self._running:
            self._queue.append((target, message, create))
            return
        self._running = True
        try:
            while True:
                if isinstance(target, ThreadKey):
                    self._to_thread(target, message, create)
                else:
                    self._to_session(target, message)
                if not self._queue:
                    return
                target, message, create = self._queue.popleft()
        finally:
            self.ledger.turn()
            self._running = False

    def _to_thread(self, key: ThreadKey, message: i.ThreadInput, create: bool) -> None:
        thread = self.hub.reach(key, create=create)
        if thread is None:
            self._nobody_home(key, message)
            return
        log = thread.space.log
        before = log.head
        effects = thread.handle(message, self.clock.now())
        if self.ledger.on:
            self.ledger.note(thread, effects, before)
        if log.head != before:
            self.tally.events += log.head - before
            self.tick.grew(key, thread)
            if self.observers:
                observers.tell(self.observers, key.thread_id, log.newest(log.head - before))
        for effect in effects:
            try:
                _THREAD_EFFECTS[type(effect)](self, thread, effect)
            except Exception as error:  # one effect must not take those behind it along
                _LOG.error("%s was not carried out: %s", type(effect).__name__, where(error))
        deadline = thread.next_deadline()
        if deadline is not None or key in self.timers:
            self.timers.keep(key, deadline)
        if thread.busy is not (key in self.hub.active):
            self._note_activity(key, thread)

    def _to_session(self, session_id: SessionId, message: s.SessionInput) -> None:
        session = self.hub.sessions.get(session_id)
        if session is None:
            return
        try:
            effects = session.handle(message, self.clock.now())
            if self.ledger.on:
                self.ledger.note_session(session)
            for effect in effects:
                _SESSION_EFFECTS[type(effect)](self, session, effect)
        except Exception as error:  # the page comes back, and resumes what is sound
            _LOG.error(
                "session %s: %s failed: %s", session_id, type(message).__name__, where(error)
            )
            self.outlets.give_up(session)
        self.timers.keep(session_id, session.next_deadline())

    def _nobody_home(self, key: ThreadKey | None, message: i.ThreadInput) -> None:
        """A command for a thread that is not there is still answered.

        A page that opens one that cannot be read begins anew: it would hear nothing of it.
        """
        if isinstance(message, i.PageOpened) and key is not None:
            self.tell_session(message.page.session, s.ThreadGone(key))
            self.outlets.give_up(self.hub.sessions.get(message.page.session))
        asker = getattr(message, "asker", None)
        if asker is None:
            return
        if isinstance(message, i.AbortRequested):
            self._reply(asker, {"aborted": False})
        else:
            self._reply(asker, None, _no_thread())

    def _note_activity(self, key: ThreadKey, thread: Thread) -> None:
        if thread.busy:
            self.hub.active.add(key)
            return
        self.hub.active.discard(key)
        if not self.hub.active:
            self.quiet.set()

    # ---- time --------------------------------------------------------------------------------

    def _time_is_up(self, target: Any) -> None:
        self._tell(target, i.DeadlinePassed())

    def _plan_sweep(self) -> None:
        when = self.clock.now() + min(SWEEP_S, self.policy.thread_idle)
        self._sweep = self.clock.call_at(when, self.evict)

    def evict(self) -> None:
        """Let idle threads that are too old or too many leave memory; and again in a while.

        The store lets go of some for good, by its own limits, but of none in memory.
        """
        for key in self.hub.to_evict(self.clock.now()):
            self.tell_thread(key, i.Evicted())
            self.hub.drop(key)
        if self.ledger.on:
            self.store.sweep(self.hub.threads.keys())
        self._plan_sweep()

    # ---- the logs ----------------------------------------------------------------------------

    def _wake_readers(self, thread: Thread) -> None:
        for session_id in tuple(thread.space.readers):
            socket = self.outlets.of(self.hub.sessions.get(session_id))
            if socket is not None:
                socket.writer.flush()

    def _broke(self, _: Thread, effect: e.Broke) -> None:
        _LOG.error("an invariant broke", exc_info=effect.error)

    # ---- effects of a thread -----------------------------------------------------------------

    def _record(self, _: Thread, effect: e.Record) -> None:
        for fact in effect.facts:
            self.tally.count(fact)

    def _start_tool(self, thread: Thread, effect: e.StartTool) -> None:
        """Not before it is kept that it may: else it could run once more after a crash (P2)."""
        self.ledger.after(partial(self.workers.start_tool, thread, effect))

    def _reply_effect(self, _: Thread, effect: e.Reply) -> None:
        self._reply(effect.asker, effect.result, effect.error)

    def _reply(self, asker: Asker, result: Json, error: PeerError | None = None) -> None:
        if asker.session is not None:
            self.tell_session(asker.session, s.Answered(asker.ticket, result, error))
        else:
            answer = partial(self.waiters.settle, "answer", asker.ticket, (result, error))
            self.ledger.after(answer)

    # ---- effects of a session ----------------------------------------------------------------

    def _tell_thread_effect(self, _: Session, effect: e.TellThread) -> None:
        self.tell_thread(effect.key, effect.message, create=effect.create)

    def _tell_call(self, session: Session, effect: e.TellCall) -> None:
        key = self.hub.calls.get((session.principal.id, effect.call_id))
        if key is not None and key in self.hub.threads:
            self.tell_thread(key, effect.message)
        elif effect.ticket is not None:
            error = PeerError(CommandCode.UNKNOWN_CALL, "there is no such call")
            self._reply(Asker(session.id, effect.ticket), None, error)

    def _abort_anywhere(self, session: Session, effect: e.AbortAnywhere) -> None:
        key = self.hub.thread_of_run(session.principal.id, effect.run_id)
        message = i.AbortRequested(effect.asker, effect.run_id)
        if key is None:
            self._nobody_home(None, message)
        else:
            self.tell_thread(key, message)

    def _list_threads(self, session: Session, effect: e.ListThreads) -> None:
        shift = datetime.now(UTC).timestamp() - self.clock.now()
        mine = session.principal.id
        here = [thread for key, thread in self.hub.threads.items() if key.principal == mine]
        told = listed(here, self.store.threads(mine, THREADS_LISTED), shift)
        self._reply(Asker(session.id, effect.ticket), {"threads": told})

    def _delete_thread(self, session: Session, effect: e.DeleteThread) -> None:
        key = ThreadKey(session.principal.id, effect.thread_id)
        asker = Asker(session.id, effect.ticket)
        if self.hub.find(key) is None:
            self._reply(asker, None, _no_thread())
            return
        self.tell_thread(key, i.Deleted())
        for other in self.hub.sessions.values():
            if other.principal.id == key.principal:
                self.tell_session(other.id, s.ThreadGone(key))
        self._reply(asker, {})

    def _thread_over(self, thread: Thread, _: e.ThreadOver) -> None:
        key = thread.space.key
        if self.ledger.on:
            self.ledger.forget(thread)
        self.timers.keep(key, None)
        self.hub.drop(key)
        if not self.hub.active:
            self.quiet.set()

    def _session_over(self, session: Session, _: e.SessionOver) -> None:
        self.hub.sessions.pop(session.id, None)

    # ---- sessions ----------------------------------------------------------------------------

    def make_session(self, principal: Principal, origin: str | None) -> Session:
        session = self._session(SessionId(self.ids.new("s")), principal, origin)
        self.hub.sessions[session.id] = session
        if self.ledger.on:
            session.keep()
        if self.is_draining:
            session.handle(s.Draining(), self.clock.now())
        return session

    def _session(self, name: SessionId, principal: Principal, origin: str | None) -> Session:
        return Session(
            name,
            principal,
            origin=origin,
            policy=self.policy,
            ids=SessionIds(self.ids),
            compile_schema=self._compile,
            server_tools=self.roster.tools,
            agents=self.roster.agents,
        )

    # ---- the beginning and the end -----------------------------------------------------------

    def restore_session(
        self, session_id: SessionId, entries: Sequence[Entry], known: KnownTools
    ) -> None:
        """Have a session again that the store has; `known`: tool sets that were read already."""
        owner = owner_of(entries)
        if owner is None:
            return
        session = self._session(session_id, *owner)
        session.restore(entries, self.clock.now(), known)
        self.hub.sessions[session_id] = session
        self.timers.keep(session_id, session.next_deadline())

    def restore(self) -> None:
        """Be what the store has; see `lifetime`."""
        lifetime.restore(self)

    async def drain(self) -> None:
        """Refuse new runs, wait for those under way, say goodbye; see `lifetime`."""
        await lifetime.drain(self)

    async def close(self) -> None:
        """Let nothing be at work any more; see `lifetime`."""
        await lifetime.close(self)

    def stop_listening(self) -> None:
        """What still comes is not heard."""
        self._closed = True
        self.timers.cancel_all()
        if self._sweep is not None:
            self._sweep.cancel()


def _no_thread() -> PeerError:
    return PeerError(CommandCode.UNKNOWN_THREAD, "there is no such thread")


_THREAD_EFFECTS: Mapping[type, Callable[[Driver, Thread, Any], None]] = {
    e.Record: Driver._record,
    e.Reply: Driver._reply_effect,
    e.TellSession: lambda driver, _, told: driver.tell_session(told.session, told.message),
    e.StartStep: lambda driver, thread, effect: driver.workers.start_step(thread, effect),
    e.StopStep: lambda driver, thread, effect: driver.workers.stop_step(thread, effect),
    e.StartTool: Driver._start_tool,
    e.StopTool: lambda driver, thread, effect: driver.workers.stop_tool(thread, effect),
    e.GiveValue: lambda driver, _, effect: driver.waiters.give(effect),
    e.JudgeStops: lambda driver, thread, effect: driver.asking.judge_stops(thread, effect),
    e.GiveResult: lambda driver, thread, effect: driver.asking.subrun_over(thread, effect),
    e.JudgeRun: lambda driver, thread, effect: driver.asking.judge_run(thread, effect),
    e.JudgeCall: lambda driver, thread, effect: driver.asking.judge_call(thread, effect),
    e.RepairArguments: lambda driver, thread, effect: driver.asking.repair(thread, effect),
    e.ReviseResult: lambda driver, thread, effect: driver.asking.revise(thread, effect),
    e.ReviewStep: lambda driver, thread, effect: driver.asking.review_step(thread, effect),
    e.StopHook: lambda driver, thread, effect: driver.asking.stop(thread, effect),
    e.Suggest: lambda driver, thread, effect: driver.asking.suggest(thread, effect),
    e.StopSuggesting: lambda driver, thread, effect: driver.asking.stop_suggesting(thread, effect),
    e.RunOver: lambda driver, thread, effect: driver.asking.run_over(thread, effect),
    e.Broke: Driver._broke,
    e.ThreadOver: Driver._thread_over,
}

_SESSION_EFFECTS: Mapping[type, Callable[[Driver, Session, Any], None]] = {
    e.SendFrame: lambda driver, session, effect: driver.outlets.send_frame(session, effect),
    e.SendCall: lambda driver, session, effect: driver.outlets.send_call(session, effect),
    e.DropCall: lambda driver, session, effect: driver.outlets.drop_call(session, effect),
    e.CloseSocket: lambda driver, session, effect: driver.outlets.close_socket(session, effect),
    e.OpenStream: lambda driver, session, effect: driver.outlets.open_stream(session, effect),
    e.CloseStream: lambda driver, session, effect: driver.outlets.close_stream(session, effect),
    e.TellThread: Driver._tell_thread_effect,
    e.TellCall: Driver._tell_call,
    e.AbortAnywhere: Driver._abort_anywhere,
    e.ListThreads: Driver._list_threads,
    e.DeleteThread: Driver._delete_thread,
    e.SessionOver: Driver._session_over,
}
