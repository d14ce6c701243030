"""The pages: many of them in one process, for whichever server.

A page opens its socket, says who it is (to Handspan), starts runs, answers calls at once, and
counts what it gets. What it got is checked: a server that sends less would be faster.
"""

import asyncio
import itertools
from typing import Any, Final

import orjson

from benchmarks.line import Line

WAIT_S: Final = 300.0
"""A run that takes longer hangs."""

TOOLS: Final = [
    {
        "name": name,
        "description": "A tool of the page",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "readOnly": name == "read",
    }
    for name in ("read", "act")
]
"""`read` starts at once; `act` asks for leave to start."""


class Page:
    """One page of one server; one run at a time."""

    def __init__(self, server: str) -> None:
        self._bridge = server == "handspan"
        self._ids = itertools.count()
        self._line: Line | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits: dict[str, dict[str, Any]] = {}
        """Calls that wait for leave, by the id of the question."""
        self.messages = 0
        self.deltas = 0
        self.calls = 0

    async def open(self, port: int) -> None:
        self._line = await Line.to(port, self._received)
        if self._bridge:
            document = f"d{id(self)}"
            self._say({"type": "hello", "protocol": 1, "documentId": document, "tools": TOOLS})

    async def run(self, work: str) -> None:
        """One run to its end."""
        self._over = asyncio.get_running_loop().create_future()
        if self._bridge:
            start = {"threadId": f"t{id(self)}", "agent": work.partition(" ")[0], "message": work}
            self._ask({"type": "run.start", **start})
        else:
            self._say({"type": "start", "work": work})
        async with asyncio.timeout(WAIT_S):
            await self._over

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    # ---- what comes --------------------------------------------------------------------------

    def _received(self, message: bytes) -> None:
        self.messages += 1
        self.deltas += message.count(b'"TEXT_MESSAGE_CONTENT"')
        if b'"tool.call"' in message:
            self._called(orjson.loads(message))
        elif b'"go"' in message:
            self._answer(self._waits.pop(orjson.loads(message)["id"]))
        if b'"RUN_FINISHED"' in message and not self._over.done():
            self._over.set_result(None)
        elif b'"RUN_ERROR"' in message or b'"error"' in message:
            self._over.set_exception(RuntimeError(message[-500:].decode()))

    def _called(self, frame: dict[str, Any]) -> None:
        self.calls += 1
        if frame["name"] == "act":
            told = {"callId": frame["callId"], "attempt": frame.get("attempt", 1)}
            self._waits[self._ask({"type": "tool.started", **told})] = frame
        else:
            self._answer(frame)

    def _answer(self, frame: dict[str, Any]) -> None:
        told = {"callId": frame["callId"], "attempt": frame.get("attempt", 1)}
        self._ask({"type": "tool.result", **told, "result": {"ok": True}})

    def _ask(self, frame: dict[str, Any]) -> str:
        command = f"{next(self._ids)}"
        self._say({**frame, "id": command})
        return command

    def _say(self, frame: dict[str, Any]) -> None:
        assert self._line is not None
        self._line.send(orjson.dumps(frame))


def stay_awake() -> None:
    """Poll for ever instead of sleeping in between: on one machine a server pays for waking the
    core of its pages, which a server whose pages are elsewhere does not."""
    asyncio.get_running_loop().call_soon(stay_awake)


async def open_pages(server: str, port: int, count: int) -> list[Page]:
    """That many pages, connected; a hundred at a time."""
    pages = [Page(server) for _ in range(count)]
    for first in range(0, count, 100):
        await asyncio.gather(*(page.open(port) for page in pages[first : first + 100]))
    await asyncio.sleep(0.2)  # the tools' schemas are compiled before the clock starts
    return pages


async def run_all(pages: list[Page], work: str) -> None:
    """The same work on every page at once."""
    await asyncio.gather(*(page.run(work) for page in pages))
