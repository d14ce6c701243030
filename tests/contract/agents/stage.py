"""A model that says what a test wrote, whatever adapter stands before it.

A test gives a `Script`: one `Turn` for each time that the model is asked. An adapter's test double
(its `Subject`) plays the turns in its own way, over HTTP in a provider's wire format or as the test
model of a library, and notes what the model was shown in `script.asked`, in the words of this
module. So one set of scenarios is run over every adapter.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Ask", "Asked", "Result", "Said", "Script", "Subject", "Turn", "UserText"]

Json = Any


@dataclass(frozen=True)
class Ask:
    """A tool call of the model; `args` as a str is its own text. Without an id: a fresh one."""

    name: str
    args: Mapping[str, Json] | str = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True)
class Turn:
    """What the model says when it is asked once: thoughts, then text, then calls."""

    text: str = ""
    calls: tuple[Ask, ...] = ()
    thought: str = ""
    cut: bool = False
    """Its length was used up: the provider's word for that, in place of a whole end."""
    hangs: bool = False
    """It says all this but its end, and then nothing until it is stopped."""
    tokens: tuple[int, int] = (7, 5)
    """Input and output."""


@dataclass(frozen=True)
class UserText:
    """A message of the user, as the model was shown it."""

    text: str


@dataclass(frozen=True)
class Said:
    """What the model had said itself; the names of its calls, in order."""

    text: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of a call: of which tool, and the text that stands for it."""

    name: str
    text: str


@dataclass(frozen=True)
class Asked:
    """What the model was shown, once."""

    tools: tuple[str, ...]
    """Names, as the page registered them."""
    history: tuple[UserText | Said | Result, ...]
    """Without instructions; messages of the model that follow each other are one."""


class Script:
    """The turns of one test, and what the model was asked."""

    def __init__(self, *turns: Turn) -> None:
        self.asked: list[Asked] = []
        self.stopped = asyncio.Event()
        """A turn that hung was given up by whoever read it."""
        self._turns = deque(turns)

    def play(self, asked: Asked) -> Turn:
        """The turn that answers this."""
        self.asked.append(asked)
        return self._turns.popleft() if self._turns else Turn(text="(the script is over)")

    async def hang(self) -> None:
        """Say nothing more; wake when cancelled, and note it."""
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


class Subject(Protocol):
    """One adapter under test."""

    name: str
    loops: bool
    """It has a loop of its own: calls are carried out inside one step."""
    thinks: bool
    """Its model's thoughts can be seen."""
    counts: bool
    """It tells how many tokens were used."""

    def open(self, script: Script) -> AbstractAsyncContextManager[Any]:
        """The agent, its model playing the script, as long as the context lasts."""


def joined(history: Iterable[UserText | Said | Result]) -> tuple[UserText | Said | Result, ...]:
    """The same history, messages of the model that follow each other made one."""
    told: list[UserText | Said | Result] = []
    for each in history:
        before = told[-1] if told else None
        if isinstance(each, Said) and isinstance(before, Said):
            told[-1] = Said(before.text + each.text, before.calls + each.calls)
        else:
            told.append(each)
    return tuple(told)
