"""The text of a call, and what a handler is given of it. Cases C007, C010, C016, C019; P3."""

import json
from typing import Any

import pytest
from ag_ui.core import ToolCallChunkEvent
from tests.acceptance.house import house, more_args, object_of, start_call, streamed

from handspan.testing import ScriptedAgent, call

TEXTS = {"type": "array", "items": {"type": "string"}}
WRITTEN = '["a"]'
"""A list, written once too often."""


def chunk(name: str | None, delta: str) -> Any:
    return ToolCallChunkEvent(tool_call_id="c1", tool_call_name=name, delta=delta)


@pytest.mark.parametrize(
    "step",
    [
        [chunk("search", '{"q"'), chunk("replace", ":"), chunk("search", "1}")],
        [
            start_call("c1", "search"),
            more_args("c1", '{"q":'),
            start_call("c1", "replace"),
            more_args("c1", "1}"),
        ],
    ],
    ids=["in a chunk", "in a start"],
)
async def test_another_name_for_a_call_that_has_one_changes_nothing(step: list[Any]) -> None:
    """C007: never joined to the first, never a second call."""
    async with house(step, "ok") as home:
        handlers = {"search": lambda args: args, "replace": lambda args: args}
        page = await home.page(tools={**handlers, "*": lambda args: args})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert [(c.name, c.args) for c in page.calls] == [("search", {"q": 1})]
        assert [e["toolCallName"] for e in home.events(kind="TOOL_CALL_START")] == ["search"]


NESTED = [
    ({"tags": TEXTS}, {"tags": WRITTEN}, "/tags"),
    ({"by": object_of(tags=TEXTS)}, {"by": {"tags": WRITTEN}}, "/by/tags"),
    ({"rows": {"type": "array", "items": TEXTS}}, {"rows": [["a"], WRITTEN]}, "/rows/1"),
    ({"by": {"type": "object"}}, {"by": '{"a":1}'}, "/by"),
]


@pytest.mark.parametrize(("properties", "args", "place"), NESTED, ids=[c[2] for c in NESTED])
async def test_a_value_that_was_encoded_twice_is_an_error_at_any_depth(
    properties: dict[str, Any], args: dict[str, Any], place: str
) -> None:
    """C010: told with its pointer; the handler does not run, the loop goes on."""
    async with house([call("t", args)], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": object_of(**properties)}, None)})
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.calls == []
        assert home.codes() == ["invalid_arguments"]
        assert place in home.results()[0]["content"]
        assert len(home.steps) == 2


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"anyOf": [{"type": "object"}, {"type": "string"}]}, {}]
)
async def test_a_text_that_looks_like_json_stays_a_text_where_a_text_may_be(schema: Any) -> None:
    """C010: also where the schema takes either."""
    async with house([call("t", {"note": WRITTEN})], "ok") as home:
        page = await home.page(
            tools={"t": ({"parameters": object_of(note=schema)}, lambda args: 1)}
        )
        await page.run("go").finished
        assert [c.args for c in page.calls] == [{"note": WRITTEN}]


NO_NULL = [{"type": "integer"}, {"enum": [1, 2]}, {"const": 1}, {"anyOf": [{"type": "integer"}]}]
WITH_NULL = [
    {"type": ["integer", "null"]},
    {"enum": [1, None]},
    {"const": None},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
]


@pytest.mark.parametrize("optional", NO_NULL, ids=json.dumps)
async def test_null_for_an_optional_field_is_an_error_where_the_author_did_not_allow_it(
    optional: Any,
) -> None:
    """C016: nobody has widened the schema, so nobody may take the null away either."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}, "y": optional}}
    for field in WITH_NULL:
        schema["properties"]["z"] = field  # type: ignore[index]
        async with house([call("t", {"x": 1, "y": None, "z": None})], "ok") as home:
            page = await home.page(tools={"t": ({"parameters": schema}, None)})
            await page.run("go").finished
            assert page.calls == []
            assert home.codes() == ["invalid_arguments"]
            assert "/y" in home.results()[0]["content"]
            assert "/z" not in home.results()[0]["content"]


@pytest.mark.parametrize("nullable", WITH_NULL, ids=json.dumps)
async def test_null_is_kept_where_the_author_allows_it(nullable: Any) -> None:
    """C016: the handler gets the null; a field that was left out stays out."""
    schema = {"type": "object", "properties": {"x": {}, "y": {"type": "integer"}, "z": nullable}}
    async with house([call("t", {"x": 1, "z": None})], "ok") as home:
        page = await home.page(tools={"t": ({"parameters": schema}, lambda args: 1)})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [{"x": 1, "z": None}]


async def test_a_call_is_the_same_however_its_text_is_cut() -> None:
    """C019: whole in one chunk with its name, by characters, behind an empty delta; live too."""
    raw = '{"city":"Zürich","n":[1,2.50]}'
    ways: list[list[Any]] = [
        [chunk("t", raw)],
        [chunk("t", ""), *(chunk(None, letter) for letter in raw)],
        streamed("c1", "t", raw),
        streamed("c1", "t", "", *raw),
        [call("t", raw, id="c1")],
    ]
    seen = set()
    for way in ways:
        async with house(way, "ok") as home:
            page = await home.page(tools={"t": lambda args: 1})
            await page.run("go").finished
            told = "".join(e["delta"] for e in page.events if e["type"] == "TOOL_CALL_ARGS")
            (held,) = page.calls
            seen.add((held.call_id, held.name, json.dumps(held.args), held.raw_args, told))
    assert seen == {("c1", "t", json.dumps(json.loads(raw)), raw, raw)}


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 1_000])
async def test_a_scripted_agent_may_choose_how_a_call_is_cut(chunk_size: int) -> None:
    """C019: what tests of agents rely on."""
    agent = ScriptedAgent([[call("t", {"a": "😀é", "b": [1]})], "ok"], chunk=chunk_size)
    async with house(agent=agent) as home:
        page = await home.page(tools={"t": lambda args: args})
        await page.run("go").finished
        assert [c.args for c in page.calls] == [{"a": "😀é", "b": [1]}]
