"""The step under way, as an agent's ear, desk and listener share it.

Owns the run's CancellationToken and whatever is at work under it; deliberately does not know what
that is. Order and end are the voice's.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Final

from autogen_core import CancellationToken

from handspan.model.names import Names
from handspan.model.voice import Voice

_END: Final = object()


class Step:
    """A step whose agent, or team, is at work."""

    def __init__(self, run: Any, instructions: str) -> None:
        self.run = run
        self.voice = Voice(run)
        self.instructions = instructions
        """What models are told behind their agent's own instructions."""
        self.token = CancellationToken()
        self.names = Names(tool.name for tool in run.tools)
        """As models were shown the page's tools last."""
        self.heard_agents: set[str] = set()
        """Names of those whose model is heard; what the stream tells of them is no news."""
        self._work: set[asyncio.Task[Any]] = set()

    def linked(
        self, work: Coroutine[Any, Any, Any], token: CancellationToken | None = None
    ) -> "asyncio.Task[Any]":
        """Start what ends with the run, or with this token."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        self.token.link_future(task)
        if token is not None and token is not self.token:
            token.link_future(task)
        return task

    async def stop(self, *, at_once: bool) -> None:
        """End the agent with all that is at work for it. A team is let end by itself, which it does
        when what it waits for is cancelled: else its runtime would be left behind."""
        self.token.cancel()
        await self.voice.stop(self._work, at_once=at_once)


async def relayed(
    queue: "asyncio.Queue[Any]", work: "asyncio.Task[Any]"
) -> AsyncGenerator[Any, None]:
    """What this work puts into the queue, until it has ended; closed early, it is cancelled.

    Raises:
        Exception: the work did.
    """
    work.add_done_callback(lambda _: queue.put_nowait(_END))
    try:
        while (item := await queue.get()) is not _END:
            yield item
        await work
    finally:
        work.cancel()
