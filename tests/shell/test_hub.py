"""Every session and every thread of a process, by name; and those that are in the store."""

import pytest
from tests.core.builders import COMPILE
from tests.fake_store import FakeStore

from handspan.core.admission import Roster
from handspan.core.entries import Put
from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy
from handspan.ports import KeptThread
from handspan.shell.hub import CALLS_KEPT, THREADS_LISTED, Hub, listed
from handspan.shell.ids import CountedIds
from handspan_protocol.codec import encode
from handspan_protocol.errors import Unavailable
from handspan_protocol.ids import CallId, ThreadId

T1, T2, OTHERS = (ThreadKey(who, ThreadId(name)) for who, name in
                  (("ann", "t1"), ("ann", "t2"), ("eva", "t1")))  # fmt: skip
HELLO = {"id": "m1", "role": "user", "content": "hello"}
CALL = {
    "runId": "r", "owner": None, "depth": 0, "name": "t", "messageId": "m2", "state": "settled",
    "attempt": 1, "held": {"s": 1}, "asked": False, "decision": None, "last": None,
    "revised": None,
    "settled": {
        "by": "answered", "code": None, "value": "1", "content": None, "errorCode": None,
        "errorMessage": None, "answerCode": None,
    },
}  # fmt: skip


class Broken(FakeStore):
    """It cannot be read."""

    def thread(self, key):
        raise Unavailable("the disk is gone")

    def has_call(self, principal, name):
        raise Unavailable("the disk is gone")


def a_hub(store=None, **policy):
    roster = Roster(("default",), {})
    return Hub(Policy(**policy), CountedIds(), roster, store, COMPILE)


def stored(cls=FakeStore):
    store = cls()
    store.open(lambda call: call())
    body = encode(HELLO)
    store.write([Put(T1, "message", "m1", body), Put(T1, "call", "c1", encode(CALL))], lambda: None)
    return store


def test_a_thread_is_made_once_and_kept_nowhere_without_a_store():
    hub = a_hub()
    assert hub.find(T1) is None
    thread = hub.thread(T1)
    assert hub.find(T1) is hub.thread(T1) is hub.reach(T1, create=False) is thread
    assert (thread.keeping, list(hub.threads)) == (None, [T1])


def test_a_thread_of_the_store_is_found_and_read_once():
    hub = a_hub(stored())
    thread = hub.find(T1)
    assert thread.space.transcript.messages == [HELLO]
    assert thread.keeping is not None
    assert hub.thread(T1) is hub.find(T1) is thread
    assert hub.calls == {("ann", "c1"): T1}


@pytest.mark.parametrize("key", [T2, OTHERS])
def test_p8_what_the_store_has_not_is_not_found_but_may_be_made(key):
    hub = a_hub(stored())
    assert hub.find(key) is None
    assert hub.reach(key, create=False) is None
    made = hub.reach(key, create=True)
    assert made.space.transcript.messages == []
    assert made.keeping is not None


@pytest.mark.parametrize("create", [True, False])
def test_a_thread_that_cannot_be_read_is_not_there_and_harms_no_other(create, caplog):
    hub = a_hub(stored(Broken))
    assert hub.reach(T1, create=create) is None
    assert "the disk is gone" in caplog.text
    assert hub.threads == {}


SPOILED = [
    ("message", "m1", b"no JSON"),
    ("call", "c1", b"{}"),
    ("about", "", b'{"lastRun": 7}'),
    ("run", "r1", b'{"place": 0}'),
]


@pytest.mark.parametrize("entry", SPOILED, ids=[one[0] for one in SPOILED])
@pytest.mark.parametrize("create", [True, False])
def test_a_thread_that_somebody_has_spoiled_is_not_there_and_harms_no_other(entry, create, caplog):
    store = stored()
    store.write([Put(T1, *entry)], lambda: None)
    hub = a_hub(store)
    assert hub.reach(T1, create=create) is None
    assert "t1 cannot be read" in caplog.text
    assert (hub.threads, hub._sources) == ({}, {})
    assert hub.reach(T2, create=True) is not None


def test_p7_the_id_of_a_call_that_is_only_kept_is_given_to_no_other_thread():
    """Its page may have outlived the process, and name it by its id alone."""
    hub = a_hub(stored())
    hub.thread(T2)
    assert hub._sources[T2].claim_call("c1") == "c-1"
    hub.thread(T1)
    assert hub.calls["ann", CallId("c1")] == T1


def test_p7_where_the_store_cannot_say_a_fresh_id_is_right():
    hub = a_hub(stored(Broken))
    hub._make(T2, ())
    assert hub._sources[T2].claim_call("c9") == "c-1"


def test_p12_the_oldest_calls_of_a_thread_are_found_no_longer():
    hub = a_hub()
    hub.thread(T1)
    source = hub._sources[T1]
    names = [source.claim_call(None) for _ in range(CALLS_KEPT + 1)]
    assert ("ann", names[0]) not in hub.calls
    assert ("ann", names[1]) in hub.calls


def test_a_thread_that_leaves_memory_comes_back_from_the_store():
    store = stored()
    hub = a_hub(store, thread_idle=10)
    first = hub.thread(T1)
    first.touched_at = 0.0
    first.log.hold(0)
    assert list(hub.to_evict(11)) == [], "what is not kept yet stays"
    first.log.release()
    assert list(hub.to_evict(11)) == [T1]
    hub.drop(T1)
    assert hub.find(T1) is not first
    assert hub.find(T1).space.transcript.messages == [HELLO]


def kept(name, at, about=b"{}"):
    return KeptThread(ThreadKey("ann", ThreadId(name)), at, about)


def test_a_list_has_threads_in_memory_and_those_that_are_only_kept_newest_first():
    hub = a_hub(stored())
    here, new = hub.thread(T1), hub.thread(T2)
    here.touched_at, new.touched_at = 9.0, 5.0
    rows = listed(
        [here, new],
        [
            kept("t1", 1.0, b'{"title":"hello"}'),
            kept("t9", 2000.0, b'{"title":"kept"}'),
            kept("t8", 3.5),
        ],
        1000.0,
    )
    assert rows == [
        {"threadId": "t9", "updatedAt": "1970-01-01T00:33:20.000Z", "title": "kept"},
        {"threadId": "t2", "updatedAt": "1970-01-01T00:16:45.000Z"},
        {"threadId": "t8", "updatedAt": "1970-01-01T00:00:03.500Z"},
        {"threadId": "t1", "updatedAt": "1970-01-01T00:00:01.000Z", "title": "hello"},
    ]


@pytest.mark.parametrize("about", [b"", b"no JSON", b"[]", b"7", b"{}", b'{"title": 7}'])
def test_a_thread_whose_title_somebody_has_spoiled_is_listed_without_one(about):
    (row,) = listed([], [kept("t1", 1.0, about)], 0.0)
    assert row == {"threadId": "t1", "updatedAt": "1970-01-01T00:00:01.000Z"}


def test_a_list_without_a_store_has_the_titles_of_threads_in_memory():
    hub = a_hub()
    hub.thread(T1).space.transcript.append(HELLO)
    (row,) = listed(hub.threads.values(), (), 0.0)
    assert (row["threadId"], row["title"]) == ("t1", "hello")


def test_p12_a_list_has_only_the_newest():
    rows = listed([], [kept(f"t{n}", float(n)) for n in range(THREADS_LISTED + 1)], 0.0)
    assert len(rows) == THREADS_LISTED
    assert rows[-1]["threadId"] == "t1"
