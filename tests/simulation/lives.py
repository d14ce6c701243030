"""The server's process: how it begins, how it is shut down, and how it dies.

Owns the one bridge of a life. The store outlives it. Knows neither pages nor faults.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import orjson
from tests.simulation.kit import SERVER_TOOL
from tests.simulation.loop import VirtualClock

from handspan import Bridge, Run, server_tool
from handspan.shell.tick import Tick

Json = Any

SHIFT_S: Final = 1_000.0
"""Each process counts its time from elsewhere."""


def _taken_up(store: Any) -> Iterator[tuple[str, str]]:
    if not store.durable:
        return
    for key, entries in store.kept.threads.items():
        for (part, name), body in entries.items():
            if part == "run" and "depth" in orjson.loads(body):
                yield key.thread_id, name


class Life:
    """One process of the server."""

    newest: "Life"
    """Whose tools are at work."""

    def __init__(self, world: Any, number: int) -> None:
        Life.newest = self
        self.world = world
        self.number = number
        self.dead = False
        self.ends: list[Any] = []
        """The server's ends of its sockets."""
        clock = VirtualClock(world.loop, SHIFT_S * number * (-1) ** number)
        self.bridge = Bridge(policy=world.policy, store=world.store, clock=clock, ids=world.ids)
        self.bridge._schemas = world.schemas
        for name, agent in world.agents(self).items():
            self.bridge.add_agent(name, agent)
        self.bridge.add_tool(_SERVE)
        self._seen: dict[str, int] = {}
        """How far each log is known, by its epoch."""
        self._taken_up = dict(_taken_up(world.store))
        """Of each thread with a run under way when the process began: that run."""
        world.history.note("life", f"life-{number}", "begins")
        with self._watching():
            self.driver, self.greeter = self.bridge._at_work()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Logs are watched from the first event on; a bridge that begins takes up what was left."""
        grew = Tick.grew

        def seen(tick: Tick, key: Any, thread: Any) -> None:
            self._see(thread)
            grew(tick, key, thread)

        Tick.grew = seen  # type: ignore[method-assign]
        try:
            yield
        finally:
            Tick.grew = grew  # type: ignore[method-assign]
        tick = self.driver.tick
        tick.grew = partial(seen, tick)  # type: ignore[method-assign]
        tick._wake = self._wake_readers

    def _wake_readers(self, thread: Any) -> None:
        """As the driver does, but in an order that is the same in every process."""
        for name in sorted(thread.space.readers):
            socket = self.driver.outlets.of(self.driver.hub.sessions.get(name))
            if socket is not None:
                socket.writer.flush()

    def _see(self, thread: Any) -> None:
        """Note what is new in the log, whether it may be read yet or not."""
        log = thread.space.log
        first = max(self._seen.get(log.epoch, 0), log.base)
        self._seen[log.epoch] = log.head
        new = [orjson.loads(event) for event in log._events[log._start + first - log.base :]]
        begun = [n for n, event in enumerate(new) if event["type"] == "RUN_STARTED"]
        for n, event in enumerate(new):
            last = thread.runs.endings.last_run  # a RUN_ERROR does not say of which run it is
            newest = not begun or n >= begun[-1]  # behind which another one may have ended already
            if event["type"] == "RUN_STARTED":
                self._taken_up.pop(thread.thread_id, None)
            run_id = last["runId"] if last and newest else self._taken_up.get(thread.thread_id, "")
            what = (log.epoch, event, run_id)
            self.world.history.note("event", thread.thread_id, what)

    def takes_sockets(self) -> bool:
        return not (self.dead or self.greeter.draining())

    def crash(self) -> None:
        """The process is killed: nothing of it happens any more, nobody is told."""
        self.dead = True
        self.world.history.note("life", f"life-{self.number}", "crashes")
        driver = self.driver
        for end in self.ends:
            end.die()
        driver.stop_listening()
        crew = driver.workers.crew
        for task in (*crew._tasks.values(), *crew._leaving):
            task.cancel()

    async def shut_down(self) -> None:
        """SIGTERM: drained, then closed."""
        self.world.history.note("life", f"life-{self.number}", "drains")
        await self.bridge.drain()
        await self.bridge.close()
        self.world.history.note("life", f"life-{self.number}", "ends")
        self.dead = True
        for end in self.ends:
            end.die()


async def _serve(run: Run, n: int = 0) -> Json:
    life = Life.newest
    life.world.history.note("served", run.id, n)
    await asyncio.sleep(0.2 * (n % 4))
    return {"served": n}


_SERVE: Final = server_tool(_serve, name=SERVER_TOOL, description="The server's tool", invoke=True)
"""Made once: reading a signature takes longer than a whole simulation."""
