"""The store that keeps nothing: threads live in the process, and end with it."""

from collections.abc import Callable, Collection, Mapping, Sequence

from handspan.core.entries import Change, Entry
from handspan.core.parties import ThreadKey
from handspan.ports import KeptThread
from handspan_protocol.ids import SessionId


class MemoryStore:
    """`ports.Store` for threads that need not survive: what is in memory is all there is."""

    durable = False
    troubled = None

    def open(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """There is nothing to begin."""

    def write(self, changes: Sequence[Change], done: Callable[[], None]) -> None:
        raise AssertionError("nobody writes to a store that keeps nothing")

    def sessions(self) -> Mapping[SessionId, Sequence[Entry]]:
        return {}

    def thread(self, key: ThreadKey) -> Sequence[Entry]:
        return ()

    def threads(
        self, principal: str | None = None, limit: int | None = None
    ) -> Sequence[KeptThread]:
        return ()

    def has_call(self, principal: str, name: str) -> bool:
        return False

    def unfinished(self) -> Sequence[ThreadKey]:
        return ()

    def sweep(self, keep: Collection[ThreadKey]) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""
