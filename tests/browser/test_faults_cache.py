"""A page that is left and comes back out of the browser's cache: it is the same document.

Drivers switch that cache off by default, so this has a browser of its own; where that does not keep
the page all the same, what it says about it is the reason to skip.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.browser.conftest import FLAGS
from tests.browser.faults import Moment, Troubles, moment
from tests.browser.patience import until

from handspan import Policy

pytestmark = pytest.mark.browser

OFF_BY_DEFAULT = ["--disable-back-forward-cache"]

WHY_NOT = """() => JSON.stringify(
  performance.getEntriesByType("navigation")[0].notRestoredReasons ?? "no reason is given")"""


@pytest.fixture(scope="module")
def here(chromium_path: str) -> Iterator[Troubles]:
    from playwright.sync_api import sync_playwright

    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=chromium_path,
            args=[*FLAGS, "--enable-features=BackForwardCache"],
            ignore_default_args=OFF_BY_DEFAULT,
        )
        stack.callback(browser.close)
        yield Troubles(stack, browser, Policy())


def leave_and_return(it: Moment, elsewhere: str, there: str = "true") -> None:
    """Go to another page of the server, wait for `there` to hold, and go back."""
    it.page.evaluate("() => { window.stayed = true; }")
    it.page.goto(elsewhere)
    until(it.page, "the other page", there)
    it.page.go_back(wait_until="commit")
    if not it.page.evaluate("() => window.stayed"):
        pytest.skip(f"the browser did not keep the page: {it.page.evaluate(WHY_NOT)}")
    until(it.page, "the page is connected again", "welcomes.length > 1")


def test_p9_a_page_out_of_the_cache_goes_on_where_it_was(here: Troubles) -> None:
    with moment(here, "cached", "started", "once") as it:
        leave_and_return(it, f"{here.stage.address}/faults.js")
        assert it.page.evaluate("() => welcomes[1].resumed") is True
        first, second = it.page.evaluate("() => hellos")
        assert first["documentId"] == second["documentId"]
        assert [call["state"] for call in second["calls"]] == ["started"]
        marks = "() => Object.keys(sessionStorage).filter((key) => key.includes('left'))"
        assert it.page.evaluate(marks) == []
        it.go_on()
        assert it.end() == ("ok", 1)


def test_p2_a_page_out_of_the_cache_finds_that_another_had_its_session(here: Troubles) -> None:
    """The other document was told that the call's outcome is unknown; the handler is called off."""
    with moment(here, "visited", "started", "once") as it:
        leave_and_return(it, f"{it.page.url}&again", "window.welcomes?.[0]?.resumed")
        assert it.page.evaluate("() => [welcomes[1].resumed, hellos[1].reload]") == [True, True]
        it.go_on()
        assert it.end() == ("outcome_unknown", 1)
