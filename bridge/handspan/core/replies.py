"""The replies a session keeps, so that a command sent again is not carried out again (P2).

Owns the rule of protocol.md 3: known by (documentId, id); the same again gets the stored reply, or
nothing while the first is still at work (its reply will come); another body is `duplicate_id`.
Bounded by count and bytes; the oldest finished ones go.

Commands that are told apart by nothing else (KEPT) are known over a restart of the process too: the
names of those that have changed are handed to whoever keeps them.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Literal

from handspan_protocol import frames as f
from handspan_protocol.errors import CommandCode
from handspan_protocol.frames import Command, Reply
from handspan_protocol.ids import DocumentId

Json = Any
Name = tuple[DocumentId, str]

KEPT: Final = frozenset(
    {
        f.RunStart,
        f.RunAbort,
        f.ToolInvoke,
        f.ToolStarted,
        f.StateUpdate,
        f.ThreadOpen,
        f.ThreadDelete,
    }
)
"""Carried out twice they would do it twice, or be answered otherwise than the first time; the
others are known by what they name (an attempt, a digest), or say what every hello says."""


@dataclass(slots=True)
class _Entry:
    body: bytes
    kept: bool = False
    """It is known over a restart of the process."""
    reply: Reply | None = None
    size_bytes: int = 0


class Replies:
    """What was answered, and what is still at work."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._entries: OrderedDict[Name, _Entry] = OrderedDict()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self.changed: dict[Name, None] | None = None
        """Kept ones that are other than when somebody last asked; None: nobody keeps them."""

    def begin(
        self, document: DocumentId, command: Command
    ) -> Reply | Literal["new", "at_work", "other_body"]:
        """What this command is: new, one at work, one that was answered, or a misuse of its id."""
        body = hashlib.sha256(repr(command).encode("utf-8", "replace")).digest()
        entry = self._entries.get((document, command.id))
        if entry is None:
            entry = self._entries[document, command.id] = _Entry(body, type(command) in KEPT)
            self._note((document, command.id), entry)
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
        self._note((document, reply.id), entry)
        self._trim()
        return True

    # ---- over a restart ----------------------------------------------------------------------

    def image(self, name: Name) -> Json:
        """The command as JSON, with its reply when it has one; None: it is known no longer."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        image: dict[str, Json] = {"body": entry.body.hex(), "size": entry.size_bytes}
        if entry.reply is None:
            return image
        error = entry.reply.error
        if error is None:
            return image | {"result": entry.reply.result}
        return image | {"error": [error.code, error.message, error.path]}

    def restore(self, name: Name, image: Json) -> None:
        """Know a command again as `image` has it."""
        entry = self._entries[name] = _Entry(bytes.fromhex(image["body"]), kept=True)
        if "error" in image:
            code, message, path = image["error"]
            error = f.WireError(code=CommandCode(code), message=message, path=path)
            entry.reply = Reply(id=name[1], error=error)
        elif "result" in image:
            entry.reply = Reply(id=name[1], result=image["result"])
        entry.size_bytes = image["size"]
        self._bytes += entry.size_bytes

    def _note(self, name: Name, entry: _Entry) -> None:
        if self.changed is not None and entry.kept:
            self.changed[name] = None

    def _trim(self) -> None:
        """Let the oldest answered ones go; what is still at work stays."""
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            answered = (key for key, entry in self._entries.items() if entry.reply is not None)
            oldest = next(answered, None)
            if oldest is None:
                return
            entry = self._entries.pop(oldest)
            self._bytes -= entry.size_bytes
            self._note(oldest, entry)
