"""The driver: it alone calls the machines, and it performs what they order.

Owns the queue of inputs (so that nothing calls back into a machine while it runs), the timers, and
each effect's carrying out, in order. What a socket brings comes in through `greeter`; agents and
server tools run in a `Crew`. Deliberately decides nothing: every rule is in the core.

Sockets read the threads' logs by themselves. The driver only notes which logs have grown, and
wakes their readers once, at the end of the loop's tick.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.arguments import Compile
from handspan.core.effects import CallValue, RunValue
from handspan.core.parties import ANONYMOUS, Asker, Principal, ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.thread import Roster, Thread
from handspan.ports import Clock, Handle, Store
from handspan_protocol.codec import frame_bytes
from handspan_protocol.errors import CloseCode, CommandCode, PeerError
from handspan_protocol.frames import Goaway, ToolCancel
from handspan_protocol.ids import SessionId, ThreadId

from .crew import Crew
from .hub import Hub
from .ids import Ids
from .run import Run
from .socket import Socket, where
from .steps import speak
from .tally import Tally
from .tools import ServerTool, run_tool
from .values import call_result

Json = Any
Observer = Callable[[str, Mapping[str, Any]], Any]

LARGE_SNAPSHOT_BYTES: Final = 1024 * 1024
"""A snapshot above this is written before anything else is queued behind it."""

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
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.ids = ids
        self.loop = asyncio.get_running_loop()
        self.store = store
        self.agents = agents
        self.tools = tools
        self.roster = Roster(agents.keys(), specs)
        self.hub = Hub(policy, ids, self.roster)
        self.crew = Crew(clock, policy.cleanup_grace)
        self.tally = Tally()
        self.observers: list[Observer] = []
        self.sockets: dict[int, Socket] = {}
        """Welcomed sockets, by the id that their session knows as its connection."""
        self.is_draining = False
        self._compile = compile_schema
        self._queue: deque[tuple[Any, Any, bool]] = deque()
        self._running = False
        self._timers: dict[Any, tuple[float, Handle]] = {}
        self._grown: set[ThreadKey] = set()
        self._awaited: dict[str, asyncio.Future[Any]] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        self._quiet = asyncio.Event()
        self._sweep: Handle | None = None
        self._plan_sweep()

    # ---- the queue ---------------------------------------------------------------------------

    def tell_thread(self, key: ThreadKey, message: i.ThreadInput, *, create: bool = False) -> None:
        """Give an input to a thread; it is handled before this returns, unless one is at work."""
        self._queue.append((key, message, create))
        self._work()

    def tell_session(self, session: SessionId, message: i.SessionInput) -> None:
        self._queue.append((session, message, False))
        self._work()

    def _work(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while self._queue:
                target, message, create = self._queue.popleft()
                if isinstance(target, ThreadKey):
                    self._to_thread(target, message, create)
                else:
                    self._to_session(target, message)
        finally:
            self._running = False

    def _to_thread(self, key: ThreadKey, message: i.ThreadInput, create: bool) -> None:
        thread = self.hub.thread(key) if create else self.hub.threads.get(key)
        if thread is None:
            self._nobody_home(message)
            return
        head = thread.head
        effects = thread.handle(message, self.clock.now())
        if thread.head != head:
            self._log_grew(key, thread, head)
        for effect in effects:
            _THREAD_EFFECTS[type(effect)](self, thread, effect)
        self._keep_time(key, thread.next_deadline())
        self._note_activity(key, thread)

    def _to_session(self, session_id: SessionId, message: i.SessionInput) -> None:
        session = self.hub.sessions.get(session_id)
        if session is None:
            return
        for effect in session.handle(message, self.clock.now()):
            _SESSION_EFFECTS[type(effect)](self, session, effect)
        self._keep_time(session_id, session.next_deadline())

    def _nobody_home(self, message: i.ThreadInput) -> None:
        """A command for a thread that is not there is still answered."""
        asker = getattr(message, "asker", None)
        if asker is None:
            return
        if isinstance(message, i.AbortRequested):
            self._reply(asker, {"aborted": False}, None)
        else:
            error = PeerError(CommandCode.UNKNOWN_THREAD, "there is no such thread")
            self._reply(asker, None, error)

    def _note_activity(self, key: ThreadKey, thread: Thread) -> None:
        if thread.run is not None or thread.runs.queue:
            self.hub.active.add(key)
        elif key in self.hub.active:
            self.hub.active.discard(key)
            if not self.hub.active:
                self._quiet.set()

    # ---- time --------------------------------------------------------------------------------

    def _keep_time(self, target: Any, deadline: float | None) -> None:
        planned = self._timers.get(target)
        if deadline is None:
            if planned is not None:
                planned[1].cancel()
                del self._timers[target]
            return
        if planned is not None:
            if planned[0] == deadline:
                return
            planned[1].cancel()
        handle = self.clock.call_at(deadline, lambda: self._time_is_up(target))
        self._timers[target] = (deadline, handle)

    def _time_is_up(self, target: Any) -> None:
        self._timers.pop(target, None)
        self._queue.append((target, i.DeadlinePassed(), False))
        self._work()

    def _plan_sweep(self) -> None:
        wait = min(SWEEP_S, self.policy.thread_idle)
        self._sweep = self.clock.call_at(self.clock.now() + wait, self._sweep_threads)

    def _sweep_threads(self) -> None:
        self.evict()
        self._plan_sweep()

    def evict(self) -> None:
        """Let idle threads that are too old or too many leave memory."""
        for key in self.hub.to_evict(self.clock.now(), lambda thread: not thread.space.readers):
            self.hub.drop(key)

    # ---- the logs ----------------------------------------------------------------------------

    def _log_grew(self, key: ThreadKey, thread: Thread, before: int) -> None:
        self.tally.events += thread.head - before
        if not self._grown:
            self.loop.call_soon(self._wake_readers)
        self._grown.add(key)
        if self.observers:
            self._tell_observers(thread, before)

    def _wake_readers(self) -> None:
        grown, self._grown = self._grown, set()
        for key in grown:
            thread = self.hub.threads.get(key)
            for session_id in list(thread.space.readers) if thread else ():
                socket = self._socket_of(self.hub.sessions.get(session_id))
                if socket is not None:
                    socket.writer.wake_now()

    def _tell_observers(self, thread: Thread, before: int) -> None:
        from handspan_protocol.codec import parse_json

        for event in thread.read(before, 1 << 62) or ():
            told = parse_json(event)
            for observer in self.observers:
                try:
                    observer(thread.thread_id, told)
                except Exception as error:
                    _LOG.error("an observer failed: %s", where(error))

    # ---- effects of a thread -----------------------------------------------------------------

    def _record(self, _: Thread, effect: e.Record) -> None:
        self.store.record(effect.facts)
        for fact in effect.facts:
            self.tally.count(fact)

    def _reply_effect(self, _: Thread, effect: e.Reply) -> None:
        self._reply(effect.asker, effect.result, effect.error)

    def _reply(self, asker: Asker, result: Json, error: PeerError | None) -> None:
        if asker.session is not None:
            self._queue.append((asker.session, i.Answered(asker.ticket, result, error), False))
            self._work()
            return
        waiting = self._awaited.get(f"answer {asker.ticket}")
        if waiting is not None and not waiting.done():
            waiting.set_result((result, error))

    def _tell_session_effect(self, _: Thread, effect: e.TellSession) -> None:
        self._queue.append((effect.session, effect.message, False))

    def _start_step(self, thread: Thread, effect: e.StartStep) -> None:
        run = Run(effect, self._desk_of(thread), thread.thread_id)
        name = (effect.run_id, effect.depth)
        self._runs[name] = run
        self.crew.start(name, self._speak(thread.space.key, effect, run))

    async def _speak(self, key: ThreadKey, effect: e.StartStep, run: Run) -> None:
        agent = self.agents[effect.agent]
        try:
            ended = await speak(agent, run)
        finally:
            self._runs.pop((effect.run_id, effect.depth), None)
        self.tell_thread(key, ended)

    def _stop_step(self, _: Thread, effect: e.StopStep) -> None:
        name = (effect.run_id, effect.depth)
        run = self._runs.pop(name, None)
        if run is not None:
            run.aborted = True
        self.crew.call_off(name)

    def _start_tool(self, thread: Thread, effect: e.StartTool) -> None:
        tool = self.tools[effect.name]
        self.crew.start(effect.call_id, self._carry_out(thread, tool, effect))

    async def _carry_out(self, thread: Thread, tool: ServerTool, effect: e.StartTool) -> None:
        run = self._runs.get((effect.run_id, effect.depth)) or self._run_for(thread, effect)
        answer = await run_tool(tool, effect.args, run)
        self.tell_thread(thread.space.key, i.ToolReturned(effect.call_id, answer))

    def _run_for(self, thread: Thread, effect: e.StartTool) -> Run:
        """A Run for a tool whose step is no longer, or never was, an agent's."""
        run = thread.run
        step = e.StartStep(
            run_id=effect.run_id,
            depth=effect.depth,
            agent=run.agent if run else "",
            tools=(),
            context=(),
            messages=thread.space.transcript.view(),
            state=thread.space.transcript.state,
            results=(),
            forwarded_props=run.forwarded_props if run else None,
            principal=run.principal if run else ANONYMOUS,
        )
        return Run(step, self._desk_of(thread), thread.thread_id)

    def _stop_tool(self, _: Thread, effect: e.StopTool) -> None:
        self.crew.call_off(effect.call_id)

    def _give_value(self, _: Thread, effect: e.GiveValue) -> None:
        self._settle(effect.ticket, effect.value)

    def _judge_stops(self, thread: Thread, effect: e.JudgeStops) -> None:
        name = ("stops", effect.run_id, effect.depth)
        self.crew.start(name, self._judge(thread.space.key, effect))

    async def _judge(self, key: ThreadKey, effect: e.JudgeStops) -> None:
        steps = [[call_result(value) for value in step] for step in effect.steps]
        stop = False
        for condition in self.policy.stop_when:
            try:
                verdict = condition(steps)
                stop = stop or bool(await verdict if inspect.isawaitable(verdict) else verdict)
            except Exception as error:
                _LOG.error("a stop condition failed and does not count: %s", where(error))
        self.tell_thread(key, i.StopsJudged(effect.run_id, effect.depth, stop))

    def _run_over(self, thread: Thread, effect: e.RunOver) -> None:
        if effect.asker.session is None:
            self._settle(
                f"run {effect.asker.ticket}", (effect.value, thread.space.transcript.view())
            )

    # ---- effects of a session ----------------------------------------------------------------

    def _socket_of(self, session: Session | None) -> Socket | None:
        if session is None or session.connection is None:
            return None
        return self.sockets.get(session.connection)

    def _send_frame(self, session: Session, effect: e.SendFrame) -> None:
        socket = self._socket_of(session)
        if socket is not None:
            frame = effect.frame
            call_id = frame.call_id if isinstance(frame, ToolCancel) else None
            socket.writer.control(frame_bytes(frame), call_id=call_id)

    def _send_call(self, session: Session, effect: e.SendCall) -> None:
        socket = self._socket_of(session)
        if socket is not None:
            frame = effect.frame
            text = frame_bytes(frame)
            socket.writer.offer(frame.call_id, text, frame.thread_id, effect.after)

    def _drop_call(self, session: Session, effect: e.DropCall) -> None:
        socket = self._socket_of(session)
        if socket is None or socket.writer.withdraw(effect.call_id):
            return
        if effect.cancel is not None:
            socket.writer.control(frame_bytes(effect.cancel), call_id=effect.call_id)

    def _close_socket(self, _: Session, effect: e.CloseSocket) -> None:
        socket = self.sockets.pop(effect.connection, None)
        if socket is not None:
            socket.close(effect.code, effect.reason)

    def _open_stream(self, session: Session, effect: e.OpenStream) -> None:
        socket = self._socket_of(session)
        if socket is None:
            return
        thread = self.hub.thread(effect.key)
        same = effect.epoch == thread.epoch and effect.offset is not None
        if same and effect.offset is not None and thread.space.log.reaches(effect.offset):
            socket.writer.open(thread, effect.offset)
            return
        snapshot = thread.snapshot(session.id)
        if len(snapshot) > LARGE_SNAPSHOT_BYTES:
            socket.writer.flush()
        socket.writer.control(snapshot)
        socket.writer.open(thread, thread.head)

    def _close_stream(self, session: Session, effect: e.CloseStream) -> None:
        socket = self._socket_of(session)
        if socket is not None:
            socket.writer.close(effect.thread_id)

    def _tell_thread_effect(self, _: Session, effect: e.TellThread) -> None:
        self._queue.append((effect.key, effect.message, effect.create))

    def _tell_call(self, session: Session, effect: e.TellCall) -> None:
        key = self.hub.calls.get((session.principal.id, effect.call_id))
        if key is not None and key in self.hub.threads:
            self._queue.append((key, effect.message, False))
        elif effect.ticket is not None:
            error = PeerError(CommandCode.UNKNOWN_CALL, "there is no such call")
            self._queue.append((session.id, i.Answered(effect.ticket, None, error), False))

    def _abort_anywhere(self, session: Session, effect: e.AbortAnywhere) -> None:
        key = self.hub.thread_of_run(session.principal.id, effect.run_id)
        message = i.AbortRequested(effect.asker, effect.run_id)
        if key is None:
            self._nobody_home(message)
        else:
            self._queue.append((key, message, False))

    def _list_threads(self, session: Session, effect: e.ListThreads) -> None:
        shift = datetime.now(UTC).timestamp() - self.clock.now()
        told = [
            _listed(thread, shift)
            for key, thread in self.hub.threads.items()
            if key.principal == session.principal.id
        ]
        answer = i.Answered(effect.ticket, {"threads": told})
        self._queue.append((session.id, answer, False))

    def _delete_thread(self, session: Session, effect: e.DeleteThread) -> None:
        key = ThreadKey(session.principal.id, effect.thread_id)
        thread = self.hub.threads.get(key)
        if thread is None:
            error = PeerError(CommandCode.UNKNOWN_THREAD, "there is no such thread")
            self._queue.append((session.id, i.Answered(effect.ticket, None, error), False))
            return
        self._queue.append((key, i.Deleted(), False))
        for other in self.hub.sessions.values():
            if other.principal.id == key.principal:
                self._queue.append((other.id, i.ThreadGone(key), False))
        self._queue.append((session.id, i.Answered(effect.ticket, {}), False))

    def _thread_over(self, thread: Thread, _: e.ThreadOver) -> None:
        key = thread.space.key
        self.store.forget(key.principal, key.thread_id)
        self._keep_time(key, None)
        self.hub.drop(key)
        if not self.hub.active:
            self._quiet.set()

    def _session_over(self, session: Session, _: e.SessionOver) -> None:
        self.hub.sessions.pop(session.id, None)

    # ---- from this process -------------------------------------------------------------------

    async def run(
        self, key: ThreadKey, request: i.RunRequested
    ) -> tuple[RunValue, tuple[Json, ...]] | PeerError:
        """Start a run and wait for its end; a PeerError when it was refused."""
        ticket = request.asker.ticket
        answer, over = self.expect(f"answer {ticket}"), self.expect(f"run {ticket}")
        self.tell_thread(key, request, create=True)
        _, error = await answer
        if error is not None:
            self._awaited.pop(f"run {ticket}", None)
            return PeerError(error.code, error.message)
        try:
            done: tuple[RunValue, tuple[Json, ...]] = await over
        except asyncio.CancelledError:
            self.tell_thread(key, i.AbortRequested(Asker(None, ""), request.run_id))
            raise
        return done

    async def invoke(
        self, key: ThreadKey, request: i.InvokeRequested
    ) -> tuple[Mapping[str, Json] | None, PeerError | None]:
        """Carry out one call and wait until it has settled."""
        answer = self.expect(f"answer {request.asker.ticket}")
        self.tell_thread(key, request, create=True)
        result, error = await answer
        return result, error

    def expect(self, ticket: str) -> "asyncio.Future[Any]":
        """A future that the effect with this ticket resolves."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self._awaited[ticket] = future
        future.add_done_callback(lambda _: self._awaited.pop(ticket, None))
        return future

    def _settle(self, ticket: str, value: Any) -> None:
        waiting = self._awaited.get(ticket)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    def _desk_of(self, thread: Thread) -> "_StepDesk":
        return _StepDesk(self, thread)

    # ---- sessions ----------------------------------------------------------------------------

    def make_session(self, principal: Principal) -> Session:
        session = Session(
            SessionId(self.ids.new("s")),
            principal,
            policy=self.policy,
            ids=_SessionIds(self.ids),
            compile_schema=self._compile,
            server_tools=self.roster.tools,
            agents=self.roster.agents,
        )
        self.hub.sessions[session.id] = session
        if self.is_draining:
            session.handle(i.Draining(), self.clock.now())
        return session

    # ---- the end -----------------------------------------------------------------------------

    async def drain(self) -> None:
        """Refuse new runs and wait, at most `drain_grace`, until none is left; then say goodbye."""
        self.is_draining = True
        for session_id in list(self.hub.sessions):
            self.tell_session(session_id, i.Draining())
        if self.hub.active:
            self._quiet.clear()
            handle = self.clock.call_at(self.clock.now() + self.policy.drain_grace, self._quiet.set)
            await self._quiet.wait()
            handle.cancel()
        goaway = frame_bytes(Goaway(reconnect_after_ms=1_000, reason="restart"))
        for socket in list(self.sockets.values()):
            socket.writer.control(goaway)
            socket.close(CloseCode.RESTART, "restart")

    async def close(self) -> None:
        """Abort what is left and let nothing of it behind."""
        for key in list(self.hub.active):
            thread = self.hub.threads[key]
            while thread.run is not None or thread.runs.queue:
                run_id = thread.run.id if thread.run else thread.runs.queue[0].run_id
                self.tell_thread(key, i.AbortRequested(Asker(None, ""), run_id))
        for socket in list(self.sockets.values()):
            socket.close(CloseCode.RESTART, "restart")
        await self.crew.close()
        for _, handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        if self._sweep is not None:
            self._sweep.cancel()
        for future in list(self._awaited.values()):
            future.cancel()
        self.store.close()


class _StepDesk:
    """`run.Desk` for one thread."""

    def __init__(self, driver: Driver, thread: Thread) -> None:
        self._driver = driver
        self._thread = thread
        self.loop = driver.loop

    def say(self, message: i.ThreadInput) -> None:
        self._driver.tell_thread(self._thread.space.key, message)

    def state(self) -> Json:
        return self._thread.space.transcript.state

    def expect(self, ticket: str) -> "asyncio.Future[CallValue]":
        return self._driver.expect(ticket)

    def ticket(self) -> str:
        return self._driver.ids.new("ticket")


class _SessionIds:
    """`core.inputs.IdSource` for a session, which claims no calls."""

    def __init__(self, ids: Ids) -> None:
        self.new = ids.new
        self.secret = ids.secret

    def claim_call(self, wish: str | None) -> Any:
        raise AssertionError("a session makes no calls")


def _listed(thread: Thread, shift: float) -> dict[str, Json]:
    """One row of `thread.list`; the title is the beginning of the first user text."""
    at = datetime.fromtimestamp(thread.touched_at + shift, UTC)
    row: dict[str, Json] = {
        "threadId": ThreadId(thread.thread_id),
        "updatedAt": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    for message in thread.space.transcript.messages:
        if message["role"] == "user" and isinstance(message["content"], str):
            return row | {"title": message["content"][:80]}
    return row


_THREAD_EFFECTS: Mapping[type, Callable[[Driver, Thread, Any], None]] = {
    e.Record: Driver._record,
    e.Reply: Driver._reply_effect,
    e.TellSession: Driver._tell_session_effect,
    e.StartStep: Driver._start_step,
    e.StopStep: Driver._stop_step,
    e.StartTool: Driver._start_tool,
    e.StopTool: Driver._stop_tool,
    e.GiveValue: Driver._give_value,
    e.JudgeStops: Driver._judge_stops,
    e.RunOver: Driver._run_over,
    e.ThreadOver: Driver._thread_over,
}

_SESSION_EFFECTS: Mapping[type, Callable[[Driver, Session, Any], None]] = {
    e.SendFrame: Driver._send_frame,
    e.SendCall: Driver._send_call,
    e.DropCall: Driver._drop_call,
    e.CloseSocket: Driver._close_socket,
    e.OpenStream: Driver._open_stream,
    e.CloseStream: Driver._close_stream,
    e.TellThread: Driver._tell_thread_effect,
    e.TellCall: Driver._tell_call,
    e.AbortAnywhere: Driver._abort_anywhere,
    e.ListThreads: Driver._list_threads,
    e.DeleteThread: Driver._delete_thread,
    e.SessionOver: Driver._session_over,
}
