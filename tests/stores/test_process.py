"""P16, with all that there is: a server that is killed in the middle of a call, and its heir."""

import asyncio
import signal
from pathlib import Path

from tests.shell.test_cli import WAIT_S, Server

from handspan.stores.sqlite.reading import Reading
from handspan.testing import Page
from handspan.testing.lines import over_network

APP = """
from handspan import Bridge, Policy

bridge = Bridge(store="sqlite:///threads.db")


@bridge.agent
async def assistant(run):
    if run.depth == 0:
        yield "I will. "
        yield run.call("add", {"n": 1})
    else:
        yield f"It is {run.results[0].value}."
"""


async def test_a_server_that_is_killed_in_the_middle_of_a_call_is_gone_on_with(
    tmp_path: Path,
) -> None:
    """The page keeps its session, answers the call to the next process, and the run resumes."""
    (tmp_path / "app.py").write_text(APP)
    with Server("serve", "app:bridge", cwd=tmp_path) as server:
        page = Page.dial(f"ws{server.address[4:]}/", tools={"add": None})
        await page.connect()
        run = page.run("go")
        held = await page.next_call("add")
        await held.start()
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(WAIT_S)
    with Server("serve", "app:bridge", cwd=tmp_path) as server:
        page._route = over_network(f"ws{server.address[4:]}/", None)
        async with asyncio.timeout(WAIT_S):
            welcome = await page.reconnect()
            assert welcome["resumed"] is True
            assert await held.answer(5) == "applied"
            assert (await run.finished)["reason"] == "completed"
        assert page.thread().text.endswith("It is 5.")
        reading = Reading.of_any(tmp_path / "threads.db")
        (key,) = reading.message_counts()
        assert [name for name in reading.thread(key) if name[0] == "run"] == []
        assert reading.message_counts() == {key: 4}
        reading.close()
        await page.leave()
