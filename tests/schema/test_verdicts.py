"""P3, P11: every verdict of the schema room, beside that of a second judge, `jsonschema`."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.arguments import SchemaRefusal
from handspan.schema import CompiledSchema, SchemaRoom

BIG = 10**30
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"

THEME = {
    "type": "object",
    "properties": {"theme": {"enum": ["light", "dark"]}},
    "required": ["theme"],
    "additionalProperties": False,
}
C021 = {
    "$ref": "#/$defs/order",
    "$defs": {
        "sku": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "line": {"type": "object", "properties": {"sku": {"$ref": "#/$defs/sku"}}},
        "order": {
            "properties": {
                "first": {"$ref": "#/$defs/sku"},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
                "gift": {"anyOf": [{"$ref": "#/$defs/sku"}, {"type": "null"}]},
            },
            "required": ["first"],
        },
    },
    "type": "object",
    "additionalProperties": {"type": ["string", "array", "null"]},
}
C022 = {
    "type": "object",
    "properties": {
        "blocks": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "properties": {"kind": {"const": "a"}, "text": {"type": "string"}},
                        "required": ["kind", "text"],
                    },
                    {
                        "properties": {"kind": {"const": "b"}, "url": {"type": "string"}},
                        "required": ["kind", "url"],
                    },
                ]
            },
        }
    },
}
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "#"}}},
    "required": ["name"],
}
KEYWORD_NAMES = {
    "type": "object",
    "properties": {
        "$ref": {"type": "string"},
        "$id": {"type": "string"},
        "$schema": {"type": "integer"},
        "$defs": {"type": "array"},
        "pattern": {"type": "number"},
        "properties": {"type": "boolean"},
        "const": {"type": "string"},
        "enum": {"type": "string"},
        "items": {"type": "null"},
        "__proto__": {"type": "integer"},
        "constructor": {"type": "integer"},
    },
    "required": ["$ref"],
}

PROBES: list[tuple[Any, list[Any]]] = [
    (True, [1, None, {}]),
    (False, [1, None, {}]),
    ({}, [1, None, {}, [], "x"]),
    ({"type": "object"}, [{}, {"a": 1}, [], None]),
    (THEME, [{"theme": "dark"}, {"theme": "blue"}, {}, {"theme": "dark", "x": 1}, []]),
    (
        C021,
        [
            {"first": "ABC"},
            {"first": "abc"},
            {},
            {"first": "ABC", "lines": [{"sku": "ABC"}]},
            {"first": "ABC", "lines": [{"sku": "x"}]},
            {"first": "ABC", "gift": None},
            {"first": "ABC", "gift": "no"},
            {"first": "ABC", "more": 1},
            {"first": "ABC", "more": "x"},
            [],
        ],
    ),
    (
        C022,
        [
            {"blocks": [{"kind": "a", "text": "t"}, {"kind": "b", "url": "u"}]},
            {"blocks": [{"kind": "c", "text": "t"}]},
            {"blocks": [{"kind": "a", "url": "t"}]},
            {"blocks": [{}]},
            {"blocks": []},
        ],
    ),
    ({"oneOf": [{"type": "string"}]}, ["x", 1]),
    ({"additionalProperties": {"type": "string"}}, [{"a": "x"}, {"a": 1}]),
    ({"additionalProperties": {}}, [{"a": "x"}, {"a": 1}]),
    ({"additionalProperties": True}, [{"a": "x"}, {"a": 1}]),
    ({"additionalProperties": False}, [{"a": "x"}, {}]),
    ({"exclusiveMinimum": 0}, [0, 1, -1, 0.5, "x"]),
    ({"propertyNames": {"pattern": "^[a-z]+$"}}, [{"a": 1}, {"A": 1}, {}]),
    (TREE, [{"name": "a", "children": [{"name": "b"}]}, {"name": "a", "children": [{}]}, {}]),
    (KEYWORD_NAMES, [{"$ref": "x"}, {"$ref": 1}, {}, {"$ref": "x", "pattern": "y"}]),
    (KEYWORD_NAMES, [{"$ref": "x", "items": None, "$defs": [], "__proto__": 1}]),
    ({"$defs": {"x": {"$anchor": "here", "type": "string"}}, "$ref": "#here"}, ["x", 1]),
    (
        {
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {"next": {"$dynamicRef": "#node"}},
        },
        [{"next": {"next": {}}}, {"next": {"next": 1}}],
    ),
    ({"$ref": "#/%24defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}}, ["x", 1]),
    ({"$ref": "#/allOf/0", "allOf": [{"type": "string"}]}, ["x", 1]),
    ({"definitions": {"a": {"type": "string"}}, "$ref": "#/definitions/a"}, ["x", 1]),
    (
        {
            "$schema": DRAFT_7,
            "definitions": {"a": {"$id": "#named", "type": "string"}},
            "properties": {"x": {"$ref": "#named"}, "y": {"$ref": "#/definitions/a"}},
            "items": [{"type": "string"}],
            "additionalItems": False,
            "dependencies": {"x": ["y"]},
        },
        [{"x": "a", "y": "b"}, {"x": "a"}, {"x": 1, "y": "b"}, ["a"], ["a", "b"], [1]],
    ),
    ({"$schema": DRAFT_6, "exclusiveMaximum": 3, "contains": {"type": "string"}}, [3, 2, [1]]),
    ({"$schema": DRAFT_4, "maximum": 3, "exclusiveMaximum": True}, [3, 2]),
    (
        {
            "$schema": DRAFT_2019,
            "$recursiveAnchor": True,
            "properties": {"k": {"$recursiveRef": "#"}},
            "unevaluatedProperties": False,
        },
        [{"k": {"k": {}}}, {"k": {"j": 1}}],
    ),
    ({"$schema": DRAFT_2020.removesuffix("#") + "#", "type": "string"}, ["x", 1]),
    ({"$id": "https://example.com/order.json", "$ref": "#/$defs/a", "$defs": {"a": False}}, [1]),
    (
        {
            "$defs": {"sub": {"$id": "sub", "$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}},
            "properties": {"a": {"$ref": "#/$defs/sub"}},
        },
        [{"a": None}, {"a": 1}],
    ),
    ({"const": {"$ref": "http://127.0.0.1:1/"}}, [{"$ref": "http://127.0.0.1:1/"}, 1]),
    ({"enum": [{"$ref": "#/nope"}, {"$id": "x"}]}, [{"$ref": "#/nope"}, {"$id": "x"}, 1]),
    ({"default": {"$ref": "#/nope"}, "examples": [{"$ref": "http://x.invalid/"}]}, [1]),
    ({"x-note": {"$ref": "http://x.invalid/"}, "type": "string"}, ["x", 1]),
    ({"type": "integer"}, [1, 1.0, 1.5, True, 1e300, BIG, "1", None]),
    ({"type": "number"}, [1, 1.5, True, BIG]),
    ({"type": "integer", "maximum": BIG}, [BIG, BIG + 1, 2**63, 2**64, -(2**70), 10**400]),
    ({"minimum": -BIG}, [-BIG, -BIG - 1]),
    ({"exclusiveMaximum": 2**64}, [2**64, 2**64 - 1]),
    ({"maximum": 2**53}, [2**53, 2**53 + 1, float(2**53)]),
    ({"multipleOf": 3}, [9, 10, 9.0, 9.5, 3 * BIG, BIG]),
    ({"multipleOf": 0.5}, [1, 1.5, 1.25]),
    ({"const": BIG}, [BIG, BIG + 1]),
    ({"const": 1}, [1, 1.0, True, "1"]),
    ({"const": False}, [False, 0, None]),
    ({"enum": [1, "a", None, [1], {"a": 1}]}, [1, 1.0, True, None, [1], [1.0], {"a": 1}, {}]),
    ({"uniqueItems": True}, [[1, 1.0], [True, 1], [0, False], [{"a": 1}, {"a": 1}], [[1], [1]]]),
    ({"uniqueItems": True}, [[2**64, 2**64], [2**64, 2**64 + 1], [1, "1"], [None, None]]),
    ({"minLength": 2, "maxLength": 3}, ["a", "ab", "\U0001f600\U0001f600", "abcd", "e\u0301"]),
    ({"maxLength": 1}, ["\U0001f600", "ab"]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], ["a", 1], [1], []]),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 2}, [[1, 1], [1], [1, 1, 1]]),
    ({"minProperties": 1, "maxProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}, {}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1}, {"a": 1, "b": 1}]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}}, ["a", None]),
    ({"not": {"type": "string"}}, ["a", 1]),
    (
        {
            "allOf": [{"properties": {"a": True}}],
            "properties": {"b": True},
            "unevaluatedProperties": False,
        },
        [{"a": 1, "b": 1}, {"c": 1}],
    ),
    ({"patternProperties": {"^x-": {"type": "integer"}}}, [{"x-a": 1}, {"x-a": "1"}, {"y": "1"}]),
    ({"format": "email"}, ["not an address"]),
    ({"$schema": DRAFT_7, "format": "date"}, ["not a date"]),
    ({"type": "string", "nullable": True}, [None, "x"]),
]


def compiled(schema: Any) -> CompiledSchema:
    judge = SchemaRoom().compile(schema)
    assert isinstance(judge, CompiledSchema), judge
    return judge


def second_opinion(schema: Any, value: Any) -> bool:
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    verdict: bool = kind(schema).is_valid(value)
    return verdict


@pytest.mark.parametrize(
    ("schema", "value"), [(s, value) for s, values in PROBES for value in values]
)
def test_p11_the_verdict_is_that_of_a_second_judge(schema: Any, value: Any) -> None:
    assert (compiled(schema).problems(value) == ()) is second_opinion(schema, value)


@pytest.mark.parametrize("schema", [schema for schema, _ in PROBES])
def test_p11_judging_leaves_the_schema_as_it_was(schema: Any) -> None:
    before = repr(schema)
    compiled(schema).problems({"a": [1, "x"]})
    assert repr(schema) == before


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}])
def test_c024_every_spelling_of_no_parameters_takes_the_empty_object(schema: Any) -> None:
    assert compiled(schema).problems({}) == ()


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
    ],
)
def test_p11_a_draft_is_known_in_the_spellings_that_people_use(uri: str) -> None:
    judge = compiled({"$schema": uri, "items": [{"type": "string"}]})
    assert judge.problems(["a"]) == ()
    assert judge.problems([1]) != ()


def test_p3_decimal_steps_are_judged_as_written_where_doubles_would_not() -> None:
    judge = compiled({"multipleOf": 0.1})
    assert judge.problems(0.3) == ()
    assert judge.problems(0.35) != ()


def test_p3_a_lone_surrogate_is_one_character_and_equal_to_itself_only() -> None:
    judge = compiled({"enum": ["\ud800", "a"], "maxLength": 1})
    assert judge.problems("\ud800") == ()
    assert judge.problems("\ud801") != ()
    assert judge.problems("\ufffd") != ()
    assert compiled({"uniqueItems": True}).problems(["\ud800", "\ud801"]) == ()
    assert compiled({"maxLength": 1}).problems("\udfff\ud800") != ()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e6, 1e6, width=32)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
LEAVES = st.one_of(
    st.booleans(),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "object", "array", "null"])}
    ),
    st.fixed_dictionaries({"const": JSON}),
    st.fixed_dictionaries({"enum": st.lists(JSON, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"minimum": st.integers()}),
    st.fixed_dictionaries({"maxLength": st.integers(0, 3)}),
    st.fixed_dictionaries({"required": st.lists(st.sampled_from("abc"), unique=True)}),
    st.just({"uniqueItems": True}),
)
REFERENCES = st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#b"])})
"""Only below a property or an item: a reference back to the same value sends the second judge into
a loop without end."""
SCHEMAS = st.recursive(
    LEAVES
    | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), REFERENCES)})
    | st.fixed_dictionaries({"items": REFERENCES}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"items": inner}),
        st.fixed_dictionaries({"additionalProperties": inner}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)


@given(a=SCHEMAS, b=SCHEMAS, root=SCHEMAS, values=st.lists(JSON, max_size=4))
def test_p11_any_schema_gets_the_verdicts_of_the_second_judge(
    a: Any, b: Any, root: Any, values: list[Any]
) -> None:
    named = {"$anchor": "b", **b} if isinstance(b, dict) else {"$anchor": "b", "allOf": [b]}
    schema = {"$defs": {"a": a, "b": named}, "allOf": [root]}
    judge = SchemaRoom().compile(schema)
    assert not isinstance(judge, SchemaRefusal)
    for value in values:
        assert (judge.problems(value) == ()) is second_opinion(schema, value)
