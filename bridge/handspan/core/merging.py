"""Deltas that stand side by side become one, for a page that lags: fewer, larger events.

Works on encoded events as the log holds them, and parses nothing: it knows a delta by its bytes, as
`space` and `emission` write it, and joins two when all but the delta's own text is equal. Whatever
else comes, in another form too, stays as it is and in its place. Deliberately does not know who
lags. Above sits the writer of a socket.

*Source:* protocol.md 1, which says what may be merged, and that nothing else may be.
"""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["merged"]

_DELTA: Final = re.compile(
    rb'(\{(?:"subagentRunId":"[^"\\]++",)?+"type":"'
    rb'(?:(?:TEXT|REASONING)_MESSAGE_CONTENT","messageId|TOOL_CALL_ARGS","toolCallId)'
    rb'":"[^"\\]++","delta":")'
    rb'([^"\\]*+(?:\\(?:[^u]|u00)[^"\\]*+)*+)'
    rb'("(?:,"subagentRunId":"[^"\\]++")?+\})'
)
"""An event that carries nothing but its type, an id, a delta and its sub-run: head, text and tail.

It never goes back over what it has read, so it takes as long as the event does. Of the escapes by
number it takes those below U+0100 alone, as `encode` writes no others: two halves of a character
must not become a whole one. *Source:* RFC 8259, 7.
"""


def merged(events: Iterable[bytes], limit_bytes: int) -> tuple[list[bytes], int]:
    """As many events as fit into the limit once they are merged, or one; and how many went in.

    What comes out says what those that went in say. A comma counts with each.
    """
    taken: list[list[bytes]] = []
    count, room, around = 0, limit_bytes, (b"", b"")
    for event in events:
        found = _DELTA.fullmatch(event)
        head, text, tail = found.groups() if found else (event, b"", b"")
        joins = found is not None and (head, tail) == around
        room -= len(text) if joins else len(event) + 1
        if room < 0 and count:
            break
        if joins:
            taken[-1].insert(-1, text)
        else:
            taken.append([head, text, tail])
        count, around = count + 1, (head, tail)
    return [b"".join(pieces) for pieces in taken], count
