"""Sequences with a name: each is among the simulated ones, and stands here step by step (P2)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.simulation.checker import APPROVED, Checker
from tests.simulation.kit import TOOLS
from tests.simulation.page import Document
from tests.simulation.plan import Plan
from tests.simulation.tab import Tab
from tests.simulation.world import World

from handspan import Policy

Json = Any

GRACE_S = 3.0
PROBE_S = 2.0
"""How long an old socket may take to show that it lives. *Source:* behaviour.md 5."""


class Stage(World):
    """A world in which a test does everything itself: one tab, one run, one call."""

    def __init__(
        self, tool: str, story: Callable[["Stage"], Awaitable[None]], *, durable: bool = False
    ) -> None:
        policy = Policy(page_grace=GRACE_S, tool_timeout=60.0, heartbeat=5.0)
        super().__init__(Plan(0, policy, durable, (), 0.01, 65_536, 0.0, ()))
        self.tool = tool
        self.results: list[Any] = []
        """What the agent was told of its call."""
        self.delegates = tool in APPROVED
        """The call is made by a sub-run."""
        self.wish: str | None = None
        """The call's own id."""
        self.statuses: list[str] = []
        """What the page was told of what it said."""
        self._story = story
        tools = {tool: TOOLS[tool]} if tool in TOOLS else {}
        self.tab = Tab(self, "d1", threads=["t1"], tools=tools)
        self.tab.verdict = lambda *_: None  # type: ignore[method-assign]
        self.tabs.append(self.tab)

    def agents(self, life: Any) -> dict[str, Any]:
        async def default(run: Any) -> AsyncIterator[Any]:
            self.results += run.results
            if run.depth == 0 and self.delegates:
                await run.delegate("helper", "do it")
            elif run.depth == 0:
                yield run.call(self.tool, {}, id=self.wish)

        async def helper(run: Any) -> AsyncIterator[Any]:
            yield run.call(self.tool, {})

        return {"default": default, "helper": helper}

    async def happen(self) -> None:
        self.tab.load()
        await self.until(lambda: self.page.session is not None)
        await self._story(self)

    @property
    def page(self) -> Document:
        assert self.tab.document is not None
        return self.tab.document

    def ask(self, thread_id: str = "t1") -> None:
        self.page.command({"type": "run.start", "threadId": thread_id, "message": "do it"})

    def told(self, result: Json, error: Json) -> None:
        self.statuses.append(error["code"] if result is None else result["status"])

    def heard(self, kind: str) -> bool:
        return any(r.kind == "heard" and r.what["type"] == kind for r in self.history.records)

    def sent(self, kind: str) -> bool:
        return any(r.kind == "sent" and r.what["type"] == kind for r in self.history.records)

    def begun(self) -> list[tuple[str, int]]:
        """Where handlers began, and in which attempt."""
        return [(r.who, r.what["attempt"]) for r in self.history.records if r.kind == "begin"]

    async def until(self, true: Callable[[], bool]) -> None:
        """Virtual time goes on until it is so."""
        end = self.loop.virtual_now + 100.0
        while not true():
            assert self.loop.virtual_now < end, "it never happens"
            await self.pause(0.001)

    async def pause(self, seconds: float) -> None:
        done = self.loop.create_future()
        self.loop.call_later(seconds, done.set_result, None)
        await done

    def crash_tab(self) -> None:
        """The renderer dies without a word: even its socket seems to be there."""
        line = self.page.line
        assert line is not None
        line.vanish()
        self.tab.unload(politely=False)


def play(tool: str, story: Callable[[Stage], Awaitable[None]], *, durable: bool = False) -> Stage:
    """To the end, and nothing is wrong with it."""
    stage = Stage(tool, story, durable=durable)
    assert Checker(stage.policy).judge(stage.play()) == []
    return stage


async def _started_is_lost(stage: Stage) -> None:
    """The order comes to the page, but nothing of the page comes to the server any more."""
    stage.ask()
    await stage.until(lambda: stage.sent("tool.call"))
    line = stage.page.line
    assert line is not None
    line.vanish(down=False)
    await stage.until(lambda: stage.heard("tool.call"))
    await stage.pause(0.5)


async def _and_its_tab_died(stage: Stage) -> None:
    await _started_is_lost(stage)
    stage.crash_tab()


async def _and_its_tab_came_back(stage: Stage) -> None:
    await _and_its_tab_died(stage)
    stage.tab.load()


def test_a_start_that_was_lost_with_its_tab_was_no_start() -> None:
    """P2: without leave nothing starts, so the model may be told that nothing was carried out."""
    stage = play("plain", _and_its_tab_died)
    assert stage.begun() == []
    assert [(r.outcome, r.error.code) for r in stage.results] == [("error", "page_gone")]
    assert "not carried out" in stage.results[0].error.message


def test_a_call_whose_start_was_lost_runs_once_in_the_page_that_comes_back() -> None:
    """P2: the first attempt provably did not start, so there is a second one."""
    stage = play("plain", _and_its_tab_came_back)
    assert stage.begun() == [("d1.2", 2)]
    assert stage.results[0].value == {"by": "d1.2", "callId": "c-1", "attempt": 2}


def test_a_repeatable_handler_that_ran_unheard_may_have_run() -> None:
    """P2: it starts without leave; what nobody heard of is told as it is: it may have happened."""
    stage = play("idem", _and_its_tab_died)
    assert stage.begun() == [("d1.1", 1)]
    assert [(r.outcome, r.error.code) for r in stage.results] == [("error", "page_gone")]
    assert "may have been carried out" in stage.results[0].error.message


def test_a_repeatable_handler_that_ran_unheard_runs_again_in_the_page_that_comes_back() -> None:
    """P2: once in each attempt."""
    stage = play("idem", _and_its_tab_came_back)
    assert stage.begun() == [("d1.1", 1), ("d1.2", 2)]
    assert stage.results[0].value["by"] == "d1.2"


async def _leave_is_lost(stage: Stage) -> None:
    """The server has recorded the start, and its `go` never arrives; then the tab dies."""
    stage.ask()
    await stage.until(lambda: stage.heard("tool.call"))
    line = stage.page.line
    assert line is not None
    line.vanish(up=False)
    await stage.until(lambda: any(r.what.get("result") == {"status": "go"} for r in _sent(stage)))
    stage.crash_tab()
    stage.tab.load()


def test_a_call_that_was_given_leave_is_never_given_again() -> None:
    """P2: whether it ran cannot be known, and that is what the model is told."""
    stage = play("plain", _leave_is_lost)
    assert stage.begun() == []
    assert [(r.outcome, r.error.code) for r in stage.results] == [("unknown", "outcome_unknown")]


async def _blocked_and_overtaken(stage: Stage) -> None:
    """A tab is blocked with an order in its socket; its duplicate takes the session over."""
    stage.ask()
    await stage.pause(0.0)
    stage.tab.freeze()
    await stage.until(lambda: stage.sent("tool.call"))
    await stage.pause(0.5)
    stage.open_copy(stage.tab)
    await stage.until(lambda: bool(stage.results))
    assert stage.loop.virtual_now > PROBE_S
    stage.tab.thaw()
    await stage.pause(10.0)


@pytest.mark.parametrize(
    ("tool", "begun"),
    [
        pytest.param("plain", [("d1c1.1", 2)], id="once, where leave was given"),
        pytest.param("idem", [("d1c1.1", 2), ("d1.1", 1)], id="repeatable: once in each attempt"),
    ],
)
def test_a_blocked_tab_that_was_overtaken_runs_nothing_that_must_not_run_twice(
    tool: str, begun: list[tuple[str, int]]
) -> None:
    """P2, P7: what it finds in its socket when it wakes up is of an attempt that is over."""
    stage = play(tool, _blocked_and_overtaken)
    assert stage.begun() == begun
    assert stage.results[0].value == {"by": "d1c1.1", "callId": "c-1", "attempt": 2}
    assert len(stage.results) == 1


# ---- while a hello waits for a sign of life of an older page -----------------------------------


async def _void_meanwhile(stage: Stage) -> None:
    """A page that is gone waits with a secret that two reloads have made void."""
    stage.crash_tab()
    stage.tab.load()
    await stage.until(lambda: stage.sent("ping"))
    for _ in range(2):
        stage.tab.unload(politely=True)
        stage.tab.load()
        page = stage.page
        await stage.until(lambda page=page: page.threads["t1"].epoch is not None)
    line = stage.page.line
    assert line is not None
    line.cut(3.0, 0.5)
    await stage.pause(6.0)


def test_a_secret_that_is_void_when_the_probe_is_over_resumes_nothing() -> None:
    """P9: what was good when the hello came is judged when it is answered."""
    stage = play("plain", _void_meanwhile)
    welcomes = [record.what for record in _sent(stage) if record.what["type"] == "welcome"]
    last = welcomes[-1]
    assert (last["resumed"], last["session"]["id"]) == (True, "s-1")


async def _twice_meanwhile(stage: Stage) -> None:
    """A duplicate of a blocked tab loses its socket while it waits, and comes with another."""
    stage.tab.freeze()
    stage.open_copy(stage.tab)
    await stage.until(lambda: stage.sent("ping"))
    copy = stage.tabs[-1].document
    assert copy is not None
    assert copy.line is not None
    copy.line.cut(0.0, None)
    await stage.pause(4.0)
    stage.tab.thaw()


def test_a_page_that_came_twice_while_it_waited_has_one_session() -> None:
    """P9: the newest socket of a document is the live one."""
    stage = play("plain", _twice_meanwhile)
    copied = stage.tabs[-1]
    assert {session["id"] for session in copied.secrets} == {"s-1"}


# ---- with a store that keeps late --------------------------------------------------------------


async def _stopped_before_it_is_kept(stage: Stage) -> None:
    stage.store.delay = 0.5
    stage.ask()
    await stage.until(lambda: any("dispatched" in str(r.what) for r in _events(stage)))
    stage.page.command({"type": "run.abort", "threadId": "t1"})
    await stage.pause(3.0)


@pytest.mark.parametrize("tool", ["plain", "idem", "serve"])
def test_a_call_that_is_stopped_before_it_is_kept_is_never_sent(tool: str) -> None:
    """P5: an order that waits for its commit goes nowhere once its run is over."""
    stage = play(tool, _stopped_before_it_is_kept, durable=True)
    assert not stage.sent("tool.call")
    assert stage.begun() == []
    assert not [record for record in stage.history.records if record.kind == "served"]


async def _asked_before_the_crash(stage: Stage) -> None:
    """A sub-run has asked; the server dies, and nobody waits for the sub-run any more."""
    stage.ask()
    await stage.until(lambda: stage.heard("approval.request"))
    stage.crash(0.1)
    await stage.until(lambda: len(stage.lives) == 2 and stage.page.ready)
    asked = next(r.what for r in _sent(stage) if r.what["type"] == "approval.request")
    answer = {"callId": asked["callId"], "digest": asked["digest"], "approved": True}
    stage.page.command({"type": "approval.answer", **answer}, stage.told)
    await stage.until(lambda: bool(stage.statuses))


def test_a_question_of_a_lost_sub_run_is_closed() -> None:
    """P10: an answer after the restart is late, and harms nothing (P14)."""
    stage = play("ask", _asked_before_the_crash, durable=True)
    assert stage.statuses == ["late"]
    assert stage.begun() == []


async def _approved_for_who_is_gone(stage: Stage) -> None:
    """The page that has the tool goes with the server; another one, that is back, says yes."""
    stage.delegates = False
    other = Tab(stage, "d2", threads=["t1"], tools={})
    other.verdict = stage.tab.verdict  # type: ignore[method-assign]
    stage.tabs.append(other)
    other.load()
    assert other.document is not None
    other.document.command({"type": "run.start", "threadId": "t1", "message": "do it"})
    await stage.until(lambda: stage.heard("approval.request"))
    stage.tab.online = False
    stage.tab.unload(politely=False)
    stage.crash(0.1)
    await stage.until(lambda: len(stage.lives) == 2 and other.document is not None)
    asked = next(r.what for r in _sent(stage) if r.what["type"] == "approval.request")
    answer = {"callId": asked["callId"], "digest": asked["digest"], "approved": True}
    other.document.command({"type": "approval.answer", **answer}, stage.told)
    await stage.until(lambda: bool(stage.results))


def test_a_call_that_waits_for_a_page_that_never_comes_back_after_a_restart_ends() -> None:
    """P5: `page_grace` counts for who only read the thread, too."""
    stage = play("ask", _approved_for_who_is_gone, durable=True)
    assert stage.statuses == ["applied"]
    assert [(r.outcome, r.error.code) for r in stage.results] == [("error", "no_client")]


async def _named_as_one_that_is_kept(stage: Stage) -> None:
    """A page still has the answer to a call that was stopped; then the server dies."""
    stage.wish = "call-1"
    stage.ask("t2")
    await stage.until(lambda: stage.heard("tool.call"))
    line = stage.page.line
    assert line is not None
    line.vanish()
    stage.tab.online = False
    other = Tab(stage, "d2", threads=["t2"], tools={})
    stage.tabs.append(other)
    other.load()
    await stage.pause(12.0)
    assert other.document is not None
    other.document.command({"type": "run.abort", "threadId": "t2"})
    await stage.pause(1.0)
    stage.ask("t1")
    stage.crash(0.1)
    await stage.until(lambda: len(stage.lives) == 2)
    stage.tab.online = True
    stage.page.wake("waiting")
    await stage.until(lambda: bool(stage.results))


def test_a_call_never_has_the_name_of_one_that_is_only_in_the_store() -> None:
    """P7: an answer to the old one would be taken for an answer to the new one."""
    stage = play("idem", _named_as_one_that_is_kept, durable=True)
    assert len(stage.begun()) == 2


def _events(stage: Stage) -> list[Any]:
    return [record for record in stage.history.records if record.kind == "event"]


def _sent(stage: Stage) -> list[Any]:
    return [record for record in stage.history.records if record.kind == "sent"]
