"""What a writer keeps of each thread and of each frame that waits: a place in a log, and a turn.

Plain state of one `writer`, which alone changes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from handspan.ports import Readable, Stream
from handspan_protocol.codec import events_bytes
from handspan_protocol.limits import EVENTS_FRAME_BYTES

__all__ = ["Cursor", "Queued"]

_WIDEST_OFFSET: Final = 10**15
"""No log ever gets that far; it makes the room in a frame a constant."""


@dataclass(slots=True, eq=False)
class Queued:
    """One control frame. `thread_id` is set when it has to wait for a cursor."""

    frame: bytes
    call_id: str | None = None
    offered: bool = False
    thread_id: str | None = None
    after: int = 0
    epoch: str = ""
    still: Callable[[], bool] | None = None
    """Asked when its turn has come: whether it is still worth saying."""


@dataclass(slots=True, eq=False)
class Cursor:
    """How far one thread has been written; None: a snapshot comes first."""

    stream: Stream
    log: Readable
    """The stream's."""
    offset: int | None
    room: int
    """Bytes of events that fit into one frame."""
    picture: tuple[bytes, int] | None = None
    """A snapshot that comes next, and where in the log it was made."""

    @classmethod
    def at(cls, stream: Stream, offset: int | None) -> "Cursor":
        log = stream.log
        envelope = events_bytes(stream.thread_id, log.epoch, _WIDEST_OFFSET, ())
        return cls(stream, log, offset, EVENTS_FRAME_BYTES - len(envelope))

    def is_due(self, session_id: Callable[[], str]) -> bool:
        """Whether there is something to write.

        A snapshot shows all that there is, and waits until that may be read, however much follows.
        """
        log = self.log
        if self.offset is not None and self.offset >= log.base:
            return self.offset < log.readable
        if self.picture is None:
            self.picture = self.stream.snapshot(session_id()), log.head
        return self.picture[1] <= log.readable
