"""A page in Python: what the browser's library does, for tests and for programs without a browser.

Owns the session, the socket and the tools with their handlers; what it does once it is connected is
in `moves`, what belongs to one page load in `document`. Speaks the protocol and nothing else, so
what holds for it holds for a browser's page. Unlike a browser's library it does nothing by itself
after a lost socket: the test says when to `reconnect`. Above sits `world`; below sits `lines`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from handspan.ports import Request
from handspan_protocol.codec import decode_server, encode
from handspan_protocol.errors import CloseCode, HandspanError

from .document import Document
from .lines import Line, Route, Workplace, over_memory, over_network
from .moves import Moves
from .story import patiently

__all__ = ["Page", "SocketClosed"]

Json = Any
T = TypeVar("T")

_NAMES: Final = {"count": 0}


class SocketClosed(HandspanError):  # noqa: N818 - what happened, as in `Unavailable`
    """The server closed the socket instead of saying welcome."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


class Page(Moves):
    """One page; its default thread is the first of `threads`.

        async with Page(bridge, tools={"set_theme": set_theme}) as page:
            done = await page.run("make it dark").finished

    `tools`: a handler, or (definition, handler), by name; see `tool`. Calls of a tool whose handler
    is None are only recorded, for `next_call`; with `auto=False` all are. `context`: a value or a
    function, by name. `documents`: makes names for the documents, for tests that must be the same
    twice.
    """

    def __init__(
        self,
        bridge: Workplace | Route,
        *,
        threads: Sequence[str] = ("t1",),
        tools: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        token: str | None = None,
        origin: str | None = None,
        auto: bool = True,
        visible: bool = True,
        documents: Callable[[], str] | None = None,
    ) -> None:
        request = Request(origin=origin, address="127.0.0.1", headers={"host": "memory"})
        self._route: Route = bridge if callable(bridge) else over_memory(bridge, request)
        self.auto = auto
        self.token = token
        self.visible = visible
        self.thread_id = threads[0] if threads else "t1"
        """The default thread: that of `run`, `messages` and whatever else names none."""
        self.wanted = list(threads)
        """Threads that a hello asks for; kept by `open` and `close_thread`."""
        self.session: dict[str, str] | None = None
        """{"id", "secret"} of the newest welcome; set it to resume another page's."""
        self.welcome: Mapping[str, Json] = {}
        """The newest welcome."""
        self.tools = {}
        self.frames: list[Mapping[str, Json]] = []
        """Every frame received, in order, from all sockets."""
        self.closed_with: tuple[int, str] | None = None
        """Code and reason, when the server ended the socket; 1006 for an end without a close."""
        self.pongs = True
        """Answer pings."""
        self._names = documents or _next_name
        self._context = {}
        self._line: Line | None = None
        self._left_lines: list[Line] = []
        self._handed_out: set[int] = set()
        self._changed = asyncio.Event()
        for name, given in (tools or {}).items():
            definition, handler = given if isinstance(given, tuple) else (None, given)
            self._register(name, definition, handler)
        for name, value in (context or {}).items():
            self._context[name] = ("", value)
        self.document = Document(self, self._names())

    @classmethod
    def dial(cls, url: str, *, origin: str | None = None, **options: Any) -> Self:
        """A page over a real WebSocket (`address.ws`); options as of `Page`."""
        return cls(over_network(url, origin), origin=origin, **options)

    # ---- the socket --------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave()

    async def connect(self, **hello: Json) -> Mapping[str, Json]:
        """Open a socket and say hello; returns the welcome. `hello`: fields to say otherwise.

        Raises:
            SocketClosed: the server did not want it.
            TimeoutError: it said nothing.
        """
        await self.open_socket()
        self.send({**self.hello(), **hello})
        seen = len(self.frames)
        await self.until(lambda: self._answer_to_hello(seen), "a welcome")
        if self.closed_with is not None:
            raise SocketClosed(*self.closed_with)
        return self.welcome

    async def open_socket(self) -> None:
        """Open a socket and say nothing on it."""
        self.closed_with = None
        self._line = await self._route(_Hearing(self))

    def hello(self) -> dict[str, Json]:
        """What `connect` says: who this page is, and all that it has."""
        said: dict[str, Json] = {
            "type": "hello",
            "protocol": 1,
            "documentId": self.document.id,
            "client": {"name": "handspan-python"},
            "threads": [self.document.wish(thread_id) for thread_id in self.wanted],
            "tools": [{"name": name, **tool.definition} for name, tool in self.tools.items()],
            "context": self.document.whole_context(),
            "visible": self.visible,
        }
        optional = {
            "token": self.token,
            "session": self.session,
            "calls": self.document.journal or None,
        }
        return said | {key: value for key, value in optional.items() if value is not None}

    async def reconnect(self, **hello: Json) -> Mapping[str, Json]:
        """The same document on a new socket: resumes its session, streams and commands."""
        self.cut()
        return await self.connect(**hello)

    async def reload(self, **hello: Json) -> Mapping[str, Json]:
        """A new document of the same session; what the old one waited for is lost."""
        self.cut()
        self.renew()
        return await self.connect(**{"reload": True, **hello})

    def renew(self) -> None:
        """Become a new document, without saying so."""
        self.document.unload()
        self.document = Document(self, self._names())

    def cut(self) -> None:
        """Lose the socket without a close."""
        if self._line is not None:
            self._line.cut()
            self._line = None

    def vanish(self) -> None:
        """Lose the socket while the server believes that it is there (a half-open connection)."""
        if self._line is not None:
            self._line.vanish()
            self._left_lines.append(self._line)
            self._line = None

    async def leave(self, code: int = CloseCode.PAGE_LEAVES) -> None:
        """Close the socket in good order; the session lives on. Handlers still at work end."""
        line, self._line = self._line, None
        for left in self._left_lines:
            left.cut()
        if line is not None:
            await line.close(code)
        self.document.unload()

    async def bye(self) -> None:
        """End the session on purpose."""
        self.send({"type": "bye"})
        await self.closed()
        await self.leave()

    async def closed(self) -> int:
        """Wait until the server has ended the socket; returns the close code."""
        await self.until(lambda: self.closed_with is not None, "the socket's end")
        return self.closed_with[0] if self.closed_with else 0

    def stop_reading(self) -> None:
        """Take nothing from the socket any more, so that it fills up."""
        if self._line is not None:
            self._line.pause()

    def go_on_reading(self) -> None:
        if self._line is not None:
            self._line.resume()

    @property
    def is_open(self) -> bool:
        return self._line is not None and self.closed_with is None

    # ---- raw ---------------------------------------------------------------------------------

    def send(self, frame: Mapping[str, Json]) -> None:
        """Send a frame as it is; it gets no id, and its reply is only recorded."""
        self.send_text(encode(frame).decode())

    def send_text(self, text: str) -> None:
        """Send any text."""
        if self._line is not None:
            self._line.send(text)

    async def expect(self, **fields: Json) -> Mapping[str, Json]:
        """The first frame with these fields that no `expect` has returned yet; waits for it.

        A field given as `...` must be there, whatever its value.
        """
        return await self.until(lambda: self._hand_out(fields), f"a frame with {fields}")

    async def until(self, condition: Callable[[], T | None], what: str = "a condition") -> T:
        """Wait until `condition()` is true, looking again after each frame; returns its value.

        Raises:
            TimeoutError: it does not come true in `PATIENCE_S`; tells the newest frames.
        """

        async def look() -> T:
            while not (value := condition()):
                self._changed.clear()
                await self._changed.wait()
            return value

        try:
            value: T = await patiently(look(), what)
        except TimeoutError as late:
            newest = [frame["type"] for frame in self.frames[-8:]]
            raise TimeoutError(f"{late}; the newest frames: {newest}") from None
        return value

    # ---- inside ------------------------------------------------------------------------------

    def heard(self, text: str) -> None:
        """One text of the server; called by the line."""
        frame = decode_server(text)
        self.frames.append(frame)
        take = _TAKES.get(frame["type"])
        if take is not None:
            take(self, frame)
        self.stir()

    def ended(self, code: int, reason: str) -> None:
        """The server, or the network, ended the socket; called by the line."""
        self.closed_with = (code, reason)
        self.stir()

    def stir(self) -> None:
        """Something has changed: whoever waits for it looks again."""
        self._changed.set()

    def _welcomed(self, frame: Mapping[str, Json]) -> None:
        self.welcome = frame
        self.session = dict(frame["session"])
        self.document.welcomed(resumed=frame["resumed"])

    def _asked_to_approve(self, frame: Mapping[str, Json]) -> None:
        if self._asked is not None:
            told = self._asked(frame)
            fields = dict(told) if isinstance(told, Mapping) else {"approved": bool(told)}
            named = {"callId": frame["callId"], "digest": frame["digest"]}
            self.document.post({"type": "approval.answer", **named, **fields})

    def _pinged(self, _: Mapping[str, Json]) -> None:
        if self.pongs:
            self.send({"type": "pong"})

    def _answer_to_hello(self, seen: int) -> bool:
        welcomed = any(frame["type"] == "welcome" for frame in self.frames[seen:])
        return welcomed or self.closed_with is not None

    def _hand_out(self, fields: Mapping[str, Json]) -> Mapping[str, Json] | None:
        for at, frame in enumerate(self.frames):
            if at not in self._handed_out and _fits(frame, fields):
                self._handed_out.add(at)
                return frame
        return None


class _Hearing:
    """The page's ear on one socket; deaf when the page has another one."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def heard(self, text: str) -> None:
        self._page.heard(text)

    def ended(self, code: int, reason: str) -> None:
        self._page.ended(code, reason)


def _next_name() -> str:
    _NAMES["count"] += 1
    return f"d-{_NAMES['count']}"


def _fits(frame: Mapping[str, Json], fields: Mapping[str, Json]) -> bool:
    return all(
        key in frame and (value is ... or frame[key] == value) for key, value in fields.items()
    )


_TAKES: Final[Mapping[str, Callable[[Page, Mapping[str, Json]], None]]] = {
    "welcome": Page._welcomed,
    "approval.request": Page._asked_to_approve,
    "ping": Page._pinged,
    "reply": lambda page, frame: page.document.outbox.take(frame),
    "events": lambda page, frame: page.document.thread(frame["threadId"]).take_events(frame),
    "snapshot": lambda page, frame: page.document.thread(frame["threadId"]).take_snapshot(frame),
    "tool.call": lambda page, frame: page.document.take_call(frame),
    "tool.cancel": lambda page, frame: page.document.take_cancel(frame),
}
