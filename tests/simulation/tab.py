"""A browser tab: its storage, the document in it, and what browsers do to both.

Owns the one thread that a document's scripts have: while the tab is frozen everything that would
happen in it waits, and then happens in order. Knows no frames.
"""

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from tests.simulation.page import Document

Json = Any


class Tab:
    """One tab of a user."""

    def __init__(
        self,
        world: Any,
        name: str,
        *,
        threads: list[str],
        tools: dict[str, Json],
        storage: dict[str, Json] | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.threads = threads
        """Those that a document opens when it loads."""
        self.tools = tools
        """What its page registers."""
        self.storage: dict[str, Json] = storage if storage is not None else {}
        """sessionStorage: it survives reloads, and a duplicated tab gets a copy."""
        self.secrets: list[Json] = []
        """Every session and secret its documents were ever given."""
        self.online = True
        self.visible = True
        self.document: Document | None = None
        self._loads = 0
        self._frozen = 0
        self._tasks: deque[tuple[Document, Callable[[], None]]] = deque()

    # ---- its one thread ----

    def task(self, document: Document, work: Callable[[], None]) -> None:
        """Do this for the document as soon as its scripts can run; never, when it is gone."""
        if self._frozen:
            self._tasks.append((document, work))
        elif document.alive:
            work()

    def later(self, document: Document, seconds: float, work: Callable[[], None]) -> Any:
        return _Timer(self, document, seconds, work)

    @property
    def frozen(self) -> bool:
        return self._frozen > 0

    def freeze(self) -> None:
        self._frozen += 1

    def thaw(self) -> None:
        self._frozen = max(0, self._frozen - 1)
        while self._tasks and not self._frozen:
            document, work = self._tasks.popleft()
            if document.alive:
                work()

    # ---- its documents ----

    def load(self) -> None:
        """The page is loaded; what was there before must be unloaded."""
        self._loads += 1
        self._frozen = 0
        self._tasks.clear()
        self.document = Document(self, f"{self.name}.{self._loads}")

    def unload(self, *, politely: bool) -> None:
        """The document is gone: politely with a pagehide, otherwise its process has crashed."""
        document = self.document
        if document is None:
            return
        if politely and not self._frozen:
            document.hide()
        document.unload()
        self.document = None

    def duplicate(self, name: str) -> "Tab":
        """window.open, or "duplicate tab": the storage is copied."""
        copied = Tab(
            self.world,
            name,
            threads=list(self.threads),
            tools=dict(self.tools),
            storage=deepcopy(self.storage),
        )
        copied.secrets = list(self.secrets)
        return copied

    # ---- its user ----

    def verdict(self, question: str, frame: Json) -> tuple[float, dict[str, Json]] | None:
        """What the user says to a request for approval, and after how long; None: nothing."""
        rng = Random(f"{self.world.seed}/{self.name}/{question}")
        chance = rng.random()
        if chance < 0.25:
            return None
        said: dict[str, Json] = {"approved": chance < 0.85}
        if 0.5 < chance < 0.6:
            said["args"] = {"n": 1000}
        if chance > 0.95:
            said["reason"] = "no"
        if 0.6 < chance < 0.65:
            said["remember"] = True
        return rng.random() * 3, said


class _Timer:
    """setTimeout of a document: it cannot fire while its tab is frozen."""

    def __init__(
        self, tab: Tab, document: Document, seconds: float, work: Callable[[], None]
    ) -> None:
        self._work: Callable[[], None] | None = work
        self._handle = tab.world.loop.call_later(seconds, tab.task, document, self._fire)

    def _fire(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()

    def cancel(self) -> None:
        self._work = None
        self._handle.cancel()
