"""What the demo suggests to say next: offered when a run is over, taken by mouse, key or finger."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.axe import faults, load_axe
from tests.browser.visit import FIRST_CARDS, Demo, demo

from handspan import Bridge
from handspan.demo import demo_bridge
from handspan.testing import Pause, ScriptedAgent

pytestmark = pytest.mark.browser

Stand = Callable[[Any], Demo]

AFTER_MILK = ["move milk to doing", "list the cards", "clear the board"]

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
SCREENS = {"desktop": DESKTOP, "phone": PHONE}

AT_END = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 2"


@pytest.fixture
def serve(browser: Any) -> Iterator[Stand]:
    """Serves the page with an agent, or by a bridge."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(demo(browser, agent))


def suggesting(agent: Any, *texts: str, when: asyncio.Event | None = None) -> Bridge:
    """A bridge that always suggests the same; not before that is set."""
    bridge = Bridge(agents={"default": agent})

    @bridge.suggest
    async def suggest(_: Any) -> list[str]:
        if when is not None:
            await when.wait()
        return list(texts)

    return bridge


def test_after_a_run_it_is_suggested_what_fits_and_one_press_says_it(serve: Stand) -> None:
    here = serve(demo_bridge(pause_s=0)).visit()
    here.ask("add milk to todo")
    expect(here.suggestions).to_have_text(AFTER_MILK)
    here.button("move milk to doing").click()
    here.await_end()
    here.see_board({**FIRST_CARDS, "Doing": ["Paint the fence", "milk"]})
    expect(here.message).to_be_focused()
    expect(here.suggestions.first).to_have_text("move milk to done")


def test_a_suggestion_is_taken_by_keyboard(serve: Stand) -> None:
    """They stand right before the message box, where the focus is."""
    here = serve(demo_bridge(pause_s=0)).visit()
    here.ask("add milk to todo")
    expect(here.suggestions).to_have_text(AFTER_MILK)
    here.message.focus()
    for _ in AFTER_MILK:
        here.page.keyboard.press("Shift+Tab")
    expect(here.button("move milk to doing")).to_be_focused()
    here.page.keyboard.press("Enter")
    here.await_end()
    here.see_board({**FIRST_CARDS, "Doing": ["Paint the fence", "milk"]})
    expect(here.message).to_be_focused()


def test_a_finger_takes_a_suggestion_without_calling_the_keyboard_up(serve: Stand) -> None:
    here = serve(demo_bridge(pause_s=0)).visit(**PHONE)
    here.button("make it dark").tap()
    here.await_end()
    expect(here.log).to_be_focused()
    expect(here.button("make it light")).to_be_in_viewport(ratio=1)


def test_suggestions_are_gone_as_soon_as_a_run_is_asked_for(serve: Stand) -> None:
    """Though the server has not said a word of it: here it cannot be reached."""
    stand = serve(suggesting(ScriptedAgent(["Here I am."]), "again"))
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    here.ask("go")
    expect(here.suggestions).to_have_text(["again"])
    stand.call(stand.proxy.refuse)
    stand.call(stand.proxy.cut)
    expect(here.status).to_have_text("reconnecting…")
    here.button("again").click()
    here.log.get_by_text("waits for the connection").wait_for()
    expect(here.suggestions).to_have_count(0)
    here.button("Take back").click()
    stand.call(stand.proxy.refuse, False)
    expect(here.status).to_have_text("connected")


def test_a_button_that_calls_a_tool_takes_the_suggestions_away_too(serve: Stand) -> None:
    """At once, too: the call waits for the connection."""
    stand = serve(suggesting(ScriptedAgent(["Here I am."]), "again"))
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    here.ask("go")
    expect(here.suggestions).to_have_text(["again"])
    stand.call(stand.proxy.refuse)
    stand.call(stand.proxy.cut)
    expect(here.status).to_have_text("reconnecting…")
    here.button("Slow task").click()
    expect(here.suggestions).to_have_count(0)
    stand.call(stand.proxy.refuse, False)
    here.log.get_by_role("progressbar").wait_for()
    expect(here.suggestions).to_have_count(0)
    here.button("Stop").click()
    here.await_end("stopped")
    expect(here.suggestions).to_have_count(0)


def test_there_are_none_while_a_run_goes_on_and_none_after_one_that_was_stopped(
    serve: Stand,
) -> None:
    script = ScriptedAgent([["Thinking. ", Pause(asyncio.Event()), "never"]])
    here = serve(suggesting(script, "again")).visit()
    here.say("go")
    here.log.get_by_text("Thinking.").wait_for()
    expect(here.suggestions).to_have_count(0)
    here.button("Stop").click()
    here.await_end("stopped")
    expect(here.suggestions).to_have_count(0)


def test_p9_a_reload_keeps_what_is_suggested(serve: Stand) -> None:
    here = serve(suggesting(ScriptedAgent(["Here I am."]), "again", "or not")).visit()
    here.ask("go")
    expect(here.suggestions).to_have_text(["again", "or not"])
    here.page.reload()
    expect(here.suggestions).to_have_text(["again", "or not"])


def test_p14_markup_in_a_suggestion_is_text(serve: Stand) -> None:
    text = "<img src=x onerror=alert(1)>"
    here = serve(suggesting(ScriptedAgent(["Here I am."]), text)).visit()
    here.ask("go")
    expect(here.suggestions).to_have_text([text])
    here.button(text).click()
    here.await_end()
    expect(here.log.locator(".user").last).to_have_text(text)


LONG = "\n".join(f"line {n}" for n in range(60))


@pytest.mark.parametrize("screen", SCREENS)
def test_the_end_of_the_conversation_stays_in_sight_when_suggestions_come(
    serve: Stand, screen: str
) -> None:
    texts = ("a suggestion that is rather long", "another one that is rather long", "a third")
    when = asyncio.Event()
    stand = serve(suggesting(ScriptedAgent([LONG]), *texts, when=when))
    here = stand.visit(**SCREENS[screen])
    here.ask("go")
    expect(here.log.get_by_text("completed")).to_be_in_viewport(ratio=0.9)
    stand.call(when.set)
    expect(here.suggestions).to_have_count(3)
    expect(here.log.get_by_text("completed")).to_be_in_viewport(ratio=0.9)
    assert here.log.evaluate(AT_END)
    expect(here.button("To the newest")).to_be_hidden()
    expect(here.message).to_be_in_viewport(ratio=1)
    below = "() => document.getElementById('foot').getBoundingClientRect().top"
    end = here.log.get_by_text("completed").evaluate("(it) => it.getBoundingClientRect().bottom")
    assert end <= here.page.evaluate(below)


def test_on_a_phone_a_suggestion_is_large_enough_and_the_page_is_not_wider(serve: Stand) -> None:
    here = serve(demo_bridge(pause_s=0)).visit(**PHONE)
    here.ask("plan a party")
    expect(here.suggestions).to_have_count(3)
    sizes = here.suggestions.evaluate_all(
        "(all) => all.map((it) => it.getBoundingClientRect()).map((r) => [r.width, r.height])"
    )
    assert all(width >= 44 and height >= 44 for width, height in sizes)
    assert here.page.evaluate("() => document.documentElement.scrollWidth") <= 360


@pytest.mark.node
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_no_fault_with_a_plan_and_suggestions(
    serve: Stand, screen: str, theme: str
) -> None:
    here = serve(demo_bridge(pause_s=0)).visit(**SCREENS[screen], color_scheme=theme)
    load_axe(here.page)
    here.ask("plan a party")
    expect(here.suggestions).to_have_count(3)
    assert faults(here.page) == []
    here.log.evaluate("(log) => { log.scrollTop = 0; }")
    assert faults(here.page) == []
