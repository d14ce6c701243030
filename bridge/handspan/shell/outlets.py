"""What a session orders its socket: frames in their order, streams, the end.

Owns which writer call carries which effect. Decides only whether what has waited is still so; a
session without a socket is simply not written to, since what matters is sent again when it comes
back.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from handspan.core import effects as e
from handspan.core.session import Session
from handspan.core.thread import Thread
from handspan_protocol.codec import frame_bytes
from handspan_protocol.errors import CloseCode
from handspan_protocol.frames import ApprovalRequest, ServerFrame, ToolCancel

from .hub import Hub
from .socket import Socket
from .writer import Writer

SMALL_SNAPSHOT_BYTES: Final = 64 * 1024
"""A snapshot up to this is made at once and queued, so that what happens in the same tick comes
as events behind it. A larger one is made when its turn has come, and is never queued."""


class Outlets:
    """The sockets of welcomed pages, by the connection their session knows them as.

    What goes out goes through `after`: at once, or when what it says is kept. It is bound to the
    socket that the session has now; a later one is told by its own hello.
    """

    def __init__(self, hub: Hub, after: Callable[[Callable[[], None]], None]) -> None:
        self.sockets: dict[int, Socket] = {}
        self._hub = hub
        self._after = after

    def of(self, session: Session | None) -> Socket | None:
        """The session's live socket."""
        if session is None or session.connection is None:
            return None
        return self.sockets.get(session.connection)

    def give_up(self, session: Session | None) -> None:
        """Something of ours broke: the page comes back, and resumes what is sound."""
        socket = self.of(session)
        if socket is not None:
            socket.close(CloseCode.OUR_FAULT)

    def send_frame(self, session: Session, effect: e.SendFrame) -> None:
        """A control frame; a question waits for its thread's snapshot."""
        socket = self.of(session)
        if socket is not None:
            self._after(partial(self._send, session, socket.writer, effect.frame))

    def _send(self, session: Session, writer: Writer, frame: ServerFrame) -> None:
        text = frame_bytes(frame)
        if isinstance(frame, ApprovalRequest):
            still = partial(self._is_asked, session, frame)
            if still():
                writer.offer(frame.call_id, text, frame.thread_id, 0, still)
        else:
            call_id = frame.call_id if isinstance(frame, ToolCancel) else None
            writer.control(text, call_id=call_id)

    def _is_asked(self, session: Session, question: ApprovalRequest) -> bool:
        """Whether it is open; it may wait for the store, and then for a page that does not read."""
        thread = self._hub.threads.get(session.key(question.thread_id))
        call = thread.desk.open_calls.get(question.call_id) if thread else None
        return call is not None and call.approval is not None

    def send_call(self, session: Session, effect: e.SendCall) -> None:
        """A tool.call, behind the events before it."""
        socket = self.of(session)
        if socket is not None:
            frame = effect.frame
            call = (frame.call_id, frame_bytes(frame), frame.thread_id, effect.after)
            self._after(partial(_offer, session, frame.attempt, socket.writer, call))

    def drop_call(self, session: Session, effect: e.DropCall) -> None:
        """Drop at once what is not written; where it was, cancel it."""
        socket = self.of(session)
        if socket is None or socket.writer.withdraw(effect.call_id) or effect.cancel is None:
            return
        cancel = frame_bytes(effect.cancel)
        self._after(partial(socket.writer.control, cancel, call_id=effect.call_id))

    def close_socket(self, _: Session, effect: e.CloseSocket) -> None:
        """The end, with a code; one that was superseded at once, for it may hear nothing more."""
        socket = self.sockets.pop(effect.connection, None)
        if socket is None:
            return
        if effect.code == CloseCode.SUPERSEDED:
            socket.close(effect.code, effect.reason)
        else:
            self._after(partial(socket.close, effect.code, effect.reason))

    def open_stream(self, session: Session, effect: e.OpenStream) -> None:
        """Put the cursor: after (epoch, offset), or behind a snapshot."""
        socket = self.of(session)
        if socket is None:
            return
        thread = self._hub.reach(effect.key, create=True)
        if thread is None:
            self.give_up(session)
        else:
            self._after(partial(self._open, socket.writer, session, thread, effect))

    def _open(self, writer: Writer, session: Session, thread: Thread, effect: e.OpenStream) -> None:
        if self._hub.threads.get(effect.key) is not thread:  # deleted while the order waited
            return
        same = effect.epoch == thread.epoch and effect.offset is not None
        if same and effect.offset is not None and thread.log.reaches(effect.offset):
            writer.open(thread, effect.offset)
            return
        snapshot = None if thread.log.held else thread.snapshot(session.id)
        if snapshot is None or len(snapshot) > SMALL_SNAPSHOT_BYTES:
            writer.open(thread, None)
        else:
            writer.control(snapshot)
            writer.open(thread, thread.head)

    def close_stream(self, session: Session, effect: e.CloseStream) -> None:
        """Write no more of the thread."""
        socket = self.of(session)
        if socket is not None:
            self._after(partial(socket.writer.close, effect.thread_id))


def _offer(session: Session, attempt: int, writer: Writer, call: tuple[Any, ...]) -> None:
    """Unless it was taken back while it waited: what has settled is not sent any more."""
    held = session.holding.calls.get(call[0])
    if held is not None and held[1] == attempt:
        writer.offer(*call)
