"""A provider's server as a test plays it: real HTTP on loopback, its bytes cut anywhere.

Owns the socket and the cutting; what is answered, and in which form, is the caller's `answer`.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.contract.agents.stage import Script

Json = Any


@dataclass
class Call:
    """One request."""

    path: str
    headers: dict[str, str]
    body: Json


@dataclass
class Reply:
    """The answer to it: a stream of these texts, and then nothing (`hangs`), or its end.

    `breaks`: the connection is dropped after the texts, in the middle of the answer.
    """

    texts: list[str] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    breaks: bool = False


Answer = Callable[[Call], Reply | Awaitable[Reply]]


@asynccontextmanager
async def serving(
    answer: Answer, script: Script | None = None, seed: int = 7
) -> AsyncIterator[str]:
    """A server; yields its URL. A stream that hangs and is given up sets `script.stopped`."""
    dice = random.Random(seed)

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (call := await _read(reader)) is not None:
                said = answer(call)
                reply = await said if isinstance(said, Awaitable) else said
                if not await _write(reader, writer, reply, dice):
                    if script is not None:
                        script.stopped.set()
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    lines: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.add(asyncio.ensure_future(attend(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Call | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Call(head[0].split(" ")[1], headers, json.loads(body or b"null"))


async def _write(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply, dice: random.Random
) -> bool:
    """Whether the connection can be used again; not when it was given up."""
    kind = "text/event-stream" if reply.status == 200 else "application/json"
    headers = {"content-type": kind, "transfer-encoding": "chunked", **reply.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {reply.status} Said\r\n{head}\r\n".encode())
    for text in reply.texts:
        for piece in cut(text.encode(), dice):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if dice.random() < 0.2:
                await writer.drain()
                await asyncio.sleep(0)
    if reply.breaks:
        return False
    if reply.hangs:
        await writer.drain()
        await reader.read(1)
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def cut(data: bytes, dice: random.Random) -> list[bytes]:
    """The bytes in pieces, cut anywhere, in the middle of characters too."""
    pieces = []
    while data:
        size = dice.choice((1, 2, 3, 5, 11, 40, 200))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def sse(data: Json, event: str | None = None) -> str:
    """One server-sent event."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
