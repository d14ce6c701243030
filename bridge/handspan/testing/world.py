"""A bridge and its pages in a world whose time is moved by hand.

Owns the clock, the ids and the pages; everything that waits for time in the bridge waits for
`advance`. Two runs of one test are the same, to the byte. Deliberately knows no rule. What it does
not reach: agents and tools that sleep by asyncio's clock (give them `world.sleep`), and worker
threads, which are only waited for.
"""

import asyncio
import itertools
from types import TracebackType
from typing import Any, Final, Self

from handspan.shell.driver import Driver
from handspan.shell.ids import CountedIds

from . import leftovers
from .clock import ManualClock, settle
from .lines import Workplace
from .page import Page

__all__ = ["World"]

LEAVE_S: Final = 5.0
"""Real seconds that the bridge gets to close."""


class World:
    """Puts a bridge that is not at work yet under virtual time.

    async with World(bridge) as world:
        page = await world.page(tools={"ask": ask})
        await world.advance(31.0)
    assert world.leftovers() == []
    """

    def __init__(self, bridge: Workplace) -> None:
        self.bridge = bridge
        self.clock = ManualClock()
        self.ids = CountedIds()
        self.pages: list[Page] = []
        self._driver: Driver | None = None
        self._tasks_before: set[asyncio.Task[Any]] = set()
        self._documents = itertools.count(1)
        self._closed = False
        bridge._clock = self.clock
        bridge._ids = self.ids

    async def __aenter__(self) -> Self:
        self._tasks_before = asyncio.all_tasks()
        self._driver, _ = self.bridge._at_work()
        if self._driver.clock is not self.clock:
            raise RuntimeError("the bridge was at work before its world began")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for page in self.pages:
            await page.leave()
        async with asyncio.timeout(LEAVE_S):
            await self.bridge.close()
        await settle()
        self._closed = True

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.clock.now()

    async def page(self, **options: Any) -> Page:
        """A connected page in memory; options as of `Page`."""
        page = self.new_page(**options)
        await page.connect()
        await settle()
        return page

    def new_page(self, **options: Any) -> Page:
        """A page that is not connected yet."""
        named = {"documents": lambda: f"d-{next(self._documents)}", **options}
        page = Page(self.bridge, **named)
        self.pages.append(page)
        return page

    async def advance(self, seconds: float) -> None:
        """Move time on; what follows from one timer is done before the next one fires."""
        await self.clock.advance(seconds)

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await settle()

    async def sleep(self, seconds: float) -> None:
        """Wait for time to be moved on; for agents, tools and handlers."""
        await self.clock.sleep(seconds)

    def leftovers(self) -> list[str]:
        """What is still there of runs and calls; after the world's end, of anything at all."""
        if self._driver is None:
            return []
        if not self._closed:
            return list(leftovers.of_work(self._driver))
        mine = asyncio.all_tasks() - self._tasks_before
        return [
            *leftovers.of_sessions(self._driver),
            *(f"timer {timer}" for timer in self.clock.waiting),
            *(f"task {task.get_name()}: {task.get_coro()}" for task in mine if not task.done()),
        ]
