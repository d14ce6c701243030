"""Sources of server tools: opened when the bridge begins to serve, closed with it.

Owns which tools came from which source, and what becomes of them when the source has others: they
are registered, replaced, or offered no more. One that is no tool, or whose name somebody else has,
is left out and logged (P14). A tool that is gone stays where calls under way find it; it answers
for itself. Deliberately does not know what a source is; above sits `server`.
"""

import logging
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from handspan.ports import ToolSource
from handspan_protocol.errors import UsageError

from .tools import ServerTool

_LOG = logging.getLogger("handspan.sources")


class Sources:
    """The sources of one bridge. `register` offers a tool; `offered` is what there is, by name."""

    def __init__(
        self, register: Callable[[ServerTool], None], offered: MutableMapping[str, Any]
    ) -> None:
        self._register = register
        self._offered = offered
        self._sources: list[ToolSource] = []
        self._open = False

    def add(self, source: ToolSource) -> None:
        """Have it opened when the bridge begins to serve.

        Raises:
            UsageError: it serves already.
        """
        if self._open:
            raise UsageError("a source of tools is added before the bridge serves")
        self._sources.append(source)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Their tools are registered while this lasts; once, however many ports there are.

        Raises:
            Unavailable: one of them cannot be had.
        """
        if self._open:
            yield
            return
        self._open = True
        try:
            async with AsyncExitStack() as stack:
                for source in self._sources:
                    shelf = _Shelf(self._register, self._offered)
                    stack.callback(shelf.fill, ())
                    shelf.fill(await stack.enter_async_context(source.opened(shelf.fill)))
                yield
        finally:
            self._open = False


class _Shelf:
    """The tools of one source."""

    def __init__(
        self, register: Callable[[ServerTool], None], offered: MutableMapping[str, Any]
    ) -> None:
        self._register = register
        self._offered = offered
        self._mine: set[str] = set()

    def fill(self, tools: Sequence[ServerTool]) -> None:
        """Offer these and no others."""
        wanted = {tool.tool.name: tool for tool in tools}
        for name in self._mine - wanted.keys():
            self._drop(name)
        for name, tool in wanted.items():
            if name in self._offered and name not in self._mine:
                _LOG.warning("tool %s is left out: there is another of this name", name)
                continue
            self._put(name, tool)

    def _put(self, name: str, tool: ServerTool) -> None:
        try:
            self._register(tool)
        except UsageError as problem:
            _LOG.warning("tool %s is left out: %s", name, problem)
            self._drop(name)
        else:
            self._mine.add(name)

    def _drop(self, name: str) -> None:
        if name in self._mine:
            self._mine.remove(name)
            self._offered.pop(name, None)
