"""Restart on change: a parent that watches .py files and keeps one child serving.

For development only. The child is the same command with HANDSPAN_CHILD set; it is asked to drain by
SIGTERM, so that pages come back by themselves.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

POLL_S: Final = 0.5
"""How often the files' times are looked at."""

CHILD_GRACE_S: Final = 5.0
"""How long a child may drain before it is killed."""

_SKIPPED: Final = frozenset({".venv", "venv", "node_modules", "__pycache__", ".git"})


def watch(folder: Path) -> int:
    """Serve and restart until a signal; returns the exit status."""
    child = _start()
    seen = stamps(folder)
    try:
        while True:
            time.sleep(POLL_S)
            now = stamps(folder)
            if now != seen:
                seen = now
                _stop(child)
                child = _start()
    except KeyboardInterrupt:
        return 0
    finally:
        _stop(child)


def stamps(folder: Path) -> dict[str, int]:
    """The time of change, in ns, of each .py file below the folder."""
    found: dict[str, int] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _SKIPPED]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                try:
                    found[path] = os.stat(path).st_mtime_ns
                except OSError:
                    continue
    return found


def _start() -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "HANDSPAN_CHILD": "1"}
    command = [sys.executable, "-m", "handspan", *sys.argv[1:]]
    return subprocess.Popen(command, env=environment)  # noqa: S603 (our own command line)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is not None:
        return
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(CHILD_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
