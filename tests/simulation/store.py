"""A store that keeps things late: each write is kept a while after it was made, in order."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.fake_store import FakeStore

from handspan.core.entries import Change


class LateStore(FakeStore):
    """`ports.Store` in virtual time; what was not kept when the process dies never was."""

    def __init__(self, world: Any, kept: Any = None) -> None:
        super().__init__(kept)
        self._world = world
        self._rng = Random(f"{world.seed}/store/{len(world.lives)}")
        self._last = 0.0
        self.delay: float | None = None
        """Seconds that each write takes, where chance is not wanted."""

    def write(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        super().write(changes, done)
        loop = self._world.loop
        delay = self._rng.choice((0.0, 0.001, 0.01, 0.01, 0.3)) * self._rng.random()
        delay = delay if self.delay is None else self.delay
        self._last = max(self._last + 1e-6, loop.virtual_now + delay)
        loop.call_at(self._last, self.commit, 1)

    def crash(self) -> "LateStore":
        self.waiting.clear()
        self.is_open = False
        return LateStore(self._world, self.kept.copy())
