"""The tables, by version, and what each change does to them. Knows no thread and no queue.

`PRAGMA user_version` is the count of MIGRATIONS that were carried out, each in a transaction of its
own; a step that has been released is never edited, a new one is put behind it. `progress` has the
number of the newest write that was committed: a reader compares it with what still waits.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from handspan.core.entries import Change, Drop, Put
from handspan.core.parties import ThreadKey
from handspan_protocol.errors import Unavailable

Execute = Callable[..., sqlite3.Cursor]
"""`execute(sql, *parameters)`: one operation."""

Statement = tuple[str, tuple[Any, ...]]

APPLICATION_ID: Final = 0x48_53_50_4E
"""What tells a file of ours from somebody else's: "HSPN", in the header of the file."""

CHECKED_BYTES: Final = 64 * 1024 * 1024
"""Up to here a file is looked through for damage when it is opened. *Source:* 0.1 s on a small
machine, 2026-11."""

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """CREATE TABLE threads (
            principal TEXT NOT NULL, thread_id TEXT NOT NULL, updated_at REAL NOT NULL,
            PRIMARY KEY (principal, thread_id)
        ) WITHOUT ROWID""",
        "CREATE INDEX threads_by_age ON threads (updated_at)",
        """CREATE TABLE thread_entries (
            seq INTEGER PRIMARY KEY, principal TEXT NOT NULL, thread_id TEXT NOT NULL,
            part TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
            UNIQUE (principal, thread_id, part, name)
        )""",
        """CREATE INDEX unfinished ON thread_entries (principal, thread_id, name)
            WHERE part = 'run'""",
        """CREATE INDEX calls ON thread_entries (principal, name)
            WHERE part = 'call'""",
        """CREATE TABLE session_entries (
            seq INTEGER PRIMARY KEY, session_id TEXT NOT NULL,
            part TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
            UNIQUE (session_id, part, name)
        )""",
        "CREATE TABLE progress (written INTEGER NOT NULL)",
        "INSERT INTO progress VALUES (0)",
    ),
)


# ---- the version -----------------------------------------------------------------------------


def bring_up(execute: Execute, path: Path) -> None:
    """Make the file one of this version, with a write-ahead log; no migration is half done.

    Raises:
        Unavailable: it is not ours, of a newer version, damaged, or cannot have such a log.
        sqlite3.Error: it cannot be read or written.
    """
    version = version_of(execute, path)
    _look_through(execute, path)
    if version == 0:  # takes effect only before the first table
        execute("PRAGMA auto_vacuum = INCREMENTAL")
    mode = execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise Unavailable(f"{path} cannot have a write-ahead log here (it has {mode!r})")
    for n, steps in enumerate(MIGRATIONS[version:], version + 1):
        _migrate(execute, steps, n)


def _migrate(execute: Execute, steps: Iterable[str], version: int) -> None:
    execute("BEGIN IMMEDIATE")
    for step in steps:
        execute(step)
    execute(f"PRAGMA application_id = {APPLICATION_ID}")
    execute(f"PRAGMA user_version = {version}")
    execute("COMMIT")


def version_of(execute: Execute, path: Path) -> int:
    """How many migrations a file has had; 0: it is empty.

    Raises:
        Unavailable: it is not ours, or of a newer version.
    """
    version = int(execute("PRAGMA user_version").fetchone()[0])
    ours = execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    empty = execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not ours and not (empty and version == 0):
        raise Unavailable(f"{path} is a database of something else")
    if version > len(MIGRATIONS):
        raise Unavailable(
            f"{path} was written by a newer Handspan (its version is {version}, the newest known"
            f" here {len(MIGRATIONS)})"
        )
    return version


def _look_through(execute: Execute, path: Path) -> None:
    if path.stat().st_size <= CHECKED_BYTES:
        found = execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(f"malformed: {found}")


# ---- what a change does ----------------------------------------------------------------------


def statements(change: Change) -> Iterator[Statement]:
    """A change as SQL; what a thread's own row needs is said by `touches`."""
    table, columns, ids = _place(change.scope)
    if isinstance(change, Put):
        row = (*ids, stored(change.part), stored(change.name), change.body)
        yield _PUT[table], row
        return
    found = [*columns]
    if change.part is not None:
        found.append("part")
        ids += (stored(change.part),)
        if change.name is not None:
            found.append("name")
            ids += (stored(change.name),)
    where = " AND ".join(f"{column} = ?" for column in found)
    yield f"DELETE FROM {table} WHERE {where}", ids  # noqa: S608 (our own words)
    if change.part is None and isinstance(change.scope, ThreadKey):
        yield "DELETE FROM threads WHERE principal = ? AND thread_id = ?", ids


_PUT: Final[Mapping[str, str]] = {
    "thread_entries": """INSERT INTO thread_entries (principal, thread_id, part, name, body)
        VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (principal, thread_id, part, name) DO UPDATE SET body = excluded.body""",
    "session_entries": """INSERT INTO session_entries (session_id, part, name, body)
        VALUES (?, ?, ?, ?)
        ON CONFLICT (session_id, part, name) DO UPDATE SET body = excluded.body""",
}


def _place(scope: ThreadKey | str) -> tuple[str, tuple[str, ...], tuple[Any, ...]]:
    if isinstance(scope, ThreadKey):
        return "thread_entries", ("principal", "thread_id"), ids_of(scope)
    return "session_entries", ("session_id",), (stored(scope),)


def ids_of(key: ThreadKey) -> tuple[Any, Any]:
    """A thread's name as columns."""
    return stored(key.principal), stored(key.thread_id)


def touches(changes: Iterable[tuple[Change, float]]) -> Iterator[Statement]:
    """What changes, each with its time, do to the rows of their threads, once they are made.

    A thread is there from its first Put until all of it is dropped.
    """
    made: dict[ThreadKey, tuple[float, bool]] = {}
    for change, at in changes:
        if not isinstance(change.scope, ThreadKey):
            continue
        if isinstance(change, Drop) and change.part is None:
            made.pop(change.scope, None)
        else:
            was_put = made.get(change.scope, (at, False))[1]
            made[change.scope] = (at, was_put or isinstance(change, Put))
    for key, (at, was_put) in made.items():
        yield (_MAKE if was_put else _TOUCH), (at, *ids_of(key))


_MAKE: Final = """INSERT INTO threads (updated_at, principal, thread_id) VALUES (?, ?, ?)
    ON CONFLICT (principal, thread_id) DO UPDATE SET updated_at = excluded.updated_at"""
_TOUCH: Final = "UPDATE threads SET updated_at = ? WHERE principal = ? AND thread_id = ?"


# ---- texts -----------------------------------------------------------------------------------


def stored(text: str) -> str | bytes:
    """A text as a column has it: bytes where it has half of a pair, which SQLite's text cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def loaded(column: str | bytes) -> str:
    """The text that was `stored`."""
    return column.decode(errors="surrogatepass") if isinstance(column, bytes) else column
