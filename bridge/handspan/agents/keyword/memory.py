"""What has a name here: the texts a page tells of itself, and what was named last.

Owns the finding of names in a run's context and history; stateless, all of it is read anew.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

from handspan_protocol.errors import PeerError
from handspan_protocol.strict_json import parse_json

from . import english
from .skill import Skill

Json = Any

NAMES_MAX: Final = 2_000
"""Texts of the context that are looked at."""

NAME_CHARS: Final = 200
"""A longer text is no name."""

MESSAGES_MAX: Final = 100
"""Of the history, from its end."""


@dataclass(frozen=True)
class Names:
    """What the user may name; folds to the exact spelling."""

    things: Mapping[str, str] = field(default_factory=dict)
    """Texts of the page's context: what is there."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Other exact spellings: keys of the context, choices of the tools."""
    last: tuple[str, ...] = ()
    """What "it" and "them" are: the last things named."""
    states: Mapping[str, Json] = field(default_factory=dict)
    """By fold of a key: the short text that stands there now, or was told to a tool last."""
    shown: bool = False
    """Whether the page itself tells what is there."""

    def spelled(self, text: str) -> str | None:
        """The exact spelling of a text that is a known name."""
        folded = english.fold(text)
        return self.things.get(folded) or self.words.get(folded)

    def containing(self, stems: frozenset[str]) -> str | None:
        """The one thing whose name has all these words."""
        found = [name for name, words in self._stems if stems <= words]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _stems(self) -> list[tuple[str, frozenset[str]]]:
        names = self.things.values()
        return [(name, english.stems(english.fold(w) for w in name.split())) for name in names]

    def having_lost(self, texts: Sequence[str]) -> "Names":
        """These names without what was removed just now."""
        gone = {english.fold(text) for text in texts}
        things = {fold: text for fold, text in self.things.items() if fold not in gone}
        last = tuple(text for text in self.last if english.fold(text) not in gone)
        return replace(self, things=things, last=last)

    def having_named(self, texts: Sequence[str]) -> "Names":
        """These names with what was named just now, which is there from now on."""
        if not texts:
            return self
        now = {english.fold(text): text for text in texts}
        return replace(self, things={**self.things, **now}, last=tuple(texts))


def names_in(context: Iterable[Any], messages: Sequence[Any], skills: Sequence[Skill]) -> Names:
    """Everything that has a name in a run."""
    things: dict[str, str] = {}
    words: dict[str, str] = {}
    states = _told_last(messages)
    for item in context:
        for key, text, is_key in _texts(getattr(item, "value", None)):
            (words if is_key else things).setdefault(english.fold(text), text)
            if key:
                states[english.fold(key)] = text
    for skill in skills:
        for param in skill.params:
            for fold, at in param.by_fold.items():
                words.setdefault(fold, str(param.choices[at]))
    return Names(things, words, _last_named(messages, skills), states, shown=bool(things))


def _told_last(messages: Sequence[Any]) -> dict[str, Json]:
    """By fold of an argument's name: the last text that a call gave it."""
    calls = (
        call for m in messages[-MESSAGES_MAX:] for call in getattr(m, "tool_calls", None) or ()
    )
    given = (pair for call in calls for pair in arguments_of(call).items())
    return {english.fold(key): value for key, value in given if isinstance(value, str)}


def _texts(value: Json) -> Iterator[tuple[str, str, bool]]:
    """The short texts in a JSON value: its key, itself, whether it is a key; breadth first."""
    layer: deque[tuple[str, Json]] = deque([("", value)])
    for _ in range(NAMES_MAX):
        if not layer:
            return
        under, here = layer.popleft()
        if isinstance(here, str):
            if 0 < len(here) <= NAME_CHARS:
                yield under, here, False
        elif isinstance(here, Mapping):
            keys = [key for key in islice(here, NAMES_MAX) if len(key) <= NAME_CHARS]
            yield from (("", key, True) for key in keys)
            layer.extend((key, here[key]) for key in keys[: NAMES_MAX - len(layer)])
        elif isinstance(here, list | tuple):
            layer.extend(("", each) for each in here[: max(0, NAMES_MAX - len(layer))])


def _last_named(messages: Sequence[Any], skills: Sequence[Skill]) -> tuple[str, ...]:
    """The things that the newest message with such calls named, without those removed since."""
    by_name = {skill.name: skill for skill in skills}
    worked: set[str] = set()
    gone: set[str] = set()
    for message in reversed(messages[-MESSAGES_MAX:]):
        if getattr(message, "role", "") == "tool" and _is_ok(message):
            worked.add(message.tool_call_id)
        named: list[str] = []
        for call in reversed(getattr(message, "tool_calls", None) or ()):
            texts = _named_by(call, by_name)
            skill = by_name.get(call.function.name)
            if skill is not None and skill.takes_away and call.id in worked:
                gone.update(english.fold(text) for text in texts)
            named += [text for text in texts if english.fold(text) not in gone]
        if named:
            return tuple(dict.fromkeys(reversed(named)))
    return ()


def _is_ok(message: Any) -> bool:
    told = (getattr(message, "metadata", None) or {}).get("handspan")
    return isinstance(told, Mapping) and told.get("outcome") == "ok"


def _named_by(call: Any, by_name: Mapping[str, Skill]) -> list[str]:
    skill = by_name.get(call.function.name)
    return things_named(skill, arguments_of(call)) if skill else []


def arguments_of(call: Any) -> dict[str, Json]:
    """The arguments of a tool call of the history; none if they are no object."""
    try:
        args = parse_json(call.function.arguments or "{}")
    except PeerError:
        return {}
    return args if isinstance(args, dict) else {}


def things_named(skill: Skill, args: Mapping[str, Json]) -> list[str]:
    """The thing that a call is about: its first free text."""
    for param in skill.texts:
        value = args.get(param.name)
        if isinstance(value, str) and value:
            return [value]
    return []
