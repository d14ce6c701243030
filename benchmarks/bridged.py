"""Handspan at the same jobs, as it is used: a Bridge, an agent a job, everything switched on.

Only those limits are raised that the load would hit.
"""

import asyncio
import time
from typing import Any

from benchmarks.work import DELTA, Clocked, Work
from handspan import Bridge, Policy, Run

POLICY = Policy(
    sessions_per_principal=10_000,
    frames_per_second=1_000_000,
    frames_burst=1_000_000,
    max_depth=1_000,
    max_repeats=1_000,
    output_bytes=1 << 30,
)


def work_of(run: Run) -> Work:
    """What the page asked for."""
    return Work.of(str(run.messages[-1].content))


async def stream(run: Run) -> Any:
    """Deltas as fast as it goes."""
    for _ in range(work_of(run).count):
        yield DELTA


async def paced(run: Run) -> Any:
    """One delta in a tick of the loop."""
    for _ in range(work_of(run).count):
        yield DELTA
        await asyncio.sleep(0)


class Diver:
    """Deltas at every depth; a sample is the CPU time of one depth's."""

    def __init__(self, clocked: Clocked) -> None:
        self._clocked = clocked
        self._works: dict[str, Work] = {}

    async def __call__(self, run: Run) -> Any:
        if run.depth == 0:
            self._works[run.id] = work_of(run)
        work = self._works[run.id]
        began = time.process_time()
        for _ in range(work.count):
            yield DELTA
        self._clocked.samples.append(time.process_time() - began)
        if run.depth < work.depth:
            yield run.call("deeper", {})


class Caller:
    """A call at every depth; a sample is the time from one step's call to the next step."""

    def __init__(self, clocked: Clocked) -> None:
        self._clocked = clocked
        self._works: dict[str, Work] = {}
        self._began: dict[str, float] = {}

    async def __call__(self, run: Run) -> Any:
        if run.depth == 0:
            self._works[run.id] = work_of(run)
        else:
            self._clocked.samples.append(time.perf_counter() - self._began.pop(run.id))
        work = self._works[run.id]
        if run.depth < work.count:
            self._began[run.id] = time.perf_counter()
            yield run.call(work.tool, {"n": run.depth})


async def run(clocked: Clocked, serving: Any) -> None:
    """Listen, tell `serving` the port, and serve until it returns."""
    agents = {"stream": stream, "paced": paced, "depth": Diver(clocked), "trips": Caller(clocked)}
    bridge = Bridge(policy=POLICY, agents=agents)

    @bridge.tool
    async def deeper() -> None:
        "Goes on."

    async with bridge.running(port=0) as address:
        await serving(address.port)
