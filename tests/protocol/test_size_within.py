"""The size and depth of a value in one look, whatever orjson takes (P12)."""

from typing import Any

import pytest
from hypothesis import given
from tests.protocol.values import JSON

from handspan_protocol.codec import encode
from handspan_protocol.limits import NESTING_MAX
from handspan_protocol.strict_json import size_within


def nested(levels: int, make: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": v}, lambda v: {"b": [1, v]}["b"]])
@pytest.mark.parametrize("most", [1, 2, 16, NESTING_MAX, 200])
def test_p12_a_level_more_than_allowed_is_told_from_the_last_one(make: Any, most: int) -> None:
    assert size_within(nested(most, make), most) == len(encode(nested(most, make)))
    assert size_within(nested(most + 1, make), most) is None


def test_p12_what_orjson_refuses_is_measured_all_the_same() -> None:
    for value in (10**30, [10**30], "\ud800", {"a": "\udfff"}):
        assert size_within(value) == len(encode(value))


@given(JSON)
def test_p12_it_is_the_size_of_the_encoded_value(value: Any) -> None:
    assert size_within(value) == len(encode(value))
