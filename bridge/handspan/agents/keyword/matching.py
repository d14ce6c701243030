"""Which tool a clause means: the words that speak for each, weighed against each other.

Owns the score. A word of a tool's name says most, then its title, then its description; a choice
that stands in the clause says as much as a name. A verb that the tool does not know, and words that
it has no use for, speak against it.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from . import english
from .filling import Filled, filled
from .memory import Names
from .mood import ordered_verb
from .sheet import CHOICE
from .skill import Skill
from .tokens import Clause, Word

Json = Any

CONSIDERED: Final = 10
"""Tools weighed in full; the likeliest by their words alone."""

ENOUGH: Final = 2.0
"""The score of a tool that may be meant: less than one rare word of its name."""

_HEAD, _LATER_VERB = 1.5, 0.5
"""Times a word's weight: the verb a clause begins with, and one that comes later."""

_OTHER_VERB, _OTHER_VERB_CHOICE, _NO_VERB = 0.4, 0.6, 0.75
"""Times what speaks for a tool: when the verb is another's (words; values), or there is none."""

_EVERY, _LEFT, _LEFT_MAX, _MISSING = 1.5, 0.5, 2.0, 0.5
"""Added for "all"; taken off for each word left, at most, and for each value missing. The tables of
sentences in tests/agents are what these figures are chosen for.
"""

_KNOWN: Final = 1.0
"""What a known name says for any tool."""

_EVERY_STEM: Final = english.stem("every")


@dataclass(frozen=True, slots=True)
class Match:
    """A tool that a clause may mean."""

    skill: Skill
    filled: Filled
    score: float
    leaves: int
    """Words of the clause that it has no use for."""

    @property
    def is_complete(self) -> bool:
        return not self.filled.missing and not self.filled.problems

    def tells_as_much_as(self, pairs: Mapping[str, Json]) -> bool:
        """Whether it found all that keys and values, read to the letter, would say."""
        return not pairs or (self.is_complete and len(self.filled.args[0]) >= len(pairs))


class Matching:
    """Finds the tool that a clause means, among many; indexed by what may be said of each."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = skills
        self._weights: dict[str, list[tuple[int, float]]] = {}
        self._leading = frozenset[str]().union(*(skill.leading for skill in skills))
        self._verbs = frozenset[str]().union(*(skill.verbs for skill in skills))
        self._choices: dict[str, set[int]] = {}
        for at, skill in enumerate(skills):
            for said in _choices_of(skill):
                self._choices.setdefault(said, set()).add(at)
        self._names = Names()
        self._known: dict[tuple[int, int, int, bool], Match | None] = {}

    def best(self, clause: Clause, names: Names, *, looking: bool = False) -> Match | None:
        """The tool that is meant, if any; of equals the first; `looking`: of those that look."""
        if names is not self._names:
            self._names, self._known = names, {}
        words = clause.words
        key = (words[0].start, words[-1].start, len(words), looking)
        if key not in self._known:
            self._known[key] = self._weighed(clause, looking=looking)
        return self._known[key]

    def _weighed(self, clause: Clause, *, looking: bool) -> Match | None:
        likely = (skill for skill in self._likely(clause) if skill.looks or not looking)
        found = (match_of(clause, skill, self._names) for skill in likely)
        matches = [match for match in found if match is not None]
        best = max(matches, key=lambda match: match.score, default=None)
        return best if best is not None and best.score >= ENOUGH else None

    def begins_wish(self, clause: Clause) -> bool:
        """Whether the clause begins as a wish of its own would: with what some tool does."""
        return clause.head is not None and self.is_verb(clause.words[clause.head].stem)

    def is_verb(self, stem: str) -> bool:
        """Whether it says what some tool does."""
        return stem in self._leading or bool(english.verbs(stem) & self._verbs)

    def has_choice(self, clause: Clause) -> bool:
        """Whether something that some tool can be told stands in it."""
        return any(said in self._choices for said in _said(clause))

    def _likely(self, clause: Clause) -> list[Skill]:
        scores: dict[int, float] = {}
        for stem in clause.by_stem:
            for at, weight in self._weights_of(stem):
                scores[at] = scores.get(at, 0.0) + weight
        for said in _said(clause):
            for at in self._choices.get(said, ()):
                scores[at] = scores.get(at, 0.0) + CHOICE
        first = sorted(scores, key=lambda at: (-scores[at], at))[:CONSIDERED]
        return [self._skills[at] for at in sorted(first)]

    def _weights_of(self, stem: str) -> list[tuple[int, float]]:
        if stem not in self._weights:
            said = ((at, skill.weight(stem)) for at, skill in enumerate(self._skills))
            self._weights[stem] = [(at, weight) for at, weight in said if weight > 0]
        return self._weights[stem]


def match_of(clause: Clause, skill: Skill, names: Names) -> Match | None:
    """How well a clause fits a tool; None when it cannot be meant."""
    spoken = _spoken(clause, skill)
    fits = _fits_verb(clause, skill)
    if skill.takes_away and not fits:
        return None
    if _is_anothers_verb(clause, skill):
        return None
    told = filled(skill, clause, names)
    if told.is_nonsense:
        return None
    used = spoken.keys() | told.taken
    if skill.takes_away and not told.of_many and _names_more(clause, used, names):
        return None
    said = sum(spoken.values())
    other_verb = not fits and _has_verb(clause) and bool(skill.verbs)
    if skill.verbs and not fits:
        said *= _OTHER_VERB if other_verb else _NO_VERB
    evidence = told.evidence * (_OTHER_VERB_CHOICE if other_verb else 1.0)
    leaves = _left(clause, used)
    if _only_alike(clause, skill, spoken, told) and (leaves or told.args[0]):
        return None
    score = said + evidence - min(_LEFT * leaves, _LEFT_MAX) - _MISSING * len(told.missing)
    return Match(skill, told, score + _every(clause, skill, told, fits=fits), leaves)


def _choices_of(skill: Skill) -> set[str]:
    """The folds, stems and groups of words that are choices of its parameters."""
    found = set(skill.by_choice)
    for param in skill.params:
        found |= set(param.by_fold) if param.kind == "list" else set()
        found |= set(param.item.by_fold) if param.item is not None else set()
    return found


def _said(clause: Clause) -> list[str]:
    return [*clause.spans, *(key for key in clause.hinting if key not in clause.spans)]


def _spoken(clause: Clause, skill: Skill) -> dict[int, float]:
    """By place: how much each word says for the tool; a word said twice counts once."""
    found: dict[int, float] = {}
    seen: set[str] = set()
    end = len(clause) if clause.marker is None else clause.marker
    for at, word in enumerate(clause.words[:end]):
        if word.mark or word.is_stop or word.quoted or word.stem in seen:
            continue
        weight = skill.weight(word.stem)
        if weight > 0:
            seen.add(word.stem)
            found[at] = weight * _place(clause, at, skill)
    return found


def _place(clause: Clause, at: int, skill: Skill) -> float:
    stem = clause.words[at].stem
    is_verb = bool(english.verbs(stem)) and stem not in english.NEUTRAL
    if at == clause.head:
        return _HEAD if is_verb or stem in skill.leading else 1.0
    return _LATER_VERB if is_verb and stem not in skill.nouns else 1.0


def _has_verb(clause: Clause) -> bool:
    """Whether it begins with a verb that leaves no doubt."""
    stem = "" if clause.head is None else clause.words[clause.head].stem
    return stem not in english.WEAK and bool(english.verbs(stem))


def _fits_verb(clause: Clause, skill: Skill) -> bool:
    """Whether the clause's verb is one of the tool's; without one, any verb in it will do."""
    if clause.head is None:
        return False
    if _has_verb(clause):
        return skill.weight(clause.words[clause.head].stem) > 0
    words = (word for word in clause.words if word.stem and not word.is_stop)
    return any(english.verbs(word.stem) & skill.verbs for word in words)


def _is_anothers_verb(clause: Clause, skill: Skill) -> bool:
    """Whether its verb destroys, and the tool does not: "clear the form"; or does, and it looks."""
    head = None if clause.head is None else clause.words[clause.head]
    verb = ordered_verb(clause)
    foreign = head is not None and head.stem not in skill.words
    if head is not None and foreign and not skill.takes_away and _destroys(head):
        return True
    if verb is None or verb is not head or not skill.looks or skill.weight(verb.stem) > 0:
        return False
    groups = english.verbs(verb.stem)
    return bool(groups) and not groups & english.LOOKING_GROUPS


def _destroys(verb: Word) -> bool:
    return bool(english.verbs(verb.stem) & english.DESTROYING)


def _only_alike(clause: Clause, skill: Skill, spoken: Mapping[int, float], told: Filled) -> bool:
    """Whether a verb like the tool's is all that speaks for one that was told nothing it needs."""
    is_told = any(param.required for param in skill.params) and told.args[0]
    if is_told or told.evidence > _KNOWN:
        return False
    head = "" if clause.head is None else clause.words[clause.head].stem
    return spoken.keys() <= {clause.head} and head not in skill.words


def _names_more(clause: Clause, used: Set[int], names: Names) -> bool:
    """Whether it names something that the tool has no use for: "clear the done column"."""
    known = (names.things.keys() | names.words.keys()) & clause.spans.keys()
    spans = (span for fold in known for span in clause.spans[fold])
    return any(not used & set(range(*span)) for span in spans)


def _left(clause: Clause, used: Set[int]) -> int:
    return sum(
        1
        for at, word in enumerate(clause.words)
        if at not in used and at != clause.head and _tells(word.fold, word.stem, word.is_stop)
    )


def _tells(folded: str, stem: str, is_stop: bool) -> bool:
    dull = folded in english.CONTAINERS | english.PARTICLES | english.EVERY
    return bool(folded) and not is_stop and not dull and stem not in english.NEUTRAL


def _every(clause: Clause, skill: Skill, told: Filled, *, fits: bool) -> float:
    """What "all" says: for a tool that speaks of every one, against one that asks which."""
    if not any(not word.quoted and word.fold in english.EVERY for word in clause.words):
        return 0.0
    if told.missing:
        return 0.0 if skill.takes_away and told.of_many else -2 * _EVERY
    return _EVERY if fits and skill.weight(_EVERY_STEM) > 0 else 0.0
