"""Every example begins: it serves a page and ends when it is told to, or says in one line what is
missing."""

import os
import re
import runpy
import socket
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGTERM
from typing import Any, NamedTuple, TextIO

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(
    file.stem for file in EXAMPLES.glob("*.py") if "__main__" in file.read_text(encoding="utf-8")
)
WAIT_S = 60
"""A bound against hanging; some libraries take long to import."""

SERVES = re.compile(r"^open http|running on http")


class Begun(NamedTuple):
    process: Any
    said: TextIO
    port: int


def example(name: str, port: int, said: Connection) -> None:
    """In a process of its own: what `PORT=... python examples/NAME.py` does, without keys."""
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    os.environ["PORT"] = str(port)
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        del os.environ[variable]
    sys.argv = [str(EXAMPLES / f"{name}.py")]
    sys.path.insert(0, str(EXAMPLES))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


@pytest.fixture(scope="module")
def begun() -> Iterator[dict[str, Begun]]:
    """All of them at once, each with its port; forked from a process that has imported Handspan."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["handspan.server"])
    with ExitStack() as stack:
        started = {name: begin(context, name, port, stack) for name, port in ports().items()}
        yield started
        for each in started.values():
            each.process.kill()
            each.process.join(WAIT_S)


def ports() -> dict[str, int]:
    """Ports that nobody has at the moment."""
    with ExitStack() as stack:
        probes = {name: stack.enter_context(socket.socket()) for name in NAMES}
        for probe in probes.values():
            probe.bind(("127.0.0.1", 0))
        return {name: probe.getsockname()[1] for name, probe in probes.items()}


def begin(context: Any, name: str, port: int, stack: ExitStack) -> Begun:
    hears, says = context.Pipe(duplex=False)
    process = context.Process(target=example, args=(name, port, says), daemon=True)
    process.start()
    says.close()
    said = stack.enter_context(os.fdopen(os.dup(hears.fileno()), encoding="utf-8"))
    hears.close()
    return Begun(process, said, port)


@pytest.mark.parametrize("name", NAMES)
def test_it_serves_and_ends_or_says_what_is_missing(name: str, begun: dict[str, Begun]) -> None:
    process, said, port = begun[name]
    before = list(until_it_serves(said))
    if any(SERVES.search(line) for line in before):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=WAIT_S) as page:
            assert b"<!doctype html>" in page.read().lower()
        process.terminate()
        process.join(WAIT_S)
        assert "Traceback" not in said.read()
        assert process.exitcode in (0, -SIGTERM)  # uvicorn's way
    else:
        process.join(WAIT_S)
        assert process.exitcode not in (0, None)
        (line,) = before
        assert re.search("is not set|is not installed|Usage|API_KEY", line)


def until_it_serves(said: Iterable[str]) -> Iterator[str]:
    """What it says, up to the line that tells where it is; all of it, when it ends before."""
    for line in said:
        yield line
        if SERVES.search(line):
            return


def test_the_examples_are_all_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}.py`" not in listed] == []
