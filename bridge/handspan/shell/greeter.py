"""From a socket's text to the session it belongs to: the Gate of the transports.

Owns the first frame (who is this, which session, may it have it), the check of each command with
`authorize`, and the answer to what is no frame. Waits for an authenticator and an authorizer, and
for a ping to a socket that may be dead, never for a call, a run or an approval.
*Source:* protocol.md 2, behaviour.md 5 and 7.
"""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from handspan.core import session_inputs as s
from handspan.core.parties import ANONYMOUS, ConnectionId, Principal
from handspan.core.session import Session
from handspan.ports import Authenticator, Authorizer
from handspan_protocol import frames as f
from handspan_protocol.codec import FrameProblem, decode, frame_bytes, parse_json
from handspan_protocol.errors import CloseCode, CommandCode, PeerError, ResumeRefusal
from handspan_protocol.ids import SessionId, ThreadId
from handspan_protocol.version import PROTOCOL_VERSION

from .driver import Driver
from .socket import Socket, where
from .watch import Watch

PROBE_S: Final = 2.0
"""How long an old socket may take to show that it lives. *Source:* behaviour.md 5."""

_PING: Final = frame_bytes(f.Ping())
_LOG = logging.getLogger("handspan.greeter")


class Greeter:
    """`shell.socket.Gate` over a driver."""

    def __init__(
        self,
        driver: Driver,
        authenticate: Authenticator | None = None,
        authorize: Authorizer | None = None,
    ) -> None:
        self._driver = driver
        self._authenticate = authenticate
        self._authorize = authorize
        self._addresses: Counter[str] = Counter()
        """How many welcomed sockets each address has."""
        self._probes: dict[int, asyncio.Event] = {}
        self._watch: Watch | None = None

    # ---- Gate --------------------------------------------------------------------------------

    def connected(self, socket: Socket) -> None:
        """Nothing is known of it yet."""

    async def received(self, socket: Socket, text: str) -> None:
        """One text message of a socket."""
        self._driver.tally.frames_in += 1
        probe = self._probes.get(socket.id)
        if probe is not None:
            probe.set()
        if not socket.welcomed:
            await self._first_frame(socket, text)
            return
        try:
            frame = decode(text)
        except FrameProblem as problem:
            socket.writer.control(_answer_to(problem))
            return
        if isinstance(frame, f.Hello):
            socket.writer.control(_error(CommandCode.INVALID_FRAME, "a hello is the first frame"))
            return
        if isinstance(frame, f.RunStart | f.ToolInvoke) and self._driver.store.troubled is not None:
            later = "nothing can be kept just now; try again later"
            not_now = FrameProblem(CommandCode.INTERNAL, later, frame_id=frame.id)
            socket.writer.control(_answer_to(not_now))
            return
        session_id = SessionId(socket.session_id)
        allowed = await self._allowed(session_id, frame)
        message = s.FrameReceived(ConnectionId(socket.id), frame, allowed)
        self._driver.tell_session(session_id, message)

    def disconnected(self, socket: Socket) -> None:
        """The socket is gone; its session lives on."""
        self._driver.outlets.sockets.pop(socket.id, None)
        probe = self._probes.get(socket.id)
        if probe is not None:
            probe.set()
        if socket.welcomed:
            self._addresses -= Counter([socket.request.address])
            lost = s.SocketLost(ConnectionId(socket.id))
            self._driver.tell_session(SessionId(socket.session_id), lost)

    def draining(self) -> bool:
        """Whether new sockets are refused: on the way down, or while nothing can be kept."""
        return self._driver.is_draining or self._driver.store.troubled is not None

    def metrics(self) -> str:
        """Counters, and what there is now."""
        hub = self._driver.hub
        gauges = {
            "sockets": self._addresses.total(),
            "sessions": len(hub.sessions),
            "threads": len(hub.threads),
            "runs": len(hub.active),
            "tasks": len(self._driver.workers.crew),
            "loop_lag_seconds": 0.0 if self._watch is None else self._watch.worst_s(),
        }
        return self._driver.tally.text(gauges)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look whether the loop turns, as long as the context lasts."""
        self._watch = Watch(self._driver.loop, self._driver.workers.doing)
        with self._watch.at_work():
            yield

    # ---- the first frame ---------------------------------------------------------------------

    async def _first_frame(self, socket: Socket, text: str) -> None:
        try:
            hello = decode(text)
        except FrameProblem as problem:
            if _speaks_another_version(text):
                self._refuse_version(socket)
            else:
                socket.writer.control(_error(problem.code, problem.message))
                socket.close(CloseCode.BROKE_PROTOCOL, "the first frame was no hello")
            return
        if not isinstance(hello, f.Hello):
            socket.close(CloseCode.BROKE_PROTOCOL, "the first frame was no hello")
        elif hello.protocol != PROTOCOL_VERSION:
            self._refuse_version(socket)
        else:
            await self._greet(socket, hello)

    def _refuse_version(self, socket: Socket) -> None:
        message = f"this server speaks protocol {PROTOCOL_VERSION}"
        socket.writer.control(_error(CommandCode.UNSUPPORTED_PROTOCOL, message))
        socket.close(CloseCode.VERSION, "unsupported protocol")

    async def _greet(self, socket: Socket, hello: f.Hello) -> None:
        principal = await self._who(socket, hello.token)
        if principal is None:
            socket.writer.control(_error(CommandCode.UNAUTHENTICATED, "who are you?"))
            socket.close(CloseCode.UNAUTHENTICATED, "unauthenticated")
            return
        denied = await self._denied(principal, hello.threads or ())
        session, refusal = await self._session_for(socket, hello, principal)
        if socket.closed:
            return
        session = session or self._new_session(socket, principal)
        if session is not None:
            self._welcome(
                socket,
                session,
                s.Greeted(ConnectionId(socket.id), hello, _why(refusal), denied, principal),
            )

    def _new_session(self, socket: Socket, principal: Principal) -> Session | None:
        if not self._room_for(socket, principal):
            socket.writer.control(_error(CommandCode.LIMIT, "too many sessions", True))
            socket.close(CloseCode.OVERLOAD, "too many sessions")
            return None
        return self._driver.make_session(principal, socket.request.origin)

    def _welcome(self, socket: Socket, session: Session, greeted: s.Greeted) -> None:
        socket.session_id = session.id
        socket.welcomed = True
        self._addresses[socket.request.address] += 1
        self._driver.outlets.sockets[socket.id] = socket
        self._driver.tell_session(session.id, greeted)

    async def _who(self, socket: Socket, token: str | None) -> Principal | None:
        if self._authenticate is None:
            return ANONYMOUS
        try:
            async with asyncio.timeout(self._driver.policy.hook_timeout):
                told = self._authenticate(token, socket.request)
                principal = await told if inspect.isawaitable(told) else told
        except Exception as error:
            _LOG.error("the authenticator failed: %s", where(error))
            return None
        return principal if isinstance(principal, Principal) else None

    async def _session_for(
        self, socket: Socket, hello: f.Hello, principal: Principal
    ) -> tuple[Session | None, ResumeRefusal | None]:
        """The session that the hello may resume; None: a new one, for this reason."""
        if hello.session is None:
            return None, None
        session = self._driver.hub.sessions.get(hello.session.id)
        good = (
            session is not None
            and session.knows(hello.session.secret)
            and session.principal == principal
            and session.origin == socket.request.origin
        )
        if session is None or not good:
            return None, ResumeRefusal.UNKNOWN_SESSION
        if session.document == hello.document_id or hello.reload:
            return session, None
        asked = session.connection
        lives = await self._lives(session)
        if session.over or not session.knows(hello.session.secret):
            return None, ResumeRefusal.UNKNOWN_SESSION
        if session.document == hello.document_id:
            return session, None
        if lives or session.connection not in (None, asked):
            return None, ResumeRefusal.SESSION_IN_USE
        return session, None

    async def _lives(self, session: Session) -> bool:
        """Whether the session's socket answers; meanwhile the new one is not read further."""
        connection = session.connection
        old = self._driver.outlets.sockets.get(connection) if connection is not None else None
        if old is None:
            return False
        probe = self._probes.setdefault(old.id, asyncio.Event())
        old.writer.control(_PING)
        handle = self._driver.clock.call_at(self._driver.clock.now() + PROBE_S, probe.set)
        heard = old.heard_at
        await probe.wait()
        handle.cancel()
        self._probes.pop(old.id, None)
        return not old.closed and old.heard_at > heard

    def _room_for(self, socket: Socket, principal: Principal) -> bool:
        policy = self._driver.policy
        most = policy.sessions_per_address
        if most is not None and self._addresses[socket.request.address] >= most:
            return False
        if principal == ANONYMOUS:
            return True
        return self._driver.hub.sessions_of(principal.id) < policy.sessions_per_principal

    # ---- authorize ---------------------------------------------------------------------------

    async def _denied(
        self, principal: Principal, wishes: tuple[f.ThreadWish, ...]
    ) -> frozenset[ThreadId]:
        if self._authorize is None:
            return frozenset()
        return frozenset(
            {
                wish.thread_id
                for wish in wishes
                if not await self._may(principal, "open", wish.thread_id, None)
            }
        )

    async def _allowed(self, session_id: SessionId, frame: Any) -> bool:
        """Whether `authorize` lets this command through; what it is not asked about passes."""
        action = _ACTIONS.get(type(frame))
        session = self._driver.hub.sessions.get(session_id)
        if self._authorize is None or action is None or session is None:
            return True
        thread_id = getattr(frame, "thread_id", None)
        if thread_id is None and isinstance(frame, f.ApprovalAnswer):
            key = self._driver.hub.calls.get((session.principal.id, frame.call_id))
            thread_id = key.thread_id if key else None
        if thread_id is None and isinstance(frame, f.RunAbort) and frame.run_id is not None:
            key = self._driver.hub.thread_of_run(session.principal.id, frame.run_id)
            thread_id = key.thread_id if key else None
        return await self._may(session.principal, action, thread_id, getattr(frame, "name", None))

    async def _may(
        self, principal: Principal, action: str, thread_id: str | None, name: str | None
    ) -> bool:
        assert self._authorize is not None  # of its callers
        try:
            async with asyncio.timeout(self._driver.policy.hook_timeout):
                told = self._authorize(principal, action, thread_id, name=name)
                return bool(await told if inspect.isawaitable(told) else told)
        except Exception as error:
            _LOG.error("the authorizer failed, so %s is refused: %s", action, where(error))
            return False


_ACTIONS: Final = {
    f.ThreadOpen: "open",
    f.RunStart: "run",
    f.ToolInvoke: "invoke",
    f.RunAbort: "abort",
    f.ApprovalAnswer: "answer",
    f.StateUpdate: "state",
    f.ThreadDelete: "delete",
}


def _why(refusal: ResumeRefusal | None) -> Any:
    return None if refusal is None else refusal.value


def _answer_to(problem: FrameProblem) -> bytes:
    """A reply where the frame had an id, else an error frame."""
    if problem.id is not None and problem.code is not CommandCode.UNKNOWN_TYPE:
        error = f.WireError(code=problem.code, message=problem.message, path=problem.path)
        return frame_bytes(f.Reply(id=problem.id, error=error))
    return frame_bytes(
        f.Error(code=problem.code, message=problem.message, retryable=False, id=problem.id)
    )


def _error(code: CommandCode, message: str, retryable: bool = False) -> bytes:
    return frame_bytes(f.Error(code=code, message=message, retryable=retryable))


def _speaks_another_version(text: str) -> bool:
    try:
        raw = parse_json(text)
    except PeerError:
        return False
    return (
        isinstance(raw, dict)
        and raw.get("type") == "hello"
        and raw.get("protocol") not in (None, PROTOCOL_VERSION)
    )
