"""A real server for one test, and at the test's end what must hold after every test.

    async with house([call("t")], "done") as home:
        page = await home.page(tools={"t": lambda args: 1})
        assert (await page.run("hi").finished)["reason"] == "completed"

At the end every history is valid (P1), every stream too (P6), no page heard an event twice or out
of order (P9), and nothing of any call or run is left.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent
from tests.acceptance.raw import Raw, raw
from tests.acceptance.rules import broken_stream

from handspan import Bridge, Policy
from handspan.core.transcript import broken_rules
from handspan.testing import Page, ScriptedAgent, World


class House:
    """A bridge, its address, and everything that was seen of it."""

    def __init__(self, bridge: Bridge, agent: ScriptedAgent | None) -> None:
        self.bridge = bridge
        self.agent = agent
        self.url = ""
        self.streams: dict[str, list[Any]] = {}
        self.pages: list[Page] = []
        self.world: Any = None
        """The `World` of a `still_house`."""
        self.stack = AsyncExitStack()
        bridge.observe(lambda thread, event: self.streams.setdefault(thread, []).append(event))

    @property
    def steps(self) -> list[Any]:
        """The Run of every step the scripted agent was invoked for."""
        assert self.agent is not None
        return self.agent.seen

    async def page(self, *, connect: bool = True, **options: Any) -> Page:
        """A page over a real socket."""
        page = Page.dial(self.url, **options)
        self.pages.append(page)
        self.stack.push_async_callback(page.leave)
        if connect:
            await page.connect()
        return page

    async def raw(self, **options: Any) -> Raw:
        """A socket with nothing said on it."""
        return await self.stack.enter_async_context(raw(self.url, **options))

    async def greeted(self, document: str = "d-raw", **hello: Any) -> Raw:
        """A raw socket that was welcomed."""
        socket = await self.raw()
        await socket.hello(document, **hello)
        return socket

    def events(self, thread_id: str = "t1", kind: str | None = None) -> list[Any]:
        """What was emitted on a thread, of one type or all."""
        return [e for e in self.streams.get(thread_id, []) if kind in (None, e["type"])]

    def history(self, thread_id: str = "t1") -> list[Any]:
        """The thread's messages now."""
        looks = [look for look in self.bridge.threads if look.thread_id == thread_id]
        return list(looks[0].messages) if looks else []

    def results(self, thread_id: str = "t1") -> list[Any]:
        """The tool messages of the history."""
        return [m for m in self.history(thread_id) if m["role"] == "tool"]

    def codes(self, thread_id: str = "t1") -> list[str | None]:
        """Of each result, its code; None for a good one."""
        return [m["metadata"]["handspan"].get("code") for m in self.results(thread_id)]

    def check(self) -> None:
        """What must hold after every test."""
        for look in self.bridge.threads:
            if look.run_id is None:
                assert broken_rules(look.messages) == [], look.messages
                assert look.open_calls == 0
        for thread, events in self.streams.items():
            assert broken_stream(events) == [], thread
        for page in self.pages:
            for story in page.document.threads.values():
                assert story.faults == []


@asynccontextmanager
async def house(
    *script: Any, policy: Policy | None = None, agent: Any = None, **options: Any
) -> AsyncIterator[House]:
    """A server whose default agent plays the script, or is `agent`."""
    scripted = None if agent is not None else ScriptedAgent(script)
    agents = {"default": agent or scripted, **options.pop("agents", {})}
    home = House(Bridge(policy=policy, agents=agents, **options), scripted)
    async with home.bridge.running() as address:
        home.url = address.ws
        async with home.stack:
            yield home
            home.check()


@asynccontextmanager
async def still_house(
    *script: Any, policy: Policy | None = None, agent: Any = None, **options: Any
) -> AsyncIterator[House]:
    """The same under virtual time (`home.world`), with pages in memory."""
    scripted = None if agent is not None else ScriptedAgent(script)
    home = House(Bridge(policy=policy, agents={"default": agent or scripted}, **options), scripted)
    world = World(home.bridge)
    home.world, home.pages = world, world.pages
    async with world:
        yield home
        home.check()
        assert world.leftovers() == []
    assert world.leftovers() == []


def streamed(call_id: str, name: str, *deltas: str) -> list[Any]:
    """A call as a provider streams it."""
    return [
        ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name),
        *(ToolCallArgsEvent(tool_call_id=call_id, delta=delta) for delta in deltas),
        ToolCallEndEvent(tool_call_id=call_id),
    ]


def start_call(call_id: str, name: str) -> Any:
    return ToolCallStartEvent(tool_call_id=call_id, tool_call_name=name)


def more_args(call_id: str, delta: str) -> Any:
    return ToolCallArgsEvent(tool_call_id=call_id, delta=delta)


def end_call(call_id: str) -> Any:
    return ToolCallEndEvent(tool_call_id=call_id)


class Gate:
    """Holds a scripted step or a handler until a test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()

    def open(self) -> None:
        self.opened.set()


def object_of(**properties: Any) -> dict[str, Any]:
    """A schema in which all these properties are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}
