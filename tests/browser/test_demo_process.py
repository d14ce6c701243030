"""`handspan demo`, the command, with a browser in front of it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import FIRST_CARDS, Visit

pytestmark = pytest.mark.browser

WAIT_S = 10


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the demo listens, read off its banner; a port that it has chosen."""
    with subprocess.Popen(
        [sys.executable, "-m", "handspan", "demo", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said: list[str] = []
        try:
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"http://\S+:\d+", line):
                    yield found.group()
                    break
            else:
                pytest.fail(f"handspan demo told no address: {said}")
        finally:
            process.kill()
            process.wait(WAIT_S)


@pytest.fixture
def here(browser: Any, address: str) -> Iterator[Visit]:
    """With motion, which other tests do without."""
    context = browser.new_context(color_scheme="light")
    context.set_default_timeout(WAIT_S * 1000)
    visit = Visit(context.new_page())
    visit.page.goto(address)
    expect(visit.status).to_have_text("connected")
    yield visit
    assert visit.unexpected == []
    context.close()


def test_the_first_sentence_of_a_visitor_works(here: Visit) -> None:
    """P3: three tools out of one message, in order, and the run completes."""
    here.ask("add milk to todo and move it to done and make it dark")
    here.see_last_run("completed")
    here.see_board({**FIRST_CARDS, "Done": [*FIRST_CARDS["Done"], "milk"]})
    here.see_theme("dark")
    expect(here.log.locator(".call code")).to_have_text(["add_card", "move_card", "set_theme"])
    expect(here.log.locator(".call .state")).to_have_text(["done", "done", "done"])


def test_a_plan_is_handed_over_and_what_to_say_next_is_suggested(here: Visit) -> None:
    here.ask("plan a party")
    expect(here.log.locator(".speaker")).to_have_text("Planner")
    expect(here.column("To do").get_by_role("listitem")).to_have_count(5)
    here.button('move "Invite the guests" to doing').click()
    here.await_end()
    expect(here.column("Doing").get_by_role("listitem").last).to_have_text("Invite the guests")


def test_p5_stop_ends_the_slow_task_within_a_second(here: Visit) -> None:
    here.say("run the slow task")
    expect(here.call("Slow task")).to_contain_text("of 6 seconds")
    ms = here.page.evaluate(
        """() => new Promise((resolve) => {
          const asked = performance.now();
          new MutationObserver(() => {
            if (document.body.dataset.lastRun === "aborted") resolve(performance.now() - asked);
          }).observe(document.body, { attributes: true });
          document.getElementById("stop").click();
          setTimeout(resolve, 5000, 5000);
        })"""
    )
    assert ms < 1000
    here.await_end("stopped")
    here.ask("add bread")
    here.see_board({"To do": [*FIRST_CARDS["To do"], "bread"]})


def test_p9_a_reload_keeps_the_tabs_conversation(here: Visit) -> None:
    """The thread is the tab's (api.md), though the page named none."""
    here.ask("make it dark")
    before = here.log.locator("#entries > *").all_text_contents()
    here.page.reload()
    expect(here.log.locator("#entries > *")).to_have_text(before)
    here.see_theme("light")
    here.ask("make it dark")
    here.see_theme("dark")
