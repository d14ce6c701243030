"""The end of a tick: what agents said in it is told, then the readers are woken, once.

A tick here is two turns of the loop. An agent that is given the results of its calls goes on in the
turn after, and what it says then goes out with the news of the results, in one write.

Owns what waits for that moment, and nothing else. Many deltas of one tick so become one input of
their thread, many events one write to each socket. Above sits `driver`; the writers read the logs
by themselves.
"""

import asyncio
from collections.abc import Callable

from handspan.core.parties import ThreadKey
from handspan.core.thread import Thread


class Tick:
    """One loop's. `wake` is called for each thread whose log has grown."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[Thread], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._unsaid: list[Callable[[], None]] = []
        self._grown: dict[ThreadKey, Thread] = {}
        self._planned = False

    def say(self, tell: Callable[[], None]) -> None:
        """Call `tell` at the end of the tick, before readers are woken."""
        self._unsaid.append(tell)
        if not self._planned:
            self._plan()

    def grew(self, key: ThreadKey, thread: Thread) -> None:
        """The thread's log has grown."""
        self._grown[key] = thread
        if not self._planned:
            self._plan()

    def _plan(self) -> None:
        self._planned = True
        self._loop.call_soon(self._loop.call_soon, self._end)

    def _end(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        try:
            for tell in unsaid:
                tell()
        finally:
            self._planned = False
            grown, self._grown = self._grown, {}
            for thread in grown.values():
                self._wake(thread)
