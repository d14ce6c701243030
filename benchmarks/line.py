"""A page's end of a WebSocket, as cheap as it can be: the load must not be what is measured.

Owns the handshake, masking, and cutting the stream into messages (RFC 6455, without fragments and
extensions, which neither server sends). Knows nothing of what a message says.
"""

import asyncio
import base64
import os
import struct
from collections.abc import Callable
from typing import Final, cast

OnMessage = Callable[[bytes], None]

_TEXT: Final = 0x1
_CLOSE: Final = 0x8
_PING: Final = 0x9
_PONG: Final = 0xA


class Line(asyncio.Protocol):
    """One socket. `on_message` gets each text message; `opened` is set when the server agreed."""

    def __init__(self, on_message: OnMessage) -> None:
        self.on_message = on_message
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[str] = loop.create_future()
        """Why it ended."""
        self._transport: asyncio.Transport | None = None
        self._held = b""

    @classmethod
    async def to(cls, port: int, on_message: OnMessage) -> "Line":
        """Connect to a port of this machine."""
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: cls(on_message), "127.0.0.1", port)
        line._transport_or_die().write(_handshake(port))
        await line.opened
        return line

    def send(self, message: bytes) -> None:
        """One text message."""
        self._write(_TEXT, message)

    def close(self) -> None:
        """Leave without a word."""
        self._transport_or_die().abort()

    # ---- asyncio's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the server did not agree"))
        if not self.closed.done():
            self.closed.set_result(repr(error))

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        if not self.opened.done():
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self._held = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self.opened.set_result(None)
        self._held = self._cut(data)

    # ---- parts -------------------------------------------------------------------------------

    def _cut(self, data: bytes) -> bytes:
        """Hand out the whole messages; returns the beginning of the next."""
        at, have = 0, len(data)
        while have - at >= 2:
            kind, length, start = data[at] & 0x0F, data[at + 1], at + 2
            if length == 126:
                length, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
            elif length == 127:
                length, start = int.from_bytes(data[at + 2 : at + 10]), at + 10
            if have < start + length:
                break
            self._take(kind, data[start : start + length])
            at = start + length
        return data[at:]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == _TEXT:
            self.on_message(payload)
        elif kind == _PING:
            self._write(_PONG, payload)
        elif kind == _CLOSE and not self.closed.done():
            self.closed.set_result(payload.hex())

    def _write(self, kind: int, payload: bytes) -> None:
        """One frame; the mask is zeros, which leaves the payload as it is."""
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
        self._transport_or_die().write(head + b"\0\0\0\0" + payload)

    def _transport_or_die(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport


def _handshake(port: int) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: handspan.v1\r\n\r\n"
    ).encode()
