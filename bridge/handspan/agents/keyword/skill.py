"""What can be done: a tool, read for its words.

Owns the reading of a tool's name, title and description, and what a word says for it. Deliberately
knows nothing of messages.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from handspan_protocol.tools import Tool

from . import english
from .params import Param, Room, params_of, parts_of, properties_of, telling_words

Json = Any

TOOLS_MAX: Final = 512
"""Read of all that a run offers."""

_NAME, _TITLE, _DESCRIPTION = 3.0, 2.0, 1.0
_ALIKE, _NOUN_ALIKE, _WEAKLY = 0.8, 0.5, 0.5
"""What a verb that means alike says of that, another word, and one that may mean much."""


@dataclass(frozen=True)
class Skill:
    """A tool that is understood."""

    tool: Tool
    words: Mapping[str, float]
    """By stem: how much a word of the message speaks for it."""
    nouns: frozenset[str]
    """Stems of its name and title."""
    params: tuple[Param, ...]

    @property
    def name(self) -> str:
        return self.tool.name

    @cached_property
    def title(self) -> str:
        """What a human may be told of it."""
        spoken = (self.tool.title or "").strip() or " ".join(parts_of(self.name)) or self.name
        return spoken[:1].upper() + spoken[1:80]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The names of all it can be told, read or not."""
        return frozenset(name for name in properties_of(self.tool.parameters) if name)

    @cached_property
    def by_choice(self) -> Mapping[str, list[Param]]:
        """Which of its parameters a fold, a stem or a group of words is a choice of."""
        found: dict[str, list[Param]] = {}
        for param in self.params:
            for key in param.by_fold.keys() | param.by_hint.keys() if param.kind != "list" else ():
                found.setdefault(key, []).append(param)
        return found

    @cached_property
    def groups(self) -> Mapping[str, float]:
        """By group of words that mean alike: the same."""
        found: dict[str, float] = {}
        for stem, weight in self.words.items():
            for group in english.groups(stem):
                found[group] = max(found.get(group, 0.0), weight)
        return found

    @cached_property
    def verbs(self) -> frozenset[str]:
        """What it does, as groups of verbs; empty when its name and title do not say."""
        names, titles = parts_of(self.name), parts_of(self.tool.title or "")
        first = [english.stem(each[0]) for each in (names, titles) if each]
        found = frozenset[str]().union(*(english.verbs(stem) for stem in first))
        if found:
            return found
        return frozenset[str]().union(*(english.verbs(english.stem(n)) for n in names))

    @cached_property
    def leading(self) -> frozenset[str]:
        """The stems that its name and its title begin with."""
        each = (parts_of(self.name), parts_of(self.tool.title or ""))
        return frozenset(english.stem(parts[0]) for parts in each if parts)

    @property
    def creates(self) -> bool:
        """Whether what it is told is new."""
        return "add" in self.verbs

    @property
    def keeps_wording(self) -> bool:
        """Whether its text is the user's own, and need not be a thing that is there."""
        return bool(self.verbs & {"add", "search", "send", "draw", "save"})

    @property
    def takes_away(self) -> bool:
        """Whether it destroys something: then it has to be asked for in so many words."""
        return bool(self.leading & english.stems(("remove", "delete", "clear", "wipe", "reset")))

    @property
    def looks(self) -> bool:
        """Whether it only looks, and may answer a question."""
        return self.tool.read_only or bool(self.leading & english.LOOKING)

    @property
    def objects(self) -> frozenset[str]:
        """What it works on: the nouns of its name and title without its verbs."""
        return self.nouns - self.leading - english.EVERY_STEMS

    @cached_property
    def texts(self) -> tuple[Param, ...]:
        """What free text it takes, required ones first."""
        free = [param for param in self.params if param.is_free]
        return tuple(sorted(free, key=lambda param: not param.required))

    def weight(self, stem: str) -> float:
        """How much a word speaks for it; a word that means alike says a little less."""
        direct = self.words.get(stem, 0.0)
        alike = max((self.groups.get(group, 0.0) for group in english.groups(stem)), default=0.0)
        if stem in english.WEAK:
            return max(direct, alike * _WEAKLY)
        return max(direct, alike * (_ALIKE if english.verbs(stem) else _NOUN_ALIKE))


# ---- reading ---------------------------------------------------------------------------------


def skills_of(tools: Iterable[Tool]) -> tuple[Skill, ...]:
    """What can be done with these tools; a word that many of them have tells less."""
    room = Room()
    read = [_skill(tool, room) for tool in list(tools)[:TOOLS_MAX] if tool.name != "*"]
    having: dict[str, float] = {}
    for skill in read:
        for stem, weight in skill.words.items():
            having[stem] = having.get(stem, 0.0) + weight
    return tuple(replace(skill, words=_rarer(skill.words, having)) for skill in read)


def _rarer(words: Mapping[str, float], having: Mapping[str, float]) -> dict[str, float]:
    """The weights, each less the more other tools have the word too."""
    return {stem: weight / math.sqrt(having[stem] / weight) for stem, weight in words.items()}


def _skill(tool: Tool, room: Room) -> Skill:
    params = params_of(tool.parameters, room)
    names, titles = parts_of(tool.name), telling_words(tool.title or "")
    words: dict[str, float] = {}
    for weight, found in (
        (_NAME, names),
        (_TITLE, titles),
        (_DESCRIPTION, telling_words(tool.description[:1_000])),
        (_DESCRIPTION, [word for param in params for word in param.words]),
    ):
        for word in found:
            words.setdefault(english.stem(word), weight)
    nouns = english.stems([*names, *titles])
    return Skill(tool, words, nouns, params)
