"""Which strings may name something: P13."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.vectors import PROTOCOL

from handspan_protocol.ids import (
    ERROR_CODE_PATTERN,
    WILDCARD,
    is_error_code,
    is_id,
    is_tool_name,
)


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("Az09_.:-", True), ("x" * 128, True), ("__proto__", True)]
    + [(bad, False) for bad in ("", "x" * 129, "a b", "a\n", "\n", "a/b", "\u00e9", "\u0663", "*")],
)
def test_p13_an_id_is_a_full_match(text, good):
    assert is_id(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("a.b", True), ("a_b", True), ("*", True), ("x" * 64, True), ("toString", True)]
    + [(bad, False) for bad in ("", "x" * 65, "**", "*a", "a:b", "a b", "a\n", "*\n", "\u0663")],
)
def test_p13_a_tool_name_is_a_full_match_or_the_wildcard(text, good):
    assert is_tool_name(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("not_there", True), ("404", True), ("x" * 64, True)]
    + [(bad, False) for bad in ("", "Bad", "a-b", "x" * 65, "a\n", "\u00e9")],
)
def test_a_page_error_code_is_a_full_match(text, good):
    assert is_error_code(text) is good


LETTERS = "abcdefghijklmnopqrstuvwxyz"
ID_CHARS = set(LETTERS + LETTERS.upper() + "0123456789_.:-")


@given(st.text(st.sampled_from(sorted(ID_CHARS)) | st.characters(), max_size=130))
def test_p13_an_id_is_made_of_so_many_of_these_characters(text):
    assert is_id(text) is (1 <= len(text) <= 128 and set(text) <= ID_CHARS)


@given(st.text(st.sampled_from(sorted(ID_CHARS)) | st.characters(), max_size=66))
def test_p13_a_tool_name_is_a_short_id_without_a_colon_or_the_wildcard(text):
    short = is_id(text) and len(text) <= 64 and ":" not in text
    assert is_tool_name(text) is (short or text == WILDCARD)


def test_p13_the_wildcard_is_no_id():
    assert is_tool_name(WILDCARD)
    assert not is_id(WILDCARD)


def test_a_page_judges_its_error_codes_by_the_same_pattern():
    page = PROTOCOL.parent / "bridge" / "handspan" / "client" / "core" / "protocol.js"
    (theirs,) = re.findall(r"ERROR_CODE = /\^(.*)\$/;", page.read_text(encoding="utf-8"))
    assert theirs == ERROR_CODE_PATTERN
