"""The text of a call, as the model wrote it, to a checked object or to the error for the model.

Owns what counts as arguments (P3) and the shapes in which a schema's judgement is asked and given;
deliberately does not know what JSON Schema is: `handspan.schema` is handed in as validators.
No coercion, no guessing: repair is a hook's business. *Source:* behaviour.md 3, "Arguments".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from handspan_protocol.codec import parse_json
from handspan_protocol.errors import PeerError, ToolCode
from handspan_protocol.ids import WILDCARD
from handspan_protocol.tools import Tool

PROBLEMS_MAX = 10
"""Errors shown to the model at once. *Source:* behaviour.md 3."""

RAW_SHOWN_CHARS = 200
"""How much of a text that is no JSON the model is shown again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a value does not fit its schema; `pointer` is an RFC 6901 pointer."""

    pointer: str
    message: str


class Validator(Protocol):
    """A compiled schema."""

    def problems(self, value: Any, /) -> tuple[Problem, ...]:
        """What is wrong with `value`, at most PROBLEMS_MAX; empty when it fits."""


@dataclass(frozen=True, slots=True)
class SchemaRefusal:
    """Why a schema was not compiled."""

    code: ToolCode
    message: str


class Compile(Protocol):
    """Turns a schema (None: an object without properties required) into a Validator."""

    def __call__(self, schema: Mapping[str, Any] | bool | None, /) -> Validator | SchemaRefusal: ...


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool with its judges: what a registry holds."""

    tool: Tool
    arguments: Validator
    returns: Validator | None = None
    digest: str = ""
    """Of the whole definition; an approval is bound to it."""
    schema_bytes: int = 0
    invoke: bool = False
    """A server tool that pages may invoke."""

    @property
    def name(self) -> str:
        return self.tool.name


@dataclass(frozen=True, slots=True)
class BadArguments:
    """Why a call's arguments were refused, in words for the model."""

    message: str
    problems: tuple[Problem, ...] = ()


def parse_arguments(raw: str) -> dict[str, Any] | BadArguments:
    """The object that `raw` stands for; nothing, whitespace and null are {}."""
    if not raw.strip():
        return {}
    try:
        value = parse_json(raw)
    except PeerError as problem:
        return BadArguments(f"the arguments are not valid JSON ({problem.message}): {_shown(raw)}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        return BadArguments(f"the arguments must be a JSON object, got: {_shown(raw)}")
    return value


def check_arguments(value: dict[str, Any], spec: ToolSpec) -> dict[str, Any] | BadArguments:
    """`value` itself when it fits the tool's schema."""
    problems = spec.arguments.problems(value)
    if not problems:
        return value
    return BadArguments("the arguments do not fit the schema: " + told(problems), problems)


def fit(name: str, args: dict[str, Any], spec: ToolSpec) -> dict[str, Any] | BadArguments:
    """The arguments when they fit; a wildcard's schema is of {toolName, args}."""
    if spec.name != WILDCARD or name == WILDCARD:
        return check_arguments(args, spec)
    wrapped = check_arguments({"toolName": name, "args": args}, spec)
    return wrapped if isinstance(wrapped, BadArguments) else args


def told(problems: tuple[Problem, ...]) -> str:
    """Problems in one line, each with its pointer."""
    return "; ".join(f"{p.pointer or '(root)'}: {p.message}" for p in problems[:PROBLEMS_MAX])


def _shown(raw: str) -> str:
    return raw if len(raw) <= RAW_SHOWN_CHARS else raw[:RAW_SHOWN_CHARS] + "..."
