"""The clock of a running loop: monotonic seconds, and the one way to wait for a moment."""

import asyncio
from collections.abc import Callable


class LoopClock:
    """`ports.Clock` over the running event loop."""

    def now(self) -> float:
        """Monotonic seconds."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` at `when`, once, unless the handle is cancelled."""
        return asyncio.get_running_loop().call_at(when, callback)
