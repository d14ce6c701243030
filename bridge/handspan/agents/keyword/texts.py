"""The texts of a clause: addresses, what stands after a key, items of a list, what is left."""

from collections.abc import Iterator
from typing import Any, Final

from . import english
from .leftover import Leftover
from .params import Param
from .sheet import HINT, KEYED, Sheet

Json = Any

_AFTER_KEYS: Final = frozenset(("is", "as"))
_INTRODUCING: Final = frozenset(("with", "and", "my", "whose", "by", ""))


class Texts:
    """Looks for them on a sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def look_for_addresses(self) -> None:
        for param in self._sheet.skill.params if self._sheet.clause.emails else ():
            if not param.wants_email or param.name in self._sheet.args:
                continue
            for at in self._sheet.clause.emails:
                if self._sheet.is_free((at, at + 1)):
                    self._sheet.args[param.name] = self._sheet.clause.words[at].text
                    self._sheet.evidence += KEYED
                    self._sheet.take((self._sheet.key_before(at, param), at + 1))
                    break

    def look_after_keys(self) -> None:
        for param in self._sheet.skill.params:
            if param.kind == "text" and not param.choices and param.name not in self._sheet.args:
                for first, end in self._sheet.mentions(param):
                    if self._is_key(first, end) and self._keyed_text(param, first, end):
                        break

    def look_for_lists(self) -> None:
        for param in self._sheet.skill.params:
            if (
                param.kind == "list"
                and param.item is not None
                and param.name not in self._sheet.args
            ):
                values = list(self._listed(param, param.item))
                if values:
                    self._sheet.args[param.name] = values
                    self._sheet.evidence += KEYED

    def with_leftover(self) -> list[dict[str, Json]]:
        """The arguments with what is left over as their texts; of several things, several."""
        wanted = [param for param in self._sheet.skill.texts if param.name not in self._sheet.args]
        if not wanted:
            return [self._sheet.args]
        leftover = Leftover(
            self._sheet.skill, self._sheet.clause, self._sheet.names, self._sheet.taken
        )
        needed = [param for param in wanted if param.required]
        if len(needed) > 1:
            self._several(needed, leftover)
            return [self._sheet.args]
        param = wanted[0]
        if not param.required and not leftover.is_introduced:
            return [self._sheet.args]
        values = leftover.values(exact=not self._sheet.skill.creates or param.names_a_thing)
        self._sheet.of_many = leftover.of_many
        self._sheet.is_nonsense = leftover.is_nonsense or self._is_misplaced(values)
        self._sheet.evidence += leftover.evidence
        self._sheet.taken |= leftover.used
        return [{**self._sheet.args, param.name: value} for value in values] or [self._sheet.args]

    def _is_misplaced(self, values: list[str]) -> bool:
        """Whether "put X in Y" is left whole: where it shall be put is no place that is known."""
        head = self._sheet.clause.head
        verb = "" if head is None else self._sheet.clause.words[head].stem
        if not self._sheet.skill.creates or self._sheet.has_choice or not values:
            return False
        if verb in self._sheet.skill.words or "move" not in english.verbs(verb):
            return False
        bare = {word.fold for word in self._sheet.clause.words if not word.quoted}
        within = {english.fold(word) for word in " ".join(values).split()[1:]}
        return bool(within & bare & english.PREPOSITIONS)

    def _is_key(self, first: int, end: int) -> bool:
        clause = self._sheet.clause
        if not self._sheet.is_free((first, end)) or end >= len(clause):
            return False
        if clause.mark_at(end) in (":", "=") or clause.fold_at(end) == "is":
            return True
        before = clause.fold_at(first - 1)
        introduced = before in _INTRODUCING or first - 1 in self._sheet.taken
        alone = english.stem(clause.fold_at(first)) not in self._sheet.skill.nouns
        return introduced or (alone and before not in english.ARTICLES)

    def _keyed_text(self, param: Param, first: int, end: int) -> bool:
        at = self._sheet.skip(end, _AFTER_KEYS)
        stop = self._value_end(at)
        if stop <= at:
            return False
        self._sheet.args[param.name] = self._exact(param, self._sheet.clause.text(at, stop))
        self._sheet.evidence += KEYED
        self._sheet.take((first, stop))
        return True

    def _value_end(self, at: int) -> int:
        """Where a value that begins here ends: at a mark, at what is taken, at the next key."""
        clause = self._sheet.clause
        if 0 <= at < len(clause) and clause.words[at].quoted:
            return at + 1
        keys = {
            start for param in self._sheet.skill.params for start, _ in self._sheet.mentions(param)
        }
        stop = at
        while stop < len(clause) and not clause.mark_at(stop) and stop not in self._sheet.taken:
            if stop > at and (stop in keys or stop == clause.marker or self._says_with(stop)):
                break
            stop += 1
        return Leftover(
            self._sheet.skill, clause, self._sheet.names, self._sheet.taken
        ).end_of_value(at, stop)

    def _says_with(self, at: int) -> bool:
        return self._sheet.clause.fold_at(at) == "with"

    def _exact(self, param: Param, text: str) -> str:
        if self._sheet.skill.keeps_wording and not param.names_a_thing:
            return text
        return self._sheet.names.spelled(text) or text

    def _listed(self, param: Param, item: Param) -> Iterator[Json]:
        clause = self._sheet.clause
        if item.choices:
            said = {item.by_fold[fold]: fold for fold in item.by_fold.keys() & clause.spans.keys()}
            for at, fold in sorted(said.items()):
                for span in clause.spans[fold]:
                    if self._sheet.is_free(span):
                        self._sheet.take(span)
                        yield item.choices[at]
        elif item.kind in ("integer", "number"):
            for at, number in clause.numbers.items():
                if self._sheet.is_free((at, at + 1)):
                    self._sheet.take((at, at + 1))
                    yield int(number) if item.kind == "integer" else number
        elif item.is_free:
            mentions = self._sheet.mentions(param)
            first = mentions[0][1] if mentions else (clause.head or 0) + 1
            leftover = Leftover(
                self._sheet.skill, clause, self._sheet.names, self._sheet.taken, first
            )
            if mentions or not self._sheet.skill.texts:
                yield from leftover.items()
                self._sheet.take((mentions[0][0] if mentions else first, len(clause)))

    def _several(self, params: list[Param], leftover: Leftover) -> None:
        for param, text in zip(params, leftover.parts(len(params)), strict=False):
            self._sheet.args[param.name] = self._exact(param, text)
            self._sheet.evidence += HINT
        self._sheet.taken |= leftover.used
