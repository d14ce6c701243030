"""One service whose process comes and goes, in this process: its store is all that outlives it.

    async with service(agent) as here:
        page = await here.page(tools={"t": lambda args: 1})
        ...
        await here.restart()             # as after kill -9: nobody says goodbye
        await page.reconnect()

Time stands still (`here.advance`). Commits are the store's own, or the test's with
`service(agent, by_itself=False)`. At the end every history is valid (P1) and nothing is at work.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.fake_store import FakeStore

from handspan import Bridge, Policy
from handspan.core.transcript import broken_rules
from handspan.ports import Request
from handspan.shell.ids import CountedIds
from handspan.testing import Page
from handspan.testing.clock import ManualClock, settle
from handspan.testing.leftovers import of_work
from handspan.testing.lines import Ear, Line, over_memory

REQUEST = Request(address="127.0.0.1", headers={"host": "memory"})


class Service:
    """The bridge of the moment, and what outlives it."""

    def __init__(self, agent: Any, *, by_itself: bool, policy: Policy | None, **options: Any):
        self.agent = agent
        self.store = FakeStore(by_itself=by_itself)
        self.policy = policy or Policy()
        self.clock, self.ids = ManualClock(), CountedIds()
        self.pages: list[Page] = []
        self.setup = options.pop("setup", None)
        """Called with each new bridge before it begins."""
        self.options = options
        self.bridge = self.begin()

    def begin(self) -> Bridge:
        """A new process."""
        agents = {"default": self.agent} if self.agent is not None else {}
        options = {"policy": self.policy, "store": self.store, "agents": agents, **self.options}
        bridge = Bridge(clock=self.clock, ids=self.ids, **options)
        if self.setup is not None:
            self.setup(bridge)
        bridge._at_work()
        return bridge

    async def kill(self) -> None:
        """The process ends where it stands; what was not committed is lost."""
        driver, _ = self.bridge._at_work()
        driver.stop_listening()
        self.store = self.store.crash()
        for page in self.pages:
            page.cut()
        await driver.workers.crew.close()

    async def restart(self, **policy: Any) -> None:
        """The process ends, and another one begins."""
        await self.kill()
        self.policy = Policy(**policy) if policy else self.policy
        self.bridge = self.begin()
        await settle()

    def hold_commits(self) -> None:
        """From now on nothing is kept before `commit`."""
        self.store._by_itself = False

    async def commit(self) -> None:
        """Keep what was written so far, and let everything happen that waited for it."""
        self.store.commit(len(self.store.waiting))
        await settle()

    async def page(self, **options: Any) -> Page:
        page = Page(self._route, documents=lambda: self.ids.new("d"), **options)
        self.pages.append(page)
        await page.connect()
        await settle()
        return page

    async def _route(self, ear: Ear) -> Line:
        return await over_memory(self.bridge, REQUEST)(ear)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    def history(self, thread_id: str = "t1") -> list[Any]:
        """The thread's messages, in memory now."""
        [look] = [look for look in self.bridge.threads if look.thread_id == thread_id]
        return list(look.messages)

    def codes(self, thread_id: str = "t1") -> list[str | None]:
        """Of each result, its code; None for a good one."""
        results = [m for m in self.history(thread_id) if m["role"] == "tool"]
        return [m["metadata"]["handspan"].get("code") for m in results]

    def check(self) -> None:
        for look in self.bridge.threads:
            assert look.run_id is not None or broken_rules(look.messages) == [], look.messages


@asynccontextmanager
async def service(
    agent: Any = None, *, by_itself: bool = True, policy: Policy | None = None, **options: Any
) -> AsyncIterator[Service]:
    """A service for one test."""
    here = Service(agent, by_itself=by_itself, policy=policy, **options)
    try:
        yield here
        here.check()
        if not any(look.run_id for look in here.bridge.threads):
            assert list(of_work(here.bridge._at_work()[0])) == []
    finally:
        for page in here.pages:
            await page.leave()
        async with asyncio.timeout(5):
            await here.bridge.close()
