"""`handspan demo`, the command, with a browser in front of it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

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
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context()
    context.set_default_timeout(WAIT_S * 1000)
    page = context.new_page()
    page.goto(address)
    page.locator("body[data-status=open]").wait_for()
    yield page
    context.close()


def say(page: Any, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_the_first_sentence_of_a_visitor_works(page: Any) -> None:
    """P3, P13: two tools and the wildcard out of one message, in order, and the run completes."""
    say(page, "add milk and make it dark and beep")
    page.locator("body[data-last-run=completed]").wait_for()
    assert page.locator("#items li").all_text_contents() == ["milk"]
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert "beep" in (page.locator("#unknown").text_content() or "")
    calls = page.locator("#log .call").all_text_contents()
    assert [text.split("(")[0] for text in calls] == ["add_item", "set_theme", "beep"]
    assert all(") ok" in text for text in calls), calls


def test_p5_stop_ends_the_slow_task_within_a_second(page: Any) -> None:
    say(page, "slow")
    page.locator("#log .call", has_text="of 30").wait_for()
    ms = page.evaluate(
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
    say(page, "add bread")
    page.locator("body[data-last-run=completed]").wait_for()
    assert page.locator("#items li").all_text_contents() == ["bread"]


def test_p9_a_reload_keeps_the_tabs_conversation(page: Any) -> None:
    """The thread is the tab's (api.md), though the page named none."""
    say(page, "beep")
    page.locator("body[data-last-run=completed]").wait_for()
    before = page.locator("#log p").all_text_contents()
    page.reload()
    page.locator("body[data-last-run=completed]").wait_for()
    assert page.locator("#log p").all_text_contents() == before
    say(page, "make it dark")
    page.locator("#log .call", has_text="set_theme").wait_for()
