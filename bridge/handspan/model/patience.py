"""One request to a provider: how long it may take, and how often it is tried.

A request that fails before its first event is tried again, a little later, if trying can help: the
network, a time-out, too many requests, a fault of the provider. After the first event nothing is
tried again: what was said was said. The `model_request` hooks are asked once; what they answer in
the provider's stead is taken as it is. *Source:* issue 6.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import anyio
from ag_ui.core import BaseEvent

from handspan.ports import AgentFailed
from handspan_protocol.errors import UsageError

from .failures import ProviderFailed, Unreadable, can_be_tried_again, retry_after, told

Json = Any
Send = Callable[[Mapping[str, Json]], Awaitable[Any]]
"""Opens the provider's stream; raises what its library raises."""

CLOSE_S: Final = 2.0
"""What the close of a stream may take; its connection is dropped then by whoever owns it."""

BACK_OFF_S: Final = 0.5
"""Before the first retry; doubled for each further one, and shaken by half."""

RETRY_AFTER_MOST_S: Final = 30.0
"""A provider that asks for more than this is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that a request may take, and how often it is tried again."""

    first_event_s: float = 120.0
    """From the request to the first event, of one attempt; a model may think before it speaks."""
    between_events_s: float = 120.0
    total_s: float = 900.0
    """Of one request, attempts and pauses included."""
    retries: int = 2


class Provider:
    """A provider, as requests are sent to it: its name and the secrets no line may show."""

    def __init__(self, name: str, secrets: Iterable[str] = (), patience: Patience | None = None):
        """Raises: UsageError: `patience` is none."""
        if not isinstance(patience, Patience | None):
            raise UsageError(f"patience must be a Patience, not a {type(patience).__name__}")
        self.name = name
        self.patience = patience or Patience()
        self._secrets = tuple(secrets)

    async def items(
        self, run: Any, request: Mapping[str, Json], send: Send, reader: Any
    ) -> AsyncIterator[Any]:
        """What a reader (`feed` and `end`) makes of one request's events, as items of an agent.

        Raises:
            AgentFailed: as `events`; also where what came is no event of the provider's.
        """
        events: Any = self.events(run, request, send)
        came = False
        async with aclosing(events):
            async for event in events:
                came = True
                for item in self._read(reader.feed, event):
                    yield item
        if not came:
            raise self._failed(Unreadable("it answered with nothing"))
        for item in self._read(reader.end):
            yield item

    def _read(self, read: Callable[..., Iterable[Any]], *event: Mapping[str, Json]) -> list[Any]:
        try:
            items = list(read(*event))
            if all(isinstance(item, str | BaseEvent) for item in items):
                return items
            raise Unreadable("it sent a text that is none")
        except (ProviderFailed, Unreadable) as error:
            raise self._failed(error) from error
        except Exception as error:
            raise self._failed(Unreadable("it sent an event that cannot be read")) from error

    async def events(
        self, run: Any, request: Mapping[str, Json], send: Send
    ) -> AsyncIterator[Mapping[str, Json]]:
        """The events of one request, as JSON objects; its stream is closed when this is.

        Raises:
            AgentFailed: in one line, what went wrong; code provider_error.
        """
        end = asyncio.get_running_loop().time() + self.patience.total_s

        async def begin(asked: Any) -> Any:
            return await self._begin(asked, send, end)

        stream = await run.model_request(request, begin)
        try:
            async for event in self._in_time(stream, end):
                yield plain(event)
        except (AgentFailed, asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:
            raise self._failed(error, broke_off=True) from error
        finally:
            await close(stream)

    async def _begin(self, request: Mapping[str, Json], send: Send, end: float) -> "_Begun":
        tries = 0
        while True:
            try:
                return await self._attempt(request, send, end)
            except Exception as error:
                pause = _pause(tries, error)
                late = asyncio.get_running_loop().time() + pause > end
                if tries >= self.patience.retries or late or not can_be_tried_again(error):
                    raise self._failed(error) from error
            tries += 1
            await anyio.sleep(pause)

    async def _attempt(self, request: Mapping[str, Json], send: Send, end: float) -> "_Begun":
        """The stream with its first event, which proves that it works."""
        begun = _Begun()
        try:
            async with asyncio.timeout_at(self._until(self.patience.first_event_s, end)):
                await begun.begin(await send(request))
            if begun.is_empty and (kind := _other_kind(begun.stream)):
                raise Unreadable(f"it answered with {kind}, not with a stream of events")
            return begun
        except BaseException as error:
            await begun.aclose()
            if isinstance(error, TimeoutError):
                raise TimeoutError("it said nothing in time") from error
            raise

    async def _in_time(self, stream: Any, end: float) -> AsyncIterator[Any]:
        events = aiter(_iterable(stream))
        while True:
            try:
                async with asyncio.timeout_at(self._until(self.patience.between_events_s, end)):
                    event = await anext(events, _END)
            except TimeoutError as error:
                raise TimeoutError("it stopped in the middle of its answer") from error
            if event is _END:
                return
            yield event

    def _until(self, wait_s: float, end: float) -> float:
        return min(asyncio.get_running_loop().time() + wait_s, end)

    def _failed(self, error: BaseException, *, broke_off: bool = False) -> AgentFailed:
        return AgentFailed(told(self.name, error, self._secrets, broke_off=broke_off))


_END: Final = object()


class _Begun:
    """A stream whose first event has come."""

    def __init__(self) -> None:
        self.stream: Any = None
        """The provider's."""
        self._events: Any = None
        self._first: Any = _END

    async def begin(self, stream: Any) -> None:
        """Wait for the first event of a provider's stream."""
        self.stream, self._events = stream, aiter(_iterable(stream))
        self._first = await anext(self._events, _END)

    async def __aiter__(self) -> AsyncIterator[Any]:
        if self._first is not _END:
            yield self._first
            async for event in self._events:
                yield event

    async def aclose(self) -> None:
        """Close the stream itself; what goes through it may be at work just now."""
        await close(self.stream)

    @property
    def is_empty(self) -> bool:
        """Whether it ended before its first event: a page of HTML, say, or an error as JSON."""
        return self._first is _END


async def close(stream: Any) -> None:
    """Close a stream at once, whatever its library calls that; waits for it a bounded time."""
    shut = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    if shut is None:
        return
    with anyio.move_on_after(CLOSE_S, shield=True):
        closing = shut()
        if isinstance(closing, Awaitable):
            await closing


def plain(event: Any) -> Mapping[str, Json]:
    """An event as a JSON object: a mapping, or a model of the provider's library."""
    if isinstance(event, Mapping):
        return event
    if not hasattr(event, "to_dict"):
        raise Unreadable("it sent an event that is no JSON object")
    said: Mapping[str, Json] = event.to_dict(mode="python", warnings=False)
    return said


def _other_kind(stream: Any) -> str:
    """The content type of an answer, where that tells of no events; else ""."""
    headers = getattr(getattr(stream, "response", None), "headers", None) or {}
    kind = str(headers.get("content-type") or "").partition(";")[0].strip().lower()[:60]
    return "" if kind == "text/event-stream" else kind


def _iterable(stream: Any) -> Any:
    """A hook may answer with anything that can be gone through."""
    return stream if hasattr(stream, "__aiter__") else _each(stream)


async def _each(events: Iterable[Any]) -> AsyncIterator[Any]:
    for event in events:
        yield event


def _pause(tries: int, error: BaseException) -> float:
    asked = retry_after(error)
    if asked is not None:
        return asked if asked <= RETRY_AFTER_MOST_S else float("inf")
    return BACK_OFF_S * float(2**tries) * random.uniform(0.5, 1.5)  # noqa: S311 (no secret)
