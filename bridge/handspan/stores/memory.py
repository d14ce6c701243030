"""The store that keeps nothing: threads live in the process, and end with it."""

from handspan.core.effects import Fact


class MemoryStore:
    """`ports.Store` for threads that need not survive: what is in memory is all there is."""

    def record(self, facts: tuple[Fact, ...]) -> None:
        """The thread itself holds the fact; there is nothing to add."""

    def forget(self, principal: str, thread_id: str) -> None:
        """The thread leaves memory, and that is all."""

    def close(self) -> None:
        """Nothing is open."""
