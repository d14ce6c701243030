"""Numbers that both ends must agree on. Everything adjustable is in `handspan.core.policy`."""

from typing import Final

NESTING_MAX: Final = 128
"""Levels of arrays and objects in a frame. *Source:* protocol.md."""

EVENTS_FRAME_BYTES: Final = 64 * 1024
"""An `events` frame carries as many ready events as fit, or one. *Source:* protocol.md 1."""

ERROR_MESSAGE_CHARS: Final = 2_000
"""A page's error message is shown to the model cut at this. *Source:* behaviour.md 3."""

DESCRIPTION_CHARS: Final = 4_096
"""A tool's description. *Source:* behaviour.md 6."""

PROGRESS_INTERVAL_S: Final = 0.1
"""At most one progress event a call in this time, the last wins. *Source:* protocol.md 1."""

PARTS_MAX: Final = 1_024
"""Content parts of one message or result: each is an object to be read and kept; a person sends a
handful."""
