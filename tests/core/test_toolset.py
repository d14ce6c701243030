"""One page's tools: each judged alone, each refusal with its code (protocol.md 5)."""

import copy

import pytest
from tests.core.builders import COMPILE, spec, specs, takes, tool

from handspan.core.policy import Policy
from handspan.core.toolset import ToolSet

GOOD = [tool("good"), tool("good2")]
REMOTE = {"type": "object", "properties": {"x": {"$ref": "https://example.org/schema.json"}}}
HUGE = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3_000)}}

REFUSED = [
    ("bad_name", {"name": "my tool", "description": "d"}),
    ("bad_name", {"name": "", "description": "d"}),
    ("bad_name", {"name": "поиск", "description": "d"}),
    ("bad_name", {"name": "x" * 65, "description": "d"}),
    ("bad_name", {"name": "**", "description": "d"}),
    ("bad_name", {"name": "t\n", "description": "d"}),
    ("bad_name", {"description": "d"}),
    ("bad_name", "no object"),
    ("bad_name", None),
    ("bad_description", {"name": "t"}),
    ("bad_description", {"name": "t", "description": "d" * 4_097}),
    ("name_taken", tool("srv")),
    ("duplicate_name", tool("good")),
    ("bad_schema", tool("t", parameters={"type": "strng"})),
    ("bad_schema", tool("t", parameters={"type": "object", "$ref": "#/nowhere"})),
    ("bad_schema", tool("t", parameters={"type": "array"})),
    ("bad_schema", tool("t", parameters=[])),
    ("bad_schema", tool("t", returns={"type": 7})),
    ("bad_schema", tool("t", timeoutMs=-1)),
    ("bad_schema", tool("t", approval="sometimes")),
    ("schema_remote_ref", tool("t", parameters=REMOTE)),
    ("schema_too_large", tool("t", parameters=HUGE)),
]


def toolset(**policy):
    return ToolSet(Policy(**policy), COMPILE, specs(spec("srv")))


@pytest.mark.parametrize(("code", "bad"), REFUSED)
def test_p14_a_bad_tool_is_refused_with_its_code_and_harms_none(code, bad):
    """C031, C034, C119."""
    tools = toolset()
    verdict = tools.replace([GOOD[0], bad, GOOD[1]])
    assert [one.code for one in verdict.rejected] == [code]
    assert verdict.rejected[0].message
    assert verdict.accepted == ("good", "good2")
    assert tools.current.keys() == {"good", "good2"}


@pytest.mark.parametrize(
    "name", ["a", "a.b", "a_b", "A-1", "x" * 64, "*", "constructor", "__proto__"]
)
def test_p13_these_are_names(name):
    """C031: a.b and a_b stay two tools."""
    tools = toolset()
    assert tools.replace([tool(name)]).accepted == (name,)
    assert tools.current.keys() == {name}


@pytest.mark.parametrize(
    "parameters",
    [None, {}, {"type": "object"}, {"type": "null"}, True, {"type": "object", "properties": {}}],
)
def test_p11_every_spelling_of_no_parameters_takes_an_empty_object(parameters):
    """C024."""
    tools = toolset()
    tools.replace([tool("t", parameters=parameters)])
    assert tools.current["t"].arguments.problems({}) == ()


def test_p12_more_tools_than_allowed_are_refused_one_by_one():
    tools = toolset(tools=2)
    verdict = tools.replace([tool(f"t{n}") for n in range(4)])
    assert verdict.accepted == ("t0", "t1")
    assert [one.code for one in verdict.rejected] == ["too_many_tools"] * 2
    assert tools.change([tool("t9")], ["t0"]).accepted == ("t9",)
    assert tools.change([tool("t9", title="new")], []).accepted == ("t9",)


def test_p12_schemas_are_bounded_together():
    wide = takes(**{f"field{n}": "string" for n in range(40)})
    tools = toolset(schemas_bytes=1_500)
    verdict = tools.replace([tool("a", parameters=wide), tool("b", parameters=wide), tool("c")])
    assert (verdict.accepted, [x.code for x in verdict.rejected]) == (
        ("a", "c"),
        ["schema_too_large"],
    )
    assert tools.change([tool("a", parameters=wide, title="new")], []).accepted == ("a",)


def test_p9_identical_definitions_change_nothing():
    """C098."""
    tools = toolset()
    tools.replace(GOOD)
    before = tools.revision, tools.current
    for _ in range(50):
        assert tools.replace(copy.deepcopy(GOOD[::-1])).rejected == ()
        tools.change(copy.deepcopy(GOOD), [])
        tools.change([], ["nobody"])
    assert (tools.revision, tools.current) == before


CHANGES = [
    {"description": "another"},
    {"parameters": takes(x="string")},
    {"available": False},
    {"approval": "always"},
    {"title": "t"},
    {"timeoutMs": 5},
    {"readOnly": True},
]


@pytest.mark.parametrize("change", CHANGES)
def test_p11_any_change_of_a_definition_is_a_new_revision_and_digest(change):
    """C033, C151."""
    tools = toolset()
    tools.replace(GOOD)
    revision, digest = tools.revision, tools.current["good"].digest
    tools.change([{**tool("good"), **change}], [])
    assert tools.revision == revision + 1
    assert tools.current["good"].digest != digest


def test_a_set_that_was_handed_out_is_never_changed():
    """C030."""
    tools = toolset()
    tools.replace(GOOD)
    handed, kept = tools.current, dict(tools.current)
    tools.change([tool("new")], ["good"])
    assert handed == kept
    assert tools.current.keys() == {"good2", "new"}


def test_remove_comes_before_add():
    tools = toolset()
    tools.replace(GOOD)
    tools.change([tool("good", title="new")], ["good", "good2"])
    assert tools.current.keys() == {"good"}
    assert tools.current["good"].tool.title == "new"


def test_a_tool_that_is_replaced_by_a_bad_definition_is_gone():
    """What the page has now is not what it had; a call to the old one would reach the new one."""
    tools = toolset()
    tools.replace(GOOD)
    verdict = tools.change([tool("good", parameters={"type": "strng"})], [])
    assert [one.code for one in verdict.rejected] == ["bad_schema"]
    assert tools.current.keys() == {"good2"}
    assert tools.revision == 2


def test_p14_a_name_that_is_too_long_harms_no_tool_that_it_begins_with():
    """A refusal repeats only the beginning of a name that is none."""
    tools = toolset()
    tools.replace([tool("x" * 64)])
    verdict = tools.change([tool("x" * 65)], [])
    assert [one.code for one in verdict.rejected] == ["bad_name"]
    assert tools.current.keys() == {"x" * 64}


def test_p14_a_second_definition_harms_not_the_first_however_bad_it_is():
    tools = toolset()
    verdict = tools.replace([tool("t", title="first"), tool("t", parameters={"type": "strng"})])
    assert verdict.accepted == ("t",)
    assert tools.current["t"].tool.title == "first"


def test_p13_a_page_may_have_a_wildcard_beside_the_servers():
    tools = ToolSet(Policy(), COMPILE, specs(spec("*")))
    assert tools.replace([tool("*")]).accepted == ("*",)
