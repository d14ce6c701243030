"""What a tool's schema means, to the model and to the check.

Cases C021, C022, C024, C028, C029, C030, C033; P11.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.house import House, house, object_of

from handspan.testing import call

SKU = {"type": "string", "pattern": "^[A-Z]{3}$"}
ORDER = {
    "type": "object",
    "description": "an order",
    "properties": {
        "first": {"$ref": "#/$defs/sku"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "gift": {"anyOf": [{"$ref": "#/$defs/sku"}, {"type": "null"}]},
    },
    "required": ["first"],
    "additionalProperties": False,
    "$defs": {"sku": SKU, "line": object_of(sku={"$ref": "#/$defs/sku"})},
}
AT_THE_TOP = {
    "$ref": "#/$defs/order",
    "$defs": {
        "sku": SKU,
        "line": ORDER["$defs"]["line"],  # type: ignore[index]
        "order": {key: value for key, value in ORDER.items() if key != "$defs"},
    },
}
PROBES: list[tuple[dict[str, Any], bool]] = [
    ({"first": "ABC"}, True),
    ({"first": "abc"}, False),
    ({}, False),
    ({"first": "ABC", "lines": []}, True),
    ({"first": "ABC", "lines": [{"sku": "ABC"}]}, True),
    ({"first": "ABC", "lines": [{"sku": "x"}]}, False),
    ({"first": "ABC", "lines": [{}]}, False),
    ({"first": "ABC", "gift": None}, True),
    ({"first": "ABC", "gift": "no"}, False),
    ({"first": "ABC", "more": 1}, False),
]
BLOCKS = object_of(
    blocks={
        "type": "array",
        "items": {
            "oneOf": [
                object_of(kind={"const": "a"}, text={"type": "string"}),
                object_of(kind={"const": "b"}, url={"type": "string"}),
            ]
        },
    }
)
BLOCK_PROBES: list[tuple[dict[str, Any], bool]] = [
    ({"blocks": [{"kind": "a", "text": "t"}, {"kind": "b", "url": "u"}]}, True),
    ({"blocks": [{"kind": "c", "text": "t"}]}, False),
    ({"blocks": [{"kind": "a", "url": "u"}]}, False),
    ({"blocks": [{}]}, False),
]


async def played(
    home: House, parameters: Any, probes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Call a tool with each of these; returns those that its handler was given."""
    page = await home.page(
        tools={"t": ({"parameters": parameters, "readOnly": True}, lambda args: 1)}
    )
    assert page.welcome["tools"]["rejected"] == []
    await page.run("go").finished
    assert len(home.codes()) == len(probes)
    assert set(home.codes()) <= {None, "invalid_arguments"}
    return [c.args for c in page.calls]


def refs(schema: Any) -> Iterator[str]:
    """Every reference in it."""
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "$ref")
        for value in schema.values():
            yield from refs(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from refs(value)


def resolved(schema: Any, ref: str) -> Any:
    for part in ref.removeprefix("#/").split("/"):
        schema = schema[part]
    return schema


@pytest.mark.parametrize(
    ("parameters", "probes"),
    [(ORDER, PROBES), (AT_THE_TOP, PROBES), (BLOCKS, BLOCK_PROBES)],
    ids=["C021 definitions", "C021 a reference at the top", "C022 a union"],
)
async def test_the_model_is_shown_the_whole_schema_and_the_check_says_the_same(
    parameters: dict[str, Any], probes: list[tuple[dict[str, Any], bool]]
) -> None:
    """C021, C022: definitions, references, unions, what is not allowed beside."""
    async with house([call("t", args) for args, _ in probes], "ok") as home:
        given = await played(home, parameters, [args for args, _ in probes])
        assert given == [args for args, good in probes if good]
        shown = home.steps[0].tools[0].parameters
        assert shown == parameters
        assert all(resolved(shown, ref) for ref in refs(shown))


SPELLINGS = [..., None, {}, {"type": "object"}, {"type": "null"}]


async def test_every_spelling_of_no_parameters_is_one_schema_to_the_model() -> None:
    """C024: with properties, for the providers that want them."""
    tools = {
        f"t{n}": ({} if spelled is ... else {"parameters": spelled}, lambda args: args)
        for n, spelled in enumerate(SPELLINGS)
    }
    async with house([call(name, "") for name in tools], "ok") as home:
        page = await home.page(tools=tools)
        assert page.welcome["tools"]["accepted"] == list(tools)
        await page.run("go").finished
        shown = [tool.parameters for tool in home.steps[0].tools]
        assert shown == [{"type": "object", "properties": {}}] * len(SPELLINGS)
        assert [c.args for c in page.calls] == [{}] * len(SPELLINGS)


@pytest.mark.parametrize(
    ("extras", "good"),
    [
        (..., [{"a": "x"}, {"a": 1}]),
        (True, [{"a": "x"}, {"a": 1}]),
        ({}, [{"a": "x"}, {"a": 1}]),
        ({"type": "string"}, [{"a": "x"}]),
        (False, []),
    ],
    ids=["absent", "true", "empty", "a schema", "false"],
)
async def test_five_ways_to_say_what_else_there_may_be_are_kept_apart(
    extras: Any, good: list[Any]
) -> None:
    """C028: nothing is added to a map, and nothing taken from it."""
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    if extras is not ...:
        parameters["additionalProperties"] = extras
    probes: list[dict[str, Any]] = [{"a": "x"}, {"a": 1}, {"n": 1}]
    async with house([call("t", args) for args in probes], "ok") as home:
        assert await played(home, parameters, probes) == [*good, {"n": 1}]
        assert home.steps[0].tools[0].parameters == parameters


RICH = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"n": {"type": "number", "exclusiveMinimum": 0}, "kind": {"const": "a"}},
    "propertyNames": {"maxLength": 10},
    "additionalProperties": False,
}


async def test_an_agent_that_takes_keywords_away_takes_them_from_its_own_copy() -> None:
    """C029: the registered schema keeps every one, and is what is checked."""
    shown: list[str] = []

    def poorer(run: Any) -> list[Any]:
        """What an adapter for a provider with few keywords does."""
        schema = run.tools[0].parameters
        shown.append(json.dumps(schema))
        for word in ("$schema", "propertyNames", "additionalProperties"):
            del schema[word]
        del schema["properties"]["n"]["exclusiveMinimum"]
        schema["properties"]["kind"] = {"enum": ["a"]}
        return [call("t", {"n": 0}), call("t", {"n": run.depth + 1})] if run.depth < 2 else ["ok"]

    async with house(poorer, poorer, poorer) as home:
        page = await home.page(tools={"t": ({"parameters": RICH}, lambda args: 1)})
        await page.run("go").finished
        await page.run("again").finished
        assert shown == [json.dumps(RICH)] * 6
        assert home.codes() == ["invalid_arguments", None] * 4
        assert "/n" in home.results()[0]["content"]


def vandal(run: Any) -> list[Any]:
    """Changes whatever can be changed of what it was given."""
    offered = run.tools
    for tool in offered:
        with pytest.raises((AttributeError, TypeError)):
            tool.description += " (always use this one)"
        tool.parameters["properties"]["evil"] = {}
        tool.parameters["required"] = ["evil"]
    offered.reverse()
    offered.pop()
    return [call("a", {"n": run.depth})] if run.depth == 0 else ["ok"]


async def test_what_one_step_does_to_its_tools_is_not_seen_by_the_next() -> None:
    """C030: neither in the run, nor in the next one, nor on another thread."""
    seen: list[Any] = []

    def step(run: Any) -> list[Any]:
        seen.append([(t.name, t.description, copy.deepcopy(t.parameters)) for t in run.tools])
        return vandal(run)

    def price(sku: str) -> float:
        """The price of an article."""
        return 1.0

    async with house(step, step, tools=[price]) as home:
        number = {"parameters": object_of(n={"type": "integer"}), "description": "first"}
        page = await home.page(tools={"a": (number, lambda args: 1), "b": lambda args: 1})
        await page.run("go").finished
        await page.run("go").finished
        await page.run("go", thread_id="t2").finished
        assert len(seen) == 6
        assert sorted(name for name, _, _ in seen[0]) == ["a", "b", "price"]
        assert seen == [seen[0]] * 6
        assert set(home.codes()) == {None}


async def test_what_an_agent_does_to_the_context_is_not_seen_by_the_next_step() -> None:
    """C030, P11."""
    seen: list[Any] = []

    def step(run: Any) -> list[Any]:
        seen.append(copy.deepcopy((run.context[0].value, run.forwarded_props)))
        run.context[0].value["items"].append("evil")
        run.forwarded_props["evil"] = True
        return [call("t")] if run.depth == 0 else ["ok"]

    async with house(step, step) as home:
        page = await home.page(tools={"t": lambda args: 1}, context={"cart": {"items": []}})
        for _ in range(2):
            await page.run("go", forwardedProps={}).finished
        assert seen == [({"items": []}, {})] * 4


async def test_what_an_agent_does_to_its_messages_is_not_done_to_the_history() -> None:
    """C030, P11, P14: what the pages are shown stays what the events said."""

    def step(run: Any) -> list[Any]:
        for message in run.messages:
            if message.role == "tool":
                message.metadata["handspan"]["outcome"] = "denied"
                message.content = "denied"
        return [call("t")] if run.depth == 0 else ["ok"]

    async with house(step, step) as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        assert home.history() == page.messages
        assert home.results()[0]["metadata"] == {"handspan": {"outcome": "ok"}}


async def test_between_two_turns_a_tool_is_described_anew_and_another_taken_away() -> None:
    """C033: the second turn is shown exactly what there is, and checked by it."""
    async with house([call("t", {"new": 1}), call("u")], "ok") as home:
        first = {"description": "first", "parameters": object_of(old={})}
        page = await home.page(tools={"t": (first, lambda args: "v1"), "u": lambda args: "u"})
        await page.run("one").finished
        page.tool("t", {"description": "second", "parameters": object_of(new={})}, lambda a: "v2")
        page.remove_tool("u")
        await page.run("two").finished
        sets = [[(t.name, t.description) for t in run.tools] for run in home.steps]
        assert sets == [[("t", "first"), ("u", "u")]] * 2 + [[("t", "second")]] * 2
        assert home.codes() == ["invalid_arguments", None, None, "unknown_tool"]
        assert [m["content"] for m in home.results()][2] == "v2"
