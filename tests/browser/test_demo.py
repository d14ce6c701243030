"""The demo as a visitor has it: its page, and the agents that need no key."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import FIRST_CARDS, Visit, demo

from handspan.demo import demo_bridge

pytestmark = pytest.mark.browser

SUGGESTED = (
    "make it dark",
    "add milk to todo and move it to done",
    "plan a party",
    "run the slow task",
    "clear the board",
    "call make_coffee with cups 2",
)


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    with demo(browser, demo_bridge()) as here:
        yield here.visit


@pytest.fixture
def here(visit: Callable[..., Visit]) -> Visit:
    """A visitor who prefers light."""
    return visit(color_scheme="light")


def test_the_first_look_is_a_board_with_cards_and_a_quiet_conversation(here: Visit) -> None:
    here.see_board(FIRST_CARDS)
    assert here.log.text_content() == ""
    assert here.suggestions.all_text_contents() == list(SUGGESTED)
    here.see_last_run("")
    expect(here.button("Stop")).to_be_disabled()


def test_make_it_dark_changes_the_theme_and_the_run_completes(here: Visit) -> None:
    here.see_theme("light")
    here.ask("make it dark")
    here.see_theme("dark")
    here.see_last_run("completed")
    expect(here.call("Set the theme")).to_contain_text("theme: dark")
    expect(here.call("Set the theme")).to_contain_text("done")


def test_a_card_is_added_and_moved_in_one_breath(here: Visit) -> None:
    here.ask("add milk to todo and move it to done")
    here.see_board({"To do": FIRST_CARDS["To do"], "Done": [*FIRST_CARDS["Done"], "milk"]})
    here.see_last_run("completed")
    expect(here.call("Add a card")).to_contain_text("done")
    expect(here.call("Move a card")).to_contain_text("column: Done")


def test_p5_stop_ends_the_slow_task_and_the_next_message_works(here: Visit) -> None:
    here.say("run the slow task")
    bar = here.log.get_by_role("progressbar", name="Progress of: Slow task")
    expect(bar).to_be_visible()
    expect(here.call("Slow task")).to_contain_text("of 6 seconds")
    here.button("Stop").click()
    here.await_end("stopped")
    here.see_last_run("aborted")
    expect(here.call("Slow task")).to_contain_text("stopped")
    expect(bar).to_have_count(0)
    here.ask("make it dark")
    here.see_theme("dark")


def test_the_slow_task_is_done_in_the_end(here: Visit) -> None:
    here.say("run the slow task")
    expect(here.call("Slow task")).to_contain_text("done", timeout=10_000)
    here.await_end()


def test_a_button_calls_a_tool_and_no_agent_speaks(here: Visit) -> None:
    here.button("Make it dark").click()
    here.await_end("done, without a word from the agent")
    here.see_theme("dark")
    here.button("Make it light").click()
    here.await_end("done, without a word from the agent")
    here.see_theme("light")
    here.button("Add a surprise card").click()
    here.await_end("done, without a word from the agent")
    expect(here.column("To do").get_by_role("listitem")).to_have_count(3)
    expect(here.log.locator(".assistant")).to_have_count(0)


def test_p5_a_buttons_slow_task_is_stopped_too(here: Visit) -> None:
    here.button("Slow task").click()
    expect(here.log.get_by_role("progressbar")).to_be_visible()
    here.button("Stop").click()
    here.await_end("stopped")


def test_a_button_with_a_follow_up_lets_the_agent_answer(here: Visit) -> None:
    here.button("Highlight Done and say so").click()
    here.await_end()
    expect(here.column("Done")).to_have_attribute("data-pointed", "")
    expect(here.log.locator(".assistant")).to_have_count(1)
    here.button("List the cards and tell me").click()
    here.await_end()
    expect(here.log.locator(".assistant").last).to_contain_text("Buy tea")


def test_p13_what_no_tool_takes_is_shown_with_its_arguments(here: Visit) -> None:
    here.ask("call make_coffee with cups 2")
    corner = here.region("What nobody else took")
    expect(corner).to_contain_text("make_coffee")
    expect(corner).to_contain_text('{ "cups": 2 }')


def test_p10_the_board_is_cleared_only_when_the_visitor_allows_it(here: Visit) -> None:
    here.say("clear the board")
    here.button("Decline").click()
    here.await_end()
    expect(here.call("Clear the board")).to_contain_text("declined")
    here.see_board(FIRST_CARDS)
    here.say("clear the board")
    here.button("Allow").click()
    here.await_end()
    here.see_board({"To do": [], "Doing": [], "Done": []})
    expect(here.column("Done")).to_contain_text("Nothing yet")


def test_p8_two_visitors_have_two_conversations_and_two_boards(visit: Callable[..., Visit]) -> None:
    one, two = visit(), visit()
    one.ask("add milk to todo")
    assert two.log.text_content() == ""
    two.see_board(FIRST_CARDS)
