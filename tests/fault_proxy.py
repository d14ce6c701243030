"""A TCP proxy that misbehaves on demand: it cuts connections, refuses new ones, and stalls.

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
        self.port = 0
        self.opened = 0
        """Connections that were forwarded so far."""
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()

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
            self._flowing.set()

    def cut(self) -> None:
        """Drop every connection, both ways, without a goodbye."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self, refusing: bool = True) -> None:
        """Drop new connections at once, until told otherwise."""
        self._refusing = refusing

    def stall(self) -> None:
        """Carry nothing any more, and keep every connection open."""
        self._flowing.clear()

    def flow(self) -> None:
        """Carry on."""
        self._flowing.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        self.opened += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        finally:
            for end in (writer, back):
                self._writers.discard(end)
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
