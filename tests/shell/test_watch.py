"""A loop that stands still is noticed, with the name of who holds it up."""

import logging
import time
import urllib.request
from typing import Any

import anyio
import pytest

from handspan import Bridge, Run
from handspan.shell import watch as watch_room
from handspan.testing import Page


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the times."""
    monkeypatch.setattr(watch_room, "BEAT_S", 0.02)
    monkeypatch.setattr(watch_room, "BLOCKED_S", 0.1)


def block(caplog: pytest.LogCaptureFixture) -> None:
    """Hold up the loop until it was noticed, but not for ever."""
    end = time.monotonic() + 5
    while not caplog.records and time.monotonic() < end:
        time.sleep(0.02)


def lag_of(metrics: str) -> float:
    lines = [line for line in metrics.splitlines() if line.startswith("handspan_loop_lag_seconds ")]
    (line,) = lines
    return float(line.split()[1])


async def metrics(address: Any) -> str:
    def ask() -> str:
        with urllib.request.urlopen(f"{address}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    return await anyio.to_thread.run_sync(ask)


async def test_an_agent_that_blocks_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    bridge = Bridge()

    @bridge.agent("sleepy")
    async def sleepy(run: Run) -> str:
        block(caplog)
        return "Awake."

    with caplog.at_level(logging.WARNING, "handspan.watch"):
        async with bridge.running() as address:
            async with Page.dial(address.ws) as page:
                await page.run("hi", agent="sleepy").finished
            assert lag_of(await metrics(address)) > 0.1
            assert lag_of(await metrics(address)) < 5
    assert (
        caplog.records[0].getMessage()
        == "the event loop is blocked, by the agent 'sleepy' at depth 0"
    )


async def test_a_server_tool_that_blocks_the_loop_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bridge = Bridge()

    @bridge.tool(invoke=True)
    async def slow() -> None:
        "Blocks."
        block(caplog)

    with caplog.at_level(logging.WARNING, "handspan.watch"):
        async with bridge.running():
            await bridge.call_tool("t1", "slow", {})
    assert caplog.records[0].getMessage() == "the event loop is blocked, by a server tool"


async def test_code_that_is_neither_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "handspan.watch"):
        async with Bridge().running():
            block(caplog)
    assert caplog.records[0].getMessage().endswith("by something that is no agent's")
