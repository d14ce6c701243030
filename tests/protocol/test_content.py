"""What values mean: P4, P7 (equal results), P10 (digests). Vectors equal.jsonl, results.jsonl."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.values import JSON, exactly
from tests.protocol.vectors import each

from handspan_protocol.content import (
    NO_MESSAGE,
    canonical,
    copy_json,
    digest,
    equal_json,
    error_text,
    page_error_message,
    result_text,
)
from handspan_protocol.errors import CallCode, UsageError
from handspan_protocol.limits import ERROR_MESSAGE_CHARS


@each("equal.jsonl")
def test_p7_equality_is_json_equality(case):
    assert equal_json(case["a"], case["b"]) is case["equal"]
    assert equal_json(case["b"], case["a"]) is case["equal"]


@each("equal.jsonl")
def test_p10_equal_values_and_only_they_have_one_canonical_text(case):
    assert (canonical(case["a"]) == canonical(case["b"])) is case["equal"]
    assert (digest(case["a"]) == digest(case["b"])) is case["equal"]


@given(JSON, JSON)
def test_p10_canonical_texts_are_equal_exactly_when_values_are(a, b):
    assert (canonical(a) == canonical(b)) == equal_json(a, b)


@given(JSON)
def test_p10_a_value_equals_its_canonical_text_read_back(value):
    assert equal_json(json.loads(canonical(value)), value)
    assert canonical(json.loads(canonical(value))) == canonical(value)


NEAR = st.sampled_from([0, 0.0, -0.0, False, None, "", [], {}, 1, 1.0, True, "1", 2**53, 2.0**53])


@given(st.lists(NEAR, max_size=3), st.lists(NEAR, max_size=3))
def test_p7_values_that_python_confuses_are_told_apart(a, b):
    assert equal_json(a, b) == (exactly(a) == exactly(b)) == (canonical(a) == canonical(b))


def test_p10_a_canonical_text_is_compact_ascii_with_sorted_keys():
    assert canonical({"b": [1.0, -0.0, 1.5], "a": "\u00e9"}) == r'{"a":"\u00e9","b":[1,0,1.5]}'


def test_p10_tuples_are_arrays():
    assert canonical((1, (2,))) == canonical([1, [2]])
    assert equal_json((1, (2,)), [1, [2]])


def test_p10_a_digest_is_sha_256_in_hex():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [math.nan, [math.inf], {1: 2}, {"a": b"x"}, [object()], {"a"}])
def test_p4_what_is_not_json_has_no_canonical_text(value):
    with pytest.raises(UsageError):
        canonical(value)


def test_p4_a_value_that_holds_itself_has_no_canonical_text():
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(UsageError):
        canonical(ring)


def test_equality_of_deep_values_needs_no_stack():
    a: list[object] = []
    b: list[object] = []
    for _ in range(5_000):
        a, b = [a], [b]
    assert equal_json(a, b)


@given(JSON)
def test_p11_a_copy_is_equal_and_shares_nothing(value):
    copy = copy_json({"value": value, "list": [value]})
    assert equal_json(copy, {"value": value, "list": [value]})
    if isinstance(value, list | dict):
        assert copy["value"] is not value
        assert copy["list"][0] is not value


@each("results.jsonl")
def test_p4_a_result_reads_in_history_as_the_vector_says(case):
    assert result_text(case["value"]) == case["text"]


def test_p4_a_result_that_is_not_json_has_no_text():
    with pytest.raises(UsageError, match="/a/0"):
        result_text({"a": [math.nan]})


def test_p4_half_a_pair_in_a_result_is_mended():
    assert result_text("\ud800") == "\ufffd"
    assert result_text(["\ud800"]) == '["\ufffd"]'


def test_a_failure_reads_as_json_with_code_and_message():
    assert error_text(CallCode.TIMEOUT, 'no "answer"') == (
        '{"error":{"code":"timeout","message":"no \\"answer\\""}}'
    )
    assert json.loads(error_text("a", "b", errors=[{"path": "/x"}]))["error"]["errors"] == [
        {"path": "/x"}
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u00a0"])
def test_a_page_error_is_never_empty(text):
    assert page_error_message(text) == NO_MESSAGE


def test_a_page_error_that_begins_with_much_space_is_not_empty_when_it_is_cut():
    assert page_error_message(" " * ERROR_MESSAGE_CHARS + "no such row").strip()


def test_p12_a_page_error_is_cut():
    assert page_error_message("x" * 5_000) == "x" * ERROR_MESSAGE_CHARS
    assert page_error_message("a\ud800") == "a\ufffd"
