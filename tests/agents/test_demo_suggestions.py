"""What the demo suggests: it fits what has happened, and the demo's agents understand it."""

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, ToolCall, UserMessage
from tests.agents.demo_page import suggested, visit
from tests.agents.keyword_tools import BOARD, called_before, heard

from handspan.demo.errand import WHAT, errand_in
from handspan.demo.suggesting import RUNS_KEPT, SHOWN, Look, Seen, next_messages
from handspan_protocol.frames import ContextItem

TOOLS = frozenset(tool.name for tool in BOARD)

FIRST = ("To do", ("Water the ferns", "Buy tea")), ("Doing", ("Paint the fence",)), ("Done", ())

TALKS = {
    "add milk to todo": ["move milk to doing", "list the cards", "clear the board"],
    "move tea to doing": ['move "Buy tea" to done', "list the cards", "clear the board"],
    "move tea to done": ["list the cards", "clear the board", 'move "Water the ferns" to doing'],
    "make it dark": ["make it light", "plan a picnic", "list the cards"],
    "plan a party": ['move "Invite the guests" to doing', "list the cards", "clear the board"],
    "ask the planner": ["plan a picnic", "plan a party", "plan a trip"],
    "clear the board": ["plan a picnic", "add tea to todo", "run the slow task"],
    "list the cards": ["plan a picnic", "clear the board", 'move "Water the ferns" to doing'],
    "hello": ["plan a picnic", "list the cards", "clear the board"],
}


@pytest.mark.parametrize("text", TALKS)
async def test_what_is_suggested_fits_what_was_said_and_done(text: str) -> None:
    async with visit() as (page, _):
        assert await suggested(page, text) == TALKS[text]


@pytest.mark.parametrize("text", TALKS)
async def test_whatever_is_suggested_is_understood(text: str) -> None:
    async with visit() as (page, board):
        for each in await suggested(page, text):
            if errand_in([UserMessage(id="u", content=each)]) is None:
                step = await heard(each, things=board.columns)
                assert step.calls, each
                assert "did not understand" not in step.said


async def test_suggestions_go_with_the_next_run_and_a_button_brings_none() -> None:
    async with visit() as (page, _):
        await suggested(page, "make it dark")
        run = page.run("hello")
        await page.until(lambda: page.thread().run)
        assert page.thread().suggestions == []
        await run.finished


def look(*board: tuple[str, tuple[str, ...]], tools: frozenset[str] = TOOLS) -> Look:
    return Look(tools, board or FIRST)


def after(
    *calls: tuple[str, dict[str, str]], said: str = "go"
) -> list[UserMessage | AssistantMessage]:
    return [UserMessage(id="u", content=said), called_before(*calls)]


def test_a_page_that_has_no_tools_gets_no_suggestions() -> None:
    assert next_messages(after(), Look()) == []


def test_what_a_page_cannot_do_is_not_suggested() -> None:
    shown = next_messages(
        after(("add_card", {"title": "Buy tea"})), look(tools=frozenset(["add_card"]))
    )
    assert shown == ["plan a picnic"]


def test_what_was_just_said_is_not_suggested_again() -> None:
    shown = next_messages(after(said="List the Cards!"), look())
    assert "list the cards" not in shown
    assert len(shown) == SHOWN


def test_a_card_that_is_gone_or_done_is_not_moved_on() -> None:
    done = look(("To do", ()), ("Doing", ()), ("Done", ("milk",)))
    moved = after(("move_card", {"title": "milk", "column": "Done"}))
    assert not any("milk" in text for text in next_messages(moved, done))
    gone = after(("remove_card", {"title": "milk"}))
    assert not any("milk" in text for text in next_messages(gone, look()))


@pytest.mark.parametrize("title", ['say "hi"', "a title that is much too long for a button"])
def test_a_title_that_makes_no_button_is_not_named(title: str) -> None:
    board = look(("To do", (title,)))
    shown = next_messages(after(("add_card", {"title": title})), board)
    assert shown == ["list the cards", "clear the board", "plan a picnic"]


def test_the_planners_question_is_answered_by_a_suggestion() -> None:
    asked = [UserMessage(id="u", content="plan"), AssistantMessage(id="a", content=WHAT)]
    assert next_messages(asked, look())[0] == "plan a picnic"


def test_arguments_that_are_none_suggest_nothing() -> None:
    made = [
        ToolCall(id="c", function=FunctionCall(name="add_card", arguments=raw))
        for raw in ("{", "[]")
    ]
    history = [UserMessage(id="u", content="go"), AssistantMessage(id="a", tool_calls=made)]
    assert next_messages(history, look())[0] == "plan a picnic"


class Step:
    """As much of a Run as is looked at."""

    def __init__(self, run_id: str, board: object = None) -> None:
        self.id = run_id
        self.tools = BOARD[:1]
        self.context = [ContextItem(name="board", value=board)]


def test_the_last_look_of_a_run_counts_and_is_given_once() -> None:
    seen = Seen()
    seen.keep(Step("r", {"To do": ["tea"]}))
    seen.keep(Step("r", {"To do": ["milk", 7], "Doing": None}))
    assert seen.take("r") == Look(frozenset(["add_card"]), (("To do", ("milk",)),))
    assert seen.take("r") == Look()


def test_looks_of_runs_that_nobody_asks_for_do_not_pile_up() -> None:
    seen = Seen()
    for n in range(RUNS_KEPT + 1):
        seen.keep(Step(f"r{n}", {}))
    assert seen.take("r0") == Look()
    assert seen.take("r1").tools == {"add_card"}
    assert seen.take(f"r{RUNS_KEPT}").tools == {"add_card"}


def test_a_page_that_tells_no_board_shows_none() -> None:
    seen = Seen()
    seen.keep(Step("r", "something else"))
    assert seen.take("r").titles == []
