"""Who waits, in this process, for what a thread will answer: `bridge.run`, `bridge.call_tool`.

Owns the futures, by ticket; each is resolved once or cancelled, and none is left behind.
"""

import asyncio
from typing import Any, Protocol

from handspan.core import inputs as i
from handspan.core.effects import GiveValue
from handspan.core.parties import Asker, ThreadKey
from handspan_protocol.errors import PeerError

from .values import RunResult, run_result

Json = Any
Answer = tuple[Json, PeerError | None]


class Line(Protocol):
    """The way to a thread: the driver."""

    def tell_thread(
        self, key: ThreadKey, message: i.ThreadInput, *, create: bool = False
    ) -> None: ...


class Waiters:
    """Futures of this process, by what they wait for and their ticket."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._awaited: dict[tuple[str, str], asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._awaited)

    def expect(self, what: str, ticket: str) -> "asyncio.Future[Any]":
        """A future for it; forgotten as soon as it is done."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._awaited[what, ticket] = future
        future.add_done_callback(lambda _: self._awaited.pop((what, ticket), None))
        return future

    def settle(self, what: str, ticket: str, value: Any) -> None:
        """It has come; nobody may be waiting."""
        waiting = self._awaited.get((what, ticket))
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    def give(self, effect: GiveValue) -> None:
        """A call has settled that code inside a step waits for."""
        self.settle("call", effect.ticket, effect.value)

    def cancel_all(self) -> None:
        for future in list(self._awaited.values()):
            future.cancel()

    async def run(self, key: ThreadKey, request: i.RunRequested) -> RunResult | PeerError:
        """Start a run and wait for its end; a PeerError when it was refused.

        A caller who is cancelled meanwhile takes the run with him.
        """
        ticket = request.asker.ticket
        answer, over = self.expect("answer", ticket), self.expect("run", ticket)
        try:
            self._line.tell_thread(key, request, create=True)
            _, error = await answer
            if error is not None:
                return PeerError(error.code, error.message)
            done = await over
            return done if isinstance(done, RunResult) else run_result(*done)
        except asyncio.CancelledError:
            self._line.tell_thread(key, i.AbortRequested(Asker(None, ""), request.run_id))
            raise
        finally:
            answer.cancel()
            over.cancel()

    async def invoke(self, key: ThreadKey, request: i.InvokeRequested) -> Answer:
        """Carry out one call and wait until it has settled."""
        answer = self.expect("answer", request.asker.ticket)
        try:
            self._line.tell_thread(key, request, create=True)
            settled: Answer = await answer
            return settled
        finally:
            answer.cancel()
