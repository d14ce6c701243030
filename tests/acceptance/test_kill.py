"""P16: `kill -9` at every operation on the store's file, with a page that works meanwhile.

What the page was told before is true afterwards, the run ends, and nothing that must run once has
run twice (P2). The server is a process of its own over a real file (`processes`).
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.acceptance.processes import Process, needs_fork
from websockets.exceptions import WebSocketException

from handspan import Bridge, Run
from handspan.core.transcript import broken_rules
from handspan.testing import Page
from handspan.testing.lines import Ear, Line, over_network
from handspan.testing.page import SocketClosed

pytestmark = needs_fork

EVERY = 1 if os.environ.get("HANDSPAN_LONG") else 6
"""In CI a spread of the operations; `make long` dies at each."""


def app(store: Any) -> Bridge:
    bridge = Bridge(store=store)

    @bridge.agent
    async def agent(run: Run) -> Any:
        if run.depth == 0:
            yield "First. "
            yield run.call("once", {"n": 1})
            yield run.call("often", {"n": 2})
        elif run.depth == 1:
            yield run.call("once", {"n": 3})
        else:
            yield f"Done with {len(run.messages)}."

    return bridge


class Story:
    """One page's life across the lives of its server."""

    def __init__(self, path: Path, die_at: int) -> None:
        self.server = Process(app, path, die_at=die_at)
        self.path = path
        self.ran: list[tuple[str, int]] = []

    async def play(self) -> bool:
        """Whether the server died on the way."""
        page = Page(self._route, tools=self._tools())
        run = page.run("go") if await self._reached(page) else None
        died = run is None or not await self._finished(page, run)
        if died:
            assert self.server.join() == -signal.SIGKILL
            self.server = Process(app, self.path)
            assert await self._reached(page)
            assert await self._finished(page, run or page.run("go"))
        self.check(page)
        await page.leave()
        self.server.kill()
        return died

    def _tools(self) -> dict[str, Any]:
        def ran(name: str, n: int) -> int:
            self.ran.append((name, n))
            return n

        return {
            "once": lambda args: ran("once", args["n"]),
            "often": ({"idempotent": True}, lambda args: ran("often", args["n"])),
        }

    async def _route(self, ear: Ear) -> Line:
        return await over_network(self.server.url, None)(ear)

    async def _reached(self, page: Page) -> bool:
        """Whether the server lived until it had welcomed the page."""
        if not self.server.wait_until_up():
            return False
        try:
            await page.connect()
        except (OSError, WebSocketException, SocketClosed):
            return False
        return True

    async def _finished(self, page: Page, run: Any) -> bool:
        """Whether the run ended before the server did."""
        over = asyncio.ensure_future(run.finished)
        gone = asyncio.ensure_future(page.closed())
        await asyncio.wait({over, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if over.done():
            assert over.result()["reason"] == "completed"
            return True
        over.cancel()
        return False

    def check(self, page: Page) -> None:
        """Every call has its result, and what must run once did; `often` ran at least once."""
        assert [n for name, n in self.ran if name == "once"] == [1, 3]
        assert ("often", 2) in self.ran
        assert broken_rules(page.messages) == []
        results = [m["content"] for m in page.messages if m["role"] == "tool"]
        assert results == ["1", "2", "3"]
        assert page.messages[-1]["content"] == "Done with 6."


def test_p16_a_kill_at_every_operation_of_the_store_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    died, at = True, 1
    while died:
        died = asyncio.run(Story(tmp_path / f"{at}.db", at).play())
        at += EVERY
    assert at > 40
