"""The contract of a durable `ports.Store`, over every one there is."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_store import Shelf
from tests.stores.stage import IN_MEMORY, WAIT_S, FakeStage, SQLiteStage, Stage

from handspan.core.entries import Change, Drop, Entry, Put
from handspan.core.parties import ThreadKey
from handspan.ports import KeptThread, Store
from handspan_protocol.errors import UsageError
from handspan_protocol.ids import SessionId, ThreadId

T1, T2 = ThreadKey("ann", ThreadId("t1")), ThreadKey("ann", ThreadId("t2"))
BOBS = ThreadKey("bob", ThreadId("t1"))
S1, S2 = SessionId("s1"), SessionId("s2")

Make = Callable[..., Any]


@pytest.fixture(params=["fake", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a stage, with the limits that it is given."""
    stages: list[Any] = []

    def made(**limits: float) -> Any:
        folder = tmp_path / str(len(stages))
        folder.mkdir()
        fake = request.param == "fake"
        stages.append(FakeStage(**limits) if fake else SQLiteStage(folder, **limits))
        return stages[-1]

    yield made
    for stage in stages:
        stage.leave()


@pytest.fixture
def stage(make: Make) -> Any:
    return make()


def message(key: ThreadKey, name: str, body: bytes = b"{}") -> Put:
    return Put(key, "message", name, body)


def names(entries: Any) -> list[tuple[str, str]]:
    return [(entry.part, entry.name) for entry in entries]


# ---- entries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [True, False])
def test_entries_stand_in_the_order_they_first_came(stage: Any, settled: bool) -> None:
    with stage.hold():
        stage.write(message(T1, "b", b"1"), Put(T1, "about", "", b"{}"), message(T1, "a", b"2"))
        stage.write(message(T1, "b", b"3"))
        if not settled:
            assert_b_kept_its_place(stage.store)
    stage.settle()
    assert_b_kept_its_place(stage.store)


def assert_b_kept_its_place(store: Store) -> None:
    assert list(store.thread(T1)) == [
        Entry("message", "b", b"3"),
        Entry("about", "", b"{}"),
        Entry("message", "a", b"2"),
    ]


def test_one_that_was_dropped_stands_behind_the_others_when_it_comes_again(stage: Any) -> None:
    stage.write(message(T1, "a"), message(T1, "b"))
    stage.write(Drop(T1, "message", "a"), message(T1, "a"), message(T1, "c"))
    stage.settle()
    assert [name for _, name in names(stage.store.thread(T1))] == ["b", "a", "c"]


@pytest.mark.parametrize("scope", [T1, S1])
def test_an_entry_a_part_or_all_can_be_dropped(stage: Any, scope: Any) -> None:
    def left() -> list[tuple[str, str]]:
        store = stage.store
        return names(store.thread(scope) if scope == T1 else store.sessions().get(scope, ()))

    five = [("x", "1"), ("x", "2"), ("y", ""), ("y", "1"), ("y", "2")]
    stage.write(*(Put(scope, part, name, b"1") for part in ("x", "y") for name in ("", "1", "2")))
    for change, rest in (
        (Drop(scope, "x", ""), five),
        (Drop(scope, "x", "9"), five),
        (Drop(scope, "x"), five[2:]),
        (Drop(scope), []),
        (Drop(scope), []),
    ):
        with stage.hold():
            stage.write(change)
            assert left() == rest
        stage.settle()
        assert left() == rest


def test_threads_and_sessions_of_one_name_and_users_of_one_thread_id_do_not_meet(
    stage: Any,
) -> None:
    """P8"""
    same = SessionId("t1")
    stage.write(message(T1, "a", b"1"), message(BOBS, "a", b"2"), Put(same, "message", "a", b"3"))
    stage.write(Drop(T1))
    stage.settle()
    assert list(stage.store.thread(T1)) == []
    assert list(stage.store.thread(BOBS)) == [Entry("message", "a", b"2")]
    assert stage.store.sessions() == {same: [Entry("message", "a", b"3")]}


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "'; --", "é\U0001f600", "\ud800", "%_", "None"])
def test_names_are_any_text_and_bodies_any_bytes(stage: Any, text: str) -> None:
    """P4: also half of a surrogate pair, of a user whose name came from elsewhere."""
    key, session = ThreadKey(text, ThreadId(text)), SessionId(text)
    body = bytes(range(256)) * 100
    stage.write(Put(key, text, text, body), Put(key, "run", text, b""), Put(session, text, "", b""))
    stage.settle()
    assert list(stage.store.thread(key)) == [Entry(text, text, body), Entry("run", text, b"")]
    assert stage.store.sessions() == {session: [Entry(text, "", b"")]}
    assert [thread.key for thread in stage.store.threads(text)] == [key]
    assert list(stage.store.unfinished()) == [key]


# ---- lists -----------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [True, False])
def test_threads_are_told_newest_first_with_what_they_are_about(stage: Any, settled: bool) -> None:
    with stage.hold():
        for n, key in enumerate((T1, BOBS, T2)):
            stage.clock.now = 1_000.0 + n
            stage.write(message(key, "a"))
        stage.clock.now = 1_010.0
        stage.write(Put(T1, "about", "", b'{"title":"one"}'), Put(T1, "about", "more", b"1"))
        stage.write(Put(T2, "about", "more", b"1"), Put(S1, "self", "", b"{}"))
        if not settled:
            assert_newest_first(stage.store)
    stage.settle()
    assert_newest_first(stage.store)


def assert_newest_first(store: Store) -> None:
    t1 = KeptThread(T1, 1_010.0, b'{"title":"one"}')
    t2 = KeptThread(T2, 1_010.0, b"{}")
    bobs = KeptThread(BOBS, 1_001.0, b"{}")
    assert list(store.threads()) == [t1, t2, bobs]
    assert list(store.threads("ann")) == [t1, t2]
    assert list(store.threads("nobody")) == []


def test_a_thread_is_told_until_all_of_it_is_dropped(stage: Any) -> None:
    def told() -> list[tuple[ThreadKey, float]]:
        return [(thread.key, thread.updated_at) for thread in stage.store.threads()]

    stage.write(Drop(T1, "message"), Drop(T1))
    stage.settle()
    assert told() == []
    stage.write(message(T1, "a"), Put(T1, "about", "", b'{"title":"x"}'))
    stage.settle()
    stage.clock.now += 1
    with stage.hold():
        stage.write(Drop(T1, "message"), Drop(T1, "about"))
        assert told() == [(T1, stage.clock.now)]
        assert stage.store.threads()[0].about == b"{}"
    stage.settle()
    assert told() == [(T1, stage.clock.now)]
    with stage.hold():
        stage.write(Drop(T1))
        assert told() == []
    stage.settle()
    assert told() == []


@pytest.mark.parametrize("settled", [True, False])
def test_a_list_of_threads_may_be_cut_to_the_newest(stage: Any, settled: bool) -> None:
    with stage.hold():
        for n in range(4):
            stage.clock.now = 1_000.0 + n
            stage.write(Put(ThreadKey("ann", ThreadId(f"n{n}")), "about", "", b"%d" % n))
        if not settled:
            assert [t.key.thread_id for t in stage.store.threads("ann", 2)] == ["n3", "n2"]
    stage.settle()
    assert [t.key.thread_id for t in stage.store.threads("ann", 2)] == ["n3", "n2"]
    with stage.hold():
        stage.clock.now = 1_010.0
        stage.write(message(ThreadKey("ann", ThreadId("n0")), "m"))
        newest = stage.store.threads("ann", 2)
        assert [(t.key.thread_id, t.about) for t in newest] == [("n0", b"0"), ("n3", b"3")]
        assert stage.store.threads("bob", 2) == []


@pytest.mark.parametrize("settled", [True, False])
def test_a_call_is_known_by_its_name_among_all_threads_of_its_principal(
    stage: Any, settled: bool
) -> None:
    with stage.hold():
        stage.write(Put(T1, "call", "c1", b"{}"), message(T1, "c2"))
        if not settled:
            assert stage.store.has_call("ann", "c1")
    stage.settle()
    found = [stage.store.has_call(*of) for of in [("ann", "c1"), ("bob", "c1"), ("ann", "c2")]]
    assert found == [True, False, False]


def test_threads_with_a_run_are_unfinished(stage: Any) -> None:
    def told() -> list[ThreadKey]:
        return sorted(stage.store.unfinished())

    stage.write(Put(T1, "run", "r1", b"{}"), Put(T1, "run", "r2", b"{}"), message(T2, "run"))
    stage.settle()
    assert told() == [T1]
    with stage.hold():
        stage.write(Put(BOBS, "run", "r1", b"{}"), Drop(T1, "run", "r1"))
        assert told() == [T1, BOBS]
        stage.write(Drop(T1, "run", "r2"))
        assert told() == [BOBS]
    stage.settle()
    assert told() == [BOBS]
    stage.write(Drop(BOBS))
    stage.settle()
    assert told() == []


# ---- what is acknowledged --------------------------------------------------------------------


def test_a_write_is_acknowledged_once_and_in_order(stage: Any) -> None:
    for n in range(20):
        stage.write(message(T1, str(n)), name=n)
    stage.settle()
    assert stage.called == list(range(20))
    stage.settle()
    assert stage.called == list(range(20))


def test_a_write_without_changes_is_acknowledged_in_its_turn(stage: Any) -> None:
    stage.write(message(T1, "a"), name=1)
    stage.write(name=2)
    stage.write(message(T1, "b"), name=3)
    stage.settle()
    assert stage.called == [1, 2, 3]


def test_what_is_not_committed_is_not_acknowledged_and_a_crash_may_lose_it(stage: Any) -> None:
    """P16: but never a part of a write, and nothing that was acknowledged."""
    stage.write(message(T1, "kept"), name=1)
    stage.settle()
    with stage.hold():
        stage.write(message(T1, "lost"), message(T2, "lost"), name=2)
        assert names(stage.store.thread(T1))[-1] == ("message", "lost")
        assert stage.called == [1]
        found = stage.crash()
    assert names(found.store.thread(T1)) == [("message", "kept")]
    assert [thread.key for thread in found.store.threads()] == [T1]
    found.leave()


CHANGES = st.lists(
    st.one_of(
        st.builds(
            Put,
            st.sampled_from([T1, T2, S1]),
            st.sampled_from(["about", "run", "message"]),
            st.sampled_from(["", "a", "b"]),
            st.binary(max_size=2),
        ),
        st.builds(Drop, st.sampled_from([T1, T2, S1])),
        st.builds(Drop, st.sampled_from([T1, T2, S1]), st.sampled_from(["about", "run"])),
        st.builds(
            Drop,
            st.sampled_from([T1, T2, S1]),
            st.sampled_from(["about", "run", "message"]),
            st.sampled_from(["", "a"]),
        ),
    ),
    max_size=4,
)
"""One write."""


@given(st.lists(CHANGES, max_size=6), st.lists(CHANGES, max_size=6))
def test_whatever_is_written_is_read_as_a_dict_would_have_it(
    settled: list[list[Change]], waiting: list[list[Change]]
) -> None:
    """Committed, still waiting, and both; what a crash leaves is what was settled."""
    with TemporaryDirectory(dir=IN_MEMORY) as folder:
        stage = SQLiteStage(Path(folder), synchronous="NORMAL")
        expected = Shelf()
        ticks = itertools.count(1_000)
        try:
            for changes in settled:
                written(stage, expected, changes, next(ticks))
            stage.settle()
            assert_read_as(stage.store, expected)
            with stage.hold():
                for changes in waiting:
                    written(stage, expected, changes, next(ticks))
                assert_read_as(stage.store, expected)
            assert_read_as(stage.store, expected)
            stage.settle()
            assert_read_as(stage.store, expected)
            found = stage.crash()
            assert_read_as(found.store, expected)
            found.leave()
        finally:
            stage.leave()


def written(stage: Stage, expected: Shelf, changes: list[Change], at: float) -> None:
    stage.clock.now = at
    stage.write(*changes)
    expected.apply(changes, at)


def assert_read_as(store: Store, shelf: Shelf) -> None:
    def entries(found: dict[tuple[str, str], bytes]) -> list[Entry]:
        return [Entry(part, name, body) for (part, name), body in found.items()]

    for key in (T1, T2):
        assert list(store.thread(key)) == entries(shelf.threads.get(key, {}))
    assert store.sessions() == {key: entries(e) for key, e in shelf.sessions.items() if e}
    told = {thread.key: (thread.updated_at, thread.about) for thread in store.threads()}
    assert told == {
        key: (shelf.updated[key], e.get(("about", ""), b"{}")) for key, e in shelf.threads.items()
    }
    runs = [key for key, e in shelf.threads.items() if any(part == "run" for part, _ in e)]
    assert sorted(store.unfinished()) == sorted(runs)


# ---- limits ----------------------------------------------------------------------------------


def test_a_sweep_lets_go_of_what_is_too_old_and_not_to_be_kept(make: Make) -> None:
    stage = make(max_age=100)
    stage.write(message(T1, "a"), message(T2, "a"), Put(S1, "self", "", b"{}"))
    stage.clock.now += 99
    stage.write(message(BOBS, "a"))
    stage.store.sweep([])
    stage.settle()
    assert len(stage.store.threads()) == 3
    stage.clock.now += 2
    with stage.hold():
        stage.store.sweep([T2])
        assert {thread.key for thread in stage.store.threads()} == {T2, BOBS}
        assert list(stage.store.thread(T1)) == []
    stage.settle()
    assert {thread.key for thread in stage.store.threads()} == {T2, BOBS}
    assert S1 in stage.store.sessions()


def test_without_limits_nothing_is_let_go(make: Make) -> None:
    stage = make()
    stage.write(message(T1, "a", b"x" * 100_000))
    stage.settle()
    stage.clock.now += 1e9
    stage.store.sweep([])
    stage.settle()
    assert [thread.key for thread in stage.store.threads()] == [T1]


# ---- the end ---------------------------------------------------------------------------------


async def test_closing_keeps_what_was_written_and_calls_what_waits(make: Make) -> None:
    stage = make()
    loop = asyncio.get_running_loop()
    stage.store.open(loop.call_soon_threadsafe)
    for n in range(3):
        stage.write(message(T1, str(n)), name=n)
    async with asyncio.timeout(WAIT_S):
        await stage.store.close()
        await stage.store.close()
    await asyncio.sleep(0)
    assert stage.called == [0, 1, 2]
    assert stage.store.troubled is None
    with pytest.raises(UsageError):
        stage.write(message(T1, "late"))
    with pytest.raises(UsageError):
        stage.store.threads()
    stage.store.open(loop.call_soon_threadsafe)
    assert [name for _, name in names(stage.store.thread(T1))] == ["0", "1", "2"]
    stage.write(message(T1, "3"), name=3)
    await stage.store.close()
    await asyncio.sleep(0)
    assert stage.called == [0, 1, 2, 3]


def test_a_store_that_is_opened_for_another_loop_goes_on(stage: Any) -> None:
    """The loop before is gone; what it waited for is kept all the same."""

    def closed(call: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    if isinstance(stage, FakeStage):
        stage.write(message(T1, "a"), name=1)
        stage.store.open(stage.calls.append)
    else:
        stage.store.open(closed)
        stage.write(message(T1, "a"), name=1)
        stage.store.open(stage.calls.put)
    stage.write(message(T1, "b"), name=2)
    stage.settle()
    assert names(stage.store.thread(T1)) == [("message", "a"), ("message", "b")]
    assert stage.called[-1] == 2
