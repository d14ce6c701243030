"""A choice that stands in a clause: "to done", "in the doing column", "make it dark"."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from . import english
from .params import Param
from .sheet import CHOICE, HINT, MENTION, Sheet, Span

Json = Any


_TOLD_AWAY: Final = frozenset(("not", "dont", "without", "out", "less"))


class Choices:
    """Looks for them on a sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def look(self) -> None:
        """Those parameters only that something in the clause is a choice of."""
        clause = self._sheet.clause
        found = self._sheet.skill.by_choice
        keys = found.keys() & (clause.spans.keys() | clause.hinting.keys())
        said = {param.name for key in keys for param in found[key]}
        for param in self._sheet.skill.params:
            if param.name in said:
                self._choice(param)
            if self._is_toggled(param):
                self._toggle(param)

    def _is_toggled(self, param: Param) -> bool:
        """Whether the other of two is meant: "toggle dark mode", "switch the theme"."""
        clause = self._sheet.clause
        verb = "" if clause.head is None else clause.fold_at(clause.head)
        if len(param.choices) != 2 or verb not in english.TOGGLING:
            return False
        return verb != "switch" or (param.name not in self._sheet.args and param.required)

    def _toggle(self, param: Param) -> None:
        """The choice that is not what the page, or the last call, says; none if neither does."""
        self._sheet.args.pop(param.name, None)
        now = param.by_fold.get(english.fold(str(self._sheet.names.states.get(param.key, ""))))
        if now is not None:
            self._sheet.args[param.name] = param.choices[1 - now]

    def _choice(self, param: Param) -> None:
        found = [each for each in self._chosen(param) if self._sheet.is_free(each[0])]
        found = [each for each in found if not self._is_left(each[0], param)]
        found = [each for each in found if not self._inside(each[0], [other[0] for other in found])]
        if not found:
            return
        span, choice, sure = max(found, key=lambda each: self._rank(param, *each))
        said = self._sheet.clause.words[span[0] : span[1]]
        preposition = self._preposition(span, param)
        telling = preposition is not None or not all(word.is_stop for word in said)
        self._sheet.args[param.name] = self._unless_negated(param, span, choice)
        self._sheet.evidence += (CHOICE if sure else MENTION) if telling else 2 * HINT
        self._sheet.has_choice = self._sheet.has_choice or telling
        self._sheet.take(self._with_glue(span, param))

    def _unless_negated(self, param: Param, span: Span, choice: Json) -> Json:
        """The choice; the other of two when it is told away ("turn off dark mode")."""
        clause = self._sheet.clause
        first, end = self._with_glue(span, param)
        near = {clause.fold_at(n) for n in (first - 2, first - 1, first, end)}
        if len(param.choices) == 2 and near & (english.NO | _TOLD_AWAY):
            return next(each for each in param.choices if each != choice)
        return choice

    def _chosen(self, param: Param) -> Iterator[tuple[Span, Json, bool]]:
        """Where a choice stands, which, and whether to the letter."""
        clause = self._sheet.clause
        sure = {param.by_fold[fold]: fold for fold in param.by_fold.keys() & clause.spans.keys()}
        hinted: dict[int, set[int]] = {}
        for key in param.by_hint.keys() & clause.hinting.keys():
            for choice in param.by_hint[key]:
                hinted.setdefault(choice, set()).update(clause.hinting[key])
        for choice in sorted(sure.keys() | hinted.keys()):
            if choice in sure:
                for span in clause.spans[sure[choice]]:
                    yield span, param.choices[choice], True
            else:
                for at in sorted(hinted[choice]):
                    yield (at, at + 1), param.choices[choice], False

    def _rank(self, param: Param, span: Span, choice: Json, sure: bool) -> tuple[int, int, int]:
        preposition = self._preposition(span, param)
        comes_from = bool({"from", "source"} & set(param.words))
        fits = 1 if preposition is None else 2
        if preposition in english.FROM:
            fits = 3 if comes_from else 0
        elif preposition is not None and comes_from:
            fits = 0
        return int(sure), fits, -span[0] if comes_from else span[0]

    def _is_left(self, span: Span, param: Param) -> bool:
        """Whether it is where something is moved from, and the tool asks where to."""
        if not self._sheet.skill.verbs & {"move", "add"} or {"from", "source"} & set(param.words):
            return False
        at = self._before(span[0], param)
        said = self._sheet.clause.fold_at(at)
        return said == "from" or (said == "of" and self._sheet.clause.fold_at(at - 1) == "out")

    def _preposition(self, span: Span, param: Param) -> str | None:
        at = self._before(span[0], param)
        said = self._sheet.clause.fold_at(at)
        return said if said in english.PREPOSITIONS else None

    def _before(self, at: int, param: Param) -> int:
        """The place before a value's articles and its parameter's name."""
        at -= 1
        while (said := self._sheet.clause.fold_at(at)) and (
            said in english.ARTICLES or said in param.words
        ):
            at -= 1
        return at

    def _with_glue(self, span: Span, param: Param) -> Span:
        """The span with the preposition before it and what it is called after it."""
        first, end = span
        before = self._before(first, param)
        if self._sheet.clause.fold_at(before) in english.PREPOSITIONS:
            first = before
        elif before < first - 1:
            first = before + 1
        if self._sheet.clause.mark_at(first - 1) in ("=", ":"):
            first = self._before(first - 1, param) + 1
        while (said := self._sheet.clause.fold_at(end)) and (
            said in param.words or said in english.CONTAINERS
        ):
            end += 1
        return first, end

    def _inside(self, span: Span, others: list[Span]) -> bool:
        """Whether it is only a part of something longer: another choice, or a known name."""
        return any(_covers(other, span) for other in [*others, *self._known_spans])

    @cached_property
    def _known_spans(self) -> list[Span]:
        if self._sheet.skill.creates:
            return []
        spans = self._sheet.clause.spans
        known = self._sheet.names.things.keys() & spans.keys()
        return [span for fold in known for span in spans[fold]]


def _covers(longer: Span, span: Span) -> bool:
    return longer != span and longer[0] <= span[0] and span[1] <= longer[1]
