"""A loop whose time is virtual: when nothing is ready it jumps to the next timer, and never waits.

Owns time and the order of what happens; two runs of one program on it are the same. Deliberately
knows no sockets and no threads: a program that needs one fails here. Above sits `world`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Livelock", "VirtualClock", "VirtualLoop"]

RESOLUTION_S: Final = 1e-9
"""Timers this close together fire in one turn of the loop."""

TURNS_MAX: Final = 20_000
"""Turns of the loop at one moment after which time will never go on."""


class Livelock(RuntimeError):  # noqa: N818 (a state of the world)
    """Something goes round and round while time stands still, or nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio without a world outside."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = RESOLUTION_S
        self._selector = _Jump(self)
        self.virtual_now = 0.0

    def time(self) -> float:
        return self.virtual_now

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody has to be woken: there is one thread."""


class _Jump:
    """What the loop believes to be a selector."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Livelock("nothing is ready, and nothing is planned")
        if timeout > 0:
            self._loop.virtual_now = self._loop._scheduled[0]._when  # type: ignore[attr-defined]
            self._turns = 0
            return []
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise Livelock(f"{TURNS_MAX} turns of the loop at {self._loop.virtual_now:.3f} s")
        return []


class VirtualClock:
    """`ports.Clock` on the loop's time; each process of a machine counts from elsewhere."""

    def __init__(self, loop: VirtualLoop, shift: float = 0.0) -> None:
        self._loop = loop
        self._shift = shift

    def now(self) -> float:
        return self._loop.virtual_now + self._shift

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Never before its moment, though the loop may be early by its resolution."""
        here = max(when - self._shift, self._loop.virtual_now)
        return self._loop.call_at(here + 2 * RESOLUTION_S, callback)
