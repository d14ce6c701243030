"""Every session and every thread of this process, by name.

Owns finding and making them, the ids that must be unique among several, and which threads may
leave memory. Deliberately decides nothing that a machine decides.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from handspan.core.arguments import Compile
from handspan.core.entries import Entry, read
from handspan.core.keeping import title_of
from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.thread import Roster, Thread
from handspan.ports import KeptThread, Store
from handspan_protocol.errors import PeerError, Unavailable
from handspan_protocol.ids import CallId, RunId, SessionId

from .clock import utc_text
from .ids import Ids
from .socket import where

Json = Any

_LOG = logging.getLogger("handspan.store")

CALLS_KEPT: Final = 4_096
"""Calls of one thread that can be found by their id; older ones are `unknown_call`."""


RETIRED_KEPT: Final = 65_536
"""Calls of threads that are gone whose ids nobody gets: an answer is on its way for seconds, and a
burst of deleted threads has some thousand calls."""


THREADS_LISTED: Final = 1_000
"""Threads that one `thread.list` tells, the newest: some 100 KiB. Without an authenticator all
threads are everybody's."""


class ThreadIds:
    """`core.inputs.IdSource` for one thread: claims its calls' ids in the hub."""

    def __init__(self, hub: "Hub", key: ThreadKey, ids: Ids) -> None:
        self._hub = hub
        self._key = key
        self._ids = ids
        self._claimed: deque[CallId] = deque()

    def new(self, kind: str) -> str:
        return self._ids.new(kind)

    def secret(self) -> str:
        return self._ids.secret()

    def claim_call(self, wish: str | None) -> CallId:
        """`wish`, unless another thread of the principal has, or not long ago had, such a call.

        Pages name a call by its id alone: an answer that comes late must find its own call (P7).
        """
        taken = wish is None or self._hub.known_elsewhere(self._key, CallId(wish))
        call_id = CallId(self._ids.new("c") if taken or wish is None else wish)
        self._hub.calls[self._key.principal, call_id] = self._key
        self._claimed.append(call_id)
        if len(self._claimed) > CALLS_KEPT:
            self._release(self._claimed.popleft())
        return call_id

    def adopt_call(self, call_id: CallId) -> None:
        """A call from the store is found by its id, unless another thread has it by now."""
        self._hub.calls.setdefault((self._key.principal, call_id), self._key)
        self._claimed.append(call_id)

    def retire_all(self) -> None:
        """The thread is gone; answers to its calls may still be on their way."""
        while self._claimed:
            self._hub.retire(self._key, self._claimed.popleft())

    def _release(self, call_id: CallId) -> None:
        if self._hub.calls.get((self._key.principal, call_id)) == self._key:
            del self._hub.calls[self._key.principal, call_id]


class Hub:
    """The registry of machines; changed by the driver only.

    `store` is where threads are that are not in memory; None: nowhere.
    """

    def __init__(
        self,
        policy: Policy,
        ids: Ids,
        roster: Roster,
        store: Store | None,
        compile_schema: Compile,
    ) -> None:
        self.policy = policy
        self.sessions: dict[SessionId, Session] = {}
        self.threads: OrderedDict[ThreadKey, Thread] = OrderedDict()
        """Least recently used first."""
        self.calls: dict[tuple[str, CallId], ThreadKey] = {}
        self.active: set[ThreadKey] = set()
        """Threads with a run under way or waiting."""
        self._retired: OrderedDict[tuple[str, CallId], None] = OrderedDict()
        """Calls of threads that are gone: nobody may have their ids yet."""
        self._ids = ids
        self._roster = roster
        self._sources: dict[ThreadKey, ThreadIds] = {}
        self._store = store
        self._compile = compile_schema

    def thread(self, key: ThreadKey) -> Thread:
        """The thread, read from the store or made when it is not there."""
        thread = self.find(key) or self._make(key, ())
        self.threads.move_to_end(key)
        return thread

    def find(self, key: ThreadKey) -> Thread | None:
        """The thread, in memory or in the store."""
        if self._store is None or key in self.threads:
            return self.threads.get(key)
        entries = self._store.thread(key)
        return self._make(key, entries) if entries else None

    def reach(self, key: ThreadKey, *, create: bool) -> Thread | None:
        """The thread, if it is there or may be made; one that cannot be read is not there."""
        try:
            return self.thread(key) if create else self.find(key)
        except Unavailable as problem:
            _LOG.error("thread %s cannot be read: %s", key.thread_id, problem)
        except Exception as problem:  # somebody else has spoiled what is kept of it
            _LOG.error("thread %s cannot be read: %s", key.thread_id, where(problem))
        return None

    def _make(self, key: ThreadKey, entries: Sequence[Entry]) -> Thread:
        source = ThreadIds(self, key, self._ids)
        thread = Thread(key, self.policy, source, self._roster)
        if self._store is not None:
            thread.keep(entries, self._compile)
        self._sources[key] = source
        self.threads[key] = thread
        return thread

    def drop(self, key: ThreadKey) -> None:
        """The thread leaves memory."""
        self.threads.pop(key, None)
        self.active.discard(key)
        source = self._sources.pop(key, None)
        if source is not None:
            source.retire_all()

    def to_evict(self, now: float) -> Iterator[ThreadKey]:
        """Idle threads that are too old or too many; a running one never."""
        over = len(self.threads) - self.policy.threads
        for key, thread in list(self.threads.items()):
            old = now - thread.touched_at > self.policy.thread_idle
            if (old or over > 0) and thread.idle and not thread.log.held:
                over -= 1
                yield key
            elif not old and over <= 0:
                return

    def known_elsewhere(self, key: ThreadKey, call_id: CallId) -> bool:
        """Whether another thread of the same principal, perhaps gone, is known by this call.

        A thread that is only in the store counts: a page that outlived the process may still
        have an answer for it.
        """
        name = (key.principal, call_id)
        if name in self._retired or self.calls.get(name, key) != key:
            return True
        return name not in self.calls and self._is_kept(key.principal, call_id)

    def _is_kept(self, principal: str, call_id: CallId) -> bool:
        try:
            return self._store is not None and self._store.has_call(principal, call_id)
        except Unavailable:
            return True  # a fresh id is always right

    def retire(self, key: ThreadKey, call_id: CallId) -> None:
        """Keep the id of a call whose thread is gone from being had anew, for a while."""
        name = (key.principal, call_id)
        if self.calls.get(name) == key:
            del self.calls[name]
            self._retired[name] = None
            if len(self._retired) > RETIRED_KEPT:
                self._retired.popitem(last=False)

    def thread_of_run(self, principal: str, run_id: RunId) -> ThreadKey | None:
        """The thread on which this run, or sub-run, is under way or waiting."""
        for key in self.active:
            if key.principal == principal and self.threads[key].runs.has(run_id):
                return key
        return None

    def sessions_of(self, principal: str) -> int:
        return sum(session.principal.id == principal for session in self.sessions.values())


def listed(threads: Iterable[Thread], kept: Iterable[KeptThread], shift: float) -> list[Json]:
    """The rows of `thread.list`, newest first: threads in memory, and those that are kept.

    Of one that is both counts when it was last written, which stays so over a restart.
    `shift` is what lies between the loop's time and the time since 1970.
    """
    rows = {
        thread.thread_id: (thread.touched_at + shift, title_of(thread.space.transcript.messages))
        for thread in threads
    }
    for one in kept:
        rows[one.key.thread_id] = (one.updated_at, _title(one.about))
    newest = sorted(rows.items(), key=lambda row: -row[1][0])
    return [_row(thread_id, at, title) for thread_id, (at, title) in newest[:THREADS_LISTED]]


def _title(about: bytes) -> str | None:
    try:
        title = read(about)["title"]
    except (PeerError, KeyError, TypeError):  # it has none yet, or somebody else wrote it
        return None
    return title if isinstance(title, str) else None


def _row(thread_id: str, at: float, title: str | None) -> dict[str, Json]:
    row: dict[str, Json] = {"threadId": thread_id, "updatedAt": utc_text(at)}
    return row if title is None else row | {"title": title}
