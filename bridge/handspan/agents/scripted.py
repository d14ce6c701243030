"""An agent that says what it was told to say: for tests, demos and benchmarks.

Deterministic: the n-th step of a run gets the n-th entry of the script, whatever happened before.
It splits its text and arguments into deltas on demand, so that a test can choose the chunking.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import anyio
from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent

from handspan_protocol.errors import UsageError

Item = Any
Step = Sequence[Item] | str | Callable[[Any], Any]


def call(name: str, args: Any = None, *, id: str | None = None) -> "ScriptedCall":  # noqa: A002
    """A call for a script; `args` as a str is the model's own text."""
    return ScriptedCall(name, args, id)


class ScriptedCall:
    """A tool call in a script, made with the Run when its step comes."""

    def __init__(self, name: str, args: Any = None, call_id: str | None = None) -> None:
        self.name = name
        self.args = args
        self.id = call_id


class Waitable(Protocol):
    """An event."""

    async def wait(self) -> Any: ...


class Pause:
    """Wait in a script: for seconds, or until an event (anyio's or asyncio's) is set."""

    def __init__(self, until: float | Waitable = 0.0) -> None:
        self.until = until


class ScriptedAgent:
    """Plays a script: one entry a depth.

    An entry is a list of items (str, `call(...)`, `Pause(...)`, any item an agent may yield, or a
    function of the Run that returns one), a str alone, or a function of the Run that returns a
    list. `repeat=True` begins again from the start of the script at its end; else a step beyond
    the script says nothing and the run completes. `chunk`: the size of deltas in characters, of
    text and of arguments.

    Raises:
        UsageError: `chunk` is not above 0.
    """

    def __init__(
        self, script: Sequence[Step], *, chunk: int | None = None, repeat: bool = False
    ) -> None:
        if chunk is not None and chunk < 1:
            raise UsageError("chunk must be above 0")
        self.script = list(script)
        self.chunk = chunk
        self.repeat = repeat
        self.seen: list[Any] = []
        """The Run of every step that was played, oldest first."""

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        self.seen.append(run)
        for item in self._entry(run):
            if isinstance(item, Pause):
                await _pause(item)
                continue
            for said in self._said(run, item):
                yield said

    def _entry(self, run: Any) -> Sequence[Item]:
        depth = run.depth % len(self.script) if self.repeat and self.script else run.depth
        entry = self.script[depth] if depth < len(self.script) else ()
        if callable(entry):
            entry = entry(run)
        return [entry] if isinstance(entry, str) else list(entry)

    def _said(self, run: Any, item: Item) -> list[Any]:
        if inspect.isfunction(item) or inspect.ismethod(item):
            item = item(run)
        if isinstance(item, ScriptedCall):
            return self._called(run, item)
        if isinstance(item, str) and self.chunk:
            return _split(item, self.chunk)
        return [item]

    def _called(self, run: Any, scripted: ScriptedCall) -> list[Any]:
        whole = run.call(scripted.name, scripted.args, id=scripted.id)
        if not self.chunk:
            return [whole]
        call_id = scripted.id or f"{run.id}-{run.depth}-{id(scripted)}"
        return [
            ToolCallStartEvent(tool_call_id=call_id, tool_call_name=scripted.name),
            *(
                ToolCallArgsEvent(tool_call_id=call_id, delta=delta)
                for delta in _split(whole.raw, self.chunk)
            ),
            ToolCallEndEvent(tool_call_id=call_id),
        ]


async def _pause(pause: Pause) -> None:
    if isinstance(pause.until, int | float):
        await anyio.sleep(pause.until)
    else:
        await pause.until.wait()


def _split(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
