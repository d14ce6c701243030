"""A call brought to a moment of its life, in a page whose line can be troubled right then.

with moment(here, "a-thread", "started", "once") as it:  # a handler runs
    it.reload()
    it.go_on()
    assert it.end() == ("outcome_unknown", 1)
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from playwright.sync_api import BrowserContext, Page
from tests.browser.patience import until
from tests.browser.stage import READY, WAIT_S, Stage, free_port, shown
from tests.fake_store import FakeStore

from handspan import Bridge, Policy, Run
from handspan.server import ThreadLook

APPROVE = "() => { bridge.onApproval(() => ({ approved: true })); }"
IDLE = "(({ run, lastRun }) => lastRun && !run)(await view())"


class Troubles:
    """A server whose runs stop where a test wants them to, and the pages in front of it."""

    def __init__(self, stack: ExitStack, browser: Any, policy: Policy) -> None:
        self.plans: dict[str, tuple[str, str]] = {}
        """The moment and the tool, by thread."""
        self.policy = policy
        self.store = FakeStore(by_itself=True)
        stage = Stage(browser, self._agent, policy, store=self.store)
        self.stage: Stage = stack.enter_context(stage.up())
        self.context: BrowserContext = self.stage.context()
        self._gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._keeper = self.context.new_page()
        """Outlives the pages of the tests: what they counted can be read here."""
        self._keeper.goto(f"{self.stage.address}/faults.js")

    async def _agent(self, run: Run) -> AsyncIterator[Any]:
        when, tool = self.plans[run.thread_id]
        if run.depth:
            if when == "settled":
                await self._gates[run.thread_id].wait()
            yield "The end."
            return
        yield "So: "
        if when == "queued, page away":
            await self._gates[run.thread_id].wait()
        if when == "queued behind another":
            yield run.call("first", {})
        yield run.call(tool, {})

    def restart(self) -> None:
        """The server dies where it stands; another one has what was kept. The files stay served."""
        self.stage.do(self._restart())

    async def _restart(self) -> None:
        driver, _ = self.stage.bridge._at_work()
        driver.stop_listening()
        self.store = self.store.crash()
        await driver.workers.crew.close()
        self.stage.bridge = Bridge(policy=self.policy, store=self.store)
        self.stage.bridge.add_agent("default", self._agent)
        self.stage.bridge.allow_origins((f"http://127.0.0.1:{self.stage.address.port}",))
        running = self.stage.bridge.running(port=free_port())
        address = await self.stage._stack.enter_async_context(running)
        self.stage.proxy.target = address.port
        self.stage.proxy.cut()

    def open_gate(self, thread: str) -> None:
        self.stage.call(lambda: self._gates[thread].set())

    def until(self, thread: str, wanted: str, holds: Callable[[ThreadLook], object]) -> None:
        """Wait for the server's thread to be so."""

        async def look() -> None:
            while not any(holds(t) for t in self.stage.bridge.threads if t.thread_id == thread):
                await asyncio.sleep(0.005)

        try:
            self.stage.do(asyncio.wait_for(look(), WAIT_S - 1))
        except TimeoutError:
            raise AssertionError(f"the server did not come to {wanted} on {thread}") from None

    def open(self, thread: str, *, asks: bool = False) -> Page:
        page = self.context.new_page()
        line = f"&url=ws://127.0.0.1:{self.stage.proxy.port}/"
        more = "&asks" if asks else ""
        page.goto(f"{self.stage.address}/faults.html?thread={thread}{line}{more}")
        page.evaluate(READY)
        until(page, "the page is connected", "bridge.status === 'open'")
        return page

    def ran(self, call_id: str) -> int:
        """How often a handler was started for it, in all documents of all tabs."""
        told = self._keeper.evaluate("(id) => localStorage[`ran:${id}`] ?? 0", call_id)
        return int(told)


class Moment:
    """One call at one moment of its life."""

    def __init__(self, here: Troubles, thread: str, when: str, tool: str) -> None:
        self.here = here
        self.stage = here.stage
        self.thread = thread
        self.when = when
        self.tool = tool
        here.plans[thread] = when, tool
        self.page = here.open(thread, asks=when == "waiting_approval")
        self.pages = [self.page]
        """The tabs that are there in the end."""

    def arrive(self) -> None:
        """Bring the call to its moment."""
        _BEFORE.get(self.when, lambda _: None)(self)
        self.page.evaluate("() => { bridge.run('go'); }")
        _UNTIL[self.when](self)

    # ---- what may be done to it --------------------------------------------------------------

    def reload(self) -> None:
        self.page.reload()
        self.page.evaluate(READY)

    def duplicate(self) -> Page:
        """Another tab with a copy of this one's storage."""
        with self.page.expect_popup() as popup:
            self.page.evaluate("() => { window.open(location.href); }")
        popup.value.evaluate(READY)
        self.pages.append(popup.value)
        return popup.value

    def close(self) -> None:
        self.page.close()
        self.pages.clear()

    def lose(self) -> None:
        """What the page and the server have just written never arrives."""
        self.page.evaluate("() => { lose(); }")

    # ---- and then ----------------------------------------------------------------------------

    def go_on(self) -> None:
        """Nothing is held up any more, on either side."""
        self.stage.call(self.stage.proxy.refuse, False)
        for page in self.pages:
            page.evaluate("() => { pass(); letGo(); }")
            if self.when == "waiting_approval":
                page.evaluate(APPROVE)
        self.here.open_gate(self.thread)

    def end(self) -> tuple[str, int]:
        """How the call came out, and how often it ran, once the run is over and all agree on it."""
        self.here.until(self.thread, "the end of the run", lambda look: look.run_id is None)
        history = self.stage.history(self.thread)
        for page in self.pages:
            until(page, "the end of the run", IDLE)
            assert shown(page) == history
        assert history[-1]["content"] == "The end."
        told = [m for m in history if m["role"] == "tool"][-1]
        verdict = told["metadata"]["handspan"]
        return verdict.get("code") or verdict["outcome"], self.here.ran(told["toolCallId"])


@contextmanager
def moment(here: Troubles, thread: str, when: str, tool: str) -> Iterator[Moment]:
    it = Moment(here, thread, when, tool)
    try:
        it.arrive()
        yield it
    finally:
        here.stage.call(here.stage.proxy.refuse, False)
        here.stage.call(here.stage.proxy.flow)
        for page in (it.page, *it.pages):
            page.close()


def _go_away(it: Moment) -> None:
    """The page loses its line while the model is still talking; then the model calls."""
    until(it.page, "the model speaks", "(await view()).messages.at(-1)?.content === 'So: '")
    it.stage.call(it.stage.proxy.refuse)
    it.stage.call(it.stage.proxy.cut)
    until(it.page, "the line is down", "bridge.status === 'reconnecting'")
    it.here.open_gate(it.thread)
    it.here.until(it.thread, "a call that nobody can have", lambda look: look.open_calls)


def _seen(state: str) -> Callable[[Moment], None]:
    condition = f"(await view()).calls.some((call) => call.state === '{state}')"
    return lambda it: until(it.page, f"a call that is {state}", condition)


def _held(kind: str) -> Callable[[Moment], None]:
    return lambda it: it.page.evaluate("(kind) => { hold(kind); }", kind)


def _running(it: Moment) -> None:
    until(it.page, "the handler runs", "waiting.length")


def _caught(it: Moment) -> None:
    until(it.page, "the frame is held back", "kept.length")


def _finished(it: Moment) -> None:
    _running(it)
    it.page.evaluate("() => { letGo(); }")


def _done(it: Moment) -> None:
    _finished(it)
    _caught(it)


def _settled(it: Moment) -> None:
    _finished(it)
    it.here.until(it.thread, "a result", lambda look: look.messages[-1]["role"] == "tool")


_BEFORE: dict[str, Callable[[Moment], None]] = {
    "dispatched, not received": _held("tool.call"),
    "dispatched, no leave": _held("tool.started"),
    "done, result not taken": _held("tool.result"),
}

_UNTIL: dict[str, Callable[[Moment], None]] = {
    "waiting_approval": _seen("waiting_approval"),
    "queued behind another": _running,
    "queued, page away": _go_away,
    "dispatched, not received": _caught,
    "dispatched, no leave": _caught,
    "started": _running,
    "done, result not taken": _done,
    "settled": _settled,
}

MOMENTS = tuple(_UNTIL)
