"""Tools of quite other pages, calls by name, and what a schema allows."""

from dataclasses import replace
from typing import Any

import pytest
from tests.agents.keyword_tools import BOARD, CARDS, OTHERS, TEXT, heard, one_of, takes, tool, whole

from handspan.agents.keyword.memory import Names
from handspan.agents.keyword.skill import skills_of
from handspan.agents.keyword.speech import example

CART = [{"sku": "MUG-1", "name": "Blue mug"}]

SENTENCES: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    ("search for red shoes under 50",
     [("search_products", {"query": "red shoes", "max_price": 50})]),
    ("find shoes in stock", [("search_products", {"query": "shoes", "in_stock": True})]),
    ("search red shoes that are not in stock",
     [("search_products", {"query": "red shoes", "in_stock": False})]),
    ("show me shoes cheaper than 20.50",
     [("search_products", {"query": "shoes", "max_price": 20.5})]),
    ("find hats and add mug 1 to the cart and turn the lamp green",
     [("search_products", {"query": "hats"}), ("add_to_cart", {"sku": "MUG-1"}),
      ("set_lamp", {"color": "green"})]),
    ("put 3 mugs in the cart", [("add_to_cart", {"sku": "mugs", "quantity": 3})]),
    ("add 2 of sku A7 to the cart", [("add_to_cart", {"sku": "A7", "quantity": 2})]),
    ("what's in the cart?", [("show_cart", {})]),
    ("checkout", [("checkout", {})]),
    ("use coupon SAVE10", [("apply_coupon", {"code": "SAVE10"})]),
    ("turn the lamp on", [("set_lamp", {"on": True})]),
    ("switch off the lamp", [("set_lamp", {"on": False})]),
    ("lamp off", [("set_lamp", {"on": False})]),
    ("set brightness to 40%", [("set_lamp", {"brightness": 40})]),
    ("make the lamp blue and 50% bright", [("set_lamp", {"brightness": 50, "color": "blue"})]),
    ("warm white", [("set_lamp", {"color": "warm white"})]),
    ("draw a bar chart of 3, 5 and 8", [("drawChart", {"kind": "bar", "values": [3, 5, 8]})]),
    ("plot a pie chart with values 1, 2.5, 3 titled Sales",
     [("drawChart", {"kind": "pie", "values": [1, 2.5, 3], "title": "Sales"})]),
    ("rename a.txt to b.txt", [("rename_file", {"old_name": "a.txt", "new_name": "b.txt"})]),
    ('rename the file "a b.txt" to "c.txt"',
     [("rename_file", {"old_name": "a b.txt", "new_name": "c.txt"})]),
    ("send hello to Ada", [("send_message", {"to": "Ada", "text": "hello"})]),
    ("send a message to Ada saying see you at 5",
     [("send_message", {"to": "Ada", "text": "see you at 5"})]),
    ("go to settings", [("goToPage", {"page": "settings"})]),
    ("open my profile", [("goToPage", {"page": "user profile"})]),
    ("tag the photo with sun, beach and sea", [("tag_photo", {"tags": ["sun", "beach", "sea"]})]),
    ("set the volume to eleven", [("set_volume", {"level": 11})]),
    ("make 2 cups of coffee with milk", [("make_coffee", {"cups": 2, "milk": True})]),
    ("make coffee without milk", [("make_coffee", {"milk": False})]),
    ("what's the weather like in New York?", [("get_weather", {"city": "New York"})]),
    ("weather in Paris", [("get_weather", {"city": "Paris"})]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "calls"), SENTENCES)
async def test_nothing_is_known_of_the_demo_page(said: str, calls: Any) -> None:
    assert (await heard(said, OTHERS, CART)).calls == calls


@pytest.mark.parametrize(("said", "calls"), SENTENCES)
async def test_more_tools_of_another_page_do_not_disturb(said: str, calls: Any) -> None:
    if said in ("warm white", "search for red shoes under 50"):
        return
    fillers = [tool(f"zz_{n}", f"Nothing {n}", takes(x=TEXT)) for n in range(120)]
    assert (await heard(said, [*fillers, *OTHERS], CART)).calls == calls


# ---- by name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("call make_coffee with cups 2", [("make_coffee", {"cups": 2})]),
        ('call make_coffee {"cups": 2}', [("make_coffee", {"cups": 2})]),
        ("use make_coffee", [("make_coffee", {})]),
        ("Use the make_coffee tool.", [("make_coffee", {})]),
        ("please call makeCoffee with cups=2, milk=true and for \"Ada L\"",
         [("makeCoffee", {"cups": 2, "milk": True, "for": "Ada L"})]),
        ('call make_coffee with arguments {"notes": ["a, b. c", {"c": null}]} and make it dark',
         [("make_coffee", {"notes": ["a, b. c", {"c": None}]}),
          ("set_theme", {"theme": "dark"})]),
        ("call beep with tone 3", [("beep", {"tone": 3})]),
        ("call page.beep", [("page.beep", {})]),
        ("make it dark and call make_coffee with cups 2",
         [("set_theme", {"theme": "dark"}), ("make_coffee", {"cups": 2})]),
        ('call set_theme {"theme": "dark"}', [("set_theme", {"theme": "dark"})]),
        ('set_theme {"theme": "dark"}', [("set_theme", {"theme": "dark"})]),
        ("call set_theme with theme dark", [("set_theme", {"theme": "dark"})]),
        ("use the slow_task tool with seconds 4", [("slow_task", {"seconds": 4})]),
        ("run read_page", [("read_page", {})]),
        ("call add_card with title Read the page", [("add_card", {"title": "Read the page"})]),
    ],
)  # fmt: skip
async def test_a_tool_is_called_by_its_name_known_or_not(said: str, calls: Any) -> None:
    assert (await heard(said, things=CARDS)).calls == calls


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("call the slow tool", [("slow_task", {})]),
        ("use dark mode", [("set_theme", {"theme": "dark"})]),
        ("call me maybe", []),
        ("beep", []),
        ("call beep", []),
        ("call mom", []),
        ("call the dentist", []),
        ("run away", []),
    ],
)
async def test_not_everything_that_begins_so_is_a_call_by_name(said: str, calls: Any) -> None:
    assert (await heard(said)).calls == calls


@pytest.mark.parametrize(
    "said",
    [
        'call set_theme {"theme": "pink"}',
        'call set_theme {"theme": "dark", "more": 1}',
        "call set_theme {}",
        'call fill_form {"seats": 9}',
        "call set_theme",
    ],
)
async def test_p3_no_call_is_made_that_the_schema_refuses(said: str) -> None:
    step = await heard(said)
    assert step.calls == []
    assert step.said.startswith(("I cannot", "I need"))


async def test_broken_json_is_no_call_and_told() -> None:
    step = await heard("call add_card {not json")
    assert step.calls == []
    assert step.said.startswith("I did not understand that.")


# ---- schemas ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "said", "args"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": takes("size", size=one_of("big", "small"))}},
         "paint it big", {"size": "big"}),
        (takes("size", size={"anyOf": [{"type": "null"}, one_of("big", "small")]}),
         "paint it small", {"size": "small"}),
        (takes("size", size={"oneOf": [{"const": "big"}, {"const": "small"}]}),
         "paint big please", {"size": "big"}),
        (takes("level", level=one_of(1, 2, 3)), "paint with level 2", {"level": 2}),
        (takes("n", n={"type": ["null", "integer"]}), "paint 7", {"n": 7}),
        (takes("colors", colors={"type": "array", "items": one_of("red", "dark blue")}),
         "paint dark blue and red", {"colors": ["red", "dark blue"]}),
        (takes("what", what=True), "paint the fence", {"what": "fence"}),
        (takes("homepage", homepage={"type": "string", "format": "uri"}),
         "paint with homepage https://example.org/a?b=c", {"homepage": "https://example.org/a?b=c"}),
        (takes(loud=one_of(True, False)), "paint", {}),
        ({"type": "object"}, "paint", {}),
        (True, "paint", {}),
    ],
)  # fmt: skip
async def test_schemas_are_read_in_all_their_spellings(schema: Any, said: str, args: Any) -> None:
    step = await heard(said, [tool("paint", "Paint", schema)])
    assert step.calls == [("paint", args)]


@pytest.mark.parametrize(
    "schema",
    [False, takes("size", size=whole(1, 3)), takes("x", x={"type": "object"}), {"required": ["y"]}],
)
async def test_a_tool_that_cannot_be_told_enough_is_not_called(schema: Any) -> None:
    step = await heard("paint", [tool("paint", "Paint", schema)])
    assert step.calls == []
    assert step.said.startswith(("I need", "I cannot"))


async def test_what_is_not_available_is_not_called_and_told() -> None:
    dark = replace(BOARD[4], available=False)
    step = await heard("make it dark", [*BOARD[:4], dark, *BOARD[5:]])
    assert (step.said, step.calls) == ("Set the theme is not available now.", [])
    assert "Set the theme" not in (await heard("help", [*BOARD[:4], dark])).said


async def test_a_page_without_tools_is_told_as_such() -> None:
    assert (await heard("make it dark", [])).said.endswith("this page offers me no tools.")
    assert (await heard("hello", [])).said == "Hello! This page offers me no tools."


async def test_what_destroys_is_done_only_when_asked_in_so_many_words() -> None:
    tools = [tool("delete_all", "Delete every card of the board"), tool("ping", "Ping")]
    for said in ("all cards of the board", "every card", "show every card of the board"):
        assert (await heard(said, tools)).calls == []
    assert (await heard("delete every card", tools)).calls == [("delete_all", {})]


@pytest.mark.parametrize("tools", [BOARD, OTHERS])
async def test_every_example_it_gives_is_one_that_it_understands(tools: Any) -> None:
    names = Names(things={"milk": "milk"})
    for skill in skills_of(tools):
        said = example(skill, names)
        assert [name for name, _ in (await heard(said, tools)).calls] == [skill.name], said


async def test_many_tools_are_listed_up_to_a_dozen() -> None:
    tools = [tool(f"tool_{n}", f"Number {n}") for n in range(30)]
    said = (await heard("help", tools)).said
    assert said.count("\n- ") == 13
    assert said.endswith("and 18 more.")
