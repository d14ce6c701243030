"""The calls a session holds, and those that were taken from it.

Owns what the page's journal is compared with when it comes back (protocol.md 2). Deliberately does
not know whether the page has a socket.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from handspan_protocol.errors import CancelReason
from handspan_protocol.frames import JournalEntry, ToolCancel
from handspan_protocol.ids import CallId

from .parties import ThreadKey

CANCELS_KEPT: Final = 256
"""Calls taken away while the page was not there, remembered with the reason."""


class Holding:
    """At most `most` calls."""

    __slots__ = ("_most", "_taken", "calls")

    def __init__(self, most: int) -> None:
        self.calls: dict[CallId, tuple[ThreadKey, int]] = {}
        """Each with its thread and attempt."""
        self._most = most
        self._taken: OrderedDict[CallId, ToolCancel] = OrderedDict()

    def take(self, key: ThreadKey, call_id: CallId, attempt: int) -> bool:
        """Hold this call, or this attempt of it; False: there are too many."""
        if call_id not in self.calls and len(self.calls) >= self._most:
            return False
        self.calls[call_id] = (key, attempt)
        return True

    def give_up(self, call_id: CallId, cancel: ToolCancel | None) -> bool:
        """Hold it no longer; whether it was held. `cancel` is what its page is told, also later."""
        if self.calls.pop(call_id, None) is None:
            return False
        if cancel is not None:
            self._taken[call_id] = cancel
            while len(self._taken) > CANCELS_KEPT:
                self._taken.popitem(last=False)
        return True

    def unknown(self, journal: Iterable[JournalEntry]) -> Iterator[ToolCancel]:
        """What calls off each journal entry that is not held at that attempt."""
        for entry in journal:
            held = self.calls.get(entry.call_id)
            if held is not None and held[1] == entry.attempt:
                continue
            taken = self._taken.get(entry.call_id)
            reason = taken.reason if taken else CancelReason.UNKNOWN.value
            if held is not None:
                reason = CancelReason.SUPERSEDED.value
            yield ToolCancel(call_id=entry.call_id, attempt=entry.attempt, reason=reason)
