"""What is kept of a thread or a session where it must outlive the process: entries, by name.

An entry has a *scope* (the thread or the session it belongs to), a *part* (which says what its JSON
means) and a name. Deliberately does not know where it is kept. Above sit `keeping`,
`session_keeping` and `revival`, which make entries of machines and machines of entries; a
`ports.Store` keeps them.

| scope | part | name | what |
|---|---|---|---|
| thread | about | "" | title, last run, what was allowed for good |
| thread | state | "" | the shared state |
| thread | message | its id | one whole message of the history; null: one that is being streamed |
| thread | used | run id | an id that a run ever had |
| thread | request | run id | what was asked for, of a run that is not over |
| thread | run | run id | a run that is not over: waiting, or how far it is |
| thread | call | call id | one call: open ones, and the newest settled ones |
| session | self | "" | whose it is, its Origin and document, the hashes of its secrets |
| session | tools, context | "" | what its page last said of itself |
| session | reply | document and command | a command that was taken, and its reply |
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from handspan_protocol.codec import encode, parse_json
from handspan_protocol.ids import SessionId

from .parties import ThreadKey

Scope = ThreadKey | SessionId


class Entry(NamedTuple):
    """One thing that is kept; `body` is JSON."""

    part: str
    name: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """Keep this entry, in place of one of the same name; a new one stands behind the older ones."""

    scope: Scope
    part: str
    name: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """Keep it no longer: one entry, a whole part (no name), or all of the scope (no part)."""

    scope: Scope
    part: str | None = None
    name: str | None = None


Change = Put | Drop


KEPT_NESTING: Final = 512
"""Levels of an entry that are read: twice what can be written."""


def as_text(value: Any) -> str:
    """A value that may be as deep as JSON is ever written, so that it can stand inside an entry."""
    return encode(value).decode()


def read(body: bytes | str) -> Any:
    """What an entry, or a text inside one, holds.

    Raises:
        PeerError: it is no JSON: somebody else wrote it.
    """
    return parse_json(body, nesting=KEPT_NESTING)
