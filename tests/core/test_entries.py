"""What is kept: entries by scope, part and name; and that `keeping` writes no others."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest
from tests.core.scenarios import KEY

from handspan.core import entries
from handspan.core.entries import Change, Drop, Entry, Put
from handspan_protocol.ids import SessionId


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
