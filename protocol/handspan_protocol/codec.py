"""Frames to text and back: the one place where camelCase meets snake_case.

Strict JSON is `strict_json`'s, what frames there are is `frames`'. This module puts them together:
which frame a text is, what is wrong with one that is none (told by field and expectation, never in
a validator's words), and how one is written. Knows no session, thread or socket.
*Source:* protocol.md, first part, 3 and 4.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import Annotated, Any, Final, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from .errors import CommandCode, PeerError
from .frames import ABSENT, PageFrame, ServerFrame
from .page_frames import know_parts
from .strict_json import ENCODED_NESTING_MAX, Json, encode, escape, parse_json

__all__ = [
    "PAGE_TYPES",
    "SERVER_TYPES",
    "FrameProblem",
    "decode",
    "decode_server",
    "encode",
    "events_bytes",
    "frame_bytes",
    "parse_json",
]


def _types(union: Any) -> frozenset[str]:
    return frozenset(get_args(frame.__annotations__["type"])[0] for frame in get_args(union))


PAGE_TYPES: Final = _types(PageFrame)
"""What a page may send."""

SERVER_TYPES: Final = _types(ServerFrame)
"""What a page may receive."""


@cache
def page_frame() -> TypeAdapter[PageFrame]:
    """What reads a page's frames; made when the first one comes, which an import need not wait for.

    *Source:* measured 2026-11-30: 0.3 of 0.8 s of `import handspan`.
    """
    know_parts()
    return TypeAdapter(Annotated[PageFrame, Field(discriminator="type")])


@cache
def server_frame() -> TypeAdapter[ServerFrame]:
    """What reads a server's frames."""
    return TypeAdapter(Annotated[ServerFrame, Field(discriminator="type")])


class FrameProblem(PeerError):  # noqa: N818 - a problem is what it is
    """A text is not a frame that a page may send.

    `id` is the frame's own, when it had one that is a string: a page waits for it.
    """

    def __init__(
        self, code: CommandCode, message: str, path: str | None = None, frame_id: str | None = None
    ) -> None:
        super().__init__(code, message, path)
        self.id = frame_id


# ---- page -> server --------------------------------------------------------------------------


def decode(text: str | bytes) -> PageFrame:
    """The frame that a page's text is.

    Raises:
        FrameProblem: `unknown_type` for a type that pages do not send, else `invalid_frame`.
    """
    raw = _object(text)
    own_id = raw.get("id")
    frame_id = own_id if isinstance(own_id, str) else None
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise FrameProblem(CommandCode.INVALID_FRAME, "/type must be a string", "/type", frame_id)
    if kind not in PAGE_TYPES:
        message = f"a page sends no frame of type {kind[:64]!r}"
        raise FrameProblem(CommandCode.UNKNOWN_TYPE, message, "/type", frame_id)
    try:
        if kind in _EXACTLY_ONE:
            _EXACTLY_ONE[kind](raw)
        return page_frame().validate_python(raw)
    except _Wrong as wrong:
        path, message = wrong.path, f"{wrong.path} {wrong}"
    except ValidationError as error:
        path, message = _first_problem(error, raw)
    raise FrameProblem(CommandCode.INVALID_FRAME, message, path, frame_id)


def _object(text: str | bytes) -> dict[str, Json]:
    try:
        raw = parse_json(text)
    except PeerError as problem:
        raise FrameProblem(problem.code, problem.message) from None
    if not isinstance(raw, dict):
        raise FrameProblem(CommandCode.INVALID_FRAME, "a frame must be an object")
    return raw


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """A rule between fields is broken; `path` is the field that is missing or one too many."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(expected)
        self.path = path


def _one_result(raw: dict[str, Json]) -> None:
    """Leaves exactly one of result, content, error. Presence decides; null content is absence."""
    named = [key for key in ("content", "error") if raw.get(key) is not None]
    if named and raw.get("result") is None:
        raw.pop("result", None)
    there = ["result", *named] if "result" in raw else named
    if not there:
        raise _Wrong("/result", "is required, or content, or error")
    if len(there) > 1:
        raise _Wrong(f"/{there[1]}", "is one too many: exactly one of result, content, error")


def _one_state(raw: dict[str, Json]) -> None:
    """Leaves exactly one of patch and state; a null state is a value only without a patch."""
    if raw.get("patch") is None:
        if "state" not in raw:
            raise _Wrong("/state", "is required, or patch")
    elif raw.pop("state", None) is not None:
        raise _Wrong("/state", "is one too many: exactly one of patch, state")


_EXACTLY_ONE: Final[Mapping[str, Callable[[dict[str, Json]], None]]] = {
    "tool.result": _one_result,
    "state.update": _one_state,
}


# ---- what is wrong with a frame --------------------------------------------------------------


def _first_problem(error: ValidationError, raw: Json) -> tuple[str, str]:
    """The JSON pointer of the first field that is wrong, and a sentence about it."""
    problems = error.errors(include_url=False, include_input=False)
    path = _pointer(problems[0], raw)
    expected = [_expected(problem) for problem in problems if _pointer(problem, raw) == path]
    return path, f"{path or 'the frame'} must be {' or '.join(dict.fromkeys(expected))}"


def _pointer(problem: ErrorDetails, raw: Json) -> str:
    """Where in the frame it is: pydantic's location without the names of union members.

    A member's name is known by not leading anywhere: it is the `type` of the part it follows, or
    it stands after a value that has no fields.
    """
    steps: list[int | str] = []
    here, tagged = raw, False
    for step in problem["loc"][1:]:
        if isinstance(here, list) and isinstance(step, int):
            here, tagged = here[step], False
        elif not isinstance(here, dict) or not isinstance(step, str) or step in _MEMBERS:
            break
        elif steps[:1] == ["content"] and here.get("type") == step and not tagged:
            tagged = True
            continue
        else:
            here, tagged = here.get(step), False
        steps.append(step)
    if problem["type"].startswith("union_tag"):
        steps.append("type")
    return "".join(f"/{escape(step)}" for step in steps)


_MEMBERS: Final = frozenset({"bool", "str", "int", "float", "dict[str,any]"})
"""What pydantic calls the members of our unions of plain types; no field of a frame is so named."""

_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "present",
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "model_attributes_type": "an object",
    "string_too_short": "longer",
    "string_too_long": "shorter",
    "string_pattern_mismatch": "1 to 128 of the characters A-Z a-z 0-9 _ . : -",
    "union_tag_not_found": "present",
}
"""Pydantic's error types, in our words."""


def _expected(problem: ErrorDetails) -> str:
    limits = problem.get("ctx", {})
    match problem["type"]:
        case "literal_error":
            return str(limits["expected"])
        case "union_tag_invalid":
            return f"one of {limits['expected_tags']}"
        case "greater_than_equal":
            return f"at least {limits['ge']}"
        case kind:
            return _EXPECTED.get(kind, "another value")


# ---- server -> page --------------------------------------------------------------------------


def frame_bytes(frame: ServerFrame) -> bytes:
    """The frame as it goes over the wire.

    Absent optionals are left out; a required field is written even when it is null. Only fields of
    frames are renamed, never keys inside values.

    Raises:
        UsageError: a value in it is not JSON.
    """
    return encode(_wire(frame))


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """Of each field: attribute, wire name, and whether None is absence."""
    return tuple((each.name, to_camel(each.name), each.default is None) for each in fields(kind))


def _wire(frame: Any) -> dict[str, Json]:
    wire: dict[str, Json] = {}
    kind: Any = type(frame)
    for attribute, name, none_is_absent in _fields(kind):
        value = getattr(frame, attribute)
        if value is ABSENT or (value is None and none_is_absent):
            continue
        wire[name] = _wire_value(value)
    return wire


def _wire_value(value: Any) -> Json:
    if hasattr(value, "__dataclass_fields__"):
        return _wire(value)
    if isinstance(value, tuple):
        return [_wire_value(item) for item in value]
    return value


def events_bytes(thread_id: str, epoch: str, offset: int, encoded: Sequence[bytes]) -> bytes:
    """An `events` frame around events that are encoded already."""
    return b'%b%d,"events":[%b]}' % (_opening(thread_id, epoch), offset, b",".join(encoded))


@lru_cache(maxsize=4_096)
def _opening(thread_id: str, epoch: str) -> bytes:
    """What all `events` frames of one log begin with; asked for with each of them."""
    fields = encode(thread_id), encode(epoch)
    return b'{"type":"events","threadId":%b,"epoch":%b,"offset":' % fields


def decode_server(text: str | bytes) -> dict[str, Json]:
    """A server's frame as a page in Python reads it: plain JSON of a known type.

    Raises:
        PeerError: `invalid_frame` or `unknown_type`.
    """
    raw = parse_json(text, nesting=ENCODED_NESTING_MAX)
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise PeerError(CommandCode.INVALID_FRAME, "a frame must be an object with a type")
    if raw["type"] not in SERVER_TYPES:
        raise PeerError(CommandCode.UNKNOWN_TYPE, f"unknown type {raw['type'][:64]!r}", "/type")
    return raw
