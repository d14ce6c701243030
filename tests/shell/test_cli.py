"""The command line, as a person meets it: one line for what is wrong, and an orderly end."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import handspan
from handspan.shell.reload import stamps

WAIT_S = 30
"""A bound against hanging."""


Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


def from_cold(*arguments: str, cwd: Path | None = None) -> Done:
    """A process of its own from the start; it takes a second to import everything."""
    return subprocess.run(
        [sys.executable, "-m", "handspan", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Carries out a command in a process that was forked from one that has imported everything."""
    root = Path(__file__).parents[2]
    said = tmp_path_factory.mktemp("said")
    files = {"out": str(said / "out"), "err": str(said / "err"), "seconds": WAIT_S}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.shell.warm"],
        cwd=root,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as warm:

        def forked(*arguments: str, cwd: Path = root) -> Done:
            assert warm.stdin is not None
            assert warm.stdout is not None
            order = {"arguments": arguments, "cwd": str(cwd), **files}
            print(json.dumps(order), file=warm.stdin, flush=True)
            status = int(warm.stdout.readline())
            out, err = ((said / name).read_text() for name in ("out", "err"))
            return subprocess.CompletedProcess(arguments, status, out, err)

        yield forked


def test_the_version_is_printed() -> None:
    done = from_cold("--version")
    assert (done.returncode, done.stdout) == (0, f"handspan {handspan.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("serve", "no_such_module:bridge"), "no_such_module"),
        (("serve", "app"), "module:attribute"),
        (("serve", "app.py:bridge"), "say app:bridge"),
        (("serve", "../app:bridge"), "module:attribute"),
        (("serve", "app:nothing"), "nothing"),
        (("serve", "app:number"), "not a handspan.Bridge"),
        (("serve", "broken:bridge"), "ZeroDivisionError: division by zero (broken.py, line 1)"),
        (("serve", "unclosed:bridge"), "unclosed.py, line 1"),
        (("serve", "wrong:bridge"), "(wrong.py, line 2)"),
        (("serve", "app:bridge", "--static", "nowhere"), "nowhere"),
        (("serve", "app:bridge", "--port", "many"), "--port"),
        (("serve", "app:bridge", "--host", "0.0.0.0"), "--insecure"),
        (("serve", "app:bridge", "--origin", "*"), "origin"),
        (("serve",), "APP:BRIDGE"),
        (("serve", "leaver:bridge"), "SystemExit"),
        (("serve", "broken:bridge", "--reload"), "ZeroDivisionError"),
        (("dance",), "dance"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    tmp_path: Path, command: Command, arguments: tuple[str, ...], why: str
) -> None:
    (tmp_path / "app.py").write_text("from handspan import Bridge\nbridge = Bridge()\nnumber = 1\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "unclosed.py").write_text("bridge = (\n")
    (tmp_path / "wrong.py").write_text("from handspan import Bridge\nBridge(store='postgres')\n")
    (tmp_path / "leaver.py").write_text("raise SystemExit(0)\n")
    done = (from_cold if "--reload" in arguments else command)(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert why.lower() in lines[0].lower()
    assert "Traceback" not in done.stderr


def test_without_a_command_there_is_help_and_nothing_else(command: Command) -> None:
    done = command()
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_a_port_that_is_taken_is_one_line_and_status_1(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("demo", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "the port is taken; try --port" in done.stderr


def test_the_schema_is_json(command: Command) -> None:
    told = json.loads(command("schema").stdout)
    assert {"page", "server"} <= told.keys()


class Server:
    """A `handspan` process on a free port; its address is read off the banner."""

    def __init__(self, *arguments: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "handspan", *arguments, "--port", "0"],
            cwd=cwd,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert self.process.stderr is not None
        self.address = ""
        self.lines: list[str] = []
        """What it has said, as far as it was read."""
        self.await_banner()

    def __enter__(self) -> "Server":
        assert self.address, f"no banner: {self.lines}"
        return self

    def await_banner(self) -> None:
        """Read on until it tells an address."""
        self.await_line(r"http://\S+:\d+")
        found = re.search(r"http://\S+:\d+", self.lines[-1] if self.lines else "")
        self.address = found.group() if found else ""

    def await_line(self, pattern: str) -> None:
        """Read on until a line has this, or its end."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if re.search(pattern, line):
                return

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def ended(self) -> int:
        """Its exit status; what it still had to say is read."""
        assert self.process.stderr is not None
        status = self.process.wait(WAIT_S)
        self.lines += self.process.stderr.readlines()
        return status

    def get(self, path: str) -> int:
        with urllib.request.urlopen(self.address + path, timeout=WAIT_S) as answer:
            return int(answer.status)


def test_the_demo_serves_its_page_and_ends_on_a_signal() -> None:
    with Server("demo") as server:
        assert server.get("/") == 200
        assert server.get("/main.js") == 200
        assert server.get("/client/handspan.js") == 200
        assert server.get("/livez") == 200
        assert server.get("/readyz") == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            server.get("/../pyproject.toml")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(WAIT_S) == 0


def test_serve_offers_a_folder_as_the_page(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from handspan import Bridge\nbridge = Bridge()\n")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "index.html").write_text("<title>mine</title>")
    with Server("serve", "app:bridge", "--static", "web", cwd=tmp_path) as server:
        assert server.get("/") == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            server.get("/app.py")


def test_a_page_without_an_icon_is_no_error_in_the_browser(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from handspan import Bridge\nbridge = Bridge()\n")
    with Server("serve", "app:bridge", "--static", ".", cwd=tmp_path) as server:
        server.await_line("there is no agent")
        assert server.get("/favicon.ico") == 204


def test_serve_without_a_page_says_where_the_library_is(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from handspan import Bridge\nbridge = Bridge()\n")
    with Server("serve", "app:bridge", cwd=tmp_path) as server:
        with pytest.raises(urllib.error.HTTPError, match="404") as told:
            server.get("/")
        assert b"/client/handspan.js" in told.value.read()


APP = """
import asyncio, threading
from handspan import Bridge, Policy

bridge = Bridge(policy=Policy(drain_grace=2))

@bridge.agent
async def slow(run):
    yield "first "
    await asyncio.sleep(0.5)
    yield "last"

@bridge.agent("stuck")
async def stuck(run):
    yield "first "
    await asyncio.sleep(3600)

@bridge.agent("deaf")
def deaf(run):
    yield "first "
    threading.Event().wait()
"""


async def run_and_signal(
    server: Server, agent: str, *signals: int, then: dict[str, Any] | None = None
) -> tuple[list[dict[str, Any]], int | None]:
    """Start a run, signal the server when its first text came; the frames and the close code."""
    frames: list[dict[str, Any]] = []
    async with asyncio.timeout(WAIT_S), connect(server.address.replace("http", "ws")) as page:
        start = {"type": "run.start", "id": "1", "threadId": "t", "agent": agent, "message": "hi"}
        for frame in ({"type": "hello", "protocol": 1, "documentId": "d"}, start):
            await page.send(json.dumps(frame))
        with suppress(ConnectionClosed):
            while True:
                text = str(await page.recv())
                frames.append(json.loads(text))
                if "first " not in text:
                    continue
                for number in signals:
                    server.process.send_signal(number)
                    await asyncio.to_thread(server.await_line, "draining")
                if then is not None:
                    await page.send(json.dumps(then))
        return frames, page.close_code


async def test_sigterm_in_a_run_lets_it_finish_and_says_goodbye(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    another = {"type": "run.start", "id": "2", "threadId": "u", "message": "more"}
    with Server("serve", "app:bridge", "--log-json", cwd=tmp_path) as server:
        frames, code = await run_and_signal(server, "default", signal.SIGTERM, then=another)
        assert server.ended() == 0
    told = json.dumps(frames)
    assert '"last"' in told
    assert '"completed"' in told
    replies = {f["id"]: f for f in frames if f["type"] == "reply"}
    assert replies["2"]["error"]["code"] == "draining"
    assert (frames[-1]["type"], code) == ("goaway", 1012)
    for line in server.lines:
        assert {"time", "level", "room", "message"} <= json.loads(line).keys(), line


@pytest.mark.parametrize("agent", ["stuck", "deaf"])
async def test_a_second_signal_leaves_at_once(tmp_path: Path, agent: str) -> None:
    """Whatever a task or a thread of the application is doing."""
    (tmp_path / "app.py").write_text(APP)
    with Server("serve", "app:bridge", cwd=tmp_path) as server:
        _, code = await run_and_signal(server, agent, signal.SIGTERM, signal.SIGTERM)
        assert server.process.wait(WAIT_S) == 128 + signal.SIGTERM
    assert code == 1006


@pytest.mark.long
async def test_a_thread_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Server("serve", "app:bridge", cwd=tmp_path) as server:
        frames, code = await run_and_signal(server, "deaf", signal.SIGTERM)
        assert server.ended() == 0
    assert (frames[-1]["type"], code) == ("goaway", 1012)
    assert "leaving without it" in server.lines[-1]


def test_a_change_restarts_the_server_and_a_signal_ends_both(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    with Server("serve", "app:bridge", "--reload", cwd=tmp_path) as server:
        first = server.address
        app.write_text("not python")
        server.await_line("cannot be loaded")
        app.write_text(APP)
        server.await_banner()
        assert server.get("/livez") == 200
        second = server.address
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == 0
    for address in (first, second):
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{address}/livez", timeout=WAIT_S)


def test_files_that_change_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "b.py").write_text("1")
    before = stamps(tmp_path)
    assert list(before) == [str(tmp_path / "a.py")]
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert stamps(tmp_path) != before
