"""Strict JSON: P4, P14. Vectors parse.jsonl; both ways through the module are held to them."""

import contextlib
import enum
import json
import math
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import FULL_FORM
from tests.protocol.values import JSON, TEXT, exactly
from tests.protocol.vectors import cases, each

from handspan_protocol import strict_json
from handspan_protocol.errors import CallCode, CloseCode, CommandCode, PeerError, UsageError
from handspan_protocol.limits import NESTING_MAX
from handspan_protocol.strict_json import (
    ENCODED_NESTING_MAX,
    INTEGER_DIGITS,
    encode,
    escape,
    parse_json,
    scrub,
    size_within,
    within_nesting,
)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


# ---- text -> value


@each("parse.jsonl")
def test_p4_parse_json_answers_as_the_vector_says(case):
    if case["ok"]:
        assert exactly(parse_json(case["text"])) == exactly(case["value"])
    else:
        with pytest.raises(PeerError) as refused:
            parse_json(case["text"])
        assert refused.value.code is CommandCode.INVALID_FRAME


@each("parse.jsonl")
def test_p4_bytes_are_read_as_the_text_they_are(case):
    data = case["text"].encode()
    if case["ok"]:
        assert exactly(parse_json(data)) == exactly(case["value"])
    else:
        with pytest.raises(PeerError):
            parse_json(data)


def answer(read, text):
    """What one way says: a value, or that there is none. How deep it reaches is its own affair."""
    try:
        value = read(text.encode())
    except PeerError:
        return "refused"
    return exactly(value) if within_nesting(value) else "refused"


@pytest.mark.parametrize(
    "text",
    [c["text"] for c in cases("parse.jsonl") if not strict_json._differs(c["text"].encode())],
    ids=lambda text: text[:30],
)
def test_p4_the_fast_and_the_exact_way_agree_wherever_the_fast_one_is_taken(text):
    assert answer(strict_json._parse_fast, text) == answer(strict_json._parse_exactly, text)


def test_the_vectors_take_both_ways():
    ways = {strict_json._differs(case["text"].encode()) for case in cases("parse.jsonl")}
    assert ways == {True, False}


@given(JSON)
def test_p4_both_ways_read_what_the_standard_library_writes(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    assert exactly(strict_json._parse_exactly(text)) == exactly(parse_json(text)) == exactly(value)


@given(st.text(alphabet='[]{}",:0123456789.eE+-\\udDtruefalsn ', max_size=40))
@settings(max_examples=300 if FULL_FORM else 120)
def test_p14_any_text_is_a_value_or_a_peer_error_and_both_ways_agree(text):
    if not strict_json._differs(text.encode()):
        assert answer(strict_json._parse_fast, text) == answer(strict_json._parse_exactly, text)
    answer(parse_json, text)


@given(st.binary(max_size=30))
def test_p14_any_bytes_are_a_value_or_a_peer_error(data):
    with contextlib.suppress(PeerError):
        parse_json(data)


@pytest.mark.parametrize(
    "data",
    [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf0\x9f\x8c"', b'\xff\xfe"\x00a\x00"\x00'],
    ids=["a stray byte", "an encoded surrogate", "an overlong NUL", "a cut character", "UTF-16"],
)
def test_p4_what_is_not_utf_8_is_refused_on_both_ways(data):
    for text in (data, b'["\\ud800",' + data + b"]"):
        with pytest.raises(PeerError):
            parse_json(text)


def test_p4_a_string_that_holds_half_a_pair_itself_is_mended():
    assert parse_json('["a\ud800", {"\udc00": 1}]') == ["a\ufffd", {"\ufffd": 1}]


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("levels", [129, 1_000, 1_024, 100_000])
@pytest.mark.parametrize("half_a_pair", ["", '"\\ud800",'])
def test_p14_no_nesting_raises_anything_but_a_peer_error(opening, levels, half_a_pair):
    closing = {"[": "]", '{"a":': "}", '[{"a":': "}]"}[opening]
    for text in (opening * levels, opening * levels + "1" + closing * levels):
        with pytest.raises(PeerError):
            parse_json("[" + half_a_pair + text + "]")


def test_p12_a_wider_bound_may_be_asked_for():
    text = "[" * 200 + "]" * 200
    assert parse_json(text, nesting=256) == nested(200)
    with pytest.raises(PeerError, match="199 levels"):
        parse_json(text, nesting=199)


def test_p14_a_refusal_says_nothing_of_the_parser():
    for text in ("{", "[1,]", '"\\ud800', "9" * 5000):
        with pytest.raises(PeerError) as refused:
            parse_json(text)
        assert refused.value.message == "not strict JSON"


# ---- value -> text


@given(JSON)
@settings(max_examples=300 if FULL_FORM else 120)
def test_p4_what_json_can_hold_round_trips_exactly(value):
    assert exactly(parse_json(encode(value))) == exactly(value)


@given(JSON)
def test_p4_the_exact_way_writes_what_any_reader_understands(value):
    assert exactly(json.loads(strict_json._encode_exactly(value))) == exactly(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 1.5]}, '{"b":1,"a":[true,null,1.5]}'),
        (("a", ("b",)), '["a",["b"]]'),
        (OrderedDict(z=1, a=2), '{"z":1,"a":2}'),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}'),
        ({"code": CallCode.TIMEOUT, "close": CloseCode.RESTART}, '{"code":"timeout","close":1012}'),
        (2**64, "18446744073709551616"),
        (-(2**63) - 1, "-9223372036854775809"),
        ({"n": 10**40, "null": None}, '{"n":' + "1" + "0" * 40 + ',"null":null}'),
        ("a\ud800b", '"a\ufffdb"'),
        ({"\udc00": "\ud83c\udf0d"}, '{"\ufffd":"\U0001f30d"}'),
        ("\u2028</script>\x7f", '"\u2028</script>\x7f"'),
        ("a\x00b\n", '"a\\u0000b\\n"'),
        ("null", '"null"'),
    ],
)
def test_p4_encode_writes(value, text):
    assert encode(value) == text.encode()


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another"


@dataclass
class Point:
    x: int = 1


@pytest.mark.parametrize("code", list(CallCode))
def test_a_code_is_written_as_its_string(code):
    assert json.loads(encode({"code": code, "odd": 2**70})) == {"code": str(code), "odd": 2**70}


def test_a_subclass_of_str_is_written_as_the_text_it_holds():
    assert encode([Text("this")]) == b'["this"]'


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (math.nan, "the root"),
        ({"a": [1, {"b": math.inf}]}, "/a/1/b"),
        ([None, -math.inf], "/1"),
        ({"a/b": {"~": math.nan}}, "/a~1b/~0"),
        ({"a": {1: 2}}, "/a"),
        ({"a": {None: 2}}, "/a"),
        ([b"bytes"], "/0"),
        ([{1, 2}], "/0"),
        ({"id": uuid.UUID(int=1)}, "/id"),
        ({"id": uuid.UUID(int=1), "n": None}, "/id"),
        ({"colour": Colour.RED}, "/colour"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "/at"),
        ({"p": [Point()]}, "/p/0"),
        ([1j], "/0"),
        ([object()], "/0"),
        ({"n": 10**INTEGER_DIGITS}, "/n"),
    ],
)
def test_p4_what_json_has_not_is_a_usage_error_at_its_pointer(value, pointer):
    with pytest.raises(UsageError, match=f"^at {pointer}: "):
        encode(value)


def test_p4_a_value_that_holds_itself_ends_in_a_usage_error():
    ring: list[object] = []
    ring.append({"a": ring})
    with pytest.raises(UsageError, match="nested deeper"):
        encode(ring)


def test_p12_encode_writes_as_many_levels_as_it_says_and_no_more():
    assert encode(nested(ENCODED_NESTING_MAX)) == b"[" * 256 + b"]" * 256
    with pytest.raises(UsageError):
        encode(nested(ENCODED_NESTING_MAX + 1))


@given(st.recursive(JSON | st.floats() | st.uuids() | st.binary(max_size=2), st.lists))
def test_p4_encode_writes_strict_json_or_raises_a_usage_error(value):
    try:
        data = encode(value)
    except UsageError:
        return
    assert exactly(parse_json(data)) == exactly(value)


# ---- its size


def within_each_other(levels, make):
    value = 1
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": v}, lambda v: {"b": [1, v]}["b"]])
@pytest.mark.parametrize("most", [1, 2, 16, NESTING_MAX, 200])
def test_p12_a_level_more_than_allowed_is_told_from_the_last_one(make, most):
    deepest = within_each_other(most, make)
    assert size_within(deepest, most) == len(encode(deepest))
    assert size_within(within_each_other(most + 1, make), most) is None


def test_p12_what_orjson_refuses_is_measured_all_the_same():
    for value in (10**30, [10**30], "\ud800", {"a": "\udfff"}):
        assert size_within(value) == len(encode(value))


@given(JSON)
def test_p12_it_is_the_size_of_the_encoded_value(value):
    assert size_within(value) == len(encode(value))


# ---- text


@given(TEXT)
def test_p4_scrub_leaves_what_utf_8_can_hold(text):
    assert scrub(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("\ud800", "\ufffd"),
        ("a\udc00b\ud800", "a\ufffdb\ufffd"),
        ("\ud83c\udf0d", "\U0001f30d"),
        ("\ud83c\ud83c\udf0d", "\ufffd\U0001f30d"),
        ("\U0001f30d\ud83c", "\U0001f30d\ufffd"),
    ],
)
def test_p4_scrub_replaces_each_half_pair(text, clean):
    assert scrub(text) == clean


@pytest.mark.parametrize(
    ("key", "step"), [("a", "a"), ("a/b", "a~1b"), ("~", "~0"), ("~1", "~01"), (3, "3")]
)
def test_escape_writes_one_step_of_a_pointer(key, step):
    assert escape(key) == step


def test_p12_within_nesting_counts_arrays_and_objects():
    assert within_nesting("a", 0)
    assert not within_nesting([], 0)
    assert within_nesting({"a": [1, ()]}, 3)
    assert not within_nesting({"a": [1, ()]}, 2)
    ring: list[object] = []
    ring.append(ring)
    assert not within_nesting(ring)
