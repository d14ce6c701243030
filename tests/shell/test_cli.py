"""The command line, as a person meets it: one line for what is wrong, and an orderly end."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import handspan
from handspan.shell.reload import stamps

WAIT_S = 10
"""A bound against hanging."""


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handspan", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_the_version_is_printed() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"handspan {handspan.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("serve", "no_such_module:bridge"), "no_such_module"),
        (("serve", "app"), "module:attribute"),
        (("serve", "app:nothing"), "nothing"),
        (("serve", "app:number"), "not a handspan.Bridge"),
        (("serve", "broken:bridge"), "ZeroDivisionError"),
        (("serve", "app:bridge", "--port", "many"), "--port"),
        (("serve", "app:bridge", "--host", "0.0.0.0"), "--insecure"),
        (("serve", "app:bridge", "--origin", "*"), "origin"),
        (("serve",), "APP:BRIDGE"),
        (("dance",), "dance"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    (tmp_path / "app.py").write_text("from handspan import Bridge\nbridge = Bridge()\nnumber = 1\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert why.lower() in lines[0].lower()
    assert "Traceback" not in done.stderr


def test_the_schema_is_json() -> None:
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
        for line in self.process.stderr:
            found = re.search(r"http://\S+:\d+", line)
            if found:
                self.address = found.group()
                break

    def __enter__(self) -> "Server":
        assert self.address, "no banner"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()

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


APP = """
import asyncio
from handspan import Bridge

bridge = Bridge()

@bridge.agent
async def slow(run):
    yield "first "
    await asyncio.sleep(0.5)
    yield "last"
"""


async def test_sigterm_in_a_run_lets_it_finish_and_says_goodbye(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Server("serve", "app:bridge", "--log-json", cwd=tmp_path) as server:
        async with asyncio.timeout(WAIT_S):
            async with connect(server.address.replace("http", "ws")) as page:
                hello = {"type": "hello", "protocol": 1, "documentId": "d"}
                start = {"type": "run.start", "id": "1", "threadId": "t", "message": "hi"}
                await page.send(json.dumps(hello))
                await page.send(json.dumps(start))
                frames = []
                signalled = False
                with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                    while True:
                        text = str(await page.recv())
                        frames.append(json.loads(text))
                        if not signalled and "first " in text:
                            server.process.send_signal(signal.SIGTERM)
                            signalled = True
                            await page.send(json.dumps({**start, "id": "2", "threadId": "u"}))
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1012
        assert server.process.wait(WAIT_S) == 0
    told = json.dumps(frames)
    assert '"last"' in told
    assert '"completed"' in told
    assert frames[-1]["type"] == "goaway"


def test_files_that_change_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "b.py").write_text("1")
    before = stamps(tmp_path)
    assert list(before) == [str(tmp_path / "a.py")]
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert stamps(tmp_path) != before
