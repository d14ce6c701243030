"""What is left of a clause when all else is taken: the text that is meant.

Owns the trimming of verbs, articles and a tool's own nouns, and the finding of known things in the
rest. "delete the milk card, please" leaves "milk".
"""

from collections.abc import Sequence
from typing import Final

from . import english
from .memory import Names
from .skill import Skill
from .tokens import Clause, Word

Span = tuple[int, int]

ITEM_WORDS: Final = 4
"""What stands between two commas of a list has at most so many words."""

_ENDING_MARKS: Final = frozenset(",;:!?.\n=-")
_SPLIT_AT: Final = frozenset(("to", "as", "into", "with", "by", "saying"))
_BACK: Final = frozenset(("back", "away", "over"))
_JOINS: Final = frozenset(("and", "plus", "&", "or"))


class Leftover:
    """Of one clause, for one tool."""

    def __init__(
        self, skill: Skill, clause: Clause, names: Names, taken: set[int], first: int | None = None
    ) -> None:
        self._skill = skill
        self._clause = clause
        self._names = names
        self._taken = frozenset(taken)
        self._first = self._start() if first is None else first
        self.used: set[int] = set()
        self.evidence = 0.0
        self.of_many = False
        """Whether "all" stands where one thing has to be named."""
        self.is_nonsense = False
        """Whether something new would be called "it back"."""

    @property
    def is_introduced(self) -> bool:
        """Whether somebody who does not have to say anything here said it on purpose."""
        quoted = any(w.quoted and n not in self._taken for n, w in enumerate(self._clause.words))
        run = self._run()
        if quoted or run is None or self._clause.marker is not None:
            return quoted or run is not None
        if english.fold(self._clause.text(*run)) in self._names.things:
            return False
        before = self._clause.fold_at(run[0] - 1)
        return before in ("for", "with", "as", "about", "of") or run[0] == self._first

    def values(self, *, exact: bool) -> list[str]:
        """The texts that are meant, in order; `exact`: as the page spells them."""
        found = self._quoted() or self._marked() or self._plain(exact=exact) or self._referred()
        return list(dict.fromkeys(found))

    def parts(self, count: int) -> list[str]:
        """One text for each of several parameters: the quoted ones, or "this to that"."""
        quoted = self._quoted()
        run = self._run()
        if len(quoted) >= count or run is None:
            return quoted[:count] if len(quoted) > 1 else self._referred()[:1]
        first, end = run
        self._use(run)
        for at in range(first + 1, end - 1):
            if self._clause.fold_at(at) in _SPLIT_AT or self._clause.mark_at(at) in (":", "="):
                return [self._clause.text(first, at), self._clause.text(at + 1, end)]
        return [self._clause.text(first, end)]

    def items(self) -> list[str]:
        """The items of a list: what stands between commas and "and"."""
        quoted = self._quoted()
        run = self._run()
        if quoted or run is None:
            return quoted
        self._use(run)
        spans = [part for span in self._between(run, ",") for part in self._between(span, "and")]
        return [self._clause.text(*span) for span in spans]

    def end_of_value(self, first: int, end: int) -> int:
        """Where a value that begins at `first` ends, its trailing words left out."""
        return self._trimmed_right(first, end, whole=True)[1]

    # ---- ways to say it ----------------------------------------------------------------------

    def _quoted(self) -> list[str]:
        words = enumerate(self._clause.words)
        found = {n: w.text.strip() for n, w in words if w.quoted and n not in self._taken}
        self.used |= found.keys()
        self.evidence += 1.0 if found else 0.0
        return [text for text in found.values() if text]

    def _marked(self) -> list[str]:
        """called X, named X."""
        marker = self._clause.marker
        if marker is None or marker in self._taken:
            return []
        end = marker + 1
        while end < len(self._clause) and end not in self._taken:
            end += 1
        span = self._trimmed_right(marker + 1, end, whole=True)
        return self._told(span)

    def _plain(self, *, exact: bool) -> list[str]:
        run = self._run()
        if run is None:
            return []
        if self._skill.creates and self._clause.fold_at(run[0]) in english.IT:
            self.is_nonsense = True
            return []
        if not exact:
            several = self._enumerated(run)
            return [text for span in several for text in self._told(span)]
        if self._skill.keeps_wording:
            return self._told(run, exact=self._skill.creates)
        return self._known(run) or self._unknown(run)

    def _unknown(self, run: Span) -> list[str]:
        said = {self._clause.fold_at(n) for n in range(*run)}
        self.of_many = bool(said & english.EVERY)
        told = self._told(run, exact=True)
        return [] if self.of_many else told

    def _known(self, run: Span) -> list[str]:
        """Things that are there: several if nothing else is said, else the longest name."""
        whole = self._names.spelled(self._clause.text(*run))
        if whole is not None:
            self._use(run)
            self.evidence += 1.0
            return [whole]
        spans = self._known_spans(run)
        if spans:
            rest = [n for n in range(*run) if not any(a <= n < b for a, b in spans)]
            if not all(self._joins(self._clause.words[n]) for n in rest):
                spans = [max(spans, key=lambda span: span[1] - span[0])]
            self._use(run)
            self.evidence += 1.0
            return [self._names.things[self._folded(span)] for span in spans]
        return self._each_known(run) or self._partly_known(run)

    def _each_known(self, run: Span) -> list[str]:
        """ "tea and the fence": several, when each is a part of one thing's name."""
        pieces = [part for span in self._between(run, ",") for part in self._between(span, "and")]
        if len(pieces) < 2:
            return []
        named = [self._named(piece) for piece in pieces]
        if not all(named):
            return []
        self._use(run)
        self.evidence += 1.0
        return [name for name in named if name]

    def _named(self, span: Span) -> str | None:
        words = [word for word in self._clause.words[slice(*span)] if not word.is_stop]
        spelled = self._names.things.get(self._folded(span))
        return spelled or self._names.containing(frozenset(word.stem for word in words))

    def _known_spans(self, run: Span) -> list[Span]:
        """Known things in a run, longest first, none over another; in the order of the text."""
        spans = [
            (first, end)
            for first in range(*run)
            for end in range(first + 1, min(run[1], first + 6) + 1)
            if self._folded((first, end)) in self._names.things
        ]
        chosen: list[Span] = []
        for span in sorted(spans, key=lambda span: span[0] - span[1]):
            if all(span[1] <= a or b <= span[0] for a, b in chosen):
                chosen.append(span)
        return sorted(chosen)

    def _partly_known(self, run: Span) -> list[str]:
        words = [w for w in self._clause.words[run[0] : run[1]] if not w.mark]
        named = self._names.containing(frozenset(word.stem for word in words if not word.is_stop))
        if named is None:
            return []
        self._use(run)
        self.evidence += 0.5
        return [named]

    def _enumerated(self, run: Span) -> list[Span]:
        """ "milk, eggs and bread" are three; "bread and butter" is one."""
        parts = self._between(run, ",")
        if len(parts) < 2 and not self._is_announced(run):
            return [run]
        parts = [*parts[:-1], *self._between(parts[-1], "and")]
        short = all(end - first <= ITEM_WORDS for first, end in parts)
        return parts if short else [run]

    def _is_announced(self, run: Span) -> bool:
        """Whether several things were announced: "two cards: a and b"."""
        word = self._clause.words[run[0] - 2] if run[0] > 1 else None
        if word is None or self._clause.mark_at(run[0] - 1) != ":":
            return False
        return self._is_own(word) and word.fold.endswith("s")

    def _referred(self) -> list[str]:
        """it, that, them, the card: what was named last."""
        last = self._names.last
        said = [n for n, w in enumerate(self._clause.words) if self._refers(n, w)]
        if not last or not said:
            return []
        self.used.update(said)
        self.evidence += -1.0 if self._skill.creates else 1.0
        many = any(self._clause.fold_at(n) in english.MANY for n in said)
        return list(last) if many else [last[-1]]

    def _refers(self, at: int, word: Word) -> bool:
        if word.quoted or at in self._taken:
            return False
        if word.fold in english.PRONOUNS:
            after = self._clause.words[at + 1] if at + 1 < len(self._clause) else None
            is_article = word.fold in english.ARTICLES and after is not None
            return not is_article or after is None or self._is_own(after) or after.is_stop
        return word.fold == "the" and self._is_own_at(at + 1)

    def _is_own_at(self, at: int) -> bool:
        return at < len(self._clause) and self._is_own(self._clause.words[at])

    # ---- trimming ----------------------------------------------------------------------------

    def _start(self) -> int:
        head = self._clause.head
        if head is None or not english.verbs(self._clause.words[head].stem):
            return 0
        after = head + 1
        return after + 1 if self._clause.fold_at(after) in english.PARTICLES else after

    def _run(self) -> Span | None:
        """The first words in a row that nobody took and that say something."""
        at = self._first
        while at < len(self._clause):
            end = at
            while end < len(self._clause) and end not in self._taken:
                end += 1
            span = self._trimmed(at, end)
            if self._says_something(span):
                return span
            at = end + 1
        return None

    def _trimmed(self, first: int, end: int) -> Span:
        start = first
        while first < end and self._leads(first, start, end):
            first += 1
        had_article = any(self._clause.fold_at(n) in english.ARTICLES for n in range(start, first))
        return self._trimmed_right(first, end, whole=self._skill.creates and not had_article)

    def _leads(self, at: int, start: int, end: int) -> bool:
        word = self._clause.words[at]
        if word.quoted:
            return False
        if word.mark:
            return word.text in _ENDING_MARKS
        if word.fold in english.LEADING or self._is_own(word):
            return word.fold != "a" or self._clause.fold_at(at + 1) not in (*_JOINS, "")
        if word.number is not None:
            return self._is_own_at(at + 1)
        if word.fold in english.GENERIC and (word.fold != "new" or self._skill.creates):
            return at + 1 < end
        if not at == start == self._first:
            return False
        return word.fold in english.PARTICLES or (at == 0 and word.stem in english.NEUTRAL)

    def _trimmed_right(self, first: int, end: int, *, whole: bool) -> Span:
        while first < end:
            if self._trails(end - 1, whole=whole):
                end -= 1
                continue
            shorter = self._without_phrase(first, end)
            if shorter == end:
                break
            end = shorter
        return first, end

    def _trails(self, at: int, *, whole: bool) -> bool:
        word = self._clause.words[at]
        if word.quoted:
            return False
        if word.mark:
            return word.text in _ENDING_MARKS
        if word.fold in english.POLITE | english.PREPOSITIONS | english.ARTICLES | _JOINS:
            return True
        dull = english.CONTAINERS | _BACK
        return not whole and (self._is_own(word) or word.fold in dull)

    def _without_phrase(self, first: int, end: int) -> int:
        """Where "milk | from the board" ends, when the tool itself speaks of a board."""
        last = self._clause.words[end - 1]
        own = last.stem in self._skill.words or last.fold in english.CONTAINERS
        if last.quoted or last.mark or not own:
            return end
        at = end - 2
        while at > first and self._clause.fold_at(at) in english.ARTICLES:
            at -= 1
        return at if at > first and self._clause.fold_at(at) in english.PREPOSITIONS else end

    def _is_own(self, word: Word) -> bool:
        """Whether it is one of the nouns in the tool's own name."""
        return bool(word.stem) and word.stem in self._skill.nouns

    def _says_something(self, span: Span) -> bool:
        words = self._clause.words[span[0] : span[1]]
        return any(w.fold in english.GREETINGS or not _says_nothing(w) for w in words)

    # ---- small moves -------------------------------------------------------------------------

    def _told(self, span: Span, *, exact: bool = False) -> list[str]:
        first, end = span
        if first >= end:
            return []
        self._use(span)
        self.evidence += 0.0 if exact else 0.5
        text = self._clause.text(first, end)
        return [(self._names.spelled(text) if exact else None) or text]

    def _between(self, span: Span, mark: str) -> list[Span]:
        """The pieces of a span at a mark or a word; empty pieces are left out."""
        cuts = [n for n in range(*span) if mark in (self._clause.mark_at(n), self._plain_at(n))]
        bounds = zip([span[0], *(n + 1 for n in cuts)], [*cuts, span[1]], strict=True)
        pieces = [self._without_joins(first, end) for first, end in bounds]
        return [piece for piece in pieces if piece[0] < piece[1]]

    def _without_joins(self, first: int, end: int) -> Span:
        while first < end - 1 and self._joins(self._clause.words[first]):
            if self._clause.fold_at(first + 1) in _JOINS:  # the "a" of "a and b"
                break
            first += 1
        while first < end - 1 and self._joins(self._clause.words[end - 1]):
            end -= 1
        return first, end

    def _joins(self, word: Word) -> bool:
        if word.quoted:
            return False
        return (
            word.mark or word.fold in _JOINS or word.fold in english.ARTICLES or self._is_own(word)
        )

    def _plain_at(self, at: int) -> str:
        return self._clause.fold_at(at)

    def _folded(self, span: Span) -> str:
        return "".join(word.fold for word in self._clause.words[span[0] : span[1]])

    def _use(self, span: Span) -> None:
        self.used.update(range(*span))


def _says_nothing(word: Word) -> bool:
    return word.mark or word.is_stop or (not word.quoted and word.fold in english.EVERY)


def joined(texts: Sequence[str]) -> str:
    """a, b and c."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
