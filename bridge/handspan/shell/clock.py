"""The clock of a running loop: monotonic seconds, and the one way to wait for a moment.

And a moment of the calendar, as programs read it.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

_LATE_S: Final = 0.002
"""So that no timer fires before its moment: a loop that counts in ms rounds down, twice."""


class LoopClock:
    """`ports.Clock` over the machine's monotonic clock and the running loop's timers.

    Not over `loop.time()`: finding the running loop is a system call each time, and this is asked
    for with every event.
    """

    now = staticmethod(time.monotonic)
    """Monotonic seconds."""

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` at `when`, once, unless the handle is cancelled."""
        return asyncio.get_running_loop().call_later(
            max(0.0, when - self.now()) + _LATE_S, callback
        )


def utc_text(at: float) -> str:
    """Seconds since 1970 as `updatedAt` tells them: ISO 8601 in UTC, with milliseconds and Z."""
    shown = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")
