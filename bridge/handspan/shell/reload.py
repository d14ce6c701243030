"""Restart on change: a parent that watches .py files and keeps one child serving.

For development only. The child is the same command with HANDSPAN_CHILD set, in a session of its
own, so that a Ctrl-C reaches the parent alone, which passes it on; it is asked to drain by SIGTERM,
so that pages come back by themselves. A child that ends before anything changed ends the parent
with its status; one that a change broke is waited for until the next change.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_LOG = logging.getLogger("handspan.reload")

CHILD: Final = "HANDSPAN_CHILD"
"""Set in the environment of the process that is to serve itself."""

POLL_S: Final = 0.3
"""How often the files' times and the child are looked at."""

CHILD_GRACE_S: Final = 2.0
"""How long a child may drain for a restart before it is told to leave at once."""

_SKIPPED: Final = frozenset({"venv", "node_modules", "__pycache__"})
"""Folders not looked into, beside the hidden ones."""

_SIGNALS: Final = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def watch(folder: Path) -> int:
    """Serve and restart until a signal; returns the exit status."""
    asked: list[int] = []
    for number in _SIGNALS:
        signal.signal(number, lambda number, _: asked.append(number))
    seen = stamps(folder)
    child = _start()
    restarted = False
    while not asked:
        time.sleep(POLL_S)
        now = stamps(folder)
        if now != seen:
            changed = sorted(now.items() ^ seen.items())[0][0]
            seen = now
            _LOG.info("%s changed: starting anew", os.path.relpath(changed, folder))
            _replace(child)
            child = _start()
            restarted = True
        elif child.poll() is not None and not restarted:
            break
    return _leave(child, asked)


def stamps(folder: Path) -> dict[str, int]:
    """The time of change, in ns, of each .py file below the folder."""
    found: dict[str, int] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in _SKIPPED and not f.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                try:
                    found[path] = os.stat(path).st_mtime_ns
                except OSError:
                    continue
    return found


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 (our own command line)
        [sys.executable, "-m", "handspan", *sys.argv[1:]],
        env={**os.environ, CHILD: "1"},
        start_new_session=True,
    )


def _replace(child: "subprocess.Popen[bytes]") -> None:
    """End the child, however busy it is."""
    for number in (signal.SIGTERM, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if child.poll() is None:
            child.send_signal(number)
            _await(child, CHILD_GRACE_S)
    child.wait()


def _leave(child: "subprocess.Popen[bytes]", asked: list[int]) -> int:
    """Pass on each signal that came, and those that come meanwhile, until the child is gone."""
    passed = 0
    while child.poll() is None:
        if len(asked) > passed:
            passed += 1
            child.send_signal(signal.SIGTERM)
        _await(child, 0.1)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _await(child: "subprocess.Popen[bytes]", seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
