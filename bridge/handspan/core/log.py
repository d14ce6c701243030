"""A thread's log: a ring of encoded events, appended at the head, read from a cursor.

Owns offsets and what is still reachable. An event is encoded once, by who appends it, and the same
bytes go to every socket. Deliberately does not know what an event says, nor who reads.

Offset n stands between event n-1 and event n: a reader at offset n has applied n events of this
epoch. *Source:* protocol.md 1, behaviour.md 6.
"""


class Log:
    """A ring bounded by `max_events` and `max_bytes`; the newest event always stays."""

    __slots__ = (
        "_bytes",
        "_events",
        "_max_bytes",
        "_max_events",
        "_start",
        "base",
        "epoch",
        "head",
        "held",
        "readable",
    )

    def __init__(self, epoch: str, max_events: int, max_bytes: int) -> None:
        self.epoch = epoch
        self.base = 0
        """The oldest offset that can be read from."""
        self.head = 0
        """The offset after the newest event."""
        self.readable = 0
        """The offset up to which it may be read: the head, unless it is held."""
        self.held = False
        self._events: list[bytes] = []
        self._start = 0
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes

    def append(self, event: bytes) -> None:
        """Add one encoded event; the oldest leave when the ring is full."""
        self._events.append(event)
        self._bytes += len(event)
        self.head += 1
        if not self.held:
            self.readable = self.head
        if self._bytes > self._max_bytes or self.head - self.base > self._max_events:
            self._make_room()

    def hold(self, offset: int) -> None:
        """Show nothing behind `offset` until it is released: what stands there is not kept yet."""
        if not self.held:
            self.held = True
            self.readable = offset

    def release(self, offset: int | None = None) -> None:
        """Show what stands before `offset`; None: everything, and what comes from now on."""
        self.held = offset is not None
        self.readable = self.head if offset is None else offset

    def reaches(self, offset: int) -> bool:
        """Whether a reader at `offset` misses nothing that has left."""
        return self.base <= offset <= self.head

    def read(self, offset: int, limit_bytes: int) -> list[bytes] | None:
        """Readable events from `offset` on: as many as fit into the limit, or one.

        None: it does not reach back that far.
        """
        if self.base <= offset == self.readable - 1 and not self.held:  # while a model speaks
            return [self._events[-1]]
        if not self.reaches(offset):
            return None
        taken: list[bytes] = []
        room = limit_bytes
        end = len(self._events) - (self.head - self.readable)
        for index in range(self._start + offset - self.base, end):
            event = self._events[index]
            room -= len(event) + 1
            if room < 0 and taken:
                break
            taken.append(event)
        return taken

    def newest(self, count: int) -> list[bytes]:
        """The last events that were appended, whether they may be read or not; at most `count`."""
        return self._events[max(self._start, len(self._events) - count) :] if count > 0 else []

    def _make_room(self) -> None:
        while (count := self.head - self.base) > 1:
            if count <= self._max_events and self._bytes <= self._max_bytes:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._bytes -= len(self._events[self._start])
        self._events[self._start] = b""
        self._start += 1
        self.base += 1
        if self._start > 1024 and self._start * 2 > len(self._events):
            del self._events[: self._start]
            self._start = 0
