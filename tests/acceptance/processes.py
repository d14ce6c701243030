"""A server in a process of its own, over a real store, killed whenever a test likes.

    server = Process(app, path)          a fork of this process: nothing is imported anew
    server.url                           where it listens
    server.kill() / server.terminate()   SIGKILL, or SIGTERM as `handspan serve` takes it

`app(store)` makes the Bridge. `die_at=n`: SIGKILL from inside, before the n-th operation on the
store's file. Only where there is `fork`.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handspan import Bridge
from handspan.stores.sqlite import SQLiteStore

PATIENCE_S = 20.0

needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork and no SIGKILL")

_FORK = multiprocessing.get_context("fork") if sys.platform != "win32" else None


class Process:
    """One life of the server."""

    def __init__(
        self,
        app: Callable[[Any], Bridge],
        path: Path,
        *,
        port: int = 0,
        die_at: int | None = None,
    ) -> None:
        assert _FORK is not None
        mine, theirs = _FORK.Pipe()
        self._pipe = mine
        live = (app, path, port, die_at, theirs)
        self.process = _FORK.Process(target=_live, args=live, daemon=True)
        self.process.start()
        theirs.close()
        self.url, self.port = "", 0

    def wait_until_up(self) -> bool:
        """Whether it listens; False: it died before."""
        try:
            self.url, self.port = self._pipe.recv() if self._pipe.poll(PATIENCE_S) else ("", 0)
        except EOFError:
            return False
        return bool(self.url)

    def kill(self) -> None:
        self.process.kill()
        self.join()

    def terminate(self) -> None:
        """Ask it to leave; returns at once."""
        self.process.terminate()

    def join(self) -> int | None:
        """Wait for its end; the exit status, negative for a signal."""
        self.process.join(PATIENCE_S)
        return self.process.exitcode


def _live(app: Any, path: Path, port: int, die_at: int | None, pipe: Any) -> None:
    def operation(number: int) -> None:
        if number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(_serve(app(SQLiteStore(path, on_operation=operation)), port, pipe))
    os._exit(0)  # this is a fork of pytest, whose own end is none of ours


async def _serve(bridge: Bridge, port: int, pipe: Any) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with bridge.running("127.0.0.1", port) as address:
        pipe.send((address.ws, address.port))
        await stop.wait()
        await bridge.drain()
