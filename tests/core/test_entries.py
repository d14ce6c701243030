"""What is kept: entries by scope, part and name; and that `keeping` writes no others."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest
from tests.core.scenarios import KEY

from handspan.core import entries
from handspan.core.entries import KEPT_NESTING, Change, Drop, Entry, Put, as_text, read
from handspan_protocol.codec import encode
from handspan_protocol.errors import PeerError, UsageError
from handspan_protocol.ids import SessionId
from handspan_protocol.strict_json import ENCODED_NESTING_MAX as WRITTEN


def test_a_change_puts_one_entry_or_drops_one_or_a_part_or_all():
    assert set(get_args(Change)) == {Put, Drop}
    assert Put(KEY, "message", "m1", b"{}") == Put(KEY, "message", "m1", b"{}")
    assert Drop(KEY) == Drop(KEY, None, None) != Drop(KEY, "message") != Drop(KEY, "message", "m1")
    assert Drop(SessionId("s")).scope == "s"


def test_an_entry_is_what_a_put_leaves():
    put = Put(KEY, "message", "m1", b"{}")
    assert Entry(put.part, put.name, put.body) == ("message", "m1", b"{}")


@pytest.mark.parametrize("change", [Put(KEY, "run", "r", b"1"), Drop(KEY)])
def test_a_change_is_nobodys_to_change(change):
    with pytest.raises(FrozenInstanceError):
        change.part = "message"


def test_every_part_that_there_is_stands_in_the_table():
    rows = [line.split("|") for line in (entries.__doc__ or "").splitlines() if "|" in line]
    parts = {part for row in rows[2:] for part in row[2].replace(" ", "").split(",")}
    assert parts == {
        *("about", "state", "message", "used", "request", "run", "call"),
        *("self", "tools", "context", "reply"),
    }


# ---- values inside entries ----------------------------------------------------------------------


def nested(depth):
    """Lists in lists."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [0, 1, 127, 250, WRITTEN])
def test_p16_what_can_be_written_can_be_read_also_inside_an_entry(depth):
    value = nested(depth)
    entry = encode({"value": as_text(value)})
    assert read(read(entry)["value"]) == value
    assert read(encode(value)) == value


def test_what_cannot_be_written_is_told_to_who_writes():
    with pytest.raises(UsageError):
        as_text(nested(WRITTEN + 1))
    with pytest.raises(UsageError):
        as_text(object())


@pytest.mark.parametrize("body", [b"", b"{", "{'a': 1}", b"[" * (KEPT_NESTING + 1)])
def test_what_somebody_else_wrote_is_told_as_theirs(body):
    with pytest.raises(PeerError):
        read(body)
