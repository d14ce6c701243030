"""What the users of the library hold in their hands: items, results, requests. Plain frozen data.

Deliberately without behaviour; `run` makes the items, `driver` the results. What is made here of
the core's values shares nothing with them that can change (P11).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from handspan_protocol.content import copy_json
from handspan_protocol.errors import HandspanError
from handspan_protocol.ids import is_error_code

if TYPE_CHECKING:
    from ag_ui.core import Message, TokenUsage

    from handspan.core.effects import CallValue, RunValue

Json = Any


@cache
def _history() -> "TypeAdapter[list[Message]]":
    """What makes ag_ui.core messages; it takes 0.3 s to make, which an import need not wait for."""
    from ag_ui.core import Message

    return TypeAdapter(list[Message])


class ToolError(HandspanError):
    """Raised by a server tool to tell the model, in its own words, what went wrong.

    `code` is [a-z0-9_]{1,64}; another one is as none.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = str(message)
        self.code = code if isinstance(code, str) and is_error_code(code) else None


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
    is_content: bool = False
    """`value` is a list of AG-UI parts (texts, images), and no other JSON."""

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
    usage: "list[TokenUsage]" = field(default_factory=list)
    """Tokens that the run used, one entry a model, as far as agents told."""


def messages_of(messages: Iterable[Any]) -> "list[Message]":
    """A history as ag_ui.core messages, from JSON or from such.

    Raises:
        pydantic.ValidationError: they are none.
    """
    return _history().validate_python([_own(message) for message in messages])


def _own(message: Any) -> Any:
    """A message of which the model made from it shares nothing; text cannot change, and what has
    fields of its own is made anew by pydantic (10,000 messages: 0.12 s instead of 0.16)."""
    plain = type(message) is dict and type(message.get("content")) in (str, NoneType)
    if not plain:
        return copy_json(message)
    metadata = message.get("metadata")
    return message if metadata is None else {**message, "metadata": copy_json(metadata)}


def call_result(value: "CallValue", run_id: str = "") -> CallResult:
    """The user's view of a settled call."""
    failed = value.code is not None
    return CallResult(
        outcome=value.outcome,
        value=copy_json(value.value if value.content is None else value.content),
        error=Failure(str(value.code), value.message or "") if failed else None,
        name=value.name,
        call_id=value.call_id,
        run_id=run_id,
        is_content=not failed and value.content is not None,
    )


def run_result(value: "RunValue", messages: Iterable[Mapping[str, Json]]) -> RunResult:
    """The user's view of a run that is over."""
    from ag_ui.core import TokenUsage

    failed = value.code is not None
    return RunResult(
        run_id=value.run_id,
        reason=value.reason,
        depth=value.depth,
        text=value.text,
        messages=messages_of(messages),
        output=copy_json(value.output),
        error=Failure(str(value.code), value.message or "") if failed else None,
        usage=[TokenUsage.model_validate(each) for each in value.usage],
    )
