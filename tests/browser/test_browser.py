"""The main job, in a real Chromium against the real server."""

import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.browser.stage import READY, Stage, counts, finished, shown

from handspan import Policy, Run
from handspan.testing import Pause, ScriptedAgent, call

pytestmark = pytest.mark.browser

Make = Callable[..., Stage]


def results(messages: list[dict[str, Any]]) -> list[Any]:
    return [m["content"] for m in messages if m["role"] == "tool"]


def test_a_run_with_two_calls_changes_the_page_and_ends_completed_at_depth_1(stage: Make) -> None:
    """P1, P3: both calls are carried out by the page, in order, and the run resumes by itself."""
    agent = ScriptedAgent([["Adding. ", call("add", {"text": "milk"}), call("title")], "Done."])
    here = stage(agent)
    page = here.page()
    assert finished(page, "go") == {"reason": "completed", "depth": 1}
    assert page.locator("#list li").all_text_contents() == ["milk"]
    assert results(shown(page)) == ['{"lines":1}', "stage"]
    assert shown(page)[-1]["content"] == "Done."
    assert shown(page) == here.history()


def test_p5_stop_fires_the_handlers_signal_and_the_next_message_works(stage: Make) -> None:
    agent = ScriptedAgent([[call("slow")], "never"])
    here = stage(agent)
    page = here.page()
    told = page.evaluate(
        """async () => {
          const run = bridge.run("go");
          await until((view) => view.calls.some((call) => call.state === "started"));
          const asked = performance.now();
          const answered = await bridge.abort();
          const end = await run.finished;
          return { answered, end, ended: performance.now() - asked, fired: abortedAt - asked };
        }"""
    )
    assert told["answered"] is True
    assert told["end"] == {"reason": "aborted", "depth": 0}
    assert 0 <= told["fired"] < 1000
    assert told["ended"] < 1000
    last = page.evaluate("async () => (await view()).lastRun")
    assert last["outcome"] == {"type": "cancelled"}
    agent.script[:] = ["hello again"]
    assert finished(page, "more") == {"reason": "completed", "depth": 0}
    assert shown(page)[-1]["content"] == "hello again"
    assert here.history() == shown(page)


def test_a_button_triggers_a_tool_without_and_with_follow_up(stage: Make) -> None:
    agent = ScriptedAgent([[], "Three lines now."])
    here = stage(agent)
    page = here.page()
    alone = page.evaluate("() => bridge.runTool('add', { text: 'one' })")
    assert (alone["outcome"], alone["result"]) == ("ok", {"lines": 1})
    assert agent.seen == []
    page.evaluate("() => bridge.runTool('add', { text: 'two' }, { followUp: true })")
    page.evaluate("() => until((view) => view.lastRun?.result?.reason === 'completed')")
    assert shown(page)[-1]["content"] == "Three lines now."
    page.evaluate("() => bridge.runTool('add', { text: 'three' }, { followUp: 'and now?' })")
    page.evaluate("() => until((view) => !view.run && view.messages.at(-1).role === 'assistant')")
    assert [m["content"] for m in shown(page) if m["role"] == "user"] == ["and now?"]
    assert counts(page) == {"add": 3}
    assert here.history() == shown(page)


def test_p13_an_unknown_tool_reaches_the_wildcard(stage: Make) -> None:
    here = stage(ScriptedAgent([[call("beep", {"n": 1})], "ok"]))
    page = here.page()
    assert finished(page, "go")["reason"] == "completed"
    assert json.loads(results(shown(page))[0]) == {"toolName": "beep", "args": {"n": 1}}
    assert counts(page) == {"*": 1}


def test_p8_two_tabs_on_one_thread_see_the_same_and_only_one_executes(stage: Make) -> None:
    here = stage(ScriptedAgent([["hi ", call("add", {"text": "x"}), call("title")], "bye"]))
    one, two = here.page(), here.page()
    assert finished(one, "from one")["reason"] == "completed"
    two.evaluate("() => until((view) => view.lastRun && view.messages.length === 5)")
    assert counts(one) == {"add": 1, "title": 1}
    assert counts(two) == {}
    assert shown(one) == shown(two) == here.history()
    assert finished(two, "from two")["reason"] == "completed"
    assert counts(one) == counts(two) == {"add": 1, "title": 1}
    one.evaluate("() => until((view) => view.messages.length === 10 && !view.run)")
    assert shown(one) == shown(two) == here.history()


# ---- the socket is cut ---------------------------------------------------------------------------


class Gate:
    """An agent that waits at marked places until the test has done its worst."""

    def __init__(self, here: Callable[[], Stage]) -> None:
        self._here = here
        self.reached = threading.Semaphore(0)
        self.events: list[Any] = []

    async def wait(self) -> None:
        import asyncio

        event = asyncio.Event()
        self.events.append(event)
        self.reached.release()
        await event.wait()

    def pass_on(self) -> None:
        self._here().call(self.events[-1].set)


def test_p9_a_socket_cut_while_text_streams_loses_and_doubles_nothing(stage: Make) -> None:
    gates: list[Gate] = []

    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "before "
        await gates[0].wait()
        yield "between "
        await gates[0].wait()
        yield "after"
        if run.depth == 0:
            yield run.call("add", {"text": "x"})

    here = stage(agent)
    gates.append(Gate(lambda: here))
    page = here.page(proxied=True)
    page.evaluate("() => until((view) => view.status === 'open')")
    page.evaluate("() => { window.run = bridge.run('go'); }")
    for _ in range(4):
        assert gates[0].reached.acquire(timeout=10)
        here.call(here.proxy.cut)
        gates[0].pass_on()
    assert page.evaluate("() => run.finished") == {"reason": "completed", "depth": 1}
    assert counts(page) == {"add": 1}
    texts = [m["content"] for m in shown(page) if m["role"] == "assistant"]
    assert texts == ["before between after"] * 2
    assert shown(page) == here.history()
    assert here.proxy.opened >= 3


def test_p2_a_socket_cut_while_the_handler_runs_does_not_run_it_again(stage: Make) -> None:
    here = stage(ScriptedAgent([[call("slow"), call("add", {"text": "y"})], "done"]))
    page = here.page(proxied=True)
    page.evaluate("() => { window.run = bridge.run('go'); }")
    page.evaluate("() => until((view) => view.calls.some((call) => call.state === 'started'))")
    here.call(here.proxy.refuse)
    here.call(here.proxy.cut)
    page.evaluate("() => until((view) => view.status === 'reconnecting')")
    page.evaluate("() => finish('finished while away')")
    here.call(here.proxy.refuse, False)
    assert page.evaluate("() => run.finished") == {"reason": "completed", "depth": 1}
    assert counts(page) == {"slow": 1, "add": 1}
    assert results(shown(page)) == ["finished while away", '{"lines":1}']
    assert shown(page) == here.history()


@pytest.mark.parametrize("frame", ["tool.call", "tool.started", "tool.result"])
def test_p2_a_socket_cut_at_any_frame_of_a_call_carries_it_out_once(
    stage: Make, frame: str
) -> None:
    """The page itself cuts its socket right when it is about to see, or send, this frame."""
    here = stage(ScriptedAgent([[call("add", {"text": "z"})], "done"]))
    page = here.page(more="&bare")
    page.evaluate(
        """async (frame) => {
          let armed = true;
          const cut = (socket, text) => {
            if (!armed || JSON.parse(text).type !== frame) return false;
            armed = false;
            socket.close();
            return true;
          };
          const Real = WebSocket;
          window.WebSocket = class extends Real {
            send(text) { if (!cut(this, text)) super.send(text); }
            set onmessage(listen) {
              super.onmessage = (event) => cut(this, event.data) || listen(event);
            }
            addEventListener(type, listen, ...more) {
              super.addEventListener(type, type !== "message" ? listen
                : (event) => cut(this, event.data) || listen(event), ...more);
            }
          };
          window.bridge = furnish(open("t"));
          window.view = () => new Promise((resolve) => bridge.subscribe(resolve)());
        }""",
        frame,
    )
    assert finished(page, "go") == {"reason": "completed", "depth": 1}
    assert counts(page) == {"add": 1}
    assert results(shown(page)) == ['{"lines":1}']
    assert shown(page) == here.history()


def test_p9_a_socket_that_only_goes_silent_is_replaced_and_its_late_bytes_harm_nothing(
    stage: Make,
) -> None:
    """Half-open: nobody closes anything; the page misses two heartbeats and takes over."""
    gates: list[Gate] = []

    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "before "
        if run.depth == 0:
            await gates[0].wait()
            yield "after"
            yield run.call("add", {"text": "x"})

    here = stage(agent, Policy(heartbeat=0.4))
    gates.append(Gate(lambda: here))
    page = here.page(proxied=True)
    page.evaluate("() => { window.run = bridge.run('go'); }")
    assert gates[0].reached.acquire(timeout=10)
    page.evaluate("() => until((view) => view.messages.at(-1)?.content === 'before ')")
    here.call(here.proxy.stall)
    gates[0].pass_on()
    assert page.evaluate("() => run.finished") == {"reason": "completed", "depth": 1}
    assert here.proxy.opened == 2
    here.call(here.proxy.flow)
    gates[0] = Gate(lambda: here)
    page.evaluate("() => { window.run = bridge.run('again'); }")
    assert gates[0].reached.acquire(timeout=10)
    gates[0].pass_on()
    assert page.evaluate("() => run.finished") == {"reason": "completed", "depth": 1}
    assert counts(page) == {"add": 2}
    assert here.proxy.opened == 2
    assert shown(page) == here.history()


CALLS = 8


@pytest.mark.parametrize("seed", range(4))
def test_p2_p9_a_line_that_breaks_again_and_again_loses_and_doubles_nothing(
    stage: Make, seed: int
) -> None:
    """Cuts at odd moments, over a slow line, so that they fall before, in and after any frame."""
    dice = random.Random(seed)

    def entry(run: Run) -> list[Any]:
        if run.depth == CALLS:
            return ["done"]
        return [f"{run.depth}: ", "one ", "two", call("add", {"text": str(run.depth)})]

    here = stage(ScriptedAgent([entry] * (CALLS + 1)))
    page = here.page(proxied=True)
    page.evaluate("() => until((view) => view.status === 'open')")
    here.proxy.delay_s = 0.004

    def cut(left: int) -> None:
        here.proxy.cut()
        if left:
            here.loop.call_later(dice.uniform(0.02, 0.08), cut, left - 1)

    here.call(cut, 20)
    assert finished(page, "go") == {"reason": "completed", "depth": CALLS}
    assert counts(page) == {"add": CALLS}
    lines = page.locator("#list li").all_text_contents()
    assert lines == [str(n) for n in range(CALLS)]
    assert results(shown(page)) == [f'{{"lines":{n + 1}}}' for n in range(CALLS)]
    assert shown(page) == here.history()


def test_p9_a_reload_in_a_run_shows_the_same_conversation(stage: Make) -> None:
    gates: list[Gate] = []

    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "before "
        await gates[0].wait()
        yield "after"

    here = stage(agent)
    gates.append(Gate(lambda: here))
    page = here.page()
    page.evaluate("() => { bridge.run('go'); }")
    assert gates[0].reached.acquire(timeout=10)
    page.reload()
    page.evaluate(READY)
    gates[0].pass_on()
    page.evaluate("() => until((view) => view.lastRun && !view.run)")
    assert shown(page)[-1]["content"] == "before after"
    assert shown(page) == here.history()


# ---- values and registrations --------------------------------------------------------------------

ODD = {
    "undefined": "null",
    "date": "1970-01-01T00:00:00.000Z",
    "map": '{"a":1}',
    "set": "[1,2]",
    "bigint": "12345678901234567890",
}


def test_p4_every_odd_value_of_a_handler_gives_exactly_one_result(stage: Make) -> None:
    """C051, C132: documented conversions or an error result; never a hang, never a dead socket."""

    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            for kind in kinds:
                yield run.call("odd", {"kind": kind})

    here = stage(agent)
    page = here.page()
    kinds: list[str] = page.evaluate("() => Object.keys(odd)")
    assert finished(page, "go")["reason"] == "completed"
    told = dict(zip(kinds, results(shown(page)), strict=True))
    assert {kind: told[kind] for kind in ODD} == ODD
    for kind in ("throws_empty", "throws_undefined", "rejects"):
        error = json.loads(told[kind])["error"]
        assert error["code"] == "handler_error"
        assert error["message"]
    assert counts(page) == {"odd": len(kinds)}
    assert shown(page) == here.history()


def test_p14_a_bad_registration_comes_back_and_harms_nothing(stage: Make) -> None:
    here = stage(ScriptedAgent([[call("good")], "ok"]))
    page = here.page()
    page.evaluate(
        """async () => {
          bridge.tool("bad name", { description: "x" }, () => 1);
          bridge.tool("bad", { description: "x", parameters: { type: "strng" } }, () => 1);
          bridge.tool("good", { description: "x" }, () => "fine");
        }"""
    )
    assert finished(page, "go")["reason"] == "completed"
    assert results(shown(page)) == ["fine"]
    codes = sorted(error["code"] for error in page.evaluate("() => errors"))
    assert codes == ["bad_name", "bad_schema"]


def test_c091_a_tool_registered_in_the_tick_of_connect_is_known_to_the_first_step(
    stage: Make,
) -> None:
    agent = ScriptedAgent(["hi"])
    here = stage(agent)
    page = here.page(more="&bare")
    end = page.evaluate(
        "() => { window.bridge = furnish(open('t')); return bridge.run('go').finished; }"
    )
    assert end["reason"] == "completed"
    assert {tool.name for tool in agent.seen[0].tools} == {"add", "title", "slow", "odd"}


def test_p8_two_conversations_on_one_socket_do_not_meet(stage: Make) -> None:
    import asyncio

    held = asyncio.Event()

    def entry(run: Run) -> list[Any]:
        wait = [Pause(held)] if run.thread_id == "t" else []
        return [*wait, f"this is {run.thread_id}"]

    here = stage(ScriptedAgent([entry]))
    page = here.page()
    page.evaluate("() => { window.run = bridge.run('one'); }")
    other = page.evaluate("() => bridge.thread('other').run('two').finished")
    assert other == {"reason": "completed", "depth": 0}
    assert page.evaluate("async () => (await view()).run !== null")
    here.call(held.set)
    assert page.evaluate("() => run.finished") == {"reason": "completed", "depth": 0}
    assert [m["content"] for m in here.history("t")] == ["one", "this is t"]
    assert [m["content"] for m in here.history("other")] == ["two", "this is other"]
