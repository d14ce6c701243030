"""P16: the process is killed before its n-th operation on the file, for every n.

A child writes batches whose n-th is known, and says into a pipe which were acknowledged. What the
file holds afterwards must be the first so many batches, each whole, and all acknowledged ones.
"""

import os
import signal
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.fake_store import Shelf
from tests.stores.stage import IN_MEMORY, WAIT_S

from handspan.core.entries import Change, Drop, Put
from handspan.core.parties import ThreadKey
from handspan.stores.sqlite import SQLiteStore, schema
from handspan_protocol.ids import SessionId, ThreadId

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

T1, T2 = ThreadKey("ann", ThreadId("t1")), ThreadKey("ann", ThreadId("t2"))
S1 = SessionId("s1")
NUMBER = struct.Struct("<H")

BATCHES = 16
"""How many batches a child writes; the operations of all of them are some 150."""

AT_ONCE = 3
"""How many it writes before it waits for the first of them."""


def batch(n: int) -> list[Change]:
    """The n-th batch: it adds, replaces and drops, on two threads and a session."""
    body = str(n).encode() * (1 + n % 7) ** 4
    return [
        Put(T1, "about", "", str(n).encode()),
        Put(T1, "message", str(n), body),
        Drop(T2) if n % 5 == 0 else Put(T2, "run", str(n % 3), body),
        Put(S1, "reply", str(n), b""),
        *([Drop(T1, "message", str(n - 4)), Drop(S1, "reply")] if n % 4 == 0 else []),
    ]


def after(count: int) -> Any:
    """What is kept after so many batches."""
    shelf = Shelf()
    for n in range(count):
        shelf.apply(batch(n), float(n))
    shown = {key: list(entries.items()) for key, entries in shelf.threads.items()}
    return shown, {key: list(e.items()) for key, e in shelf.sessions.items() if e}


AFTER = [after(count) for count in range(BATCHES + 1)]


def found_in(path: Path) -> Any:
    """What a new process finds, and that the file is whole."""
    store = SQLiteStore(path, synchronous="NORMAL")
    store.open(lambda call: call())
    threads = {
        thread.key: [((e.part, e.name), e.body) for e in store.thread(thread.key)]
        for thread in store.threads()
    }
    sessions = {
        session: [((e.part, e.name), e.body) for e in entries]
        for session, entries in store.sessions().items()
    }
    store._leave()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
    connection.close()
    return threads, sessions


def write_on(path: Path, first: int, tell: Callable[[int], object], n: int) -> None:
    """The child's work: the batches from `first` on; killed before its n-th operation."""

    def die(operation: int) -> None:
        if operation == n:
            os.kill(os.getpid(), signal.SIGKILL)

    store = SQLiteStore(path, synchronous="NORMAL", on_operation=die)
    store.open(lambda call: call())
    for number in range(first, BATCHES):
        kept = threading.Event()

        def done(number: int = number, kept: threading.Event = kept) -> None:
            tell(number)
            kept.set()

        store.write(batch(number), done)
        if number % AT_ONCE == 0:
            assert kept.wait(WAIT_S)
    store._leave()


def run_child(path: Path, first: int, n: int) -> tuple[bool, list[int]]:
    """Whether it came to its end, and which batches it was told are kept."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_on(path, first, lambda number: os.write(writing, NUMBER.pack(number)), n)
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"the child failed at {n}"
    return status == 0, [number for (number,) in NUMBER.iter_unpack(said)]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=IN_MEMORY) as made:
        yield Path(made)


def test_what_was_acknowledged_survives_a_kill_anywhere(folder: Path) -> None:
    """Each child begins a file of its own."""
    for n in range(1, 10_000):
        path = folder / f"{n}.db"
        ended, told = run_child(path, 0, n)
        kept = AFTER.index(found_in(path))
        assert told == list(range(len(told))), f"not in order, at {n}"
        assert len(told) <= kept <= BATCHES, f"at {n}"
        for beside in folder.iterdir():
            beside.unlink()
        if ended:
            break
    assert n > 100, "every batch has some operations"
    assert (len(told), kept) == (BATCHES, BATCHES)


def test_what_was_acknowledged_survives_one_kill_after_the_other(folder: Path) -> None:
    """Each child goes on with the file that the one before it left."""
    path = folder / "threads.db"
    kept, kills = 0, 0
    while kept < BATCHES:
        n = 1 + kills % 40
        _, told = run_child(path, kept, n)
        before, kept = kept, AFTER.index(found_in(path))
        assert told == list(range(before, before + len(told)))
        assert before + len(told) <= kept
        kills += 1
    assert kills > 20
