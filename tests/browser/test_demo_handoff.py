"""The demo's handoff: one agent hands over to another, and the page shows who speaks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from ag_ui.core import ActivitySnapshotEvent
from playwright.sync_api import expect
from tests.browser.visit import FIRST_CARDS, Demo, Visit, demo

from handspan.demo import demo_bridge
from handspan.testing import Pause, ScriptedAgent

pytestmark = pytest.mark.browser

Stand = Callable[[Any], Demo]

PARTY = ["Invite the guests", "Bake a cake", "Choose the music"]


@pytest.fixture
def serve(browser: Any) -> Iterator[Stand]:
    """Serves the page with an agent, or by a bridge."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(demo(browser, agent))


@pytest.fixture
def here(serve: Stand) -> Visit:
    return serve(demo_bridge(pause_s=0)).visit()


def goal(here: Visit) -> Any:
    return here.region("Board").get_by_text("Goal:")


def test_a_plan_is_handed_over_and_the_planner_puts_it_on_the_board(here: Visit) -> None:
    here.ask("plan a party")
    here.see_board({**FIRST_CARDS, "To do": [*FIRST_CARDS["To do"], *PARTY]})
    expect(goal(here)).to_have_text("Goal: Party")
    shown = here.log.locator("#entries > *:not(.call)")
    expect(shown).to_have_text(
        [
            "plan a party",
            "That is one for the planner.",
            "Planner",
            "Three steps for a party.",
            'That is the plan. Begin with "Invite the guests".',
            "completed",
        ]
    )
    expect(here.log.locator(".call .state")).to_have_text(["done"] * 4)
    expect(here.log.locator(".speaker")).to_have_count(1)


def test_who_speaks_is_heard_too(here: Visit) -> None:
    here.page.evaluate(
        """() => {
          window.heard = [];
          new MutationObserver((changes) => {
            const added = changes.flatMap((change) => [...change.addedNodes]);
            heard.push(...added.map((it) => it.textContent.trim()));
          }).observe(document.getElementById("announcer"), { childList: true });
        }"""
    )
    here.ask("plan a party")
    heard = here.page.evaluate("() => heard")
    assert heard.index("That is one for the planner.") < heard.index("Planner")
    assert heard.index("Planner") < heard.index("Three steps for a party.")
    assert heard.count("Planner") == 1


def test_the_planner_is_asked_back_and_answered(here: Visit) -> None:
    here.ask("ask the planner")
    expect(here.suggestions).to_have_text(["plan a picnic", "plan a party", "plan a trip"])
    here.ask("a picnic")
    expect(goal(here)).to_have_text("Goal: Picnic")
    expect(here.log.locator(".speaker")).to_have_text(["Planner", "Planner"])


def test_the_next_message_is_the_first_agents_again_and_knows_the_plan(here: Visit) -> None:
    here.ask("plan a party")
    here.ask("move the cake to doing")
    here.see_board({"To do": [*FIRST_CARDS["To do"], PARTY[0], PARTY[2]]})
    here.see_board({"Doing": [*FIRST_CARDS["Doing"], "Bake a cake"]})
    expect(here.log.locator(".speaker")).to_have_count(1)


def test_the_goal_goes_with_the_board_and_is_read_with_the_page(here: Visit) -> None:
    here.ask("plan a party")
    here.ask("read the page")
    expect(here.call("Read the page").locator("pre").last).to_contain_text('"goal": "Party"')
    here.say("clear the board")
    here.button("Allow").click()
    here.await_end()
    expect(goal(here)).to_be_hidden()


def test_p9_a_reload_keeps_who_spoke(here: Visit) -> None:
    here.ask("plan a party")
    before = here.log.locator("#entries > *").all_text_contents()
    here.page.reload()
    expect(here.log.locator("#entries > *")).to_have_text(before)
    expect(here.log.locator(".speaker")).to_have_text("Planner")


def test_p14_whatever_an_activity_says_of_a_speaker_is_text(serve: Stand) -> None:
    def speaks(name: Any) -> Any:
        event = ActivitySnapshotEvent(
            message_id=f"s{name}"[:9], activity_type="speaker", content={"name": name}
        )
        return lambda _: event

    odd = [speaks("<b>me</b>"), speaks(7), speaks(None), "Hello."]
    here = serve(ScriptedAgent([odd])).visit()
    here.ask("go")
    here.see_log("go", "<b>me</b>", "Hello.", "completed")


def test_the_dots_breathe_until_the_planner_says_something(serve: Stand) -> None:
    more = asyncio.Event()
    event = ActivitySnapshotEvent(
        message_id="s", activity_type="speaker", content={"name": "Planner"}
    )
    stand = serve(ScriptedAgent([[event, Pause(more), "Well."]]))
    here = stand.visit()
    here.say("go")
    here.log.get_by_text("Planner").wait_for()
    expect(here.log.locator("#working")).to_be_visible()
    stand.call(more.set)
    here.await_end()
    expect(here.log.locator("#working")).to_be_hidden()
