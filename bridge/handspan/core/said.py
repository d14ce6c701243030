"""What an agent says in its step, and how that ends: past facts a thread is told, as frozen data.

A part of `inputs`, where the others stand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handspan_protocol.ids import RunId

Json = Any


@dataclass(frozen=True, slots=True)
class TextSaid:
    """The hot path: text deltas of the running step, as many as it said in one go."""

    run_id: RunId
    depth: int
    deltas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReasoningSaid:
    run_id: RunId
    depth: int
    text: str


@dataclass(frozen=True, slots=True)
class EventSaid:
    """An AG-UI event of the agent, as JSON."""

    run_id: RunId
    depth: int
    event: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSaid:
    """A whole tool call; `ticket`: who waits for its value inside the step, the agent or a tool."""

    run_id: RunId
    depth: int
    name: str
    raw: str
    wish: str | None = None
    ticket: str | None = None
    by_tool: bool = False
    """A server tool of the step makes it."""


@dataclass(frozen=True, slots=True)
class HandoffSaid:
    run_id: RunId
    depth: int
    agent: str


@dataclass(frozen=True, slots=True)
class StateSaid:
    """The agent set (patch None) or patched the thread's state."""

    run_id: RunId
    depth: int
    patch: tuple[Json, ...] | None
    state: Json


@dataclass(frozen=True, slots=True)
class UsageSaid:
    """Tokens that the step has used: an AG-UI TokenUsage as JSON."""

    run_id: RunId
    depth: int
    usage: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class CallForgone:
    """Whoever waited for this call inside the step has gone: it is wanted no more."""

    run_id: RunId
    ticket: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    run_id: RunId
    depth: int
    finish_reason: str | None
    output: Json = None
    has_output: bool = False


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The agent raised; `code` is a RunCode, the message may be shown."""

    run_id: RunId
    depth: int
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateSaid:
    """A step starts a sub-run, named by who waits for it: `ticket`. `text` is its user message."""

    run_id: RunId
    depth: int
    sub_id: RunId
    agent: str
    text: str
    ticket: str
    by_tool: bool = False
    """A server tool of the step waits for it."""


@dataclass(frozen=True, slots=True)
class StepShaped:
    """Hooks have shaped the step: another agent speaks, or some tools are kept from it."""

    run_id: RunId
    depth: int
    agent: str
    withheld: frozenset[str]
