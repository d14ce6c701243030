"""What a tool has to be told, read from its schema.

Owns the reading of parameters, which is total, whatever the schema, and bounded for all the tools
of a page together. Deliberately knows nothing of messages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final, Literal

from . import english

Json = Any
Kind = Literal["text", "integer", "number", "boolean", "list", "other"]

PARAMS_MAX: Final = 64
"""Of one tool."""

ALL_PARAMS_MAX: Final = 512
ALL_CHOICES_MAX: Final = 2_000
"""Of all tools together, those of the first tools first; what is beyond can be called by name."""

_HOPS: Final = 8
"""References followed, and alternatives entered, before a schema counts as anything."""

_KINDS: Final[dict[str, Kind]] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
}
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_WORDS: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SAID_CHARS: Final = 200
"""A longer choice is none that anybody says."""

_LIKE_AN_ID: Final = frozenset(("id", "sku", "code", "key", "ref", "slug"))


@dataclass(frozen=True)
class Param:
    """One thing that a tool can be told."""

    name: str
    kind: Kind = "text"
    words: tuple[str, ...] = ()
    """Its name, folded word for word."""
    choices: tuple[Json, ...] = ()
    hints: tuple[frozenset[str], ...] = ()
    """For each choice: the stems of its words that no other choice has."""
    required: bool = False
    low: float | None = None
    high: float | None = None
    format: str = ""
    unit: float | None = None
    """In seconds, the unit of time that its name or description speaks of."""
    unsaid: tuple[Json, ...] = ()
    """Some of what it may be and nobody can say in words."""
    item: "Param | None" = None
    """What a list holds."""

    @cached_property
    def key(self) -> str:
        return "".join(self.words)

    @cached_property
    def by_fold(self) -> Mapping[str, int]:
        """Which choice is spelled so."""
        return {english.fold(str(self.choices[n])): n for n in reversed(range(len(self.choices)))}

    @cached_property
    def by_hint(self) -> Mapping[str, list[int]]:
        """Which choices a stem hints at; or, behind "~", a group of words that mean alike."""
        found: dict[str, list[int]] = {}
        for n, hints in enumerate(self.hints):
            for stem in hints:
                for key in (stem, *english.like(stem)):
                    found.setdefault(key, []).append(n)
        return found

    @property
    def said(self) -> str:
        """Its name, as it is told to a human."""
        return " ".join(self.words) or self.name

    @property
    def is_free(self) -> bool:
        """Whether any text will do."""
        return self.kind == "text" and not self.choices and not self.wants_email

    @property
    def wants_email(self) -> bool:
        return self.kind == "text" and (
            self.format == "email" or bool({"email", "mail"} & set(self.words))
        )

    @property
    def names_a_thing(self) -> bool:
        """Whether it is an identifier, whose spelling matters."""
        return bool(_LIKE_AN_ID & set(self.words))


# ---- reading ---------------------------------------------------------------------------------


class Room:
    """What may still be read of all the tools."""

    def __init__(self) -> None:
        self._params = ALL_PARAMS_MAX
        self._choices = ALL_CHOICES_MAX

    def for_params(self, wanted: int) -> int:
        """How many of so many parameters are read."""
        given = min(wanted, PARAMS_MAX, self._params)
        self._params -= given
        return given

    def chosen(self, choices: Iterator[Json]) -> tuple[Json, ...]:
        """Those of the choices that are read."""
        given = tuple(islice(choices, self._choices))
        self._choices -= len(given)
        return given


def parts_of(name: str) -> list[str]:
    """The folded words of a name, however they are joined: set_theme, setTheme, "Set theme"."""
    return [part.casefold() for part in _PARTS.findall(name[:200])]


def telling_words(text: str) -> list[str]:
    folded = (english.fold(word) for word in _WORDS.findall(text))
    return [word for word in folded if word not in english.STOP]


def properties_of(schema: Json) -> Mapping[str, Json]:
    """The schemas of an object's properties, by name."""
    root = schema if isinstance(schema, Mapping) else {}
    properties = _resolved(root, root).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def params_of(schema: Json, room: Room) -> tuple[Param, ...]:
    root = schema if isinstance(schema, Mapping) else {}
    properties = properties_of(root)
    required = _resolved(root, root).get("required")
    needed = required if isinstance(required, Sequence) else ()
    return tuple(
        _param(name, inner, root, room, required=name in needed)
        for name, inner in list(properties.items())[: room.for_params(len(properties))]
        if isinstance(name, str)
    )


def _param(
    name: str, schema: Json, root: Mapping[str, Json], room: Room, *, required: bool
) -> Param:
    whole = _resolved(schema, root)
    kind, choices = _kind_and_choices(whole, room)
    return Param(
        name=name,
        kind=kind,
        words=tuple(parts_of(name)),
        choices=choices,
        hints=_hints(choices),
        required=required,
        low=_bound(whole, "minimum", "exclusiveMinimum"),
        high=_bound(whole, "maximum", "exclusiveMaximum"),
        format=_text(whole.get("format")),
        unit=_unit([*parts_of(name), *telling_words(_text(whole.get("description"))[:200])]),
        unsaid=tuple(islice(_choices(whole) or (), 1)) if kind == "other" else (),
        item=_item(whole.get("items"), root, room) if kind == "list" else None,
    )


def _item(schema: Json, root: Mapping[str, Json], room: Room) -> Param:
    kind, choices = _kind_and_choices(_resolved(schema, root), room)
    return Param(name="", kind=kind if kind != "list" else "other", choices=choices)


def _kind_and_choices(schema: Mapping[str, Json], room: Room) -> tuple[Kind, tuple[Json, ...]]:
    """What it holds; of choices that cannot be said in words it is "other", or a yes or no."""
    given = _choices(schema)
    if given is None:
        return _kind(schema), ()
    if given and all(isinstance(value, bool) for value in given):
        return ("boolean" if len(given) > 1 else "other"), ()
    choices = room.chosen(value for value in given if _can_be_said(value))
    kind = _kind(schema)
    return (kind if choices and kind != "other" else "text" if choices else "other"), choices


def _resolved(schema: Json, root: Mapping[str, Json]) -> Mapping[str, Json]:
    """A schema with local references followed and the first alternative that is not null."""
    whole: dict[str, Json] = {}
    for _ in range(_HOPS):
        if not isinstance(schema, Mapping):
            break
        for key, value in schema.items():
            whole.setdefault(key, value)
        schema = _next(schema, root)
    return whole


def _next(schema: Mapping[str, Json], root: Mapping[str, Json]) -> Json:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        return _at(root, reference)
    for key in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(key)
        if isinstance(alternatives, list):
            return next((each for each in alternatives if not _is_null(each)), None)
    return None


def _at(root: Mapping[str, Json], reference: str) -> Json:
    here: Json = root
    for part in reference[2:].split("/")[:20]:
        key = part.replace("~1", "/").replace("~0", "~")
        here = here.get(key) if isinstance(here, Mapping) else None
    return here


def _is_null(schema: Json) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _choices(schema: Mapping[str, Json]) -> list[Json] | None:
    """What it may be, if that is told."""
    found = schema.get("enum")
    if isinstance(found, list):
        return found
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(alternatives, list):
        return [schema["const"]] if "const" in schema else None
    consts = [
        each["const"] for each in alternatives if isinstance(each, Mapping) and "const" in each
    ]
    return consts or None


def _hints(choices: tuple[Json, ...]) -> tuple[frozenset[str], ...]:
    each = [english.stems(set(parts_of(str(choice))) - english.STOP) for choice in choices]
    having = Counter(stem for words in each for stem in words)
    return tuple(frozenset(s for s in words if having[s] == 1 and len(s) > 2) for words in each)


def _can_be_said(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= _SAID_CHARS and any(c.isalnum() for c in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(schema: Mapping[str, Json]) -> Kind:
    said = schema.get("type")
    kinds = said if isinstance(said, list) else [said]
    for kind in kinds:
        if isinstance(kind, str) and kind in _KINDS:
            return _KINDS[kind]
    return "text" if said is None and "properties" not in schema else "other"


def _unit(words: Iterable[str]) -> float | None:
    found = {english.UNITS[word] for word in words if word in english.UNITS}
    return found.pop() if len(found) == 1 else None


def _bound(schema: Mapping[str, Json], *keys: str) -> float | None:
    for key in keys:
        value = schema.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
