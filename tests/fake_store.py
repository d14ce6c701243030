"""A durable store in memory, whose commits are a test's business, and whose crash costs nothing.

    store = FakeStore()                  writes wait until `commit()`
    store = FakeStore(by_itself=True)    they are committed through `soon`
    store.commit(2)                      the two oldest writes that wait, and their `done`s
    found = store.crash()                what a new process finds: only what was committed

Deterministic: its clock counts writes. Deliberately knows nothing of what entries mean.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from handspan.core.entries import Change, Drop, Entry, Put
from handspan.core.parties import ThreadKey
from handspan.ports import KeptThread
from handspan_protocol.errors import UsageError
from handspan_protocol.ids import SessionId

Entries = dict[tuple[str, str], bytes]
"""Bodies by part and name; a dict, so that one that is put again keeps its place."""


@dataclass(slots=True)
class Shelf:
    """What is kept, and when each thread was last written.

    A thread is there from its first Put until all of it is dropped.
    """

    threads: dict[ThreadKey, Entries] = field(default_factory=dict)
    sessions: dict[SessionId, Entries] = field(default_factory=dict)
    updated: dict[ThreadKey, float] = field(default_factory=dict)

    def apply(self, changes: Sequence[Change], at: float) -> None:
        for change in changes:
            if isinstance(change, Put):
                self._scope(change).setdefault(change.scope, {})[change.part, change.name] = (
                    change.body
                )
            else:
                self._drop(change)
            if isinstance(change.scope, ThreadKey) and change.scope in self.threads:
                self.updated[change.scope] = at

    def copy(self) -> "Shelf":
        return Shelf(
            {key: dict(entries) for key, entries in self.threads.items()},
            {key: dict(entries) for key, entries in self.sessions.items()},
            dict(self.updated),
        )

    def _scope(self, change: Change) -> dict:
        return self.threads if isinstance(change.scope, ThreadKey) else self.sessions

    def _drop(self, drop: Drop) -> None:
        shelf = self._scope(drop)
        if drop.part is None:
            shelf.pop(drop.scope, None)
            self.updated.pop(drop.scope, None)
            return
        entries = shelf.get(drop.scope, {})
        for part, name in list(entries):
            if part == drop.part and drop.name in (None, name):
                del entries[part, name]


class Written(NamedTuple):
    """A write that waits for its commit."""

    changes: Sequence[Change]
    done: Callable[[], None]
    at: float


class FakeStore:
    """`ports.Store` over dicts; `kept` is what a crash leaves, `seen` what is read.

    `troubled` is set by a test; meanwhile nothing is committed. `max_age` counts writes,
    `max_bytes` the bodies of threads.
    """

    durable = True

    def __init__(
        self,
        kept: Shelf | None = None,
        *,
        by_itself: bool = False,
        max_age: float | None = None,
        max_bytes: int | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.kept = kept or Shelf()
        self.seen = self.kept.copy()
        self.waiting: deque[Written] = deque()
        self.troubled: str | None = None
        self.is_open = False
        self._by_itself = by_itself
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._now = now or count(1).__next__
        self._soon: Callable[[Callable[[], None]], object] = lambda call: call()

    # ---- for tests ---------------------------------------------------------------------------

    def commit(self, n: int | None = None) -> None:
        """Let the n oldest writes that wait be kept, or all; their `done`s go through `soon`."""
        while self.waiting and self.troubled is None and n != 0:
            written = self.waiting.popleft()
            self.kept.apply(written.changes, written.at)
            self._soon(written.done)
            n = None if n is None else n - 1

    def crash(self) -> "FakeStore":
        """What a new process finds; this one's writes are never heard of again."""
        self.waiting.clear()
        self.is_open = False
        return FakeStore(
            self.kept.copy(),
            by_itself=self._by_itself,
            max_age=self._max_age,
            max_bytes=self._max_bytes,
            now=self._now,
        )

    # ---- the port ----------------------------------------------------------------------------

    def open(self, soon: Callable[[Callable[[], None]], object]) -> None:
        self._soon = soon
        self.is_open = True

    def write(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        self._at_work()
        written = Written(tuple(changes), done, self._now())
        self.waiting.append(written)
        self.seen.apply(written.changes, written.at)
        if self._by_itself:
            self._soon(self.commit)

    def sessions(self) -> Mapping[SessionId, Sequence[Entry]]:
        self._at_work()
        return {key: _entries(found) for key, found in self.seen.sessions.items() if found}

    def thread(self, key: ThreadKey) -> Sequence[Entry]:
        self._at_work()
        return _entries(self.seen.threads.get(key, {}))

    def threads(
        self, principal: str | None = None, limit: int | None = None
    ) -> Sequence[KeptThread]:
        self._at_work()
        found = [
            KeptThread(key, self.seen.updated[key], entries.get(("about", ""), b"{}"))
            for key, entries in self.seen.threads.items()
            if principal in (None, key.principal)
        ]
        return sorted(found, key=lambda thread: (-thread.updated_at, thread.key))[:limit]

    def has_call(self, principal: str, name: str) -> bool:
        found = self.seen.threads.items()
        return any(k.principal == principal and ("call", name) in entries for k, entries in found)

    def unfinished(self) -> Sequence[ThreadKey]:
        self._at_work()
        return [
            key
            for key, entries in self.seen.threads.items()
            if any(part == "run" for part, _ in entries)
        ]

    def sweep(self, keep: Collection[ThreadKey]) -> None:
        oldest_first = [t for t in reversed(self.threads()) if t.key not in keep]
        since = None if self._max_age is None else self._now() - self._max_age
        gone = [t.key for t in oldest_first if since is not None and t.updated_at < since]
        sizes = {key: _size(entries) for key, entries in self.seen.threads.items()}
        over = 0 if self._max_bytes is None else sum(sizes.values()) - self._max_bytes
        over -= sum(sizes[key] for key in gone)
        for thread in oldest_first:
            if over > 0 and thread.key not in gone:
                gone.append(thread.key)
                over -= sizes[thread.key]
        if gone:
            self.write([Drop(key) for key in gone], lambda: None)

    async def close(self) -> None:
        self.commit()
        self.waiting.clear()
        self.is_open = False

    def _at_work(self) -> None:
        if not self.is_open:
            raise UsageError("the store is not open")


def _entries(found: Entries) -> list[Entry]:
    return [Entry(part, name, body) for (part, name), body in found.items()]


def _size(entries: Entries) -> int:
    return sum(map(len, entries.values()))
