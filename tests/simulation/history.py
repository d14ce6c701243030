"""What happened in one simulation, in order; the only thing that `checker` is given.

Owns the list of records and their kinds. Frames are kept as the objects that travelled: nobody may
change them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Json = Any


class Record(NamedTuple):
    """One thing that happened: when, what kind, to whom."""

    at: float
    kind: str
    who: str
    what: Any


KINDS = {
    "sent": "the server wrote a frame to a line",
    "took": "the server read a frame from a line",
    "heard": "a document processed a frame",
    "said": "a document sent a frame on a line",
    "lost": "the server learned that a line is gone",
    "begin": "a document's handler began",
    "end": "a document's handler ended",
    "served": "a server tool began",
    "invoked": "an agent was invoked",
    "event": "an event entered a thread's log",
    "life": "a server's process began, or ended",
    "fault": "something was done to the world",
    "act": "a user did something",
    "wrong": "the program itself complained",
    "rest": "what pages and server had at the end",
}


class History:
    """Append-only."""

    def __init__(self, now: Any) -> None:
        self.records: list[Record] = []
        self.watchers: list[Callable[[Record], None]] = []
        """Called with each record; they must not do anything at once."""
        self._now = now

    def note(self, kind: str, who: str, what: Any) -> None:
        record = Record(self._now(), kind, who, what)
        self.records.append(record)
        for watch in list(self.watchers):
            watch(record)
