"""Phrasings that once surprised the keyword agent, and what comes of them now."""

from typing import Any

import pytest
from ag_ui.core import ToolMessage
from tests.agents.keyword_tools import (
    BOARD,
    CARDS,
    called_before,
    heard,
    one_of,
    takes,
    tool,
    whole,
)
from tests.agents.test_keyword_board import (
    DARK,
    LIGHT,
    Calls,
    add,
    fill,
    move,
    remove,
    slow,
)


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("put it back", []),
        ("make it pink", []),
        ("add it pink", []),
        ("put all of them in done", []),
        ("is coffee done?", [("list_cards", {"column": "Done"})]),
        ("has milk been moved to doing?", []),
        ("put the ferns in progress", []),
        ("move tea and ferns to doing",
         [move("Buy tea", "Doing"), move("Water the ferns", "Doing")]),
        ("move tea back to todo", [move("Buy tea", "To do")]),
        ("take buy tea out of to do", []),
        ("remove tea and the fence", [remove("Buy tea"), remove("Paint the fence")]),
        ("remove buy tea, paint the fence", [remove("Buy tea"), remove("Paint the fence")]),
        ("add two cards: a and b", [add("a"), add("b")]),
        ("add the following cards: wash car; fix bike; pay rent",
         [add("wash car"), add("fix bike"), add("pay rent")]),
        ("add these cards: wash car, fix bike", [add("wash car"), add("fix bike")]),
        ("add a card: salt and pepper", [add("salt and pepper")]),
        ("change buy tea to buy green tea", []),
        ("complete buy tea", []),
        ("change the color", []),
        ("mark everything as done", []),
        ("mark all cards as done", []),
        ("can you remove everything in done?", []),
        ("delete all the cards in done", []),
        ("remove all done cards", []),
        ("make it less dark", [LIGHT]),
        ("not dark, light", [LIGHT]),
        ("run the slow task for 1 minute", [slow(seconds=60)]),
        ("run the slow task for 2 minutes", []),
        ("run the slow task for 1 hour", []),
        ("run the slow task for 3 secs", [slow(seconds=3)]),
        ("book 2 seats", [fill(seats=2)]),
        ("make the page dark", [DARK]),
    ],
)  # fmt: skip
async def test_a_surprising_sentence_becomes_what_it_says(said: str, calls: Calls) -> None:
    assert (await heard(said, things=CARDS)).calls == calls


@pytest.mark.parametrize("said", ["put it back", "make it pink", "add it pink"])
async def test_nothing_is_called_it_and_more(said: str) -> None:
    step = await heard(said, things=CARDS, before=[called_before(add("milk"))])
    assert step.calls == []
    assert step.said.startswith(("I did not understand that.", "I need a column"))


@pytest.mark.parametrize(
    "said", ["can you remove everything in done?", "delete all the cards in done",
             "remove all done cards"]
)  # fmt: skip
async def test_many_things_to_be_removed_are_asked_for_one_by_one(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.said == "I need a title to remove a card, one at a time."


@pytest.mark.parametrize("said", ["run the slow task for 2 minutes", "slow task for 1 hour"])
async def test_a_time_out_of_range_is_told_with_the_range(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.said == "I cannot run the slow task like that: seconds must be from 1 to 60."


async def test_times_become_the_unit_that_a_parameter_speaks_of() -> None:
    tools = [
        tool("set_alarm", "Set the alarm", takes("delay_ms", delay_ms=whole(0))),
        tool("brew", "Brew tea", takes("minutes", minutes=whole(0))),
        tool("wait", "Wait", takes("n", n={**whole(0), "description": "How long, in seconds"})),
    ]
    for said, calls in [
        ("set the alarm in 2 minutes", [("set_alarm", {"delay_ms": 120_000})]),
        ("brew tea for 1 hour", [("brew", {"minutes": 60})]),
        ("brew tea for 30 seconds", []),
        ("wait for 2 min", [("wait", {"n": 120})]),
        ("wait 2h", [("wait", {"n": 7_200})]),
        ("wait 7", [("wait", {"n": 7})]),
    ]:  # fmt: skip
        assert (await heard(said, tools)).calls == calls, said


# ---- what "it" is, after what came of it -----------------------------------------------------


def came(call: str, outcome: str) -> ToolMessage:
    """What history says of a call."""
    told = {"handspan": {"outcome": outcome}}
    return ToolMessage(id=f"t{call}", content="{}", tool_call_id=call, metadata=told)


async def test_what_was_removed_is_no_longer_it() -> None:
    before = [called_before(add("milk"), remove("tea")), came("c0", "ok"), came("c1", "ok")]
    assert (await heard("move it to done", before=before)).calls == [move("milk", "Done")]
    before = [called_before(remove("tea")), came("c0", "ok")]
    assert (await heard("move it to done", before=before)).calls == []


async def test_what_could_not_be_removed_is_still_it() -> None:
    before = [called_before(remove("tea")), came("c0", "error")]
    assert (await heard("move it to done", before=before)).calls == [move("tea", "Done")]


async def test_what_is_removed_in_this_message_is_no_longer_it() -> None:
    assert (await heard("remove milk and move it to done", things=CARDS)).calls == [remove("milk")]


# ---- the other of two ------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["switch the theme", "toggle dark mode", "toggle the theme"])
async def test_the_other_of_two_is_what_the_page_is_not_in_now(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == ("I need a theme (light or dark) to set the theme.", [])
    assert (await heard(said, things={"theme": "light"})).calls == [DARK]
    assert (await heard(said, things={"page": {"theme": "dark"}})).calls == [LIGHT]
    assert (await heard(said, before=[called_before(DARK)])).calls == [LIGHT]


# ---- examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choices",
    [[True, False], [None], [{"a": 1}, [1, 2]], ["", "-", "  "], ["", "big"], [1, 2], [None, "x y"],
     [True], ["on", "off"], ["a_b", "c-d"]],
)  # fmt: skip
async def test_an_example_is_one_that_it_understands_itself(choices: list[Any]) -> None:
    tools = [*BOARD, tool("paint", "Paint the fence", takes("size", size=one_of(*choices)))]
    offered = (await heard("help", tools)).said
    line = next(line for line in offered.splitlines() if line.startswith("- Paint: "))
    calls = (await heard(line.removeprefix("- Paint: "), tools)).calls
    assert [name for name, _ in calls] == ["paint"], line
    assert calls[0][1]["size"] in choices
