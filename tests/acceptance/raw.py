"""A client that knows nothing: it sends the JSON that a test gives it and shows what comes back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATIENCE_S = 5.0


class Raw:
    """One socket. `seen` has every frame that was received, in order."""

    def __init__(self, line: ClientConnection) -> None:
        self.line = line
        self.seen: list[dict[str, Any]] = []
        self._given = 0
        self._ids = 0

    async def send(self, **frame: Any) -> None:
        await self.send_text(json.dumps(frame))

    async def send_text(self, text: str | bytes) -> None:
        await self.line.send(text)

    async def receive(self) -> dict[str, Any]:
        """The next frame."""
        if self._given == len(self.seen):
            async with asyncio.timeout(PATIENCE_S):
                self.seen.append(json.loads(await self.line.recv()))
        self._given += 1
        return self.seen[self._given - 1]

    async def expect(self, **fields: Any) -> dict[str, Any]:
        """The next frame with these fields; others before it are passed over."""
        while True:
            frame = await self.receive()
            if all(frame.get(key) == value for key, value in fields.items()):
                return frame

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Send a command with a fresh id; its reply."""
        self._ids += 1
        command = f"raw-{self._ids}"
        await self.send(type=type, id=command, **fields)
        return await self.expect(type="reply", id=command)

    async def hello(self, document: str = "d-raw", **fields: Any) -> dict[str, Any]:
        """Say hello; the welcome."""
        await self.send(**{"type": "hello", "protocol": 1, "documentId": document, **fields})
        return await self.expect(type="welcome")

    async def closed(self) -> int:
        """The code the server closes with; what it says before is in `seen`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    self.seen.append(json.loads(await self.line.recv()))
        except ConnectionClosed:
            return self.line.close_code or 0

    async def events_until(self, *types: str) -> list[dict[str, Any]]:
        """All events up to the first of these types."""
        found: list[dict[str, Any]] = []
        while not any(event["type"] in types for event in found):
            found += (await self.expect(type="events"))["events"]
        return found

    async def run_to_end(self, thread_id: str, message: str, **fields: Any) -> list[dict[str, Any]]:
        """Start a run and read its events to the end."""
        reply = await self.ask("run.start", threadId=thread_id, message=message, **fields)
        assert "result" in reply, reply
        found = [e for f in self.seen if f["type"] == "events" for e in f["events"]]
        if any(e["type"] in ("RUN_FINISHED", "RUN_ERROR") for e in found):
            return found
        return found + await self.events_until("RUN_FINISHED", "RUN_ERROR")


@asynccontextmanager
async def raw(url: str, **options: Any) -> AsyncIterator[Raw]:
    """A socket to the server, with nothing said on it."""
    async with connect(
        url, **{"subprotocols": ["handspan.v1"], "compression": None, **options}
    ) as line:
        yield Raw(line)
