"""One request: tried again before its first event, never after; how long it may take."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from handspan.model import patience as room
from handspan.model.patience import Patience, Provider
from handspan.ports import AgentFailed

Json = Any
EVENTS = [{"n": 1}, {"n": 2}]


class Refused(Exception):  # noqa: N818 (as they call it)
    """As providers' libraries raise it."""

    def __init__(self, status: int, *, code: str = "", after: str | None = None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.body = {"error": {"message": "too much", "code": code}}
        self.response = type("Response", (), {"headers": {"retry-after": after} if after else {}})


class Stream:
    """Events, then an error, silence, or the end; knows whether it was closed."""

    def __init__(self, events: list[Json], error: Exception | None = None, hangs: bool = False):
        self.events, self.error, self.hangs = list(events), error, hangs
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[Json]:
        for event in self.events:
            yield event
        if self.error is not None:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed += 1


class FakeRun:
    """`run.model_request` without hooks, or with one that answers itself."""

    def __init__(self, instead: Any = None) -> None:
        self.instead = instead
        self.asked = 0

    async def model_request(self, request: Mapping[str, Json], send: Any) -> Any:
        self.asked += 1
        return self.instead if self.instead is not None else await send(request)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without making them."""
    made: list[float] = []

    async def sleep(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(room.anyio, "sleep", sleep)
    return made


async def played(
    *answers: Any, patience: Patience | None = None, run: Any = None
) -> tuple[list[Json], int]:
    """The events of one request whose attempts are answered so, and how many were made."""
    left, made = list(answers), 0

    async def send(_: Mapping[str, Json]) -> Any:
        nonlocal made
        made += 1
        said = left.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    provider = Provider("Somebody", ["the-key"], patience)
    events = [event async for event in provider.events(run or FakeRun(), {}, send)]
    return events, made


async def test_a_stream_is_passed_on_and_closed() -> None:
    stream, run = Stream(EVENTS), FakeRun()
    assert await played(stream, run=run) == (EVENTS, 1)
    assert stream.closed
    assert run.asked == 1


PASSING = [Refused(429), Refused(503), Refused(529), TimeoutError(), OSError()]


@pytest.mark.parametrize("first", PASSING, ids=repr)
async def test_what_may_pass_is_tried_again(first: Exception, pauses: list[float]) -> None:
    assert await played(first, Stream([], first), Stream(EVENTS)) == (EVENTS, 3)
    assert len(pauses) == 2
    assert 0.25 <= pauses[0] <= 0.75 < pauses[1] + 0.3


async def test_what_was_asked_for_is_waited_and_too_long_is_not(pauses: list[float]) -> None:
    assert await played(Refused(429, after="7"), Stream(EVENTS)) == (EVENTS, 2)
    assert pauses == [7.0]
    with pytest.raises(AgentFailed):
        await played(Refused(429, after="3600"))


@pytest.mark.parametrize("error", [Refused(400), Refused(401), Refused(404), ValueError("x")])
async def test_what_cannot_pass_is_not_tried_again(error: Exception) -> None:
    with pytest.raises(AgentFailed):
        await played(error)


async def test_a_quota_that_is_used_up_is_not_tried_again() -> None:
    with pytest.raises(AgentFailed):
        await played(Refused(429, code="insufficient_quota"))


async def test_it_is_given_up_after_two_retries(pauses: list[float]) -> None:
    with pytest.raises(AgentFailed, match="Somebody: the request failed"):
        await played(Refused(500), Refused(500), Refused(500))
    assert len(pauses) == 2


async def test_p2_after_the_first_event_nothing_is_tried_again() -> None:
    stream, seen = Stream([{"n": 1}], Refused(503)), list[Json]()

    async def send(_: Mapping[str, Json]) -> Any:
        return stream

    async def read() -> None:
        async for event in Provider("Somebody").events(FakeRun(), {}, send):
            seen.append(event)

    with pytest.raises(AgentFailed):
        await read()
    assert seen == [{"n": 1}]
    assert stream.closed


async def test_silence_before_the_first_event_and_in_the_middle_has_an_end() -> None:
    short = Patience(first_event_s=0.01, between_events_s=0.01, retries=0)
    silent = Stream([], hangs=True)
    with pytest.raises(AgentFailed, match="said nothing in time"):
        await played(silent, patience=short)
    stuck = Stream(EVENTS, hangs=True)
    with pytest.raises(AgentFailed, match="stopped in the middle"):
        await played(stuck, patience=short)
    assert silent.closed
    assert stuck.closed


async def test_all_of_it_has_an_end() -> None:
    class Endless(Stream):
        async def __aiter__(self) -> AsyncIterator[Json]:
            while True:
                await asyncio.sleep(0)
                yield {}

    endless = Endless([])
    with pytest.raises(AgentFailed):
        await played(endless, patience=Patience(total_s=0.02))
    assert endless.closed


async def test_p5_a_cancelled_request_closes_its_stream_at_once() -> None:
    stream = Stream(EVENTS, hangs=True)
    task = asyncio.ensure_future(played(stream))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.closed


async def test_a_hook_that_answers_in_its_stead_may_give_a_list() -> None:
    assert await played(run=FakeRun(EVENTS)) == (EVENTS, 0)


async def test_a_stream_without_an_event_is_one(pauses: list[float]) -> None:
    assert await played(Stream([])) == ([], 1)
