"""The writer of a socket: order, fairness, bounds and deadlines, over a fake connection."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from handspan.shell import writer as writer_room
from handspan.shell.writer import (
    CONTROL_BYTES_MAX,
    CONTROL_FRAMES_MAX,
    LAGGING_EVENTS,
    SEND_PROGRESS_BYTES,
    Writer,
)
from handspan_protocol.limits import EVENTS_FRAME_BYTES


class FakeClock:
    """Virtual time: `advance` fires what is due, in order."""

    def __init__(self) -> None:
        self.time = 100.0
        self.timers: list[tuple[float, int, Callable[[], None], list[bool]]] = []
        self.count = 0

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        self.count += 1
        live = [True]
        self.timers.append((when, self.count, callback, live))

        class Timer:
            def cancel(self) -> None:
                live[0] = False

        return Timer()

    def pending(self) -> int:
        return sum(1 for *_, live in self.timers if live[0])

    def advance(self, seconds: float) -> None:
        end = self.time + seconds
        while due := sorted(t for t in self.timers if t[0] <= end and t[3][0]):
            timer = due[0]
            self.timers.remove(timer)
            self.time = max(self.time, timer[0])
            timer[2]()
        self.time = end


class FakeConnection:
    """Keeps what was written; full after `room` more messages."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        self.writes = 0
        self.room = 10**9
        self.aborted = 0
        self.closed: list[int] = []
        self.drain: asyncio.Future[None] | None = None
        self.backlog = 0

    def transmit(self, *messages: bytes) -> bool:
        self.writes += 1
        for message in messages:
            self.written.append(json.loads(message))
            self.sizes.append(len(message))
            self.room -= 1
        return self.room > 0

    async def drained(self) -> None:
        self.drain = asyncio.get_running_loop().create_future()
        await self.drain

    def close(self, code: int, reason: str = "") -> None:
        self.closed.append(code)

    def abort(self) -> None:
        self.aborted += 1

    def names(self) -> list[str]:
        return [w.get("name", w["type"]) for w in self.written]


class FakeStream:
    """A log of numbers; `base` is the oldest offset that can be read."""

    def __init__(self, thread_id: str = "t1", epoch: str = "e1", count: int = 0) -> None:
        self.thread_id = thread_id
        self.epoch = epoch
        self.log = self
        self.events = [b"%d" % n for n in range(count)]
        self.base = 0
        self.kept: int | None = None
        """The offset up to which it may be read; None: all of it."""
        self.snapshots: list[str] = []

    @property
    def head(self) -> int:
        return len(self.events)

    @property
    def readable(self) -> int:
        return self.head if self.kept is None else self.kept

    def add(self, *events: bytes) -> None:
        self.events += events

    def read(self, offset: int, limit_bytes: int) -> list[bytes] | None:
        if not self.base <= offset <= self.head:
            return None
        taken: list[bytes] = []
        for event in self.events[offset : self.readable]:
            limit_bytes -= len(event) + 1
            if limit_bytes < 0 and taken:
                break
            taken.append(event)
        return taken

    def snapshot(self, session_id: str) -> bytes:
        self.snapshots.append(session_id)
        return json.dumps(
            {"type": "snapshot", "threadId": self.thread_id, "offset": self.head}
        ).encode()


class Bench:
    """A writer with all its fakes; nothing is flushed unless a test says so."""

    def __init__(self, *, backlog: bool = False) -> None:
        self.clock = FakeClock()
        self.connection = FakeConnection()
        self.soon: list[Callable[[], None]] = []
        self.deaths = 0
        self.writer = Writer(
            self.connection,
            session_id=lambda: "s1",
            heartbeat=20.0,
            send_timeout=10.0,
            clock=self.clock,
            on_dead=self.died,
            backlog=(lambda: self.connection.backlog) if backlog else None,
            soon=lambda callback: self.soon.append(callback),
        )

    def died(self) -> None:
        self.deaths += 1

    def tick(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def frame(name: str) -> bytes:
    return json.dumps({"type": "x", "name": name}).encode()


# ---- when it writes ----


def test_many_wakes_in_one_tick_make_one_flush(bench: Bench) -> None:
    bench.writer.control(frame("a"))
    bench.writer.control(frame("b"))
    bench.writer.wake()
    assert bench.connection.written == []
    assert len(bench.soon) == 1
    bench.tick()
    assert bench.connection.names() == ["a", "b"]
    bench.writer.wake()
    assert len(bench.soon) == 1


def test_events_of_one_tick_go_out_in_one_message_with_the_offset_after_them(bench: Bench) -> None:
    stream = FakeStream(count=3)
    bench.writer.open(stream, 1)
    stream.add(b"3", b"4")
    bench.tick()
    assert bench.connection.written == [
        {"type": "events", "threadId": "t1", "epoch": "e1", "offset": 5, "events": [1, 2, 3, 4]}
    ]


def test_nothing_is_written_twice(bench: Bench) -> None:
    stream = FakeStream(count=2)
    bench.writer.open(stream, 0)
    bench.writer.flush()
    bench.writer.flush()
    stream.add(b"2")
    bench.writer.flush()
    assert [w["events"] for w in bench.connection.written] == [[0, 1], [2]]


def test_an_events_frame_stays_within_64_kib_unless_one_event_is_larger(bench: Bench) -> None:
    stream = FakeStream(thread_id="t" * 128)
    small, large = b'"%b"' % (b"x" * 1_000), b'"%b"' % (b"y" * 100_000)
    stream.add(*[small] * 200, large, *[small] * 200)
    bench.writer.open(stream, 0)
    bench.writer.flush()
    sizes = bench.connection.sizes
    assert sum(size > EVENTS_FRAME_BYTES for size in sizes) == 1
    assert max(s for s in sizes if s < 100_000) > EVENTS_FRAME_BYTES - 1_100
    events = [e for w in bench.connection.written for e in w["events"]]
    assert [len(e) for e in events] == [1_000] * 200 + [100_000] + [1_000] * 200
    assert bench.connection.written[-1]["offset"] == 401


# ---- snapshots ----


@pytest.mark.parametrize("offset", [None, 7])
def test_a_snapshot_comes_first_without_an_offset_or_with_one_beyond_the_head(
    bench: Bench, offset: int | None
) -> None:
    stream = FakeStream(count=3)
    bench.writer.open(stream, offset)
    bench.writer.flush()
    stream.add(b"3")
    bench.writer.flush()
    assert bench.connection.names() == ["snapshot", "events"]
    assert bench.connection.written[1]["events"] == [3]
    assert stream.snapshots == ["s1"]


def test_a_cursor_that_the_ring_left_behind_gets_a_snapshot(bench: Bench) -> None:
    stream = FakeStream(count=5)
    stream.base = 3
    bench.writer.open(stream, 2)
    bench.writer.flush()
    assert bench.connection.names() == ["snapshot"]


def test_an_empty_thread_still_gets_its_snapshot(bench: Bench) -> None:
    bench.writer.open(FakeStream(), None)
    bench.writer.flush()
    assert bench.connection.names() == ["snapshot"]


def test_opening_again_sets_the_cursor_anew(bench: Bench) -> None:
    stream = FakeStream(count=3)
    bench.writer.open(stream, 0)
    bench.writer.flush()
    bench.writer.open(stream, 2)
    bench.writer.flush()
    assert [w["events"] for w in bench.connection.written] == [[0, 1, 2], [2]]


def test_a_closed_thread_is_written_no_more(bench: Bench) -> None:
    stream = FakeStream(count=1)
    bench.writer.open(stream, 0)
    bench.writer.close("t1")
    bench.writer.flush()
    assert bench.connection.written == []


# ---- what is not kept yet ----


def test_nothing_behind_what_may_be_read_is_written(bench: Bench) -> None:
    stream = FakeStream(count=4)
    stream.kept = 2
    bench.writer.open(stream, 0)
    bench.writer.flush()
    bench.writer.flush()
    assert [(w["offset"], w["events"]) for w in bench.connection.written] == [(2, [0, 1])]
    stream.kept = 3
    bench.writer.flush()
    stream.kept = None
    bench.writer.flush()
    assert [w["events"] for w in bench.connection.written[1:]] == [[2], [3]]


def test_a_snapshot_waits_until_all_that_it_shows_may_be_read(bench: Bench) -> None:
    stream = FakeStream(count=4)
    stream.kept = 2
    bench.writer.open(stream, None)
    bench.writer.flush()
    stream.kept = 3
    bench.writer.flush()
    assert (bench.connection.written, stream.snapshots) == ([], ["s1"])
    stream.kept = 4
    bench.writer.flush()
    assert [(w["type"], w["offset"]) for w in bench.connection.written] == [("snapshot", 4)]


def test_p9_a_snapshot_comes_even_where_there_is_always_more_than_is_kept(bench: Bench) -> None:
    """A run that records faster than the disk commits must not keep newcomers waiting."""
    stream = FakeStream(count=4)
    for kept in (2, 3, 4, 5):
        stream.kept = kept
        if kept == 2:
            bench.writer.open(stream, None)
        bench.writer.flush()
        stream.add(b"%d" % (kept + 2))
    told = [(w["type"], w["offset"]) for w in bench.connection.written]
    assert told == [("snapshot", 4), ("events", 5)]
    assert stream.snapshots == ["s1"]


def test_a_cursor_that_the_ring_left_behind_while_it_was_held_gets_its_snapshot_afterwards(
    bench: Bench,
) -> None:
    stream = FakeStream(count=6)
    stream.kept = 2
    bench.writer.open(stream, 0)
    bench.writer.flush()
    stream.base = 4
    bench.writer.flush()
    assert bench.connection.names() == ["events"]
    stream.kept = None
    stream.add(b"6")
    bench.writer.flush()
    told = [(w["type"], w["offset"]) for w in bench.connection.written[1:]]
    assert told == [("snapshot", 6), ("events", 7)]


def test_a_thread_whose_snapshot_waits_holds_up_no_other_thread(bench: Bench) -> None:
    held = FakeStream("held", count=3)
    held.kept = 1
    bench.writer.open(held, None)
    bench.writer.open(FakeStream("other", count=1), 0)
    bench.writer.flush()
    assert [w["threadId"] for w in bench.connection.written] == ["other"]
    held.kept = None
    bench.writer.flush()
    assert [w["threadId"] for w in bench.connection.written] == ["other", "held"]


def test_a_call_behind_what_is_not_kept_waits_and_control_frames_do_not(bench: Bench) -> None:
    stream = FakeStream(count=2)
    stream.kept = 1
    bench.writer.open(stream, 0)
    bench.writer.offer("c1", frame("call"), "t1", after=2)
    bench.writer.control(frame("reply"))
    bench.writer.flush()
    assert bench.connection.names() == ["reply", "events"]
    stream.kept = None
    bench.writer.flush()
    assert bench.connection.names() == ["reply", "events", "events", "call"]


# ---- a page that lags ----


def word(n: int) -> bytes:
    event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": f"{n} "}
    return json.dumps(event, separators=(",", ":")).encode()


def words(written: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for frame in written for event in frame["events"])


def test_a_page_that_lags_gets_merged_deltas_a_frame_a_tick_until_it_has_caught_up(
    bench: Bench,
) -> None:
    stream = FakeStream()
    count = 4 * LAGGING_EVENTS
    stream.add(*map(word, range(count)))
    bench.writer.open(stream, 0)
    at, written = 0, bench.connection.written
    while at < count - LAGGING_EVENTS:
        bench.tick()
        assert len(written[-1]["events"]) == 1
        assert at + LAGGING_EVENTS < written[-1]["offset"] <= count
        at = written[-1]["offset"]
        assert words(written) == "".join(f"{n} " for n in range(at))
    merged_frames = len(written)
    bench.tick()
    assert words(written) == "".join(f"{n} " for n in range(count))
    assert all(len(frame["events"]) > 1 for frame in written[merged_frames:])
    assert written[-1]["offset"] == count
    assert bench.soon == []


@pytest.mark.parametrize("behind", [LAGGING_EVENTS, LAGGING_EVENTS + 1])
def test_only_a_page_that_is_behind_by_more_than_a_frame_lags(bench: Bench, behind: int) -> None:
    stream = FakeStream()
    stream.add(*map(word, range(behind)))
    bench.writer.open(stream, 0)
    bench.tick()
    first = bench.connection.written[0]
    assert (len(first["events"]) == 1) == (behind > LAGGING_EVENTS)


def test_what_is_not_kept_yet_does_not_count(bench: Bench) -> None:
    stream = FakeStream()
    stream.add(*map(word, range(2 * LAGGING_EVENTS)))
    stream.kept = LAGGING_EVENTS
    bench.writer.open(stream, 0)
    bench.tick()
    assert sum(len(frame["events"]) for frame in bench.connection.written) == LAGGING_EVENTS


def test_a_merged_frame_stays_within_64_kib(bench: Bench) -> None:
    stream = FakeStream(thread_id="t" * 128)
    long = [word(n).replace(b' "', b'%b"' % (b"x" * 200)) for n in range(2 * LAGGING_EVENTS)]
    stream.add(*long)
    bench.writer.open(stream, 0)
    bench.tick()
    assert EVENTS_FRAME_BYTES - 500 < bench.connection.sizes[0] <= EVENTS_FRAME_BYTES
    while bench.soon:
        bench.tick()
    texts = "".join(json.loads(event)["delta"] for event in long)
    assert words(bench.connection.written) == texts


def test_control_frames_and_other_threads_do_not_wait_for_a_page_that_catches_up(
    bench: Bench,
) -> None:
    late, other = FakeStream("late"), FakeStream("other", count=1)
    late.add(*map(word, range(9 * LAGGING_EVENTS)))
    bench.writer.open(late, 0)
    bench.writer.open(other, 0)
    bench.tick()
    bench.writer.control(frame("reply"))
    bench.tick()
    told = [w.get("threadId") or w["name"] for w in bench.connection.written]
    assert told == ["late", "reply", "other", "late"]


def test_a_call_comes_when_merged_deltas_have_brought_its_cursor_there(bench: Bench) -> None:
    stream = FakeStream()
    stream.add(*map(word, range(2 * LAGGING_EVENTS)))
    bench.writer.open(stream, 0)
    bench.writer.offer("c1", frame("call"), "t1", after=1)
    bench.tick()
    assert bench.connection.names() == ["events"]
    bench.tick()
    assert bench.connection.names()[:2] == ["events", "call"]


def test_a_page_so_late_that_the_ring_has_left_it_behind_gets_a_snapshot(bench: Bench) -> None:
    stream = FakeStream(count=9 * LAGGING_EVENTS)
    stream.base = 10
    bench.writer.open(stream, 9)
    bench.tick()
    assert bench.connection.names() == ["snapshot"]
    assert bench.soon == []


async def test_a_transport_that_is_full_ends_the_catching_up_until_it_has_drained(
    bench: Bench,
) -> None:
    stream = FakeStream()
    stream.add(*map(word, range(9 * LAGGING_EVENTS)))
    bench.connection.room = 1
    bench.writer.open(stream, 0)
    bench.tick()
    bench.tick()
    assert len(bench.connection.written) == 1
    await asyncio.sleep(0)
    bench.connection.room = 10**9
    assert bench.connection.drain is not None
    bench.connection.drain.set_result(None)
    await asyncio.sleep(0)
    while bench.soon:
        bench.tick()
    assert words(bench.connection.written) == "".join(f"{n} " for n in range(9 * LAGGING_EVENTS))


# ---- order ----


def test_control_frames_go_before_events(bench: Bench) -> None:
    bench.writer.open(FakeStream(count=1), 0)
    bench.writer.control(frame("reply"))
    bench.writer.flush()
    assert bench.connection.names() == ["reply", "events"]


def test_an_offered_call_waits_for_its_cursor_and_lets_other_control_frames_pass(
    bench: Bench,
) -> None:
    stream = FakeStream(count=2)
    bench.writer.open(stream, 0)
    bench.writer.offer("c1", frame("call"), "t1", after=3)
    bench.writer.control(frame("reply"))
    bench.writer.flush()
    assert bench.connection.names() == ["reply", "events"]
    stream.add(b"2")
    bench.writer.flush()
    assert bench.connection.names() == ["reply", "events", "events", "call"]


def test_an_offered_call_goes_as_soon_as_its_offset_is_reached_before_other_threads(
    bench: Bench,
) -> None:
    bench.writer.open(FakeStream("t1", count=1), 0)
    bench.writer.open(FakeStream("t2", count=1), 0)
    bench.writer.offer("c1", frame("call"), "t1", after=1)
    bench.writer.flush()
    assert [w.get("threadId", "call") for w in bench.connection.written] == ["t1", "call", "t2"]


def test_frames_about_one_call_keep_their_order(bench: Bench) -> None:
    stream = FakeStream(count=1)
    bench.writer.open(stream, 0)
    bench.writer.offer("c1", frame("approval"), "t1", after=0)
    bench.writer.offer("c1", frame("call"), "t1", after=1)
    bench.writer.control(frame("cancel"), call_id="c1")
    bench.writer.offer("c1", frame("call 2"), "t1", after=0)
    bench.writer.control(frame("cancel of c2"), call_id="c2")
    bench.writer.flush()
    assert bench.connection.names() == [
        "approval",
        "cancel of c2",
        "events",
        "call",
        "cancel",
        "call 2",
    ]


def test_a_call_offered_on_a_thread_that_is_not_open_goes_at_once(bench: Bench) -> None:
    bench.writer.offer("c1", frame("call"), "elsewhere", after=99)
    bench.writer.flush()
    assert bench.connection.names() == ["call"]


def test_a_waiting_call_goes_when_its_thread_is_closed(bench: Bench) -> None:
    bench.writer.open(FakeStream(count=1), 1)
    bench.writer.offer("c1", frame("call"), "t1", after=9)
    bench.writer.flush()
    assert bench.connection.written == []
    bench.writer.close("t1")
    bench.tick()
    assert bench.connection.names() == ["call"]


def test_a_call_waits_for_a_snapshot_that_is_due(bench: Bench) -> None:
    bench.writer.open(FakeStream(count=4), None)
    bench.writer.offer("c1", frame("call"), "t1", after=2)
    bench.writer.flush()
    assert bench.connection.names() == ["snapshot", "call"]


def test_a_call_of_an_older_log_does_not_wait_for_an_offset_that_never_comes(bench: Bench) -> None:
    bench.writer.open(FakeStream(epoch="e1", count=50), 0)
    bench.writer.offer("c1", frame("call"), "t1", after=60)
    bench.writer.open(FakeStream(epoch="e2", count=1), None)
    bench.writer.flush()
    assert bench.connection.names() == ["snapshot", "call"]


def test_a_withdrawn_call_is_never_written(bench: Bench) -> None:
    bench.writer.open(FakeStream(count=1), 0)
    bench.writer.offer("waits", frame("a"), "t1", after=5)
    bench.writer.offer("ready", frame("b"), "t1", after=0)
    bench.writer.control(frame("cancel"), call_id="waits")
    assert bench.writer.withdraw("waits") is True
    assert bench.writer.withdraw("ready") is True
    assert bench.writer.withdraw("waits") is False
    assert bench.writer.withdraw("unknown") is False
    bench.writer.flush()
    assert bench.connection.names() == ["cancel", "events"]


def test_a_written_call_cannot_be_withdrawn(bench: Bench) -> None:
    bench.writer.offer("c1", frame("a"), "t1", after=0)
    bench.writer.flush()
    assert bench.writer.withdraw("c1") is False


def test_p10_what_is_not_so_any_more_when_its_turn_has_come_is_not_said(bench: Bench) -> None:
    bench.writer.open(FakeStream(count=1), 0)
    bench.writer.offer("over", frame("a"), "t1", 0, lambda: False)
    bench.writer.offer("open", frame("b"), "t1", 0, lambda: True)
    bench.writer.flush()
    assert bench.connection.names() == ["b", "events"]


def test_threads_take_turns(bench: Bench) -> None:
    for name in ("t1", "t2"):
        stream = FakeStream(name)
        stream.add(*[b'"%b"' % (b"x" * 40_000)] * 3)
        bench.writer.open(stream, 0)
    bench.writer.flush()
    assert [w["threadId"] for w in bench.connection.written] == ["t1", "t2"] * 3


# ---- a full transport ----


async def test_what_is_ready_goes_out_in_one_write(bench: Bench) -> None:
    stream = FakeStream(count=1)
    bench.writer.control(frame("a"))
    bench.writer.control(frame("b"))
    bench.writer.open(stream, 0)
    bench.tick()
    assert bench.connection.names() == ["a", "b", "events"]
    assert bench.connection.writes == 1


async def test_more_than_16_kib_is_written_in_parts_between_which_it_is_looked_how_full_it_is(
    bench: Bench,
) -> None:
    for _ in range(5):
        bench.writer.control(frame("x" * 6_000))
    bench.connection.room = 3
    bench.tick()
    assert (bench.connection.writes, len(bench.connection.written)) == (1, 3)


async def test_a_full_transport_stops_the_flush_and_draining_goes_on_with_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_room, "TOGETHER_BYTES", 1)
    stream = FakeStream(count=1)
    bench.connection.room = 1
    bench.writer.control(frame("a"))
    bench.writer.control(frame("b"))
    bench.writer.open(stream, 0)
    bench.tick()
    assert bench.connection.names() == ["a"]
    stream.add(b"1")
    bench.writer.wake()
    assert bench.soon == []
    await asyncio.sleep(0)
    bench.connection.room = 10
    assert bench.connection.drain is not None
    bench.connection.drain.set_result(None)
    await asyncio.sleep(0)
    assert bench.connection.names() == ["a", "b", "events"]
    assert bench.connection.written[2]["events"] == [0, 1]
    assert bench.clock.pending() == 1  # the heartbeat


async def test_a_send_blocked_for_the_timeout_aborts_and_never_closes(bench: Bench) -> None:
    bench.connection.room = 1
    bench.writer.control(frame("a"))
    bench.tick()
    bench.clock.advance(9.9)
    assert bench.connection.aborted == 0
    bench.clock.advance(0.2)
    assert (bench.connection.aborted, bench.deaths, bench.connection.closed) == (1, 1, [])
    assert bench.clock.pending() == 0
    bench.writer.control(frame("b"))
    bench.writer.open(FakeStream(count=1), 0)
    bench.writer.flush()
    assert bench.connection.names() == ["a"]


async def test_a_slow_page_that_takes_enough_in_the_timeout_is_not_blocked() -> None:
    bench = Bench(backlog=True)
    bench.connection.room = 1
    bench.connection.backlog = 3 * SEND_PROGRESS_BYTES
    bench.writer.control(frame("a snapshot"))
    bench.tick()
    for _ in range(2):
        bench.connection.backlog -= SEND_PROGRESS_BYTES
        bench.clock.advance(10)
        assert bench.deaths == 0
    bench.connection.backlog -= SEND_PROGRESS_BYTES - 1
    bench.clock.advance(10)
    assert bench.deaths == 1


async def test_a_connection_that_dies_while_full_ends_the_writer_quietly(bench: Bench) -> None:
    bench.connection.room = 1
    bench.writer.control(frame("a"))
    bench.tick()
    await asyncio.sleep(0)
    assert bench.connection.drain is not None
    bench.connection.drain.set_exception(ConnectionResetError())
    await asyncio.sleep(0)
    assert (bench.connection.aborted, bench.deaths, bench.clock.pending()) == (0, 0, 0)


async def test_stop_cancels_everything(bench: Bench) -> None:
    bench.connection.room = 1
    bench.writer.control(frame("a"))
    bench.tick()
    await asyncio.sleep(0)
    bench.writer.stop()
    await asyncio.sleep(0)
    assert bench.connection.drain is not None
    assert bench.connection.drain.cancelled()
    assert bench.clock.pending() == 0
    assert len(asyncio.all_tasks()) == 1


async def test_a_page_that_lags_gets_a_snapshot_in_place_of_what_left_the_ring(
    bench: Bench,
) -> None:
    stream = FakeStream(count=1)
    bench.connection.room = 1
    bench.writer.open(stream, 0)
    bench.tick()
    stream.add(*[b"0"] * 100)
    stream.base = 50
    await asyncio.sleep(0)
    bench.connection.room = 10
    assert bench.connection.drain is not None
    bench.connection.drain.set_result(None)
    await asyncio.sleep(0)
    assert bench.connection.names() == ["events", "snapshot"]


# ---- bounds and faults ----


def test_too_many_waiting_control_frames_abort_the_connection(bench: Bench) -> None:
    for _ in range(CONTROL_FRAMES_MAX):
        bench.writer.control(b"{}")
    assert bench.connection.aborted == 0
    bench.writer.control(b"{}")
    assert (bench.connection.aborted, bench.deaths) == (1, 1)


def test_too_many_waiting_bytes_abort_the_connection(bench: Bench) -> None:
    bench.writer.control(b'"%b"' % (b"x" * CONTROL_BYTES_MAX))  # alone it may be of any size
    assert bench.connection.aborted == 0
    bench.writer.control(b"{}")
    assert bench.connection.aborted == 1


def test_withdrawn_and_written_frames_no_longer_count(bench: Bench) -> None:
    large = b'"%b"' % (b"x" * (CONTROL_BYTES_MAX - 10))
    bench.writer.open(FakeStream(), 0)
    bench.writer.offer("c1", large, "t1", after=1)
    bench.writer.withdraw("c1")
    bench.writer.offer("c1", large, "elsewhere", after=1)
    bench.connection.transmit = lambda *messages: True  # type: ignore[method-assign]
    bench.writer.flush()
    bench.writer.control(large)
    assert bench.connection.aborted == 0


def test_a_log_that_raises_ends_this_socket_and_nothing_else(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    stream = FakeStream(count=1)

    def fail(session_id: str) -> bytes:
        raise RuntimeError("with a payload")

    stream.snapshot = fail  # type: ignore[method-assign]
    bench.writer.open(stream, None)
    bench.tick()
    assert (bench.connection.aborted, bench.deaths) == (1, 1)
    assert "payload" not in caplog.text
    bench.tick()


# ---- heartbeat ----


def test_a_ping_goes_out_when_nothing_was_sent_for_a_heartbeat(bench: Bench) -> None:
    bench.clock.advance(19.9)
    assert bench.connection.written == []
    bench.clock.advance(0.2)
    assert bench.connection.names() == ["ping"]
    bench.clock.advance(20)
    assert bench.connection.names() == ["ping", "ping"]


def test_whatever_is_sent_puts_the_ping_off(bench: Bench) -> None:
    bench.clock.advance(15)
    bench.writer.control(frame("a"))
    bench.tick()
    bench.clock.advance(15)
    assert bench.connection.names() == ["a"]
    bench.clock.advance(5)
    assert bench.connection.names() == ["a", "ping"]


async def test_no_ping_is_added_to_a_full_transport() -> None:
    bench = Bench(backlog=True)
    bench.connection.room = 1
    bench.connection.backlog = 10**9
    bench.writer.control(frame("a"))
    bench.tick()
    for _ in range(10):
        bench.connection.backlog -= SEND_PROGRESS_BYTES
        bench.clock.advance(10)
    assert bench.connection.names() == ["a"]
    bench.writer.stop()
