"""One Chromium for the browser tests of a module; a stage for each.

Playwright's blocking interface keeps an event loop running in the main thread for as long as it is
open, and no test in there can run one of its own: hence not one for the whole session.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def stage(browser: Any) -> Iterator[Callable[..., Any]]:
    """Makes a stage for an agent; it comes down with the test."""
    from tests.browser.stage import Stage

    with ExitStack() as stack:
        yield lambda agent, policy=None: stack.enter_context(Stage(browser, agent, policy).up())
