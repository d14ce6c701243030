"""`python -m benchmarks.roundtrip`: what it takes to have a page do something and go on.

Calls after each other, 20 in a run: to a tool that only reads, which starts at once, and to one
that acts, which asks for leave first. One page alone, and 50 at once. The time is the server's,
from the agent's call to the agent's next step; the page answers at once.
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

CALLS = 20
PAGES = (1, 50)


@dataclass(frozen=True, slots=True)
class Trips:
    """One measurement, in milliseconds and CPU microseconds a trip."""

    p50_ms: float
    p99_ms: float
    cpu_us: float


async def trips(server: Server, tool: str, pages: int, runs: int) -> Trips:
    """`runs` runs of each page, after two that do not count."""
    there = await open_pages(server.name, server.port, pages)
    for _ in range(2):
        await run_all(there, f"trips {tool} {CALLS}")
    for page in there:
        page.calls = 0
    server.books()
    for _ in range(runs):
        await run_all(there, f"trips {tool} {CALLS}")
    books = server.books()
    count = runs * CALLS * pages
    assert sum(page.calls for page in there) == len(books.samples) == count
    for page in there:
        page.close()
    await asyncio.sleep(0.1)
    cuts = statistics.quantiles(books.samples, n=100)
    return Trips(cuts[49] * 1e3, cuts[98] * 1e3, books.cpu_s / count * 1e6)


async def table(repeats: int, runs: int) -> AsyncIterator[list[str]]:
    for tool, said in (("read", "reads"), ("act", "acts, asks for leave")):
        for pages in PAGES:
            found: dict[str, list[Trips]] = {name: [] for name in SERVERS}
            for _ in range(repeats):
                for name in SERVERS:
                    with Server(name) as server:
                        found[name].append(await trips(server, tool, pages, max(1, runs // pages)))
            ours, theirs = found["handspan"], found["handwritten"]
            ratios = [b.cpu_us / a.cpu_us for a, b in zip(ours, theirs, strict=True)]
            yield [said, f"{pages}", _shown(theirs), _shown(ours), middle(ratios)]


def _shown(found: list[Trips]) -> str:
    p50, p99, cpu = (
        statistics.median(getattr(each, name) for each in found)
        for name in ("p50_ms", "p99_ms", "cpu_us")
    )
    return f"{p50:.2f} / {p99:.2f} / {cpu:.0f}"


async def main(options: argparse.Namespace) -> None:
    head = ["tool", "pages", "by hand: p50 ms / p99 ms / CPU us", "Handspan", "ratio by CPU"]
    repeats, runs = (1, 2) if options.short else (options.repeats, 100)
    await printed(head, table(repeats, runs))


if __name__ == "__main__":
    command(__doc__, main)
