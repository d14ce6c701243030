"""The demo page as a visitor has it.

What has an accessible role and name is found by it, as somebody with a screen reader would.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from re import Pattern
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect
from tests.browser.stage import Stage, free_port

from handspan import Bridge, Policy
from handspan.testing import ScriptedAgent

WEB_DEMO = Path(__file__).parents[2] / "web-demo"

FIRST_CARDS = {
    "To do": ["Water the ferns", "Buy tea"],
    "Doing": ["Paint the fence"],
    "Done": ["Sharpen pencils"],
}


class Visit:
    """One visitor; what the browser complained about is kept."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.tolerated: tuple[str, ...] = ()
        """Parts of complaints that this visit provokes on purpose."""
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)
        self.log = page.get_by_role("log")
        self.message = page.get_by_role("textbox", name="Message")
        self.status = page.get_by_role("status")
        self.announcer = page.locator("#announcer")
        """Has no role, and is not to be seen: only to be heard."""
        self._ended = 0

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    @property
    def unexpected(self) -> list[str]:
        return [
            said for said in self.complaints if not any(part in said for part in self.tolerated)
        ]

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def column(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    @property
    def suggestions(self) -> Locator:
        """The buttons of what one might say next, in order."""
        shown = self.page.get_by_role("list", name="Suggestions")
        return shown.get_by_role("listitem").get_by_role("button")

    def call(self, title: str) -> Locator:
        """The row of the newest call of that title."""
        return self.log.locator(".call", has_text=title).last

    def say(self, text: str) -> None:
        self.message.fill(text)
        self.button("Send").click()

    def await_end(self, how: str = "completed") -> None:
        """Wait for the end of one more run, and see that it ended so."""
        end = self.log.locator(".note").nth(self._ended)
        expect(end).to_have_text(how)
        self._ended += 1

    def ask(self, text: str) -> None:
        """Say it, and wait until the run that it starts is completed."""
        self.say(text)
        self.await_end()

    def see_board(self, board: dict[str, list[str]]) -> None:
        """Wait until the columns hold just these cards."""
        for column, titles in board.items():
            expect(self.column(column).get_by_role("listitem")).to_have_text(titles)

    def see_log(self, *texts: str | Pattern[str]) -> None:
        """Wait until the conversation is just this: what was said, and how runs ended."""
        expect(self.log.locator("#entries > *")).to_have_text(texts)

    def see_theme(self, theme: str) -> None:
        expect(self.page.locator("html")).to_have_attribute("data-theme", theme)

    def see_last_run(self, how: str) -> None:
        expect(self.page.locator("body")).to_have_attribute("data-last-run", how)


class Demo(Stage):
    """The demo page, served with an agent, or by a bridge that has agents of its own."""

    def __init__(self, browser: Browser, agent: Any, policy: Policy | None = None) -> None:
        given = isinstance(agent, Bridge)
        super().__init__(browser, ScriptedAgent([]) if given else agent, policy, static=WEB_DEMO)
        self.bridge = agent if given else self.bridge
        self.visits: list[Visit] = []

    def visit(self, *, proxied: bool = False, **screen: Any) -> Visit:
        """A visitor with a browser of their own, on the thread "t", connected."""
        context = self._browser.new_context(reduced_motion="reduce", **screen)
        context.set_default_timeout(10_000)
        self._contexts.append(context)
        visit = Visit(context.new_page())
        self.visits.append(visit)
        return self.enter(visit, proxied=proxied)

    def enter(self, visit: Visit, *, proxied: bool = False, thread: str = "") -> Visit:
        url = f"url=ws://127.0.0.1:{self.proxy.port}/&" if proxied else ""
        visit.page.goto(f"{self.address}/?{url}{thread and f'thread={thread}'}")
        expect(visit.status).to_have_text("connected")
        return visit

    def replace(self, agent: Any) -> None:
        """Put another server behind the proxy, which knows nothing of what this one knew."""
        successor = Bridge()
        successor.add_agent("default", agent)
        successor.allow_origins((f"http://127.0.0.1:{self.address.port}",))
        running = self._stack.enter_async_context(successor.running(port=free_port()))
        self.proxy.target = self.do(running).port
        self.call(self.proxy.cut)


@contextmanager
def demo(browser: Browser, agent: Any, policy: Policy | None = None) -> Iterator[Demo]:
    """The page with an agent; in the end no browser has complained, by CSP or otherwise."""
    here = Demo(browser, agent, policy)
    with here.up():
        yield here
        assert [visit.unexpected for visit in here.visits] == [[]] * len(here.visits)
