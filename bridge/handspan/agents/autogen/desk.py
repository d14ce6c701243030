"""All workbenches of one agent as one: its own, then the page's, then whatever was asked for.

Owns that every call of the model finds its tool, and that listing them while calls are carried out
never fails: either would hang the agent (see the package). Shows the page what the agent's own
tools do. Deliberately does not know the model: the `ear` says which names it has called.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import StaticStreamWorkbench, ToolResult, ToolSchema, Workbench

from handspan.model.provided import answered, called, is_the_pages
from handspan_protocol.codec import encode

from .step import Step, relayed
from .tools import PageTools, outcome, result

Request = tuple[str, Any, CancellationToken | None, str | None]
"""Name, arguments, token and id of a call, as a Workbench takes them."""


class Unlisted(dict[str, Any]):
    """The schema of a tool that nobody has, listed only while its call is carried out; no model
    may be shown it."""


class Desk(StaticStreamWorkbench):
    """The workbench of an agent, for one run."""

    def __init__(self, step: Step, others: Sequence[Workbench], page: PageTools | None) -> None:
        """`page`: None where the agent was not given the page's tools."""
        super().__init__([])
        self.expected: tuple[str, ...] = ()
        """Names that the model has just called: they are found, so that the bridge can answer."""
        self._step = step
        self._others = others
        self._page = page
        self._own: dict[str, Workbench] = {}
        """Who has which tool, as they were listed last."""
        self._listed: list[ToolSchema] = []

    # ---- what there is ---------------------------------------------------------------------------

    async def list_tools(self) -> list[ToolSchema]:
        """What there is. A workbench that cannot tell while calls are carried out would hang the
        agent: then it is what there was.

        Raises:
            Exception: a workbench did, and no call is under way.
        """
        try:
            self._listed = await self._list()
        except Exception:
            if not self.expected:
                raise
        names = {tool["name"] for tool in self._listed}
        missing = [name for name in self.expected if name not in names]
        unlisted: list[Any] = [Unlisted(name=name) for name in missing if self._page is not None]
        return [*self._listed, *unlisted]

    async def _list(self) -> list[ToolSchema]:
        listed = [(bench, tool) for bench in self._others for tool in await bench.list_tools()]
        pages = await self._page.list_tools() if self._page is not None else []
        self._own = {tool["name"]: bench for bench, tool in reversed(listed)}
        own = [tool for _, tool in listed]
        return [*own, *(tool for tool in pages if tool["name"] not in self._own)]

    # ---- calls -----------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """What comes of a call; never raises for one that fails or is cancelled."""
        events = self.call_tool_stream(name, arguments, cancellation_token, call_id)
        last: ToolResult = [event async for event in events][-1]
        return last

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """What the tool says while it works, then its ToolResult."""
        said: asyncio.Queue[Any] = asyncio.Queue()
        request = (name, arguments, cancellation_token, call_id)
        work = asyncio.create_task(self._call(request, said))
        async with aclosing(relayed(said, work)) as events:
            async for event in events:
                yield event
        yield work.result()

    async def _call(self, request: Request, said: "asyncio.Queue[Any]") -> ToolResult:
        name, arguments, token, call_id = request
        bench = self._own.get(name)
        if bench is None and self._page is not None:
            return await self._page.call_tool(*request)
        if bench is None:
            return result(name, f"no tool {name}", is_error=True)
        is_shown = not is_the_pages(self._step.run, name)
        shown_as = f"own-{uuid.uuid4().hex}"
        if is_shown:
            self._step.voice.say(*called(shown_as, name, encode(arguments or {}).decode()))
        work = _own_result(bench, (name, arguments, self._step.token, call_id), said)
        done = await outcome(self._step, name, work, token)
        if is_shown:
            self._step.voice.say(answered(shown_as, done.to_text(replace_image="[image]")))
        return done


async def _own_result(bench: Workbench, request: Request, said: "asyncio.Queue[Any]") -> ToolResult:
    """What a tool of the agent's own gives; what it says meanwhile is `said`."""
    if not isinstance(bench, StaticStreamWorkbench):
        return await bench.call_tool(*request)
    async with aclosing(bench.call_tool_stream(*request)) as events:
        async for event in events:
            if isinstance(event, ToolResult):
                return event
            said.put_nowait(event)
    return result(request[0], "", is_error=False)
