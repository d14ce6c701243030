"""Grammars of calls' arguments: the shape of a schema, and safe whatever the schema says."""

from typing import Any

import pytest
from tests.agents.fake_llama import Mind, installed

Json = Any


@pytest.fixture(scope="module")
def grammar() -> Any:
    with installed(Mind()) as local:
        yield __import__("sys").modules[f"{local.__name__}.grammar"]


def rules(grammar: Any, schema: Json) -> list[str]:
    """The rules that are the schema's own."""
    whole: str = grammar.of_arguments(schema)
    return whole.partition("\nvalue ::=")[0].splitlines()


def fields(**properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties}


def test_required_fields_come_first_and_others_may(grammar: Any) -> None:
    schema = {**fields(a={"type": "string"}, b={"type": "integer"}), "required": ["b"]}
    assert rules(grammar, schema) == [
        "root ::= r2",
        'r0 ::= "\\"a\\": " string',
        'r1 ::= "\\"b\\": " integer',
        'r2 ::= "{" r1 (", " r0)? "}"',
    ]


def test_fields_that_all_may_be_left_out_begin_anywhere(grammar: Any) -> None:
    schema = fields(a={"type": "boolean"}, b={"type": "number"})
    assert rules(grammar, schema)[-1] == 'r2 ::= "{}" | "{" (r0 (", " r1)? | r1) "}"'


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, fields()])
def test_a_tool_without_parameters_gets_an_empty_object(grammar: Any, schema: Json) -> None:
    assert rules(grammar, schema) == ['root ::= "{}"']


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        (["light", "dark"], r'"\"light\"" | "\"dark\""'),
        ([1, None, True], '"1" | "null" | "true"'),
        (['a"b\\c'], r'"\"a\\\"b\\\\c\""'),
        (["ü😀"], '"\\"ü😀\\""'),
        (["a\nb"], r'"\"a\\nb\""'),
        (["a\u2028b"], '"\\"a\\U00002028b\\""'),
    ],
)
def test_values_are_spelled_as_json(grammar: Any, values: Json, spelled: str) -> None:
    """A quote in an enum ends the process with llama-cpp-python's own conversion."""
    schema = {**fields(x={"enum": values}), "required": ["x"]}
    assert f"r0 ::= {spelled}" in rules(grammar, schema)


@pytest.mark.parametrize(
    ("schema", "spelled"),
    [
        ({"type": "string", "maxLength": 10**6, "pattern": "(?=x)"}, "string"),
        (
            {"type": "array", "items": {"type": "string"}},
            'r0 ::= "[]" | "[" string (", " string)* "]"',
        ),
        ({"type": ["string", "null"]}, 'r0 ::= string | "null"'),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "r0 ::= string | integer"),
        ({"const": 7}, 'r0 ::= "7"'),
        (True, "value"),
        ({"$ref": "http://example.com/x"}, "value"),
        ({"enum": list(range(300))}, "value"),
        (fields(**{f"p{n}": {} for n in range(40)}), "object"),
        ({"type": "object", "additionalProperties": True}, "object"),
    ],
)
def test_a_field_is_held_to_its_kind(grammar: Any, schema: Json, spelled: str) -> None:
    made = rules(grammar, {**fields(x=schema), "required": ["x"]})
    if spelled.startswith("r0"):
        assert made[1] == spelled
    else:
        assert made[1] == f'r0 ::= "\\"x\\": " {spelled}'


def test_a_schema_within_itself_ends(grammar: Any) -> None:
    node = fields(next={"$ref": "#/$defs/node"})
    made = rules(grammar, {**fields(n={"$ref": "#/$defs/node"}), "$defs": {"node": node}})
    assert len(made) < 20


def test_a_choice_is_of_whole_texts(grammar: Any) -> None:
    assert grammar.one_of(["message:", "", "\nfunctions.a.b-c:"]) == (
        'root ::= "message:" | "" | "\\U0000000Afunctions.a.b-c:"\n'
    )
