"""P3, P12: what a model is told about a value that does not fit, and what that may cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.arguments import PROBLEMS_MAX, Problem
from handspan.schema import CompiledSchema, SchemaRoom
from handspan.schema.dialect import _LIST, _MAP, _ONE
from handspan.schema.patterns import PATTERN_STEPS, steps, unsupported
from handspan.schema.validator import CHECK_UNITS, MESSAGE_CHARS

TOO_LARGE_TO_CHECK = "the value is too large to be checked against its schema"
TOO_LONG_TO_EXPLAIN = "the value does not fit the schema; to say where would take too long"


def problems(schema: Any, value: Any) -> tuple[Problem, ...]:
    judge = SchemaRoom().compile(schema)
    assert isinstance(judge, CompiledSchema), judge
    return judge.problems(value)


def in_property(name: str, levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {name: leaf}
    return leaf


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"required": ["theme"]}, {}, Problem("", '"theme" is a required property')),
        (
            {"properties": {"a": {"type": "string"}}},
            {"a": 1},
            Problem("/a", '1 is not of type "string"'),
        ),
        (
            {"properties": {"a/b~c": {"items": {"type": "null"}}}},
            {"a/b~c": [None, 7]},
            Problem("/a~1b~0c/1", '7 is not of type "null"'),
        ),
        (
            {"enum": ["light", "dark"]},
            "blue",
            Problem("", '"blue" is not one of "light" or "dark"'),
        ),
        (
            {"properties": {}, "additionalProperties": False},
            {"x": 1},
            Problem("", "Additional properties are not allowed ('x' was unexpected)"),
        ),
    ],
)
def test_p3_a_problem_names_its_place_and_what_is_wrong(
    schema: Any, value: Any, told: Problem
) -> None:
    assert problems(schema, value) == (told,)


def test_p3_a_union_that_fits_nowhere_is_followed_by_its_nearest_branch() -> None:
    kinds = [
        {"properties": {"kind": {"const": "a"}, "text": {}}, "required": ["kind", "text"]},
        {"properties": {"kind": {"const": "b"}, "url": {}}, "required": ["kind", "url"]},
    ]
    schema = {"properties": {"blocks": {"items": {"oneOf": kinds}}}}
    union, nearest = problems(schema, {"blocks": [{"kind": "b"}]})
    assert union.pointer == nearest.pointer == "/blocks/0"
    assert nearest.message == '"url" is a required property'


def test_p3_all_problems_are_told_up_to_ten() -> None:
    schema = {"required": [f"p{n}" for n in range(7)]}
    assert len(problems(schema, {})) == 7
    schema = {"required": [f"p{n}" for n in range(70)]}
    assert len(problems(schema, {})) == PROBLEMS_MAX


def test_p12_a_message_never_echoes_a_large_value() -> None:
    for value in ("x" * 100_000, [list(range(1_000))], {"k" * 50_000: 1}):
        for problem in problems({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, value):
            assert len(problem.message) <= MESSAGE_CHARS + 5
    (problem,) = problems({"type": "null"}, "x" * 10_000)
    assert problem.message.startswith('"xxx')
    assert problem.message.endswith('is not of type "null"')


def test_p12_a_recursive_union_is_judged_exactly_however_deep() -> None:
    back = {"$ref": "#/$defs/n"}
    for union in ("anyOf", "oneOf", "allOf"):
        branches = [{"properties": {"a": back}, "required": [name]} for name in ("x", "y")]
        schema = {"$defs": {"n": {"type": "object", union: branches}}, **back}
        (problem,) = problems(schema, in_property("a", 120, 1))
        assert problem.message == TOO_LONG_TO_EXPLAIN
    twice = {"allOf": [{"properties": {"a": back}}, {"properties": {"a": back}}]}
    schema = {"$defs": {"n": {"type": "object", **twice}}, **back}
    assert problems(schema, in_property("a", 120, {})) == ()
    assert Problem("/a/a", '1 is not of type "object"') in problems(schema, {"a": {"a": 1}})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"not": {"$ref": "#"}},
        {"allOf": [{"$ref": "#"}, {"type": "null"}]},
        {"oneOf": [{"$ref": "#"}, {"type": "null"}]},
        {"if": {"$ref": "#"}, "then": False},
        {"anyOf": [{"$ref": "#"}], "unevaluatedProperties": False},
        {"$dynamicAnchor": "a", "$dynamicRef": "#a"},
        {
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}},
            "not": {"$ref": "#/$defs/a"},
        },
    ],
)
def test_p12_a_schema_that_leads_back_to_the_same_value_comes_to_an_end(schema: Any) -> None:
    for value in (1, None, {"a": 1}, [[1]]):
        assert len(problems(schema, value)) <= 1


def test_p12_many_errors_over_a_large_value_are_not_listed_one_by_one() -> None:
    (problem,) = problems({"items": {"type": "string"}}, [1] * 100_000)
    assert problem.message == TOO_LONG_TO_EXPLAIN
    (problem,) = problems({"allOf": [{"type": "null"}] * 1_000}, "x" * 1_000_000)
    assert problem.message == TOO_LONG_TO_EXPLAIN
    assert problems({"items": {"type": "integer"}}, [1] * 100_000) == ()


def test_p12_a_large_schema_does_not_judge_a_large_value() -> None:
    schema = {"items": {"allOf": [{"minimum": -n} for n in range(900)]}}
    assert problems(schema, [1] * 1_000) == ()
    (problem,) = problems(schema, [1] * (CHECK_UNITS // 900))
    assert problem.message == TOO_LARGE_TO_CHECK


def test_p12_a_large_pattern_does_not_judge_a_large_text() -> None:
    schema = {"pattern": "(a{40}){100}$"}
    assert problems(schema, "b" * 1_000) != ()
    (problem,) = problems(schema, "b" * 1_000_000)
    assert problem.message == TOO_LARGE_TO_CHECK
    assert problems({"pattern": "^b+$"}, "b" * 1_000_000) == ()


def test_p14_a_value_that_the_codec_would_not_let_in_is_a_problem_and_no_crash() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    for value in (deep, object(), {1: 2}, {1, 2}, b"x"):
        (problem,) = problems({"type": "object"}, value)
        assert problem.pointer == ""
    assert problems({"type": "array"}, in_property("a", 127, [])) != ()


def test_p3_a_message_and_a_pointer_are_fit_for_utf_8_whatever_the_value() -> None:
    schema = {"properties": {"\ud800": {"type": "integer"}}}
    (problem,) = problems(schema, {"\ud800": "\udfff"})
    assert problem == Problem("/\ufffd", '"\ufffd" is not of type "integer"')


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        ("(?=a)", "look-around"),
        ("(?<!a)", "look-around"),
        (r"\2", "a backreference"),
        (r"\k<n>", "a backreference"),
        (r"\(?=a", None),
        (r"[(?=]", None),
        (r"\\1", None),
        (r"(?<name>a)", None),
        (r"(?P<name>a)(?:b)(?i)c", None),
    ],
)
def test_p12_what_a_linear_engine_cannot_do_is_named(pattern: str, feature: str | None) -> None:
    assert unsupported(pattern) == feature


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("", 0),
        ("abc", 3),
        ("[abc]{10}", 10),
        ("(ab){10}", 20),
        ("(a|bc){2,5}", 15),
        ("a{3,}", 4),
        ("x(a(b{3}){4}){2}y", 28),
        ("a*b+c?", 3),
        (r"\{2}", 3),
        (r"\p{L}{3}", 300),
        ("(" * 1_000, 0),
        ("a{x}", 4),
    ],
)
def test_p12_steps_multiply_counted_repetition_out(pattern: str, count: int) -> None:
    assert steps(pattern) == count


@given(st.text(alphabet="ab(){}[]\\|*+?0123456789,:=!<>pPLku^-$.", max_size=60))
def test_p12_any_text_may_come_as_a_pattern(pattern: str) -> None:
    assert 0 <= steps(pattern) <= PATTERN_STEPS + 1
    verdict = SchemaRoom().compile({"pattern": pattern})
    if isinstance(verdict, CompiledSchema):
        verdict.problems("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")


KEYWORDS = st.sampled_from(
    [keyword for keywords in (_ONE, _LIST, _MAP) for keyword in keywords]
    + ["type", "$ref", "$id", "$anchor", "$schema", "const", "enum", "pattern", "required"]
    + ["minimum", "multipleOf", "maxLength", "$dynamicRef", "$recursiveRef", "x-unknown"]
)
SHARDS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["#", "#/$defs/a", "string", "x", "(?=a)", "a{9}", "http://h.invalid/"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYWORDS | st.sampled_from("ab"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(SHARDS, SHARDS)
def test_p14_whatever_comes_as_a_schema_is_compiled_or_refused_and_nothing_is_raised(
    schema: Any, value: Any
) -> None:
    verdict = SchemaRoom().compile(schema)
    if isinstance(verdict, CompiledSchema):
        assert len(verdict.problems(value)) <= PROBLEMS_MAX
    else:
        assert verdict.message
