"""What hooks are asked, and what they may answer: plain data, made fresh for each question.

A hook may change what it was handed: nothing of it is shared with the history or the registry
(P11). What of it counts is said with each class. Deliberately without behaviour; `answers` reads
what comes back, `hooks` asks.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from handspan.core.arguments import Problem
from handspan.core.parties import Principal
from handspan_protocol.content import copy_json
from handspan_protocol.frames import ContextItem
from handspan_protocol.tools import Tool

from .values import CallResult, RunResult

if TYPE_CHECKING:
    from ag_ui.core import Message, UserMessage

    from .run import Run

Json = Any


@dataclass(slots=True)
class RunRequest:
    """A run that is about to begin. `agent`, `message` and `context` count when they come back.

    Of a `tool.invoke` only the context could count, and it has none.
    """

    thread_id: str
    agent: str
    message: "str | UserMessage | None"
    """A str when it is plain text; None: the agent goes on from the history (or from a call)."""
    context: list[ContextItem]
    """What the request brings along; what the page says of itself comes beside it."""
    principal: Principal


@dataclass(slots=True)
class Step:
    """A step that is about to begin; every field but `run` counts, for this step only."""

    run: "Run"
    agent: str
    """Another name: that agent speaks in this step."""
    instructions: str
    messages: "list[Message]"
    tools: list[Tool]
    """A tool that is taken away cannot be called in this step either."""


@dataclass(slots=True)
class Call:
    """A call that is about to be carried out, its arguments checked. Nothing of it is read back."""

    id: str
    name: str
    args: dict[str, Json]
    tool: Tool
    run: "Run"


@dataclass(slots=True)
class BadArguments:
    """A call whose arguments are none: `raw` is what the model wrote. Nothing is read back."""

    name: str
    raw: str
    errors: list[Problem]
    """Each with `pointer` (RFC 6901; "" is the whole) and `message`."""
    tool: Tool
    run: "Run"


@dataclass(slots=True)
class StepOutcome:
    """A step that is over with all its calls; the run goes on, or ends, behind the hook."""

    run: "Run"
    depth: int
    calls: list[CallResult]
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be carried out, whatever its tool wishes."""


@dataclass(frozen=True, slots=True)
class Deny:
    """No: the call, or the run, is over before it began. The reason is shown."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A human decides about the call; the reason is shown to him."""

    reason: str | None = None


def fresh(value: Any) -> Any:
    """A copy of what a hook is handed, so that what a failing one did to it is undone."""
    match value:
        case CallResult():
            return replace(value, value=copy_json(value.value))
        case StepOutcome():
            return replace(value, calls=[fresh(call) for call in value.calls])
        case RunResult():
            return replace(value, messages=list(value.messages), output=copy_json(value.output))
        case BadArguments():
            return replace(value, errors=list(value.errors))
    return value
