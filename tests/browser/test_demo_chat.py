"""The demo's conversation: what is shown of what an agent says and does, and how it is drawn."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.visit import FIRST_CARDS, Demo, demo

from handspan import Policy
from handspan.testing import Pause, ScriptedAgent, call

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"

Stand = Callable[[Any], Demo]


@pytest.fixture
def serve(browser: Any) -> Iterator[Stand]:
    """Serves the page with an agent."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(demo(browser, agent))


def test_p14_markup_is_shown_as_text_wherever_it_stands(serve: Stand) -> None:
    add = call("add_card", {"title": MARKUP})
    unknown = call("unknown", {"said": MARKUP})
    fail = call("remove_card", {"title": f"no {MARKUP}"})
    here = serve(ScriptedAgent([[MARKUP, add, unknown, fail], MARKUP])).visit()
    here.ask(MARKUP)
    assert here.log.get_by_text(MARKUP, exact=True).count() == 3
    expect(here.column("To do").get_by_role("listitem").last).to_have_text(MARKUP)
    expect(here.region("What nobody else took")).to_contain_text(MARKUP)
    expect(here.call("Remove a card")).to_contain_text(f'no card "no {MARKUP}"')
    assert here.page.locator("main img, main b").count() == 0


def test_a_call_opens_to_its_arguments_and_its_result(serve: Stand) -> None:
    here = serve(
        ScriptedAgent([[call("move_card", {"title": "tea", "column": "Done"})], "ok"])
    ).visit()
    here.ask("go")
    row = here.call("Move a card")
    row.get_by_text("Move a card").click()
    expect(row.locator("pre").first).to_have_text('{\n  "title": "tea",\n  "column": "Done"\n}')
    expect(row.locator("pre").last).to_contain_text('"moved": "Buy tea"')
    expect(row.get_by_text("Result", exact=True)).to_be_visible()


def test_why_a_call_failed_is_seen_without_opening_it(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("remove_card", {"title": "yak"})], "ok"])).visit()
    here.ask("go")
    row = here.call("Remove a card")
    expect(row).to_contain_text("failed")
    expect(row.get_by_text('there is no card "yak"; there are "Water the ferns"')).to_be_visible()


def test_a_run_that_fails_says_so_and_the_next_one_works(serve: Stand) -> None:
    async def agent(run: Any) -> AsyncIterator[Any]:
        yield "Trying. "
        if len(run.messages) == 1:
            raise RuntimeError("a secret of the server")
        yield "Fine."

    here = serve(agent).visit()
    here.say("go")
    here.see_last_run("agent_error")
    end = here.log.locator(".note")
    expect(end).to_contain_text("failed")
    assert "secret" not in (end.text_content() or "")
    here.say("again")
    expect(here.log.get_by_text("Trying. Fine.")).to_be_visible()
    here.see_last_run("completed")


def test_streaming_disturbs_neither_a_selection_nor_an_opened_call(serve: Stand) -> None:
    more = asyncio.Event()
    script = [[call("list_cards")], ["The beginning", Pause(more), " and the end."]]
    stand = serve(ScriptedAgent(script))
    here = stand.visit()
    here.say("go")
    text = here.log.get_by_text("The beginning")
    text.wait_for()
    here.call("List the cards").get_by_text("List the cards").click()
    text.evaluate("(p) => getSelection().setBaseAndExtent(p.firstChild, 4, p.firstChild, 13)")
    stand.call(more.set)
    here.await_end()
    expect(here.log.get_by_text("The beginning and the end.")).to_be_visible()
    assert here.page.evaluate("() => String(getSelection())") == "beginning"
    expect(here.call("List the cards").get_by_text("Result", exact=True)).to_be_visible()


LONG = "\n".join(f"line {n}" for n in range(200))
AT_END = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight < 32"


def test_the_log_follows_its_end_only_while_the_reader_is_there(serve: Stand) -> None:
    more = asyncio.Event()
    stand = serve(ScriptedAgent([[LONG, Pause(more), "\nthe last line"]]))
    here = stand.visit()
    here.say("go")
    here.log.get_by_text("line 199").wait_for()
    assert here.log.evaluate(AT_END)
    here.log.evaluate("(log) => { log.scrollTop = 40; }")
    expect(here.button("To the newest")).to_be_visible()
    stand.call(more.set)
    here.await_end()
    assert here.log.evaluate("(log) => log.scrollTop") == 40
    here.button("To the newest").click()
    assert here.log.evaluate(AT_END)
    expect(here.button("To the newest")).to_be_hidden()


def test_a_message_during_a_run_waits_for_its_turn_or_is_taken_back(serve: Stand) -> None:
    more = asyncio.Event()
    here = (stand := serve(ScriptedAgent([["Thinking. ", Pause(more), "Thought."]]))).visit()
    here.say("first")
    here.log.get_by_text("Thinking.").wait_for()
    here.say("second")
    here.log.get_by_text("waits for its turn").wait_for()
    here.say("third")
    here.button("Take back").last.click()
    expect(here.button("Take back")).to_have_count(1)
    expect(here.message).to_have_value("third")
    expect(here.message).to_be_focused()
    stand.call(more.set)
    here.await_end()
    here.await_end()
    shown = here.log.locator("#entries > *").all_text_contents()
    answer = "Thinking. Thought."
    assert shown == ["first", answer, "completed", "second", answer, "completed"]
    expect(here.log.get_by_text("waits for its turn")).to_have_count(0)


def test_p9_a_reload_keeps_the_conversation_and_begins_the_board_anew(serve: Stand) -> None:
    """And the agent is told what is really there."""
    agent = ScriptedAgent([[call("add_card", {"title": "milk"})], "It is there."])
    here = serve(agent).visit()
    here.ask("add milk")
    before = here.log.locator("#entries > *").all_text_contents()
    here.page.reload()
    expect(here.log.locator(".note")).to_have_text("completed")
    assert here.log.locator("#entries > *").all_text_contents() == before
    assert here.announcer.text_content() == ""
    here.see_board(FIRST_CARDS)
    agent.script[:] = ["ok"]
    here.ask("what is there?")
    assert [item.value for item in agent.seen[-1].context] == [FIRST_CARDS]


def test_p2_an_idempotent_call_is_begun_anew_by_the_page_that_was_reloaded(browser: Any) -> None:
    """When the grace of the page that went away is over."""
    agent = ScriptedAgent([[call("slow_task", {"seconds": 1})], "There."])
    with demo(browser, agent, Policy(page_grace=3)) as stand:
        here = stand.visit()
        here.say("go")
        here.log.get_by_role("progressbar").wait_for()
        here.page.reload()
        expect(here.log.get_by_text("There.")).to_be_visible(timeout=10_000)
        here.await_end()
        expect(here.call("Slow task")).to_contain_text("done")


def test_p9_a_lost_connection_is_told_and_what_is_said_meanwhile_is_sent_later(
    serve: Stand,
) -> None:
    stand = serve(ScriptedAgent(["Here I am."]))
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    stand.call(stand.proxy.refuse)
    stand.call(stand.proxy.cut)
    expect(here.status).to_have_text("reconnecting…")
    expect(here.page.locator("body")).to_have_attribute("data-status", "reconnecting")
    here.say("are you there?")
    here.log.get_by_text("waits for the connection").wait_for()
    stand.call(stand.proxy.refuse, False)
    here.await_end()
    expect(here.status).to_have_text("connected")
    expect(here.log.get_by_text("Here I am.")).to_be_visible()
    assert here.log.locator(".user").all_text_contents() == ["are you there?"]


def test_a_message_that_waits_for_the_connection_is_taken_back(serve: Stand) -> None:
    """It leaves the page at once; the server, which may have it by then, is told to stop it."""
    stand = serve(ScriptedAgent(["Here I am."]))
    here = stand.visit(proxied=True)
    here.tolerated = ("WebSocket connection",)
    stand.call(stand.proxy.refuse)
    stand.call(stand.proxy.cut)
    expect(here.status).to_have_text("reconnecting…")
    here.say("hello?")
    here.button("Take back").click()
    expect(here.button("Take back")).to_have_count(0)
    expect(here.message).to_have_value("hello?")
    stand.call(stand.proxy.refuse, False)
    expect(here.status).to_have_text("connected")
    expect(here.button("Stop")).to_be_disabled()


def test_p10_a_call_that_is_allowed_after_a_reload_is_carried_out_by_the_page_as_it_is_now(
    serve: Stand,
) -> None:
    """The tab keeps its session, so the question and the call are its own still."""
    stand = serve(ScriptedAgent([[call("clear_board")], "Cleared."]))
    here = stand.visit()
    here.say("go")
    here.button("Allow").wait_for()
    here.page.reload()
    row = here.call("Clear the board")
    expect(row.locator(".state")).to_have_text("asks you")
    here.button("Allow").click()
    expect(row.locator(".state")).to_have_text("done")
    expect(here.button("Allow")).to_have_count(0)


def test_p10_a_call_that_is_allowed_elsewhere_while_its_page_is_away_says_that_it_waits(
    serve: Stand,
) -> None:
    """Nothing is left to press: the call is the page's that asked for it, and may come back."""
    stand = serve(ScriptedAgent([[call("clear_board")], "never"]))
    here, other = (stand.enter(stand.visit(), thread="shared") for _ in range(2))
    here.say("go")
    other.button("Allow").wait_for()
    here.page.close()
    other.button("Allow").click()
    row = other.call("Clear the board")
    expect(row.locator(".state")).to_have_text("allowed, waits for its page")
    expect(other.button("Allow")).to_have_count(0)
    other.page.reload()
    expect(row.locator(".state")).to_have_text("allowed, waits for its page")


FLOOD = [f"w{n} " for n in range(4000)]
COUNT = """() => {
  const [began, counts] = [performance.now(), { draws: 0, frames: 0 }];
  const looks = { subtree: true, childList: true, characterData: true };
  new MutationObserver(() => counts.draws++).observe(document.getElementById("entries"), looks);
  const frame = () => { counts.frames++; requestAnimationFrame(frame); };
  frame();
  window.counts = () => ({ ...counts, ms: performance.now() - began });
}"""


def test_however_much_comes_it_is_drawn_once_a_frame(serve: Stand) -> None:
    here = serve(ScriptedAgent([FLOOD])).visit()
    here.page.evaluate(COUNT)
    here.ask("go")
    counts = here.page.evaluate("() => counts()")
    clock = counts["ms"] / 250
    """What the clock may draw where frames are late."""
    assert 0 < counts["draws"] <= counts["frames"] + clock + 1
    assert here.log.locator(".assistant").text_content() == "".join(FLOOD)


def test_a_tab_that_draws_no_frames_shows_the_conversation_all_the_same(serve: Stand) -> None:
    stand = serve(ScriptedAgent([[call("add_card", {"title": "milk"})], "It is there."]))
    here = stand.visit()
    here.page.add_init_script("window.requestAnimationFrame = () => 1;")
    stand.enter(here)
    here.say("go")
    here.page.wait_for_function(
        "() => document.getElementById('entries').textContent.endsWith('completed')", polling=50
    )
    here.await_end()
    expect(here.log.get_by_text("It is there.")).to_be_visible()


OTHERWISE = {
    "?url=http://[bad": "the address of this page has ?url=http://[bad, which is no server's",
    "?url=javascript:1": "the address of this page has ?url=javascript:1, which is no server's",
    "?thread=": "the address of this page has an empty ?thread=, which names no conversation",
    "?thread=a/b": "the address of this page has ?thread=a/b, which names no conversation",
}


def test_p14_an_address_that_asks_for_nonsense_is_told_and_the_page_works(serve: Stand) -> None:
    stand = serve(ScriptedAgent(["Here I am."]))
    here = stand.visit()
    here.ask("before")
    said = ["before", "Here I am."]
    for asked, told in OTHERWISE.items():
        here.page.goto(f"{stand.address}/{asked}")
        expect(here.status).to_have_text("connected")
        expect(here.log.get_by_text(told)).to_be_in_viewport()
        expect(here.announcer).to_contain_text(told)
        here.say(asked)
        more = [asked, "Here I am."]
        here.see_log(*said, "completed", re.compile("the address of"), *more, "completed")
        said += more


def test_p10_a_question_is_gone_when_the_run_is_stopped(serve: Stand) -> None:
    here = serve(ScriptedAgent([[call("clear_board")], "never"])).visit()
    here.say("go")
    expect(here.page.get_by_role("group", name="Clear the board?")).to_be_visible()
    here.button("Stop").click()
    here.await_end("stopped")
    expect(here.button("Allow")).to_have_count(0)
    here.see_board(FIRST_CARDS)
