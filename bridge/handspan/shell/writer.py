"""The one writer of a socket: what goes out, in which order, and what happens when it cannot.

Owns a short queue of control frames and a cursor per open thread, nothing else: there is no queue
of events. At the end of a loop tick it joins what each thread's log has ready and writes it in one
go, without a task switch. Only when the transport is full does a task wait, under a deadline. A
page that lags gets larger messages, then merged deltas and, when the log no longer reaches back, a
snapshot.

Deliberately does not know what a frame says, which session it serves, or what a socket is. Above
sits the driver, which queues and opens; below sits a `Connection`.

The order on the wire:

1. control frames, as they were queued;
2. then one frame of one thread, the threads by turns; and again from 1.

A frame that was *offered* waits aside until the cursor of its thread has reached a given offset,
and lets other control frames pass, but none about the same call.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from handspan.core.merging import merged
from handspan.ports import Clock, Connection, Handle, Stream
from handspan_protocol.codec import events_bytes, frame_bytes
from handspan_protocol.frames import Ping

from .cursors import Cursor, Queued

__all__ = [
    "CONTROL_BYTES_MAX",
    "CONTROL_FRAMES_MAX",
    "LAGGING_EVENTS",
    "SEND_PROGRESS_BYTES",
    "Writer",
]

CONTROL_FRAMES_MAX: Final = 4_096
"""Control frames waiting for one socket; one more, and the connection is aborted, the page resumes.

Twice `frames_burst`: a burst of commands gets all its replies even while the transport is full.
"""

CONTROL_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of waiting control frames, with the same end. A single larger frame is taken when alone."""

SEND_PROGRESS_BYTES: Final = 64 * 1024
"""What a full transport must have passed on in one `send_timeout` not to count as blocked.

Without it no page on a slow line could ever take a snapshot of more than `send_timeout` seconds.
"""

LAGGING_EVENTS: Final = 1_024
"""A page that has more events than this before it lags: a frame of them, deltas of a word, holds
some 800. What is written as it comes is never so many in one tick."""

TOGETHER_BYTES: Final = 16 * 1024
"""Frames that are written in one go, of which the last may be larger; then it is looked whether the
transport is full. The small ones that come together are far below it."""

_MERGED_BYTES: Final = 128 * 1024
"""What is read of a log to fill one frame with merged deltas, at some 2 us an event of 80 bytes."""

_PING: Final = frame_bytes(Ping())
_LOG = logging.getLogger("handspan.socket")


class Writer:
    """Writes to one connection, which nobody else writes to.

    `session_id` is asked whenever a snapshot is made. `on_dead` is called once, when the writer has
    aborted the connection. `backlog` tells how many bytes the transport still holds; without it a
    send counts as blocked as long as `drained` does not return. `soon` puts a callback to the end
    of the loop's tick.

    A writer that is dead or stopped takes every call and does nothing.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        session_id: Callable[[], str],
        heartbeat: float,
        send_timeout: float,
        clock: Clock,
        on_dead: Callable[[], None],
        backlog: Callable[[], int] | None = None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._heartbeat = heartbeat
        self._send_timeout = send_timeout
        self._clock = clock
        self._on_dead = on_dead
        self._backlog = backlog
        self._soon = soon or (lambda callback: asyncio.get_running_loop().call_soon(callback))
        self._ready: deque[Queued] = deque()
        self._aside: list[Queued] = []
        self._queued_bytes = 0
        self._cursors: dict[str, Cursor] = {}
        """In the order of their turns: who has been served goes to the end."""
        self._awake = False
        """A flush is on its way."""
        self._over = False
        """Dead or stopped; never unset."""
        self._waiting: asyncio.Task[None] | None = None
        """Set while the transport is full."""
        self._deadline: Handle | None = None
        self._backlog_at_deadline_start = 0
        self._sent_at = clock.now()
        self._beat = clock.call_at(self._sent_at + heartbeat, self._keep_alive)

    # ---- what the driver asks for ----

    def control(self, frame: bytes, *, call_id: str | None = None) -> None:
        """Queue a control frame; with `call_id` it stays behind what waits about that call."""
        self._enqueue(Queued(frame, call_id))

    def offer(
        self,
        call_id: str,
        frame: bytes,
        thread_id: str,
        after: int,
        still: Callable[[], bool] | None = None,
    ) -> None:
        """Queue a frame about a call that must not overtake the events before offset `after`.

        When the thread is not open on this socket it goes at once. Good for `tool.call` and for
        `approval.request`: both can be withdrawn until they are written, and what is not `still`
        so when its turn has come goes nowhere.
        """
        epoch = self._cursors[thread_id].log.epoch if thread_id in self._cursors else ""
        self._enqueue(Queued(frame, call_id, True, thread_id, after, epoch, still))

    def withdraw(self, call_id: str) -> bool:
        """Drop what was offered about this call and is not written; whether there was any."""
        dropped = 0
        for queue in (self._ready, self._aside):
            kept = [q for q in queue if not (q.offered and q.call_id == call_id)]
            if len(kept) != len(queue):
                dropped += len(queue) - len(kept)
                queue.clear()
                queue.extend(kept)
        if dropped:
            self._queued_bytes = _bytes_of(self._ready) + _bytes_of(self._aside)
            self.wake()
        return dropped > 0

    def open(self, stream: Stream, offset: int | None) -> None:
        """Put the cursor of a thread, or set it anew.

        `offset` is one of the stream's epoch; None, or one beyond the head: a snapshot first.
        """
        if self._over:
            return
        if offset is not None and offset > stream.log.head:
            offset = None
        self._cursors.pop(stream.thread_id, None)
        self._cursors[stream.thread_id] = Cursor.at(stream, offset)
        self.wake()

    def close(self, thread_id: str) -> None:
        """Write no more of this thread; frames that waited for it go at once."""
        if self._cursors.pop(thread_id, None) is not None:
            self.wake()

    def wake(self) -> None:
        """Something may be ready: flush once, at the end of the loop's tick."""
        if self._awake or self._over or self._waiting is not None:
            return
        self._awake = True
        self._soon(self.flush)

    def flush(self) -> None:
        """Write what is ready, until there is no more or the transport is full; never raises.

        Of merged frames one a tick: others wait for their turn, and this page is late already.
        """
        self._awake = False
        try:
            self._write_what_is_ready()
        except Exception as error:  # a log that cannot be read harms this socket only
            self._die(f"its writer failed, {type(error).__name__}")

    def _write_what_is_ready(self) -> None:
        while not self._over and self._waiting is None and not self._awake:
            frames = self._next_frames()
            if not frames:
                return
            self._transmit(frames)

    def _next_frames(self) -> list[bytes]:
        """What is next on the wire, as much as goes out in one go; nothing: all is written."""
        frames: list[bytes] = []
        room = TOGETHER_BYTES
        while room > 0 and not self._awake:
            if self._aside:
                self._release()
            if self._ready:
                queued = self._ready.popleft()
                self._queued_bytes -= len(queued.frame)
                if queued.still is None or queued.still():
                    frames.append(queued.frame)
                    room -= len(queued.frame)
            elif (cursor := self._next_cursor()) is not None:
                frames.append(self._next_frame(cursor))
                room -= len(frames[-1])
            else:
                break
        return frames

    def stop(self) -> None:
        """Write nothing more, and forget what was queued. The connection is left as it is."""
        self._over = True
        self._beat.cancel()
        if self._deadline is not None:
            self._deadline.cancel()
        if self._waiting is not None:
            self._waiting.cancel()
        self._ready.clear()
        self._aside.clear()
        self._cursors.clear()
        self._queued_bytes = 0

    # ---- control frames ----

    def _enqueue(self, queued: Queued) -> None:
        if self._over:
            return
        waiting = len(self._ready) + len(self._aside)
        self._queued_bytes += len(queued.frame)
        if waiting and (waiting >= CONTROL_FRAMES_MAX or self._queued_bytes > CONTROL_BYTES_MAX):
            self._die("too many control frames wait")
            return
        if self._must_wait(queued, {q.call_id for q in self._aside}):
            self._aside.append(queued)
        else:
            self._ready.append(queued)
        self.wake()

    def _release(self) -> None:
        """Move what no longer has to wait to the control frames, in its order."""
        waiting: set[str | None] = set()
        still: list[Queued] = []
        for queued in self._aside:
            if self._must_wait(queued, waiting):
                still.append(queued)
                waiting.add(queued.call_id)
            else:
                self._ready.append(queued)
        self._aside = still

    def _must_wait(self, queued: Queued, calls_waiting: set[str | None]) -> bool:
        if queued.call_id is not None and queued.call_id in calls_waiting:
            return True
        if queued.thread_id is None:
            return False
        cursor = self._cursors.get(queued.thread_id)
        if cursor is None:
            return False
        if cursor.offset is None:
            return True
        # Of another log the offset says nothing; what the page has of it is newer than the frame.
        return cursor.log.epoch == queued.epoch and cursor.offset < queued.after

    # ---- events ----

    def _next_cursor(self) -> Cursor | None:
        """The cursor whose turn it is, put to the end of the turns; None: all are up to date."""
        for thread_id, cursor in self._cursors.items():
            if cursor.is_due(self._session_id):
                if len(self._cursors) > 1:
                    del self._cursors[thread_id]
                    self._cursors[thread_id] = cursor
                return cursor
        return None

    def _next_frame(self, cursor: Cursor) -> bytes:
        """A snapshot, or as many events as fit into a frame; the cursor moves past it."""
        stream, log = cursor.stream, cursor.log
        if cursor.picture is not None:
            (snapshot, cursor.offset), cursor.picture = cursor.picture, None
            return snapshot
        if cursor.offset is not None:
            lags = log.readable - cursor.offset > LAGGING_EVENTS
            events = log.read(cursor.offset, _MERGED_BYTES if lags else cursor.room)
            if events:
                count = len(events)
                if lags:
                    events, count = merged(events, cursor.room)
                    self.wake()  # and with this the flush ends
                cursor.offset += count
                return events_bytes(stream.thread_id, log.epoch, cursor.offset, events)
        raise AssertionError("invariant: a cursor that is due has a snapshot or events")

    # ---- the transport ----

    def _transmit(self, frames: list[bytes]) -> None:
        self._sent_at = self._clock.now()
        if not self._connection.transmit(*frames):
            self._waiting = asyncio.get_running_loop().create_task(self._wait_until_drained())
            self._start_deadline()

    async def _wait_until_drained(self) -> None:
        """Wait while the transport is full; at most one such task, cancelled by `stop`."""
        try:
            await self._connection.drained()
        except ConnectionError:
            self._waiting = None
            self.stop()  # the connection is gone; its reader tells everybody
            return
        self._waiting = None
        if self._deadline is not None:
            self._deadline.cancel()
        self.flush()

    def _start_deadline(self) -> None:
        self._backlog_at_deadline_start = self._backlog() if self._backlog else 0
        when = self._clock.now() + self._send_timeout
        self._deadline = self._clock.call_at(when, self._deadline_passed)

    def _deadline_passed(self) -> None:
        if self._over or self._waiting is None:
            return
        passed_on = self._backlog_at_deadline_start - (self._backlog() if self._backlog else 0)
        if passed_on >= SEND_PROGRESS_BYTES:
            self._start_deadline()
        else:
            self._die("the page does not read")

    def _die(self, why: str) -> None:
        """Abort the connection, never close it: a stalled peer would not answer a close."""
        if self._over:
            return
        _LOG.warning("connection aborted: %s", why)
        self.stop()
        self._connection.abort()
        self._on_dead()

    def _keep_alive(self) -> None:
        """Ping when nothing was sent for `heartbeat`; not while the transport is full."""
        if self._over:
            return
        now = self._clock.now()
        quiet = now - self._sent_at >= self._heartbeat
        if quiet and self._waiting is None and not self._ready:
            self._enqueue(Queued(_PING))
            self.flush()
        due = self._sent_at + self._heartbeat
        self._start_beat(due if due > now else now + self._heartbeat)

    def _start_beat(self, when: float) -> None:
        if not self._over:
            self._beat = self._clock.call_at(when, self._keep_alive)


def _bytes_of(queue: Iterable[Queued]) -> int:
    return sum(len(queued.frame) for queued in queue)
