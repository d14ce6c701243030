"""Reading tools: P11, P13, P14. Vectors tools.jsonl."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.values import ATOMS, JSON
from tests.protocol.vectors import cases, each

from handspan_protocol.codec import encode
from handspan_protocol.errors import ToolCode
from handspan_protocol.tools import _READERS, Refusal, Tool, parameters_of, read_tool, to_wire

SMALL = {"name": "set_theme", "description": "Sets the theme."}
NOTHING = {"type": "object", "properties": {}}
GOOD = [case for case in cases("tools.jsonl") if case["ok"]]


@each("tools.jsonl")
def test_p14_a_tool_is_read_or_refused_with_its_code(case):
    read = read_tool(case["tool"])
    if case["ok"]:
        assert isinstance(read, Tool)
        if "parameters" in case:
            assert parameters_of(read) == case["parameters"]
    else:
        assert isinstance(read, Refusal)
        assert read.code == case["code"]
        assert read.message


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["name"])
def test_p11_what_is_written_is_read_back_as_the_same_tool(case):
    tool = read_tool(case["tool"])
    assert isinstance(tool, Tool)
    assert read_tool(to_wire(tool)) == tool
    encode(to_wire(tool))


def test_defaults_are_not_written():
    tool = read_tool({**SMALL, "followUp": True, "available": True, "readOnly": False})
    assert isinstance(tool, Tool)
    assert to_wire(tool) == SMALL


def test_every_field_has_its_wire_name():
    wire = {
        **SMALL,
        "parameters": NOTHING,
        "title": "Theme",
        "returns": False,
        "agent": "a",
        "available": False,
        "followUp": False,
        "approval": "always",
        "timeoutMs": 5,
        "readOnly": True,
        "idempotent": True,
        "consequential": True,
        "untrusted": True,
        "parallel": True,
    }
    tool = read_tool(wire)
    assert tool == Tool(
        name="set_theme",
        description="Sets the theme.",
        parameters=NOTHING,
        title="Theme",
        returns=False,
        agent="a",
        available=False,
        follow_up=False,
        approval="always",
        timeout_ms=5,
        read_only=True,
        idempotent=True,
        consequential=True,
        untrusted=True,
        parallel=True,
    )
    assert to_wire(tool) == wire


def test_p13_a_refusal_repeats_the_name_cut_to_64_characters():
    def named(name):
        refusal = read_tool({"name": name, "description": "d"})
        assert isinstance(refusal, Refusal)
        return refusal.name

    assert named("my tool") == "my tool"
    assert named("x" * 65) == "x" * 64
    assert named("a\ud800") == "a\ufffd"
    assert named(5) == named(None) == named("") == ""


@pytest.mark.parametrize("field", ["description", "title", "agent"])
def test_p4_half_a_pair_in_a_text_of_a_tool_is_mended(field):
    tool = read_tool({**SMALL, field: "a\ud800"})
    assert getattr(tool, field) == "a\ufffd"


def test_p14_a_refusal_names_the_field():
    refusal = read_tool({**SMALL, "timeoutMs": "soon"})
    assert refusal == Refusal(
        "set_theme", ToolCode.BAD_SCHEMA, "timeoutMs must be a positive integer"
    )


def test_the_bound_of_a_description_may_be_another():
    assert isinstance(read_tool({"name": "a", "description": "dd"}, description_chars=1), Refusal)


def test_p12_the_shortest_time_of_a_tool_is_a_millisecond():
    assert isinstance(read_tool({**SMALL, "timeoutMs": 1}), Tool)
    assert isinstance(read_tool({**SMALL, "timeoutMs": 0}), Refusal)


@pytest.mark.parametrize("read", [read_tool(SMALL), read_tool({})], ids=["tool", "refusal"])
def test_p11_what_was_read_cannot_be_changed(read):
    with pytest.raises(FrozenInstanceError):
        read.name = "other"
    assert not hasattr(read, "__dict__")


def test_an_integral_float_is_an_integer():
    tool = read_tool({**SMALL, "timeoutMs": 60_000.0})
    assert isinstance(tool, Tool)
    assert type(tool.timeout_ms) is int


def test_p11_a_reader_cannot_change_the_tool():
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}}
    tool = read_tool({**SMALL, "parameters": schema})
    assert isinstance(tool, Tool)
    parameters_of(tool)["properties"]["a"]["enum"].append(2)
    to_wire(tool)["parameters"]["properties"].clear()
    assert parameters_of(tool) == {"type": "object", "properties": {"a": {"enum": [1]}}}
    parameters_of(Tool(name="a", description=""))["properties"]["x"] = 1
    assert parameters_of(Tool(name="a", description="")) == NOTHING


def test_p11_a_schema_that_nothing_satisfies_stays_one():
    assert parameters_of(Tool(name="a", description="", parameters=False)) == {
        "type": "object",
        "not": {},
    }


FIELDS = st.sampled_from(["name", "description", *_READERS])


@given(st.dictionaries(FIELDS | st.text(max_size=5), JSON, max_size=5) | JSON)
def test_p14_reading_never_raises(raw):
    assert isinstance(read_tool(raw), Tool | Refusal)


@given(
    st.sampled_from(sorted(_READERS)),
    ATOMS | st.lists(ATOMS, max_size=1),
)
def test_p14_one_odd_field_is_read_or_named(field, value):
    read = read_tool({**SMALL, field: value})
    if isinstance(read, Refusal):
        assert read.message.startswith(field)
        assert read.code is ToolCode.BAD_SCHEMA
