"""A tool as both ends know it: a name, what it is for, what it takes, how it wants to be treated.

Reading one is total: what is no tool becomes a Refusal with its code, so that one bad tool of a
batch harms none of the others. Whether a schema is a schema is judged above, in `handspan.schema`.
*Source:* protocol.md 5.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from .content import copy_json
from .errors import ToolCode
from .ids import is_tool_name
from .limits import DESCRIPTION_CHARS
from .strict_json import Json, scrub

Schema = Mapping[str, Any] | bool
"""A JSON Schema as it came."""

NAME_CHARS: Final = 64
"""A refusal repeats at most this much of a name that is none. *Source:* protocol.md 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool as it was registered; the schemas are kept as given."""

    name: str
    description: str
    parameters: Schema | None = None
    title: str | None = None
    returns: Schema | None = None
    agent: str | None = None
    available: bool = True
    follow_up: bool = True
    approval: Literal["never", "always"] | None = None
    timeout_ms: int | None = None
    read_only: bool = False
    idempotent: bool = False
    consequential: bool = False
    untrusted: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why what a page sent is no tool; `name` is what it called itself, or empty."""

    name: str
    code: ToolCode
    message: str


# ---- reading ---------------------------------------------------------------------------------


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """A field's value is none that it may have; says what was expected."""


def read_tool(raw: Json, *, description_chars: int = DESCRIPTION_CHARS) -> Tool | Refusal:
    """The tool that `raw` describes, or why it is none; never raises.

    null is absent, unknown fields are ignored.
    """
    if not isinstance(raw, Mapping):
        return Refusal("", ToolCode.BAD_NAME, "a tool must be an object")
    name = raw.get("name")
    if not isinstance(name, str):
        return Refusal("", ToolCode.BAD_NAME, "name must be a string")
    shown = scrub(name[:NAME_CHARS])
    if not is_tool_name(name):
        rule = "name must be 1 to 64 of the characters A-Z a-z 0-9 _ . - or exactly *"
        return Refusal(shown, ToolCode.BAD_NAME, rule)
    description = raw.get("description")
    if not isinstance(description, str):
        return Refusal(shown, ToolCode.BAD_DESCRIPTION, "description must be a string")
    if len(description) > description_chars:
        rule = f"description must have at most {description_chars} characters"
        return Refusal(shown, ToolCode.BAD_DESCRIPTION, rule)
    return _read_rest(raw, name, scrub(description))


def _read_rest(raw: Mapping[str, Json], name: str, description: str) -> Tool | Refusal:
    given: dict[str, Any] = {}
    for key, (attribute, read) in _READERS.items():
        value = raw.get(key)
        if value is None:
            continue
        try:
            given[attribute] = read(value)
        except _Wrong as wrong:
            return Refusal(name, ToolCode.BAD_SCHEMA, f"{key} must be {wrong}")
    return Tool(name=name, description=description, **given)


def _bool(value: Json) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise _Wrong("a string")
    return scrub(value)


def _approval(value: Json) -> str:
    if value not in ("never", "always"):
        raise _Wrong('"never" or "always"')
    return str(value)


def _milliseconds(value: Json) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise _Wrong("a positive integer")
    return value


def _schema(value: Json) -> Schema:
    if not isinstance(value, Mapping | bool):
        raise _Wrong("a JSON Schema: an object or a boolean")
    return value


def _parameters(value: Json) -> Schema:
    schema = _schema(value)
    if isinstance(schema, bool) or _takes_nothing(schema) or "type" not in schema:
        return schema
    kinds = schema["type"]
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        return schema
    raise _Wrong("the JSON Schema of an object")


_READERS: Final[Mapping[str, tuple[str, Callable[[Json], Any]]]] = {
    "parameters": ("parameters", _parameters),
    "title": ("title", _text),
    "returns": ("returns", _schema),
    "agent": ("agent", _text),
    "available": ("available", _bool),
    "followUp": ("follow_up", _bool),
    "approval": ("approval", _approval),
    "timeoutMs": ("timeout_ms", _milliseconds),
    "readOnly": ("read_only", _bool),
    "idempotent": ("idempotent", _bool),
    "consequential": ("consequential", _bool),
    "untrusted": ("untrusted", _bool),
    "parallel": ("parallel", _bool),
}
"""Wire name: the attribute, and what reads it."""


# ---- what others see -------------------------------------------------------------------------


def _takes_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether this is {}, {"type":"object"} or {"type":"null"}, a `$schema` beside it or not."""
    if not schema.keys() <= {"type", "$schema"}:
        return False
    return schema.get("type", "object") in ("object", "null")


def parameters_of(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's arguments, a copy of its own.

    The spellings of "no parameters" are one: {"type":"object","properties":{}}. Any other schema
    is as it was given; `false`, which nothing satisfies, is written as an object.
    """
    schema = tool.parameters
    if schema is False:
        return {"type": "object", "not": {}}
    if schema is None or schema is True or _takes_nothing(schema):
        return {"type": "object", "properties": {}}
    copy: dict[str, Any] = copy_json(schema)
    return copy


_WIRE_NAMES: Final = {attribute: key for key, (attribute, _) in _READERS.items()}
_DEFAULTS: Final = {field.name: field.default for field in fields(Tool)}


def to_wire(tool: Tool) -> dict[str, Json]:
    """The tool as it travels: camelCase, without what stands at its default."""
    wire: dict[str, Json] = {"name": tool.name, "description": tool.description}
    for attribute, key in _WIRE_NAMES.items():
        value = getattr(tool, attribute)
        if value is not _DEFAULTS[attribute]:
            wire[key] = copy_json(value)
    return wire
