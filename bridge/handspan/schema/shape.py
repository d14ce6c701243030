"""The outer shape of a schema: is it JSON, how deep, how many objects and arrays, which text.

Knows nothing of keywords. Iterative, and stops at the first limit, so that a cyclic or endless
value costs no more than an ordinary one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from handspan_protocol.errors import ToolCode

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_STAND_INS: Final = re.compile("[\U0010f800-\U0010ffff]")
_STAND_IN_OFFSET: Final = 0x10F800 - 0xD800
"""JSON may write a lone surrogate, UTF-8 cannot. The last 2,048 private-use characters stand in for
them, one for one, while a schema or value is with the library, which takes UTF-8 only."""

STRING_UNIT_CHARS: Final = 64
"""A string weighs one and one more for each such piece; a copy of 64 bytes is about a step."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a schema may be; see `Policy`."""

    schema_bytes: int
    schema_depth: int
    schema_nodes: int
    schema_expanded_nodes: int


class SchemaError(Exception):
    """A schema does not pass a gate; never leaves this room, which makes a refusal of it."""

    def __init__(self, code: ToolCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_shape(schema: Any, bounds: Bounds) -> None:
    """Pass when `schema` is made of JSON's containers within depth and number.

    Raises: SchemaError: too large, or no JSON.
    """
    nodes = 0
    pending: list[tuple[Any, int]] = [(schema, 1)]
    while pending:
        value, depth = pending.pop()
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        nodes += 1
        if depth > bounds.schema_depth:
            raise SchemaError(
                ToolCode.SCHEMA_TOO_LARGE,
                f"the schema is nested more than {bounds.schema_depth} deep",
            )
        if len(value) > bounds.schema_bytes:
            raise SchemaError(
                ToolCode.SCHEMA_TOO_LARGE, f"the schema is larger than {bounds.schema_bytes} bytes"
            )
        if nodes > bounds.schema_nodes:
            raise SchemaError(
                ToolCode.SCHEMA_TOO_LARGE,
                f"the schema has more than {bounds.schema_nodes} objects and arrays",
            )
        pending.extend((child, depth + 1) for child in _children(value))


def canonical_text(schema: Any, bounds: Bounds) -> str:
    """The one text of a schema: keys sorted, no blanks, lone surrogates as their stand-ins.

    Raises: SchemaError: too large, or no JSON.
    """
    try:
        text = json.dumps(
            schema,
            ensure_ascii=False,
            allow_nan=False,
            sort_keys=True,
            separators=(",", ":"),
            default=_plain,
        )
    except (ValueError, TypeError) as problem:
        raise SchemaError(ToolCode.BAD_SCHEMA, f"the schema is not JSON: {problem}") from problem
    if len(text.encode("utf-8", "surrogatepass")) > bounds.schema_bytes:
        raise SchemaError(
            ToolCode.SCHEMA_TOO_LARGE, f"the schema is larger than {bounds.schema_bytes} bytes"
        )
    return stand_in(text)


def stand_in(text: str) -> str:
    """`text` with each lone surrogate replaced by its stand-in."""
    return _SURROGATE.sub(lambda found: chr(ord(found[0]) + _STAND_IN_OFFSET), text)


def without_stand_ins(text: str) -> str:
    """`text` fit to be shown: what stood for a surrogate is U+FFFD, as a decoder would show it."""
    return _STAND_INS.sub("\ufffd", text)


def weight(value: Any, limit: int) -> int:
    """How many JSON values are in `value`, long strings counted by length; stops above `limit`."""
    total = 0
    pending: list[Any] = [value]
    while pending and total <= limit:
        item = pending.pop()
        total += 1
        if isinstance(item, str):
            total += len(item) // STRING_UNIT_CHARS
        elif isinstance(item, dict):
            total += sum(map(len, item)) // STRING_UNIT_CHARS
            pending.extend(item.values())
        elif isinstance(item, list):
            if total + len(item) > limit:
                return limit + 1
            pending.extend(item)
    return total


def characters(value: Any, limit: int) -> int:
    """How many characters are in the strings and names of `value`; stops above `limit`."""
    total = 0
    pending: list[Any] = [value]
    while pending and total <= limit:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            total += sum(map(len, item))
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return total


def _children(value: Any) -> Iterator[Any]:
    if not isinstance(value, Mapping):
        return iter(value)
    for name in value:
        if not isinstance(name, str):
            raise SchemaError(ToolCode.BAD_SCHEMA, f"{name!r:.40} is no property name")
    return iter(value.values())


def _plain(value: Any) -> Any:
    """A mapping that is no dict, a frozen one for instance, as a dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON")
