"""The waterfall of hooks by itself, under a clock that is moved by hand. api.md, "Hooks"; P14."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from handspan import (
    Allow,
    Ask,
    BadArguments,
    Bridge,
    Call,
    CallResult,
    Deny,
    Principal,
    RunRequest,
    RunResult,
    Step,
    StepOutcome,
    UsageError,
)
from handspan.shell.crew import Crew
from handspan.shell.hooks import NAMES, HookFailed, Hooks, Waterfall, as_it_is
from handspan.testing import ManualClock, settle
from handspan_protocol.tools import Tool

TOOL = Tool(name="t", description="")
RUN: Any = SimpleNamespace(id="r1")
TIMEOUT_S = 30.0

VALUES: dict[str, Callable[[], Any]] = {
    "before_run": lambda: RunRequest("t1", "default", "hi", [], Principal("ann")),
    "before_step": lambda: Step(RUN, "default", "", [], [TOOL]),
    "model_request": lambda: {"model": "m"},
    "before_call": lambda: Call("c1", "t", {}, TOOL, RUN),
    "repair_arguments": lambda: BadArguments("t", "[]", [], TOOL, RUN),
    "after_call": lambda: CallResult(outcome="ok", value={"n": 1}),
    "after_step": lambda: StepOutcome(RUN, 0, [], "stop"),
    "after_run": lambda: RunResult(run_id="r1", reason="completed", output={"n": 1}),
}
DEFAULTS: dict[str, Any] = {"before_call": Allow(), "repair_arguments": None}
"""What stands behind the hooks, where it is not the value itself."""

MUST_ANSWER = ["before_run", "before_step", "model_request", "before_call"]
PASSED_OVER = ["repair_arguments", "after_call", "after_step", "after_run"]
IN_TIME = [name for name in NAMES if name != "model_request"]


class Desk:
    """Hooks and who asks them."""

    def __init__(self) -> None:
        self.hooks = Hooks()
        self.clock = ManualClock()
        self.crew = Crew(self.clock, 5.0)
        self.waterfall = Waterfall(self.hooks, self.crew, self.clock, TIMEOUT_S)

    def add(self, name: str, *hooks: Any) -> None:
        for hook in hooks:
            self.hooks.add(name, hook)

    async def ask(self, name: str, value: Any = None, default: Any = None) -> Any:
        async def behind(given: Any) -> Any:
            return DEFAULTS.get(name, given)

        value = VALUES[name]() if value is None else value
        return await self.waterfall.ask(name, value, default or behind)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    await settle()
    assert len(desk.crew) == 0
    assert desk.clock.waiting == []


# ---- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
async def test_hooks_are_asked_in_the_order_of_their_registration(desk: Desk, name: str) -> None:
    said: list[str] = []

    def hook(mark: str) -> Any:
        async def asked(value: Any, next: Any) -> Any:
            said.append(f"{mark} in")
            answer = await next(value)
            said.append(f"{mark} out")
            return answer

        return asked

    desk.add(name, hook("a"), hook("b"))
    value = VALUES[name]()
    assert await desk.ask(name, value) == DEFAULTS.get(name, value)
    assert said == ["a in", "b in", "b out", "a out"]


async def test_what_a_hook_passes_on_is_what_the_next_one_gets(desk: Desk) -> None:
    async def first(value: Any, next: Any) -> Any:
        value.agent = "billing"
        return await next(value)

    async def second(value: Any, next: Any) -> Any:
        return await next(RunRequest("t1", value.agent + "!", None, [], value.principal))

    desk.add("before_run", first, second)
    assert (await desk.ask("before_run")).agent == "billing!"


async def test_returning_without_next_replaces_the_default_and_those_behind(desk: Desk) -> None:
    async def first(value: Any, next: Any) -> Any:
        return Deny("no")

    async def never(value: Any, next: Any) -> NoReturn:
        raise AssertionError("asked")

    desk.add("before_call", first, never)
    assert await desk.ask("before_call", default=never) == Deny("no")


async def test_a_hook_may_ask_the_others_twice(desk: Desk) -> None:
    sent: list[Any] = []

    async def again(request: Any, next: Any) -> Any:
        try:
            return await next(request)
        except ConnectionError:
            return await next({**request, "model": "smaller"})

    async def send(request: Any) -> Any:
        sent.append(request["model"])
        if len(sent) == 1:
            raise ConnectionError
        return ["stream"]

    desk.add("model_request", again)
    assert await desk.ask("model_request", default=send) == ["stream"]
    assert sent == ["m", "smaller"]


@pytest.mark.parametrize(
    "hook",
    [lambda value, next: Deny("no"), lambda value, next: next(value)],
    ids=["a value", "an awaitable"],
)
async def test_a_hook_may_be_a_plain_function(desk: Desk, hook: Any) -> None:
    desk.add("before_call", hook)
    assert await desk.ask("before_call") in (Deny("no"), Allow())


async def test_a_stream_may_be_wrapped_by_a_generator(desk: Desk) -> None:
    async def stream(_: Any) -> Any:
        async def chunks() -> AsyncIterator[str]:
            yield "a"
            yield "b"

        return chunks()

    async def louder(request: Any, next: Any) -> AsyncIterator[str]:
        async for chunk in await next(request):
            yield chunk.upper()

    desk.add("model_request", louder)
    told = await desk.ask("model_request", default=stream)
    assert [chunk async for chunk in told] == ["A", "B"]


# ---- registering -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "before", "suggest", "observe", "__class__", None, 7])
def test_a_name_that_is_no_hook_is_refused_and_told_which_there_are(name: Any) -> None:
    with pytest.raises(UsageError, match="before_call") as refused:
        Bridge().hook(name)
    assert str(refused.value).count(", ") == len(NAMES) - 1


def test_a_hook_without_a_name_is_refused() -> None:
    async def hook(value: Any, next: Any) -> Any: ...

    with pytest.raises(UsageError, match="there is no hook"):
        Bridge().hook(hook)  # type: ignore[arg-type]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(UsageError):
        Bridge().hook("before_call")("deny")  # type: ignore[type-var]


def test_the_names_are_those_that_somebody_registered_for_and_live() -> None:
    hooks = Hooks()
    names = hooks.names
    assert list(names) == []
    hooks.add("after_call", as_it_is)  # type: ignore[arg-type]
    hooks.add_suggest(lambda result: [])
    assert sorted(names) == ["after_call", "suggest"]


def test_a_second_suggest_function_is_refused() -> None:
    bridge = Bridge()

    @bridge.suggest
    def first(result: Any) -> list[str]:
        return []

    assert first(None) == []
    with pytest.raises(UsageError, match="already"):
        bridge.suggest(first)


# ---- bad hooks -------------------------------------------------------------------------------


class BoomError(Exception):
    pass


async def raises(value: Any, next: Any) -> NoReturn:
    raise BoomError("secret: 4711")


async def raises_later(value: Any, next: Any) -> NoReturn:
    await next(value)
    raise BoomError("secret: 4711")


@pytest.mark.parametrize("hook", [raises, raises_later])
@pytest.mark.parametrize("name", MUST_ANSWER)
async def test_where_an_answer_is_needed_a_hook_that_raises_fails_the_question(
    desk: Desk, name: str, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """P14: the line may be shown and leaks nothing; the log has the same mark and the rest."""
    desk.add(name, hook)
    with pytest.raises(HookFailed) as failed:
        await desk.ask(name)
    assert "4711" not in failed.value.message
    assert failed.value.code == "agent_error"
    [record] = caplog.records
    mark = failed.value.message.partition("(")[2].partition(" ")[0]
    assert len(mark) == 8
    assert mark in record.getMessage()
    assert record.exc_info is not None
    assert "4711" not in record.getMessage()


@pytest.mark.parametrize("name", PASSED_OVER)
async def test_elsewhere_it_is_passed_over_and_the_others_are_asked(
    desk: Desk, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P14: one bad hook harms no other; an after_call that redacts does not depend on a logger."""
    said: list[str] = []

    async def good(value: Any, next: Any) -> Any:
        said.append("good")
        return await next(value)

    desk.add(name, raises, good, raises)
    value = VALUES[name]()
    assert await desk.ask(name, value) == DEFAULTS.get(name, value)
    assert said == ["good"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


async def test_what_a_passed_over_hook_did_to_the_value_is_undone(desk: Desk) -> None:
    async def spoils(value: Any, next: Any) -> NoReturn:
        value.value["n"] = 2
        raise BoomError

    seen: list[Any] = []

    async def looks(value: Any, next: Any) -> Any:
        seen.append(value.value)
        return await next(value)

    desk.add("after_call", spoils, looks)
    assert (await desk.ask("after_call")).value == {"n": 1}
    assert seen == [{"n": 1}]


async def test_what_the_others_answered_stands_when_a_hook_raises_behind_them(desk: Desk) -> None:
    asked: list[Any] = []

    async def redacts(value: Any, next: Any) -> Any:
        asked.append(value)
        return CallResult(outcome="ok", value="***")

    desk.add("after_call", raises_later, redacts)
    assert (await desk.ask("after_call")).value == "***"
    assert len(asked) == 1


WRONG: dict[str, list[Any]] = {
    "before_run": [None, True, Allow(), "deny", {}],
    "before_step": [None, RUN, [], RunRequest("t1", "a", None, [], Principal("ann"))],
    "model_request": [None],
    "before_call": [None, True, False, Allow, "allow", {}],
    "repair_arguments": [[], "{}", False, 0],
    "after_call": [None, 1, {"value": 1}],
    "after_step": [None, []],
    "after_run": [None, "text"],
}


@pytest.mark.parametrize(
    ("name", "wrong"), [(name, wrong) for name, each in WRONG.items() for wrong in each]
)
async def test_an_answer_of_a_wrong_type_counts_as_raising(
    desk: Desk, name: str, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def hook(value: Any, next: Any) -> Any:
        return wrong

    desk.add(name, hook)
    value = VALUES[name]()
    if name in MUST_ANSWER:
        with pytest.raises(HookFailed):
            await desk.ask(name, value)
    else:
        assert await desk.ask(name, value) == DEFAULTS.get(name, value)
    [record] = caplog.records
    assert f"hook {name}: {name} answered" in record.getMessage()


@pytest.mark.parametrize("name", NAMES)
async def test_passing_on_a_wrong_type_raises_where_it_is_done(desk: Desk, name: str) -> None:
    raised: list[str] = []

    async def hook(value: Any, next: Any) -> Any:
        try:
            return await next(7)
        except UsageError as mistake:
            raised.append(str(mistake))
        return await next(value)

    desk.add(name, hook)
    value = VALUES[name]()
    assert await desk.ask(name, value) == DEFAULTS.get(name, value)
    assert raised
    assert "passed on int" in raised[0]


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), GeneratorExit(), StopIteration(1), StopAsyncIteration(), BaseException()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("name", ["before_call", "model_request", "after_call"])
async def test_a_hook_may_leave_by_any_door(
    desk: Desk, name: str, sync: bool, error: BaseException
) -> None:
    def leaves(value: Any, next: Any) -> NoReturn:
        raise error

    async def leaves_too(value: Any, next: Any) -> NoReturn:
        raise error

    desk.add(name, leaves if sync else leaves_too)
    if name in MUST_ANSWER:
        with pytest.raises(HookFailed):
            await desk.ask(name)
    else:
        assert (await desk.ask(name)).value == {"n": 1}


async def test_a_cancellation_that_nobody_asked_for_is_a_failure(desk: Desk) -> None:
    async def cancelled(value: Any, next: Any) -> NoReturn:
        raise asyncio.CancelledError

    desk.add("before_call", cancelled)
    with pytest.raises(HookFailed):
        await desk.ask("before_call")


async def test_what_send_raises_comes_out_as_it_is(desk: Desk, caplog: Any) -> None:
    """It is the provider's failure, no hook's."""

    async def passes(request: Any, next: Any) -> Any:
        return await next(request)

    async def send(request: Any) -> NoReturn:
        raise BoomError("busy")

    desk.add("model_request", passes, passes)
    with pytest.raises(BoomError, match="busy"):
        await desk.ask("model_request", default=send)
    assert caplog.records == []


# ---- time ------------------------------------------------------------------------------------


async def waits(value: Any, next: Any) -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("woken")


async def hangs(value: Any, next: Any) -> Any:
    """Does not let itself be cancelled, once."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


@pytest.mark.parametrize("hook", [waits, hangs])
@pytest.mark.parametrize("name", IN_TIME)
async def test_all_hooks_of_a_question_together_have_the_timeout(
    desk: Desk, name: str, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """P12. Also a hook that does not end when it is cancelled holds up nobody."""

    async def slow(value: Any, next: Any) -> Any:
        await desk.clock.sleep(TIMEOUT_S - 1)
        return await next(value)

    desk.add(name, slow, hook)
    value = VALUES[name]()
    asked = asyncio.ensure_future(desk.ask(name, value))
    await desk.clock.advance(TIMEOUT_S - 0.5)
    assert not asked.done()
    await desk.clock.advance(0.5)
    assert asked.done()
    if name in MUST_ANSWER:
        assert isinstance(asked.exception(), HookFailed)
    else:
        assert asked.result() == DEFAULTS.get(name, value)
    assert "no answer within" in caplog.records[0].getMessage()
    await desk.clock.advance(5.0)  # the crew's grace: what hangs is cancelled again


async def test_the_value_of_a_question_that_ran_out_of_time_is_as_it_was(desk: Desk) -> None:
    async def spoils(value: Any, next: Any) -> Any:
        value.value["n"] = 2
        await asyncio.Event().wait()

    desk.add("after_call", spoils)
    asked = asyncio.ensure_future(desk.ask("after_call"))
    await desk.clock.advance(TIMEOUT_S)
    assert asked.result().value == {"n": 1}


async def test_a_request_to_a_model_may_take_its_time(desk: Desk) -> None:
    async def slow(request: Any, next: Any) -> Any:
        await desk.clock.sleep(1_000)
        return await next(request)

    desk.add("model_request", slow)
    asked = asyncio.ensure_future(desk.ask("model_request"))
    await desk.clock.advance(999)
    assert not asked.done()
    await desk.clock.advance(1)
    assert asked.result() == {"model": "m"}


@pytest.mark.parametrize("name", NAMES)
async def test_who_asks_may_be_cancelled_and_the_hook_with_him(desk: Desk, name: str) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def hook(value: Any, next: Any) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    desk.add(name, hook)
    asked = asyncio.ensure_future(desk.ask(name))
    await reached.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await settle()
    assert left.is_set()


@pytest.mark.parametrize("name", NAMES)
async def test_what_a_hook_raises_when_it_is_called_off_is_nobodys_failure(
    desk: Desk, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C065: what is said at the door. Those behind it are not asked either."""
    reached = asyncio.Event()

    async def slams(value: Any, next: Any) -> NoReturn:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise BoomError

    async def never(value: Any, next: Any) -> NoReturn:
        raise AssertionError("asked")

    desk.add(name, slams, never)
    asked = asyncio.ensure_future(desk.ask(name))
    await reached.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await settle()
    assert caplog.records == []


async def test_without_hooks_the_default_answers_and_no_task_is_made(desk: Desk) -> None:
    before = asyncio.all_tasks()

    async def default(value: Any) -> Any:
        assert asyncio.all_tasks() == before
        return Ask("why not")

    assert await desk.ask("before_call", default=default) == Ask("why not")


async def test_a_hundred_hooks_are_asked_like_one(desk: Desk) -> None:
    async def passes(value: Any, next: Any) -> Any:
        return await next(value)

    desk.add("after_call", *[passes] * 100)
    assert (await desk.ask("after_call")).value == {"n": 1}
