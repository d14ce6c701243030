"""`python -m benchmarks.stream`: what an event of a stream costs the server.

2,000 deltas of 12 characters to 1, 50 and 500 pages, each page its own run: as fast as the agent
can say them, and one in a tick of the loop. Then the same event at depth 0 and at depth 20.
"""

import argparse
import asyncio
import statistics
from collections.abc import AsyncIterator
from dataclasses import dataclass

from benchmarks.command import command
from benchmarks.load import open_pages, run_all
from benchmarks.server import SERVERS, Server
from benchmarks.table import middle, printed

Rows = AsyncIterator[list[str]]

PAGES = (1, 50, 500)
DELTAS = 2_000
DEPTH = 20


@dataclass(frozen=True, slots=True)
class Streamed:
    """One measurement: events per CPU second of the server, and how they were packed."""

    per_cpu_s: float
    per_message: float


async def streamed(server: Server, mode: str, pages: int, deltas: int, runs: int) -> Streamed:
    """`runs` runs after each other on each page, after one that does not count."""
    there = await open_pages(server.name, server.port, pages)
    await run_all(there, f"{mode} {min(deltas, 200)}")
    for page in there:
        page.deltas = page.messages = 0
    server.books()
    for _ in range(runs):
        await run_all(there, f"{mode} {deltas}")
    used = server.books().cpu_s
    assert all(page.deltas == runs * deltas for page in there), "a server that loses events"
    events = runs * deltas * pages
    messages = sum(page.messages for page in there)
    for page in there:
        page.close()
    await asyncio.sleep(0.1)
    return Streamed(events / used, events / messages)


async def stream_table(repeats: int, pages: tuple[int, ...], deltas: int) -> Rows:
    for mode, said in (("stream", "as fast as it goes"), ("paced", "one a tick")):
        for count in pages:
            yield [said, f"{count}", *await _compared(mode, count, deltas, repeats)]


async def _compared(mode: str, pages: int, deltas: int, repeats: int) -> list[str]:
    found: dict[str, list[Streamed]] = {name: [] for name in SERVERS}
    for _ in range(repeats):
        for name in SERVERS:
            with Server(name) as server:
                runs = max(1, 20 // pages)
                found[name].append(await streamed(server, mode, pages, deltas, runs))
    ours, theirs = found["handspan"], found["handwritten"]
    ratios = [a.per_cpu_s / b.per_cpu_s for a, b in zip(ours, theirs, strict=True)]
    return [
        f"{statistics.median(each.per_cpu_s for each in theirs):,.0f}",
        f"{statistics.median(each.per_cpu_s for each in ours):,.0f}",
        middle(ratios),
        f"{statistics.median(each.per_message for each in ours):.1f}",
    ]


async def depth_table(repeats: int, deltas: int) -> Rows:
    """CPU time of an event by depth; the run says the same at every depth."""
    at: dict[int, list[float]] = {}
    for _ in range(repeats):
        with Server("handspan") as server:
            (page,) = await open_pages("handspan", server.port, 1)
            await page.run(f"depth {DEPTH} {deltas}")
            server.books()
            for _ in range(5):
                await page.run(f"depth {DEPTH} {deltas}")
            samples = server.books().samples
            page.close()
        for index, sample in enumerate(samples):
            at.setdefault(index % (DEPTH + 1), []).append(sample / deltas * 1e6)
    cost = {depth: statistics.median(samples) for depth, samples in at.items()}
    for depth in (0, 1, 10, DEPTH):
        yield [f"{depth}", f"{cost[depth]:.2f}", f"{cost[depth] / cost[0]:.2f}"]


async def main(options: argparse.Namespace) -> None:
    pages = PAGES[:2] if options.short else PAGES
    repeats = 1 if options.short else options.repeats
    deltas = 200 if options.short else DELTAS
    head = ["deltas", "pages", "by hand, /CPU s", "Handspan, /CPU s", "ratio", "events a message"]
    await printed(head, stream_table(repeats, pages, deltas))
    await printed(["depth", "us of CPU an event", "to depth 0"], depth_table(repeats, deltas))


if __name__ == "__main__":
    command(__doc__, main)
