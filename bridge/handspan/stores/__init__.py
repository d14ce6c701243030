"""Where threads are kept. Strangers to the agents; each implements `ports.Store`.

    memory      nothing outlives the process
    sqlite      one file

Owns the names that a user gives them: "memory", "sqlite:///relative.db", "sqlite:////absolute.db",
and what may follow a `?`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from handspan.ports import Store
from handspan_protocol.errors import UsageError

KNOWN: Final = "there is 'memory', 'sqlite:///file.db', or a Store of yours"


def store_of(url: str) -> Store:
    """The store that is called this; it is not opened.

    Raises:
        UsageError: there is none of that name, or an option is wrong.
    """
    if url == "memory":
        from handspan.stores.memory import MemoryStore

        return MemoryStore()
    if not url.startswith("sqlite:"):
        raise UsageError(f"store {url!r} is not known; {KNOWN}")
    path, options = _read(url)
    from handspan.stores.sqlite import SQLiteStore

    return SQLiteStore(path, **options)


def _read(url: str) -> tuple[str, dict[str, Any]]:
    """The path and the options of a URL for SQLite. Nothing in the path is decoded."""
    place, _, query = url.partition("?")
    path = place.removeprefix("sqlite:///")
    if path == place:
        raise UsageError(f"store {url!r}: say sqlite:///relative.db or sqlite:////absolute.db")
    if not path or path.startswith((":", "file:")) or "\0" in path:
        raise UsageError(f"store {url!r} names no file; threads in memory are 'memory'")
    return path, _options(url, query)


def _options(url: str, query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        read = _READ.get(name)
        if read is None:
            raise UsageError(f"store {url!r}: there is no option {name!r}; there are {_names()}")
        if name in found:
            raise UsageError(f"store {url!r}: {name} is given twice")
        try:
            found[name] = read(text)
        except ValueError:
            raise UsageError(f"store {url!r}: {name} cannot be {text!r}") from None
    return found


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "synchronous": str.upper,
    "max_age": float,
    "max_bytes": int,
}


def _names() -> str:
    return ", ".join(_READ)
