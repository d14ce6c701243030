"""Whatever happens at whatever moment of a run, nothing of it is left: P1, P5, P6, P14.

A run stands still at a moment, then something happens to it; time goes on, and everything is over:
no task, no waiter, no entry of any map (`World.leftovers`), and the history may be sent to a model.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from ag_ui.core import ToolCallEndEvent, ToolCallStartEvent
from tests.conftest import spread
from tests.core.verifier import Stream

from handspan import Allow, Bridge, Policy, Principal, Run
from handspan.core.transcript import broken_rules
from handspan.testing import Page, World, settle

HOOKS: Final = (
    "before_run",
    "before_step",
    "model_request",
    "before_call",
    "repair_arguments",
    "after_call",
    "after_step",
    "after_run",
)

AGENTS: Final = (
    "an agent",
    "a tool that an agent waits for",
    "a page that an agent waits for",
    "a page at work",
    "an approval",
    "a server tool",
    "a sub-run",
    "a sub-run's page",
    "a sub-run's server tool",
    "a sub-run of a sub-run",
    "a sub-run of a server tool",
    "a later step",
)

MOMENTS: Final = (*AGENTS, *HOOKS, "a stop condition", "suggestions")


async def for_ever() -> None:
    await asyncio.Event().wait()


async def for_ever_and_a_day() -> None:
    """Does not end when it is called off for the first time."""
    try:
        await for_ever()
    except asyncio.CancelledError:
        await for_ever()


class Scene:
    """A bridge and a page, and a run that goes through every moment and stands still at one."""

    def __init__(self, moment: str, still: Callable[[], Awaitable[Any]] = for_ever) -> None:
        self.moment = moment
        self.still = still
        self.reached = False
        self.events: dict[str, list[Any]] = {}
        policy = Policy(on_disconnect="abort", stop_when=[self.stops])
        self.bridge = Bridge(policy=policy, agents={"default": self.agent})
        self.bridge.add_agent("helper", self.helper)
        self.bridge.add_agent("inner", self.inner)
        self.bridge.add_tool(self.srv)
        self.bridge.add_tool(self.hands_on)
        self.bridge.suggest(self.suggest)
        self.bridge.observe(lambda thread, event: self.events.setdefault(thread, []).append(event))
        for name in HOOKS:
            self.bridge.hook(name)(self.hook(name))
        self.world = World(self.bridge)
        self.page: Page
        self.run: asyncio.Future[Any]

    async def at(self, moment: str) -> Any:
        """Goes on, unless it is the moment at which the run stands still; that comes once."""
        if moment == self.moment and not self.reached:
            self.reached = True
            return await self.still()
        return None

    # ---- who goes through the moments ----------------------------------------------------------

    async def agent(self, run: Run) -> AsyncIterator[Any]:
        if run.depth > 0:
            await self.at("a later step")
            yield "Done."
            return
        yield "Let me see. "
        await self.at("an agent")
        await run.model_request({}, self.send)
        await run.call_tool("srv", {"moment": "a tool that an agent waits for"})
        await run.call_tool("t", {"moment": "a page that an agent waits for"})
        await run.delegate("helper", "look")
        yield run.call("t", {"moment": "a page at work"})
        yield run.call("ask", {"moment": "nothing"})
        yield run.call("t", {"moment": 1})
        yield run.call("srv", {"moment": "a server tool"})
        yield run.call("hands_on", {})

    async def send(self, request: Any) -> Any:
        return request

    async def helper(self, run: Run) -> AsyncIterator[Any]:
        yield "Well. "
        await self.at("a sub-run")
        if run.depth > 1:
            return
        await run.delegate("inner", "deeper")
        yield run.call("t", {"moment": "a sub-run's page"})
        yield run.call("srv", {"moment": "a sub-run's server tool"})

    async def inner(self, run: Run) -> AsyncIterator[Any]:
        yield "Hm. "
        await self.at(run.messages[0].content)
        await self.at("a sub-run of a sub-run")

    async def srv(self, moment: str) -> str:
        """Stands still."""
        await self.at(moment)
        return moment

    async def hands_on(self, run: Run) -> str:
        """Has another agent do it."""
        await run.call_tool("srv", {"moment": "nothing"})
        return (await run.delegate("inner", "a sub-run of a server tool")).reason

    async def works(self, args: Any, _: Any) -> Any:
        await self.at(args["moment"])
        return args

    def hook(self, name: str) -> Any:
        async def asked(value: Any, next_: Any) -> Any:
            said = await self.at(name)
            return await next_(value) if said is None else said

        return asked

    async def stops(self, _: Any) -> bool:
        await self.at("a stop condition")
        return False

    async def suggest(self, _: Any) -> list[str]:
        await self.at("suggestions")
        return ["And then?"]

    # ---- what happens to it --------------------------------------------------------------------

    async def begin(self) -> None:
        """Bring the run to its moment."""
        takes = {"type": "object", "properties": {"moment": {"type": "string"}}}
        tool = {"parameters": takes, "description": "works"}
        tools = {"t": (tool, self.works), "ask": ({**tool, "approval": "always"}, self.works)}
        self.page = await self.world.page(tools=tools)
        if self.moment != "an approval":
            self.page.on_approval(lambda _: True)
        self.run = asyncio.ensure_future(self.bridge.run("go", thread_id="t1"))
        await settle()
        assert self.reached or self.moment == "an approval", "the run never came to its moment"

    @property
    def run_id(self) -> str | None:
        """The run under way."""
        return next((look.run_id for look in self.bridge.threads if look.run_id), None)

    @property
    def sub_runs(self) -> list[str]:
        """Those under way, the outermost first."""
        told = [(e["type"], e.get("subagentRunId")) for e in self.events.get("t1", ())]
        over = {name for kind, name in told if kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR")}
        return [name for kind, name in told if kind == "SUBAGENT_STARTED" and name not in over]

    async def let_time_pass(self) -> None:
        """Longer than every hook, tool, approval and grace may take."""
        await self.world.advance(100.0)
        await self.world.advance(700.0 if self.moment == "an approval" else 100.0)

    async def go_on(self) -> None:
        """The next message works, and ends what thinks about the last one (suggestions)."""
        self.page.on_approval(lambda _: True)
        again = asyncio.ensure_future(self.bridge.run("and now?", thread_id="t1"))
        await self.world.advance(10.0)
        assert again.result().reason == "completed"

    def check(self) -> None:
        """P1, P6, and nothing left of any run."""
        for look in self.bridge.threads:
            assert look.run_id is None, f"run {look.run_id} never ends"
            assert broken_rules(look.messages) == [], look.messages
        for events in self.events.values():
            stream = Stream()
            for event in events:
                stream.take(event)
            assert stream.run is None
        assert self.world.leftovers() == []


@asynccontextmanager
async def scene(
    moment: str, still: Callable[[], Awaitable[Any]] = for_ever
) -> AsyncIterator[Scene]:
    """A run at its moment; at the end what must hold after whatever happened."""
    made = Scene(moment, still)
    async with made.world:
        await made.begin()
        yield made
        await made.let_time_pass()
        assert made.run.done()
        await made.go_on()
        made.check()
    assert made.world.leftovers() == []


# ---- what happens to a run ----------------------------------------------------------------------


async def abort_by_the_page(at: Scene) -> None:
    await at.page.abort(thread_id="t1")


async def abort_and_another_at_once(at: Scene) -> None:
    run = at.page.run("instead", ifBusy="replace")
    await settle()
    await at.let_time_pass()
    assert (await run.finished)["reason"] == "completed"


async def delete(at: Scene) -> None:
    await at.page.ask("thread.delete", threadId="t1")
    at.events.clear()


async def cancel_the_caller(at: Scene) -> None:
    at.run.cancel()
    await settle()


async def lose_the_page(at: Scene) -> None:
    await at.page.bye()


async def abort_the_innermost_sub_run(at: Scene) -> None:
    for sub in at.sub_runs[-1:]:
        assert await at.page.abort(sub)


async def abort_the_outermost_sub_run(at: Scene) -> None:
    for sub in at.sub_runs[:1]:
        assert await at.page.abort(sub)


async def reload_and_abort(at: Scene) -> None:
    await at.page.reload()
    await at.page.abort(thread_id="t1")


def named(one: Any) -> str:
    """What a row or a column is called."""
    return str(getattr(one, "__name__", None) or one)


HAPPENS: Final = (
    abort_by_the_page,
    abort_and_another_at_once,
    delete,
    cancel_the_caller,
    lose_the_page,
    abort_the_innermost_sub_run,
    abort_the_outermost_sub_run,
    reload_and_abort,
)


@pytest.mark.parametrize(("happens", "moment"), spread(HAPPENS, MOMENTS, 3), ids=named)
async def test_p5_whatever_happens_at_whatever_moment_nothing_is_left(
    moment: str, happens: Any
) -> None:
    async with scene(moment) as at:
        await happens(at)
        if at.run_id is not None:
            await at.let_time_pass()
        if at.run_id is not None:
            await at.page.abort(thread_id="t1")


@pytest.mark.parametrize("moment", MOMENTS)
async def test_p5_a_bridge_that_is_closed_at_whatever_moment_leaves_nothing(moment: str) -> None:
    made = Scene(moment)
    async with made.world:
        await made.begin()
        await made.bridge.close()
        await settle()
        made.check()
        assert made.run.done()
    assert made.world.leftovers() == []


# ---- what the application's own code does at a moment -------------------------------------------

OWN_CODE: Final = tuple(
    moment for moment in MOMENTS if "page" not in moment and moment != "an approval"
)
"""Moments that are not a page's: what a page's handler raises is the page's own business."""

RAISED: Final = {
    type(error).__name__: error
    for error in (
        ValueError("secret"),
        asyncio.CancelledError(),
        GeneratorExit(),
        SystemExit(3),
        StopAsyncIteration(),
        BaseExceptionGroup("two", [GeneratorExit(), ValueError("secret")]),
    )
}


@pytest.mark.parametrize(("name", "moment"), spread(tuple(RAISED), OWN_CODE, 3))
async def test_p14_whatever_own_code_raises_nothing_is_left(name: str, moment: str) -> None:
    async def raises() -> None:
        raise RAISED[name]

    async with scene(moment, raises) as at:
        await settle()
        assert at.run.done() or moment == "suggestions", "it waits for what has failed"
        assert "secret" not in str(at.events)


@pytest.mark.parametrize(
    ("moment", "said"), spread(HOOKS, [42, "yes", {}, [None], Allow], 2), ids=named
)
async def test_p14_whatever_a_hook_answers_nothing_is_left(moment: str, said: Any) -> None:
    async def answers() -> Any:
        return said

    async with scene(moment, answers) as at:
        assert at.run.done(), "it waits for what has been answered"


@pytest.mark.parametrize("moment", OWN_CODE)
async def test_p14_what_does_not_let_itself_be_called_off_holds_up_nobody(moment: str) -> None:
    async with scene(moment, for_ever_and_a_day) as at:
        await at.page.abort(thread_id="t1")
        await settle()
        assert at.run_id is None


@pytest.mark.parametrize("moment", [*HOOKS, "a stop condition"])
async def test_p12_a_hook_that_never_answers_does_not_hold_up_a_run(moment: str) -> None:
    async with scene(moment) as at:
        if moment == "model_request":  # as long as a model may take
            await at.page.abort(thread_id="t1")
        await at.world.advance(31.0)
        assert at.run.done()


@pytest.mark.parametrize("moment", OWN_CODE)
@pytest.mark.parametrize("goes_on", [True, False], ids=["and goes on", "and waits"])
async def test_p5_own_code_that_aborts_its_own_run_leaves_nothing(
    moment: str, goes_on: bool
) -> None:
    async def aborts() -> None:
        await made.page.abort(thread_id="t1")
        await (asyncio.sleep(0) if goes_on else for_ever())

    made = Scene(moment, aborts)
    async with made.world:
        await made.begin()
        await made.let_time_pass()
        await made.go_on()
        made.check()
        assert made.run.result().reason in ("aborted", "completed")


@pytest.mark.parametrize("moment", OWN_CODE)
async def test_p8_own_code_that_waits_for_another_run_leaves_nothing(moment: str) -> None:
    async def runs_another() -> None:
        result = await made.bridge.run("besides", thread_id="t2")
        assert result.reason == "completed"

    made = Scene(moment, runs_another)
    async with made.world:
        await made.begin()
        await made.let_time_pass()
        assert made.run.result().reason == "completed"
        await made.go_on()
        await made.bridge.run("and there?", thread_id="t2")
        await made.page.ask("thread.delete", threadId="t2")
        made.check()


@pytest.mark.parametrize("moment", OWN_CODE)
async def test_p5_own_code_that_deletes_its_own_thread_leaves_nothing(moment: str) -> None:
    async def deletes() -> None:
        await made.page.ask("thread.delete", threadId="t1")
        await for_ever()

    made = Scene(moment, deletes)
    async with made.world:
        await made.begin()
        await made.let_time_pass()
        made.events.clear()
        made.check()
        assert made.run.done()


# ---- more than one ------------------------------------------------------------------------------


async def test_p8_runs_of_one_name_on_two_threads_do_not_know_each_other() -> None:
    gate = asyncio.Event()

    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "x"
        await gate.wait()

    bridge = Bridge(agents={"default": agent})
    async with World(bridge) as world:
        one, two = [await world.page(threads=(name,)) for name in ("t1", "t2")]
        runs = [page.run("hi", run_id="mine") for page in (one, two)]
        await settle()
        await one.abort(thread_id="t1")
        gate.set()
        await settle()
        assert [look.run_id for look in bridge.threads] == [None, None]
        assert (await runs[1].finished)["reason"] == "completed"


@pytest.mark.parametrize("kind", ["a server tool", "before_call", "after_call"])
async def test_p8_calls_of_one_name_of_two_users_do_not_know_each_other(kind: str) -> None:
    """A provider may name its calls as it likes, for every user the same."""
    gates = {name: asyncio.Event() for name in ("ann", "ben")}

    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            yield ToolCallStartEvent(tool_call_id="call_0", tool_call_name="srv")
            yield ToolCallEndEvent(tool_call_id="call_0")

    async def wait(moment: str, user: str) -> None:
        if moment == kind:
            await gates[user].wait()

    bridge = Bridge(agents={"default": agent})

    @bridge.tool
    async def srv(run: Run) -> None:
        await wait("a server tool", run.principal.id)

    @bridge.hook("before_call")
    async def before_call(asked: Any, next_: Any) -> Any:
        await wait("before_call", asked.run.principal.id)
        return await next_(asked)

    @bridge.hook("after_call")
    async def after_call(result: Any, next_: Any) -> Any:
        await wait("after_call", "ben")
        return await next_(result)

    async with World(bridge) as world:
        runs = {
            name: asyncio.ensure_future(bridge.run("go", principal=Principal(name)))
            for name in gates
        }
        await settle()
        runs["ann"].cancel()
        await settle()
        assert not runs["ben"].done()
        gates["ben"].set()
        await settle()
        assert runs["ben"].result().reason == "completed"
        assert world.leftovers() == []


async def test_p12_server_tools_that_delegate_do_not_wait_for_the_places_they_hold() -> None:
    async def agent(run: Run) -> AsyncIterator[Any]:
        if run.depth == 0:
            yield run.call("hands_on", {})
            yield run.call("hands_on", {})

    async def helper(run: Run) -> AsyncIterator[Any]:
        if run.depth == 1:
            yield run.call("srv", {})

    async def hands_on(run: Run) -> str:
        return (await run.delegate("helper", "do it")).reason

    async def srv() -> int:
        return 1

    bridge = Bridge(policy=Policy(server_tools_at_once=2), agents={"default": agent})
    bridge.add_agent("helper", helper)
    bridge.add_tool(hands_on)
    bridge.add_tool(srv)
    async with World(bridge) as world:
        run = asyncio.ensure_future(bridge.run("go", thread_id="t1"))
        await settle()
        done = run.done()
        await world.advance(100.0)
        assert done, "the tools wait for each other until they are out of time"


async def test_a_thread_that_leaves_memory_takes_its_suggestions_along() -> None:
    async def agent(run: Run) -> AsyncIterator[Any]:
        yield "x"

    async def suggest(_: Any) -> list[str]:
        await for_ever()
        return []

    bridge = Bridge(policy=Policy(thread_idle=50.0), agents={"default": agent})
    bridge.suggest(suggest)
    async with World(bridge) as world:
        await bridge.run("go", thread_id="t1")
        await world.advance(200.0)
        assert bridge.threads == []
        assert world.leftovers() == []
