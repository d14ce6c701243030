"""How every example here is served, so that each can be about one thing.

    serving.run(bridge)                              with the demo's page
    serving.run(bridge, {"index.html": ..., ...})    with a page of its own

On the port that PORT names, 8765 if nothing does, until Ctrl-C or SIGTERM; runs under way may end.
Import it first: what is missing, a library or a key, is then one line instead of a traceback. An
application of yours needs none of this: `handspan serve app:bridge --static web` does the same.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from handspan import Bridge
from handspan_protocol.errors import HandspanError

DEMO = Path(__file__).parents[1] / "web-demo"
PORT = int(os.environ.get("PORT", "8765"))


def run(bridge: Bridge, page: Mapping[str, str] | Path = DEMO) -> None:
    """Serve the bridge and a page: a folder, or its files by name."""
    if isinstance(page, Path):
        asyncio.run(_serve(bridge, page))
        return
    with TemporaryDirectory() as folder:
        for name, text in page.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        asyncio.run(_serve(bridge, Path(folder)))


def key(variable: str) -> str:
    """The key that an environment variable has; without one the example ends here."""
    return os.environ.get(variable, "").strip() or sys.exit(f"{variable} is not set")


async def _serve(bridge: Bridge, page: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with bridge.running(port=PORT, static=page) as address:
        print(f"open {address}", flush=True)  # noqa: T201
        await stop.wait()
        await bridge.drain()


def _in_one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> Any:
    if isinstance(error, ModuleNotFoundError):
        extras = "the first lines of the example say what to install"
        print(f"{error.name} is not installed; {extras}", file=sys.stderr)  # noqa: T201
    elif isinstance(error, HandspanError | OSError):
        print(error, file=sys.stderr)  # noqa: T201
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _in_one_line
