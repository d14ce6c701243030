"""Whether the loop turns: an agent that blocks it stops every page, and should hear its name.

Owns a timer on the loop, whose lateness is the loop's lag, and a thread beside it that looks which
task is at work when the timer is overdue: afterwards nobody could tell. Only where there is a real
loop: a bridge that listens. *Source:* issue 7, overload.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

BEAT_S: Final = 0.25
"""How often it is looked. *Source:* 4 looks a second cost 0.01 % of a core."""

BLOCKED_S: Final = 1.0
"""Lateness that is told: pages see a pause, and heartbeats are still far from being missed."""

Doing = Callable[["asyncio.Task[Any] | None"], str]
"""What this task is, in words for a log."""

_LOG = logging.getLogger("handspan.watch")


class Watch:
    """The lag of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, doing: Doing) -> None:
        self._loop = loop
        self._doing = doing
        self._due = loop.time() + BEAT_S
        self._worst = 0.0
        self._over = threading.Event()

    def worst_s(self) -> float:
        """The longest that the loop stood still since this was asked last, in seconds."""
        worst, self._worst = max(self._worst, self._late()), 0.0
        return worst

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Look, as long as the context lasts."""
        thread = threading.Thread(target=self._look, name="handspan-watch", daemon=True)
        beat = self._loop.call_later(BEAT_S, self._turned)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            beat.cancel()

    def _turned(self) -> None:
        self._worst = max(self._worst, self._late())
        self._due = self._loop.time() + BEAT_S
        if not self._over.is_set():
            self._loop.call_later(BEAT_S, self._turned)

    def _late(self) -> float:
        return max(0.0, self._loop.time() - self._due)

    def _look(self) -> None:
        """In the thread: once for each time that the loop stands still."""
        told = 0.0
        while not self._over.wait(BEAT_S):
            if self._late() > BLOCKED_S and told != self._due:
                told = self._due
                task = asyncio.current_task(self._loop)
                _LOG.warning("the event loop is blocked, by %s", self._doing(task))
