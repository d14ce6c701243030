"""The sheet that a clause is read onto for one tool: what was found, and which words are taken.

Owns the places: where a parameter is named, which words are still free. A word is taken once.
"""

from collections.abc import Iterator
from typing import Any, Final

from . import english
from .memory import Names
from .params import Param
from .skill import Skill
from .tokens import Clause

Json = Any
Span = tuple[int, int]

CHOICE, MENTION, KEYED, HINT = 3.0, 2.0, 1.5, 0.5
"""How much a found value speaks for a tool; a word of its name says 3."""

_BEFORE_VALUES: Final = frozenset(("is", "to", "of", "as", "at"))


class Sheet:
    """Of one clause and one tool; filled in by those who look for values."""

    def __init__(self, skill: Skill, clause: Clause, names: Names) -> None:
        self.skill = skill
        self.clause = clause
        self.names = names
        self.args: dict[str, Json] = {}
        self.taken: set[int] = set()
        self.evidence = 0.0
        """How much of it speaks for the tool."""
        self.problems: list[str] = []
        """What was said and cannot be."""
        self.of_many = False
        self.is_nonsense = False
        self.has_choice = False
        """Whether one of the tool's choices was said beyond doubt."""

    def open_params(self, *kinds: str) -> list[Param]:
        """What is still to be told, of these kinds, choices left out."""
        wanted = [p for p in self.skill.params if p.kind in kinds and not p.choices]
        return [param for param in wanted if param.name not in self.args]

    def skip(self, at: int, words: frozenset[str]) -> int:
        """The place after a row of such words, ":" and "="."""
        while self.clause.mark_at(at) in (":", "=") or self.clause.fold_at(at) in words:
            at += 1
        return at

    def is_free(self, span: Span) -> bool:
        return not any(at in self.taken for at in range(*span))

    def take(self, span: Span) -> None:
        self.taken.update(range(*span))

    def behind(self, at: int, words: frozenset[str]) -> int:
        """Where a row of such words begins that ends before this place; there must be one more."""
        first = at
        while first > 0 and self.clause.fold_at(first - 1) in words:
            first -= 1
        return first

    def mentions(self, param: Param) -> list[Span]:
        """Where the parameter is called by its name."""
        clause = self.clause
        spans = list(clause.spans.get(param.key, ()))
        if len(param.words) == 1:
            at = clause.by_stem.get(english.stem(param.key), ())
            spans += [(n, n + 1) for n in at if (n, n + 1) not in spans]
        return [span for span in spans if not clause.words[span[0]].quoted]

    def key_before(self, at: int, param: Param) -> int:
        """Where the key of a value begins, when one stands before it; else where the value does."""
        first = at
        while self.clause.mark_at(first - 1) in (":", "=") or self._stands_before(first - 1):
            first -= 1
        for start, end in self.mentions(param):
            if end == first:
                return start
        return at

    def alike(self, stem: str) -> Iterator[int]:
        like = english.LIKE.get(stem, frozenset())
        for other, places in self.clause.by_stem.items():
            if other == stem or like & english.LIKE.get(other, frozenset()):
                yield from places

    def _stands_before(self, at: int) -> bool:
        return self.clause.fold_at(at) in _BEFORE_VALUES
