"""What of a hello is read: threads to open, threads refused, and where reading ends (P12)."""

import pytest

from handspan.core.greeting import JOURNAL_READ, WISHES_ANSWERED, sort_wishes
from handspan.core.parties import ConnectionId
from handspan.core.session_inputs import Greeted
from handspan_protocol.errors import CommandCode
from handspan_protocol.frames import Hello, ThreadWish

FORBIDDEN, LIMIT = CommandCode.FORBIDDEN, CommandCode.LIMIT


def sorted_of(*names, open_threads=2, denied=()):
    """(threads to open, refused ones with their codes), by names."""
    wishes = tuple(ThreadWish(thread_id=name) for name in names)
    hello = Hello(protocol=1, document_id="d", threads=wishes)
    event = Greeted(ConnectionId(1), hello, denied=frozenset(denied))
    good, refused = sort_wishes(event, open_threads)
    assert all(one.error is not None and one.error.message for one in refused)
    return list(good), [(one.thread_id, one.error.code) for one in refused]


CASES = [
    ("none", [], {}, [], []),
    ("all that there is room for", ["a", "b"], {}, ["a", "b"], []),
    ("one too many", ["a", "b", "c"], {}, ["a", "b"], [("c", LIMIT)]),
    ("one twice is one", ["a", "a", "b"], {}, ["a", "b"], []),
    ("one twice, at the limit", ["a", "b", "a"], {}, ["a", "b"], []),
    (
        "a denied one takes no room",
        ["x", "a", "b"],
        {"denied": "x"},
        ["a", "b"],
        [("x", FORBIDDEN)],
    ),
    (
        "denied is said before limit",
        ["a", "b", "x"],
        {"denied": "x"},
        ["a", "b"],
        [("x", FORBIDDEN)],
    ),
]


@pytest.mark.parametrize(
    ("names", "more", "good", "refused"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_p12_each_thread_is_opened_once_or_refused_with_the_reason(names, more, good, refused):
    assert sorted_of(*names, **more) == (good, refused)


def test_of_a_thread_that_is_wished_twice_the_last_wish_counts():
    wishes = (ThreadWish(thread_id="a"), ThreadWish(thread_id="a", epoch="e", offset=7))
    hello = Hello(protocol=1, document_id="d", threads=wishes)
    good, _ = sort_wishes(Greeted(ConnectionId(1), hello), 2)
    assert good == {"a": wishes[1]}


def test_a_hello_without_threads_opens_none():
    hello = Hello(protocol=1, document_id="d", threads=None)
    assert sort_wishes(Greeted(ConnectionId(1), hello), 2) == ({}, [])


def test_p12_what_stands_behind_the_answered_wishes_is_not_read():
    names = [f"t{n}" for n in range(10_000)]
    good, refused = sorted_of(*names, open_threads=3)
    assert good == names[:3]
    assert refused == [(name, LIMIT) for name in names[3 : 3 + WISHES_ANSWERED]]


def test_p12_the_bounds_are_those_that_the_map_of_the_house_names():
    assert (WISHES_ANSWERED, JOURNAL_READ) == (64, 1_024)
