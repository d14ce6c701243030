"""What of a hello is read: the threads it wishes for, and how much of a long list.

Owns the bounds of its lists, so that no hello has an answer much larger than itself.
*Source:* protocol.md 2, P12.
"""

from typing import Final

from handspan_protocol import frames as f
from handspan_protocol.errors import CommandCode
from handspan_protocol.ids import ThreadId

from .session_inputs import Greeted

WISHES_ANSWERED: Final = 64
"""Threads beyond `open_threads` that are told `limit`; what stands behind them is not read."""

JOURNAL_READ: Final = 1_024
"""Entries of the journal: eight times what a page may hold; what stands behind is not read."""


def sort_wishes(
    event: Greeted, open_threads: int
) -> tuple[dict[ThreadId, f.ThreadWish], list[f.ThreadOpened]]:
    """The threads to open, each once, and those that are refused, with the reason."""
    good: dict[ThreadId, f.ThreadWish] = {}
    refused: list[f.ThreadOpened] = []
    for wish in (event.hello.threads or ())[: open_threads + WISHES_ANSWERED]:
        error = None
        if wish.thread_id in event.denied:
            error = f.WireError(code=CommandCode.FORBIDDEN, message="not yours to open")
        elif len(good) >= open_threads and wish.thread_id not in good:
            error = f.WireError(code=CommandCode.LIMIT, message="too many open threads")
        if error is None:
            good[wish.thread_id] = wish
        else:
            refused.append(f.ThreadOpened(thread_id=wish.thread_id, error=error))
    return good, refused
