"""Schemas as a provider takes them: always a copy, never more than is needed.

Providers want an object at the top, with `properties`, and refuse a union there, as they refuse an
array that does not say of what. Some know only a closed list of keywords and refuse the whole
request for one that is foreign: for these (`plain`) references are put in place, and what is not on
the list is left out. Narrowing changes what the model is shown, never what is checked: arguments
are held to the schema as it was registered.

Nothing is widened (no optional made required and nullable), so nothing has to be undone.
*Source:* cases C016, C021, C024, C029.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from handspan_protocol.content import copy_json

Json = Any
Schema = dict[str, Any]

UNIONS: Final = ("anyOf", "oneOf", "allOf")
_NOT_AT_THE_TOP: Final = (*UNIONS, "not", "enum", "const", "if", "then", "else", "$schema", "$id")

PLAIN_KEYWORDS: Final = frozenset(
    (
        *("type", "title", "description", "properties", "required", "items", "enum", "anyOf"),
        *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern"),
        *("format", "nullable", "default"),
    )
)
"""What the narrowest known list has. *Source:* OpenAPI 3.0's subset, as Gemini takes it."""

REFERENCES_DEEP: Final = 16
"""References put in place inside each other; a schema that refers to itself ends there, open."""


def as_object(schema: Json) -> Schema:
    """With an object at the top: the branches of a union there become one set of properties."""
    top = copy_json(schema) if isinstance(schema, Mapping) else {}
    merged = _merged(top, top, REFERENCES_DEEP)
    kept = {key: value for key, value in top.items() if key not in (*_NOT_AT_THE_TOP, "$ref")}
    whole: Schema = _with_items({**kept, **merged, "type": "object"})
    return whole


def plain(schema: Json) -> Schema:
    """With the keywords alone that every provider knows."""
    top = as_object(schema)
    narrowed: Schema = _plain(top, top, REFERENCES_DEEP)
    return {**narrowed, "type": "object", "properties": narrowed.get("properties", {})}


def _with_items(schema: Json) -> Json:
    """Arrays that do not say of what are of anything."""
    if isinstance(schema, list):
        return [_with_items(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: each if key in _DATA else _with_items(each) for key, each in schema.items()}
    if whole.get("type") == "array" and not whole.keys() & {"items", "prefixItems"}:
        whole["items"] = {}
    return whole


_DATA: Final = ("enum", "const", "default", "examples")
"""Keywords whose values are no schemas."""


# ---- the top ---------------------------------------------------------------------------------


def _merged(schema: Schema, root: Schema, deep: int) -> Schema:
    """`properties` and `required` of a schema with those of its branches: what all demand of a
    union's, what any demands of `allOf`'s."""
    properties: Schema = dict(schema.get("properties") or {})
    required = dict.fromkeys(schema.get("required") or ())
    for branch in [_target(schema, root)] if "$ref" in schema else []:
        _take(_merged(branch, root, deep - 1) if deep else {}, properties, required)
    for branch in schema.get("allOf") or ():
        _take(_branch(branch, root, deep), properties, required)
    for union in ("anyOf", "oneOf"):
        branches = [_branch(branch, root, deep) for branch in schema.get(union) or ()]
        for branch in branches:
            _take({"properties": branch["properties"]}, properties, required)
        if branches:
            common = set.intersection(*(set(b.get("required", ())) for b in branches))
            required |= dict.fromkeys(sorted(common))
    merged: Schema = {"properties": properties}
    return {**merged, "required": list(required)} if required else merged


def _branch(branch: Json, root: Schema, deep: int) -> Schema:
    if not isinstance(branch, Mapping) or not deep:
        return {"properties": {}}
    return _merged(dict(branch), root, deep - 1)


def _take(branch: Schema, properties: Schema, required: dict[str, None]) -> None:
    for name, schema in (branch.get("properties") or {}).items():
        properties.setdefault(name, schema)
    required.update(dict.fromkeys(branch.get("required") or ()))


# ---- the closed list -------------------------------------------------------------------------


def _plain(schema: Json, root: Schema, deep: int) -> Schema:
    if not isinstance(schema, Mapping) or not deep:
        return {}
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**_target(schema, root), **beside}, root, deep - 1)
    return {
        key: _PARTS.get(key, _as_it_is)(value, root, deep)
        for key, value in _respelled(schema).items()
        if key in PLAIN_KEYWORDS
    }


def _respelled(schema: Mapping[str, Json]) -> Schema:
    """What the list has under another name."""
    said = dict(schema)
    if "const" in said:
        said["enum"] = [said.pop("const")]
    if "oneOf" in said:
        said.setdefault("anyOf", said.pop("oneOf"))
    if isinstance(said.get("type"), list):
        kinds = [kind for kind in said["type"] if kind != "null"]
        if len(kinds) < len(said["type"]):
            said["nullable"] = True
        if len(kinds) == 1:
            said["type"] = kinds[0]
        else:
            said["anyOf"] = [{"type": kind} for kind in kinds]
            del said["type"]
    return said


def _target(schema: Mapping[str, Json], root: Schema) -> Schema:
    """What a local reference means; what it cannot find means anything."""
    found: Json = root
    for step in str(schema["$ref"]).removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _as_it_is(value: Json, root: Schema, deep: int) -> Json:
    return value


def _each_named(value: Json, root: Schema, deep: int) -> Json:
    return {name: _plain(each, root, deep - 1) for name, each in value.items()}


def _each(value: Json, root: Schema, deep: int) -> Json:
    return [_plain(each, root, deep - 1) for each in value]


def _one(value: Json, root: Schema, deep: int) -> Json:
    return _plain(value, root, deep - 1)


_PARTS: Final[Mapping[str, Callable[[Json, Schema, int], Json]]] = {
    "properties": _each_named,
    "anyOf": _each,
    "items": _one,
}
