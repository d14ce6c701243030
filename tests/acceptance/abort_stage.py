"""A run that climbs to a place, hangs there at a moment, and is stopped: over a real socket.

    async with stage(PLACES["depth 3"], MOMENTS["a text"]) as set:
        await set.reach()
        await set.abort()
        await set.checked()

Owns the agent, the tools and the hooks of such a run, and what must hold after every abort (P5),
wherever it came. The places and the moments are in `abort_cells`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.acceptance.abort_cells import Moment, Place
from tests.acceptance.house import Gate, House, house, object_of

from handspan import Policy, Run, UsageError
from handspan.core.inputs import AbortRequested
from handspan.core.parties import Asker
from handspan.core.transcript import broken_rules
from handspan.shell.driver import Driver
from handspan.testing import Page, PageCall
from handspan.testing.leftovers import of_work

T = TypeVar("T")

ROUNDS = 100
"""Commands whose replies are waited for until what was called off has come home."""

PATIENCE_S = 5.0

HELD = ("hold", "look", "unstarted", "glance", "final")
"""Tools of the page that answer nothing by themselves."""

READ_ONLY = {"readOnly": True}
NUMBERED = {**READ_ONLY, "parameters": object_of(n={"type": "integer"})}


class Stage:
    """One run and its stop; made by `stage`."""

    def __init__(self, place: Place, moment: Moment, *, stubborn: bool = False) -> None:
        self.place = place
        self.moment = moment
        self.stubborn = stubborn
        """What hangs hears of its end and answers all the same, as soon as `gate` is opened."""
        self.gate = Gate()
        self.armed = True
        """The next step at the place hangs; unset as soon as it is stopped."""
        self.called_off = asyncio.Event()
        self.answered = asyncio.Event()
        """A stubborn one has had its say."""
        self.steps: list[Run] = []
        """The Run of every step an agent was invoked for."""
        self.told: list[Any] = []
        """What `delegate` gave, innermost first."""
        self.fired: list[str | None] = []
        """The reason of each AbortSignal that fired."""
        self.carried_out: list[str] = []
        """Of what waited for leave, what was carried out."""
        self.tried: list[str] = []
        """What became of calls and sub-runs that were tried when the stop had come."""
        self.broken: list[str] = []
        """What was wrong with the histories that agents were shown."""
        self.before: set[asyncio.Task[Any]] = set()
        self.at_stop = (0, 0)
        """Steps and calls there were when the stop came."""
        self.home: House
        self.driver: Driver
        self.page: Page
        self.run: Any = None
        self.in_time: set[str] = set()
        """Ids of the calls that were answered before the stop."""
        self.went_on = 0
        """Steps that the answers brought before the stop came."""
        self._at_work = 0
        self._levels: dict[str, int] = {}
        self._unblocked = threading.Event()

    # ---- the cast ----------------------------------------------------------------------------

    async def agent(self, run: Run) -> AsyncIterator[Any]:
        """Every agent there is: delegates, climbs, hangs; says "fine" when nothing is armed."""
        self.steps.append(run)
        shown = [m.model_dump(by_alias=True, exclude_none=True) for m in run.messages]
        self.broken += broken_rules(shown)
        level = self.level(run)
        if not self.armed:
            yield "fine"
        elif self.is_here(run):
            async for item in self._play(run):
                yield item
        elif level < self.place.levels:
            self.told.append(await run.delegate("helper", "look"))
            yield f"it {self.told[-1].reason}"
        else:
            yield run.call("climb", {"n": run.depth})

    async def _play(self, run: Run) -> AsyncIterator[Any]:
        for item in self.moment.says:
            yield item
        if self.moment.hook == "model_request":
            await run.model_request({}, self._send)
        elif not self.moment.calls:
            await self.hang()
        for name in self.moment.calls:
            if self.moment.inside:
                await run.call_tool(name, {})
            else:
                yield run.call(name, self.moment.args)
        if self.stubborn and self.moment.streams:
            await self.say_more(run)
            yield "late"
            yield run.call("climb", {"n": 9})

    async def _send(self, request: Any) -> str:
        """The model is called."""
        self.carried_out.append("a model")
        return "a stream"

    async def say_more(self, run: Run) -> None:
        """What code that was called off may still try."""
        run.custom("late")
        run.set_state("late")
        for attempt in (
            run.call_tool("climb", {"n": 9}),
            run.delegate("helper", "late"),
            run.model_request({}, self._send),
        ):
            try:
                self.tried.append(repr(await attempt))
            except UsageError:
                self.tried.append("refused")
        self.answered.set()

    def level(self, run: Run) -> int:
        """0: the run itself; 1: a sub-run of it; and so on."""
        above = -1 if run.parent is None else self._levels[run.parent]
        return self._levels.setdefault(run.id, above + 1)

    def is_here(self, run: Run) -> bool:
        """Whether this is the step in which the run hangs."""
        at = (self.level(run), run.depth)
        return self.armed and at == (self.place.levels, self.place.depth)

    def arrive(self) -> None:
        """One of those that are to be at work when the stop comes."""
        self._at_work += 1
        if self._at_work == self.moment.at_work:
            self.gate.reached.set()

    async def hang(self) -> None:
        """Stay until the gate is opened; only a stubborn one stays when it is called off."""
        gate = self.gate
        self.arrive()
        try:
            await gate.opened.wait()
        except asyncio.CancelledError:
            self.called_off.set()
            if not self.stubborn:
                raise
            await gate.opened.wait()

    # ---- tools -------------------------------------------------------------------------------

    async def _held(self, args: Any, asked: Any) -> str:
        """A handler at work; it never answers."""
        self.arrive()
        await asked.signal.wait()
        self.fired.append(asked.reason)
        return "too late"

    async def work(self, run: Run) -> str:
        """A server tool at work."""
        await self.hang()
        await self.say_more(run)
        return "late"

    def block(self) -> str:
        """A server tool that nobody can cancel."""
        self.driver.loop.call_soon_threadsafe(self.arrive)
        self._unblocked.wait(PATIENCE_S)
        return "late"

    def charge(self) -> str:
        """A server tool that a human must allow."""
        self.carried_out.append("charge")
        return "charged"

    def page_tools(self) -> dict[str, Any]:
        """What the page has."""

        def ask(args: Any) -> str:
            self.carried_out.append("ask")
            return "asked"

        def judged(args: Any) -> str:
            self.carried_out.append("judged")
            return "judged"

        return {
            "climb": (NUMBERED, lambda args: "up"),
            "last": (READ_ONLY, lambda args: "ok"),
            "hold": self._held,
            "look": (READ_ONLY, self._held),
            "unstarted": None,
            "glance": (READ_ONLY, None),
            "final": ({"followUp": False}, None),
            "ask": ({"approval": "always"}, ask),
            "judged": ({**READ_ONLY, "parameters": object_of(x={})}, judged),
        }

    # ---- hooks -------------------------------------------------------------------------------

    def concerns(self, value: Any) -> bool:
        """Whether a hook is asked about the step in which the run hangs, or a call of it."""
        if not self.armed:
            return False
        if self.moment.hook in ("before_run", "model_request"):
            return True
        if hasattr(value, "run"):
            return self.is_here(value.run)
        return bool(value.name == "last")

    async def hook(self, value: Any, next: Any) -> Any:
        """Hangs, and lets everything pass."""
        if not self.concerns(value):
            return await next(value)
        await self.hang()
        try:
            return {"x": 1} if self.moment.hook == "repair_arguments" else await next(value)
        finally:
            self.answered.set()

    async def stop_when(self, steps: Any) -> bool:
        """A stop condition that hangs and does not hold."""
        if self.armed and steps[-1] and steps[-1][-1].name == "last":
            await self.hang()
            self.answered.set()
        return False

    # ---- the play ----------------------------------------------------------------------------

    async def reach(self) -> None:
        """Start the run and wait for the moment."""
        self.before = self.tasks()
        await self.renewed()

    async def renewed(self) -> None:
        """Start a run and wait for its moment."""
        self._at_work = 0
        self.run = self.page.run("go")
        await self.reached()
        await self.page.until(lambda: len(self.subs) == self.place.levels)

    async def pressed(self, name: str, args: Any) -> "asyncio.Future[Any]":
        """A button in the place of the run's message; what it will be told."""
        self.before = self.tasks()
        said = {"threadId": "t1", "name": name, "args": args, "followUp": True}
        told = self.page.document.post({"type": "tool.invoke", **said})
        await self.reached()
        self.mark()
        return told

    async def reached(self) -> None:
        """Wait for the moment."""
        moment = self.moment
        if moment.frame is not None:
            await self.page.expect(type=moment.frame, name=moment.calls[-1])
            return
        async with asyncio.timeout(PATIENCE_S):
            await self.gate.reached.wait()
        if moment.delta is not None:
            await self.page.until(lambda: any(e.get("delta") == moment.delta for e in self.heard))

    async def joined(self, connecting: Awaitable[T]) -> T:
        """What this opens belongs to the house, not to the run."""
        before = self.tasks()
        made = await connecting
        self.before |= self.tasks() - before
        return made

    def mark(self) -> None:
        """The stop is on its way: from now on nothing hangs, and nothing may start."""
        self.armed = False
        self.at_stop = (len(self.steps), len(self.page.calls))

    async def abort(self) -> None:
        """Stop what the place says, by its id, and wait for the run's end."""
        self.mark()
        assert await self.page.abort(self.target) is True
        await self.run.finished
        assert await self.page.abort(self.target) is False

    def stop_now(self) -> None:
        """Stop the run in this very turn of the loop."""
        key = next(iter(self.driver.hub.active))
        self.driver.tell_thread(key, AbortRequested(Asker(None, ""), self.run.id))

    @property
    def heard(self) -> list[Mapping[str, Any]]:
        """What the page has heard of the thread."""
        return self.page.events

    @property
    def subs(self) -> list[str]:
        """The sub-runs, outermost first."""
        return [e["subagentRunId"] for e in self.heard if e["type"] == "SUBAGENT_STARTED"]

    @property
    def target(self) -> str:
        """The id of what is stopped."""
        return str([self.run.id, *self.subs][self.place.stopped])

    # ---- what must hold ----------------------------------------------------------------------

    async def checked(self) -> None:
        """Everything that P5 promises, then a next message."""
        await self.nothing_left()
        self.check_called_off()
        self.check_end()
        self.check_subs()
        self.check_calls()
        await self.say_late()
        await self.nothing_left()
        self.check_silence()
        await self.next_message()

    async def nothing_left(self) -> None:
        """No task, no waiter, no open call."""
        for _ in range(ROUNDS):
            if not self.left():
                return
            await self.page.ask("thread.list")
        assert self.left() == []

    def left(self) -> list[str]:
        """What is still there of the run."""
        tasks = [str(task) for task in self.tasks() - self.before]
        return [*of_work(self.driver), *tasks]

    def tasks(self) -> set[asyncio.Task[Any]]:
        """Those under way."""
        return {task for task in asyncio.all_tasks() if not task.done()}

    def check_end(self) -> None:
        """One terminal event, of the right kind."""
        ends = [e for e in self.heard if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        whole = self.place.stopped == 0
        assert [e["outcome"]["type"] for e in ends] == ["cancelled" if whole else "success"]
        assert ends[0]["result"]["reason"] == ("aborted" if whole else "completed")
        depth = 0 if self.place.levels else self.place.depth + self.went_on
        assert ends[0]["result"]["depth"] == depth
        assert self.run.events[-1] is ends[0]

    def check_called_off(self) -> None:
        """What was at work in the server was told."""
        assert self.called_off.is_set() is self.moment.hangs
        if self.moment.streams:
            assert self.steps[-1].aborted

    def check_subs(self) -> None:
        """What was stopped ended innermost first, and whoever waited for it went on."""
        subs, stopped = self.subs, self.place.stopped
        gone, kept = subs[max(stopped - 1, 0) :], subs[: max(stopped - 1, 0)]
        errors = [e for e in self.heard if e["type"] == "SUBAGENT_ERROR"]
        assert [(e["subagentRunId"], e["code"]) for e in errors] == [
            (sub, "aborted") for sub in reversed(gone)
        ]
        finished = [e["subagentRunId"] for e in self.heard if e["type"] == "SUBAGENT_FINISHED"]
        assert finished == kept[::-1]
        for sub in subs:
            of_it = [e["type"] for e in self.heard if e.get("subagentRunId") == sub]
            assert of_it[-1] == ("SUBAGENT_ERROR" if sub in gone else "SUBAGENT_FINISHED")
        reasons = ["aborted", *["completed"] * len(kept)] if stopped else []
        assert [told.reason for told in self.told] == reasons
        assert [told.run_id for told in self.told] == [*gone[:1], *kept[::-1]][: len(reasons)]

    def check_calls(self) -> None:
        """Every call has its result, the signals fired, and nobody else was told."""
        assert broken_rules(self.home.history()) == []
        climbs = self.place.depth - self.place.levels
        assert self.home.codes() == [*[None] * climbs, *self.moment.codes]
        given_up = self.given_up
        cancels = [f for f in self.page.frames if f["type"] == "tool.cancel"]
        assert [(f["callId"], f["reason"]) for f in cancels] == [
            (c.call_id, "aborted") for c in given_up
        ]
        assert all(c.aborted and c.reason == "aborted" for c in given_up)
        assert self.fired == ["aborted"] * sum(c.name in ("hold", "look") for c in given_up)

    @property
    def given_up(self) -> list[PageCall]:
        """Calls that the page was at work on when the stop came."""
        held = [c for c in self.page.calls if c.name in HELD]
        return [c for c in held if c.call_id not in self.in_time]

    async def say_late(self) -> None:
        """What a page says to calls and questions of the past is refused."""
        for held in self.given_up:
            assert await held.answer("late") == "aborted"
            assert await held.fail("late") == "aborted"
            assert await held.start() == "aborted"
            held.progress(1.0)
        for request in [f for f in self.page.frames if f["type"] == "approval.request"]:
            assert await self.page.approve(request) == "late"
            assert await self.page.approve(request, False) == "late"

    def check_silence(self) -> None:
        """Since the stop nothing has started, and since the end nobody has said a word."""
        assert (len(self.steps), len(self.page.calls)) == self.at_stop
        assert self.carried_out == []
        assert self.heard[-1] is self.run.events[-1]
        assert len(self.home.events()) == len(self.heard)

    async def next_message(self) -> None:
        """The thread is as good as new."""
        again = self.page.run("again")
        assert await again.finished == {"reason": "completed", "depth": 0}
        assert self.page.messages[-1]["content"] == "fine"
        assert self.page.messages == self.home.history()
        assert self.broken == []
        await self.nothing_left()


@asynccontextmanager
async def stage(
    place: Place,
    moment: Moment,
    *,
    stubborn: bool = False,
    opened: Callable[..., Awaitable[Page]] = House.page,
    **options: Any,
) -> AsyncIterator[Stage]:
    """A house with a page, in which one run is to be stopped; `options` are those of `house`."""
    made = Stage(place, moment, stubborn=stubborn)
    stops = {"stop_when": [made.stop_when]} if moment.hook == "stop_when" else {}
    policy = Policy(**{**stops, **options.pop("policy", {})})
    agents = {"helper": made.agent}
    async with house(agent=made.agent, agents=agents, policy=policy, **options) as home:
        bridge = home.bridge
        made.home, (made.driver, _) = home, bridge._at_work()
        bridge.tool(made.work)
        bridge.tool(made.block)
        bridge.tool(approval="always")(made.charge)
        if moment.hook not in (None, "stop_when"):
            bridge.hook(moment.hook)(made.hook)
        made.page = await opened(home, tools=made.page_tools())
        try:
            yield made
        finally:
            made._unblocked.set()
            made.gate.open()
