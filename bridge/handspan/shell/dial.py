"""A page's end of a real socket, for pages in Python: the other half of `websocket`.

Beside it the only module that knows the websockets library. Only `handspan.testing` needs it.
"""

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.typing import Origin, Subprotocol

from handspan_protocol.version import SUBPROTOCOL

from .socket import one_line_logger
from .websocket import CLOSE_DEADLINE_S

__all__ = ["Dialled", "dial"]


class Dialled:
    """A page's end of a real socket, for pages in Python."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line

    def send(self, text: str) -> None:
        """Send one text message; never waits."""
        if self._line.state is State.OPEN:
            self._line.protocol.send_text(text.encode("utf-8", "surrogatepass"))
            self._line.send_data()

    async def receive(self) -> str | None:
        """The next text message; None: the socket has ended."""
        try:
            return str(await self._line.recv())
        except ConnectionClosed:
            return None

    @property
    def ended(self) -> tuple[int, str]:
        """Close code and reason, when it has ended."""
        return self._line.close_code or 1006, self._line.close_reason or ""

    async def close(self, code: int, reason: str = "") -> None:
        """Close in good order."""
        await self._line.close(code, reason)

    def abort(self) -> None:
        """Drop the transport at once."""
        self._line.transport.abort()


async def dial(url: str, *, origin: str | None = None) -> Dialled:
    """Open a socket as a page does."""
    line = await connect(
        url,
        origin=None if origin is None else Origin(origin),
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        compression=None,
        ping_interval=None,
        max_size=None,
        close_timeout=CLOSE_DEADLINE_S,
        logger=one_line_logger("handspan.websockets"),
    )
    return Dialled(line)
