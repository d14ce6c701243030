"""The replies a session keeps, so that a command sent again is not carried out again (P2).

Owns the rule of protocol.md 3: known by (documentId, id); the same again gets the stored reply, or
nothing while the first is still at work (its reply will come); another body is `duplicate_id`.
Bounded by count and bytes; the oldest finished ones go.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from handspan_protocol.frames import Command, Reply
from handspan_protocol.ids import DocumentId


@dataclass(slots=True)
class _Entry:
    body: bytes
    reply: Reply | None = None
    size_bytes: int = 0


class Replies:
    """What was answered, and what is still at work."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._entries: OrderedDict[tuple[DocumentId, str], _Entry] = OrderedDict()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def begin(
        self, document: DocumentId, command: Command
    ) -> Reply | Literal["new", "at_work", "other_body"]:
        """What this command is: new, one at work, one that was answered, or a misuse of its id."""
        body = hashlib.sha256(repr(command).encode("utf-8", "replace")).digest()
        entry = self._entries.get((document, command.id))
        if entry is None:
            self._entries[document, command.id] = _Entry(body)
            return "new"
        if entry.body != body:
            return "other_body"
        return entry.reply or "at_work"

    def finish(self, document: DocumentId, reply: Reply, size_bytes: int) -> bool:
        """Keep the reply; False when no such command is at work (it must not be sent)."""
        entry = self._entries.get((document, reply.id))
        if entry is None or entry.reply is not None:
            return False
        entry.reply = reply
        entry.size_bytes = size_bytes
        self._bytes += size_bytes
        self._trim()
        return True

    def _trim(self) -> None:
        """Let the oldest answered ones go; what is still at work stays."""
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            answered = (key for key, entry in self._entries.items() if entry.reply is not None)
            oldest = next(answered, None)
            if oldest is None:
                return
            self._bytes -= self._entries.pop(oldest).size_bytes
