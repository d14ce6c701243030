"""A TCP proxy that drops a connection on which nothing was said for a while, as proxies do.

Each direction has its own time, so that a ping that nobody answers is not enough.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK_BYTES = 64 * 1024


class IdleProxy:
    """Forwards 127.0.0.1:`port` to a server's port; drops what is idle for `limit_s`."""

    def __init__(self, target: int, limit_s: float) -> None:
        self.target = target
        self.limit_s = limit_s
        self.port = 0
        self.dropped = asyncio.Event()
        """Set when a connection was dropped for its silence."""
        self._tasks: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["IdleProxy"]:
        """Listen while the context lasts."""
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in filter(None, self._tasks):
                task.cancel()
            await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, back))
                both.create_task(self._carry(there, writer))
        except* (OSError, EOFError):
            pass
        finally:
            for end in (writer, back):
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(self.limit_s):
                    data = await reader.read(CHUNK_BYTES)
                if not data:
                    raise EOFError
                writer.write(data)
                await writer.drain()
        self.dropped.set()
        raise EOFError
