"""The demo as a visitor has it: its page, its agent, and the headers it is served with.

Everything is found by its accessible role and name, as somebody with a screen reader would.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handspan.agents.demo import DemoAgent

pytestmark = pytest.mark.browser

WEB_DEMO = Path(__file__).parents[2] / "web-demo"

THEME = "() => document.documentElement.dataset.theme"


class Visit:
    """One visitor; what the browser complained about is kept."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)
        self.log = page.get_by_role("log")
        self.todo = page.get_by_role("region", name="To do")

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def button(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)

    def say(self, text: str) -> None:
        self.page.get_by_role("textbox", name="Message").fill(text)
        self.button("Send").click()

    def await_log(self, text: str) -> None:
        self.log.get_by_text(text).first.wait_for()

    def items(self) -> list[str]:
        titles: list[str] = self.todo.get_by_role("listitem").all_text_contents()
        return titles


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[], Visit]]:
    """Opens the demo; at the end nothing was complained about, by CSP or otherwise."""
    from tests.browser.stage import Stage

    visits: list[Visit] = []
    with Stage(browser, DemoAgent(), static=WEB_DEMO).up() as here:

        def visit() -> Visit:
            new = Visit(here.context().new_page())
            visits.append(new)
            new.page.goto(here.address)
            new.page.get_by_role("status").get_by_text("open").wait_for()
            return new

        yield visit
        assert [each.complaints for each in visits] == [[]] * len(visits)


def test_a_wish_with_two_parts_changes_the_page_and_is_reported(visit: Any) -> None:
    here = visit()
    here.say("add milk and make it dark")
    here.await_log("Done.")
    assert here.items() == ["milk"]
    assert here.page.evaluate(THEME) == "dark"
    here.log.get_by_text("add milk and make it dark").wait_for()
    here.log.get_by_text('add_item({"title":"milk"}) ok').wait_for()
    here.say("remove milk")
    here.page.wait_for_function("() => !document.querySelector('#items li')")


def test_stop_ends_the_slow_task_and_the_next_message_works(visit: Any) -> None:
    here = visit()
    here.say("something slow")
    here.await_log("of 30")
    here.button("Stop").click()
    here.await_log("aborted")
    here.say("light")
    here.await_log("Done.")


def test_buttons_work_without_and_with_a_follow_up(visit: Any) -> None:
    here = visit()
    here.button("Make it dark").click()
    here.page.wait_for_function(f"() => ({THEME})() === 'dark'")
    here.page.get_by_role("status").get_by_text("open", exact=True).wait_for()
    assert here.log.get_by_text("Done.").count() == 0
    here.button("Make it light and say so").click()
    here.await_log("Done.")
    assert here.page.evaluate(THEME) == "light"


def test_what_no_tool_has_reaches_the_wildcard(visit: Any) -> None:
    here = visit()
    here.say("beep")
    here.todo.get_by_text("nobody has beep").wait_for()
    here.await_log("Done.")


def test_text_is_shown_as_text(visit: Any) -> None:
    here = visit()
    markup = "<img src=x onerror=alert(1)>"
    here.say(f"add {markup}")
    here.await_log("Done.")
    assert here.items() == [markup]
    assert here.page.locator("img, #log b").count() == 0


def test_two_visitors_have_two_conversations(visit: Any) -> None:
    one, two = visit(), visit()
    one.say("add milk")
    one.await_log("Done.")
    assert two.log.text_content() == ""
    assert two.items() == []
