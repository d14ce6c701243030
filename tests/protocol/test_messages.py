"""A user's message from outside: role user and nothing else, text or parts (P14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.protocol.values import JSON

from handspan_protocol import messages
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.limits import PARTS_MAX
from handspan_protocol.messages import parts_json, read_parts, read_user_message

TEXT = {"type": "text", "text": "look"}
IMAGE = {"type": "image", "source": {"type": "url", "value": "https://a/b.png"}}


def refusal(raw, read=read_user_message):
    with pytest.raises(PeerError) as refused:
        read(raw)
    assert refused.value.code is CommandCode.INVALID_FRAME
    return refused.value


@pytest.mark.parametrize(
    ("raw", "content"),
    [
        ("hi", "hi"),
        ("", ""),
        ({"content": "hi"}, "hi"),
        ({"role": "user", "content": "hi"}, "hi"),
        ([TEXT], [TEXT]),
        ({"content": [TEXT, IMAGE]}, [TEXT, IMAGE]),
        ({"content": "hi", "id": None, "name": None, "metadata": None}, "hi"),
        ({"content": "hi", "id": "", "name": ""}, "hi"),
        ({"content": "hi", "toolCalls": [], "unknown": 1}, "hi"),
    ],
)
def test_what_a_user_says_is_a_message_of_role_user(raw, content):
    assert read_user_message(raw) == {"role": "user", "content": content}


def test_id_name_and_metadata_are_kept():
    whole = {"role": "user", "content": "hi", "id": "m1", "name": "Ada", "metadata": {"a": [1]}}
    assert read_user_message(whole) == whole


@pytest.mark.parametrize("metadata", [5, "text", [1], True])
def test_metadata_that_is_no_object_is_dropped(metadata):
    assert "metadata" not in read_user_message({"content": "hi", "metadata": metadata})


@pytest.mark.parametrize("role", ["assistant", "system", "developer", "tool", "User", 5, ["user"]])
def test_p14_a_page_speaks_as_the_user_and_as_nobody_else(role):
    assert refusal({"role": role, "content": "hi"}).path == "/message/role"


@pytest.mark.parametrize("raw", [None, 5, True, 1.5, ("a",)])
def test_p14_what_is_no_message_is_told(raw):
    assert refusal(raw).path == "/message"


@pytest.mark.parametrize("raw", [{}, {"content": None}, {"content": []}, [], {"content": TEXT}])
def test_p14_a_message_without_content_is_told(raw):
    assert refusal(raw).path == "/message/content"


@pytest.mark.parametrize("key", ["id", "name"])
@pytest.mark.parametrize("value", [5, False, 0, ["m"], {}])
def test_p14_an_id_or_a_name_that_is_no_text_is_told(key, value):
    found = refusal({"content": "hi", key: value})
    assert (found.path, found.message) == (f"/message/{key}", f"{key} must be a string")


@pytest.mark.parametrize("bad", [5, None, {}, {"type": "song"}, {"type": "text"}, "look"])
def test_p14_the_first_part_that_is_none_is_told_and_nothing_of_the_validator(bad):
    found = refusal([TEXT, bad, 7])
    assert found.path == "/message/content/1"
    assert found.message == "not an AG-UI content part"
    assert found.__cause__ is None
    assert found.__suppress_context__


def test_parts_are_written_as_they_came_without_what_is_absent():
    part = {**IMAGE, "source": {**IMAGE["source"], "mimeType": "image/png"}}
    assert read_parts([TEXT, part]) == [TEXT, part]


def test_p4_null_is_absent_in_a_part_and_a_value_in_its_metadata():
    part = TEXT | {"metadata": {"a": None, "b": [None]}}
    assert read_parts([part | {"id": None, "unknown": None}]) == [part]


def test_a_part_is_written_as_json():
    (part,) = messages._parts().validate_python([IMAGE])
    assert parts_json(part) == IMAGE


def test_p12_a_million_bad_parts_cost_what_one_costs():
    """Each is told, for the first to be taken: a `run.start` of 2 MiB takes seven seconds."""
    with pytest.raises(ValidationError) as caught:
        messages._parts().validate_python([0] * 1_000)
    assert caught.value.error_count() == 1


def message_or_refusal(raw):
    try:
        return read_user_message(raw)
    except PeerError as refused:
        return refused


@given(JSON | st.fixed_dictionaries({"content": JSON}) | st.lists(st.just(TEXT) | JSON))
def test_p14_any_value_is_a_message_of_a_user_or_refused_with_its_place(raw):
    found = message_or_refusal(raw)
    if isinstance(found, PeerError):
        assert found.path.startswith("/message")
    else:
        assert found["role"] == "user"
        assert read_user_message(found) == found


def test_p12_parts_are_as_many_as_a_person_sends():
    assert len(read_parts([TEXT] * PARTS_MAX)) == PARTS_MAX
    assert refusal([TEXT] * (PARTS_MAX + 1), read_parts).path == "/message/content"


def test_p14_no_role_is_the_users():
    assert read_user_message({"role": None, "content": "hi"})["role"] == "user"
