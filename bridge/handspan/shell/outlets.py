"""What a session orders its socket: frames in their order, streams, the end.

Owns which writer call carries which effect. Deliberately decides nothing; a session without a
socket is simply not written to, since what matters is sent again when it comes back.
"""

from typing import Final

from handspan.core import effects as e
from handspan.core.session import Session
from handspan_protocol.codec import frame_bytes
from handspan_protocol.frames import ApprovalRequest, ToolCancel

from .hub import Hub
from .socket import Socket

SMALL_SNAPSHOT_BYTES: Final = 64 * 1024
"""A snapshot up to this is made at once and queued, so that what happens in the same tick comes
as events behind it. A larger one is made when its turn has come, and is never queued."""


class Outlets:
    """The sockets of welcomed pages, by the connection their session knows them as."""

    def __init__(self, hub: Hub) -> None:
        self.sockets: dict[int, Socket] = {}
        self._hub = hub

    def of(self, session: Session | None) -> Socket | None:
        """The session's live socket."""
        if session is None or session.connection is None:
            return None
        return self.sockets.get(session.connection)

    def send_frame(self, session: Session, effect: e.SendFrame) -> None:
        """A control frame; a question waits for its thread's snapshot."""
        socket = self.of(session)
        if socket is not None:
            frame = effect.frame
            text = frame_bytes(frame)
            if isinstance(frame, ApprovalRequest):
                socket.writer.offer(frame.call_id, text, frame.thread_id, 0)
            else:
                call_id = frame.call_id if isinstance(frame, ToolCancel) else None
                socket.writer.control(text, call_id=call_id)

    def send_call(self, session: Session, effect: e.SendCall) -> None:
        """A tool.call, behind the events before it."""
        socket = self.of(session)
        if socket is not None:
            frame = effect.frame
            text = frame_bytes(frame)
            socket.writer.offer(frame.call_id, text, frame.thread_id, effect.after)

    def drop_call(self, session: Session, effect: e.DropCall) -> None:
        """Drop what was not written; where it was, cancel it."""
        socket = self.of(session)
        if socket is None or socket.writer.withdraw(effect.call_id):
            return
        if effect.cancel is not None:
            socket.writer.control(frame_bytes(effect.cancel), call_id=effect.call_id)

    def close_socket(self, _: Session, effect: e.CloseSocket) -> None:
        """The end, with a code."""
        socket = self.sockets.pop(effect.connection, None)
        if socket is not None:
            socket.close(effect.code, effect.reason)

    def open_stream(self, session: Session, effect: e.OpenStream) -> None:
        """Put the cursor: after (epoch, offset), or behind a snapshot."""
        socket = self.of(session)
        if socket is None:
            return
        thread = self._hub.thread(effect.key)
        same = effect.epoch == thread.epoch and effect.offset is not None
        if same and effect.offset is not None and thread.space.log.reaches(effect.offset):
            socket.writer.open(thread, effect.offset)
            return
        snapshot = thread.snapshot(session.id)
        if len(snapshot) > SMALL_SNAPSHOT_BYTES:
            socket.writer.open(thread, None)
        else:
            socket.writer.control(snapshot)
            socket.writer.open(thread, thread.head)

    def close_stream(self, session: Session, effect: e.CloseStream) -> None:
        """Write no more of the thread."""
        socket = self.of(session)
        if socket is not None:
            socket.writer.close(effect.thread_id)
