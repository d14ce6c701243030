"""Worlds that are kept on a shelf, and the same worlds in the next process.

`KeptWorld` writes as `shell/ledger.py` does: what one input brought about, in whatever machines, is
one page. `revived` makes of a shelf what a new process finds there; `follow` takes a page along to
it. Nothing here expects anything.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from tests.core.builders import COMPILE, CountedIds, Tab, World
from tests.fake_store import Entries, Shelf

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.entries import Change, Drop, Entry
from handspan.core.parties import PageView, Principal, ThreadKey
from handspan.core.session import Session
from handspan.core.session_keeping import owner_of
from handspan.core.thread import Thread
from handspan_protocol.ids import SessionId


class KeptWorld(World):
    """A World with a shelf."""

    def __init__(self, *given: Any, shelf: Shelf | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self.shelf = shelf or Shelf()
        self.on_turn: list[Callable[[set[ThreadKey]], None]] = []
        """Called when an input has been handled, with the threads that were written."""
        self.written: list[list[Change]] = []
        """Every page so far."""
        self._facts: dict[ThreadKey, list[e.Fact]] = {}
        self._page: list[Change] = []
        self.watchers.append(self._note)

    def entries(self, scope: ThreadKey | SessionId) -> list[Entry]:
        """What the shelf has of it."""
        found: Entries
        if isinstance(scope, ThreadKey):
            found = self.shelf.threads.get(scope, {})
        else:
            found = self.shelf.sessions.get(scope, {})
        return [Entry(part, name, body) for (part, name), body in found.items()]

    # ---- machines that are kept ----------------------------------------------------------------

    def thread(self, thread: str | ThreadKey) -> Thread:
        key = self.key(thread)
        if key in self.threads:
            return self.threads[key]
        made = super().thread(key)
        made.keep(self.entries(key), COMPILE)
        for call_id in made.desk.calls:
            self.calls.setdefault((key.principal, call_id), key)
        return made

    def fresh_session(self, name: SessionId, principal: Principal, ids: Any) -> Session:
        session = super().fresh_session(name, principal, ids)
        session.keep()
        return session

    def restore_session(self, name: SessionId) -> None:
        entries = self.entries(name)
        owner = owner_of(entries)
        if owner is not None:
            ids = CountedIds()
            ids.counts = self._names
            self.sessions[name] = self.fresh_session(name, owner[0], ids)
            self.sessions[name].restore(entries, self.now)

    # ---- writing -------------------------------------------------------------------------------

    def tell(self, target: Any, message: Any, *, create: bool = False) -> list[Any]:
        effects = super().tell(target, message, create=create)
        self._turn()
        return effects

    def _note(self, target: Any, _: Any, effects: list[Any]) -> None:
        if not isinstance(target, ThreadKey):
            self._page += self.sessions[target].changes()
            return
        facts = [fact for each in effects if isinstance(each, e.Record) for fact in each.facts]
        if facts:
            self._facts.setdefault(target, []).extend(facts)
        if any(isinstance(effect, e.ThreadOver) for effect in effects):
            self._facts.pop(target, None)
            self._page.append(Drop(target))

    def _turn(self) -> None:
        page, self._page = self._page, []
        facts, self._facts = self._facts, {}
        for key, told in facts.items():
            page += self.threads[key].changes(told)
        self.written.append(page)
        self.shelf.apply(page, self.now)
        for tell in self.on_turn:
            tell(set(facts))


def loaded(world: KeptWorld, key: ThreadKey, shelf: Shelf | None = None) -> Thread:
    """The thread as the next process would have it, before anything moves."""
    other = KeptWorld(
        world.policy,
        agents=world.agents,
        server=world.server.values(),
        hooks=world.hooks,
        shelf=shelf or world.shelf,
    )
    return other.thread(key)


def revived(world: KeptWorld) -> KeptWorld:
    """The next process: every session and every thread, and nothing has moved yet."""
    other = KeptWorld(
        world.policy,
        agents=world.agents,
        server=world.server.values(),
        hooks=world.hooks,
        shelf=world.shelf.copy(),
    )
    other.now, other._names = world.now, copy(world._names)
    for name in other.shelf.sessions:
        other.restore_session(name)
    for key in other.shelf.threads:
        other.thread(key)
    return other


def begin(world: KeptWorld) -> None:
    """What `shell/lifetime.py` does first of all: runs go on, and sessions wait for their pages."""
    pages: dict[str, list[PageView]] = {}
    for session in world.sessions.values():
        pages.setdefault(session.principal.id, []).append(session.view())
    for key, entries in list(world.shelf.threads.items()):
        if any(part == "run" for part, _ in entries):
            world.tell(key, i.Restored(tuple(pages.get(key.principal, ()))))


def follow(tab: Tab, world: KeptWorld) -> Tab:
    """The same document in the next process, without a socket yet."""
    twin = Tab(world, tab.name)
    twin.document, twin.claim = tab.document, tab.claim
    twin.journal, twin.calls = dict(tab.journal), list(tab.calls)
    twin._commands = copy(tab._commands)
    return twin
