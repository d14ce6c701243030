"""The demo for everybody: by keyboard, on a phone, enlarged, read aloud, and under axe-core."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.browser.axe import faults, load_axe
from tests.browser.visit import FIRST_CARDS, Demo, Visit, demo
from tests.conftest import spread

from handspan.testing import Pause, ScriptedAgent, call

pytestmark = pytest.mark.browser

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
ENLARGED = {"viewport": {"width": 640, "height": 400}}
"""1280 by 800 at 200 %: as many CSS pixels as are left."""

SCREENS = {"desktop": DESKTOP, "phone": PHONE, "enlarged": ENLARGED}

NAME_OF_FOCUS = """() => {
  const { activeElement: own } = document;
  const by = document.getElementById(own.getAttribute("aria-labelledby"));
  const label = own.ariaLabel ?? by?.textContent ?? own.labels?.[0]?.textContent ?? own.textContent;
  return own === document.body ? "" : label.trim().replace(/\\s+/g, " ");
}"""

Stand = Callable[[Any], Demo]


@pytest.fixture
def serve(browser: Any) -> Iterator[Stand]:
    """Serves the page with an agent."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(demo(browser, agent))


def full_script() -> list[Any]:
    """A conversation with a call of every look: done, failed, unclaimed, asking, a filled form."""
    return [
        [
            "A longer answer, so that there is something to read. ",
            call(
                "add_card", {"title": "a card with a title that is longer than its column is wide"}
            ),
            call("remove_card", {"title": "yak"}),
            call("fill_form", {"name": "Ada", "newsletter": True}),
            call("make_coffee", {"cups": 2, "note": "x" * 120}),
            call("highlight", {"target": "Done"}),
        ],
        [call("clear_board")],
        ["Done."],
    ]


@pytest.mark.node
@pytest.mark.parametrize(("screen", "theme"), spread(tuple(SCREENS), ("light", "dark"), 2))
def test_axe_finds_no_fault(serve: Stand, screen: str, theme: str) -> None:
    """In the first look, while a question is asked, and when all is done, with a call opened."""
    here = serve(ScriptedAgent(full_script())).visit(**SCREENS[screen], color_scheme=theme)
    load_axe(here.page)
    assert faults(here.page) == []
    here.say("go")
    here.button("Allow").wait_for()
    assert faults(here.page) == []
    here.button("Allow").click()
    here.await_end()
    here.call("Add a card").get_by_text("Add a card").click()
    here.log.evaluate("(log) => { log.scrollTop = 0; }")
    assert faults(here.page) == []


def test_the_page_is_never_wider_than_the_screen(serve: Stand) -> None:
    here = serve(ScriptedAgent(full_script())).visit()
    never_too_wide(here)
    here.say("go")
    here.button("Allow").wait_for()
    never_too_wide(here)
    here.button("Allow").click()
    here.await_end()
    never_too_wide(here)


def never_too_wide(here: Visit) -> None:
    for width in (1280, 900, 899, 640, 390, 360, 320):
        here.page.set_viewport_size({"width": width, "height": 700})
        assert here.page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_long_name_of_a_tool_breaks_instead_of_making_the_log_wide(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("x" * 60, {"y" * 60: "z" * 200})], "ok"])).visit(
        viewport={"width": 320, "height": 640}
    )
    here.ask("go")
    here.call("xxx").get_by_text("xxx").first.click()
    wide = here.log.evaluate("(log) => [log.scrollWidth, log.clientWidth]")
    assert wide[0] == wide[1]


def test_what_is_to_be_touched_is_large_enough_for_a_finger(serve: Stand) -> None:
    here = serve(ScriptedAgent(full_script())).visit(**PHONE)
    here.say("go")
    here.button("Allow").wait_for()
    small = here.page.evaluate(
        """() => [...document.querySelectorAll("button, summary, input, textarea")]
          .filter((it) => it.type !== "checkbox")
          .filter((it) => it.checkVisibility())
          .map((it) => [it.ariaLabel ?? it.textContent, it.getBoundingClientRect()])
          .filter(([, { width, height }]) => width < 44 || height < 44)
          .map(([name, { width, height }]) => `${name}: ${width} x ${height}`)"""
    )
    assert small == []


def test_on_a_phone_the_message_box_is_in_reach_and_the_card_that_came_is_seen(
    serve: Stand,
) -> None:
    script = [[call("add_card", {"title": "milk", "column": "Done"})], "ok"]
    here = serve(ScriptedAgent(script)).visit(**PHONE)
    expect(here.message).to_be_in_viewport(ratio=1)
    here.ask("go")
    expect(here.message).to_be_in_viewport(ratio=1)
    expect(here.column("Done").get_by_text("milk")).to_be_in_viewport()


STOPS = 60
"""More than there are; a bound against a trap."""


def walk(page: Page) -> list[str]:
    """The names that the focus passes, from the start of the page to its end."""
    names: list[str] = []
    while len(names) < STOPS:
        page.keyboard.press("Tab")
        name = page.evaluate(NAME_OF_FOCUS)
        if name == "":
            return names
        names.append(name)
    pytest.fail(f"no way out: {names}")


def test_the_tab_key_walks_the_page_in_the_order_in_which_it_is_read(serve: Stand) -> None:
    here = serve(ScriptedAgent(["Hello."])).visit(**DESKTOP)
    assert walk(here.page) == [
        *('Move "Water the ferns" to Doing', 'Remove "Water the ferns"'),
        *('Move "Buy tea" to Doing', 'Remove "Buy tea"'),
        *("New card", "Add to To do"),
        *('Move "Paint the fence" to To do', 'Move "Paint the fence" to Done'),
        'Remove "Paint the fence"',
        *('Move "Sharpen pencils" to Doing', 'Remove "Sharpen pencils"'),
        "Conversation",
        *("make it dark", "add milk to todo and move it to done", "plan a party"),
        *("run the slow task", "clear the board", "call make_coffee with cups 2"),
        *("Message", "Send", "Stop"),
        *("Make it dark", "Add a surprise card", "Slow task"),
        *("Highlight Done and say so", "List the cards and tell me"),
        *("Name", "Email", "Seats", "Newsletter", "Book"),
    ]


def test_a_conversation_is_had_by_keyboard_alone(serve: Stand) -> None:
    """Enter sends, Escape stops; the focus stays where it was."""
    here = serve(ScriptedAgent([[call("slow_task")], "never"])).visit()
    here.message.focus()
    here.page.keyboard.type("go")
    here.page.keyboard.press("Enter")
    expect(here.message).to_have_value("")
    here.log.get_by_role("progressbar").wait_for()
    here.page.keyboard.press("Escape")
    here.await_end("stopped")
    expect(here.message).to_be_focused()
    here.page.keyboard.type("one")
    here.page.keyboard.press("Shift+Enter")
    here.page.keyboard.type("two")
    expect(here.message).to_have_value("one\ntwo")


def test_stop_keeps_the_focus_when_there_is_nothing_left_to_stop(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("slow_task")], "never"])).visit()
    here.say("go")
    here.log.get_by_role("progressbar").wait_for()
    here.button("Stop").focus()
    here.page.keyboard.press("Enter")
    here.await_end("stopped")
    expect(here.button("Stop")).to_be_disabled()
    expect(here.button("Stop")).to_be_focused()
    here.page.keyboard.press("Enter")
    here.see_last_run("aborted")


def test_cards_are_added_moved_and_removed_by_keyboard_and_the_focus_goes_along(
    serve: Stand,
) -> None:
    here = serve(ScriptedAgent([])).visit()
    press = here.page.keyboard.press
    here.page.get_by_label("New card").focus()
    here.page.keyboard.type("milk")
    press("Enter")
    expect(here.column("To do").get_by_role("listitem").last).to_have_text("milk")
    here.button('Move "milk" to Doing').focus()
    press("Enter")
    expect(here.announcer).to_contain_text("milk: moved to Doing")
    expect(here.button('Move "milk" to Done')).to_be_focused()
    press("Enter")
    here.see_board({**FIRST_CARDS, "Done": ["Sharpen pencils", "milk"]})
    expect(here.button('Move "milk" to Doing')).to_be_focused()
    press("Tab")
    expect(here.button('Remove "milk"')).to_be_focused()
    press("Enter")
    here.see_board(FIRST_CARDS)
    assert here.page.evaluate(NAME_OF_FOCUS).endswith('"Sharpen pencils"')


def test_a_twin_of_a_card_is_refused_to_the_visitor_too(serve: Stand) -> None:
    here = serve(ScriptedAgent([])).visit()
    here.page.get_by_label("New card").fill("buy TEA")
    here.button("Add to To do").click()
    expect(here.log).to_contain_text('there is already a card "Buy tea"')
    here.see_board(FIRST_CARDS)


def test_p10_a_question_gets_the_focus_but_no_key_answers_it_by_accident(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("clear_board")], "As you wish."])).visit()
    here.message.fill("go")
    here.page.keyboard.press("Enter")
    question = here.page.get_by_role("group", name="Clear the board?")
    expect(question).to_be_focused()
    expect(here.announcer).to_contain_text("Clear the board? Allow or decline.")
    here.page.keyboard.press("Enter")
    here.page.keyboard.press("Space")
    here.see_board(FIRST_CARDS)
    here.page.keyboard.press("Tab")
    expect(here.button("Allow")).to_be_focused()
    here.page.keyboard.press("Enter")
    here.await_end()
    here.see_board({"To do": [], "Doing": [], "Done": []})
    expect(here.message).to_be_focused()


def test_p10_escape_while_a_question_has_the_focus_stops_the_run(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("clear_board")], "never"])).visit()
    here.say("go")
    expect(here.page.get_by_role("group", name="Clear the board?")).to_be_focused()
    here.page.keyboard.press("Escape")
    here.await_end("stopped")
    expect(here.message).to_be_focused()
    here.see_board(FIRST_CARDS)


def test_p10_a_question_leaves_the_focus_to_somebody_who_writes(serve: Stand) -> None:
    more = asyncio.Event()
    stand = serve(ScriptedAgent([["Wait. ", Pause(more), call("clear_board")], "ok"]))
    here = stand.visit()
    here.say("go")
    here.log.get_by_text("Wait.").wait_for()
    here.message.fill("and then")
    stand.call(more.set)
    here.button("Decline").wait_for()
    expect(here.message).to_be_focused()


def test_an_answer_is_read_out_once_when_it_is_whole(serve: Stand) -> None:
    agent = ScriptedAgent(
        [["Two cards. ", call("add_card", {"title": "milk"})], "All done."], chunk=2
    )
    here = serve(agent).visit()
    here.page.evaluate(
        """() => {
          window.heard = [];
          new MutationObserver((changes) => {
            const added = changes.flatMap((change) => [...change.addedNodes]);
            heard.push(...added.map((it) => it.textContent));
          }).observe(document.getElementById("announcer"), { childList: true, subtree: true });
        }"""
    )
    here.ask("go")
    heard = ["Two cards. ", "Add a card: done", "All done.", "completed"]
    expect(here.announcer).to_contain_text("completed")
    assert here.page.evaluate("() => heard") == heard
    expect(here.log).to_have_attribute("aria-live", "off")


def test_in_the_dark_it_is_suggested_to_make_it_light(serve: Stand) -> None:
    here = serve(ScriptedAgent([])).visit(color_scheme="dark")
    expect(here.button("make it light")).to_be_visible()


def test_the_theme_follows_the_system_until_somebody_chooses(serve: Stand) -> None:
    here: Visit = serve(ScriptedAgent([])).visit(color_scheme="dark")
    here.see_theme("dark")
    here.page.emulate_media(color_scheme="light")
    here.see_theme("light")
    here.button("Make it dark").click()
    here.see_theme("dark")
    here.page.emulate_media(color_scheme="dark")
    here.page.emulate_media(color_scheme="light")
    here.see_theme("dark")
