"""A TCP proxy that misbehaves on demand: it cuts connections, refuses new ones, stalls and delays.

Runs in the loop that made it; every method but `running` returns at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK_BYTES = 64 * 1024


class FaultProxy:
    """Forwards 127.0.0.1:`port` to a server's port."""

    def __init__(self, target: int) -> None:
        self.target = target
        """Where new connections are forwarded to."""
        self.port = 0
        self.opened = 0
        """Connections that were forwarded so far."""
        self.delay_s = 0.0
        """What each piece of data waits before it is passed on, either way; order is kept."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._refusing = False
        self._flowing = _open_gate()
        self._stalled: list[asyncio.Event] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FaultProxy"]:
        """Listen while the context lasts."""
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            self.flow()
            await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)

    def cut(self) -> None:
        """Drop every connection, both ways, without a goodbye."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self, refusing: bool = True) -> None:
        """Drop new connections at once, until told otherwise."""
        self._refusing = refusing

    def stall(self) -> None:
        """Carry nothing more on the connections there are, and keep them open; new ones work."""
        self._flowing.clear()
        self._stalled.append(self._flowing)
        self._flowing = _open_gate()

    def flow(self) -> None:
        """Carry on where it stalled; what was held comes late, not lost."""
        while self._stalled:
            self._stalled.pop().set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        self.opened += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        flowing = self._flowing
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(
                self._carry(reader, back, flowing), self._carry(there, writer, flowing)
            )
        finally:
            for end in (writer, back):
                self._writers.discard(end)
                end.transport.abort()
            self._tasks.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await asyncio.sleep(self.delay_s)
                await flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate
