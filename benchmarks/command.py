"""How a benchmark is run from the command line: its options, its core, its first line."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.load import stay_awake
from benchmarks.machine import machine
from benchmarks.server import loop_factory, on_core

Main = Callable[[argparse.Namespace], Awaitable[None]]


def command(about: str | None, main: Main) -> None:
    """Read the options (`repeats`, `short`) and run `main` with them, as the load."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="a look whether it works; no figures")
    on_core(1)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_measured(main, parser.parse_args()))


async def _measured(main: Main, options: argparse.Namespace) -> None:
    print(machine(), flush=True)
    stay_awake()
    await main(options)
