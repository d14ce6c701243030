"""What is committed. One connection that never writes; each view of it is one moment's.

Deliberately does not know what still waits: `store` lays that over.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from handspan.core.parties import ThreadKey
from handspan.ports import KeptThread
from handspan_protocol.errors import Unavailable
from handspan_protocol.ids import SessionId, ThreadId

from . import place, schema
from .schema import ids_of, loaded

Entries = dict[tuple[str, str], bytes]
"""Bodies by part and name, in the order they first came."""

ROW_BYTES: Final = 24
"""What an entry takes beside its texts: numbers, lengths, headers."""


class Reading:
    """A connection for reading, of a file that has all its tables."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = place.connect(path, read_only=True)

    @classmethod
    def of_any(cls, path: Path) -> "Reading":
        """Read a file that may be in use, without a lock and without changing it.

        Raises:
            Unavailable: there is none, it is not ours, or of another version.
        """
        if not path.is_file():
            raise Unavailable(f"there is no file {path}")
        with place.told(path):
            reading = cls(path)
            try:
                version = schema.version_of(reading._connection.execute, path)
                if version < len(schema.MIGRATIONS):
                    raise Unavailable(f"{path} is of an older version; serve it once, or empty")
            except BaseException:
                reading.close()
                raise
        return reading

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def moment(self) -> Iterator[None]:
        """All that is read inside is of one moment.

        Raises:
            Unavailable: the file cannot be read.
        """
        with place.told(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.rollback()

    # ---- what there is -----------------------------------------------------------------------

    def written(self) -> int:
        """The number of the newest write."""
        return int(self._one("SELECT written FROM progress"))

    def thread(self, key: ThreadKey) -> Entries:
        rows = self._connection.execute(
            "SELECT part, name, body FROM thread_entries"
            " WHERE principal = ? AND thread_id = ? ORDER BY seq",
            ids_of(key),
        )
        return {(loaded(part), loaded(name)): body for part, name, body in rows}

    def sessions(self) -> dict[SessionId, Entries]:
        found: dict[SessionId, Entries] = defaultdict(dict)
        for session, part, name, body in self._connection.execute(
            "SELECT session_id, part, name, body FROM session_entries ORDER BY seq"
        ):
            found[SessionId(loaded(session))][loaded(part), loaded(name)] = body
        return dict(found)

    def threads(
        self, principal: str | None = None, limit: int | None = None
    ) -> dict[ThreadKey, KeptThread]:
        """The threads of one principal or of all; the newest, where there are more than `limit`."""
        one = () if principal is None else (schema.stored(principal),)
        most = -1 if limit is None else limit
        return self._listed(_OF_ONE if one else "", (*one, most))

    def listed(self, key: ThreadKey) -> dict[ThreadKey, KeptThread]:
        """One thread, if it is here."""
        return self._listed(_THIS, (*map(schema.stored, key), 1))

    def _listed(self, where: str, parameters: Iterable[object]) -> dict[ThreadKey, KeptThread]:
        rows = self._connection.execute(_THREADS + where + _NEWEST, tuple(parameters))
        return {
            (key := _key(*ids)): KeptThread(key, updated_at, b"{}" if about is None else about)
            for *ids, updated_at, about in rows
        }

    def has_call(self, principal: str, name: str) -> bool:
        """Whether a thread of this principal has a call of this name."""
        found = self._connection.execute(
            "SELECT 1 FROM thread_entries WHERE part = 'call' AND principal = ? AND name = ?",
            (schema.stored(principal), schema.stored(name)),
        )
        return found.fetchone() is not None

    def runs(self) -> dict[ThreadKey, Entries]:
        """The names of the entries of the part "run", by thread; their bodies are not read."""
        found: dict[ThreadKey, Entries] = defaultdict(dict)
        for *ids, name in self._connection.execute(
            "SELECT principal, thread_id, name FROM thread_entries WHERE part = 'run'"
        ):
            found[_key(*ids)]["run", loaded(name)] = b""
        return dict(found)

    def message_counts(self) -> dict[ThreadKey, int]:
        """How many whole messages each thread has; none: it is not here."""
        rows = self._connection.execute(
            "SELECT principal, thread_id, count(*) FROM thread_entries WHERE part = 'message'"
            " AND body != x'6e756c6c' GROUP BY principal, thread_id"
        )
        return {_key(*ids): count for *ids, count in rows}

    # ---- for letting go ----------------------------------------------------------------------

    def oldest(self) -> Iterator[tuple[ThreadKey, float]]:
        """The threads and when they were last written, oldest first."""
        for *ids, updated_at in self._connection.execute(
            "SELECT principal, thread_id, updated_at FROM threads ORDER BY updated_at"
        ):
            yield _key(*ids), updated_at

    def used_bytes(self) -> int:
        """The pages of the file that hold something."""
        used = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return int(used * self._one("PRAGMA page_size"))

    def has_free_pages(self) -> bool:
        return bool(self._one("PRAGMA freelist_count"))

    def size(self, key: ThreadKey) -> int:
        """What a thread takes, about: its texts stand in the table and in its index."""
        found = self._connection.execute(
            "SELECT sum(length(body) + 2 * (length(principal) + length(thread_id)"
            " + length(part) + length(name)) + ?)"
            " FROM thread_entries WHERE principal = ? AND thread_id = ?",
            (ROW_BYTES, *ids_of(key)),
        ).fetchone()
        return int(found[0] or 0)

    def _one(self, sql: str) -> int:
        return int(self._connection.execute(sql).fetchone()[0])


_THREADS: Final = """SELECT t.principal, t.thread_id, t.updated_at, e.body FROM threads t
    LEFT JOIN thread_entries e ON e.principal = t.principal AND e.thread_id = t.thread_id
    AND e.part = 'about' AND e.name = ''"""
_OF_ONE: Final = " WHERE t.principal = ?"
_THIS: Final = " WHERE t.principal = ? AND t.thread_id = ?"
_NEWEST: Final = " ORDER BY t.updated_at DESC, t.principal, t.thread_id LIMIT ?"


def _key(principal: str | bytes, thread_id: str | bytes) -> ThreadKey:
    return ThreadKey(loaded(principal), ThreadId(loaded(thread_id)))
