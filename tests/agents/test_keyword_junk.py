"""Whatever a message, a schema, a context or a result says, the keyword agent answers, and soon."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.keyword_tools import BOARD, CARDS, TEXT, heard, takes, tool

from handspan import CallResult
from handspan.schema import CompiledSchema, SchemaRoom
from handspan_protocol.errors import UsageError
from handspan_protocol.strict_json import encode

Json = Any

_WORDS = """
    add move remove milk to todo done it them and then , ; . ! ? : = ( ) { } [ ] " ' “ ” the a card
    called with name email seats 2 -1 1e9 0.5 two % dark light not on off call use run make_coffee
    slow everything newsletter ada@example.org https://x.y/z {"a":1} 🥛 ß İ ﷺ
"""
WORDS = st.sampled_from([*_WORDS.split(), "\x00", "\u202e", "\n"])
MESSAGES = st.one_of(
    st.text(max_size=300),
    st.lists(WORDS, max_size=40).map(" ".join),
    st.lists(WORDS, max_size=40).map("".join),
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
_KEYS = """
    type properties required items enum const anyOf oneOf allOf $ref $defs minimum maximum format
    description minProperties additionalProperties not title a
"""
KEYS = st.sampled_from(_KEYS.split())
WORTHS = st.sampled_from(
    ["string", "object", "integer", "number", "boolean", "array", "null", "#", "#/", "#/$defs/a",
     "#/properties/a", True, False, None, 0, -1, 1e300, [], {}, ["string", "null"], ["a"],
     ["milk", 2, None, True], "email"]
)  # fmt: skip
SCHEMAS = st.recursive(
    st.booleans() | st.dictionaries(KEYS, WORTHS, max_size=4),
    lambda inner: st.dictionaries(
        KEYS,
        inner
        | WORTHS
        | st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "to", "name", "newMilk", ""]), inner, max_size=3),
        max_size=5,
    ),
    max_leaves=15,
)


@given(said=MESSAGES)
@settings(max_examples=300, deadline=None)
async def test_any_message_is_answered_and_every_call_fits_its_schema(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.said
    judges = {each.name: SchemaRoom().compile(each.parameters) for each in BOARD}
    for name, args in step.calls:
        encode(args)
        judge = judges.get(name)
        assert judge is None or (isinstance(judge, CompiledSchema) and not judge.problems(args))


@given(
    schema=SCHEMAS,
    said=st.sampled_from(
        ["paint", "paint milk", "paint a 2 and to milk", "help", "call paint {}", 'paint "x"']
    ),
    title=st.text(max_size=20),
)
@settings(max_examples=400, deadline=None)
async def test_any_schema_is_read(schema: Json, said: str, title: str) -> None:
    step = await heard(said, [tool("paint", title, schema, title)])
    assert step.said
    for _, args in step.calls:
        judge = SchemaRoom().compile(schema)
        assert not isinstance(judge, CompiledSchema) or not judge.problems(args)


@given(value=VALUES, outcome=st.sampled_from(["ok", "error", "denied", "x"]))
@settings(max_examples=200, deadline=None)
async def test_any_result_and_any_context_is_told_shortly(value: Json, outcome: str) -> None:
    results = [CallResult(outcome=outcome, value=value, name="x", call_id="c")] * 2
    step = await heard("move a to done", things=value, results=results)
    assert 0 < len(step.said) < 1_500
    assert (await heard("move a to done", things=value)).said


@pytest.mark.parametrize(
    "said",
    [
        "", " ", "\n" * 50, "a" * 100_000, "add milk " * 11_000, "and add milk " * 9_000,
        '"' * 100_000, "“" * 100_000, " '" * 50_000, "." * 100_000, "🥛 " * 30_000, "a@" * 50_000,
        "a@a." * 25_000, "1" * 100_000, "1." * 50_000, " " * 100_000, "name=" * 20_000,
        "add a, " * 15_000, "the " * 25_000, "call " * 20_000, "call x " + "[" * 100_000,
        'call x {"a":' + "[" * 100_000, 'call x {"a":' * 9_000, "2 " * 50_000, "to do " * 17_000,
        "http://" * 15_000, "move it and " * 9_000, "\x00\x01" * 50_000,
    ],
)  # fmt: skip
async def test_p12_a_message_of_any_size_costs_a_bounded_look(said: str) -> None:
    """Bounded by what is looked at, not by a clock: a hang is the suite's guard's."""
    step = await heard(said, things=CARDS)
    assert step.said
    assert len(step.said) < 8_000
    assert len(step.calls) <= 64


async def test_p12_much_context_and_many_tools_are_looked_at_in_part() -> None:
    things = {str(n): [f"thing {n} {m}" for m in range(50)] for n in range(500)}
    tools = [
        tool(f"do_{n}", "Add a thing " * 80, takes("title", title=TEXT, of={"enum": list("abc")}))
        for n in range(600)
    ]
    step = await heard("add milk to b", [*BOARD, *tools], things)
    assert step.calls
    deep: Json = "x"
    for _ in range(400):
        deep = [deep]
    assert (await heard("add milk", things=deep)).calls == [("add_card", {"title": "milk"})]


@pytest.mark.parametrize(
    "raw", ['{"a": NaN}', '{"a": 1e999}', '{"a": 1', "{}}", '{"a": "\\ud800"}']
)
async def test_p4_what_is_no_json_is_never_sent(raw: str) -> None:
    for _, args in (await heard(f"call make_coffee {raw}")).calls:
        assert json.loads(encode(args)) == args


def test_lone_surrogates_are_no_json_of_ours() -> None:
    """Why `encode` above judges: it refuses what JSON cannot hold."""
    with pytest.raises(UsageError):
        encode({"a": float("nan")})
