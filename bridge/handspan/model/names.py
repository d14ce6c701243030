"""Names of tools, and ids of calls, as a provider takes them; names come back too.

Ours are [A-Za-z0-9_.-]{1,64}; providers take no dots. A name that must change gets another one, so
that no two tools share it (`a.b` and `a_b` stay two); what the model then calls is mapped back. A
name that is nobody's passes as it is: the bridge tells the model that there is no such tool.
*Source:* case C031; `^[a-zA-Z0-9_-]{1,64}$` is OpenAI's and Anthropic's rule.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

MOST: Final = 64
_BAD: Final = re.compile(r"[^a-zA-Z0-9_-]")


class Names:
    """Of the tools of one step."""

    def __init__(self, own: Iterable[str]) -> None:
        names = list(own)
        good = {name for name in names if is_good(name)}
        self._theirs = {name: name for name in good}
        for name in names:
            if name not in good:
                self._theirs[name] = _free(_tame(name), set(self._theirs.values()))
        self._own = {theirs: own for own, theirs in self._theirs.items()}

    def theirs(self, name: str) -> str:
        """As the provider takes it; also of a tool that is no more, for calls in a history."""
        return self._theirs.get(name) or _tame(name)

    def own(self, name: str) -> str:
        """What the model means by this name."""
        return self._own.get(name, name)


def is_good(name: str) -> bool:
    """Whether every provider takes it."""
    return 0 < len(name) <= MOST and not _BAD.search(name)


def _tame(name: str) -> str:
    return _BAD.sub("_", name)[:MOST] or "_"


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        end = f"_{number}"
        free, number = name[: MOST - len(end)] + end, number + 1
    return free


def call_id_of(own: str, most: int = MOST) -> str:
    """A call's id as a provider takes it: as it is where that can be, else always the same other.

    *Source:* Anthropic wants ^[a-zA-Z0-9_-]+$; chat completions take 40 characters.
    """
    if len(own) <= most and own and not _BAD.search(own):
        return own
    return "call_" + hashlib.sha256(own.encode()).hexdigest()[:24]
