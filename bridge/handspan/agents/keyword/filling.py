"""From the words of a clause to the arguments of one tool.

Owns the order in which values are looked for, from what is certain (a choice, an address, a quoted
text) to what is left over; a word is taken once. Says how much speaks for the tool. It invents
nothing: what is not said stays away. Below sit `skill` and `tokens`; above sits `matching`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from . import english
from .leftover import Leftover
from .memory import Names
from .skill import Param, Skill
from .tokens import Clause

Json = Any
Span = tuple[int, int]

CHOICE, MENTION, KEYED, HINT = 3.0, 2.0, 1.5, 0.5
"""How much a found value speaks for a tool; a word of its name says 3."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What a clause tells a tool."""

    args: tuple[dict[str, Json], ...]
    """Of each call; more than one when several things were named."""
    missing: tuple[Param, ...]
    problems: tuple[str, ...]
    """What was said and cannot be."""
    evidence: float
    taken: frozenset[int]
    """The words that became values."""
    has_choice: bool


class Filling:
    """Reads one clause for one tool; used once."""

    def __init__(self, skill: Skill, clause: Clause, names: Names) -> None:
        self._skill = skill
        self._clause = clause
        self._names = names
        self._args: dict[str, Json] = {}
        self._taken: set[int] = set()
        self._evidence = 0.0
        self._problems: list[str] = []
        self._has_choice = False

    def filled(self) -> Filled:
        for look in (
            self._choices,
            self._addresses,
            self._keyed_numbers,
            self._booleans,
            self._keyed_texts,
            self._lists,
            self._loose_numbers,
        ):
            look()
        args = tuple(self._in_order(each) for each in self._with_texts())
        missing = tuple(p for p in self._skill.params if p.required and p.name not in args[0])
        return Filled(
            args,
            missing,
            tuple(self._problems),
            self._evidence,
            frozenset(self._taken),
            self._has_choice,
        )

    def _in_order(self, args: dict[str, Json]) -> dict[str, Json]:
        return {p.name: args[p.name] for p in self._skill.params if p.name in args}

    # ---- what is certain ---------------------------------------------------------------------

    def _choices(self) -> None:
        for param in self._skill.params:
            if param.choices and param.kind != "list":
                self._choice(param)

    def _choice(self, param: Param) -> None:
        found = [each for each in self._chosen(param) if self._is_free(each[0])]
        found = [each for each in found if not self._inside(each[0], [other[0] for other in found])]
        if not found:
            return
        span, choice, sure = max(found, key=lambda each: self._rank(param, *each))
        said = self._clause.words[span[0] : span[1]]
        preposition = self._preposition(span, param)
        telling = preposition is not None or not all(word.is_stop for word in said)
        self._args[param.name] = self._unless_negated(param, span, choice)
        self._evidence += (CHOICE if sure else MENTION) if telling else 2 * HINT
        self._has_choice = self._has_choice or telling
        self._take(self._with_glue(span, param))

    def _unless_negated(self, param: Param, span: Span, choice: Json) -> Json:
        """The choice; the other of two when it is told away ("turn off dark mode")."""
        clause = self._clause
        first, end = self._with_glue(span, param)
        near = {clause.fold_at(n) for n in (first - 2, first - 1, first, end)}
        if len(param.choices) == 2 and near & (english.NO | {"not", "dont", "without"}):
            return next(each for each in param.choices if each != choice)
        return choice

    def _chosen(self, param: Param) -> Iterator[tuple[Span, Json, bool]]:
        """Where a choice stands, which, and whether to the letter."""
        clause = self._clause
        for choice, hints in zip(param.choices, param.hints, strict=True):
            spans = clause.spans.get(english.fold(str(choice)), [])
            yield from ((span, choice, True) for span in spans)
            for stem in () if spans else hints:
                for at in self._alike(stem):
                    yield (at, at + 1), choice, False

    def _alike(self, stem: str) -> Iterator[int]:
        like = english.LIKE.get(stem, frozenset())
        for other, places in self._clause.by_stem.items():
            if other == stem or like & english.LIKE.get(other, frozenset()):
                yield from places

    def _rank(self, param: Param, span: Span, choice: Json, sure: bool) -> tuple[int, int, int]:
        preposition = self._preposition(span, param)
        comes_from = bool({"from", "source"} & set(param.words))
        fits = 1 if preposition is None else 2
        if preposition in english.FROM:
            fits = 3 if comes_from else 0
        elif preposition is not None and comes_from:
            fits = 0
        return int(sure), fits, -span[0] if comes_from else span[0]

    def _preposition(self, span: Span, param: Param) -> str | None:
        at = self._before(span[0], param)
        said = self._clause.fold_at(at)
        return said if said in english.PREPOSITIONS else None

    def _before(self, at: int, param: Param) -> int:
        """The place before a value's articles and its parameter's name."""
        at -= 1
        while (said := self._clause.fold_at(at)) and (
            said in english.ARTICLES or said in param.words
        ):
            at -= 1
        return at

    def _with_glue(self, span: Span, param: Param) -> Span:
        """The span with the preposition before it and what it is called after it."""
        first, end = span
        before = self._before(first, param)
        if self._clause.fold_at(before) in english.PREPOSITIONS:
            first = before
        elif before < first - 1:
            first = before + 1
        if self._clause.mark_at(first - 1) in ("=", ":"):
            first = self._before(first - 1, param) + 1
        while (said := self._clause.fold_at(end)) and (
            said in param.words or said in english.CONTAINERS
        ):
            end += 1
        return first, end

    def _inside(self, span: Span, others: list[Span]) -> bool:
        """Whether it is only a part of something longer: another choice, or a known name."""
        return any(_covers(other, span) for other in [*others, *self._known_spans])

    @cached_property
    def _known_spans(self) -> list[Span]:
        if self._skill.creates:
            return []
        spans = self._clause.spans
        known = self._names.things.keys() & spans.keys()
        return [span for fold in known for span in spans[fold]]

    def _addresses(self) -> None:
        for param in self._skill.params:
            if not param.wants_email or param.name in self._args:
                continue
            for at, word in enumerate(self._clause.words):
                if word.is_email and self._is_free((at, at + 1)):
                    self._args[param.name] = word.text
                    self._evidence += KEYED
                    self._take((self._key_before(at, param), at + 1))
                    break

    def _key_before(self, at: int, param: Param) -> int:
        """Where the key of a value begins, when one stands before it; else where the value does."""
        first = at
        while self._clause.mark_at(first - 1) in (":", "=") or self._clause.fold_at(first - 1) in (
            "is",
            "to",
            "of",
            "as",
            "at",
        ):
            first -= 1
        for start, end in self._mentions(param):
            if end == first:
                return start
        return at

    def _mentions(self, param: Param) -> list[Span]:
        """Where the parameter is called by its name."""
        clause = self._clause
        spans = list(clause.spans.get(param.key, ()))
        if len(param.words) == 1:
            at = clause.by_stem.get(english.stem(param.key), ())
            spans += [(n, n + 1) for n in at if (n, n + 1) not in spans]
        return [span for span in spans if not clause.words[span[0]].quoted]

    # ---- numbers -----------------------------------------------------------------------------

    def _numeric(self) -> list[Param]:
        wanted = [p for p in self._skill.params if p.kind in ("integer", "number")]
        return [p for p in wanted if p.name not in self._args and not p.choices]

    def _keyed_numbers(self) -> None:
        for param in self._numeric():
            for at in self._beside(param):
                number = self._number(at)
                if number is not None and self._is_free((at, at + 1)):
                    self._take_number(param, at, number)
                    self._evidence += KEYED
                    break

    def _beside(self, param: Param) -> Iterator[int]:
        """The places where a number would be this parameter's."""
        for first, end in self._mentions(param):
            yield first - 1
            at = end
            while self._clause.mark_at(at) in (":", "=") or self._clause.fold_at(at) in (
                "is",
                "to",
                "of",
                "at",
                "by",
            ):
                at += 1
            yield at
        hints = self._hints(param)
        for at, word in enumerate(self._clause.words):
            if not word.quoted and word.fold in hints:
                yield from (at + 1, at + 2)

    @staticmethod
    def _hints(param: Param) -> frozenset[str]:
        if {"max", "maximum", "limit", "below", "most"} & set(param.words):
            return english.AT_MOST
        if {"min", "minimum", "above", "least"} & set(param.words):
            return english.AT_LEAST
        return frozenset()

    def _number(self, at: int) -> float | int | None:
        return self._clause.words[at].number if 0 <= at < len(self._clause) else None

    def _take_number(self, param: Param, at: int, number: float | int) -> None:
        if param.kind == "integer" and number != int(number):
            self._problems.append(f"{param.said} must be a whole number")
        elif _outside(param, number):
            self._problems.append(f"{param.said} must be {_range(param)}")
        else:
            self._args[param.name] = int(number) if param.kind == "integer" else number
        first = self._key_before(at, param)
        if param.name in self._args:
            first = self._behind(first, self._hints(param) | {"than"})
        follows = [end for start, end in self._mentions(param) if start == at + 1]
        self._take((first, follows[0] if follows else at + 1))

    def _loose_numbers(self) -> None:
        """A number that nothing else is for."""
        has_text = any(param.name not in self._args for param in self._skill.texts)
        for param in self._numeric():
            if has_text and not (param.required or _counts(param)):
                continue
            for at, word in enumerate(self._clause.words):
                number = word.number
                if number is None or not self._is_free((at, at + 1)):
                    continue
                if has_text and (
                    _outside(param, number) or not (param.required or self._leads(at))
                ):
                    continue
                self._take_number(param, at, number)
                self._evidence += HINT
                break

    def _leads(self, at: int) -> bool:
        """Whether nothing but the verb stands before: "add 3 mugs", not "add mug 3"."""
        before = self._clause.words[at - 1] if at else None
        return before is None or at - 1 == self._clause.head or before.is_stop

    # ---- yes and no --------------------------------------------------------------------------

    def _booleans(self) -> None:
        wanted = [p for p in self._skill.params if p.kind == "boolean" and not p.choices]
        for param in wanted:
            if self._mentioned(param):
                continue
            if len(wanted) == 1 or english.YES & set(param.words):
                self._switched(param)

    def _mentioned(self, param: Param) -> bool:
        for first, after in self._meant(param):
            if not self._is_free((first, after)):
                continue
            said, end = self._said_after(after)
            self._args[param.name] = not self._negated(first) if said is None else said
            self._evidence += MENTION
            self._take((self._behind(first, english.AROUND), end))
            return True
        return False

    def _meant(self, param: Param) -> list[Span]:
        """Where it is named, by its name or by a word that means alike."""
        spans = self._mentions(param)
        telling = [word for word in param.words if word not in english.STOP]
        for word in telling:
            stem = english.stem(word)
            if not spans and english.LIKE.get(stem):
                spans += [(at, at + 1) for at in sorted(self._alike(stem))]
            elif not spans:
                spans += [(at, at + 1) for at in self._clause.by_stem.get(stem, ())]
        return [s for s in spans if self._clause.fold_at(s[0]) not in english.YES | english.NO]

    def _said_after(self, at: int) -> tuple[bool | None, int]:
        while self._clause.mark_at(at) in (":", "=") or self._clause.fold_at(at) in ("is", "to"):
            at += 1
        said = self._clause.fold_at(at)
        if said in english.YES:
            return True, at + 1
        if said in english.NO:
            return False, at + 1
        return None, at

    def _negated(self, at: int) -> bool:
        before = {self._clause.fold_at(n) for n in range(max(0, at - 4), at + 1)}
        return bool(before & english.NEGATIONS)

    def _switched(self, param: Param) -> None:
        """on, off, enable: what a tool with one switch can only mean by it."""
        last = max((n for n, w in enumerate(self._clause.words) if not w.mark), default=-1)
        for at, word in enumerate(self._clause.words):
            if word.quoted or not self._is_free((at, at + 1)):
                continue
            if word.fold not in english.YES | english.NO:
                continue
            if word.fold == "on" and not self._is_switch(at, last):
                continue
            self._args[param.name] = word.fold in english.YES
            self._evidence += MENTION
            self._take((at, at + 1))
            return

    def _is_switch(self, at: int, last: int) -> bool:
        """Whether this "on" is no preposition: it ends the clause, or follows the verb."""
        before = self._clause.words[at - 1] if at else None
        after = self._clause.words[at + 1] if at + 1 <= last else None
        if before is not None and "set" in english.verbs(before.stem):
            return True
        return at == last or (after is not None and (after.mark or after.fold == "and"))

    # ---- texts -------------------------------------------------------------------------------

    def _keyed_texts(self) -> None:
        for param in self._skill.params:
            if param.kind == "text" and not param.choices and param.name not in self._args:
                for first, end in self._mentions(param):
                    if self._is_key(first, end) and self._keyed_text(param, first, end):
                        break

    def _is_key(self, first: int, end: int) -> bool:
        clause = self._clause
        if not self._is_free((first, end)) or end >= len(clause):
            return False
        if clause.mark_at(end) in (":", "=") or clause.fold_at(end) == "is":
            return True
        before = clause.fold_at(first - 1)
        introduced = before in ("with", "and", "my", "whose", "by", "") or first - 1 in self._taken
        alone = english.stem(clause.fold_at(first)) not in self._skill.nouns
        return introduced or (alone and before not in english.ARTICLES)

    def _keyed_text(self, param: Param, first: int, end: int) -> bool:
        at = end
        while self._clause.mark_at(at) in (":", "=") or self._clause.fold_at(at) in ("is", "as"):
            at += 1
        stop = self._value_end(at)
        if stop <= at:
            return False
        self._args[param.name] = self._exact(param, self._clause.text(at, stop))
        self._evidence += KEYED
        self._take((first, stop))
        return True

    def _value_end(self, at: int) -> int:
        """Where a value that begins here ends: at a mark, at what is taken, at the next key."""
        clause = self._clause
        if 0 <= at < len(clause) and clause.words[at].quoted:
            return at + 1
        keys = {start for param in self._skill.params for start, _ in self._mentions(param)}
        stop = at
        while stop < len(clause) and not clause.mark_at(stop) and stop not in self._taken:
            if stop > at and (stop in keys or stop == clause.marker or self._says_with(stop)):
                break
            stop += 1
        return Leftover(self._skill, clause, self._names, self._taken).end_of_value(at, stop)

    def _says_with(self, at: int) -> bool:
        return self._clause.fold_at(at) == "with"

    def _exact(self, param: Param, text: str) -> str:
        if self._skill.keeps_wording and not param.names_a_thing:
            return text
        return self._names.spelled(text) or text

    def _lists(self) -> None:
        for param in self._skill.params:
            if param.kind == "list" and param.item is not None and param.name not in self._args:
                values = list(self._listed(param, param.item))
                if values:
                    self._args[param.name] = values
                    self._evidence += KEYED

    def _listed(self, param: Param, item: Param) -> Iterator[Json]:
        clause = self._clause
        if item.choices:
            for choice in item.choices:
                for span in clause.spans.get(english.fold(str(choice)), ()):
                    if self._is_free(span):
                        self._take(span)
                        yield choice
        elif item.kind in ("integer", "number"):
            for at, word in enumerate(clause.words):
                number = word.number
                if number is not None and self._is_free((at, at + 1)):
                    self._take((at, at + 1))
                    yield int(number) if item.kind == "integer" else number
        elif item.is_free:
            mentions = self._mentions(param)
            first = mentions[0][1] if mentions else (clause.head or 0) + 1
            leftover = Leftover(self._skill, clause, self._names, self._taken, first)
            if mentions or not self._skill.texts:
                yield from leftover.items()
                self._take((mentions[0][0] if mentions else first, len(clause)))

    def _with_texts(self) -> list[dict[str, Json]]:
        """The arguments with what is left over as their texts; of several things, several."""
        wanted = [param for param in self._skill.texts if param.name not in self._args]
        if not wanted:
            return [self._args]
        leftover = Leftover(self._skill, self._clause, self._names, self._taken)
        needed = [param for param in wanted if param.required]
        if len(needed) > 1:
            self._several(needed, leftover)
            return [self._args]
        param = wanted[0]
        if not param.required and not leftover.is_introduced:
            return [self._args]
        values = leftover.values(exact=not self._skill.creates or param.names_a_thing)
        self._evidence += leftover.evidence
        self._taken |= leftover.used
        return [{**self._args, param.name: value} for value in values] or [self._args]

    def _several(self, params: list[Param], leftover: Leftover) -> None:
        for param, text in zip(params, leftover.parts(len(params)), strict=False):
            self._args[param.name] = self._exact(param, text)
            self._evidence += HINT
        self._taken |= leftover.used

    # ---- places ------------------------------------------------------------------------------

    def _behind(self, at: int, words: frozenset[str]) -> int:
        """Where a row of such words begins that ends before this place; there must be one more."""
        first = at
        while first > 0 and self._clause.fold_at(first - 1) in words:
            first -= 1
        return first

    def _is_free(self, span: Span) -> bool:
        return not any(at in self._taken for at in range(*span))

    def _take(self, span: Span) -> None:
        self._taken.update(range(*span))


def _covers(longer: Span, span: Span) -> bool:
    return longer != span and longer[0] <= span[0] and span[1] <= longer[1]


def _outside(param: Param, number: float | int) -> bool:
    too_low = param.low is not None and number < param.low
    return too_low or (param.high is not None and number > param.high)


def _range(param: Param) -> str:
    if param.low is not None and param.high is not None:
        return f"from {param.low:g} to {param.high:g}"
    return f"at least {param.low:g}" if param.low is not None else f"at most {param.high:g}"


_COUNTS: Final = english.stems(("quantity", "count", "amount", "qty", "number", "copies", "times"))


def _counts(param: Param) -> bool:
    """Whether it says how many."""
    return bool(english.stems(param.words) & _COUNTS)
