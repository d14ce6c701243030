"""The text of a call to a checked object, or to words for the model (P3)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.builders import spec, takes

from handspan.core.arguments import (
    PROBLEMS_MAX,
    RAW_SHOWN_CHARS,
    BadArguments,
    Problem,
    ToolSpec,
    check_arguments,
    fit,
    parse_arguments,
    told,
)

EMPTY = ["", " ", "\n\t ", "null", " null ", "{}", " { } "]
OBJECTS = [
    ('{"n":0}', {"n": 0}),
    ('{"on":false}', {"on": False}),
    ('{"s":""}', {"s": ""}),
    ('{"l":[]}', {"l": []}),
    ('{"x":null}', {"x": None}),
    ('{"n":123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ('{"n":-0.1e-7}', {"n": -1e-8}),
    ('{"a":1,"a":2}', {"a": 2}),
    ('{"__proto__":{"x":1},"constructor":2}', {"__proto__": {"x": 1}, "constructor": 2}),
    (r'{"s":"\ud83d\ude00 \u0000"}', {"s": "😀 \x00"}),
    (r'{"s":"\ud83d"}', {"s": "\ufffd"}),
    ('{"t":"[\\"a\\"]"}', {"t": '["a"]'}),
]
NONE = [
    "{",
    '{"a":1',
    '{"a":1}{"a":2}',
    '{"a":1} {"b":2}',
    "[1]",
    '"x"',
    "5",
    "true",
    '"{\\"a\\":1}"',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":1e999}',
    "{'a':1}",
    '{"a":1,}',
    "undefined",
    "```json\n{}\n```",
    '{"a":' * 200 + "1" + "}" * 200,
    "[" * 100_000,
]


@pytest.mark.parametrize("raw", EMPTY)
def test_p3_nothing_whitespace_and_null_are_an_empty_object(raw):
    """C001, C002."""
    assert parse_arguments(raw) == {}


@pytest.mark.parametrize(("raw", "value"), OBJECTS)
def test_p3_an_object_is_what_the_model_wrote(raw, value):
    """C013: falsy values pass unchanged."""
    assert parse_arguments(raw) == value


@pytest.mark.parametrize("raw", NONE, ids=lambda raw: raw[:24])
def test_p3_what_is_no_object_is_an_error_that_shows_what_came(raw):
    """C003, C011; several objects in one text; NaN; too deep."""
    bad = parse_arguments(raw)
    assert isinstance(bad, BadArguments)
    assert raw[:24] in bad.message
    assert len(bad.message) < 400


NUMBER = takes("x", x="integer", tags="array", note="string")
UNFIT = [
    ({}, ["x"]),
    ({"x": "1"}, ["/x"]),
    ({"x": 1, "tags": '["a"]'}, ["/tags"]),
    ({"x": 1.5}, ["/x"]),
    ({"x": None}, ["/x"]),
    ({"x": "1", "tags": {}}, ["/x", "/tags"]),
]


@pytest.mark.parametrize(("value", "named"), UNFIT)
def test_p3_what_does_not_fit_is_told_with_its_place(value, named):
    """C010: an array written as a string is an error, not a guess."""
    bad = check_arguments(value, spec("t", parameters=NUMBER))
    assert isinstance(bad, BadArguments)
    assert all(place in bad.message for place in named)


@pytest.mark.parametrize("value", [{"x": 1}, {"x": 1.0}, {"x": 1, "note": '["a"]', "more": 1}])
def test_p3_what_fits_is_handed_on_as_it_is(value):
    """C010: a text that looks like JSON stays a text where a text is wanted."""
    assert check_arguments(value, spec("t", parameters=NUMBER)) is value


def test_p3_at_most_ten_errors_are_told():
    kinds = {f"f{n}": "integer" for n in range(30)}
    bad = check_arguments(dict.fromkeys(kinds, "x"), spec("t", parameters=takes(**kinds)))
    assert isinstance(bad, BadArguments)
    assert len(bad.problems) == PROBLEMS_MAX == 10
    assert bad.message.count("/f") == 10


WRAPPED = {"parameters": takes("toolName", "args", toolName="string", args="object")}
FITS = [
    ("a tool's own", "t", spec("t", parameters=NUMBER), {"x": 1}, True),
    ("not a tool's own", "t", spec("t", parameters=NUMBER), {"x": "1"}, False),
    ("a wildcard takes what it is", "search", spec("*", **WRAPPED), {"q": 1}, True),
    ("a wildcard's schema is of both", "search", spec("*", parameters=NUMBER), {"x": 1}, False),
    ("a wildcard by its own name", "*", spec("*", parameters=NUMBER), {"x": 1}, True),
    ("and not wrapped", "*", spec("*", **WRAPPED), {"q": 1}, False),
]


@pytest.mark.parametrize(
    ("name", "made", "args", "fits"), [c[1:] for c in FITS], ids=[c[0] for c in FITS]
)
def test_p3_arguments_fit_the_tool_that_will_carry_the_call_out(name, made, args, fits):
    """A wildcard is given {toolName, args}, and that is what its schema judges (C117)."""
    good = fit(name, args, made)
    if fits:
        assert good is args
    else:
        assert isinstance(good, BadArguments)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=4)
)
def test_p3_every_json_object_comes_through_equal(value):
    assert parse_arguments(json.dumps(value)) == value


@given(st.text(max_size=40))
def test_p3_no_text_makes_it_raise(raw):
    assert isinstance(parse_arguments(raw), dict | BadArguments)


# ---- words for the model, and what a registry holds --------------------------------------------


@pytest.mark.parametrize(
    ("problems", "words"),
    [
        ([], ""),
        ([Problem("/a/0", "is no integer")], "/a/0: is no integer"),
        ([Problem("", "lacks x")], "(root): lacks x"),
        ([Problem("/a", "one"), Problem("/b", "two")], "/a: one; /b: two"),
        (
            [Problem(f"/{n}", "bad") for n in range(PROBLEMS_MAX + 1)],
            "; ".join(f"/{n}: bad" for n in range(PROBLEMS_MAX)),
        ),
    ],
)
def test_p3_problems_are_told_in_one_line_each_with_its_place(problems, words):
    assert told(tuple(problems)) == words


@pytest.mark.parametrize("raw", ["[" + "1" * RAW_SHOWN_CHARS, "[" + "1," * 150 + "1]"])
def test_p3_of_a_long_text_the_model_is_shown_the_beginning(raw):
    bad = parse_arguments(raw)
    assert isinstance(bad, BadArguments)
    assert bad.message.endswith(": " + raw[:RAW_SHOWN_CHARS] + "...")
    assert bad.problems == ()


def test_p3_a_text_of_just_the_shown_length_is_shown_whole():
    raw = '"' + "x" * (RAW_SHOWN_CHARS - 2) + '"'
    assert parse_arguments(raw) == BadArguments(f"the arguments must be a JSON object, got: {raw}")


def test_a_spec_has_its_tools_name_and_pages_may_not_invoke_it_unless_it_says_so():
    made = spec("t", parameters=NUMBER)
    bare = ToolSpec(made.tool, made.arguments)
    assert (bare.name, made.name) == ("t", "t")
    assert (bare.invoke, bare.returns, bare.digest, bare.schema_bytes) == (False, None, "", 0)
    assert spec("t", invoke=True).invoke is True
