"""Yes and no in a clause: "no newsletter", "in stock", "turn the lamp off"."""

from typing import Final

from . import english
from .params import Param
from .sheet import MENTION, Sheet, Span

_AFTER_KEYS: Final = frozenset(("is", "to"))


class Switches:
    """Looks for them on a sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def look(self) -> None:
        wanted = self._sheet.open_params("boolean")
        for param in wanted:
            if self._mentioned(param):
                continue
            if len(wanted) == 1 or english.YES & set(param.words):
                self._switched(param)

    def _mentioned(self, param: Param) -> bool:
        for first, after in self._meant(param):
            if not self._sheet.is_free((first, after)):
                continue
            said, end = self._said_after(after)
            self._sheet.args[param.name] = not self._negated(first) if said is None else said
            self._sheet.evidence += MENTION
            self._sheet.take((self._sheet.behind(first, english.AROUND), end))
            return True
        return False

    def _meant(self, param: Param) -> list[Span]:
        """Where it is named, by its name or by a word that means alike."""
        spans = self._sheet.mentions(param)
        telling = [word for word in param.words if word not in english.STOP]
        for word in telling:
            stem = english.stem(word)
            if not spans and english.LIKE.get(stem):
                spans += [(at, at + 1) for at in sorted(self._sheet.alike(stem))]
            elif not spans:
                spans += [(at, at + 1) for at in self._sheet.clause.by_stem.get(stem, ())]
        return [
            s for s in spans if self._sheet.clause.fold_at(s[0]) not in english.YES | english.NO
        ]

    def _said_after(self, at: int) -> tuple[bool | None, int]:
        at = self._sheet.skip(at, _AFTER_KEYS)
        said = self._sheet.clause.fold_at(at)
        if said in english.YES:
            return True, at + 1
        if said in english.NO:
            return False, at + 1
        return None, at

    def _negated(self, at: int) -> bool:
        before = {self._sheet.clause.fold_at(n) for n in range(max(0, at - 4), at + 1)}
        return bool(before & english.NEGATIONS)

    def _switched(self, param: Param) -> None:
        """on, off, enable: what a tool with one switch can only mean by it."""
        last = max((n for n, w in enumerate(self._sheet.clause.words) if not w.mark), default=-1)
        for at, word in enumerate(self._sheet.clause.words):
            if word.quoted or not self._sheet.is_free((at, at + 1)):
                continue
            if word.fold not in english.YES | english.NO:
                continue
            if word.fold == "on" and not self._is_switch(at, last):
                continue
            self._sheet.args[param.name] = word.fold in english.YES
            self._sheet.evidence += MENTION
            self._sheet.take((at, at + 1))
            return

    def _is_switch(self, at: int, last: int) -> bool:
        """Whether this "on" is no preposition: it ends the clause, or follows the verb."""
        before = self._sheet.clause.words[at - 1] if at else None
        after = self._sheet.clause.words[at + 1] if at + 1 <= last else None
        if before is not None and "set" in english.verbs(before.stem):
            return True
        return at == last or (after is not None and (after.mark or after.fold == "and"))
