"""A server in a process of its own, on a core of its own, and its books.

`python -m benchmarks.server NAME` is the child: it tells its port in a line, and for every line it
reads how much CPU time it has had so far (the kernel's accounting) and the samples it has taken.
`Server` is the parent's end of that.
"""

import asyncio
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.work import Clocked

SERVERS = {"handwritten": "benchmarks.handwritten", "handspan": "benchmarks.bridged"}


@dataclass(frozen=True, slots=True)
class Books:
    """CPU seconds since the last look, and what the server took the time of."""

    cpu_s: float
    samples: list[float]


class Server:
    """One server's process."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = name
        self.port: int = self._read()["port"]
        self._cpu_s = 0.0

    def __enter__(self) -> "Server":
        self.books()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def books(self) -> Books:
        """What was used since this was asked last."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told = self._read()
        used, self._cpu_s = told["cpu_s"] - self._cpu_s, told["cpu_s"]
        return Books(used, told["samples"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the {self.name} server ended")
        told: dict[str, Any] = json.loads(line)
        return told


def on_core(number: int) -> None:
    """Stay on one core, where the system lets us choose and there are two."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def loop_factory() -> Any:
    """uvloop where it is installed, for both servers and for the load."""
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None


async def _serve(name: str) -> None:
    clocked = Clocked()
    loop = asyncio.get_running_loop()

    async def serving(port: int) -> None:
        _tell(port=port)
        while await loop.run_in_executor(None, sys.stdin.readline):
            gc.collect()
            _tell(cpu_s=time.process_time(), samples=clocked.taken())

    await importlib.import_module(SERVERS[name]).run(clocked, serving)


def _tell(**told: Any) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    on_core(0)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(sys.argv[1]))
