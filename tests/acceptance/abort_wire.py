"""A page whose frames can leave together: several commands in one TCP segment.

    with wire.corked():
        said = [page.document.post(first), page.document.post(second)]

One write of less than a segment's size is one segment; that the server read it in one go is what
`Wire.arrived_whole` looks at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.acceptance.house import House

from handspan.shell import websocket
from handspan.shell.dial import Dialled, dial
from handspan.testing import Page
from handspan.testing.lines import Ear, NetworkLine


class Wire:
    """The socket of one page."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[bytes] = []
        """What the page's side wrote, write by write."""
        self.read: list[bytes] = []
        """What the server's side read, read by read; of every socket."""
        self.socket: _Corked
        self._listen(monkeypatch)

    async def page(self, home: House, **options: Any) -> Page:
        """A page of the house on this wire."""

        async def route(ear: Ear) -> NetworkLine:
            self.socket = _Corked(await dial(home.url), self.written)
            return NetworkLine(self.socket, ear)

        page = Page(route, **options)
        home.pages.append(page)
        home.stack.push_async_callback(page.leave)
        await page.connect()
        return page

    @contextmanager
    def corked(self) -> Iterator[None]:
        """What is sent meanwhile leaves at the end, in one write."""
        self.socket.is_corked = True
        yield
        self.socket.is_corked = False
        self.socket.write()

    @property
    def arrived_whole(self) -> bool:
        """Whether the last write was read as one piece."""
        return self.written[-1] in self.read

    def _listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        received = websocket._Line.data_received

        def data_received(line: Any, data: bytes) -> None:
            self.read.append(bytes(data))
            received(line, data)

        monkeypatch.setattr(websocket._Line, "data_received", data_received)


class _Corked(Dialled):
    """The page's end of a socket; masks and frames as always, writes when it is not corked."""

    def __init__(self, dialled: Dialled, written: list[bytes]) -> None:
        super().__init__(dialled._line)
        self.is_corked = False
        self._written = written

    def send(self, text: str) -> None:
        self._line.protocol.send_text(text.encode())
        if not self.is_corked:
            self.write()

    def write(self) -> None:
        """Everything that was said since the last write."""
        data = b"".join(self._line.protocol.data_to_send())
        self._written.append(data)
        self._line.transport.write(data)
