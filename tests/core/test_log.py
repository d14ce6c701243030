"""A thread's ring: what it keeps, what it shows, and that it equals a list that was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.log import Log


def filled(*events, most=100, most_bytes=1_000):
    log = Log("e1", most, most_bytes)
    for event in events:
        log.append(event)
    return log


def test_an_empty_log_is_read_to_its_end():
    log = filled()
    assert (log.base, log.head, log.read(0, 100), log.reaches(0)) == (0, 0, [], True)
    assert log.read(1, 100) is None


def test_a_reader_gets_what_fits_or_one():
    log = filled(b"aaaa", b"bbbb", b"cccccccccc")
    assert log.read(0, 10) == [b"aaaa", b"bbbb"]
    assert log.read(0, 9) == [b"aaaa"]
    assert log.read(2, 3) == [b"cccccccccc"]
    assert log.read(3, 3) == []


def test_what_has_left_is_out_of_reach():
    log = filled(b"a", b"b", b"c", b"d", most=2)
    assert (log.base, log.head) == (2, 4)
    assert log.read(1, 100) is None
    assert log.read(2, 100) == [b"c", b"d"]
    assert not log.reaches(5)


RINGS = [
    ("bytes, to the last one", [4, 6, 1, 9, 1], {"most_bytes": 10}, [0, 0, 1, 2, 3]),
    ("bytes, again and again", [4] * 6, {"most_bytes": 10}, [0, 0, 1, 2, 3, 4]),
    ("a large one drives out several", [2, 2, 2, 7, 3], {"most_bytes": 10}, [0, 0, 0, 2, 3]),
    ("one that is too large stays until the next", [2, 50, 2, 2], {"most_bytes": 10}, [0, 1, 2, 2]),
    ("events", [1] * 5, {"most": 2}, [0, 0, 1, 2, 3]),
    ("a ring of one", [1] * 3, {"most": 1}, [0, 1, 2]),
    ("whichever is passed first", [1, 1, 1, 9], {"most": 3, "most_bytes": 10}, [0, 0, 0, 2]),
]


@pytest.mark.parametrize(
    ("sizes", "bounds", "bases"), [c[1:] for c in RINGS], ids=[c[0] for c in RINGS]
)
def test_p12_the_oldest_leave_when_the_ring_is_full_and_no_more_of_them_than_must(
    sizes, bounds, bases
):
    log = filled(**bounds)
    events = [bytes([n]) * size for n, size in enumerate(sizes)]
    for n, base in enumerate(bases):
        log.append(events[n])
        assert (log.base, log.head) == (base, n + 1)
        assert log.read(base, 1_000) == events[base : n + 1]


def test_p12_the_newest_event_stays_however_large_it_is():
    log = filled(b"a", b"b" * 5_000, most_bytes=100)
    assert log.read(log.base, 1) == [b"b" * 5_000]
    log.append(b"c")
    assert log.read(log.base, 100) == [b"c"]


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=300),
    st.integers(1, 60),
    st.integers(1, 600),
    st.data(),
)
def test_p12_the_ring_is_the_end_of_the_list_of_all(events, most, most_bytes, data):
    log = Log("e1", most, most_bytes)
    every = []
    for event in events:
        log.append(event)
        every.append(event)
        kept = every[log.base :]
        size = sum(map(len, kept))
        assert log.head == len(every)
        assert len(kept) == 1 or (len(kept) <= most and size <= most_bytes)
        if log.base:
            one_more = size + len(every[log.base - 1])
            assert len(kept) == most or one_more > most_bytes, "it dropped more than it had to"
    offset = data.draw(st.integers(0, len(every) + 2))
    limit = data.draw(st.integers(1, 200))
    read = log.read(offset, limit)
    assert (read is not None) == log.reaches(offset) == (log.base <= offset <= len(every))
    if read is not None:
        assert read == every[offset : offset + len(read)]
        rest = every[offset + len(read) :]
        assert len(read) <= 1 or sum(len(event) + 1 for event in read) <= limit
        assert not rest or (read and sum(len(x) + 1 for x in [*read, rest[0]]) > limit)


def test_a_ring_that_turns_for_long_keeps_little():
    log = Log("e1", 10, 1_000_000)
    for n in range(10_000):
        log.append(b"%d" % n)
    assert log.read(9_990, 1_000) == [b"%d" % n for n in range(9_990, 10_000)]
    assert len(log._events) < 4_000


# ---- what is not kept yet -----------------------------------------------------------------------


def test_everything_may_be_read_unless_it_is_held():
    log = filled(b"a", b"b")
    assert (log.held, log.readable, log.head) == (False, 2, 2)


def test_what_stands_behind_the_hold_is_not_shown():
    log = filled(b"a", b"b")
    log.hold(1)
    log.append(b"c")
    assert (log.held, log.readable, log.head) == (True, 1, 3)
    assert log.read(0, 100) == [b"a"]
    assert log.read(1, 100) == log.read(2, 100) == log.read(3, 100) == []
    assert log.reaches(3)


def test_a_second_hold_shows_no_more_than_the_first():
    log = filled(b"a", b"b", b"c")
    log.hold(1)
    log.hold(3)
    assert log.readable == 1


def test_what_is_kept_is_shown_and_the_rest_stays_held():
    log = filled(b"a", b"b", b"c", b"d")
    log.hold(1)
    log.release(3)
    log.append(b"e")
    assert (log.held, log.readable) == (True, 3)
    assert log.read(1, 100) == [b"b", b"c"]
    assert log.read(2, 100) == [b"c"], "the newest that is shown, not the newest"


def test_a_release_up_to_the_head_still_holds_what_comes():
    log = filled(b"a", b"b")
    log.hold(0)
    log.release(2)
    assert log.read(1, 100) == [b"b"]
    log.append(b"c")
    assert log.read(2, 100) == []


def test_released_altogether_it_shows_all_and_what_comes():
    log = filled(b"a", b"b")
    log.hold(0)
    log.append(b"c")
    log.release()
    assert (log.held, log.readable) == (False, 3)
    log.append(b"d")
    assert log.read(2, 100) == [b"c", b"d"]
    log.hold(4)
    assert log.readable == 4


def test_a_ring_that_drops_what_is_held_shows_nothing_until_it_is_released():
    log = filled(b"a", most=2)
    log.hold(1)
    for event in (b"b", b"c", b"d"):
        log.append(event)
    assert (log.base, log.readable, log.head) == (2, 1, 4)
    assert log.read(0, 100) is log.read(1, 100) is None
    assert log.read(2, 100) == log.read(3, 100) == []
    log.release()
    assert log.read(2, 100) == [b"c", b"d"]


@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=9),
            st.tuples(st.sampled_from(("hold", "keep")), st.integers(0, 9)),
            st.just(("release", 0)),
        ),
        max_size=80,
    ),
    st.integers(1, 20),
)
def test_whatever_is_held_and_released_a_reader_gets_the_list_up_to_what_is_kept(moves, most):
    log = Log("e1", most, 1_000)
    every = []
    for move in moves:
        if isinstance(move, bytes):
            log.append(move)
            every.append(move)
            continue
        kind, back = move
        kept = max(log.readable if log.held else 0, log.head - back)
        match kind:
            case "hold":
                log.hold(kept)
            case "keep" if log.held:
                log.release(kept)
            case "release":
                log.release()
        assert log.readable <= log.head
        assert log.held or log.readable == log.head
        for offset in range(log.base, log.head + 1):
            assert log.read(offset, 1_000) == every[offset : log.readable]


def test_the_newest_events_are_those_at_the_head_even_if_nobody_may_read_them_yet():
    log = Log("e", max_events=3, max_bytes=100)
    for n in range(5):
        log.append(b"%d" % n)
    log.hold(3)
    assert log.newest(2) == [b"3", b"4"]
    assert log.newest(9) == [b"2", b"3", b"4"]
    assert log.newest(0) == []
