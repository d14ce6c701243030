"""A message as words: what was written, where it stands, and how it compares.

Owns the cutting of text, which is linear in its length. Deliberately knows no word's meaning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from . import english

SPAN_WORDS: Final = 6
"""A name that stands in a message has at most so many words."""

_TOKEN: Final = re.compile(
    r'"([^"\n]{1,500})"|“([^”\n]{1,500})”|«([^»\n]{1,500})»|`([^`\n]{1,500})`'
    r"|(?<![^\s,:;=(])'([^'\n]{1,500})'(?![^\s,.:;!?)])|‘([^’\n]{1,500})’(?!\w)"
    r"|(?P<word>https?://[^\s\"]+|\d+:\d+|[^\s,;:!?=()\[\]{}\"“”«»`…]+)"
    r"|(?P<mark>[,;:!?=()\[\]{}\"“”«»`…\n])"
)
_UNSEEN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
_NUMBER: Final = re.compile(r"[$€£]?(-?\d{1,15}(?:\.\d{1,15})?)(?:%|[a-zA-Z°€$£]{1,3})?")
_EMAIL: Final = re.compile(r"[^\s@]{1,64}@[^\s@.]{1,63}(?:\.[^\s@.]{1,63}){1,4}")


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a quoted text, or a mark between them."""

    text: str
    fold: str
    stem: str
    start: int
    end: int
    """The place in the message, quotes included."""
    quoted: bool = False
    mark: bool = False

    @property
    def is_stop(self) -> bool:
        return not self.quoted and self.fold in english.STOP

    @property
    def number(self) -> float | int | None:
        """What number it is: "2", "20%", "6s", "two"."""
        if self.quoted or self.mark:
            return None
        found = _NUMBER.fullmatch(self.text)
        if found is None:
            return english.NUMBERS.get(self.fold)
        return float(found[1]) if "." in found[1] else int(found[1])

    @property
    def is_email(self) -> bool:
        return not self.mark and _EMAIL.fullmatch(self.text) is not None


def visible(text: str) -> str:
    """The text with spaces for what cannot be seen; as long as before."""
    return _UNSEEN.sub(" ", text)


def words_of(text: str, most: int | None = None) -> list[Word]:
    """The words and marks of a text, in order; so many at most."""
    words = (word for found in _TOKEN.finditer(visible(text)) for word in _read(found))
    return list(islice(words, most))


def _read(found: re.Match[str]) -> Iterator[Word]:
    start, end = found.span()
    if found["mark"]:
        yield _mark(found["mark"], start)
    elif (word := found["word"]) is None:
        inner = next(group for group in found.groups() if group is not None)
        yield Word(inner, english.fold(inner), "", start, end, quoted=True)
    else:
        bare = word.rstrip(".")
        if bare and bare != "-":
            folded = english.fold(bare)
            yield Word(bare, folded, english.stem(folded), start, start + len(bare))
        if bare != word or bare == "-":
            yield _mark(word[-1], end - 1)


def _mark(text: str, at: int) -> Word:
    return Word(text, "", "", at, at + 1, mark=True)


class Clause:
    """The words of one wish, with the message they come from."""

    def __init__(self, message: str, words: Sequence[Word]) -> None:
        self.message = message
        self.words = tuple(words)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def head(self) -> int | None:
        """Where the wish begins: its first word that says something."""
        telling = [
            n for n, word in enumerate(self.words) if not (word.mark or word.quoted or word.is_stop)
        ]
        return next((n for n in telling if self.words[n].stem not in english.NEUTRAL), None)

    @cached_property
    def marker(self) -> int | None:
        """Where "called", "named" or the like stands."""
        return next((n for n, w in enumerate(self.words) if self._marks(n, w)), None)

    def _marks(self, at: int, word: Word) -> bool:
        return not word.quoted and word.fold in english.MARKERS and at + 1 < len(self.words)

    @cached_property
    def spans(self) -> dict[str, list[tuple[int, int]]]:
        """By the fold of up to SPAN_WORDS words that follow each other: where they stand."""
        found: dict[str, list[tuple[int, int]]] = {}
        for first, word in enumerate(self.words):
            folded = ""
            for last in range(first, min(first + SPAN_WORDS, len(self.words))):
                if self.words[last].mark:
                    break
                folded += self.words[last].fold
                found.setdefault(folded, []).append((first, last + 1))
                if word.quoted:
                    break
        return found

    @cached_property
    def by_stem(self) -> dict[str, list[int]]:
        """Where the words of a stem stand; quoted ones have none."""
        found: dict[str, list[int]] = {}
        for n, word in enumerate(self.words):
            if word.stem:
                found.setdefault(word.stem, []).append(n)
        return found

    @cached_property
    def hinting(self) -> dict[str, list[int]]:
        """Where the words of a stem, or of a group of words that mean alike, stand."""
        found: dict[str, list[int]] = {}
        for stem, places in self.by_stem.items():
            for key in (stem, *english.like(stem)):
                found.setdefault(key, []).extend(places)
        return found

    @cached_property
    def numbers(self) -> dict[int, float | int]:
        """By place: the numbers."""
        found = ((n, word.number) for n, word in enumerate(self.words))
        return {n: number for n, number in found if number is not None}

    @cached_property
    def emails(self) -> list[int]:
        """Where addresses stand."""
        return [n for n, word in enumerate(self.words) if word.is_email]

    def fold_at(self, at: int) -> str:
        """The fold of a bare word; empty beyond the ends, for marks and for what is quoted."""
        if not 0 <= at < len(self.words) or self.words[at].quoted:
            return ""
        return self.words[at].fold

    def mark_at(self, at: int) -> str:
        """The mark at this place, or nothing."""
        inside = 0 <= at < len(self.words) and self.words[at].mark
        return self.words[at].text if inside else ""

    def text(self, first: int, end: int) -> str:
        """The words as they were written, what stands between them included."""
        if end - first == 1:
            return self.words[first].text
        return self.message[self.words[first].start : self.words[end - 1].end]
