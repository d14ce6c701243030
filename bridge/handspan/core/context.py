"""What a page says of itself: named items, bounded together, for the next step to read.

Owns the order and the bound; a change that does not fit changes nothing.
"""

from collections.abc import Iterable

from handspan_protocol.codec import encode
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.frames import ContextItem


class ContextSet:
    """The items of one page, by name, in the order they came."""

    __slots__ = ("_most_bytes", "current")

    def __init__(self, most_bytes: int) -> None:
        self.current: dict[str, ContextItem] = {}
        """By name; replaced, never changed."""
        self._most_bytes = most_bytes

    @property
    def items(self) -> tuple[ContextItem, ...]:
        return tuple(self.current.values())

    def replace(self, items: Iterable[ContextItem]) -> None:
        """These are all.

        Raises:
            PeerError: `too_large`; nothing was changed.
        """
        self._put({item.name: item for item in items})

    def change(self, add: Iterable[ContextItem], remove: Iterable[str]) -> None:
        """Remove first, then add; an added name that was there is replaced.

        Raises:
            PeerError: `too_large`; nothing was changed.
        """
        gone = set(remove)
        kept = {name: item for name, item in self.current.items() if name not in gone}
        self._put(kept | {item.name: item for item in add})

    def _put(self, items: dict[str, ContextItem]) -> None:
        check_context(items.values(), self._most_bytes)
        self.current = items


def check_context(items: Iterable[ContextItem], most_bytes: int) -> None:
    """The bound of every context, of a page or of one run.

    Raises:
        PeerError: `too_large`.
    """
    size = len(encode([[x.name, x.description, x.value] for x in items]))
    if size > most_bytes:
        message = f"the context has {size} bytes, over {most_bytes}"
        raise PeerError(CommandCode.TOO_LARGE, message, "/context")
