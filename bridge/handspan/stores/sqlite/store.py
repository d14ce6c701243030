"""The port: what is committed and what still waits, as one; ages and sizes; the beginning and end.

Every reading takes the newest commit and lays over it the changes that this commit lacks. So it
sees all that was written, and waits for nothing.
"""

import asyncio
import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from handspan.core.entries import Change, Drop, Entry, Put
from handspan.core.parties import ThreadKey
from handspan.ports import KeptThread
from handspan_protocol.errors import Unavailable, UsageError
from handspan_protocol.ids import SessionId

from . import place, schema
from .reading import Entries, Reading
from .writer import CLOSE_S, Operations, Soon, Writer, Written

_LOG = logging.getLogger("handspan.store")

SYNCHRONOUS: Final = ("FULL", "NORMAL")
"""FULL: a commit is on the disk. NORMAL: it survives the process, not the machine's power."""

LOG_BYTES: Final = 16 * 1024 * 1024
"""What the write-ahead log may keep of the disk when all of it is in the file."""

SPARSE: Final = 2
"""Pages may be half empty, so a thread may free twice what its entries take. Sweeps come again, and
what was let go of too early does not."""

SWEPT_AT_ONCE: Final = 100
"""How many threads one sweep lets go of, so that no commit waits long for it."""

LEAVE_S: Final = CLOSE_S + 2.0
"""How long the end of the writer is waited for; a disk that hangs does not hang the process."""


class SQLiteStore:
    """`ports.Store` in one file, which one process has at a time.

    `max_age` in seconds and `max_bytes` of the file are kept by `sweep`. `on_operation(n)` is for
    tests: called before each operation on the file, counted from 1, by the thread that does it;
    what it raises is the operation's failure.

    Raises:
        UsageError: a value that cannot be one.
    """

    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str = "FULL",
        max_age: float | None = None,
        max_bytes: int | None = None,
        on_operation: Callable[[int], object] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise UsageError(f"synchronous is FULL or NORMAL, not {synchronous!r}")
        for name, limit in (("max_age", max_age), ("max_bytes", max_bytes)):
            if limit is not None and not 0 < limit < math.inf:
                raise UsageError(f"{name} is a number above 0, not {limit!r}")
        self.path = Path(path).resolve()
        self._synchronous = synchronous
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._on_operation = on_operation
        self._now = now
        self._writer: Writer | None = None
        self._reading: Reading | None = None
        self._soon: Soon = _nobody
        self._process = 0
        self._swept = 0
        """The number of the newest sweep's write."""

    # ---- the beginning and the end -----------------------------------------------------------

    def open(self, soon: Soon) -> None:
        """Begin; one that is open already, for a loop that is gone, goes on with this one.

        Raises:
            Unavailable: another process has it, it is of a newer version, damaged, no file of ours,
                or cannot be made.
        """
        self._soon = soon
        if self._writer is not None:
            return
        place.make(self.path)
        lock = place.Lock(self.path)
        try:
            with place.told(self.path):
                self._begin(lock)
        except BaseException:
            lock.release()
            raise
        atexit.register(self._leave)

    def _begin(self, lock: place.Lock) -> None:
        with ExitStack() as undo:
            execute = Operations(place.connect(self.path), self._on_operation)
            undo.callback(execute.connection.close)
            execute(f"PRAGMA synchronous = {self._synchronous}")
            schema.bring_up(execute, self.path)
            execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
            reading = Reading(self.path)
            undo.callback(reading.close)
            writer = Writer(self.path, execute, lock, reading.written())
            undo.pop_all()
        self._reading, self._writer, self._process = reading, writer, os.getpid()

    async def close(self) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        writer = self._end(partial(loop.call_soon_threadsafe, ended.set))
        if writer is None:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                await ended.wait()  # behind the newest `done`, where `soon` is this loop's
        except TimeoutError:
            _LOG.error("%s hangs, and is left behind", self.path)
        else:
            writer.join()

    def _leave(self) -> None:
        """The process ends, and nobody has closed the store. (A child has not its threads.)"""
        ended = threading.Event()
        if self._process == os.getpid() and self._end(ended.set) is not None:
            ended.wait(LEAVE_S)

    def _end(self, ended: Callable[[], object]) -> Writer | None:
        writer, self._writer = self._writer, None
        if writer is None:
            return None
        atexit.unregister(self._leave)
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()
        writer.end(ended)
        return writer

    @property
    def troubled(self) -> str | None:
        return self._writer.trouble if self._writer else None

    # ---- writing -----------------------------------------------------------------------------

    def write(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        """Keep all of these or none, behind what was written before.

        Raises:
            UsageError: the store is not open.
        """
        writer, _ = self._at_work()
        writer.put(tuple(changes), done, self._soon, self._now())

    def sweep(self, keep: Collection[ThreadKey]) -> None:
        """Let go of the oldest threads beyond `max_age` and `max_bytes`, SWEPT_AT_ONCE at most.

        What is let go of is gone for every reader from now on; the file shrinks behind it. It takes
        some sweeps to come from far beyond `max_bytes` to just below. A file that cannot be read is
        swept another time.

        Raises:
            UsageError: the store is not open.
        """
        writer, _ = self._at_work()
        try:
            drops, trim = self._to_sweep(keep)
        except Unavailable as problem:
            _LOG.warning("nothing is swept: %s", problem)
            return
        if trim:
            self._swept = writer.put(drops, _nothing, self._soon, self._now(), trim=True)

    def _to_sweep(self, keep: Collection[ThreadKey]) -> tuple[list[Drop], bool]:
        """What to let go of, and whether the file is to be made smaller."""
        _, reading = self._at_work()
        with self._view() as waiting:
            if any(written.number == self._swept for written in waiting):
                return [], False  # what it frees is not to be counted twice
            at_work = {change.scope for written in waiting for change in written.changes}
            gone = list(self._beyond(reading, {*keep, *at_work}))
            return [Drop(key) for key in gone], bool(gone) or reading.has_free_pages()

    def _beyond(self, reading: Reading, keep: Collection[object]) -> Iterator[ThreadKey]:
        since = -math.inf if self._max_age is None else self._now() - self._max_age
        over = 0 if self._max_bytes is None else reading.used_bytes() - self._max_bytes
        left = SWEPT_AT_ONCE
        for key, updated_at in reading.oldest():
            if (updated_at >= since and over <= 0) or left == 0:
                return
            if key not in keep:
                over -= reading.size(key) * SPARSE
                left -= 1
                yield key

    # ---- reading -----------------------------------------------------------------------------

    def sessions(self) -> Mapping[SessionId, Sequence[Entry]]:
        _, reading = self._at_work()
        with self._view() as waiting:
            found = reading.sessions()
        for change, _ in _changes(waiting):
            if not isinstance(change.scope, ThreadKey):
                _lay_over(found.setdefault(change.scope, {}), change)
        return {session: _entries(entries) for session, entries in found.items() if entries}

    def thread(self, key: ThreadKey) -> Sequence[Entry]:
        _, reading = self._at_work()
        with self._view() as waiting:
            found = reading.thread(key)
        for change, _ in _changes(waiting):
            if change.scope == key:
                _lay_over(found, change)
        return _entries(found)

    def threads(
        self, principal: str | None = None, limit: int | None = None
    ) -> Sequence[KeptThread]:
        _, reading = self._at_work()
        with self._view() as waiting:
            changed = {change.scope for change, _ in _changes(waiting)}
            found = reading.threads(principal, None if limit is None else limit + len(changed))
            for key in changed:
                if isinstance(key, ThreadKey) and principal in (None, key.principal):
                    found |= reading.listed(key)
        for change, at in _changes(waiting):
            if isinstance(change.scope, ThreadKey) and principal in (None, change.scope.principal):
                _list_anew(found, change.scope, change, at)
        return sorted(found.values(), key=lambda thread: (-thread.updated_at, thread.key))[:limit]

    def has_call(self, principal: str, name: str) -> bool:
        _, reading = self._at_work()
        with self._view() as waiting:
            if reading.has_call(principal, name):
                return True
        return any(
            isinstance(change, Put)
            and isinstance(change.scope, ThreadKey)
            and (change.scope.principal, change.part, change.name) == (principal, "call", name)
            for change, _ in _changes(waiting)
        )

    def unfinished(self) -> Sequence[ThreadKey]:
        _, reading = self._at_work()
        with self._view() as waiting:
            found = reading.runs()
        for change, _ in _changes(waiting):
            if isinstance(change.scope, ThreadKey) and change.part in (None, "run"):
                _lay_over(found.setdefault(change.scope, {}), change)
        return [key for key, runs in found.items() if runs]

    # ---- parts -------------------------------------------------------------------------------

    def _at_work(self) -> tuple[Writer, Reading]:
        if self._writer is None or self._reading is None:
            raise UsageError(f"the store {self.path} is not open")
        return self._writer, self._reading

    @contextmanager
    def _view(self) -> Iterator[list[Written]]:
        """One moment of the file, and of what waits that which it lacks."""
        writer, reading = self._at_work()
        waiting = writer.waiting()
        with reading.moment():
            written = reading.written() if waiting else 0
            yield [each for each in waiting if each.number > written]


def _changes(waiting: Sequence[Written]) -> Iterator[tuple[Change, float]]:
    for written in waiting:
        for change in written.changes:
            yield change, written.at


def _lay_over(entries: Entries, change: Change) -> None:
    """Do to these entries what `schema.statements` does to theirs."""
    if isinstance(change, Put):
        entries[change.part, change.name] = change.body
        return
    for part, name in list(entries):
        if change.part is None or (part == change.part and change.name in (None, name)):
            del entries[part, name]


def _list_anew(
    found: dict[ThreadKey, KeptThread], key: ThreadKey, change: Change, at: float
) -> None:
    """Do to a list of threads what a change does to the rows of theirs."""
    known = found.get(key)
    if isinstance(change, Drop) and change.part is None:
        found.pop(key, None)
    elif isinstance(change, Put) or known is not None:
        about = known.about if known else _NO_ABOUT
        if change.part == "about" and change.name in (None, ""):
            about = change.body if isinstance(change, Put) else _NO_ABOUT
        found[key] = KeptThread(key, at, about)


_NO_ABOUT: Final = b"{}"


def _entries(found: Entries) -> list[Entry]:
    return [Entry(part, name, body) for (part, name), body in found.items()]


def _nothing() -> None:
    """What a sweep waits for."""


def _nobody(call: Callable[[], None]) -> None:
    raise AssertionError("invariant: nothing is written before the store is open")
