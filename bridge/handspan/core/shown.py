"""The messages that an agent is shown, read when it looks, and as they were when its step began.

A history only grows behind what is there: what a step says comes behind its beginning, results of
calls go behind their own messages, and a history that is cut or replaced is another list. So the
list and how long it was are enough to remember, whatever its length. Messages of sub-runs are left
out while it is read. *Source:* issue 7: a turn costs the same in a long thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

Message = Mapping[str, Any]


class Shown(Sequence[Message]):
    """The messages that are no sub-run's among the first `count` of a list that only grows."""

    __slots__ = ("_count", "_messages", "_whole")

    def __init__(self, messages: list[dict[str, Any]], count: int) -> None:
        self._messages = messages
        self._count = count
        self._whole: tuple[Message, ...] | None = None

    def _read(self) -> tuple[Message, ...]:
        if self._whole is None:
            first = islice(self._messages, self._count)
            self._whole = tuple(m for m in first if "subagentRunId" not in m)
        return self._whole

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        return self._read()[at]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shown):
            return self._read() == other._read()
        return self._read() == other if isinstance(other, tuple) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # what it holds can change

    def __repr__(self) -> str:
        return repr(self._read())
