"""The file: whether it may be one, who has it, and how a connection to it is made.

Every way to fail is one line of `Unavailable`. Knows no table.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from handspan_protocol.errors import Unavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUSY_S: Final = 1.0
"""How long one statement waits for a lock of somebody else's; the writer tries again by itself."""

OWNER_ONLY: Final = 0o600
"""Conversations are nobody else's business. What SQLite puts beside the file has its mode."""


def make(path: Path) -> None:
    """See to it that there is a file; an empty one is a database without tables.

    Raises:
        Unavailable: there cannot be one.
    """
    if not path.parent.is_dir():
        raise Unavailable(f"there is no folder {path.parent} for {path.name}")
    if path.is_dir():
        raise Unavailable(f"{path} is a folder, not a file")
    with told(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that there is, for one thread at a time; it begins no transaction."""
    mode = "ro" if read_only else "rw"
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Make what the file system and SQLite raise one line that helps."""
    try:
        yield
    except sqlite3.Error as problem:
        raise Unavailable(_in_words(path, problem)) from problem
    except OSError as problem:
        raise Unavailable(f"{path} cannot be had: {problem.strerror or problem}") from problem


def _in_words(path: Path, problem: sqlite3.Error) -> str:
    said = str(problem)
    if "not a database" in said:
        return f"{path} is not a database of SQLite"
    if "malformed" in said or "corrupt" in said:
        return f"{path} is damaged; `sqlite3 {path.name} .recover` may save what is in it"
    if "readonly" in said or "unable to open" in said:
        return f"{path} cannot be had: no permission for it, or for its folder ({said})"
    return f"{path} cannot be had: {said}"


class Lock:
    """Who holds it has the file for itself; the system lets go of it when the process ends."""

    def __init__(self, path: Path) -> None:
        """Take it.

        Raises:
            Unavailable: somebody else has it.
        """
        self._handle: int | None = None
        if fcntl is None:
            return
        beside = path.with_name(f"{path.name}-lock")
        with told(beside):
            self._handle = os.open(beside, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY)
        try:
            with told(beside):
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except Unavailable as refused:
            self.release()
            if isinstance(refused.__cause__, BlockingIOError):
                raise Unavailable(f"{path} is in use by another process") from None
            raise

    def release(self) -> None:
        """Let go; the file beside stays, since another may be waiting for just that one."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)
