"""Pages that lag, lose their sockets and come back: in the end they know what the thread knows. P9.

Real threads, real writers, a ring that holds next to nothing, and what is written read as JSON.
"""

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import picture
from tests.core.page_fold import PageFold, comparable
from tests.core.tales import Tale, moves
from tests.shell.test_writer import FakeClock, FakeConnection

from handspan.core.log import Log
from handspan.shell import writer
from handspan.shell.writer import Writer

LAGGING_EVENTS = 3
"""In place of a thousand, so that short tales have pages that lag."""


class Ring:
    """The stream of a thread that keeps fewer events than the thread's own log, some not yet."""

    def __init__(self, tale: Tale, most: int) -> None:
        self.thread_id = "t1"
        self.log = Log(tale.thread.epoch, most, 1 << 30)
        self._tale = tale

    def grow(self) -> None:
        for event in self._tale.log[self.log.head :]:
            self.log.append(event)

    def snapshot(self, session_id: str) -> bytes:
        return self._tale.thread.snapshot(session_id)


class Reader:
    """A page's position and what it knows, over as many sockets as it takes."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.fold: PageFold | None = None
        self.offset: int | None = None
        self.seen: Counter[str] = Counter()
        self.connect()

    def connect(self) -> None:
        """On a new socket, from where it was."""
        self.connection = FakeConnection()
        self.soon: list[Any] = []
        self.writer = Writer(
            self.connection,
            session_id=lambda: "nobody",
            heartbeat=1e9,
            send_timeout=1e9,
            clock=FakeClock(),
            on_dead=lambda: self.seen.update(["dead"]),
            soon=self.soon.append,
        )
        self.writer.open(self.ring, self.offset)

    def read(self, ticks: int) -> None:
        """Let the socket go on for so many ticks, and take what has come."""
        self.writer.wake()
        while self.soon and ticks:
            self.soon.pop(0)()
            ticks -= 1
        frames, self.connection.written = self.connection.written, []
        for frame in frames:
            self.take(frame)

    def take(self, frame: dict[str, Any]) -> None:
        kind = frame.pop("type")
        assert self.offset is None or frame["offset"] >= self.offset
        if kind == "snapshot":
            self.fold = PageFold.of_snapshot(frame)
        else:
            assert self.fold is not None
            assert self.offset is not None
            for event in frame["events"]:
                self.fold.apply(event)
            if len(frame["events"]) < frame["offset"] - self.offset:
                kind = "merged"
        self.seen[kind] += 1
        self.offset = frame["offset"]
        assert self.offset <= self.ring.log.readable


@given(moves, st.integers(1, 40), st.integers(0, 1 << 32))
def test_p9_however_late_and_often_cut_a_page_ends_up_with_the_whole_thread(
    told: list[Any], most: int, seed: int
) -> None:
    seen = lived(told, most, seed)
    assert seen["dead"] == 0


def lived(told: list[Any], most: int, seed: int) -> Counter[str]:
    """What its readers got on the way."""
    dice, tale = random.Random(seed), Tale()
    ring = Ring(tale, most)
    readers = [Reader(ring) for _ in range(3)]

    def on_move() -> None:
        if dice.random() < 0.1:
            ring.log.hold(ring.log.head)
        ring.grow()
        if ring.log.held and dice.random() < 0.5:
            ring.log.release(dice.choice([None, ring.log.head]))
        for slowness, reader in enumerate(readers, 1):
            if dice.random() < 0.05:
                reader.connect()
            if dice.random() < 1 / slowness**2:
                reader.read(dice.choice([1, 1, 99]))

    with patch.object(writer, "LAGGING_EVENTS", LAGGING_EVENTS):
        tale.happens(told, on_move)
        ring.log.release()
        for reader in readers:
            reader.read(1_000)
            assert reader.offset == tale.thread.head
            assert reader.fold is not None
            assert reader.fold.shown() == comparable(picture(tale.thread))
    return sum((reader.seen for reader in readers), Counter())


def test_such_tales_have_snapshots_merged_deltas_and_plain_frames() -> None:
    dice = random.Random(1)
    names = ["text", "text", "think", "stream_a_call", "call", "end", "answer", "ask"]
    told = [(dice.choice(names), dice.randrange(60)) for _ in range(60)]
    seen = lived(told, 20, 1)
    assert min(seen[kind] for kind in ("snapshot", "merged", "events")) > 3, seen
