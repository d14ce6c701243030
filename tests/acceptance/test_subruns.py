"""`run.delegate` through a real bridge: behaviour 2, protocol 1 (SUBAGENT_*). P1, P5, P6."""

import asyncio
from typing import Any

import pytest
from tests.acceptance.house import Gate, House, house, object_of, still_house

from handspan import Policy, Principal, Run
from handspan.testing import Refused, RunFailed, call

SUB_EVENTS = ("SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR")


def subs(home: House) -> list[Any]:
    return [event for event in home.events() if event["type"] in SUB_EVENTS]


def delegating(*wishes: tuple[str, str], at_once: bool = False) -> Any:
    """An agent that delegates each of these, and says how they ended."""

    async def agent(run: Run) -> Any:
        agent.results = []  # type: ignore[attr-defined]
        if at_once:
            ends = await asyncio.gather(*(run.delegate(*wish) for wish in wishes))
        else:
            ends = [await run.delegate(*wish) for wish in wishes]
        agent.results = ends  # type: ignore[attr-defined]
        yield ", ".join(f"{end.reason}: {end.text}" for end in ends)

    return agent


async def helper(run: Run) -> Any:
    yield f"heard {run.messages[-1].content}"


# ---- what it is ------------------------------------------------------------------------------


async def test_a_sub_run_answers_who_asked_and_is_not_in_what_he_is_shown() -> None:
    agent = delegating(("helper", "one"))
    async with house(agent=agent, agents={"helper": helper}) as home:
        page = await home.page()
        end = await page.run("go").finished
        assert end == {"reason": "completed", "depth": 0}
        [result] = agent.results
        assert (result.reason, result.text, result.depth) == ("completed", "heard one", 1)
        assert [m.role for m in result.messages] == ["user", "assistant"]
        started, finished = subs(home)
        assert started["name"] == "helper"
        assert started["subagentRunId"] == finished["subagentRunId"] == result.run_id
        assert finished["type"] == "SUBAGENT_FINISHED"
        shown = [m for m in page.messages if "subagentRunId" not in m]
        assert [m["role"] for m in shown] == ["user", "assistant"]
        assert shown[1]["content"] == "completed: heard one"


async def test_the_next_run_is_not_shown_what_sub_runs_said() -> None:
    seen: list[Any] = []

    async def agent(run: Run) -> Any:
        seen.append([m.content for m in run.messages])
        if len(seen) == 1:
            await run.delegate("helper", "one")
        yield "said"

    async with house(agent=agent, agents={"helper": helper}) as home:
        page = await home.page()
        await page.run("a").finished
        result = await home.bridge.run("b", thread_id="t1")
        assert seen == [["a"], ["a", "said", "b"]]
        assert [m.content for m in result.messages] == ["a", "said", "b", "said"]
        await page.until(lambda: len(page.messages) == 6)


async def test_a_newcomer_has_sub_runs_in_its_snapshot() -> None:
    async with house(agent=delegating(("helper", "one")), agents={"helper": helper}) as home:
        page = await home.page()
        await page.run("go").finished
        late = await home.page(threads=["t1"])
        await late.until(lambda: late.messages)
        assert late.messages == page.messages
        assert any("subagentRunId" in m for m in late.messages)


async def test_a_sub_run_calls_tools_and_resumes_like_any_run() -> None:
    async def worker(run: Run) -> Any:
        if not run.results:
            yield run.call("add", {"a": 1, "b": 2})
        else:
            run.output = run.results[0].value
            yield f"{run.results[0].value} for {run.parent}"

    agent = delegating(("worker", "add"))
    async with house(agent=agent, agents={"worker": worker}) as home:
        schema = {"parameters": object_of(a={"type": "integer"}, b={"type": "integer"})}
        page = await home.page(tools={"add": (schema, lambda args: args["a"] + args["b"])})
        run = page.run("go")
        await run.finished
        [result] = agent.results
        assert (result.text, result.output, result.depth) == (f"3 for {run.id}", 3, 2)
        names = [e["stepName"] for e in home.events(kind="STEP_STARTED")]
        assert names == ["step-0", "step-1", "step-2"]
        assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_sub_runs_go_side_by_side() -> None:
    both = asyncio.Event()
    here: list[str] = []

    async def meets(run: Run) -> Any:
        here.append(run.id)
        if len(here) == 2:
            both.set()
        await both.wait()
        yield "met"

    agent = delegating(("meets", "a"), ("meets", "b"), at_once=True)
    async with house(agent=agent, agents={"meets": meets}) as home:
        page = await home.page()
        await page.run("go").finished
        assert [r.text for r in agent.results] == ["met", "met"]
        assert len({r.run_id for r in agent.results}) == 2


async def test_a_sub_run_may_delegate_too() -> None:
    async def middle(run: Run) -> Any:
        inner = await run.delegate("helper", "deep")
        yield f"{inner.depth}: {inner.text}"

    agent = delegating(("middle", "go"))
    async with house(agent=agent, agents={"middle": middle, "helper": helper}) as home:
        page = await home.page()
        await page.run("go").finished
        assert agent.results[0].text == "2: heard deep"
        outer, inner = [e for e in subs(home) if e["type"] == "SUBAGENT_STARTED"]
        assert inner["parentSubagentRunId"] == outer["subagentRunId"]


# ---- failing ---------------------------------------------------------------------------------


async def test_delegate_never_raises_for_a_sub_run_that_fails() -> None:
    async def broken(run: Run) -> Any:
        yield "half a"
        raise ValueError("secret")

    agent = delegating(("broken", "x"), ("nobody", "x"), ("helper", "x"))
    async with house(agent=agent, agents={"broken": broken, "helper": helper}) as home:
        page = await home.page()
        assert (await page.run("go").finished)["reason"] == "completed"
        first, second, third = agent.results
        assert (first.reason, first.error.code, first.text) == ("failed", "agent_error", "half a")
        assert "secret" not in first.error.message
        assert (second.reason, second.error.code) == ("failed", "unknown_agent")
        assert third.reason == "completed"
        [error] = [e for e in subs(home) if e["type"] == "SUBAGENT_ERROR"]
        assert error["code"] == "agent_error"


@pytest.mark.parametrize(
    ("policy", "count"), [(Policy(subruns_per_run=2), 2), (Policy(max_depth=0), 0)]
)
async def test_a_sub_run_too_many_or_too_deep_is_a_failed_one(policy: Policy, count: int) -> None:
    """P12."""
    agent = delegating(*[("helper", "x")] * 3)
    async with house(agent=agent, agents={"helper": helper}, policy=policy) as home:
        page = await home.page()
        await page.run("go").finished
        codes = [r.error and r.error.code for r in agent.results]
        assert codes == [None] * count + ["limit"] * (3 - count)


# ---- stopping --------------------------------------------------------------------------------


async def waiting_pair(home: House, gate: Gate) -> tuple[Any, Any, str]:
    """A page, its run, and the id of the sub-run that waits in it."""
    page = await home.world.page()
    run = page.run("go")
    await gate.reached.wait()
    await home.world.settle()
    [started] = subs(home)
    return page, run, started["subagentRunId"]


def patient(gate: Gate, stopped: list[str]) -> Any:
    async def agent(run: Run) -> Any:
        yield "so far"
        try:
            await gate.wait()
        except asyncio.CancelledError:
            stopped.append(run.id)
            raise

    return agent


async def test_stopping_a_sub_run_stops_it_alone_and_who_waits_goes_on() -> None:
    """Behaviour 2: `run.abort` with its id."""
    gate, stopped = Gate(), []
    agent = delegating(("patient", "x"))
    async with still_house(agent=agent) as home:
        home.bridge.add_agent("patient", patient(gate, stopped))
        page, run, sub = await waiting_pair(home, gate)
        assert await page.ask("run.abort", runId=sub) == {"aborted": True}
        assert (await run.finished)["reason"] == "completed"
        assert stopped == [sub]
        assert (agent.results[0].reason, agent.results[0].text) == ("aborted", "so far")
        assert subs(home)[-1]["code"] == "aborted"


async def test_stopping_the_run_stops_everything_below_it() -> None:
    """P5: one terminal event, what was open is ended, innermost first."""
    gate, stopped = Gate(), []
    async with still_house(agent=delegating(("patient", "x"))) as home:
        home.bridge.add_agent("patient", patient(gate, stopped))
        page, run, sub = await waiting_pair(home, gate)
        await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        await home.world.settle()
        assert stopped == [sub]
        ends = [e["type"] for e in home.events()][-4:]
        assert ends == ["STEP_FINISHED", "SUBAGENT_ERROR", "STEP_FINISHED", "RUN_FINISHED"]


async def test_a_sub_runs_open_call_is_settled_with_it() -> None:
    async def worker(run: Run) -> Any:
        yield run.call("ask")

    async with still_house(agent=delegating(("worker", "x"))) as home:
        home.bridge.add_agent("worker", worker)
        page = await home.world.page(tools={"ask": None})
        run = page.run("go")
        await page.next_call("ask")
        await page.abort()
        await run.finished
        assert home.codes() == ["aborted_before_start"]


async def test_who_stops_waiting_takes_his_sub_run_along() -> None:
    gate, stopped = Gate(), []

    async def impatient(run: Run) -> Any:
        waiting = asyncio.ensure_future(run.delegate("patient", "x"))
        await gate.reached.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        yield "without it"

    async with still_house(agent=impatient) as home:
        home.bridge.add_agent("patient", patient(gate, stopped))
        page = await home.world.page()
        assert (await page.run("go").finished)["reason"] == "completed"
        assert page.thread().text.endswith("without it")
        assert len(stopped) == 1
        assert subs(home)[-1]["code"] == "aborted"


async def test_another_user_cannot_stop_it() -> None:
    """P8."""
    gate, stopped = Gate(), []
    agent = delegating(("patient", "x"))
    async with still_house(agent=agent, authenticate=lambda t, r: Principal(t or "ann")) as home:
        home.bridge.add_agent("patient", patient(gate, stopped))
        _, run, sub = await waiting_pair(home, gate)
        bob = await home.world.page(token="bob", threads=["t2"])
        assert await bob.ask("run.abort", runId=sub) == {"aborted": False}
        gate.open()
        await run.finished
        assert stopped == []


# ---- hooks and tools around it ---------------------------------------------------------------


async def test_hooks_are_asked_about_sub_runs_steps_and_calls_but_not_as_runs() -> None:
    said: list[Any] = []

    async def worker(run: Run) -> Any:
        if not run.results:
            yield run.call("t")

    agent = delegating(("worker", "x"))
    async with still_house(agent=agent) as home:
        home.bridge.add_agent("worker", worker)
        for name in ("before_run", "before_step", "before_call", "after_step", "after_run"):

            def note(value: Any, next: Any, name: str = name) -> Any:
                run = getattr(value, "run", None)
                said.append((name, run and (run.agent, run.depth, run.parent is not None)))
                return next(value)

            home.bridge.hook(name)(note)
        page = await home.world.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        await home.world.settle()
        assert said == [
            ("before_run", None),
            ("before_step", ("default", 0, False)),
            ("before_step", ("worker", 1, True)),
            ("before_call", ("worker", 1, True)),
            ("after_step", ("worker", 1, True)),
            ("before_step", ("worker", 2, True)),
            ("after_step", ("worker", 2, True)),
            ("after_step", ("default", 0, False)),
            ("after_run", None),
        ]


async def test_a_server_tool_may_delegate() -> None:
    async with house(
        [call("research", {"what": "tea"})], "done", agents={"helper": helper}
    ) as home:

        @home.bridge.tool
        async def research(what: str, run: Run) -> str:
            "Have somebody look."
            return (await run.delegate("helper", what)).text

        page = await home.page()
        await page.run("go").finished
        assert home.steps[1].results[0].value == "heard tea"


async def test_a_failed_run_with_a_sub_run_under_way_ends_both() -> None:
    gate, stopped = Gate(), []

    async def breaks(run: Run) -> Any:
        waiting = asyncio.ensure_future(run.delegate("patient", "x"))
        await gate.reached.wait()
        raise ValueError("meanwhile")
        yield waiting

    async with still_house(agent=breaks) as home:
        home.bridge.add_agent("patient", patient(gate, stopped))
        page = await home.world.page()
        with pytest.raises(RunFailed):
            await page.run("go").finished
        await home.world.settle()
        assert len(stopped) == 1
        with pytest.raises(Refused):
            await page.ask("run.start", threadId="t1", agent="nobody")
