"""Tasks with a parent: agents, server tools and hooks at work.

Owns their lives: each has a name, can be called off, and is not waited for longer than a grace. A
task that is called off may clean up; `grace` seconds later it is cancelled again, and after that it
is left to itself. Why not a task group: its level cancellation would cut an agent's own cleanup at
its first await (behaviour.md 4 grants it `cleanup_grace`).
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from handspan.ports import Clock

from .socket import where

_LOG = logging.getLogger("handspan.crew")


class Crew:
    """Named tasks; two of one name never run at once."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks) + len(self._leaving)

    def start(self, name: object, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work`; an exception that leaves it is logged and harms nothing else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._done(name, done))

    def call_off(self, name: object) -> None:
        """Cancel the task; its cleanup goes on behind."""
        task = self._tasks.pop(name, None)
        if task is None or task.done():
            return
        self._leaving.add(task)
        task.cancel()
        again = self._clock.call_at(self._clock.now() + self._grace, lambda: _cancel_again(task))
        task.add_done_callback(lambda _: again.cancel())

    def name_of(self, task: "asyncio.Task[Any] | None") -> object:
        """What a task was started as; None: it is none of these. May be asked from any thread."""
        return next((name for name, each in list(self._tasks.items()) if each is task), None)

    async def finished(self, kind: str) -> None:
        """Wait, for at most the grace, until the tasks whose name begins with `kind` have ended."""
        tasks = [
            task
            for name, task in self._tasks.items()
            if isinstance(name, tuple) and name[0] == kind
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)

    async def close(self) -> None:
        """Call everybody off and wait for at most the grace."""
        for name in list(self._tasks):
            self.call_off(name)
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=self._grace)

    def _done(self, name: object, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a task failed: %s", where(task.exception() or RuntimeError()))


def _cancel_again(task: asyncio.Task[None]) -> None:
    if not task.done():
        _LOG.warning("a task that was called off is still cleaning up; it is cancelled again")
        task.cancel()
