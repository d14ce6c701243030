"""What the core orders of hooks becomes questions, and their answers what the core is told.

The core's side is played: effects are given to `Asking` by hand, inputs are caught. api.md,
"Hooks"; behaviour.md 2 and 3.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from ag_ui.core import UserMessage

from handspan import (
    Allow,
    Ask,
    BadArguments,
    Bridge,
    Call,
    Deny,
    Failure,
    Policy,
    Principal,
    Run,
    RunRequest,
    StepOutcome,
    UsageError,
)
from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.arguments import BadArguments as Bad
from handspan.core.arguments import Problem, ToolSpec
from handspan.core.parties import Asker, ThreadKey
from handspan.shell.answers import SUGGESTION_CHARS, SUGGESTIONS_MAX
from handspan.testing import World, settle
from handspan.testing.leftovers import of_sessions
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import CallId, RunId, ThreadId
from handspan_protocol.tools import Tool

RUN_ID, CALL_ID = RunId("r1"), CallId("c1")
ANN = Principal("ann", plan="free")
DEFINITION = Tool(name="erase", description="Erases.", parameters={"type": "object"})


class Anything:
    def problems(self, value: Any, /) -> tuple[Problem, ...]:
        return ()


SPEC = ToolSpec(DEFINITION, Anything())


class Room:
    """A bridge whose core is played by the test."""

    def __init__(self, bridge: Bridge, world: World) -> None:
        assert world._driver is not None
        self.bridge, self.world, self.driver = bridge, world, world._driver
        self.asking = self.driver.asking
        self.thread = self.driver.hub.thread(ThreadKey("ann", ThreadId("t1")))
        self.told: list[Any] = []
        self.driver.tell_thread = lambda key, told, **_: self.told.append(told)  # type: ignore[method-assign]

    async def answer(self, ask: Any, effect: Any) -> Any:
        """What the core is told to this effect."""
        ask(self.thread, effect)
        await settle()
        assert len(self.told) == 1, self.told
        return self.told.pop()

    def step(self, **more: Any) -> e.StartStep:
        fields: dict[str, Any] = {
            "run_id": RUN_ID,
            "depth": 0,
            "agent": "default",
            "tools": (SPEC,),
            "context": (),
            "messages": ({"id": "m1", "role": "user", "content": "hi"},),
            "state": None,
            "results": (),
            "forwarded_props": None,
            "principal": ANN,
        }
        return e.StartStep(**{**fields, **more})


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    bridge = Bridge(policy=Policy(context_bytes=1_000))
    async with World(bridge) as world:
        room = Room(bridge, world)
        bridge.add_agent("default", lambda run: None)
        yield room
        await settle()
        assert len(room.driver.workers.crew) == 0
        for run_id in (RUN_ID, RunId("r2")):  # whose ends nobody played
            room.driver.workers.forget(room.thread, run_id)
    assert list(of_sessions(room.driver)) == []
    assert world.clock.waiting == []


# ---- before_run ------------------------------------------------------------------------------


def wish(**fields: Any) -> i.RunRequested:
    given = {"asker": Asker(None, "k"), "run_id": RUN_ID, "principal": ANN, **fields}
    return i.RunRequested(**given)


def text(content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


PARTS = [{"type": "text", "text": "look"}]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (None, None),
        (text(), "hi"),
        (text("", id="m9"), ""),
        (text(PARTS, id="m9"), UserMessage(id="m9", role="user", content=PARTS)),
        (text(PARTS), UserMessage(id="", role="user", content=PARTS)),
    ],
)
async def test_before_run_is_shown_the_request_and_it_comes_back_as_it_was(
    room: Room, message: Any, shown: Any
) -> None:
    seen: list[Any] = []

    @room.bridge.hook("before_run")
    async def look(value: Any, next: Any) -> Any:
        seen.append(value)
        return await next(value)

    context = (ContextItem(name="cart", description="d", value={"n": [1]}),)
    request = wish(message=message, context=context, after="m0", forwarded_props={"x": 1})
    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, request))
    assert seen == [RunRequest("t1", "default", shown, list(context), ANN)]
    assert seen[0].context[0].value is not context[0].value
    assert told == i.RunJudged(run_id=RUN_ID, request=request)


@pytest.mark.parametrize(
    ("message", "said", "becomes"),
    [
        (text(id="m9", name="Ann", metadata={"k": 1}), "ho", None),
        (text(), "ho", None),
        (None, "ho", text("ho")),
        (text(PARTS, id="m9"), "ho", text("ho", id="m9")),
        (text(id="m9"), None, "nothing"),
        (text(id="m9"), {"content": "ho"}, text("ho")),
        (text(id="m9"), PARTS, text(PARTS)),
        (text(), UserMessage(id="m7", role="user", content="ho"), text("ho", id="m7")),
        (text(), "\ud800", text("\ufffd")),
    ],
)
async def test_before_run_may_put_another_message(
    room: Room, message: Any, said: Any, becomes: Any
) -> None:
    """When only the text changes, the message keeps its id and the rest."""

    @room.bridge.hook("before_run")
    async def put(value: Any, next: Any) -> Any:
        value.message = said
        return await next(value)

    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, wish(message=message)))
    if becomes is None:
        becomes = {**message, "content": said}
    assert told.request.message == (None if becomes == "nothing" else becomes)


async def test_before_run_may_put_another_agent_and_more_context(room: Room) -> None:
    room.bridge.add_agent("billing", lambda run: None)
    room.bridge.add_agent("default", lambda run: None)
    old = ContextItem(name="a", description="", value=1)

    @room.bridge.hook("before_run")
    async def put(value: Any, next: Any) -> Any:
        value.context += [{"name": "b", "value": [2]}, replace(old, name="c")]
        return await next(replace(value, agent="billing"))

    request = wish(context=(old,))
    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, request))
    assert told.request.agent == "billing"
    assert [(x.name, x.description, x.value) for x in told.request.context] == [
        ("a", "", 1),
        ("b", "", [2]),
        ("c", "", 1),
    ]


@pytest.mark.parametrize(
    ("field", "said", "word"),
    [
        ("agent", "nobody", "no agent 'nobody'"),
        ("agent", None, "no agent"),
        ("message", {"role": "system", "content": "obey"}, "role user"),
        ("message", 7, "message"),
        ("message", [], "content"),
        ("context", [{"name": ""}], "context item"),
        ("context", ["cart"], "context item"),
        ("context", None, "context item"),
        ("context", [{"name": "a", "value": {1}}], ""),
        ("context", [{"name": "a", "value": "x" * 2_000}], "over 1000"),
    ],
)
async def test_a_request_that_cannot_run_fails_the_run_and_says_why(
    room: Room, field: str, said: Any, word: str, caplog: Any
) -> None:
    room.bridge.add_agent("default", lambda run: None)

    @room.bridge.hook("before_run")
    async def put(value: Any, next: Any) -> Any:
        setattr(value, field, said)
        return await next(value)

    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, wish(message=text())))
    assert (told.code, told.request) == ("agent_error", None)
    assert word in told.message
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("said", "message"), [(Deny("not now"), "not now"), (Deny(), "the run was denied")]
)
async def test_before_run_may_deny(room: Room, said: Any, message: str) -> None:
    room.bridge.hook("before_run")(lambda value, next: said)
    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, wish()))
    assert told == i.RunJudged(run_id=RUN_ID, code="denied", message=message)


async def test_before_run_of_a_button_may_deny_and_change_nothing(room: Room) -> None:
    request = i.InvokeRequested(asker=Asker(None, "k"), name="erase", raw="{}", run_id=RUN_ID)
    seen: list[Any] = []

    @room.bridge.hook("before_run")
    async def put(value: Any, next: Any) -> Any:
        seen.append((value.agent, value.message, value.context))
        return await next(replace(value, agent="nobody", message=7, context=None))

    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, request))
    assert told == i.RunJudged(run_id=RUN_ID, request=request)
    assert seen == [("default", None, [])]


async def test_a_before_run_hook_that_raises_fails_the_run_with_a_line_that_leaks_nothing(
    room: Room,
) -> None:
    @room.bridge.hook("before_run")
    async def fails(value: Any, next: Any) -> Any:
        raise ValueError("secret")

    told = await room.answer(room.asking.judge_run, e.JudgeRun(RUN_ID, wish()))
    assert (told.request, told.code) == (None, "agent_error")
    assert "secret" not in told.message
    assert "in the server's log" in told.message


# ---- before_call -----------------------------------------------------------------------------


def judge_call(**more: Any) -> e.JudgeCall:
    fields: dict[str, Any] = {"args": {"all": [True]}, "spec": SPEC, "asks": False, **more}
    return e.JudgeCall(call_id=CALL_ID, run_id=RUN_ID, depth=0, name="erase", **fields)


@pytest.mark.parametrize(
    ("said", "verdict", "reason"),
    [
        (Allow(), "allow", None),
        (Deny(), "deny", None),
        (Deny("never"), "deny", "never"),
        (Ask(), "ask", None),
        (Ask("sure?"), "ask", "sure?"),
    ],
)
async def test_what_before_call_says_is_the_verdict(
    room: Room, said: Any, verdict: Any, reason: str | None
) -> None:
    """P10. Also of a tool that itself wishes to be approved: Allow without `next` overrides it."""
    room.bridge.hook("before_call")(lambda value, next: said)
    told = await room.answer(room.asking.judge_call, judge_call(asks=True))
    assert told == i.CallJudged(CALL_ID, verdict, reason)


@pytest.mark.parametrize(("asks", "verdict"), [(True, "ask"), (False, "allow")])
async def test_behind_the_hooks_stands_what_the_tool_wishes(
    room: Room, asks: bool, verdict: Any
) -> None:
    room.bridge.hook("before_call")(lambda value, next: next(value))
    told = await room.answer(room.asking.judge_call, judge_call(asks=asks))
    assert told == i.CallJudged(CALL_ID, verdict, None)


async def test_before_call_is_shown_copies(room: Room) -> None:
    """P11: what a hook does to arguments and tool changes neither the call nor the registry."""
    seen: list[Call] = []

    @room.bridge.hook("before_call")
    async def spoil(value: Call, next: Any) -> Any:
        seen.append(value)
        value.args["all"].append(False)
        value.tool.parameters["type"] = "string"  # type: ignore[index]
        return await next(value)

    effect = judge_call()
    await room.answer(room.asking.judge_call, effect)
    [call] = seen
    assert (call.id, call.name, call.tool.name) == ("c1", "erase", "erase")
    assert effect.args == {"all": [True]}
    assert DEFINITION.parameters == {"type": "object"}


async def test_a_before_call_hook_that_raises_denies(room: Room) -> None:
    @room.bridge.hook("before_call")
    async def fails(value: Any, next: Any) -> Any:
        raise ValueError("secret")

    told = await room.answer(room.asking.judge_call, judge_call())
    assert told.verdict == "deny"
    assert "secret" not in told.reason


async def test_a_question_that_is_no_longer_wanted_is_called_off(room: Room) -> None:
    left = asyncio.Event()

    @room.bridge.hook("before_call")
    async def waits(value: Any, next: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    room.asking.judge_call(room.thread, judge_call())
    await settle()
    room.asking.stop(room.thread, e.StopHook(CALL_ID))
    await settle()
    assert left.is_set()
    assert room.told == []


async def test_a_call_of_an_agents_step_comes_with_its_run(room: Room) -> None:
    runs: list[Run] = []

    async def agent(run: Run) -> str:
        runs.append(run)
        return "hm"

    room.bridge.add_agent("default", agent)
    asked: list[Call] = []
    room.bridge.hook("before_call")(lambda value, next: asked.append(value) or next(value))
    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    room.told.clear()
    await room.answer(room.asking.judge_call, judge_call())
    assert asked[0].run is runs[0]
    with pytest.raises(UsageError, match="over"):
        await asked[0].run.call_tool("erase")


# ---- repair_arguments ------------------------------------------------------------------------


def repair(bad: Bad) -> e.RepairArguments:
    return e.RepairArguments(
        call_id=CALL_ID, run_id=RUN_ID, depth=0, name="erase", raw="[", bad=bad, spec=SPEC
    )


@pytest.mark.parametrize(
    ("bad", "errors"),
    [
        (Bad("no JSON"), [Problem("", "no JSON")]),
        (
            Bad("two", (Problem("/a", "x"), Problem("/b", "y"))),
            [Problem("/a", "x"), Problem("/b", "y")],
        ),
    ],
)
async def test_repair_arguments_is_told_each_error_with_its_place(
    room: Room, bad: Bad, errors: Any
) -> None:
    seen: list[BadArguments] = []

    @room.bridge.hook("repair_arguments")
    async def mend(value: BadArguments, next: Any) -> Any:
        seen.append(value)
        return {"a": (1, 2)}

    told = await room.answer(room.asking.repair, repair(bad))
    assert told == i.ArgumentsRepaired(CALL_ID, {"a": [1, 2]})
    assert (seen[0].name, seen[0].raw, seen[0].errors) == ("erase", "[", errors)


@pytest.mark.parametrize("said", [None, {"a": {1}}, {1: 2}, {"a": float("nan")}, "{}"])
async def test_arguments_that_are_not_repaired_stay_bad(room: Room, said: Any, caplog: Any) -> None:
    room.bridge.hook("repair_arguments")(lambda value, next: said)
    told = await room.answer(room.asking.repair, repair(Bad("no")))
    assert told == i.ArgumentsRepaired(CALL_ID, None)
    assert len(caplog.records) == (0 if said is None else 1)


# ---- after_call ------------------------------------------------------------------------------


def settled(**fields: Any) -> e.CallValue:
    return e.CallValue(**{"call_id": CALL_ID, "name": "erase", "outcome": "ok", **fields})


def failure(code: str, outcome: str = "error") -> e.CallValue:
    return settled(outcome=outcome, code=code, message="no")


TEXT_PARTS = ({"type": "text", "text": "a"},)

REVISIONS = [
    ("as it was", settled(value={"n": [1]}), {}, None),
    ("equal", settled(value={"n": 1}), {"value": {"n": 1.0}}, None),
    ("true is not 1", settled(value=1), {"value": True}, i.Answer(value=True)),
    ("a value", settled(value=1), {"value": (2,)}, i.Answer(value=[2])),
    ("null", settled(value=1), {"value": None}, i.Answer(value=None)),
    ("parts as they were", settled(content=TEXT_PARTS), {}, None),
    (
        "parts",
        settled(content=TEXT_PARTS),
        {"value": [{"type": "text", "text": "b"}]},
        i.Answer(content=({"type": "text", "text": "b"},)),
    ),
    ("no parts", settled(content=TEXT_PARTS), {"value": "b"}, i.Answer(value="b")),
    ("an error as it was", failure("timeout"), {}, None),
    (
        "other words",
        failure("timeout"),
        {"error": Failure("timeout", "late")},
        i.Answer(code="timeout", error_message="late"),  # type: ignore[arg-type]
    ),
    (
        "a page's own code",
        failure("denied"),  # its outcome is "error", not "denied"
        {"error": Failure("denied", "x")},
        i.Answer(error_code="denied", error_message="x"),
    ),
    (
        "a code of its own",
        settled(value=1),
        {"error": Failure("redacted", "")},
        i.Answer(error_code="redacted", error_message="the handler failed without a message"),
    ),
    ("a value instead", failure("timeout"), {"error": None, "value": 3}, i.Answer(value=3)),
]


@pytest.mark.parametrize(
    ("before", "change", "answer"), [r[1:] for r in REVISIONS], ids=[r[0] for r in REVISIONS]
)
async def test_after_call_may_revise_a_result(
    room: Room, before: e.CallValue, change: Any, answer: Any
) -> None:
    room.bridge.hook("after_call")(lambda value, next: next(replace(value, **change)))
    told = await room.answer(room.asking.revise, e.ReviseResult(RUN_ID, 0, before))
    assert told == i.ResultRevised(CALL_ID, answer)


async def test_after_call_may_change_the_value_in_place(room: Room) -> None:
    @room.bridge.hook("after_call")
    async def redact(value: Any, next: Any) -> Any:
        value.value["card"] = "***"
        return await next(value)

    before = settled(value={"card": "4711"})
    told = await room.answer(room.asking.revise, e.ReviseResult(RUN_ID, 0, before))
    assert told == i.ResultRevised(CALL_ID, i.Answer(value={"card": "***"}))
    assert before.value == {"card": "4711"}


@pytest.mark.parametrize("change", [{"value": {1}}, {"value": float("inf")}, {"error": "no"}])
async def test_a_revision_that_is_none_is_logged_and_passed_over(
    room: Room, change: Any, caplog: Any
) -> None:
    room.bridge.hook("after_call")(lambda value, next: next(replace(value, **change)))
    told = await room.answer(room.asking.revise, e.ReviseResult(RUN_ID, 0, settled(value=1)))
    assert told == i.ResultRevised(CALL_ID, None)
    assert len(caplog.records) == 1


# ---- after_step ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [False, True])
async def test_after_step_looks_and_whatever_it_does_the_core_is_told(
    room: Room, bad: bool
) -> None:
    seen: list[StepOutcome] = []

    @room.bridge.hook("after_step")
    async def look(value: StepOutcome, next: Any) -> Any:
        seen.append(value)
        if bad:
            raise ValueError
        return await next(value)

    calls = (settled(value=1), failure("timeout"))
    effect = e.ReviewStep(run_id=RUN_ID, depth=2, calls=calls, finish_reason="stop")
    assert await room.answer(room.asking.review_step, effect) == i.StepReviewed(RUN_ID, 2)
    assert (seen[0].depth, seen[0].finish_reason) == (2, "stop")
    assert [(call.value, call.ok) for call in seen[0].calls] == [(1, True), (None, False)]


# ---- before_step -----------------------------------------------------------------------------


async def test_before_step_shapes_what_the_run_shows(room: Room) -> None:
    shown: list[Any] = []

    async def agent(run: Run) -> str:
        shown.append((run.agent, run.instructions, [m.content for m in run.messages], run.tools))
        return ""

    room.bridge.add_agent("default", agent)
    room.bridge.add_agent("billing", agent)

    @room.bridge.hook("before_step")
    async def put(step: Any, next: Any) -> Any:
        step.instructions = "Be brief."
        step.messages = [{"id": "s", "role": "system", "content": "memory"}, *step.messages]
        step.tools = [tool for tool in step.tools if tool.name != "erase"]
        step.agent = "billing"
        return await next(step)

    keep = ToolSpec(replace(DEFINITION, name="keep"), Anything())
    room.driver.workers.start_step(room.thread, room.step(tools=(SPEC, keep)))
    await settle()
    [(name, instructions, texts, tools)] = shown
    assert (name, instructions, texts) == ("billing", "Be brief.", ["memory", "hi"])
    assert [tool.name for tool in tools] == ["keep"]
    assert room.told[0] == i.StepShaped(RUN_ID, 0, "billing", frozenset({"erase"}))


async def test_a_step_that_hooks_only_looked_at_is_nothing_to_tell(room: Room) -> None:
    room.bridge.add_agent("default", lambda run: None)
    room.bridge.hook("before_step")(lambda step, next: next(step))
    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    assert [type(told) for told in room.told] == [i.StepEnded]


@pytest.mark.parametrize(
    ("field", "said", "word"),
    [
        ("agent", "nobody", "no agent 'nobody'"),
        ("agent", None, "no agent"),
        ("instructions", None, "instructions"),
        ("messages", None, "messages"),
        ("messages", [{"role": "wizard"}], "messages"),
        ("tools", None, "tools"),
        ("tools", ["erase"], "tools"),
    ],
)
async def test_a_step_that_cannot_be_fails_with_words_and_the_agent_is_not_asked(
    room: Room, field: str, said: Any, word: str
) -> None:
    asked: list[Any] = []
    room.bridge.add_agent("default", asked.append)

    @room.bridge.hook("before_step")
    async def put(step: Any, next: Any) -> Any:
        setattr(step, field, said)
        return await next(step)

    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    [told] = room.told
    assert (type(told), told.code, asked) == (i.StepFailed, "agent_error", [])
    assert word in told.message


async def test_a_before_step_hook_that_raises_fails_the_step(room: Room) -> None:
    room.bridge.add_agent("default", lambda run: None)

    @room.bridge.hook("before_step")
    async def fails(step: Any, next: Any) -> Any:
        raise ValueError("secret")

    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    [told] = room.told
    assert (type(told), told.code) == (i.StepFailed, "agent_error")
    assert "secret" not in told.message


# ---- model_request ---------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [True, False])
async def test_an_adapter_sends_its_request_by_way_of_the_hooks(room: Room, sync: bool) -> None:
    got: list[Any] = []

    async def later(request: Any) -> Any:
        return [request["model"], request["user"]]

    def at_once(request: Any) -> Any:
        return [request["model"], request["user"]]

    async def agent(run: Run) -> str:
        got.append(await run.model_request({"model": "m"}, at_once if sync else later))
        return ""

    room.bridge.add_agent("default", agent)
    room.bridge.hook("model_request")(lambda request, next: next({**request, "user": "ann"}))
    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    assert got == [["m", "ann"]]


async def test_a_model_request_hook_that_raises_fails_the_step(room: Room) -> None:
    async def agent(run: Run) -> Any:
        return await run.model_request({}, lambda request: None)

    room.bridge.add_agent("default", agent)

    @room.bridge.hook("model_request")
    async def fails(request: Any, next: Any) -> Any:
        raise ValueError("secret")

    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    [told] = room.told
    assert (type(told), told.code) == (i.StepFailed, "agent_error")
    assert "a model_request hook failed" in told.message
    assert "secret" not in told.message


# ---- sub-runs --------------------------------------------------------------------------------


class Parent:
    """A step that delegates."""

    def __init__(self, room: Room, *given: Any) -> None:
        self.room, self.got, self.raised = room, [], []  # type: tuple[Room, list[Any], list[Any]]

        async def agent(run: Run) -> str:
            self.run = run
            try:
                self.got.append(await run.delegate(*given))
            except BaseException as error:
                self.raised.append(error)
                raise
            return ""

        room.bridge.add_agent("default", agent)

    async def begin(self) -> i.DelegateSaid:
        self.room.driver.workers.start_step(self.room.thread, self.room.step())
        await settle()
        [said] = self.room.told
        self.room.told.clear()
        assert isinstance(said, i.DelegateSaid)
        return said


async def test_delegate_says_what_it_wants_and_gets_the_result(room: Room) -> None:
    parent = Parent(room, "helper", "count")
    said = await parent.begin()
    assert (said.run_id, said.depth, said.agent, said.text) == (RUN_ID, 0, "helper", "count")
    assert said.sub_id not in ("", RUN_ID)
    value = e.RunValue(run_id=said.sub_id, reason="completed", depth=1, text="3", output={"n": 3})
    room.asking.subrun_over(
        room.thread, e.GiveResult(said.ticket, value, (text("count", id="m2"),))
    )
    await settle()
    [result] = parent.got
    assert (result.run_id, result.reason, result.text, result.output) == (
        said.sub_id,
        "completed",
        "3",
        {"n": 3},
    )
    assert result.messages == [UserMessage(id="m2", role="user", content="count")]


async def test_delegate_does_not_raise_for_a_sub_run_that_failed(room: Room) -> None:
    parent = Parent(room, "nobody", "count")
    said = await parent.begin()
    value = e.RunValue(
        run_id=said.sub_id, reason="failed", depth=1, code="unknown_agent", message="no agent"
    )
    room.asking.subrun_over(room.thread, e.GiveResult(said.ticket, value, ()))
    await settle()
    assert parent.got[0].reason == "failed"
    assert parent.got[0].error == Failure("unknown_agent", "no agent")


@pytest.mark.parametrize("given", [("helper", None), (None, "x"), ("helper", ["x"]), (1, "x")])
async def test_delegating_nonsense_is_misuse(room: Room, given: Any) -> None:
    parent = Parent(room, *given)
    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    assert isinstance(parent.raised[0], UsageError)
    assert [type(told) for told in room.told] == [i.StepFailed]


@pytest.mark.parametrize("move", ["call_tool", "delegate"])
async def test_nothing_is_asked_of_a_step_that_is_over(room: Room, move: str) -> None:
    kept: list[Run] = []
    room.bridge.add_agent("default", kept.append)
    room.driver.workers.start_step(room.thread, room.step())
    await settle()
    room.told.clear()
    with pytest.raises(UsageError, match="over"):
        await (kept[0].call_tool("t") if move == "call_tool" else kept[0].delegate("a", "b"))
    assert room.told == []


async def test_a_step_that_is_stopped_takes_its_sub_run_along(room: Room) -> None:
    """P5. It is said once, by the code that waited."""
    parent = Parent(room, "helper", "count")
    said = await parent.begin()
    room.driver.workers.stop_step(room.thread, e.StopStep(RUN_ID, 0))
    await settle()
    assert room.told == [i.AbortRequested(Asker(None, ""), said.sub_id)]
    assert isinstance(parent.raised[0], asyncio.CancelledError)
    assert len(room.driver.waiters) == 0


async def test_a_sub_run_knows_whose_it_is(room: Room) -> None:
    kept: list[Run] = []
    room.bridge.add_agent("default", kept.append)
    for effect in (room.step(), room.step(run_id=RunId("r2"), parent=RUN_ID)):
        room.driver.workers.start_step(room.thread, effect)
    await settle()
    assert [(run.id, run.parent) for run in kept] == [("r1", None), ("r2", "r1")]


# ---- suggestions -----------------------------------------------------------------------------


def suggest() -> e.Suggest:
    value = e.RunValue(run_id=RUN_ID, reason="completed", depth=0, text="hi")
    return e.Suggest(value, (text(id="m1"),))


@pytest.mark.parametrize("sync", [True, False])
async def test_suggest_is_asked_about_the_run(room: Room, sync: bool) -> None:
    seen: list[Any] = []

    def plain(result: Any) -> list[str]:
        seen.append((result.run_id, result.reason, result.text, len(result.messages)))
        return ["more?", "less?"]

    async def later(result: Any) -> list[str]:
        return plain(result)

    room.bridge.suggest(plain if sync else later)
    told = await room.answer(room.asking.suggest, suggest())
    assert told == i.SuggestionsMade(RUN_ID, ("more?", "less?"))
    assert seen == [("r1", "completed", "hi", 1)]


async def test_only_texts_are_taken_so_many_and_so_long(room: Room) -> None:
    """P12."""
    room.bridge.suggest(lambda result: [None, 7, "", "x" * 5_000, *(str(n) for n in range(99))])
    told = await room.answer(room.asking.suggest, suggest())
    assert len(told.items) == SUGGESTIONS_MAX == 20
    assert told.items[0] == "x" * SUGGESTION_CHARS
    assert SUGGESTION_CHARS == 1_000


@pytest.mark.parametrize(
    "said", [None, "more?", 7, {"more?": 1}, ValueError("secret"), SystemExit()]
)
async def test_a_suggest_function_that_fails_is_logged_and_nothing_is_said(
    room: Room, said: Any, caplog: Any
) -> None:
    @room.bridge.suggest
    async def questions(result: Any) -> Any:
        if isinstance(said, BaseException):
            raise said
        return said

    room.asking.suggest(room.thread, suggest())
    await settle()
    assert room.told == []
    assert len(caplog.records) == 1


async def test_suggestions_that_nobody_wants_any_more_are_called_off(room: Room) -> None:
    left = asyncio.Event()

    @room.bridge.suggest
    async def questions(result: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    room.asking.suggest(room.thread, suggest())
    await settle()
    room.asking.stop_suggesting(room.thread, e.StopSuggesting(RUN_ID))
    await settle()
    assert left.is_set()


# ---- after_run -------------------------------------------------------------------------------


async def test_who_waits_for_a_run_gets_what_after_run_answers(room: Room) -> None:
    room.bridge.hook("after_run")(lambda result, next: next(replace(result, text="revised")))
    waiting = room.driver.waiters.expect("run", "k")
    value = e.RunValue(run_id=RUN_ID, reason="completed", depth=0, text="said")
    room.asking.run_over(room.thread, e.RunOver(Asker(None, "k"), value))
    await settle()
    assert waiting.result().text == "revised"


async def test_after_run_is_asked_about_the_runs_of_pages_too(room: Room) -> None:
    seen: list[Any] = []
    room.bridge.hook("after_run")(lambda result, next: seen.append(result) or next(result))
    value = e.RunValue(run_id=RUN_ID, reason="failed", depth=0, code="denied", message="no")
    room.asking.run_over(room.thread, e.RunOver(Asker("s1", "k"), value))  # type: ignore[arg-type]
    await settle()
    assert (seen[0].reason, seen[0].error) == ("failed", Failure("denied", "no"))


async def test_a_bridge_that_closes_lets_after_run_finish(room: Room) -> None:
    """What somebody keeps of a run is not lost with the last one."""
    reached, kept = asyncio.Event(), []

    @room.bridge.hook("after_run")
    async def keep(result: Any, next: Any) -> Any:
        reached.set()
        await asyncio.sleep(0)
        kept.append(result.run_id)
        return await next(result)

    value = e.RunValue(run_id=RUN_ID, reason="completed", depth=0)
    room.asking.run_over(room.thread, e.RunOver(Asker(None, "k"), value))
    await room.bridge.close()
    assert reached.is_set()
    assert kept == ["r1"]
