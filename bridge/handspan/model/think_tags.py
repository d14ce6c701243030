"""Thoughts told from text where a model writes both into one stream, as <think>...</think>.

Many open models write so, and some libraries have the thoughts of all models so. Only what stands
at the beginning is a thought: a tag in the middle is text. The stream may be cut anywhere. Pure.
"""

from collections.abc import Iterator
from typing import Final

OPENING: Final = "<think>"
CLOSING: Final = "</think>"

Part = tuple[bool, str]
"""Whether it is a thought, and the text, which may be empty."""


class ThinkTags:
    """Of one turn: `split` each delta, then take the `rest`."""

    def __init__(self) -> None:
        self.seen = False
        """Whether there are thoughts."""
        self._kept = ""
        """What cannot be told yet."""
        self._state = self._before

    def split(self, delta: str) -> Iterator[Part]:
        """What can be told by now, in order."""
        self._kept += delta
        state = None
        while state != self._state:
            state = self._state
            yield from state()

    def rest(self) -> Iterator[Part]:
        """What was held back, at the end."""
        text, self._kept = self._kept, ""
        yield self._state == self._inside, text

    # ---- states: each takes what it can, and may give way to the next ----------------------------

    def _before(self) -> Iterator[Part]:
        start = self._kept.lstrip()
        if start.startswith(OPENING):
            self._kept, self._state, self.seen = start[len(OPENING) :], self._inside, True
        elif not OPENING.startswith(start):
            self._state = self._text
        yield from ()

    def _inside(self) -> Iterator[Part]:
        thought, tag, rest = self._kept.partition(CLOSING)
        if tag:
            self._kept, self._state = rest, self._behind
        else:
            told = len(thought) - _overlap(thought, CLOSING)
            thought, self._kept = thought[:told], thought[told:]
        yield True, thought

    def _behind(self) -> Iterator[Part]:
        """Empty lines between the two are nobody's."""
        self._kept = self._kept.lstrip("\n")
        if self._kept:
            self._state = self._text
        yield from ()

    def _text(self) -> Iterator[Part]:
        text, self._kept = self._kept, ""
        yield False, text


def _overlap(text: str, tag: str) -> int:
    """How many characters at the text's end may begin the tag."""
    return next((n for n in range(len(tag) - 1, 0, -1) if text.endswith(tag[:n])), 0)
