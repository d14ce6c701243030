"""Whatever a message, a schema, a context or a result says, the keyword agent answers, and soon."""

import json
from threading import get_ident
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.keyword_tools import BOARD, CARDS, TEXT, heard, takes, tool
from tests.conftest import FULL_FORM

from handspan import CallResult
from handspan.agents.keyword import matching, understanding
from handspan.agents.keyword.memory import Names
from handspan.agents.keyword.params import ALL_CHOICES_MAX, ALL_PARAMS_MAX
from handspan.agents.keyword.skill import Skill, skills_of
from handspan.agents.keyword.tokens import Clause
from handspan.schema import CompiledSchema, SchemaRoom
from handspan_protocol.errors import UsageError
from handspan_protocol.strict_json import encode
from handspan_protocol.tools import Tool

Json = Any
TIMES = 500 if FULL_FORM else 30

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
@settings(max_examples=TIMES * 3)
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
@settings(max_examples=TIMES * 4)
async def test_any_schema_is_read(schema: Json, said: str, title: str) -> None:
    step = await heard(said, [tool("paint", title, schema, title)])
    assert step.said
    for _, args in step.calls:
        judge = SchemaRoom().compile(schema)
        assert not isinstance(judge, CompiledSchema) or not judge.problems(args)


@given(value=VALUES, outcome=st.sampled_from(["ok", "error", "denied", "x"]))
@settings(max_examples=TIMES * 2)
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


def picking(tools: int, params: int, choices: int) -> list[Tool]:
    """So many tools with so many parameters, each of so many choices."""
    enum = {"enum": [f"w{n}" for n in range(choices)]}
    schema = takes(**{f"p{n}": enum for n in range(params)})
    return [tool(f"pick_{n}", "Pick", schema) for n in range(tools)]


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools that were weighed against a clause, one for each time."""
    names: list[str] = []

    def note(clause: Clause, skill: Skill, known: Names) -> matching.Match | None:
        names.append(skill.name)
        return match_of(clause, skill, known)

    match_of = matching.match_of
    monkeypatch.setattr(matching, "match_of", note)
    monkeypatch.setattr(understanding, "match_of", note)
    return names


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("move tea to done" + ", in done" * 500, BOARD),
        ("move tea to done " + "and in doing " * 300, BOARD),
        ("pick w3 and w4 in w5, " * 200, picking(16, 64, 60)),
        ("pick w3 and w4 in w5, " * 200, picking(128, 1, 500)),
        ("add milk and " * 300, picking(32, 8, 250)),
    ],
)
async def test_p12_the_tools_weighed_are_bounded_whatever_is_said(
    said: str, tools: list[Tool], weighed: list[str]
) -> None:
    assert (await heard(said, tools, CARDS)).said
    assert len(weighed) <= 3 * understanding.CUTS_MAX * matching.CONSIDERED


async def test_p12_twice_as_many_clauses_are_twice_the_work(weighed: list[str]) -> None:
    await heard("move tea to done" + ", in done" * 6, things=CARDS)
    few = len(weighed)
    await heard("move tea to done" + ", in done" * 12, things=CARDS)
    assert 0 < len(weighed) - few <= 2.5 * few


async def test_p12_choices_are_read_up_to_a_number_of_all_tools_together() -> None:
    tools = picking(16, 64, 60)
    read = [param for skill in skills_of(tools) for param in skill.params]
    assert len(read) == ALL_PARAMS_MAX
    assert sum(len(param.choices) for param in read) == ALL_CHOICES_MAX
    assert (await heard("call pick_15 with p0 w3", tools)).calls == [("pick_15", {"p0": "w3"})]


async def test_the_thinking_is_done_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def note(tools: Any) -> tuple[Skill, ...]:
        seen.append(get_ident())
        return skills_of(tools)

    monkeypatch.setattr("handspan.agents.keyword.agent.skills_of", note)
    assert (await heard("make it dark")).calls
    assert seen
    assert get_ident() not in seen


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
