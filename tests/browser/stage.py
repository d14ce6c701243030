"""A real server in a thread of its own, and pages of a real browser in front of it."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page
from tests.fault_proxy import FaultProxy

from handspan import Bridge, Policy
from handspan.core.transcript import broken_rules

PAGE = Path(__file__).parent / "page"
WAIT_S = 10
"""A bound against hanging."""

READY = "async () => { while (!window.ready) await new Promise(requestAnimationFrame) }"
"""Waits until the page's module has run."""

Agent = Callable[..., AsyncIterator[Any]]


class Stage:
    """One bridge, served; its loop lives in a thread, so that tests may block on the browser."""

    def __init__(
        self,
        browser: Browser,
        agent: Any,
        policy: Policy | None = None,
        static: Path = PAGE,
        store: Any = "memory",
    ) -> None:
        self.bridge = Bridge(policy=policy or Policy(), store=store)
        self.bridge.add_agent("default", agent)
        self.loop = asyncio.new_event_loop()
        self.address: Any = None
        self.proxy: Any = None
        self._static = static
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the server's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in the server's loop and wait for it."""

        async def work() -> Any:
            return function(*args)

        return self.do(work())

    def context(self) -> BrowserContext:
        """A browser's profile of its own; it goes with the stage."""
        context = self._browser.new_context()
        context.set_default_timeout(WAIT_S * 1000)
        self._contexts.append(context)
        return context

    def page(self, *, proxied: bool = False, thread: str = "t", more: str = "") -> Page:
        """A page in a context of its own, connected."""
        return self.open(self.context(), proxied=proxied, thread=thread, more=more)

    def open(
        self, context: BrowserContext, *, proxied: bool = False, thread: str = "t", more: str = ""
    ) -> Page:
        page = context.new_page()
        url = f"&url=ws://127.0.0.1:{self.proxy.port}/" if proxied else ""
        page.goto(f"{self.address}/?thread={thread}{url}{more}")
        page.evaluate(READY)
        return page

    def history(self, thread: str = "t") -> list[dict[str, Any]]:
        """The server's messages of a thread, valid under P1."""

        def look() -> list[dict[str, Any]]:
            return [
                dict(m) for t in self.bridge.threads if t.thread_id == thread for m in t.messages
            ]

        messages: list[dict[str, Any]] = self.call(look)
        assert broken_rules(messages) == []
        return messages

    @contextmanager
    def up(self) -> Iterator["Stage"]:
        self._thread.start()
        try:
            self.do(self._start())
            yield self
        finally:
            for context in self._contexts:
                context.close()
            self.do(self._stack.aclose())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(WAIT_S)
            self.loop.close()

    async def _start(self) -> None:
        port = free_port()
        self.bridge.allow_origins((f"http://127.0.0.1:{port}",))  # also when it comes by the proxy
        running = self.bridge.running(port=port, static=self._static)
        self.address = await self._stack.enter_async_context(running)
        self.proxy = FaultProxy(self.address.port)
        await self._stack.enter_async_context(self.proxy.running())


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def finished(page: Page, message: str, options: str = "{}") -> Any:
    """Send a message and wait for the run's end: {reason, depth} or {code}."""
    return page.evaluate(
        f"text => bridge.run(text, {options}).finished.catch(({{code}}) => ({{code}}))", message
    )


def counts(page: Page) -> dict[str, int]:
    """How often each tool ran in this page."""
    ran: dict[str, int] = page.evaluate("() => ran")
    return ran


def shown(page: Page) -> list[dict[str, Any]]:
    """The messages as the page has them."""
    messages: list[dict[str, Any]] = page.evaluate("async () => (await view()).messages")
    return messages
