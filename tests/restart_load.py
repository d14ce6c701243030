"""A server that is restarted while many pages are in the middle of runs: who is back, and when.

    python -m tests.restart_load [--pages 200] [--how kill|term] [--synchronous FULL|NORMAL]

A real `handspan serve` over a real file, and pages on real sockets in this process, each with a run
of six tool calls, of which every second one must not run twice. In the middle of it the server is
killed (SIGKILL), or told to leave (SIGTERM) with a `drain_grace` that the runs outlast; another one
is started on the same port and file. Prints one line a restart; the figures are in tests/README.md.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handspan.core.transcript import broken_rules
from handspan.testing import Page
from handspan.testing.page import SocketClosed

CALLS = 6
HANDLER_S = 0.15
DRAIN_S = 0.3
PATIENCE_S = 60.0

APP = f"""
from handspan import Bridge, Policy, Run

bridge = Bridge(store="STORE", policy=Policy(drain_grace={DRAIN_S}))

@bridge.agent
async def agent(run: Run):
    if run.depth < {CALLS}:
        yield f"Step {{run.depth}}. "
        yield run.call("once" if run.depth % 2 else "often", {{"n": run.depth}})
    else:
        yield "Done."
"""


@dataclass
class Tab:
    """One page, its run, and how often each call was carried out."""

    page: Page
    run: Any = None
    ran: Counter[str] = field(default_factory=Counter)
    back_at: float = 0.0
    done: bool = False


@dataclass(frozen=True)
class Figures:
    """What became of one restart."""

    pages: int
    up_s: float
    """From the server's end until the next one listened."""
    back_s: float
    """From the server's end until the last page was welcomed."""
    ended_s: float
    """From the server's end until the last run was over."""
    resumed: int
    completed: int
    doubled: int
    broken: int

    def __str__(self) -> str:
        return (
            f"{self.pages} pages: server up again after {self.up_s:.2f} s, every page back after"
            f" {self.back_s:.2f} s, every run over after {self.ended_s:.2f} s;"
            f" {self.resumed} sessions resumed, {self.completed} runs completed,"
            f" {self.doubled} calls doubled, {self.broken} histories broken"
        )


async def restarted(folder: Path, *, pages: int, how: str, synchronous: str = "FULL") -> Figures:
    """Restart a server under `pages` pages, each in the middle of a run."""
    (folder / "app.py").write_text(
        APP.replace("STORE", f"sqlite:///s.db?synchronous={synchronous}")
    )
    port = _free_port()
    server = await _serve(folder, port)
    tabs = [_tab(port, number) for number in range(pages)]
    try:
        for tab in tabs:
            await tab.page.connect()
            tab.run = tab.page.run("go")
        await _until(lambda: all(sum(tab.ran.values()) >= 2 for tab in tabs))
        server.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        await server.wait()
        began = time.monotonic()
        server = await _serve(folder, port)
        up = time.monotonic()
        await asyncio.gather(*(_come_back(tab) for tab in tabs))
        ended = time.monotonic()
    finally:
        for tab in tabs:
            await tab.page.leave()
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        await server.wait()
    return Figures(
        pages=pages,
        up_s=up - began,
        back_s=max(tab.back_at for tab in tabs) - began,
        ended_s=ended - began,
        resumed=sum(bool(tab.page.welcome["resumed"]) for tab in tabs),
        completed=sum(tab.done for tab in tabs),
        doubled=sum(n > 1 for tab in tabs for n in tab.ran.values()),
        broken=sum(bool(broken_rules(tab.page.messages)) for tab in tabs),
    )


def _tab(port: int, number: int) -> Tab:
    tab = Tab(Page.dial(f"ws://127.0.0.1:{port}/", threads=(f"t{number}",)))

    async def carry_out(args: dict[str, Any]) -> int:
        tab.ran[f"{args['n']}"] += 1
        await asyncio.sleep(HANDLER_S)
        return int(args["n"])

    tab.page.tool("once", {}, carry_out)
    tab.page.tool("often", {"idempotent": True}, carry_out)
    return tab


async def _come_back(tab: Tab) -> None:
    """Reconnect as the page's library does, with growing pauses, and see the run to its end."""
    pause = 0.1
    while tab.back_at == 0.0:
        try:
            await tab.page.connect()
            tab.back_at = time.monotonic()
        except (OSError, SocketClosed, TimeoutError):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 1.0)
    async with asyncio.timeout(PATIENCE_S):
        tab.done = (await tab.run.finished)["reason"] == "completed"


async def _until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _serve(folder: Path, port: int) -> asyncio.subprocess.Process:
    """A server that listens."""
    command = (sys.executable, "-m", "handspan", "serve", "app:bridge", "--port", str(port))
    server = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return server
        await asyncio.sleep(0.02)
    raise TimeoutError("the server does not listen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.restart_load")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--how", choices=("kill", "term"), default="kill")
    parser.add_argument("--synchronous", choices=("FULL", "NORMAL"), default="FULL")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = restarted(Path(folder), pages=args.pages, how=args.how, synchronous=args.synchronous)
        print(asyncio.run(work))


if __name__ == "__main__":
    main()
