"""What the users of the library hold in their hands: items, results, requests. Plain frozen data.

Deliberately without behaviour; `run` makes the items, `driver` the results.
"""

from dataclasses import dataclass, field
from typing import Any

from handspan.core.effects import CallValue, RunValue
from handspan_protocol.errors import HandspanError

Json = Any


class ToolError(HandspanError):
    """Raised by a server tool to tell the model, in its own words, what went wrong."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Handoff:
    """An item: the run goes on at the next depth with another agent."""

    agent: str


@dataclass(frozen=True, slots=True)
class CallItem:
    """An item: a tool call, carried out when the step ends. Made by `run.call`."""

    name: str
    raw: str
    """The arguments' text."""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """An item: a delta of thoughts. Made by `run.reasoning`."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A code and words; of a call (protocol 8) or of a run."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """A settled call: `outcome` is "ok", "error", "denied", "aborted" or "unknown".

    `value` is any JSON, or the list of AG-UI parts a handler gave; None when it failed.
    """

    outcome: str
    value: Json = None
    error: Failure | None = None
    name: str = ""
    call_id: str = ""
    run_id: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that is over. `reason` is one of protocol 1, or "failed" with `error`."""

    run_id: str
    reason: str
    depth: int = 0
    text: str = ""
    """All that the agent said, joined."""
    messages: list[Any] = field(default_factory=list)
    """The thread's history after the run, as ag_ui.core messages."""
    output: Json = None
    error: Failure | None = None


def call_result(value: CallValue, run_id: str = "") -> CallResult:
    """The user's view of a settled call."""
    failed = value.code is not None
    return CallResult(
        outcome=value.outcome,
        value=list(value.content) if value.content is not None else value.value,
        error=Failure(str(value.code), value.message or "") if failed else None,
        name=value.name,
        call_id=value.call_id,
        run_id=run_id,
    )


def run_result(value: RunValue, messages: list[Any]) -> RunResult:
    """The user's view of a run that is over."""
    failed = value.code is not None
    return RunResult(
        run_id=value.run_id,
        reason=value.reason,
        depth=value.depth,
        text=value.text,
        messages=messages,
        output=value.output,
        error=Failure(str(value.code), value.message or "") if failed else None,
    )
