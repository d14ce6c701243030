"""The numbers of a clause: "2 seats", "seats to 4", "under 50", and those nothing else is for."""

from collections.abc import Iterator
from typing import Final

from . import english
from .params import Param
from .sheet import HINT, KEYED, Sheet

_AFTER_KEYS: Final = frozenset(("is", "to", "of", "at", "by"))
_COUNTS: Final = english.stems(("quantity", "count", "amount", "qty", "number", "copies", "times"))


class Numbers:
    """Looks for them on a sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def look_beside_keys(self) -> None:
        """Numbers that stand beside a parameter's name."""
        for param in self._open_params():
            for at in self._beside(param):
                number = self._number(at)
                if number is not None and self._sheet.is_free((at, at + 1)):
                    self._take_number(param, at, number)
                    self._sheet.evidence += KEYED
                    break

    def look_for_loose(self) -> None:
        """Numbers that nothing else is for."""
        has_text = any(param.name not in self._sheet.args for param in self._sheet.skill.texts)
        for param in self._open_params():
            for at, number in self._sheet.clause.numbers.items():
                if not self._sheet.is_free((at, at + 1)):
                    continue
                if has_text and not self._is_meant(param, at, number):
                    continue
                self._take_number(param, at, number)
                self._sheet.evidence += HINT
                break

    def _open_params(self) -> list[Param]:
        """Those that a number may be for; none when there is no number."""
        return self._sheet.open_params("integer", "number") if self._sheet.clause.numbers else []

    def _is_meant(self, param: Param, at: int, number: float | int) -> bool:
        """Whether a number is for this parameter, where it may as well be a part of a text."""
        if _outside(param, number):
            return False
        return param.required or (_counts(param) and self._leads(at))

    def _leads(self, at: int) -> bool:
        """Whether nothing but the verb stands before: "add 3 mugs", not "add mug 3"."""
        before = self._sheet.clause.words[at - 1] if at else None
        return before is None or at - 1 == self._sheet.clause.head or before.is_stop

    def _beside(self, param: Param) -> Iterator[int]:
        """The places where a number would be this parameter's."""
        for first, end in self._sheet.mentions(param):
            yield first - 1
            yield self._sheet.skip(end, _AFTER_KEYS)
        hints = _hints(param)
        for at, word in enumerate(self._sheet.clause.words):
            if not word.quoted and word.fold in hints:
                yield from (at + 1, at + 2)

    def _number(self, at: int) -> float | int | None:
        return self._sheet.clause.numbers.get(at)

    def _take_number(self, param: Param, at: int, number: float | int) -> None:
        unit, after = self._unit(at)
        if unit is not None and param.unit is not None:
            number = round(number * unit / param.unit, 6)
        if param.kind == "integer" and number != int(number):
            self._sheet.problems.append(f"{param.said} must be a whole number")
        elif _outside(param, number):
            self._sheet.problems.append(f"{param.said} must be {_range(param)}")
        else:
            self._sheet.args[param.name] = int(number) if param.kind == "integer" else number
        first = self._sheet.key_before(at, param)
        if param.name in self._sheet.args:
            first = self._sheet.behind(first, _hints(param) | {"than"})
        follows = [end for start, end in self._sheet.mentions(param) if start == at + 1]
        self._sheet.take((first, follows[0] if follows else after))

    def _unit(self, at: int) -> tuple[float | None, int]:
        """In seconds, the unit of time that a number has, and the place after it."""
        clause = self._sheet.clause
        beside = english.UNITS.get(clause.fold_at(at + 1))
        if beside is not None:
            return beside, at + 2
        return english.UNITS.get(clause.fold_at(at).lstrip("0123456789")), at + 1


def _hints(param: Param) -> frozenset[str]:
    """The words before a number that make it this parameter's."""
    if {"max", "maximum", "limit", "below", "most"} & set(param.words):
        return english.AT_MOST
    if {"min", "minimum", "above", "least"} & set(param.words):
        return english.AT_LEAST
    return frozenset()


def _outside(param: Param, number: float | int) -> bool:
    too_low = param.low is not None and number < param.low
    return too_low or (param.high is not None and number > param.high)


def _range(param: Param) -> str:
    if param.low is not None and param.high is not None:
        return f"from {param.low:g} to {param.high:g}"
    return f"at least {param.low:g}" if param.low is not None else f"at most {param.high:g}"


def _counts(param: Param) -> bool:
    """Whether it says how many."""
    return bool(english.stems(param.words) & _COUNTS)
