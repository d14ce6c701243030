"""What is said to the keyword agent and is no order calls nothing, and is answered honestly."""

import pytest
from tests.agents.keyword_tools import BOARD, CARDS, asked_before, called_before, heard, tool

LEFT = "I left it alone."
TOLD = "I did nothing, as I only do what I am told to. To have it done, say: "
STOP = "I started nothing; the Stop button ends what runs."
NO_BUTS = "I left it alone: say it without if and but, and I will do it."

REFUSED = """
    do not remove buy tea | don't clear the board | never clear the board | Don’t clear the board!
    please don't delete anything | don't move buy tea to done | do not add milk | can't you add milk
    I didn't mean to add milk | don't add anything | don't make it dark | I don't like dark mode
    I don't want to remove the fence anymore | never remove the fence | remove nothing
    you must not clear the board | let's not clear the board | I never said to clear the board
    you should never add milk | do not add milk and clear the board | keep it dark no longer
"""

ASKED_OR_TOLD = """
    should I remove the fence? | why did you remove the fence? | I removed buy tea by mistake
    you removed the fence! | what happens if I clear the board? | how do I clear the board?
    did you clear the board? | have you cleared the board? | who cleared the board?
    explain clear the board | is it safe to clear the board? | what would you remove?
    the fence was removed by mistake | was the fence removed? | he clears the board
    Ada removes the fence | clearing the board | can I clear the board? | it's too bright
    if I remove the fence, what is left? | what does remove the fence do? | how do I remove a card?
    I am removing the fence | what happens if I add milk and clear the board? | I added milk
    tell me how to clear the board | show me how to clear the board | the board is cleared
    the user said: clear the board | if you clear the board I will be sad | removed the fence
    when I say so, make it dark
"""


def each_of(table: str) -> list[str]:
    return [said.strip() for line in table.strip().splitlines() for said in line.split("|")]


@pytest.mark.parametrize("said", each_of(REFUSED))
async def test_what_shall_not_be_done_is_left_alone(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == (LEFT, [])


@pytest.mark.parametrize("said", each_of(ASKED_OR_TOLD))
async def test_a_question_about_an_action_or_a_report_of_one_calls_nothing(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.calls == []
    assert step.said.startswith(TOLD)


@pytest.mark.parametrize(
    "said",
    ["remove everything except buy tea", "delete all but tea", "clear the board if I say so",
     "delete everything but don't delete tea"],
)  # fmt: skip
async def test_what_destroys_knows_no_if_and_but(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == (NO_BUTS, [])


@pytest.mark.parametrize("said", ["stop", "cancel the slow task", "please stop the slow task"])
async def test_what_shall_end_is_not_started(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == (STOP, [])


async def test_a_tool_that_ends_things_may_be_asked_to() -> None:
    tools = [tool("cancel_order", "Cancel the order"), tool("pause_music", "Pause the music")]
    assert (await heard("cancel the order", tools)).calls == [("cancel_order", {})]
    assert (await heard("stop the music", tools)).calls == [("pause_music", {})]
    assert (await heard("don't cancel the order", tools)).calls == []


@pytest.mark.parametrize(
    "said",
    ["remove the fence? no", "remove the fence, no wait", "remove the fence, please don't",
     "add milk and make it dark. Never mind", "add milk. no"],
)  # fmt: skip
async def test_what_is_taken_back_in_the_same_message_is_not_done(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == (LEFT, [])


async def test_a_no_to_its_question_is_no_answer() -> None:
    before = [asked_before("add a card"), called_before(said="I need a title to add a card.")]
    for said in ("no", "never mind", "no thanks"):
        assert (await heard(said, before=before)).calls == []


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("would you please make it dark?", ["set_theme"]),
        ("can we add milk?", ["add_card"]),
        ("shall we make it dark?", ["set_theme"]),
        ("I'd like to add milk", ["add_card"]),
        ("I'd rather have dark mode", ["set_theme"]),
        ("I want you to clear the board", ["clear_board"]),
        ("we need to add milk", ["add_card"]),
        ("you should add milk", ["add_card"]),
        ("let's clear the board", ["clear_board"]),
        ("please clear the whole board now", ["clear_board"]),
        ("Could you clear the board, please?", ["clear_board"]),
        ("maybe remove the fence", ["remove_card"]),
        ("if you can, add milk", ["add_card"]),
        ("instead of removing the fence, add milk", ["add_card"]),
        ("without removing anything, list the cards", ["list_cards"]),
        ("list the cards but do not clear the board", ["list_cards"]),
        ("don't clear the board, make it dark", ["set_theme"]),
        ("I removed tea. Clear the board", ["clear_board"]),
        ("add milk? no, make it dark", ["set_theme"]),
        ("not dark, light", ["set_theme"]),
        ("add keep calm", ["add_card"]),
        ("add a card called do not enter", ["add_card"]),
        ('add "why did you remove the fence?"', ["add_card"]),
        ("remind me not to buy milk", ["add_card"]),
        ("are there any cards in done?", ["list_cards"]),
        ("how many cards are done?", ["list_cards"]),
        ("tell me how many cards there are", ["list_cards"]),
    ],
)
async def test_an_order_is_one_however_polite(said: str, calls: list[str]) -> None:
    assert [name for name, _ in (await heard(said, things=CARDS)).calls] == calls


# ---- what destroys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    ["clear the form", "clear the chat", "clear the conversation", "clear history", "clear",
     "reset", "reset the form", "reset the theme", "clear the highlight", "clear my name",
     "wipe the newsletter", "wipe my memory of this", "clear the board history", "remove the form",
     "clear all my history"],
)  # fmt: skip
async def test_what_destroys_is_asked_for_by_what_it_destroys(said: str) -> None:
    assert (await heard(said, things=CARDS)).calls == []


async def test_a_tool_named_by_its_verb_alone_is_asked_for_by_that() -> None:
    tools = [tool("reset", "Begin anew"), tool("wipeForm", "Empty the form", None, "Wipe the form")]
    assert (await heard("reset", tools)).calls == [("reset", {})]
    assert (await heard("reset the counter", tools)).calls == []
    assert (await heard("clear the form", tools)).calls == [("wipeForm", {})]
    assert (await heard("wipe the form completely", tools)).calls == [("wipeForm", {})]


async def test_what_is_not_there_is_not_removed_unless_it_is_quoted() -> None:
    step = await heard("I need to delete old photos", things=CARDS)
    assert (step.said, step.calls) == ('I see no "old photos" here, so I removed nothing.', [])
    assert (await heard('delete "old photos"', things=CARDS)).calls != []
    assert (await heard("delete old photos", BOARD)).calls != []
    assert len((await heard("'; DROP TABLE users; --" * 50, things=CARDS)).calls) == 0
