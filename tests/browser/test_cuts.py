"""The line is cut without a goodbye, at every moment there is in a run (P2, P9)."""

import json
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from tests.browser.patience import RECORD, until, within
from tests.browser.stage import Stage, counts, shown

from handspan.testing import ScriptedAgent, call

pytestmark = pytest.mark.browser

Make = Callable[..., Stage]

RUN = """async (text) => {
  const run = bridge.run(text);
  const told = [];
  for await (const { type, value } of run) told.push(value?.state ?? type);
  return [await run.finished, told];
}"""
COMPLETED = {"reason": "completed", "depth": 1}


def merged(told: list[str]) -> list[str]:
    """Neighbours of one kind as one: deltas may be merged for a page that lags (protocol 1)."""
    return [kind for kind, _ in groupby(told)]


def test_p2_p9_a_cut_at_any_event_of_a_run_loses_and_doubles_nothing(stage: Make) -> None:
    """One run a moment: the line goes right when the server has logged the run's n-th event.

    So what the event comes with (the reply to `run.start`, the `tool.call`, the leave to start, the
    receipt of a result, the end) is lost each time, and has to come by the next socket.
    """
    script = [["Adding ", "it. ", call("add", {"text": "x"}), call("title")], ["All ", "done."]]
    here = stage(ScriptedAgent(script))
    page = here.page(proxied=True)
    seen: list[str] = []
    cut_at = -1

    def cut(_: str, event: dict[str, Any]) -> None:
        if len(seen) == cut_at:
            here.proxy.cut()
        seen.append(event.get("value", {}).get("state") or event["type"])

    here.call(here.bridge.observe, cut)
    assert within(page, "a run without a cut", RUN, "0")[0] == COMPLETED
    moments = here.call(lambda: list(seen))
    assert {"RUN_STARTED", "dispatched", "started", "settled", "RUN_FINISHED"} <= {*moments}
    for at, moment in enumerate(moments):
        here.call(seen.clear)
        cut_at = at
        opened = here.proxy.opened
        wanted = f"the end of a run whose line was cut at event {at}, {moment}"
        end, told = within(page, wanted, RUN, str(at + 1))
        assert end == COMPLETED, wanted
        assert merged(told) == merged(moments), f"not each event once, in order, after {wanted}"
        within(page, wanted, "() => until((view) => view.status === 'open')")
        expected = {"add": at + 2, "title": at + 2}
        assert counts(page) == expected, f"not exactly once each after {wanted}"
        assert here.proxy.opened == opened + 1, f"there was no cut for {wanted}"
        assert shown(page) == here.history(), f"page and server differ after {wanted}"
    lines = [m["content"] for m in here.history() if m.get("role") == "tool"][::2]
    assert lines == [f'{{"lines":{n + 1}}}' for n in range(len(moments) + 1)]


@pytest.mark.parametrize("tool", ["slow", "title"])
def test_p7_a_result_that_was_written_and_never_arrived_is_sent_again(
    stage: Make, tool: str
) -> None:
    """The page has sent its `tool.result` into a line that carries nothing more; then it is cut."""
    here = stage(ScriptedAgent([[call(tool)], "done"]))
    context = here.page(more="&bare").context
    context.add_init_script(RECORD)
    page = here.open(context, proxied=True)
    page.evaluate(
        """(tool) => {
          bridge.tool(tool, { description: "waits", readOnly: tool === "title" }, () => {
            ran[tool] = (ran[tool] ?? 0) + 1;
            return new Promise((resolve) => (window.finish = resolve));
          });
          window.run = bridge.run("go");
        }""",
        tool,
    )
    until(page, "the handler runs", "window.finish")
    here.call(here.proxy.stall)
    page.evaluate("() => finish('the value')")
    until(page, "the page has written its result", "sent.some((f) => f.type === 'tool.result')")
    [look] = here.call(lambda: [t for t in here.bridge.threads if t.thread_id == "t"])
    assert look.open_calls == 1, "the line was to be stalled: the result must not arrive"
    here.call(here.proxy.cut)
    here.call(here.proxy.flow)
    assert within(page, "the end of the run", "() => run.finished") == COMPLETED
    assert counts(page) == {tool: 1}
    sent = [f for f in page.evaluate("() => sent") if f["type"] == "tool.result"]
    assert [f["result"] for f in sent] == ["the value"] * 2, "written once more after the cut"
    told = [m["content"] for m in here.history() if m["role"] == "tool"]
    assert told == ["the value"], "applied once"
    assert shown(page) == here.history()


def test_p5_a_stop_while_the_line_is_down_takes_effect_when_it_is_back(stage: Make) -> None:
    """Behaviour 4: a disconnect is not an abort, and a stop works after a reconnect."""
    here = stage(ScriptedAgent([[call("slow")], "never"]))
    page = here.page(proxied=True)
    page.evaluate("() => { window.run = bridge.run('go'); }")
    started = "() => until((view) => view.calls.some((call) => call.state === 'started'))"
    within(page, "the handler runs", started)
    here.call(here.proxy.refuse)
    here.call(here.proxy.cut)
    within(page, "the line is down", "() => until((view) => view.status === 'reconnecting')")
    page.evaluate("() => { window.stopped = run.abort(); }")
    assert page.evaluate("() => window.abortedAt") is None
    here.call(here.proxy.refuse, False)
    end = within(page, "the end of the stopped run", "() => run.finished")
    assert end == {"reason": "aborted", "depth": 0}
    assert within(page, "the answer to the stop", "() => stopped") is True
    until(page, "the signal", "window.abortedAt")
    assert counts(page) == {"slow": 1}
    assert shown(page) == here.history()


def test_p9_two_threads_on_a_socket_that_is_cut_both_go_on(stage: Make) -> None:
    here = stage(ScriptedAgent([[call("slow")], "done"]))
    page = here.page(proxied=True)
    page.evaluate(
        """() => {
          window.finishers = {};
          bridge.tool("slow", { description: "waits" }, (_, { threadId }) => {
            ran[threadId] = (ran[threadId] ?? 0) + 1;
            return new Promise((resolve) => (finishers[threadId] = () => resolve(threadId)));
          });
          window.other = bridge.thread("other");
          window.runs = [bridge.run("one"), other.run("two")];
        }"""
    )
    until(page, "both handlers run", "finishers.t && finishers.other")
    here.call(here.proxy.cut)
    page.evaluate("() => { finishers.other(); finishers.t(); }")
    ends = within(page, "both ends", "() => Promise.all(runs.map((run) => run.finished))")
    assert ends == [COMPLETED, COMPLETED]
    assert page.evaluate("() => ran") == {"t": 1, "other": 1}
    assert here.proxy.opened == 2
    for thread, messages in (("t", shown(page)), ("other", page.evaluate("() => other.messages"))):
        assert messages == here.history(thread), thread
        told = [m["content"] for m in messages if m["role"] == "tool"]
        assert told == [thread], json.dumps(messages)
