"""What whole pages of the documentation promise, lived through as a reader would."""

import asyncio
import contextlib
import json
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.stage import free_port
from tests.docs.kitchen import kitchen
from tests.docs.snippets import DOCS, files_of, snippets_of
from tests.docs.test_snippets import nginx_conf
from tests.shell.test_cli import Server

from handspan.shell.http import _STATIC_HEADERS, FILE_BYTES_MAX
from handspan.shell.tally import Tally
from handspan.testing import Page

WAIT_S = 10
HOW_TO = DOCS / "how-to"


def files_at(page: Path, step: str) -> dict[str, str]:
    """The files of a page as they are at the end of a section."""
    text = page.read_text(encoding="utf-8")
    until = text.index("\n## ", text.index(f"\n## {step}") + 1)
    last = text.count("\n", 0, until)
    files: dict[str, str] = {}
    for snippet in snippets_of(page):
        if snippet.file is not None and snippet.line < last:
            before = files.get(snippet.file, "") if snippet.goes_on else ""
            files[snippet.file] = before + snippet.text
    return files


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


# ---- the tutorial ----------------------------------------------------------------------------

TUTORIAL = DOCS / "tutorial.md"


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab, and in `tab.wrong` what went wrong in it."""
    context = browser.new_context()
    context.set_default_timeout(WAIT_S * 1000)
    page = context.new_page()
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("console", lambda m: page.wrong.append(m.text) if m.type == "error" else None)
    yield page
    context.close()


def log(tab: Any) -> Any:
    return tab.locator("#log")


def between_servers(said: str) -> bool:
    """What a browser complains of by itself: a server that stopped, an icon that nobody has."""
    return "ERR_CONNECTION_REFUSED" in said or "404" in said


@pytest.mark.browser
def test_the_tutorial_keeps_its_word_at_every_step(tab: Any, tmp_path: Path) -> None:
    write(tmp_path, files_at(TUTORIAL, "2."))
    with Server("serve", "app:bridge", "--static", "web", cwd=tmp_path) as server:
        tab.goto(server.address)
        tab.get_by_role("button", name="Send").click()
        tab.get_by_text("assistant: You said: add milk, add bread and make it dark").wait_for()

    write(tmp_path, files_at(TUTORIAL, "3."))
    with Server("serve", "app:bridge", "--static", "web", cwd=tmp_path) as server:
        tab.goto(server.address)
        tab.get_by_role("button", name="Send").click()
        told = "there is no tool 'set_theme'; the tools are: add_item"
        assert told in TUTORIAL.read_text().replace("\n", " "), "the tutorial says so"
        tab.get_by_text(told).wait_for()
        assert tab.locator("#list li").all_text_contents() == ["milk", "bread"]

    write(tmp_path, files_of(TUTORIAL))
    with Server("serve", "app:bridge", "--static", "web", cwd=tmp_path) as server:
        tab.goto(server.address)
        tab.get_by_role("button", name="Send").click()
        tab.get_by_text("set_theme: None.").wait_for()
        assert tab.evaluate("document.documentElement.style.colorScheme") == "dark"
        tab.locator("input").fill("what is on my list?")
        tab.get_by_role("button", name="Send").click()
        tab.get_by_text("read_list: ['milk', 'bread'].").wait_for()
        tab.reload()
        tab.get_by_text("read_list: ['milk', 'bread'].").wait_for()
    assert [said for said in tab.wrong if not between_servers(said)] == []


# ---- FastAPI ---------------------------------------------------------------------------------


@pytest.mark.browser
def test_fastapi_and_the_bridge_share_a_process(tab: Any, tmp_path: Path) -> None:
    ports = {"8000": str(free_port()), "8765": str(free_port())}
    for name, text in files_of(HOW_TO / "fastapi.md").items():
        moved = re.sub(r"\b(8000|8765)\b", lambda port: ports[port[0]], text)
        write(tmp_path, {name: moved})
    address = f"http://127.0.0.1:{ports['8000']}"
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "app:app", "--port", ports["8000"]],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        lines = iter(server.stderr)
        assert any("running on" in line for line in lines), "uvicorn told no address"
        tab.goto(address)
        tab.wait_for_function("() => document.querySelector('script')")
        until_open(tab, f"http://127.0.0.1:{ports['8765']}")
        assert post(f"{address}/ask/our-thread?message=dark") == {
            "reason": "completed",
            "text": "It is dark.",
        }
        assert tab.evaluate("document.documentElement.style.colorScheme") == "dark"
        assert post(f"{address}/theme/our-thread?theme=light") == "light"
        assert tab.evaluate("document.documentElement.style.colorScheme") == "light"
        assert [said for said in tab.wrong if "404" not in said] == []
    finally:
        server.terminate()
        assert server.wait(WAIT_S) in (0, -15)
        server.stderr.close()


def until_open(tab: Any, bridge: str) -> None:
    """Wait until the page's socket is open: a page beside it on the thread sees it come."""
    tab.evaluate(
        """async (url) => {
          const { connect } = await import(url + "/client/handspan.js");
          const other = connect({ url, threadId: "our-thread" });
          await other.runTool("set_theme", { theme: "light" }).catch(() => {});
          while (document.documentElement.style.colorScheme !== "light")
            await other.runTool("set_theme", { theme: "light" }).catch(() => {});
          other.close();
        }""",
        bridge,
    )


def post(url: str) -> Any:
    request = urllib.request.Request(url, method="POST")
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.loads(answer.read())


# ---- a model ---------------------------------------------------------------------------------


async def test_a_model_in_place_of_the_function(tmp_path: Path) -> None:
    themes: list[str] = []

    def set_theme(args: dict[str, Any]) -> dict[str, Any]:
        themes.append(args["theme"])
        return args

    schema = {"type": "object", "properties": {"theme": {"enum": ["light", "dark"]}}}
    tools = {"set_theme": ({"description": "Set it", "parameters": schema}, set_theme)}
    with kitchen(HOW_TO / "model.md", tmp_path) as reader:
        for snippet in snippets_of(reader.page):
            if snippet.language == "python" and "not run" not in snippet.marks:
                await reader.run(snippet)
        from tests.docs.fake_model import client

        client.asked.clear()
        assert reader.bridge is not None
        async with Page(reader.bridge, tools=tools, context={"board": ["milk"]}) as page:
            await page.run("make it dark").finished
            assert page.thread().text == 'One moment. Done: {"theme":"dark"}'
    assert themes == ["dark"]
    first, second = client.asked
    assert first["tools"][0]["function"]["parameters"] == schema
    assert '["milk"]' in first["messages"][0]["content"]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    call = second["messages"][2]["tool_calls"][0]
    assert call["function"] == {"name": "set_theme", "arguments": '{"theme":"dark"}'}
    assert second["messages"][3]["tool_call_id"] == call["id"]


# ---- deployment ------------------------------------------------------------------------------

DEPLOY = HOW_TO / "deploy.md"


async def test_a_page_comes_through_nginx(tmp_path: Path, monkeypatch: Any) -> None:
    nginx, openssl = shutil.which("nginx"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("no nginx, or no openssl, on this machine")
    monkeypatch.setenv("DEPLOY_TOKEN", "t0ken")
    with kitchen(DEPLOY, tmp_path) as reader:
        for snippet in snippets_of(DEPLOY):
            if snippet.language == "python":
                await reader.run(snippet)
        bridge = reader.bridge
    assert bridge is not None
    bridge.add_agent("default", lambda run: f"{run.principal.id}")
    bridge.allow_origins(["https://app.example"])
    (block,) = (s.text for s in snippets_of(DEPLOY) if s.language == "nginx")
    listening = free_port()
    async with bridge.running(port=0) as address:
        conf = nginx_conf(block, tmp_path, openssl, listen=listening, bridge=address.port)
        command = [nginx, "-c", str(conf), "-g", "daemon off; master_process off;"]
        process = await asyncio.create_subprocess_exec(*command)
        try:
            said = await through(listening, {"threadId": "t1", "token": "t0ken"})
        finally:
            process.terminate()
            await process.wait()
    assert said == "ann"


async def through(port: int, wish: dict[str, str]) -> str:
    """Say hello to app.example at a port of this machine, and ask the agent; its text."""
    from websockets.asyncio.client import connect

    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    hello = {"type": "hello", "protocol": 1, "documentId": "d", "token": wish["token"]}
    start = {"type": "run.start", "id": "1", "threadId": wish["threadId"], "message": "who am I?"}
    said = ""
    async with asyncio.timeout(WAIT_S):
        await listening(port)
        socket = connect(
            f"wss://app.example:{port}/",
            host="127.0.0.1",
            port=port,
            ssl=trusting,
            origin="https://app.example",  # type: ignore[arg-type]
            proxy=None,
        )
        async with socket as line:
            await line.send(json.dumps(hello))
            await line.send(json.dumps(start))
            async for text in line:
                for event in json.loads(text).get("events", ()):
                    said += event.get("delta", "")
                    if event["type"] == "RUN_FINISHED":
                        return said
    return said


async def listening(port: int) -> None:
    """Wait until somebody listens there."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0)


def test_the_metrics_that_stand_there_are_those_that_there_are() -> None:
    text = DEPLOY.read_text(encoding="utf-8")
    told = set(re.findall(r"`(handspan_\w+)(?:\{\w+\})?`", text))
    gauges = ("sockets", "sessions", "threads", "runs", "tasks", "loop_lag_seconds")
    made = Tally().text(dict.fromkeys(gauges, 0))
    assert told == set(re.findall(r"^# TYPE (\w+)", made, re.MULTILINE))


def test_what_is_said_of_the_static_page_is_what_it_sends() -> None:
    text = DEPLOY.read_text(encoding="utf-8")
    policy = dict(_STATIC_HEADERS)["Content-Security-Policy"]
    for directive in re.findall(r"\(`((?:default|connect)-src [^`]+)`\)", text):
        assert f"{directive};" in policy
    assert f"{FILE_BYTES_MAX // 1024**2} MiB" in text
