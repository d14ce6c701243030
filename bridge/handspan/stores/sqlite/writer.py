"""The one thread that writes: everything that waits, in order, in one transaction (group commit).

A write is acknowledged when its transaction is committed, never before (P16). One that fails is
rolled back whole and tried again, with all that came behind it, until it succeeds or the store is
closed. What waits can be looked at meanwhile; `progress` in the file tells what of it is committed.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from handspan.core.entries import Change

from . import place, schema

_LOG = logging.getLogger("handspan.store")

Soon = Callable[[Callable[[], None]], object]

RETRY_S: Final = (0.1, 5.0)
"""The first pause after a failure, in seconds, and the longest; each is twice the one before."""

CLOSE_S: Final = 5.0
"""How long a store in trouble is tried again when it is closed."""

CLOSING_RETRY_S: Final = 0.1
"""The pause between these tries."""

TRIM_PAGES: Final = 1_000
"""How many free pages are given back before the queue is looked at again: 4 MiB, some 10 ms."""


class Written(NamedTuple):
    """One write on its way."""

    number: int
    changes: Sequence[Change]
    done: Callable[[], None]
    soon: Soon
    at: float
    trim: bool
    """Whether free pages are to be given back behind it."""


class Operations:
    """A connection that counts what is asked of it, and tells a test before it is done."""

    def __init__(
        self, connection: sqlite3.Connection, told: Callable[[int], object] | None
    ) -> None:
        self.connection = connection
        self._told = told
        self._count = 0

    def __call__(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        self._tell()
        return self.connection.execute(sql, parameters)

    def to_its_end(self, sql: str) -> None:
        """Step through a statement that works in steps but has no rows, which `execute` ends at
        the first."""
        self._tell()
        self.connection.executescript(sql)

    def _tell(self) -> None:
        if self._told is not None:
            self._count += 1
            self._told(self._count)


class Writer:
    """The thread, its queue and its connection; at its end that is closed, and the lock free."""

    def __init__(self, path: Path, execute: Operations, lock: place.Lock, number: int) -> None:
        self.trouble: str | None = None
        """Why nothing is committed just now."""
        self._path = path
        self._execute = execute
        self._lock = lock
        self._number = number
        self._waiting: list[Written] = []
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._ended: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="handspan-store", daemon=True)
        self._thread.start()

    # ---- from the loop's thread --------------------------------------------------------------

    def put(
        self,
        changes: Sequence[Change],
        done: Callable[[], None],
        soon: Soon,
        at: float,
        *,
        trim: bool = False,
    ) -> int:
        """Queue a write; its number."""
        with self._changed:
            self._number += 1
            self._waiting.append(Written(self._number, changes, done, soon, at, trim))
            self._changed.notify()
            return self._number

    def waiting(self) -> list[Written]:
        """What is not known to be committed, oldest first."""
        with self._changed:
            return list(self._waiting)

    def end(self, ended: Callable[[], object]) -> None:
        """Keep what waits, for CLOSE_S if it must be; then end, and call `ended` from here."""
        with self._changed:
            self._deadline = time.monotonic() + CLOSE_S
            self._ended = ended
            self._changed.notify()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        try:
            while group := self._next(pause):
                pause = 0.0 if self._kept(group) else self._longer(pause)
        finally:
            self._leave()

    def _next(self, pause: float) -> list[Written]:
        """All that waits, after a pause which the end cuts short; nothing: it is over."""
        with self._changed:
            if pause:
                waits_on = self._deadline is None
                self._changed.wait_for(
                    lambda: waits_on and self._deadline is not None, self._left(pause)
                )
            else:
                self._changed.wait_for(lambda: self._waiting or self._deadline is not None)
            return [] if pause and self._is_late() else list(self._waiting)

    def _left(self, pause: float) -> float:
        """Of a pause that begins now; while it closes, the next try is never far."""
        if self._deadline is None:
            return pause
        return min(pause, CLOSING_RETRY_S, self._deadline - time.monotonic())

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    @staticmethod
    def _longer(pause: float) -> float:
        first, longest = RETRY_S
        return min(pause * 2, longest) if pause else first

    def _kept(self, group: list[Written]) -> bool:
        """Commit these writes and call what waits for them; False: none of it could be."""
        try:
            self._commit(group)
        except Exception as problem:
            self._roll_back()
            self._in_trouble(" ".join(str(problem).split()) or type(problem).__name__)
            return False
        with self._changed:
            del self._waiting[: len(group)]
        self._in_trouble(None)
        for soon, written in groupby(group, lambda each: each.soon):
            self._call_soon(soon, [each.done for each in written])
        if any(each.trim for each in group):
            self._trim()
        return True

    def _commit(self, group: list[Written]) -> None:
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        if self.trouble is not None:  # the commit that failed may have come about
            written = execute("SELECT written FROM progress").fetchone()[0]
            group = [each for each in group if each.number > written]
        changes = [(change, each.at) for each in group for change in each.changes]
        for change, _ in changes:
            for sql, parameters in schema.statements(change):
                execute(sql, *parameters)
        for sql, parameters in schema.touches(changes):
            execute(sql, *parameters)
        if group:
            execute("UPDATE progress SET written = ?", group[-1].number)
        execute("COMMIT")

    def _roll_back(self) -> None:
        try:
            self._execute.connection.rollback()
        except sqlite3.Error as problem:
            _LOG.debug("a transaction cannot be rolled back: %s", problem)

    def _in_trouble(self, trouble: str | None) -> None:
        """Say it once when it begins, changes, or is over."""
        if trouble == self.trouble:
            return
        self.trouble = trouble
        if trouble is None:
            _LOG.info("%s can be written again", self._path)
        else:
            _LOG.error("%s cannot be written, trying again: %s", self._path, trouble)

    def _call_soon(self, soon: Soon, dones: list[Callable[[], None]]) -> None:
        try:
            soon(partial(_call_all, dones))
        except RuntimeError as problem:  # the loop is closed: nobody is left to be told
            _LOG.debug("what was kept cannot be told: %s", problem)

    def _trim(self) -> None:
        """Give TRIM_PAGES back, and more while nothing waits; the next sweep goes on."""
        execute = self._execute
        try:
            while execute("PRAGMA freelist_count").fetchone()[0]:
                execute.to_its_end(f"PRAGMA incremental_vacuum({TRIM_PAGES})")
                if self.waiting():
                    break
            execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as problem:
            _LOG.debug("%s cannot be made smaller now: %s", self._path, problem)

    def _leave(self) -> None:
        lost = len(self.waiting())
        if lost:
            _LOG.error("%s is closed, and %d writes are lost: %s", self._path, lost, self.trouble)
        try:
            self._execute.connection.close()  # the last one moves the log into the file
        except sqlite3.Error as problem:
            _LOG.warning("%s was not closed well: %s", self._path, problem)
        self._lock.release()
        self._ended()


def _call_all(dones: list[Callable[[], None]]) -> None:
    """Call each; one that raises keeps nobody from the others."""
    for done in dones:
        try:
            done()
        except Exception:
            _LOG.exception("what waited for a write failed")
