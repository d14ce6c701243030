"""One simulation, from its plan to the end of everything in it.

Owns the order of its parts: the server's lives, the tabs, the deeds of the plan; then nothing more
happens to it until all is at rest; then everybody leaves. Judges nothing: `checker` does.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import orjson
from tests.simulation.agents import Cast
from tests.simulation.deeds import do
from tests.simulation.history import History
from tests.simulation.lines import Network
from tests.simulation.lives import Life
from tests.simulation.loop import Livelock, VirtualLoop
from tests.simulation.page import Document
from tests.simulation.plan import Plan
from tests.simulation.store import LateStore
from tests.simulation.tab import Tab

from handspan.schema.room import SchemaRoom
from handspan.shell.ids import CountedIds
from handspan.stores.memory import MemoryStore
from handspan.testing import leftovers
from handspan_protocol.codec import frame_bytes

Json = Any

PATIENCE_S: Final = 1_500.0
"""Virtual seconds after the last deed in which everything must have come to rest."""

LOOK_S: Final = 0.5
"""How often it is looked whether all is at rest."""

_SCHEMAS: Final = SchemaRoom(
    schema_bytes=65_536, schema_depth=64, schema_nodes=2_000, schema_expanded_nodes=10_000
)
"""Pure, so all simulations of a process share it."""


class World:
    """Everything there is while one seed lasts."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.policy = plan.policy
        self.latency = plan.latency
        self.buffer_bytes = plan.buffer_bytes
        self.loop = VirtualLoop()
        self.history = History(self.loop.time)
        self.ids = CountedIds()
        self.schemas = _SCHEMAS
        self.network = Network(self)
        self.tabs: list[Tab] = []
        self.life: Life | None = None
        self.lives: list[Life] = []
        self.store: Any = LateStore(self) if plan.durable else MemoryStore()
        self.runs = self.states = self.strangers = self.copies = 0
        self._downs = 0
        """Reasons for which the world is not at rest yet: somebody is still to come back."""
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- from beginning to end -----------------------------------------------------------------

    def play(self) -> History:
        """Returns what happened; a world that never comes to rest says so in its history."""
        listener = _Listener(self.history)
        logger = logging.getLogger("handspan")
        level, spread = logger.level, logger.propagate
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(listener)
        self.loop.set_exception_handler(self._broken)
        try:
            self.loop.run_until_complete(self._play())
        except Livelock as lock:
            self.history.note("wrong", "loop", str(lock))
        finally:
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = spread
            self._sweep()
        return self.history

    async def _play(self) -> None:
        self.begin_life()
        await self.happen()
        self.history.watchers.clear()
        self.history.note("fault", "no more", None)
        if await self._at_rest():
            self._tell_rest()
        await self._leave()

    async def happen(self) -> None:
        """Tabs come, and deed after deed is done, as planned."""
        for number, (threads, tools) in enumerate(self.plan.tabs, 1):
            tab = Tab(self, f"d{number}", threads=threads, tools=tools)
            self.tabs.append(tab)
            self.later(0.3 * (number - 1), partial(self.load, tab))
        for deed in self.plan.deeds:
            self.loop.call_at(0.001 + deed.at, do, self, deed)
        await asyncio.sleep(self.plan.ends + 0.002)

    async def _at_rest(self) -> bool:
        end = self.loop.virtual_now + PATIENCE_S
        while (why := next(self._unrest(), None)) is not None:
            if self.loop.virtual_now > end:
                for reason in (why, *self._unrest()):
                    self.history.note("wrong", "rest", reason)
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def _unrest(self) -> Iterator[str]:
        if self._downs:
            yield f"{self._downs} somebodies are still away"
        life = self.life
        if life is None:
            yield "the server is down"
            return
        yield from leftovers.of_work(life.driver)
        for page in self.pages():
            if page.down in ("over", "parked"):
                continue
            if page.down is not None or not page.ready or page.tab.frozen:
                yield f"{page.name} is not connected ({page.down})"
            for command in page.waiting.values():
                yield f"{page.name} waits for the answer to {command.frame}"
            for call_id in page.journal.keys() - page.lied:
                yield f"{page.name} has call {call_id} in its journal"
            for thread_id, cursor in page.threads.items():
                head = self.head(thread_id)
                if cursor.epoch is None or (cursor.epoch, cursor.offset) != head:
                    yield f"{page.name} is at {cursor} of {thread_id}, which is at {head}"

    def head(self, thread_id: str) -> tuple[str | None, int | None]:
        for key, thread in self.life.driver.hub.threads.items() if self.life else ():
            if key.thread_id == thread_id:
                return thread.epoch, thread.head
        return None, None

    def _tell_rest(self) -> None:
        assert self.life is not None
        threads = {}
        hub = self.life.driver.hub
        kept = [thread.key for thread in self.store.threads()]
        for key in dict.fromkeys([*hub.threads, *kept]):
            thread = hub.thread(key)
            picture = frame_bytes(thread.picture(""))  # type: ignore[arg-type]
            threads[key.thread_id] = orjson.loads(picture)
        pages = {
            page.name: list(page.threads)
            for page in self.pages()
            if page.down is None and page.ready
        }
        self.history.note("rest", "world", {"threads": threads, "pages": pages})

    async def _leave(self) -> None:
        for tab in list(self.tabs):
            tab.thaw()
            tab.unload(politely=True)
        await asyncio.sleep(1.0 + 20 * self.latency)
        if self.life is None:
            return
        driver = self.life.driver
        await self.life.bridge.close()
        await asyncio.sleep(60.0)
        for what in leftovers.of_sessions(driver):
            self.history.note("wrong", "leftover", what)
        me = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not me:
                self.history.note("wrong", "leftover", f"task {task.get_coro()}")
        for handle in self.loop._scheduled:  # type: ignore[attr-defined]
            if not handle.cancelled():
                self.history.note("wrong", "leftover", f"timer {handle._callback}")

    def _sweep(self) -> None:
        """Nothing of this world may go on in another."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _broken(self, _: Any, context: dict[str, Any]) -> None:
        self.history.note(
            "wrong", "loop", f"{context.get('message')}: {context.get('exception')!r}"
        )

    # ---- what deeds need -----------------------------------------------------------------------

    def pages(self) -> list[Document]:
        return [tab.document for tab in self.tabs if tab.document is not None]

    def later(self, seconds: float, work: Callable[[], Any]) -> None:
        """Do it in a while; the world is not at rest before."""
        self._downs += 1

        def due() -> None:
            self._downs -= 1
            work()

        self.loop.call_later(seconds, due)

    def load(self, tab: Tab) -> None:
        if tab.document is None and tab in self.tabs:
            tab.load()

    def close(self, tab: Tab) -> None:
        tab.unload(politely=True)
        if tab in self.tabs:
            self.tabs.remove(tab)

    def open_copy(self, tab: Tab) -> None:
        self.copies += 1
        copy = tab.duplicate(f"{tab.name}c{self.copies}")
        self.tabs.append(copy)
        copy.load()

    # ---- the server ----------------------------------------------------------------------------

    def agents(self, life: Life) -> dict[str, Any]:
        """Who answers in this life."""
        return Cast(self, life).agents()

    def begin_life(self) -> None:
        self.life = Life(self, len(self.lives) + 1)
        self.lives.append(self.life)

    def crash(self, down: float) -> None:
        if self.life is None:
            return
        life, self.life = self.life, None
        self.store = self.store.crash()
        life.crash()
        self.later(down, self.begin_life)

    def restart(self, down: float) -> None:
        if self.life is None or self.life.greeter.draining():
            return
        self._downs += 1
        task = self.loop.create_task(self._restart(self.life, down))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart(self, life: Life, down: float) -> None:
        try:
            await life.shut_down()
            if self.life is life:
                self.life = None
                self.later(down, self.begin_life)
        finally:
            self._downs -= 1


class _Listener(logging.Handler):
    """What the program says of itself that is an error is one."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() + (f": {error!r}" if error else "")
        self._history.note("wrong", record.name, said)
