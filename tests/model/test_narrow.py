"""Schemas as providers take them (C016, C021, C024, C029)."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.model.narrow import PLAIN_KEYWORDS, as_object, plain

Json = Any
X = {"type": "integer"}
Y = {"type": "string"}


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"type": "null"}, True])
def test_every_spelling_of_no_parameters_is_an_object_with_properties(schema: Json) -> None:
    assert as_object(schema) == {"type": "object", "properties": {}}
    assert plain(schema) == {"type": "object", "properties": {}}


def test_an_ordinary_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {**X, "exclusiveMinimum": 0}, "type": {"type": "array", "items": Y}},
        "required": ["x"],
        "additionalProperties": False,
        "$defs": {"n": X},
    }
    before = copy.deepcopy(schema)
    assert as_object(schema) == schema
    assert schema == before


UNIONS = {
    "any of": (
        {"anyOf": [{"properties": {"x": X}, "required": ["x"]}, {"properties": {"y": Y}}]},
        {"properties": {"x": X, "y": Y}},
    ),
    "one of, with one that all demand": (
        {
            "oneOf": [
                {"properties": {"x": X, "y": Y}, "required": ["x", "y"]},
                {"properties": {"x": X}, "required": ["x"]},
            ]
        },
        {"properties": {"x": X, "y": Y}, "required": ["x"]},
    ),
    "all of": (
        {
            "properties": {"z": X},
            "required": ["z"],
            "allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": Y}, "required": ["y"]}],
            "$defs": {"a": {"properties": {"x": X}, "required": ["x"]}},
        },
        {
            "properties": {"z": X, "x": X, "y": Y},
            "required": ["z", "x", "y"],
            "$defs": {"a": {"properties": {"x": X}, "required": ["x"]}},
        },
    ),
    "a reference at the top": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": X}, "required": ["x"]}}},
        {
            "properties": {"x": X},
            "required": ["x"],
            "$defs": {"a": {"properties": {"x": X}, "required": ["x"]}},
        },
    ),
}


@pytest.mark.parametrize(("schema", "shown"), UNIONS.values(), ids=UNIONS.keys())
def test_a_union_at_the_top_becomes_one_object(schema: Json, shown: Json) -> None:
    assert as_object(schema) == {"type": "object", **shown}


def test_an_array_that_does_not_say_of_what_is_of_anything() -> None:
    schema = {"properties": {"a": {"type": "array"}, "b": {"enum": [{"type": "array"}]}}}
    shown = as_object(schema)["properties"]
    assert shown == {"a": {"type": "array", "items": {}}, "b": {"enum": [{"type": "array"}]}}


def test_what_not_all_know_is_left_out_or_said_otherwise() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "kind": {"const": "a"},
            "n": {"type": "number", "exclusiveMinimum": 0, "minimum": -1},
            "maybe": {"type": ["string", "null"]},
            "either": {"type": ["string", "integer"]},
            "one": {"oneOf": [X, Y]},
            "at": {"$ref": "#/$defs/a~1b", "description": "where"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}},
            "gone": {"$ref": "#/$defs/none"},
        },
        "propertyNames": {"pattern": "^x"},
        "additionalProperties": False,
        "$defs": {"a/b": {"type": "object", "properties": {"x": X}}},
    }
    at = {"type": "object", "properties": {"x": X}}
    assert plain(schema) == {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a"]},
            "n": {"type": "number", "minimum": -1},
            "maybe": {"type": "string", "nullable": True},
            "either": {"anyOf": [Y, X]},
            "one": {"anyOf": [X, Y]},
            "at": {**at, "description": "where"},
            "list": {"type": "array", "items": at},
            "gone": {},
        },
    }


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert plain(tree)["properties"]["child"]["properties"]
    looped = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert as_object(looped)["properties"] == {}
    assert plain(looped) == {"type": "object", "properties": {}}


def keywords(schema: Json) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    own = set(schema)
    for key, value in schema.items():
        if key == "properties":
            own |= set().union(*map(keywords, value.values())) if value else set()
        elif key not in ("enum", "default"):
            own |= keywords(value)
    return own


LEAVES = st.sampled_from([X, Y, {"type": ["string", "null"]}, {"const": 1}, {"minimum": 1}, True])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("xyz"), inner)})
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)})
        | st.fixed_dictionaries({"not": inner, "propertyNames": inner})
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_p11_a_narrowed_schema_is_a_schema_and_the_one_it_came_from_is_untouched(
    schema: Json,
) -> None:
    before = copy.deepcopy(schema)
    for narrowed in (as_object(schema), plain(schema)):
        jsonschema.Draft202012Validator.check_schema(narrowed)
        assert narrowed["type"] == "object"
        assert isinstance(narrowed["properties"], dict)
    assert keywords(plain(schema)) <= PLAIN_KEYWORDS
    assert schema == before
