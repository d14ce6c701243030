"""A store with its loop in a test's hands: what comes through `soon` waits until it is called.

`hold` keeps the writer from committing, `settle` lets everything be kept and calls what waits,
`crash` gives what a new process finds. One class for each implementation of the port.
"""

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fake_store import FakeStore

from handspan.core.entries import Change
from handspan.ports import Store
from handspan.stores.sqlite import SQLiteStore

WAIT_S = 5
"""A bound against hanging."""

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where a folder has no disk behind it: a process that is killed needs none. None: anywhere."""


class Ticks:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """What the tests of the contract ask for."""

    store: Store

    def __init__(self) -> None:
        self.clock = Ticks()
        self.called: list[Any] = []
        """Names of the writes that were acknowledged."""

    def write(self, *changes: Change, name: Any = None) -> None:
        self.store.write(changes, lambda: self.called.append(name))


class FakeStage(Stage):
    def __init__(self, store: FakeStore | None = None, **limits: Any) -> None:
        super().__init__()
        self.store: FakeStore = store or FakeStore(now=self.clock, **limits)
        self.calls: list[Callable[[], None]] = []
        self.store.open(self.calls.append)

    @contextmanager
    def hold(self) -> Iterator[None]:
        yield

    def settle(self) -> None:
        self.store.commit()
        self.turn()

    def turn(self) -> None:
        calls, self.calls[:] = self.calls[:], []
        for call in calls:
            call()

    def crash(self) -> "FakeStage":
        return FakeStage(self.store.crash())

    def leave(self) -> None:
        """A fake has nothing to let go of."""


class SQLiteStage(Stage):
    def __init__(self, folder: Path, name: str = "threads.db", **options: Any) -> None:
        super().__init__()
        self.folder = folder
        self.path = folder / name
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        """Set when the writer stands before the closed gate."""
        self.operations = 0
        options = {"now": self.clock, "on_operation": self.operate} | options
        self.store: SQLiteStore = SQLiteStore(self.path, **options)
        self.store.open(self.calls.put)

    def operate(self, n: int) -> None:
        self.operations = n
        if not self.gate.is_set():
            self.at_gate.set()
            assert self.gate.wait(WAIT_S), "a test held the writer and did not let go"

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()
            self.at_gate.clear()

    def settle(self) -> None:
        kept = threading.Event()
        self.store.write((), kept.set)
        while not kept.is_set():
            self.calls.get(timeout=WAIT_S)()

    def crash(self) -> "SQLiteStage":
        """A process that begins with the files as they are at this moment."""
        found = self.folder / "crashed"
        found.mkdir()
        for beside in ("", "-wal"):
            source = self.path.with_name(self.path.name + beside)
            if source.exists():
                shutil.copy(source, found / source.name)
        return SQLiteStage(found, self.path.name, synchronous="NORMAL")

    def leave(self) -> None:
        """Let go at once, without a loop."""
        self.gate.set()
        writer = self.store._end(lambda: None)
        if writer is not None:
            writer.join(WAIT_S)
