"""P11, P12: what is no schema, leaves the document or is too large is refused, by its code."""

import socket
from types import MappingProxyType
from typing import Any

import pytest

from handspan.core.arguments import SchemaRefusal
from handspan.schema import CompiledSchema, SchemaRoom
from handspan.schema.room import REMEMBERED
from handspan_protocol.errors import ToolCode

BAD, REMOTE, LARGE = ToolCode.BAD_SCHEMA, ToolCode.SCHEMA_REMOTE_REF, ToolCode.SCHEMA_TOO_LARGE


def refused(schema: Any, **bounds: int) -> SchemaRefusal:
    verdict = SchemaRoom(**bounds).compile(schema)
    assert isinstance(verdict, SchemaRefusal), verdict
    return verdict


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


def doubling(steps: int) -> dict[str, Any]:
    """A chain in which each link applies the next one twice."""
    links: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(steps)
    }
    return {"$defs": {**links, f"d{steps}": {"type": "object"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strng"}, "/type"),
        ({"properties": []}, "/properties"),
        ({"properties": {"a": {"type": "strng"}}}, "/properties/a/type"),
        ({"properties": {"a": 1}}, "/properties/a"),
        ({"required": "a"}, "/required"),
        ({"minLength": -1}, "/minLength"),
        ({"items": [{"type": "string"}]}, "/items"),
        ({"$ref": 1}, "/$ref"),
        ({"$id": 7}, "/$id"),
        ({"$schema": "http://example.com/schema"}, "/$schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema"),
        ({"$schema": 7}, "/$schema"),
        ({"$ref": "#/$defs/x"}, "#/$defs/x"),
        ({"$ref": "#/items/0", "items": {}}, "#/items/0"),
        ({"$ref": "#nobody"}, "#nobody"),
        ({"$dynamicRef": "#nobody"}, "#nobody"),
        ({"$recursiveRef": "#/$defs/a", "$defs": {"a": {}}}, "/$recursiveRef"),
        ({"$ref": "#/title", "title": "x"}, "#/title"),
        ([], "object or a boolean"),
        ("x", "object or a boolean"),
        (1, "object or a boolean"),
        ({"minimum": float("nan")}, "not JSON"),
        ({"minimum": float("inf")}, "not JSON"),
        ({"default": {1: 2}}, "property name"),
        ({"default": {1, 2}}, "not JSON"),
        ({"default": b"x"}, "not JSON"),
        ({"pattern": "(?=a)b"}, "look-around"),
        ({"pattern": "(?!a)b"}, "look-around"),
        ({"pattern": "a(?<=b)"}, "look-around"),
        ({"pattern": "a(?<!b)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "backreference"),
        ({"pattern": r"(?<n>a)\k<n>"}, "backreference"),
        ({"patternProperties": {"(?!x)": {}}}, "look-around"),
        ({"propertyNames": {"pattern": "(?=a)"}}, "/propertyNames/pattern"),
        ({"$ref": "#/x", "x": {"pattern": "(?=a)"}}, "/x/pattern"),
        ({"pattern": "(a"}, "linear-time engine"),
        ({"pattern": "[b-a]"}, "/pattern"),
    ],
)
def test_c034_what_is_no_schema_is_refused_and_the_message_names_the_place(
    schema: Any, place: str
) -> None:
    refusal = refused(schema)
    assert refusal.code is BAD
    assert place in refusal.message


def test_c034_one_bad_schema_leaves_the_next_ones_alone() -> None:
    room = SchemaRoom()
    assert isinstance(room.compile({"$ref": "#/$defs/gone"}), SchemaRefusal)
    assert isinstance(room.compile({"type": "object"}), CompiledSchema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"$ref": "other.json#/a"},
        {"$ref": "/a"},
        {"$ref": "//host/a"},
        {"$ref": "?q"},
        {"$ref": "urn:x:y"},
        {"$dynamicRef": "http://127.0.0.1:1/x#a"},
        {"$id": "http://127.0.0.1:1/base/", "$ref": "a"},
        {"$id": "http://127.0.0.1:1/a", "$ref": "a", "$defs": {"a": {"$id": "a"}}},
        {"$defs": {"a": {"$id": "http://127.0.0.1:1/", "items": {"$ref": "b"}}}},
        {"properties": {"a": {"$id": "x", "$schema": "http://127.0.0.1:1/schema"}}},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://h/", "$ref": "b"},
        {"properties": {"deep": {"items": {"anyOf": [{"not": {"$ref": "http://h/"}}]}}}},
        {"$ref": "#/x/y", "x": {"y": {"$ref": "http://127.0.0.1:1/"}}},
        {"$defs": {"never used": {"$ref": "http://127.0.0.1:1/"}}},
        {"patternProperties": {"a": {"$ref": "http://127.0.0.1:1/"}}},
        {"dependencies": {"a": {"$ref": "http://127.0.0.1:1/"}}},
        {"contentSchema": {"$ref": "http://127.0.0.1:1/"}},
    ],
)
def test_p11_a_reference_that_leaves_the_document_is_refused(schema: Any) -> None:
    assert refused(schema).code is REMOTE


def test_p11_nothing_is_ever_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        room = SchemaRoom()
        for schema in (
            {"$ref": f"{base}/a"},
            {"$dynamicRef": f"{base}/a"},
            {"$schema": f"{base}/a"},
            {"$schema": f"{base}/a", "$ref": f"{base}/b"},
            {"$id": f"{base}/a", "$ref": "b"},
            {"$id": f"{base}/a", "$schema": f"{base}/b"},
            {"$id": f"{base}/a", "$ref": "#/$defs/b", "$defs": {"b": {"type": "string"}}},
            {"$id": f"{base}/a", "$vocabulary": {f"{base}/v": True}},
            {"properties": {"a": {"$id": f"{base}/a", "$schema": f"{base}/b"}}},
            {"const": {"$ref": f"{base}/a"}, "x": {"$ref": f"{base}/a", "$id": f"{base}/b"}},
            {"$ref": "#/x", "x": {"$id": f"{base}/b", "items": {"$ref": "c"}}},
        ):
            verdict = room.compile(schema)
            if isinstance(verdict, CompiledSchema):
                verdict.problems({"$ref": f"{base}/a"})
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    ("schema", "bounds"),
    [
        ({"title": "x" * 65_536}, {}),
        ({"title": "é" * 40_000}, {}),
        ({"title": "x" * 90}, {"schema_bytes": 100}),
        (nested(65), {}),
        ({"enum": [[] for _ in range(2_000)]}, {}),
        ({"properties": {f"p{n}": {} for n in range(2_000)}}, {}),
        ({"enum": [0] * 1_000_000}, {}),
        (doubling(14), {}),
        (doubling(20), {}),
        (doubling(300), {}),
    ],
)
def test_p12_what_is_over_a_limit_is_refused(schema: Any, bounds: dict[str, int]) -> None:
    assert refused(schema, **bounds).code is LARGE


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "x" * 65_000},
        nested(64),
        {"enum": [[] for _ in range(1_998)]},
        doubling(10),
        {"$defs": doubling(300)["$defs"]},
    ],
)
def test_p12_what_is_just_within_the_limits_is_taken(schema: Any) -> None:
    assert isinstance(SchemaRoom().compile(schema), CompiledSchema)


def test_p12_a_schema_that_contains_itself_is_too_deep() -> None:
    endless: dict[str, Any] = {}
    endless["not"] = endless
    assert refused(endless).code is LARGE


def test_p12_a_cycle_of_references_counts_once() -> None:
    names = [f"d{n}" for n in range(8)]
    everyone = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    schema = {"$defs": {name: {"properties": everyone} for name in names}, "$ref": "#/$defs/d0"}
    assert isinstance(SchemaRoom().compile(schema), CompiledSchema)
    loop = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert isinstance(SchemaRoom().compile(loop), CompiledSchema)


def test_p12_nested_unevaluated_keywords_multiply_what_they_look_at() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(20):
        schema = {"anyOf": [schema, {"required": ["q"]}], "unevaluatedProperties": False}
    assert refused(schema).code is LARGE


def test_p12_unevaluated_keywords_nested_by_property_only_are_taken() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(15):
        schema = {
            "properties": {"a": schema, "b": {"type": "null"}},
            "unevaluatedProperties": False,
        }
    assert isinstance(SchemaRoom().compile(schema), CompiledSchema)


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("(((a{100}){100}){100}){100}", LARGE),
        (r"(\w{100}){101}", LARGE),
        ("a{100}{100}{100}", LARGE),
        (r"\pL{1000}", LARGE),
        (r"\p{L}{1,1000}", LARGE),
        (r"(?:x(?i)y){99999}", LARGE),
        (r"[\p{L}\p{N}]{100}", LARGE),
        ("(.{90}){90}", BAD),
    ],
)
def test_p12_a_pattern_that_repeats_too_much_is_refused(pattern: str, code: ToolCode) -> None:
    assert refused({"pattern": pattern}).code is code


def test_p12_many_patterns_count_together_and_as_often_as_they_are_referred_to() -> None:
    many = {"patternProperties": {f"{n}(a{{100}}){{9}}": True for n in range(20)}}
    assert refused(many).code is LARGE
    referred = {
        "$defs": {"p": {"pattern": "a{900}"}},
        "properties": {f"p{n}": {"$ref": "#/$defs/p"} for n in range(20)},
    }
    assert refused(referred).code is LARGE


@pytest.mark.parametrize(
    "pattern",
    [
        "^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
        r"^\p{L}[\p{L}\p{N}_]{0,39}$",
        "^.{1,4096}$",
        r"^[\s\S]{1,2000}$",
        "^(a+)+$",
        r"[(?=]\\1",
        "",
    ],
)
def test_p12_ordinary_patterns_are_taken(pattern: str) -> None:
    assert isinstance(SchemaRoom().compile({"pattern": pattern}), CompiledSchema)


def test_p12_a_schema_is_compiled_once_however_its_text_is_ordered() -> None:
    room = SchemaRoom()
    first = room.compile({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}})
    again = room.compile({"properties": {"b": {}, "a": {"type": "string"}}, "type": "object"})
    assert first is again
    assert room.compile({"const": 1}) is not room.compile({"const": 1.0})
    assert room.compile({"const": 1}) is not room.compile({"const": True})
    assert room.compile({"type": "strng"}) is room.compile({"type": "strng"})


def test_p12_the_room_forgets_the_oldest_text_first() -> None:
    room = SchemaRoom()
    first = room.compile({"const": -1})
    for number in range(REMEMBERED - 1):
        room.compile({"const": number})
    assert room.compile({"const": -1}) is first
    room.compile({"const": "one more"})
    room.compile({"const": "and one"})
    assert room.compile({"const": -1}) is first
    assert room.compile({"const": 0}) is not None


def test_p11_a_frozen_schema_is_taken_as_it_is() -> None:
    frozen = MappingProxyType({"properties": MappingProxyType({"a": {"type": "string"}})})
    judge = SchemaRoom().compile(frozen)
    assert isinstance(judge, CompiledSchema)
    assert judge.problems({"a": 1}) != ()
