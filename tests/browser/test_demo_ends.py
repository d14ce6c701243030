"""How the demo tells that runs ended, and what becomes of a message that was not carried out."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import Demo, Visit, demo

pytestmark = pytest.mark.browser

SLOWLY = re.compile(r"Slowly\.*")

Stand = Callable[[Any], Demo]


@pytest.fixture
def serve(browser: Any) -> Iterator[Stand]:
    """Serves the page with an agent."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(demo(browser, agent))


async def agent(run: Any) -> AsyncIterator[Any]:
    """Goes on and on for "slow", and has nothing to say to anything else.

    While it streams, the server puts what happens in one breath into one frame.
    """
    if run.messages[-1].content == "slow":
        yield "Slowly"
        while True:
            yield "."
            await asyncio.sleep(0.001)


def say_slow(here: Visit, *then: str) -> None:
    """Start a run that goes on, and queue messages behind it."""
    here.say("slow")
    here.log.get_by_text("Slowly").wait_for()
    for text in then:
        here.say(text)
    expect(here.log.get_by_text("waits for its turn")).to_have_count(len(then))


def test_p5_runs_that_end_in_one_breath_have_an_end_each(serve: Stand) -> None:
    here = serve(agent).visit()
    say_slow(here, "one", "two")
    here.button("Stop").click()
    here.see_log("slow", SLOWLY, "stopped", "one", "completed", "two", "completed")
    expect(here.log.get_by_text("waits for its turn")).to_have_count(0)


def test_p5_a_buttons_run_that_is_stopped_says_so_though_another_follows_at_once(
    serve: Stand,
) -> None:
    here = serve(agent).visit()
    here.button("Slow task").click()
    here.log.get_by_role("progressbar").wait_for()
    here.say("one")
    here.log.get_by_text("waits for its turn").wait_for()
    here.button("Stop").click()
    expect(here.log.locator(".note")).to_have_text(["stopped", "completed"])
    assert here.log.locator("#entries > *").all_text_contents()[-2:] == ["one", "completed"]


def test_p8_whoever_stops_a_run_of_another_tab_agrees_with_it(serve: Stand) -> None:
    stand = serve(agent)
    one, two = (stand.enter(stand.visit(), thread="t") for _ in range(2))
    say_slow(one, "more")
    two.log.get_by_text("Slowly").wait_for()
    two.button("Stop").click()
    for each in (one, two):
        each.see_log("slow", SLOWLY, "stopped", "more", "completed")


ENDS = """async ([before, after]) => {
  const { endsBetween } = await import("/entries.js");
  return endsBetween(before, after).map(({ end, after }) => [end.runId, end.result?.reason, after]);
}"""


def view(messages: str, run: str = "", last: str = "") -> dict[str, Any]:
    """What a page knows: `u` and a number is a message of a visitor, `a` one of an agent."""
    roles = {"u": "user", "a": "assistant"}
    return {
        "messages": [{"id": each, "role": roles[each[0]]} for each in messages.split()],
        "calls": [],
        "run": {"runId": run} if run else None,
        "lastRun": {"runId": last, "result": {"reason": "completed"}} if last else None,
    }


BETWEEN: dict[str, tuple[dict[str, Any] | None, dict[str, Any], list[list[Any]]]] = {
    "nothing has ended": (view("u1"), view("u1 a1"), []),
    "one has": (view("u1", "r1"), view("u1 a1", last="r1"), [["r1", "completed", "a1"]]),
    "it has, and another goes on": (
        view("u1", "r1"),
        view("u1 a1 u2 a2", "r2", last="r1"),
        [["r1", "completed", "a1"]],
    ),
    "it has, another too, and a third goes on": (
        view("u1 a1", "r1"),
        view("u1 a1 u2 a2 u3", "r3", last="r2"),
        [["r1", None, "a1"], ["r2", "completed", "a2"]],
    ),
    "it has, and so have others since": (
        view("u1 a1", "r1"),
        view("u1 a1 u2 u3", last="r3"),
        [["r1", None, "a1"], ["r3", "completed", "u3"]],
    ),
    "the page has just come": (None, view("u1 a1", last="r1"), [["r1", "completed", "a1"]]),
    "the history is gone": (view("u1 a1", "r1"), view(""), []),
}


def test_p5_of_a_run_whose_end_a_view_does_not_tell_it_is_known_that_it_ended(
    serve: Stand,
) -> None:
    here = serve(agent).visit()
    told = {
        name: here.page.evaluate(ENDS, [before, after])
        for name, (before, after, _) in BETWEEN.items()
    }
    assert told == {name: ends for name, (_, _, ends) in BETWEEN.items()}


def test_what_waited_while_the_server_was_started_anew_is_given_back(serve: Stand) -> None:
    """Into the box; what has no room there, into a note."""
    stand = serve(agent)
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    say_slow(here, "first in the queue", "second in the queue")
    stand.replace(agent)
    notes = here.log.locator(".note")
    expect(notes).to_have_count(3)
    expect(here.status).to_have_text("connected")
    gone = "not carried out: the server was started anew before its turn came."
    assert sorted(notes.all_text_contents()) == [
        f"{gone} It is in the box again.",
        f"{gone} You had said: second in the queue",
        "the server no longer knows this run",
    ]
    expect(here.message).to_have_value("first in the queue")
    expect(here.log.get_by_text("waits for its turn")).to_have_count(0)
    expect(here.button("Stop")).to_be_disabled()
    here.button("Send").click()
    expect(here.log.locator(".note").last).to_have_text("completed")


def test_what_was_taken_back_is_not_given_back_again(serve: Stand) -> None:
    stand = serve(agent)
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    say_slow(here, "not that")
    here.button("Take back").click()
    here.message.fill("something else")
    stand.replace(agent)
    expect(here.log.locator(".note")).to_have_text(["the server no longer knows this run"])
    expect(here.message).to_have_value("something else")
