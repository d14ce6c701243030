"""What a library says while it runs a loop of its own, on its way to the step's items.

For adapters whose library has tasks and callbacks of its own: these say, the step takes.

    voice = Voice(run)
    voice.begin(work)                       # says: voice.say(item), Turn(voice).say("Hel")
    try:
        async for item in voice.items():
            yield item
        voice.conclude()
    finally:
        await voice.stop()

Owns the order: whatever was said before a call is taken before the call is made, and of two models
that speak at once the second one is held back until the first one's turn is over. Owns the end: how
the work ended is the step's end, and nothing of it is left at work.

Deliberately knows no library, nor what the work does. Above sit the adapters, below the Run.
"""

import asyncio
import threading
import uuid
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any, Final

from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

from handspan.ports import AgentFailed
from handspan_protocol.content import error_text
from handspan_protocol.errors import HandspanError, RunCode

from .failures import refusal
from .history import Answer, Text
from .results import answer_of

Json = Any

CLEANUP_S: Final = 5.0
"""How long what was cancelled may take to end; as `Policy.cleanup_grace`."""

_END: Final = object()


class Voice:
    """What is said in one step. Made on the bridge's own loop; `say` and `halt` also from a thread
    of the library's."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.loop = asyncio.get_running_loop()
        self.cut: str | None = None
        """Set when the model was cut off: why, as `run.finish_reason` has it. Nothing is carried
        out from then on."""
        self.problem: Exception | None = None
        """Set by an adapter whose library tells a failure only as text: what it was."""
        self._home = threading.get_ident()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._turns: deque[Turn] = deque()
        """Those that have said something and are not over; the first one has the word."""
        self._task: asyncio.Task[None] | None = None

    # ---- the work --------------------------------------------------------------------------------

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start what speaks; `items` end when it does."""
        self._task = asyncio.create_task(work, name="handspan-voice")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # seen: nobody may be there to ask for it
        self._said.put_nowait(_END)

    def halt(self) -> None:
        """Cancel the work, without waiting for its end."""
        if self.is_home:
            self._begun.cancel()
        else:
            self.loop.call_soon_threadsafe(self._begun.cancel)

    def conclude(self) -> None:
        """Have the step end as the work did, when `items` are over.

        Raises:
            AgentFailed: a provider refused or was not there, or the work was cancelled by itself.
            Exception: whatever else the work raised, or `problem` in its stead.
        """
        if self.cut is not None:
            self.run.finish_reason = self.cut
            return
        try:
            self._begun.result()
        except asyncio.CancelledError:
            raise AgentFailed("the agent was cancelled from inside", RunCode.AGENT_ERROR) from None
        except Exception as error:
            problem = self.problem or error
            refused = None if isinstance(problem, HandspanError) else refusal(problem)
            if refused is not None:
                raise AgentFailed(refused) from problem
            if problem is error:
                raise
            raise problem from error

    async def stop(
        self, beside: "Iterable[asyncio.Task[Any]]" = (), *, at_once: bool = True
    ) -> None:
        """End the work, and what is at work `beside` it. Not `at_once`: it ends by itself, and is
        cancelled when it has not done so within CLEANUP_S."""
        if at_once:
            self._begun.cancel()
        _, late = await asyncio.wait({self._begun, *beside}, timeout=CLEANUP_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=CLEANUP_S)

    @property
    def _begun(self) -> "asyncio.Task[None]":
        if self._task is None:
            raise AssertionError("invariant: begin() comes first")
        return self._task

    # ---- saying ----------------------------------------------------------------------------------

    @property
    def is_home(self) -> bool:
        """Whether this is the thread of the bridge's own loop."""
        return threading.get_ident() == self._home

    def say(self, *items: Any) -> None:
        """Say items of the agent, now."""
        for item in items:
            if self.is_home:
                self._said.put_nowait(item)
            else:
                self.loop.call_soon_threadsafe(self._said.put_nowait, item)

    def say_in_turn(self, turn: "Turn", item: Any) -> None:
        """Say an item of a turn; held back while one that began before it is under way."""
        if turn not in self._turns:
            self._turns.append(turn)
        if self._turns[0] is turn:
            self.say(item)
        else:
            turn.held.append(item)

    def end_turn(self, turn: "Turn") -> None:
        """The turn is over; who was held back speaks, as far as they have come."""
        turn.over = True
        while self._turns and self._turns[0].over:
            self._turns.popleft()
            if self._turns:
                self.say(*self._turns[0].held)

    # ---- taking ----------------------------------------------------------------------------------

    async def items(self) -> AsyncIterator[Any]:
        """All that is said, in order, until the work has ended."""
        while (item := await self._said.get()) is not _END:
            if not isinstance(item, asyncio.Future):
                yield item
            elif not item.done():
                item.set_result(None)

    async def heard(self) -> None:
        """Return when all that was said before has been taken."""
        told = self.loop.create_future()
        self._said.put_nowait(told)
        await told

    async def call(self, name: str, args: Mapping[str, Json] | str | None) -> Answer:
        """Have the run carry out a call, behind all that was said before it. A call that fails is
        an answer too; cancelling who waits aborts it.

        Raises:
            UsageError: `args` is nothing that JSON can hold, or the step is over.
        """
        await self.heard()
        if self.cut is not None:
            told = error_text("truncated_turn", "the model was cut off; nothing was carried out")
            return Answer("", name, (Text(told),), failed=True)
        return answer_of(await self.run.call_tool(name, args))


class Turn:
    """One turn of a model, while it is said: thoughts, and text, which is one message."""

    def __init__(self, voice: Voice, name: str | None = None) -> None:
        """`name`: who speaks, where there are several."""
        self.text = ""
        """All of it so far."""
        self.held: list[Any] = []
        """What it said while another had the word; the voice's."""
        self.over = False
        self._voice = voice
        self._name = name
        self._id = f"turn-{uuid.uuid4().hex}"

    def say(self, text: str) -> None:
        """A delta of its text."""
        if not text:
            return
        if not self.text:
            start = TextMessageStartEvent(message_id=self._id, role="assistant", name=self._name)
            self._voice.say_in_turn(self, start)
        self.text += text
        self._voice.say_in_turn(self, TextMessageContentEvent(message_id=self._id, delta=text))

    def think(self, text: str) -> None:
        """A delta of its thoughts."""
        if text:
            self._voice.say_in_turn(self, self._voice.run.reasoning(text))

    def end(self) -> None:
        """All of it is said."""
        if self.text:
            self._voice.say_in_turn(self, TextMessageEndEvent(message_id=self._id))
        self._voice.end_turn(self)
