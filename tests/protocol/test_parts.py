"""What frames are made of: absence, ids, numbers, the small objects (P4, P13, P14)."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest
from pydantic import TypeAdapter, ValidationError

from handspan_protocol import parts
from handspan_protocol.parts import (
    ABSENT,
    Absent,
    Attempt,
    CallId_,
    ClientInfo,
    CommandId,
    ContextItem,
    IfBusy,
    Items,
    JournalEntry,
    Number,
    Offset,
    PageError,
    RunId_,
    SessionClaim,
    Text,
    ThreadId_,
    ThreadWish,
    absent,
)

WHOLE = [
    (ClientInfo, {"name": "handspan-js", "version": "1"}, {}),
    (SessionClaim, {"id": "s", "secret": "x"}, {"id": "s", "secret": "x"}),
    (ThreadWish, {"threadId": "t", "epoch": "e", "offset": 0}, {"threadId": "t"}),
    (JournalEntry, {"callId": "c", "attempt": 1, "state": "done"}, None),
    (ContextItem, {"name": "n", "description": "d", "value": [1]}, {"name": "n"}),
    (PageError, {"message": "m", "code": "c", "data": {"a": 1}}, {"message": "m"}),
]
"""Each part, one with all its fields, and the least that is one."""


def read(kind, value):
    return TypeAdapter(kind).validate_python(value)


def refuses(kind, value):
    try:
        read(kind, value)
    except ValidationError:
        return True
    return False


# ---- absence


def test_p4_absent_is_itself_wherever_it_goes():
    """The machines' inputs are copied and recorded (P15); what is ABSENT stays so."""
    assert absent() is ABSENT
    assert copy.deepcopy(ABSENT) is ABSENT
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    assert list(Absent) == [ABSENT]


@pytest.mark.parametrize("value", [None, False, 0, "", "absent", [], {}])
def test_p4_no_json_value_is_absent(value):
    assert value is not ABSENT
    assert value != ABSENT


def test_p4_a_text_that_is_null_is_empty_and_no_other_text_changes():
    assert read(Text, None) == ""
    assert read(Text, "a") == "a"
    assert refuses(Text, 0)
    assert refuses(Text, False)


# ---- ids and numbers


@pytest.mark.parametrize("kind", [ThreadId_, RunId_, CallId_])
def test_p13_an_id_of_a_frame_is_a_full_match(kind):
    assert read(kind, "Az09_.:-") == "Az09_.:-"
    assert read(kind, "x" * 128) == "x" * 128
    for bad in ("", "x" * 129, "a\n", "\na", "a b", "é", 5, None):
        assert refuses(kind, bad)


def test_p12_the_id_of_a_command_has_1_to_256_characters_of_any_kind():
    assert read(CommandId, "\n") == "\n"
    assert read(CommandId, "x" * 256) == "x" * 256
    for bad in ("", "x" * 257, 7, None):
        assert refuses(CommandId, bad)


@pytest.mark.parametrize(("kind", "least"), [(Attempt, 1), (Offset, 0)])
def test_p4_a_count_is_an_integer_and_starts_where_it_does(kind, least):
    assert read(kind, least) == least
    assert read(kind, 2**70) == 2**70
    for bad in (least - 1, 1.5, "1", True, None):
        assert refuses(kind, bad)


def test_p4_a_number_keeps_its_kind():
    assert type(read(Number, 1)) is int
    assert type(read(Number, 1.0)) is float
    for bad in (True, "1", None):
        assert refuses(Number, bad)


def test_a_wish_for_a_busy_thread_is_one_of_three():
    for wish in ("reject", "queue", "replace"):
        assert read(IfBusy, wish) == wish
    assert refuses(IfBusy, "wait")


def test_p12_reading_items_stops_at_the_first_that_is_wrong():
    assert read(Items[int], [1, 2]) == (1, 2)
    with pytest.raises(ValidationError) as caught:
        read(Items[int], ["a", 1, "b", "c"])
    assert [problem["loc"] for problem in caught.value.errors()] == [(0,)]


# ---- the small objects


@pytest.mark.parametrize(("kind", "whole", "least"), WHOLE)
def test_p14_a_part_is_read_from_its_camel_case_fields(kind, whole, least):
    part = read(kind, json.loads(json.dumps(whole)))
    assert [getattr(part, field.name) for field in fields(kind)] == list(whole.values())


@pytest.mark.parametrize(("kind", "whole", "least"), [row for row in WHOLE if row[2] is not None])
def test_p4_null_and_unknown_fields_of_a_part_are_as_if_not_there(kind, whole, least):
    assert read(kind, {**dict.fromkeys(whole), "unknown": 1, **least}) == read(kind, least)


@pytest.mark.parametrize(("kind", "whole", "least"), WHOLE)
def test_p14_a_part_without_a_field_that_it_needs_is_none(kind, whole, least):
    for name in whole if least is None else least:
        assert refuses(kind, {key: value for key, value in whole.items() if key != name})


@pytest.mark.parametrize(("kind", "whole", "least"), WHOLE)
def test_p14_a_part_is_an_object(kind, whole, least):
    for bad in (None, 5, "s", [whole], True):
        assert refuses(kind, bad)


@pytest.mark.parametrize(("kind", "whole", "least"), WHOLE)
def test_a_part_cannot_be_changed(kind, whole, least):
    part = read(kind, whole)
    with pytest.raises(FrozenInstanceError):
        setattr(part, fields(kind)[0].name, "other")
    assert not hasattr(part, "__dict__")


def test_every_part_is_looked_at_here():
    there = {kind for kind in vars(parts).values() if is_dataclass(kind)}
    own = {kind for kind in there if kind.__module__ == parts.__name__}
    assert own == {row[0] for row in WHOLE}


@pytest.mark.parametrize("state", ["received", "started", "done"])
def test_a_journal_entry_is_in_one_of_three_states(state):
    entry = {"callId": "c", "attempt": 1, "state": state}
    assert read(JournalEntry, entry).state == state
    assert refuses(JournalEntry, {**entry, "state": "lost"})


def test_p12_the_name_of_a_context_item_has_1_to_128_characters():
    assert read(ContextItem, {"name": "x" * 128}).name == "x" * 128
    assert refuses(ContextItem, {"name": ""})
    assert refuses(ContextItem, {"name": "x" * 129})
    assert read(ContextItem, {"name": "n", "description": None}).description == ""


def test_p4_a_failure_without_text_is_one():
    """Presence decides: an `error` with an empty message is a failure."""
    assert read(PageError, {"message": ""}).message == ""
