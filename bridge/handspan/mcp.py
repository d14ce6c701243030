"""The tools of an MCP server as server tools of a bridge.

    Bridge(tools=[MCPTools("http://127.0.0.1:8000/mcp"), MCPTools(["uvx", "mcp-server-time"])])

The server is reached when the bridge begins to serve, and let go with it (`ports.ToolSource`). One
task holds the connection: it hears that the tools have changed, and makes another connection when
this one is lost; until then calls of the tools answer an error to the model. Owns the mapping of
MCP's tools and results to ours, and nothing of how a call is decided on. Only this module knows the
`mcp` library. *Source:* MCP 2025-11-25 and 2026-07-28; issue 6.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import PurePath
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from handspan import __version__
from handspan.model.extras import extra
from handspan.shell.tools import Parts, ServerTool, server_tool
from handspan.shell.values import ToolError
from handspan_protocol.errors import Unavailable, UsageError
from handspan_protocol.limits import DESCRIPTION_CHARS

with extra("mcp", "MCPTools"):
    import httpx2
    import mcp_types as types
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.session import MessageHandlerFnT
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

__all__ = ["MCPTools"]

Json = Any

CLOSE_S: Final = 10.0
"""What closing may take; the library gives a process up to six seconds to end."""

PAUSE_S: Final = 1.0
"""Before a lost server is tried again; doubled for each further try. A call hastens it."""

PAUSE_MOST_S: Final = 60.0

PAGES_MOST: Final = 100
"""Of a list of tools; one that never ends must not hold the bridge. *Source:* the library's own."""

NAME_CHARS: Final = 64
"""*Source:* protocol.md 5."""

_LOG = logging.getLogger("handspan.mcp")


class MCPTools:
    """The tools of one MCP server.

    `server`: a URL (streamable HTTP), a command line (a list; stdio), a server object of the `mcp`
    library (in this process), or a function that returns a transport of the library. `prefix`
    stands before each tool's name; what a name may not hold becomes "_". `headers` go with HTTP
    requests, `env` to the process. `timeout`: seconds for a call; `approval`: "always" asks a human
    before each. `connect_s`: seconds for reaching the server and reading its list.

    Raises:
        UsageError: `server` is a text that is no URL, or an empty list.
    """

    def __init__(
        self,
        server: Any,
        *,
        prefix: str = "",
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        approval: Literal["never", "always"] | None = None,
        connect_s: float = 30.0,
    ) -> None:
        _check(server)
        self.name = _shown(server)
        """What messages call it; without what may be a secret."""
        self.connect_s = connect_s
        self._server = server
        self._prefix = prefix
        self._headers = dict(headers or {})
        self._env = None if env is None else dict(env)
        self._options = {"timeout": timeout, "approval": approval}

    @asynccontextmanager
    async def opened(
        self, changed: Callable[[Sequence[Any]], None], /
    ) -> AsyncIterator[Sequence[Any]]:
        """The tools, while the context lasts; see `ports.ToolSource`.

        Raises:
            Unavailable: the server cannot be reached, or is none.
        """
        link = _Link(self, changed)
        task = asyncio.create_task(link.live(), name=f"mcp {self.name}")
        try:
            yield await link.first
        finally:
            link.close()
            _, late = await asyncio.wait([task], timeout=CLOSE_S)
            if late:
                task.cancel()
                await asyncio.wait([task], timeout=CLOSE_S)

    def client(self, hear: MessageHandlerFnT) -> Client:
        """A client that has not been entered."""
        who = types.Implementation(name="handspan", version=__version__)
        return Client(self._target(), message_handler=hear, client_info=who)

    def tools(self, listed: Sequence[types.Tool], link: "_Link") -> list[ServerTool]:
        """The server's tools as ours; one that cannot be one is left out and logged (P14)."""
        made, taken = list[ServerTool](), set[str]()
        for tool in listed:
            name = _name(self._prefix + tool.name, taken)
            try:
                made.append(_made(tool, name, link, self._options))
            except UsageError as problem:
                _LOG.warning("%s: tool %s is left out: %s", self.name, tool.name, problem)
        return made

    def _target(self) -> Any:
        """What the library's client takes; a new one for each connection."""
        server = self._server
        if isinstance(server, str):
            return _over_http(server, self._headers)
        if isinstance(server, Sequence):
            command, *args = (str(part) for part in server)
            return StdioServerParameters(command=command, args=args, env=self._env)
        return server() if callable(server) else server


@asynccontextmanager
async def _over_http(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    timeout = httpx2.Timeout(30.0, read=None)  # how long a call may take is the bridge's to say
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _check(server: Any) -> None:
    if isinstance(server, str):
        if not server.lower().startswith(("http://", "https://")):
            raise UsageError(
                "MCPTools: a URL begins with http:// or https://; a command line is a list,"
                ' ["python", "server.py"]'
            )
    elif isinstance(server, Sequence) and not server:
        raise UsageError('MCPTools: a command line is a list that is not empty, ["python", "..."]')


def _shown(server: Any) -> str:
    """A server in words: of a URL no more than where it is, of a command line the command."""
    if isinstance(server, str):
        return f"MCP server {urlsplit(server).hostname or server}"
    if isinstance(server, Sequence) and server:
        return f"MCP server {PurePath(str(server[0])).name}"
    name = getattr(server, "name", None)
    return f"MCP server {name}" if isinstance(name, str) else "MCP server"


# ---- the connection ----------------------------------------------------------------------------


class _Link:
    """One connection after another to one server, all in the task of `live`."""

    def __init__(self, source: MCPTools, changed: Callable[[Sequence[Any]], None]) -> None:
        self.first: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        """The tools as they are first known, or why they cannot be had."""
        self._source = source
        self._changed = changed
        self._listed: Sequence[types.Tool] | None = None
        """The tools that were told."""
        self._client: Client | None = None
        """None: there is no connection."""
        self._woken = asyncio.Event()
        """One of these has changed."""
        self._stale = False
        self._lost = False
        self._wanted = False
        """A call came when there was no connection, or found it lost."""
        self._closing = False

    def close(self) -> None:
        """Have `live` end."""
        self._closing = True
        self._woken.set()

    async def live(self) -> None:
        """Be connected until closed; only a first connection that fails ends it."""
        pause = PAUSE_S
        while not self._closing:
            try:
                await self._connection()
                pause = PAUSE_S
            except Exception as error:
                if self._failed(error):
                    return
                pause = min(2 * pause, PAUSE_MOST_S)
            if not self._closing:
                await self._wait(pause)

    def _failed(self, error: Exception) -> bool:
        """Tell whoever wants to know; whether it was the first connection."""
        line = f"{self._source.name} cannot be reached: {_words(error)}"
        if self.first.done():
            _LOG.warning("%s; it is tried again", line)
            return False
        self.first.set_exception(Unavailable(line))
        return True

    async def _wait(self, pause: float) -> None:
        """Until a call wants a connection, but not longer than the pause."""
        if not self._wanted:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause)
        self._wanted = False

    async def _connection(self) -> None:
        """One connection, from its begin to its end."""
        self._lost = self._stale = False
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._source.connect_s):
                client = await stack.enter_async_context(self._source.client(self._hear))
                self._tell(await _listed(client))
            self._client = client
            listening = asyncio.create_task(self._listen(client))
            try:
                await self._keep(client)
            finally:
                self._client = None
                listening.cancel()
                await asyncio.wait([listening])

    async def _keep(self, client: Client) -> None:
        """Read the list whenever it has changed; return when the connection is to end."""
        while not (self._closing or self._lost):
            if self._stale:
                self._stale = False
                async with asyncio.timeout(self._source.connect_s):
                    self._tell(await _listed(client))
            else:
                await self._woken.wait()
                self._woken.clear()

    def _tell(self, listed: Sequence[types.Tool]) -> None:
        known, self._listed = self._listed, listed
        if not self.first.done():
            self.first.set_result(self._source.tools(listed, self))
        elif listed != known:
            self._changed(self._source.tools(listed, self))

    # ---- what the server says by itself --------------------------------------------------------

    async def _hear(self, message: Any) -> None:
        """Before 2026-07-28: a notification."""
        if isinstance(message, types.ToolListChangedNotification):
            self._note(stale=True)

    async def _listen(self, client: Client) -> None:
        """Since then: a stream that we ask for. It may end while the connection is well."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._note(stale=True)  # it may have changed before we listened
                    async for _ in changes:
                        self._note(stale=True)
            except (SubscriptionLost, TimeoutError):
                pass
            except ListenNotSupportedError:
                return
            except MCPError as error:
                self._note(lost=_is_lost(error))
                return
            await asyncio.sleep(PAUSE_S)

    def _note(self, *, stale: bool = False, lost: bool = False, wanted: bool = False) -> None:
        self._stale |= stale
        self._lost |= lost
        self._wanted |= wanted
        self._woken.set()

    # ---- calls ---------------------------------------------------------------------------------

    async def call(self, name: str, arguments: dict[str, Json]) -> Any:
        """Carry out a call; cancelled, the library tells the server.

        Raises:
            ToolError: it failed; in words for the model.
        """
        client = self._client
        if client is None:
            self._note(wanted=True)
            raise ToolError(f"{self._source.name} is away just now; try again later")
        try:
            result = await client.call_tool(name, arguments)
        except Exception as error:
            lost = _is_lost(error)
            self._note(lost=lost, wanted=lost)
            raise ToolError(f"{self._source.name}: {_words(error)}") from error
        return _value(result)


async def _listed(client: Client) -> list[types.Tool]:
    """All tools of the server, page by page."""
    tools, cursor = list[types.Tool](), None
    for _ in range(PAGES_MOST):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _is_lost(error: Exception) -> bool:
    """Whether the connection is of no use any more; an answer, whichever, proves that it is."""
    if isinstance(error, MCPError):
        unknown = error.code == types.INVALID_REQUEST and error.message == _UNKNOWN_SESSION
        return unknown or error.code == types.CONNECTION_CLOSED
    return not isinstance(error, ValidationError | RuntimeError | TimeoutError)


_UNKNOWN_SESSION: Final = "Session terminated"
"""What the library makes of a 404 to a session, before 2026-07-28: the server began anew."""


def _words(error: BaseException) -> str:
    """One line; of a group the first of its errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return " ".join((str(error) or type(error).__name__).split())[:300]


# ---- tools and results -------------------------------------------------------------------------


def _name(wanted: str, taken: set[str]) -> str:
    """A name of ours for a name of theirs, and for no other of the same server."""
    plain = _NO_NAME.sub("_", wanted)[:NAME_CHARS] or "_"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain[: NAME_CHARS - len(str(number)) - 1]}_{number}"
    taken.add(name)
    return name


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")


def _made(tool: types.Tool, name: str, link: _Link, options: Mapping[str, Any]) -> ServerTool:
    """One tool.

    Raises:
        UsageError: none can be made of it.
    """
    hints = tool.annotations or types.ToolAnnotations()
    theirs = tool.name

    async def call(**arguments: Json) -> Any:
        return await link.call(theirs, arguments)

    return server_tool(
        call,
        name=name,
        title=tool.title or hints.title,
        description=(tool.description or tool.title or "")[:DESCRIPTION_CHARS],
        parameters=tool.input_schema,
        read_only=hints.read_only_hint,
        idempotent=hints.idempotent_hint,
        **options,
    )


def _value(result: types.CallToolResult) -> Any:
    """What a call gave: its structured content, its text, or parts where it is more than text.

    Raises:
        ToolError: the tool says that it failed.
    """
    parts = tuple(_parts(result.content))
    media = any(part["type"] != "text" for part in parts)
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if result.is_error:
        raise ToolError(text or "the tool failed and does not say why")
    if media:
        return Parts(parts)
    return result.structured_content if result.structured_content is not None else text


def _parts(content: Sequence[Any]) -> Iterator[Mapping[str, Json]]:
    """AG-UI's parts for MCP's blocks; what is only named is told in words."""
    for block in content:
        match block:
            case types.TextContent():
                yield _text(block.text)
            case types.ImageContent():
                yield _media("image", block.data, block.mime_type)
            case types.AudioContent():
                yield _media("audio", block.data, block.mime_type)
            case types.ResourceLink():
                yield _text(f"{block.title or block.name}: {block.uri}")
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                yield _text(resource.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                kind = resource.mime_type or "application/octet-stream"
                yield _media(_family(kind), resource.blob, kind)


def _text(text: str) -> Mapping[str, Json]:
    return {"type": "text", "text": text}


def _media(kind: str, data: str, mime_type: str) -> Mapping[str, Json]:
    return {"type": kind, "source": {"type": "data", "value": data, "mimeType": mime_type}}


def _family(mime_type: str) -> str:
    family = mime_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"
