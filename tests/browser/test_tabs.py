"""Several tabs, reloads, and the stop button, as a person at a browser has them."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.patience import until, within
from tests.browser.stage import READY, Stage, counts, shown

from handspan import Policy, Run
from handspan.testing import Pause, ScriptedAgent, call

pytestmark = pytest.mark.browser

Make = Callable[..., Stage]

RUN = "(text) => bridge.run(text).finished.catch(({ code }) => ({ code }))"
IDLE = "() => until((view) => view.lastRun && !view.run)"
STARTED = "() => until((view) => view.calls.some((call) => call.state === 'started'))"


def test_p6_text_is_shown_while_it_streams(stage: Make) -> None:
    gate = asyncio.Event()
    here = stage(ScriptedAgent([["Hel", Pause(gate), "lo"]]))
    page = here.page()
    page.evaluate("() => { window.run = bridge.run('go'); }")
    view = within(
        page, "half of the text", "() => until((view) => view.messages.at(-1)?.content === 'Hel')"
    )
    assert view["open"] == [view["messages"][-1]["id"]], "the text is under way"
    assert view["run"]["depth"] == 0
    here.call(gate.set)
    types = within(
        page,
        "the run's events to their end",
        """async () => {
          const all = [];
          for await (const { type } of run) all.push(type);
          return all;
        }""",
    )
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert types.count("RUN_FINISHED") == 1
    view = within(page, "the view afterwards", IDLE)
    assert (view["messages"][-1]["content"], view["open"]) == ("Hello", [])


def test_p5_stop_does_not_wait_for_a_handler_that_ignores_its_signal(stage: Make) -> None:
    """C067: the run ends within a second, and the turn of the page is free for the next call."""
    agent = ScriptedAgent([[call("stubborn")], "never"])
    here = stage(agent)
    page = here.page()
    page.evaluate(
        "() => bridge.tool('stubborn', { description: 'x' }, () => new Promise(() => {})) && 0"
    )
    told = within(
        page,
        "the end of the stopped run",
        f"""async () => {{
          const run = bridge.run("go");
          await ({STARTED})();
          const asked = performance.now();
          run.abort();
          return {{ end: await run.finished, ms: performance.now() - asked }};
        }}""",
    )
    assert told["end"] == {"reason": "aborted", "depth": 0}
    assert told["ms"] < 1000
    agent.script[:] = [[call("add", {"text": "next"})], "done"]
    assert within(page, "the next run", RUN, "more") == {"reason": "completed", "depth": 1}
    assert counts(page) == {"add": 1}
    assert shown(page) == here.history()


def test_p8_two_tabs_of_one_profile_share_a_conversation_and_one_executes(stage: Make) -> None:
    """The starting tab's tools answer; the other one's are not asked (protocol 6)."""
    here = stage(ScriptedAgent([["hi ", call("add", {"text": "x"}), call("beep")], "bye"]))
    one = here.page()
    two = here.open(one.context)
    tabs = [one, two]
    for number, (mine, yours) in enumerate([(one, two), (two, one)], start=1):
        assert within(mine, "its run", RUN, f"run {number}")["reason"] == "completed"
        arrived = f"() => until((view) => !view.run && view.messages.length === {5 * number})"
        within(yours, f"the other tab has run {number}", arrived)
        assert [counts(tab) for tab in tabs] == [{"add": 1, "*": 1}, {"add": 1, "*": 1}][
            :number
        ] + [{}] * (2 - number), f"after run {number}"
        assert shown(one) == shown(two) == here.history()


def test_p5_stop_in_one_tab_stops_the_handler_in_the_other(stage: Make) -> None:
    here = stage(ScriptedAgent([[call("slow")], "never"]))
    one, two = here.page(), here.page()
    one.evaluate("() => { window.run = bridge.run('go'); }")
    within(two, "the call is seen in the other tab", STARTED)
    assert within(two, "the answer to stop", "() => bridge.abort()") is True
    end = within(one, "the end in the first tab", "() => run.finished")
    assert end == {"reason": "aborted", "depth": 0}
    until(one, "the signal", "window.abortedAt")
    within(two, "the end in the other tab", IDLE)
    assert (counts(one), counts(two)) == ({"slow": 1}, {})
    assert shown(one) == shown(two) == here.history()


def reloaded(stage: Make, policy: Policy, ms: float) -> tuple[Any, list[dict[str, Any]]]:
    """The page after a reload in the middle of a handler, and how its run ended."""
    here = stage(ScriptedAgent([[call("slow")], "I see."]), policy)
    page = here.page()
    page.evaluate("() => { bridge.run('go'); }")
    within(page, "the handler runs", STARTED)
    page.reload()
    page.evaluate(READY)
    view = within(page, "the end of the run after the reload", IDLE, ms=ms)
    assert counts(page) == {}, "what may have happened once must not happen twice (P2)"
    assert shown(page) == here.history()
    return view["lastRun"], shown(page)


def test_p2_a_reload_in_a_handler_is_told_to_the_model_and_runs_nothing_twice(stage: Make) -> None:
    """Behaviour 3: started, the document went away, neither idempotent nor readOnly."""
    last, messages = reloaded(stage, Policy(page_grace=0.3), 8_000)
    assert last["result"] == {"reason": "completed", "depth": 1}
    [result] = [m for m in messages if m["role"] == "tool"]
    assert json.loads(result["content"])["error"]["code"] == "outcome_unknown"
    assert result["metadata"]["handspan"] == {"outcome": "unknown", "code": "outcome_unknown"}
    assert messages[-1]["content"] == "I see."


def test_behaviour_5_a_reload_need_not_wait_for_the_grace(stage: Make) -> None:
    """The new document says hello with its session, so the old one is known to be gone at once."""
    last, _ = reloaded(stage, Policy(), 3_000)
    assert last["result"]["reason"] == "completed"


def test_behaviour_3_a_read_only_call_is_carried_out_by_the_page_that_comes_after_a_reload(
    stage: Make,
) -> None:
    here = stage(ScriptedAgent([[call("title")], "done"]), Policy(page_grace=1))
    page = here.page()
    page.evaluate(
        """() => {
          const title = { description: "never answers", readOnly: true };
          bridge.tool("title", title, () => new Promise(() => {}));
          bridge.run("go");
        }"""
    )
    out = "['dispatched', 'started'].includes(view.calls[0]?.state)"
    within(page, "the call is out", f"() => until((view) => {out})")
    page.reload()
    page.evaluate(READY)
    view = within(page, "the end of the run after the reload", IDLE)
    assert view["lastRun"]["result"] == {"reason": "completed", "depth": 1}
    assert [m["content"] for m in shown(page) if m["role"] == "tool"] == ["stage"]
    assert shown(page) == here.history()


def test_behaviour_5_the_frames_of_a_tab_share_its_storage_and_not_its_session(
    stage: Make,
) -> None:
    here = stage(ScriptedAgent(["hi"]))
    page = here.page()
    frame = """async () => {
      const frame = document.createElement("iframe");
      frame.src = "/client/package.json" + location.search; // no page lets itself be framed
      const loaded = new Promise((go) => (frame.onload = go));
      document.body.append(frame);
      await loaded;
      const inner = frame.contentDocument;
      const module = inner.createElement("script");
      Object.assign(module, { type: "module", src: "/page.js" });
      inner.head.append(module);
      const open = () => frame.contentWindow.bridge?.status === "open";
      while (!open()) await new Promise((go) => setTimeout(go, 5));
    }"""

    def sessions() -> set[str]:
        return {look.id for look in here.call(lambda: here.bridge.sessions)}

    within(page, "the frame is connected", frame)
    before = sessions()
    assert len(before) == 2
    page.reload()
    page.evaluate(READY)
    within(page, "the frame is connected again", frame)
    within(page, "and so is its page", "() => until((view) => view.status === 'open')")
    assert sessions() == before


def test_p8_conversations_on_one_socket_call_tools_and_stop_independently(stage: Make) -> None:
    def entry(run: Run) -> list[Any]:
        return [call("slow" if run.thread_id == "t" else "add", {"text": run.thread_id})]

    here = stage(ScriptedAgent([entry, "done"]))
    page = here.page(proxied=True)
    page.evaluate(
        "() => { window.other = bridge.thread('other'); window.run = bridge.run('one'); }"
    )
    within(page, "the first thread's handler runs", STARTED)
    end = within(page, "the other thread's run", "() => other.run('two').finished")
    assert end == {"reason": "completed", "depth": 1}
    assert within(page, "no run to stop there", "() => other.abort()") is False
    assert page.evaluate("() => window.abortedAt") is None
    assert page.evaluate("async () => (await view()).run") is not None
    page.evaluate("() => finish('slow but sure')")
    end = within(page, "the first thread's run", "() => run.finished")
    assert end == {"reason": "completed", "depth": 1}
    assert counts(page) == {"slow": 1, "add": 1}
    assert here.proxy.opened == len(here.call(lambda: here.bridge.sessions)) == 1
    assert shown(page) == here.history("t")
    assert page.evaluate("() => other.messages") == here.history("other")
