"""What a library says on its way to the step's items: the order, and the end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handspan import CallResult, Failure
from handspan.model.history import Text
from handspan.model.voice import Turn, Voice
from handspan.ports import AgentFailed

Json = Any
Work = Callable[[Voice], Coroutine[Any, Any, None]]


class Run:
    """A run that notes what it is asked, and answers calls with their own arguments."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.finish_reason: str | None = None

    def reasoning(self, text: str) -> tuple[str, str]:
        return ("thought", text)

    async def call_tool(self, name: str, args: Json) -> CallResult:
        self.log.append(("called", name))
        if name == "broken":
            return CallResult(outcome="error", error=Failure("timeout", "too slow"), name=name)
        return CallResult(outcome="ok", value=args, name=name)


@asynccontextmanager
async def speaking(work: Work) -> AsyncIterator[Voice]:
    voice = Voice(Run())
    voice.begin(work(voice))
    try:
        async with asyncio.timeout(5):
            yield voice
    finally:
        await voice.stop()


async def taken(voice: Voice) -> list[Any]:
    """All that was said, as it is taken; the run's log has it too."""
    async for item in voice.items():
        voice.run.log.append(item)
    return list(voice.run.log)


async def told(work: Work) -> list[Any]:
    """What a work comes to: texts of a turn by its number, other items as they are."""
    async with speaking(work) as voice:
        items = await taken(voice)
        voice.conclude()
    turns: list[str] = []
    return [plain(item, turns) for item in items]


def plain(item: Any, turns: list[str]) -> Any:
    if not hasattr(item, "message_id"):
        return item
    if item.message_id not in turns:
        turns.append(item.message_id)
    kind = item.type.value.removeprefix("TEXT_MESSAGE_")
    return (turns.index(item.message_id), getattr(item, "delta", kind))


# ---- order -------------------------------------------------------------------------------------


async def test_all_that_was_said_is_taken_before_a_call_is_made() -> None:
    async def work(voice: Voice) -> None:
        for number in range(100):
            voice.say(number)
        answer = await voice.call("t", {"n": 1})
        voice.say(answer.parts)

    assert await told(work) == [*range(100), ("called", "t"), (Text('{"n":1}'),)]


async def test_a_call_that_fails_is_an_answer_too() -> None:
    async def work(voice: Voice) -> None:
        answer = await voice.call("broken", {})
        voice.say((answer.failed, answer.parts))

    parts = (Text('{"error":{"code":"timeout","message":"too slow"}}'),)
    assert await told(work) == [("called", "broken"), (True, parts)]


async def test_p5_nothing_is_carried_out_after_a_cut() -> None:
    async def work(voice: Voice) -> None:
        voice.cut = "length"
        answer = await voice.call("t", {})
        voice.say((answer.failed, "truncated_turn" in str(answer.parts)))

    assert await told(work) == [(True, True)]


async def test_what_a_thread_says_keeps_its_order() -> None:
    async def work(voice: Voice) -> None:
        def in_a_thread() -> None:
            assert not voice.is_home
            voice.say(1, 2)
            voice.say(3)

        assert voice.is_home
        voice.say(0)
        await asyncio.to_thread(in_a_thread)
        voice.say(4)

    assert await told(work) == [0, 1, 2, 3, 4]


async def test_a_turn_is_thoughts_and_one_message() -> None:
    async def work(voice: Voice) -> None:
        turn = Turn(voice, "front")
        turn.think("hm")
        turn.think("")
        turn.say("")
        turn.say("Hel")
        turn.say("lo")
        turn.end()
        voice.say((turn.text,))

    assert await told(work) == [
        ("thought", "hm"),
        (0, "START"),
        (0, "Hel"),
        (0, "lo"),
        (0, "END"),
        ("Hello",),
    ]


async def test_who_speaks_is_named_where_there_are_several() -> None:
    async def work(voice: Voice) -> None:
        Turn(voice, "front").say("x")

    async with speaking(work) as voice:
        assert (await taken(voice))[0].name == "front"


async def test_a_turn_without_text_is_no_message() -> None:
    async def work(voice: Voice) -> None:
        turn = Turn(voice)
        turn.think("hm")
        turn.end()

    assert await told(work) == [("thought", "hm")]


async def test_of_turns_at_once_each_waits_for_those_that_began_before() -> None:
    async def work(voice: Voice) -> None:
        first, second, third = Turn(voice), Turn(voice), Turn(voice)
        first.say("a")
        second.say("x")
        third.say("1")
        first.say("b")
        second.say("y")
        second.end()
        first.end()
        third.say("2")
        third.end()

    texts = [item for item in await told(work) if item[1] not in ("START", "END")]
    assert texts == [(0, "a"), (0, "b"), (1, "x"), (1, "y"), (2, "1"), (2, "2")]


# ---- the end -----------------------------------------------------------------------------------


async def ended(work: Work) -> Voice:
    """A voice all of whose items were taken."""
    async with speaking(work) as voice:
        await taken(voice)
    return voice


class RefusedError(Exception):
    status_code = 401


async def refused(voice: Voice) -> None:
    raise RefusedError("the key sk-123 is wrong")


async def fails(voice: Voice) -> None:
    raise ValueError("no such lamp")


async def test_a_provider_that_refuses_is_told_in_one_line_without_its_words() -> None:
    with pytest.raises(AgentFailed) as failure:
        (await ended(refused)).conclude()
    assert failure.value.message == "the model's provider answered 401 (RefusedError)"
    assert failure.value.code == "provider_error"


async def test_any_other_failure_is_raised_as_it_is() -> None:
    with pytest.raises(ValueError, match="no such lamp"):
        (await ended(fails)).conclude()


async def test_what_a_library_hides_is_raised_in_its_stead() -> None:
    async def hides(voice: Voice) -> None:
        voice.problem = KeyError("lamp")
        raise RuntimeError("something went wrong")

    with pytest.raises(KeyError, match="lamp"):
        (await ended(hides)).conclude()


async def test_a_work_that_is_cancelled_from_inside_fails_the_step() -> None:
    async def gives_up(voice: Voice) -> None:
        raise asyncio.CancelledError

    with pytest.raises(AgentFailed) as failure:
        (await ended(gives_up)).conclude()
    assert failure.value.code == "agent_error"


@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_a_cut_halts_the_work_and_is_the_runs_finish_reason(in_a_thread: bool) -> None:
    async def is_cut(voice: Voice) -> None:
        voice.cut = "content_filter"
        await asyncio.to_thread(voice.halt) if in_a_thread else voice.halt()
        await asyncio.Event().wait()

    voice = await ended(is_cut)
    voice.conclude()
    assert voice.run.finish_reason == "content_filter"


async def test_p5_a_stop_ends_the_work_and_what_is_beside_it() -> None:
    async def hangs(voice: Voice) -> None:
        await asyncio.Event().wait()

    voice = Voice(Run())
    voice.begin(hangs(voice))
    beside = asyncio.create_task(asyncio.Event().wait())
    beside.cancel()
    async with asyncio.timeout(5):
        await voice.stop([beside])
    assert beside.done()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await taken(voice) == []


async def test_a_work_that_ends_by_itself_is_waited_for() -> None:
    stopped = asyncio.Event()

    async def tidies(voice: Voice) -> None:
        await stopped.wait()
        voice.say("tidy")

    voice = Voice(Run())
    voice.begin(tidies(voice))
    stopped.set()
    async with asyncio.timeout(5):
        await voice.stop(at_once=False)
    assert await taken(voice) == ["tidy"]


async def test_p5_who_does_not_end_in_time_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.model.voice.CLEANUP_S", 0)

    async def hangs(voice: Voice) -> None:
        await asyncio.Event().wait()

    voice = Voice(Run())
    voice.begin(hangs(voice))
    async with asyncio.timeout(5):
        await voice.stop(at_once=False)
        assert await taken(voice) == []
    with pytest.raises(AgentFailed, match="cancelled"):
        voice.conclude()
