"""What values mean: when two are equal, how one reads in history, how a failure is told.

Equality, `canonical` and `digest` see JSON values, not Python's: 1 is 1.0 and True is not 1.
Knows nothing of frames, calls or threads; `strict_json` sits below.
*Source:* protocol.md 3 ("A result in history", the statuses), behaviour.md 3.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from .errors import UsageError
from .limits import ERROR_MESSAGE_CHARS
from .strict_json import Json, encode, scrub, within_nesting

__all__ = [
    "NO_MESSAGE",
    "canonical",
    "copy_json",
    "digest",
    "equal_json",
    "error_text",
    "page_error_message",
    "result_text",
    "scrub",
    "within_nesting",
]

NO_MESSAGE: Final = "the handler failed without a message"
"""Stands in for an empty error message: a model must be told something."""


def equal_json(a: Json, b: Json) -> bool:
    """Whether two values are the same JSON: numbers by value, objects whatever the order."""
    pending = [(a, b)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if left.keys() != right.keys():
                return False
            pending.extend((left[key], right[key]) for key in left)
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            pending.extend(zip(left, right, strict=True))
        elif isinstance(left, bool) is not isinstance(right, bool) or left != right:
            return False
    return True


def canonical(value: Json) -> str:
    """One ASCII text for all spellings of a value: `equal_json(a, b)` iff the texts are equal.

    Keys are sorted by code point; a float without a fraction is written as the integer it is.

    Raises:
        UsageError: the value is not JSON.
    """
    try:
        return json.dumps(
            _with_integers(value), sort_keys=True, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageError(f"not a JSON value: {problem}") from None


def _with_integers(value: Json) -> Json:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list() | tuple():
            return [_with_integers(item) for item in value]
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise UsageError("not a JSON value: a key is not a string")
            return {key: _with_integers(item) for key, item in value.items()}
    return value


def digest(value: Json) -> str:
    """SHA-256 of the canonical text, in hex: equal for equal values, and only for them."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def copy_json(value: Json) -> Json:
    """A copy that shares nothing which can change."""
    match value:
        case Mapping():
            return {key: copy_json(item) for key, item in value.items()}
        case list() | tuple():
            return [copy_json(item) for item in value]
    return value


def result_text(value: Json) -> str:
    """A result as it stands in history: the string itself, else its JSON text.

    Raises:
        UsageError: the value is not JSON.
    """
    return scrub(value) if isinstance(value, str) else encode(value).decode()


def error_text(code: str, message: str, **more: Json) -> str:
    """A failure as it stands in history: {"error":{"code","message"}}, with `more` beside these."""
    return encode({"error": {"code": code, "message": message, **more}}).decode()


def page_error_message(text: str) -> str:
    """A page's error message as the model sees it: bounded, never empty."""
    shown = scrub(text)[:ERROR_MESSAGE_CHARS]
    return shown if shown.strip() else NO_MESSAGE
