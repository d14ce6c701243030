"""Every session and every thread of this process, by name.

Owns finding and making them, the ids that must be unique among several, and which threads may
leave memory. Deliberately decides nothing that a machine decides.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.thread import Roster, Thread
from handspan_protocol.ids import CallId, RunId, SessionId, ThreadId

from .ids import Ids

Json = Any

CALLS_KEPT: Final = 4_096
"""Calls of one thread that can be found by their id; older ones are `unknown_call`."""


RETIRED_KEPT: Final = 65_536
"""Calls of threads that are gone whose ids nobody gets: an answer is on its way for seconds, and a
burst of deleted threads has some thousand calls."""


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

    def retire_all(self) -> None:
        """The thread is gone; answers to its calls may still be on their way."""
        while self._claimed:
            self._hub.retire(self._key, self._claimed.popleft())

    def _release(self, call_id: CallId) -> None:
        if self._hub.calls.get((self._key.principal, call_id)) == self._key:
            del self._hub.calls[self._key.principal, call_id]


class Hub:
    """The registry of machines; changed by the driver only."""

    def __init__(self, policy: Policy, ids: Ids, roster: Roster) -> None:
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

    def thread(self, key: ThreadKey) -> Thread:
        """The thread, made when it is not there."""
        thread = self.threads.get(key)
        if thread is None:
            source = ThreadIds(self, key, self._ids)
            thread = Thread(key, self.policy, source, self._roster)
            self._sources[key] = source
            self.threads[key] = thread
        self.threads.move_to_end(key)
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
            if (old or over > 0) and thread.idle:
                over -= 1
                yield key
            elif not old and over <= 0:
                return

    def known_elsewhere(self, key: ThreadKey, call_id: CallId) -> bool:
        """Whether another thread of the same principal, perhaps gone, is known by this call."""
        name = (key.principal, call_id)
        return name in self._retired or self.calls.get(name, key) != key

    def retire(self, key: ThreadKey, call_id: CallId) -> None:
        """Keep the id of a call whose thread is gone from being had anew, for a while."""
        name = (key.principal, call_id)
        if self.calls.pop(name, None) == key:
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


def listed(thread: Thread, shift: float) -> dict[str, Json]:
    """One row of `thread.list`; the title is the beginning of the first user text."""
    at = datetime.fromtimestamp(thread.touched_at + shift, UTC)
    row: dict[str, Json] = {
        "threadId": ThreadId(thread.thread_id),
        "updatedAt": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    for message in thread.space.transcript.messages:
        if message["role"] == "user" and isinstance(message["content"], str):
            return row | {"title": message["content"][:80]}
    return row
