"""One page's tools: each judged alone, each refusal with its code (protocol.md 5)."""

import copy

import pytest
from tests.core.builders import COMPILE, spec, specs, takes, tool

from handspan.core.arguments import SchemaRefusal
from handspan.core.policy import Policy
from handspan.core.toolset import BATCH_READ, ToolSet, specify
from handspan_protocol.codec import encode
from handspan_protocol.errors import ToolCode
from handspan_protocol.tools import read_tool

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


def test_p12_what_stands_behind_a_very_long_batch_is_not_read_and_that_is_said():
    tools = toolset(tools=1)
    read = BATCH_READ + 2
    verdict = tools.replace([tool("t"), *[None] * (read - 1), tool("u"), None])
    assert (verdict.accepted, len(verdict.rejected)) == (("t",), read)
    last = verdict.rejected[-1]
    assert (last.name, last.code, last.message) == (
        "",
        "too_many_tools",
        "2 more tools were not read",
    )
    assert BATCH_READ == 1_024
    assert len(tools.replace([tool("t"), *[None] * (read - 1)]).rejected) == read - 1


@pytest.mark.parametrize(("length", "codes"), [(8, []), (9, ["bad_description"])])
def test_p12_a_server_may_want_shorter_descriptions_than_the_protocol_allows(length, codes):
    tools = toolset(description_chars=8)
    verdict = tools.replace([{"name": "t", "description": "d" * length}])
    assert [one.code for one in verdict.rejected] == codes


@pytest.mark.parametrize("field", ["parameters", "returns"])
def test_p14_a_schema_that_is_no_json_is_refused_before_it_is_compiled(field):
    """A page's frame cannot hold one; a program can."""
    bad = tool("t", **{field: {"type": "object", "maxProperties": float("nan")}})
    verdict = toolset().replace([bad, tool("good")])
    assert [(one.name, one.code) for one in verdict.rejected] == [("t", "bad_schema")]
    assert "/maxProperties" in verdict.rejected[0].message
    assert verdict.accepted == ("good",)
    refused = specify(read_tool(bad), NEVER)
    assert isinstance(refused, SchemaRefusal)
    assert refused.code == "bad_schema"


def NEVER(_):
    raise AssertionError("it was compiled")


REFUSED_BY_COMPILING = [
    ("the parameters", {"parameters": {"type": "object", "minProperties": "x"}}),
    ("the result", {"returns": {"type": 7}}),
]


@pytest.mark.parametrize(
    "fields", [c[1] for c in REFUSED_BY_COMPILING], ids=[c[0] for c in REFUSED_BY_COMPILING]
)
def test_a_server_tool_whose_schema_is_none_is_told_why(fields):
    refused = specify(read_tool(tool("t", **fields)), COMPILE)
    assert isinstance(refused, SchemaRefusal)
    assert refused.code == "bad_schema"
    assert refused.message


def test_p11_a_spec_has_judges_of_both_schemas_the_size_and_a_digest_of_its_own():
    made = spec("t", parameters=takes("x", x="integer"), returns={"type": "string"}, invoke=True)
    assert made.arguments.problems({}) != ()
    assert made.arguments.problems({"x": 1}) == ()
    assert [bool(made.returns.problems(value)) for value in ("ok", 1)] == [False, True]
    assert made.invoke is True
    plain = spec("t")
    assert plain.returns is None
    assert specify(read_tool(tool("t")), COMPILE).invoke is False
    assert plain.schema_bytes == len('{"type":"object","properties":{}}')
    assert made.schema_bytes > len('{"type":"string"}') + len(encode(takes("x", x="integer"))) - 1
    assert made.digest != spec("t", parameters=takes("x", x="integer")).digest


def test_p12_refused_schemas_cost_a_batch_too_and_so_does_compiling_the_same_again():
    """One batch compiles at most twice what a page may hold."""
    compiled = []

    def refuse(schema):
        compiled.append(schema)
        return SchemaRefusal(ToolCode.BAD_SCHEMA, "no")

    tools = ToolSet(Policy(schemas_bytes=1_000), refuse, {})
    wide = {"type": "object", "title": "x" * 400}
    verdict = tools.replace([tool(f"t{n}", parameters=wide) for n in range(20)])
    assert len(compiled) == 4
    codes = [one.code for one in verdict.rejected]
    assert codes == ["bad_schema"] * 4 + ["schema_too_large"] * 16


def test_p12_schemas_that_were_removed_or_replaced_make_room():
    wide = takes(**{f"field{n}": "string" for n in range(40)})
    tools = toolset(schemas_bytes=1_500)
    tools.replace([tool("a", parameters=wide)])
    assert [x.code for x in tools.change([tool("b", parameters=wide)], []).rejected] == [
        "schema_too_large"
    ]
    assert tools.change([tool("b", parameters=wide)], ["a"]).accepted == ("b",)
    assert tools.replace([tool("c", parameters=wide)]).accepted == ("c",)
    assert tools.change([tool("c"), tool("d", parameters=wide)], []).accepted == ("c", "d")


EMPTY = len('{"type":"object","properties":{}}')


@pytest.mark.parametrize("spare", [0, -1])
def test_p12_schemas_may_fill_their_room_to_the_last_byte_also_after_changes(spare):
    tools = toolset(schemas_bytes=2 * EMPTY + spare)
    for _ in range(5):
        tools.change([tool("b", title="new")], [])
        tools.replace([tool("a")])
        fits = tools.change([tool("b")], []).rejected == ()
        assert fits is (spare == 0)
        assert tools.change([tool("a", title="new")], []).rejected == ()
        tools.change([], ["b"])


@pytest.mark.parametrize(("most", "judged"), [(2 * EMPTY, 4), (2 * EMPTY - 1, 3)])
def test_p12_one_batch_compiles_twice_the_room_to_the_last_byte(most, judged):
    compiled = []

    def refuse(schema):
        compiled.append(schema)
        return SchemaRefusal(ToolCode.BAD_SCHEMA, "no")

    tools = ToolSet(Policy(schemas_bytes=most), refuse, {})
    tools.replace([tool(f"t{n}") for n in range(10)])
    assert len(compiled) == judged


# ---- over a restart -----------------------------------------------------------------------------


def test_p16_a_set_is_had_again_but_for_names_that_the_server_has_by_now():
    tools = ToolSet(Policy(), COMPILE, specs(spec("taken"), spec("*")))
    tools.restore(7, [spec("a"), spec("taken"), spec("*")])
    assert (list(tools.current), tools.revision) == (["a", "*"], 7)
    tools.replace([tool("a"), tool("*")])
    assert tools.revision == 7, "the same definitions change nothing"
    tools.replace([tool("a")])
    assert tools.revision == 8
