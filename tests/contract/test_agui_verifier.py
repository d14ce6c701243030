"""Every run's stream is valid AG-UI: recorded streams through the verifier of @ag-ui/client."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import (
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from tests.client.test_javascript import need

from handspan import Bridge, Deny, Handoff, Policy, Run
from handspan.testing import Page, RunFailed

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

Agent = Callable[[Run], AsyncIterator[Any]]
Event = dict[str, Any]


async def says_text(run: Run) -> AsyncIterator[Any]:
    yield "one "
    yield "two"


async def calls_one(run: Run) -> AsyncIterator[Any]:
    if run.depth == 0:
        yield "calling"
        yield run.call("double", {"n": 2})
    else:
        yield f"got {run.results[0].value}"


async def calls_many(run: Run) -> AsyncIterator[Any]:
    if run.depth == 0:
        yield "text "
        yield run.call("double", {"n": 1})
        yield "between"
        yield run.call("double", {"n": 2})
        yield run.call("nobody_has_it", {})
        yield run.call("double", {"n": "no"})


async def thinks(run: Run) -> AsyncIterator[Any]:
    yield run.reasoning("hm ")
    yield run.reasoning("yes")
    yield "so"
    yield run.reasoning("again")
    yield run.call("double", {"n": 1}) if run.depth == 0 else "end"


async def speaks_in_events(run: Run) -> AsyncIterator[Any]:
    yield ReasoningStartEvent(message_id="r")
    yield ReasoningMessageStartEvent(message_id="rm", role="reasoning")
    yield ReasoningMessageContentEvent(message_id="rm", delta="x")
    yield ReasoningEndEvent(message_id="r")
    yield TextMessageStartEvent(message_id="a")
    yield TextMessageContentEvent(message_id="a", delta="x")
    if run.depth == 0:
        yield ToolCallStartEvent(tool_call_id="c", tool_call_name="double")
        yield ToolCallArgsEvent(tool_call_id="c", delta='{"n":')
        yield ToolCallStartEvent(tool_call_id="d", tool_call_name="double")
        yield ToolCallArgsEvent(tool_call_id="d", delta='{"n":1}')
        yield ToolCallArgsEvent(tool_call_id="c", delta="2}")
        yield ToolCallEndEvent(tool_call_id="c")
        yield ToolCallArgsEvent(tool_call_id="c", delta="}")
        yield ToolCallEndEvent(tool_call_id="d")
    yield TextMessageContentEvent(message_id="a", delta="y")
    yield TextMessageEndEvent(message_id="a")


async def speaks_in_chunks(run: Run) -> AsyncIterator[Any]:
    yield TextMessageChunkEvent(message_id="a", delta="x")
    yield TextMessageChunkEvent(delta="y")
    if run.depth == 0:
        yield ToolCallChunkEvent(tool_call_id="c", tool_call_name="double", delta='{"n":')
        yield ToolCallChunkEvent(delta="3}")
        yield ToolCallChunkEvent(tool_call_id="d", tool_call_name="double", delta='{"n":4}')


async def fails_in_its_text(run: Run) -> AsyncIterator[Any]:
    yield "half"
    yield ToolCallStartEvent(tool_call_id="c", tool_call_name="double")
    yield ToolCallArgsEvent(tool_call_id="c", delta='{"n"')
    raise RuntimeError("no more")


async def is_out_of_order(run: Run) -> AsyncIterator[Any]:
    yield "half"
    yield TextMessageContentEvent(message_id="never started", delta="x")


async def is_cut_off(run: Run) -> AsyncIterator[Any]:
    yield "half"
    yield run.call("double", {"n": 1})
    run.finish_reason = "length"


async def never_ends(run: Run) -> AsyncIterator[Any]:
    yield run.call("double", {"n": run.depth})


async def hands_over(run: Run) -> AsyncIterator[Any]:
    yield "over to the other"
    yield run.call("double", {"n": 1})
    yield Handoff("other")


async def calls_inside(run: Run) -> AsyncIterator[Any]:
    yield "let me see "
    result = await run.call_tool("double", {"n": 4})
    yield f"it is {result.value}"


async def changes_the_state(run: Run) -> AsyncIterator[Any]:
    run.set_state({"n": 0})
    yield "counting"
    run.patch_state([{"op": "replace", "path": "/n", "value": 1}])
    run.custom("seen", {"n": 1})


async def aborts_in_its_text(run: Run) -> AsyncIterator[Any]:
    yield "half a sen"
    run.abort()
    await asyncio.sleep(60)


async def aborts_in_its_arguments(run: Run) -> AsyncIterator[Any]:
    yield run.reasoning("hm")
    yield ToolCallStartEvent(tool_call_id="c", tool_call_name="double")
    yield ToolCallArgsEvent(tool_call_id="c", delta='{"n"')
    run.abort()
    await asyncio.sleep(60)


async def aborts_in_its_call(run: Run) -> AsyncIterator[Any]:
    if run.depth == 0:
        yield run.call("stop_it", {})
        yield run.call("double", {"n": 1})


async def asks_for_what_nobody_has(run: Run) -> AsyncIterator[Any]:
    if run.depth == 0:
        yield run.call("beep", {"loud": True})
        yield run.call("beep", "not json")
    else:
        yield f"{run.results[0].value}"


async def delegates(run: Run) -> AsyncIterator[Any]:
    """Sub-runs below sub-runs, several at once, some of which fail, are cut off or go on."""
    yield "let me ask "
    if run.depth == 0:
        asked = [run.delegate(name, f"{name}, please") for name in SUB_AGENTS]
        told = await asyncio.gather(*asked)
        yield run.call("double", {"n": len(told)})
        await run.delegate("nested", "and once more")
    else:
        yield f"got {run.results[0].value}"


async def delegates_in_events(run: Run) -> AsyncIterator[Any]:
    """Caller and sub-run use the same names for what they say."""
    async for event in speaks_in_events(run):
        yield event
    if run.depth == 0:
        await run.delegate("speaks_in_events", "say the same")
        await run.delegate("speaks_in_events", "and again")


async def nested(run: Run) -> AsyncIterator[Any]:
    yield run.reasoning("who knows?")
    yield "one moment "
    if run.depth < 3:
        result = await run.delegate("nested", "deeper")
        yield f"below: {result.reason}"
    yield run.call("double", {"n": run.depth})


async def delegates_from_a_tool(run: Run) -> AsyncIterator[Any]:
    if run.depth == 0:
        yield "my tool will ask"
        yield run.call("ask_another", {"n": 1})
        yield run.call("ask_another", {"n": 2})


async def aborts_in_a_sub_run(run: Run) -> AsyncIterator[Any]:
    yield "half a sen"
    await run.delegate("aborts_in_its_text", "stop it all")


SUB_AGENTS = {
    "other": says_text,
    "calls_many": calls_many,
    "fails": fails_in_its_text,
    "cut_off": is_cut_off,
    "misplaced": is_out_of_order,
    "hands_over": hands_over,
    "nested": nested,
    "speaks_in_chunks": speaks_in_chunks,
    "calls_inside": calls_inside,
    "changes_the_state": changes_the_state,
}
"""Whom `delegates` asks at once."""

SCENARIOS: tuple[Agent, ...] = (
    says_text,
    calls_one,
    calls_many,
    thinks,
    speaks_in_events,
    speaks_in_chunks,
    fails_in_its_text,
    is_out_of_order,
    is_cut_off,
    never_ends,
    hands_over,
    calls_inside,
    changes_the_state,
    aborts_in_its_text,
    aborts_in_its_arguments,
    aborts_in_its_call,
    asks_for_what_nobody_has,
    delegates,
    delegates_from_a_tool,
    aborts_in_a_sub_run,
)


async def record(agent: Agent) -> list[Event]:
    """The events of one run of this agent, and of a button with a follow-up after it."""
    bridge = Bridge(policy=Policy(max_depth=3, max_repeats=99))
    bridge.add_agent("default", agent)
    for name, sub_agent in SUB_AGENTS.items():
        bridge.add_agent(name, sub_agent)
    bridge.add_agent("speaks_in_events", speaks_in_events)
    bridge.add_agent("aborts_in_its_text", aborts_in_its_text)

    @bridge.tool
    async def double(n: int) -> int:
        "Twice as much."
        return 2 * n

    @bridge.tool
    async def stop_it(run: Run) -> None:
        "Abort the run from inside."
        run.abort()

    @bridge.tool
    async def ask_another(run: Run, n: int) -> str:
        "Have another agent look."
        await run.call_tool("double", {"n": n})
        return (await run.delegate("nested", f"look at {n}")).reason

    if agent is asks_for_what_nobody_has:

        @bridge.tool(name="*")
        async def anything(toolName: str, args: dict[str, Any]) -> str:  # noqa: N803
            "What no tool has."
            return toolName

    events: list[Event] = []
    bridge.observe(lambda _, event: events.append(dict(event)))
    await bridge.run("hello", thread_id="t")
    await bridge.call_tool("t", "double", {"n": 1}, follow_up="and now?")
    for _ in range(500):
        if not any(look.run_id for look in bridge.threads):
            break
        await asyncio.sleep(0.01)
    await bridge.close()
    return events


async def waits_for_a_page(run: Run) -> AsyncIterator[Any]:
    if "stream" in str(run.messages[-1].content):
        yield run.reasoning("hm")
        yield ToolCallStartEvent(tool_call_id="c", tool_call_name="slow")
        yield ToolCallArgsEvent(tool_call_id="c", delta='{"a"')
        await asyncio.sleep(60)
    if run.depth == 0:
        yield "asking "
        yield run.call("fast", {})
        yield run.call("slow", {})
        yield run.call("what", {"n": 1})
        yield run.call("fast", {})
    else:
        yield "done"


async def record_with_a_page() -> list[Event]:
    """Stopped in its calls, queued behind it, replaced in its arguments, refused; the state changes
    in between; a button after all of it."""
    bridge = Bridge()
    bridge.add_agent("default", waits_for_a_page)
    events: list[Event] = []
    bridge.observe(lambda _, event: events.append(dict(event)))
    waiting = asyncio.Event()
    answers = asyncio.Event()

    async def slow(_: Any, call: Any) -> str:
        call.progress(1, 2, "half")
        waiting.set()
        await answers.wait()
        return "slow"

    tools = {
        "fast": ({"description": "at once", "readOnly": True}, lambda _, __: {"a": [1]}),
        "slow": ({"description": "when told"}, slow),
        "*": ({"description": "the rest"}, lambda args, _: args["toolName"]),
    }
    async with asyncio.timeout(20), Page(bridge, tools=tools) as page:
        stopped = page.run("stopped while a page works")
        await waiting.wait()
        queued = page.run("queued: its turn comes by the abort", ifBusy="queue")
        await queued.accepted
        await page.abort(stopped.id)
        assert (await stopped.finished)["reason"] == "aborted"
        answers.set()
        assert (await queued.finished)["reason"] == "completed"
        await page.set_state({"n": 1})
        replaced = page.run("stream until replaced")
        await page.until(lambda: "TOOL_CALL_ARGS" in [e["type"] for e in replaced.events])
        replacing = page.run("instead", ifBusy="replace")
        assert (await replaced.finished)["reason"] == "aborted"
        assert (await replacing.finished)["reason"] == "completed"
        await page.patch_state([{"op": "add", "path": "/m", "value": 2}])
        assert (await page.run_tool("fast"))["outcome"] == "ok"
        assert (await page.run_tool("fast", followUp="and then?"))["outcome"] == "ok"
        await page.until(lambda: page.thread().run is None and page.messages[-1].get("content"))
    await bridge.close()
    return events


async def waits_below(run: Run) -> AsyncIterator[Any]:
    said = str(run.messages[0].content)
    if said in SUB_AGENTS_WAIT:
        yield "I wait "
        yield run.call("slow", {})
        return
    if run.depth == 0:
        one, two = await asyncio.gather(*(run.delegate("default", x) for x in SUB_AGENTS_WAIT))
        yield f"{one.reason} and {two.reason}"
        yield run.call("fast", {})


SUB_AGENTS_WAIT = ("wait here", "wait there")


async def record_with_hooks() -> list[Event]:
    """Denied before it begins, failed by a hook, aborted below and above; suggestions in between,
    and a state that was changed there."""
    bridge = Bridge(agents={"default": waits_below})
    events: list[Event] = []
    bridge.observe(lambda _, event: events.append(dict(event)))
    below = asyncio.Semaphore(0)

    @bridge.hook("before_run")
    async def before_run(request: Any, next_: Any) -> Any:
        if request.message == "break":
            raise RuntimeError("no more")
        return Deny("not today") if request.message == "no" else await next_(request)

    @bridge.hook("before_call")
    async def before_call(call: Any, next_: Any) -> Any:
        return Deny("not that") if call.name == "fast" else await next_(call)

    @bridge.hook("after_call")
    async def after_call(result: Any, next_: Any) -> Any:
        return replace(await next_(result), value="***") if result.ok else await next_(result)

    @bridge.suggest
    async def suggest(_: Any) -> list[str]:
        return ["And then?"]

    async def slow(_: Any, call: Any) -> None:
        below.release()
        await asyncio.Event().wait()

    tools = {
        "slow": ({"description": "never", "parallel": True}, slow),
        "fast": ({"description": "at once"}, lambda _, __: 1),
    }
    async with asyncio.timeout(20), Page(bridge, tools=tools) as page:
        for said, code in (("no", "denied"), ("break", "agent_error")):
            with pytest.raises(RunFailed, match=code):
                await page.run(said).finished
        for stops in ("below", "all"):
            run = page.run("two of them")
            await below.acquire()
            await below.acquire()
            subs = [e["subagentRunId"] for e in run.events if e["type"] == "SUBAGENT_STARTED"]
            for name in subs if stops == "below" else [run.id]:
                await page.abort(name)
            await run.finished
            if stops == "below":
                await page.until(lambda: page.thread().suggestions)
            await page.set_state({"stops": stops})
    await bridge.close()
    return events


def split(events: list[Event]) -> list[list[Event]]:
    """One stream a run; what stands between runs is no AG-UI client's business."""
    runs: list[list[Event]] = []
    inside = False
    for event in events:
        if event["type"] == "RUN_STARTED":
            runs.append([])
            inside = True
        if inside:
            runs[-1].append(event)
        if event["type"] in ("RUN_FINISHED", "RUN_ERROR"):
            inside = False
    return runs


def verdicts(streams: dict[str, list[Event]]) -> dict[str, str | None]:
    """What the verifier says of each stream."""
    lines = [json.dumps({"name": name, "events": events}) for name, events in streams.items()]
    done = subprocess.run(
        ["node", HERE / "verify.mjs"],
        input="\n".join(lines).encode(),
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return {each["name"]: each["error"] for each in told}


@pytest.mark.node
def test_p6_every_recorded_run_passes_the_verifier_of_ag_ui() -> None:
    need("@ag-ui/client")
    streams = {}
    for agent in SCENARIOS:
        runs = split(asyncio.run(record(agent)))
        assert len(runs) == 2, f"{agent.__name__} made {len(runs)} runs"
        streams |= {f"{agent.__name__} {n}": run for n, run in enumerate(runs)}
    told = verdicts(streams)
    assert told.keys() == streams.keys()
    assert {name: error for name, error in told.items() if error} == {}


@pytest.mark.node
def test_p6_runs_that_pages_stop_queue_and_replace_pass_it_too() -> None:
    need("@ag-ui/client")
    runs = split(asyncio.run(record_with_a_page()))
    ends = [run[-1].get("result", {}).get("reason") for run in runs]
    assert ends == ["aborted", "completed", "aborted", "completed", "no_follow_up", "completed"]
    told = verdicts({f"run {n}": run for n, run in enumerate(runs)})
    assert len(told) == len(runs)
    assert {name: error for name, error in told.items() if error} == {}


@pytest.mark.node
def test_p6_runs_that_hooks_deny_and_sub_runs_that_a_page_stops_pass_it_too() -> None:
    """What stands between runs is for no AG-UI client: suggestions, and state that a page set."""
    need("@ag-ui/client")
    events = asyncio.run(record_with_hooks())
    runs = split(events)
    ends = [run[-1].get("code") or run[-1]["result"]["reason"] for run in runs]
    assert ends == ["denied", "agent_error", "completed", "aborted"]
    below = [(e["type"], e.get("code")) for e in runs[2] if e["type"].startswith("SUBAGENT_E")]
    assert below == [("SUBAGENT_ERROR", "aborted")] * 2
    inside = [id(event) for run in runs for event in run]
    between = [e.get("name", e["type"]) for e in events if id(e) not in inside]
    assert between == ["handspan.suggestions", "STATE_SNAPSHOT", "STATE_SNAPSHOT"]
    told = verdicts({f"run {n}": run for n, run in enumerate(runs)})
    assert len(told) == len(runs)
    assert {name: error for name, error in told.items() if error} == {}


@pytest.mark.node
def test_p6_a_caller_and_its_sub_run_may_use_the_same_names() -> None:
    need("@ag-ui/client")
    told = verdicts({"both": split(asyncio.run(record(delegates_in_events)))[0]})
    assert told == {"both": None}


@pytest.mark.node
def test_the_verifier_refuses_a_broken_stream() -> None:
    need("@ag-ui/client")
    events = split(asyncio.run(record(calls_one)))[0]
    broken = {
        "no end of a step": [e for e in events if e["type"] != "STEP_FINISHED"],
        "no start of a text": [e for e in events if e["type"] != "TEXT_MESSAGE_START"],
        "no end of a call": [e for e in events if e["type"] != "TOOL_CALL_END"],
    }
    events = split(asyncio.run(record(delegates_from_a_tool)))[0]
    broken |= {
        "no start of a sub-run": [e for e in events if e["type"] != "SUBAGENT_STARTED"],
        "no end of a sub-run": [e for e in events if e["type"] != "SUBAGENT_FINISHED"],
        "a sub-run's steps are its caller's": [
            {key: e[key] for key in e if key != "subagentRunId" or e["type"] != "STEP_FINISHED"}
            for e in events
        ],
    }
    told = verdicts(broken)
    assert all(told.values()), told
