"""Who answers a call: the order of protocol.md 6, and what a model is shown."""

import pytest
from tests.core.builders import page, spec, specs

from handspan.core.registry import (
    NOBODY_NAMES,
    Found,
    is_withheld,
    offered,
    resolve,
    unknown_tool,
)

T, T_OFF, T_OTHER = spec("t"), spec("t", available=False), spec("t", agent="other")
WILD = spec("*")


def who(name="t", *, agent="default", starter="a", pages=(), server=()):
    found = resolve(name, agent, starter, pages, specs(*server))
    return None if found is None else (found.session or "server", found.spec.name)


def test_p13_a_server_tool_comes_before_every_page():
    """C119."""
    assert who(pages=[page("a", T)], server=[T]) == ("server", "t")


def test_p13_the_page_that_started_the_run_comes_before_the_others():
    """C081."""
    others = [page("b", T, seen_at=9.0), page("a", T, seen_at=1.0)]
    assert who(pages=others) == ("a", "t")
    assert who(pages=others, starter="b") == ("b", "t")


def test_p13_of_the_other_pages_attached_ones_come_first_then_the_last_seen():
    away = page("away", T, seen_at=9.0, attached=False)
    seen = page("seen", T, seen_at=5.0, visible=False)
    old, new = page("old", T, seen_at=2.0), page("new", T, seen_at=3.0)
    order = ["new", "old", "seen", "away"]
    pages = [away, seen, old, new]
    while pages:
        assert who(pages=pages) == (order.pop(0), "t")
        pages = [p for p in pages if p.session in order]


def test_p13_a_run_from_python_has_no_starting_page():
    assert who(starter=None, pages=[page("a", T, seen_at=1.0), page("b", T, seen_at=2.0)]) == (
        "b",
        "t",
    )


def test_p13_exact_names_come_before_every_wildcard():
    """C117: a page's `*` never takes a call that another page has by name."""
    assert who(pages=[page("a", WILD), page("b", T)]) == ("b", "t")
    assert who(pages=[page("a", WILD)], server=[T]) == ("server", "t")


def test_p13_wildcards_of_pages_come_before_the_servers():
    pages = [page("a"), page("b", WILD)]
    assert who(pages=pages, server=[WILD]) == ("b", "*")
    assert who(pages=[page("a", WILD), page("b", WILD)], server=[WILD]) == ("a", "*")
    assert who(pages=[page("a")], server=[WILD]) == ("server", "*")


def test_p13_nobody_has_it():
    assert who(pages=[page("a"), page("b", spec("u"))], server=[spec("v")]) is None


@pytest.mark.parametrize("hidden", [T_OFF, T_OTHER])
def test_p13_a_tool_that_is_not_offered_is_passed_over(hidden):
    assert who(pages=[page("a", hidden), page("b", T)]) == ("b", "t")
    assert who(pages=[page("a", hidden)]) is None
    assert who(server=[hidden]) is None


def test_p13_an_agents_own_tool_is_found_for_it_and_for_a_button():
    pages = [page("a", T_OTHER)]
    assert who(agent="other", pages=pages) == ("a", "t")
    assert who(agent=None, pages=pages) == ("a", "t")


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "T", "t ", "", "t\n"])
def test_p13_a_name_is_looked_up_whole_and_as_it_is(name):
    assert who(name, pages=[page("a", T)], server=[spec("u")]) is None


def test_p13_a_model_that_calls_the_wildcard_by_its_name_gets_the_wildcard():
    assert who("*", pages=[page("a", WILD)]) == ("a", "*")


def test_p13_the_wildcard_is_never_shown_to_a_model():
    shown = offered("default", "a", [page("a", T, WILD)], specs(WILD, spec("srv")))
    assert [one.name for one in shown] == ["srv", "t"]


def test_p13_of_each_name_the_one_that_would_answer_is_shown():
    mine, theirs = spec("t", title="mine"), spec("t", title="theirs")
    pages = [page("b", theirs, spec("u")), page("a", mine)]
    shown = {one.name: one for one in offered("default", "a", pages, {})}
    assert shown["t"].tool.title == "mine"
    assert shown.keys() == {"t", "u"}
    for one in shown.values():
        found = resolve(one.name, "default", "a", pages, {})
        assert found is not None
        assert found.spec is one


def test_p11_looking_changes_nothing():
    """C030."""
    pages, server = [page("a", T, WILD)], specs(spec("srv"))
    before = (list(pages), dict(server), dict(pages[0].tools))
    offered("default", "a", pages, server)
    resolve("t", "default", "a", pages, server)
    assert (pages, server, dict(pages[0].tools)) == before


def test_an_unknown_tool_is_told_with_the_names_there_are():
    """C115."""
    assert "'zz'" in unknown_tool("zz", [T, spec("a")])
    assert "a, t" in unknown_tool("zz", [T, spec("a")])
    assert "none" in unknown_tool("zz", [])
    assert len(unknown_tool("z" * 9_000, [spec(f"t{n}") for n in range(500)])) < 1_000


WITHHELD = [
    ("a page that withholds it", [page("a", T_OFF)], [], True),
    ("the server", [], [T_OFF], True),
    ("one page withholds it, another offers it", [page("a", T), page("b", T_OFF)], [], True),
    ("everybody offers it", [page("a", T)], [T], False),
    ("nobody has it", [page("a", spec("u", available=False))], [], False),
    ("another agent's is not withheld", [page("a", T_OTHER)], [], False),
]


@pytest.mark.parametrize(
    ("pages", "server", "withheld"), [c[1:] for c in WITHHELD], ids=[c[0] for c in WITHHELD]
)
def test_a_name_that_somebody_has_and_does_not_offer_is_withheld(pages, server, withheld):
    assert is_withheld("t", pages, specs(*server)) is withheld


def test_who_answers_is_told_as_a_page_or_the_server():
    mine = page("a", T)
    assert (Found(T, mine).session, Found(WILD, None).session) == ("a", None)


@pytest.mark.parametrize("count", [NOBODY_NAMES, NOBODY_NAMES + 1])
def test_p12_at_most_twenty_names_are_told_and_that_there_are_more(count):
    """C115."""
    names = [f"t{n:02}" for n in range(count)]
    told = unknown_tool("zz", [spec(name) for name in reversed(names)])
    assert told.endswith(", ".join(names[:20]) + (", ..." if count > 20 else ""))


def test_what_is_shown_is_offered_and_in_the_agents_scope():
    pages = [page("a", T_OFF, spec("mine", agent="default"), spec("theirs", agent="other"))]
    assert [one.name for one in offered("default", "a", pages, {})] == ["mine"]
    assert [one.name for one in offered("other", "a", pages, {})] == ["theirs"]
