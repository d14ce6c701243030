"""The drafts that are known, and which keywords of a schema hold schemas.

Everything not in these tables (`const`, `enum`, `default`, `examples`, unknown keywords) is data:
what looks like a reference in there is none. Keywords of a newer draft are read in an older one
too, where they mean nothing: that makes the guards stricter, never laxer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final


class Reach(Enum):
    """Which part of a value a schema below another one is applied to."""

    HERE = auto()
    """The same value."""
    PROPERTY = auto()
    """The property of that name."""
    MEMBERS = auto()
    """Any property, or any property's name."""
    ITEM = auto()
    """The item at that place."""
    ITEMS = auto()
    """Any item."""
    NOWHERE = auto()
    """Nothing, until somebody refers to it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A draft of JSON Schema."""

    name: str
    uri: str
    id_keyword: str = "$id"


DIALECTS: Final = (
    Dialect("2020-12", "https://json-schema.org/draft/2020-12/schema"),
    Dialect("2019-09", "https://json-schema.org/draft/2019-09/schema"),
    Dialect("draft-07", "http://json-schema.org/draft-07/schema#"),
    Dialect("draft-06", "http://json-schema.org/draft-06/schema#"),
    Dialect("draft-04", "http://json-schema.org/draft-04/schema#", id_keyword="id"),
)
DEFAULT_DIALECT: Final = DIALECTS[0]

_SPELLING: Final = re.compile(r"https?://(json-schema\.org/.+?/schema)#?")


def _spelled(uri: str) -> str:
    """Both schemes and an empty fragment name the same draft; people write all four."""
    found = _SPELLING.fullmatch(uri)
    return found[1] if found else uri


_BY_SPELLING: Final = {_spelled(dialect.uri): dialect for dialect in DIALECTS}


def dialect_named(uri: Any) -> Dialect | None:
    """The draft that `$schema` names, if it is a known one."""
    return _BY_SPELLING.get(_spelled(uri)) if isinstance(uri, str) else None


_ONE: Final = {
    "additionalProperties": Reach.MEMBERS,
    "unevaluatedProperties": Reach.MEMBERS,
    "propertyNames": Reach.MEMBERS,
    "items": Reach.ITEMS,
    "additionalItems": Reach.ITEMS,
    "unevaluatedItems": Reach.ITEMS,
    "contains": Reach.ITEMS,
    "not": Reach.HERE,
    "if": Reach.HERE,
    "then": Reach.HERE,
    "else": Reach.HERE,
    "contentSchema": Reach.NOWHERE,
}
_LIST: Final = {
    "allOf": Reach.HERE,
    "anyOf": Reach.HERE,
    "oneOf": Reach.HERE,
    "prefixItems": Reach.ITEM,
    "items": Reach.ITEM,
}
_MAP: Final = {
    "properties": Reach.PROPERTY,
    "patternProperties": Reach.MEMBERS,
    "dependentSchemas": Reach.HERE,
    "dependencies": Reach.HERE,
    "$defs": Reach.NOWHERE,
    "definitions": Reach.NOWHERE,
}

Key = str | int | None
"""A property's name, an item's place, or nothing where a keyword holds one schema."""


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Reach, Key, Any]]:
    """Each schema directly below: its keyword, what it is applied to, its key there, itself."""
    for keyword, value in schema.items():
        if isinstance(value, list) and keyword in _LIST:
            for place, item in enumerate(value):
                yield keyword, _LIST[keyword], place, item
        elif isinstance(value, dict) and keyword in _MAP:
            for name, item in value.items():
                if not isinstance(item, list):  # a list in `dependencies` names properties
                    yield keyword, _MAP[keyword], name, item
        elif keyword in _ONE:
            yield keyword, _ONE[keyword], None, value
