"""Time that stands still until it is moved, and the way to let a loop come to rest.

Owns the timers of one `World`. Deliberately does not know who set them. Below sits nothing but the
loop; above sits `world`.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Final

import anyio.to_thread

__all__ = ["ManualClock", "settle"]

TURNS_MAX: Final = 10_000
"""Turns of the loop after which it counts as never coming to rest."""

BLIND_TURNS: Final = 100
"""Turns given to a loop that does not show what it has ready (uvloop)."""

THREADS_S: Final = 2.0
"""Real seconds that worker threads (sync agents and tools) get to finish."""

POLL_S: Final = 0.001
"""Between two looks at worker threads, which tell nobody when they end."""


async def settle() -> None:
    """Return when the loop has nothing ready and no worker thread is at work.

    What waits for a timer, a socket or an event does not count.

    Raises:
        TimeoutError: it does not come to rest: something wakes itself again and again.
    """
    loop = asyncio.get_running_loop()
    ready = getattr(loop, "_ready", None)
    deadline = loop.time() + THREADS_S
    for turn in range(TURNS_MAX):
        await asyncio.sleep(0)
        if ready if ready is not None else turn < BLIND_TURNS:
            continue
        threads = anyio.to_thread.current_default_thread_limiter().borrowed_tokens
        if not threads or loop.time() >= deadline:
            return
        await asyncio.sleep(POLL_S)
    raise TimeoutError(f"the loop did not come to rest in {TURNS_MAX} turns")


class _Timer:
    """`ports.Handle`."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """`ports.Clock` whose time is moved by `advance` only; it begins at 0."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        """Call `callback` when time has been moved to `when`, also when that has passed already."""
        timer = _Timer(when, callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait for time to be moved on; for agents, tools and handlers in a test."""
        awake = asyncio.Event()
        timer = self.call_at(self._now + seconds, awake.set)
        try:
            await awake.wait()
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Move time on. Timers fire in the order they are due; the loop settles after each."""
        end = self._now + seconds
        await settle()
        while (timer := self._next_until(end)) is not None:
            self._now = max(self._now, timer.when)
            timer.callback()
            await settle()
        self._now = end

    @property
    def waiting(self) -> list[str]:
        """Each timer that is still to fire: when, and what it calls."""
        left = sorted((when, order, t) for when, order, t in self._timers if not t.cancelled)
        return [f"{when:g} s: {_named(timer.callback)}" for when, _, timer in left]

    def _next_until(self, end: float) -> _Timer | None:
        while self._timers and self._timers[0][0] <= end:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                return timer
        return None


def _named(callback: Callable[[], None]) -> str:
    return getattr(callback, "__qualname__", None) or repr(callback)
