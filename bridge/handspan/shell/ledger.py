"""What must be kept before anybody is told of it, and what waits until it is (P16).

Everything that one input brings about, in whatever machines, is one *page* of the ledger: it is
written together, or not at all, so what a store has is always what had come of the first so many
inputs. As long as a page is not kept, nothing leaves that was said behind it: control frames and
server tools wait here, in their order; a thread's log shows its readers nothing of it (`Log.hold`).
What needs no Record, a token, waits only behind a Record of its own thread.

With a store that keeps nothing all of this is one comparison. Above sits `driver`, below a
`ports.Store`. *Source:* architecture.md, "The way of the data" 4.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from handspan.core.effects import Fact, Record, ThreadEffect
from handspan.core.entries import Change, Drop
from handspan.core.parties import ThreadKey
from handspan.core.session import Session
from handspan.core.thread import Thread
from handspan.ports import Store

from .socket import where

Act = Callable[[], None]

_LOG = logging.getLogger("handspan.driver")


@dataclass(slots=True, eq=False)
class _Page:
    """What one input brought about."""

    facts: dict[Thread, list[Fact]] = field(default_factory=dict)
    """Of each thread that recorded something; none, if it was deleted behind that."""
    changes: list[Change] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    """What waits for it."""


class Ledger:
    """One driver's. `grew` is told of each thread whose log shows more than before."""

    def __init__(self, store: Store, grew: Callable[[ThreadKey, Thread], None]) -> None:
        self.on = store.durable
        self._store = store
        self._grew = grew
        self._page: _Page | None = None
        """Of the input that is being handled."""
        self._written: deque[_Page] = deque()
        """Those that are not kept yet."""
        self._held: dict[Thread, deque[int]] = {}
        """Of each thread: where each page that is not kept begins in its log."""

    # ---- while an input is handled -----------------------------------------------------------

    def note(self, thread: Thread, effects: Sequence[ThreadEffect], before: int) -> None:
        """The thread has given these effects; its log had its head at `before`."""
        facts = [fact for each in effects if isinstance(each, Record) for fact in each.facts]
        if not facts:
            return
        page = self._open()
        if thread not in page.facts:
            page.facts[thread] = []
            self._held.setdefault(thread, deque()).append(before)
            thread.log.hold(before)
        page.facts[thread] += facts

    def note_session(self, session: Session) -> None:
        """The session has handled something."""
        changes = session.changes()
        if changes:
            self._open().changes += changes

    def forget(self, thread: Thread) -> None:
        """The thread is deleted: nothing of it is kept."""
        page = self._open()
        if thread in page.facts:
            page.facts[thread] = []
        page.changes.append(Drop(thread.space.key))

    def after(self, act: Act) -> None:
        """Do this when everything that was recorded so far is kept: at once, if it is."""
        page = self._page or (self._written[-1] if self._written else None)
        if page is None:
            act()
        else:
            page.acts.append(act)

    def turn(self) -> None:
        """The input is handled: its page is written."""
        page, self._page = self._page, None
        if page is None:
            return
        for thread, facts in page.facts.items():
            if facts:
                page.changes += _changes(thread, facts)
        self._store.write(page.changes, self._kept)
        self._written.append(page)

    def shut(self) -> None:
        """Nothing that waits is done any more: nobody is there to see it, and no tool may begin."""
        for page in self._written:
            page.acts.clear()

    # ---- when it is kept ---------------------------------------------------------------------

    def _kept(self) -> None:
        """The oldest page that was written is kept."""
        page = self._written.popleft()
        for thread in page.facts:
            self._show(thread)
        for act in page.acts:
            try:
                act()
            except Exception as error:  # one must not take those behind it along
                _LOG.error("what waited for the store was not done: %s", where(error))

    def _show(self, thread: Thread) -> None:
        held = self._held[thread]
        held.popleft()
        if held:
            thread.log.release(held[0])
        else:
            del self._held[thread]
            thread.log.release()
        self._grew(thread.space.key, thread)

    def _open(self) -> _Page:
        if self._page is None:
            self._page = _Page()
        return self._page


def _changes(thread: Thread, facts: list[Fact]) -> list[Change]:
    """What the thread has to have written; one that cannot be written down holds up no other."""
    try:
        return thread.changes(facts)
    except Exception as error:
        _LOG.error("thread %s is not kept: %s", thread.thread_id, where(error))
        return []
