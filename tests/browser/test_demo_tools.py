"""The demo's tools: what they do to the page, and what they answer."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import Demo, Visit, demo

from handspan.testing import ScriptedAgent, call

pytestmark = pytest.mark.browser

Played = Callable[..., tuple[Visit, list[Any]]]


@pytest.fixture
def played(browser: Any) -> Iterator[Played]:
    """Plays calls in one run, a step each, so that readOnly ones do not overtake others.

    Gives the visitor, and the results as the model gets them.
    """
    with ExitStack() as stack:

        def play(*calls: tuple[str, dict[str, Any]], **screen: Any) -> tuple[Visit, list[Any]]:
            agent = ScriptedAgent([*([call(name, args)] for name, args in calls), "done"])
            stand: Demo = stack.enter_context(demo(browser, agent))
            visit = stand.enter(stand.visit(**screen), thread="t")
            visit.ask("go")
            told = [m["content"] for m in stand.history() if m["role"] == "tool"]
            return visit, [json.loads(text) for text in told]

        yield play


BOARD = {
    "To do": ["Water the ferns", "Buy tea"],
    "Doing": ["Paint the fence"],
    "Done": ["Sharpen pencils"],
}
TABLE: list[tuple[str, dict[str, Any], Any]] = [
    ("list_cards", {}, BOARD),
    ("list_cards", {"column": "Doing"}, {"Doing": ["Paint the fence"]}),
    ("add_card", {"title": "milk"}, {"added": "milk", "column": "To do"}),
    (
        "add_card",
        {"title": " oat   milk ", "column": "Done"},
        {"added": "oat milk", "column": "Done"},
    ),
    ("add_card", {"title": "MILK"}, 'there is already a card "milk", in To do'),
    ("add_card", {"title": "  "}, "a card needs a title"),
    (
        "move_card",
        {"title": "milk", "column": "Doing"},
        {"moved": "milk", "from": "To do", "to": "Doing"},
    ),
    (
        "move_card",
        {"title": "milk", "column": "Doing"},
        {"moved": "milk", "from": "Doing", "to": "Doing"},
    ),
    (
        "move_card",
        {"title": "the fern", "column": "Done"},
        {"moved": "Water the ferns", "from": "To do", "to": "Done"},
    ),
    ("remove_card", {"title": "oat"}, {"removed": "oat milk", "column": "Done"}),
    (
        "remove_card",
        {"title": "e"},
        '"e" may be "Buy tea", "Paint the fence", "Sharpen pencils", "Water the ferns": say which',
    ),
    (
        "remove_card",
        {"title": "yak"},
        'there is no card "yak"; there are "Buy tea", "Paint the fence", "Sharpen pencils",'
        ' "milk", "Water the ferns"',
    ),
    ("set_theme", {"theme": "dark"}, {"theme": "dark"}),
    ("highlight", {"target": "todo"}, {"highlighted": "To do"}),
    ("highlight", {"target": "pencils"}, {"highlighted": "Sharpen pencils"}),
    (
        "fill_form",
        {"name": "Ada", "seats": 2},
        {"filled": {"name": "Ada", "seats": 2}, "sent": False},
    ),
    ("slow_task", {"seconds": 1}, {"worked": 1}),
    ("make_coffee", {"cups": 2}, {"shown": "make_coffee"}),
]


def test_each_tool_answers_as_the_table_says(played: Played) -> None:
    """P3: in one run, in order; what went wrong is told so that a model can do better."""
    _, results = played(*((name, args) for name, args, _ in TABLE))
    for (name, args, wanted), got in zip(TABLE, results, strict=True):
        told = got["error"]["message"] if isinstance(wanted, str) else got
        assert told == wanted, (name, args)


def test_arguments_outside_the_schema_never_reach_the_page(played: Played) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("add_card", {}),
        ("add_card", {"title": ""}),
        ("add_card", {"title": "x", "column": "Later"}),
        ("set_theme", {"theme": "pink"}),
        ("fill_form", {}),
        ("fill_form", {"seats": 9}),
        ("slow_task", {"seconds": 61}),
        ("read_page", {"all": True}),
    ]
    visit, results = played(*wrong)
    assert [result["error"]["code"] for result in results] == ["invalid_arguments"] * len(wrong)
    visit.see_board(BOARD)


def test_the_page_is_read_as_it_is(played: Played) -> None:
    _, results = played(
        ("fill_form", {"email": "ada@example.org", "newsletter": True}),
        ("brew", {"cups": 1}),
        ("read_page", {}),
        color_scheme="dark",
    )
    assert results[-1] == {
        "title": "Handspan",
        "theme": "dark",
        "board": BOARD,
        "form": {"name": "", "email": "ada@example.org", "seats": 1, "newsletter": True},
        "unclaimed": {"toolName": "brew", "args": {"cups": 1}},
    }


def test_a_filled_form_is_marked_until_the_visitor_touches_it_and_is_never_sent(
    played: Played,
) -> None:
    visit, _ = played(
        ("fill_form", {"name": "Ada", "email": "ada@example.org", "seats": 2, "newsletter": True})
    )
    form = visit.region("Book a seat")
    expect(form.get_by_label("Name")).to_have_value("Ada")
    expect(form.get_by_label("Email")).to_have_value("ada@example.org")
    expect(form.get_by_label("Seats")).to_have_value("2")
    expect(form.get_by_label("Newsletter")).to_be_checked()
    expect(form.get_by_text("filled in", exact=True)).to_have_count(4)
    expect(form).to_contain_text("Nothing was sent.")
    form.get_by_label("Name").fill("Ada L.")
    expect(form.get_by_text("filled in", exact=True)).to_have_count(3)
    address = visit.page.url
    visit.button("Book").click()
    expect(form).to_contain_text("nothing was sent, and no seat is taken")
    assert visit.page.url == address


def test_a_highlighted_card_is_brought_into_view_on_a_phone(played: Played) -> None:
    visit, _ = played(
        ("highlight", {"target": "Sharpen pencils"}), viewport={"width": 360, "height": 640}
    )
    card = visit.column("Done").get_by_role("listitem")
    expect(card).to_have_attribute("data-pointed", "")
    expect(card).to_be_in_viewport()
