"""Strict JSON: text to values and back, exact for all that JSON holds (P4).

Two ways lead through each direction. The fast one is orjson, taken only where it cannot differ
from the exact one; the exact one is the standard library's, with what it lacks added here.
orjson refuses lone surrogates, reads integers beyond 64 bit as floats, and writes NaN and
Infinity as null: texts and values with these go the exact way. Vectors hold both to the same
answers.

Knows nothing of frames. `content` and `codec` sit above.
*Source:* protocol.md, third paragraph; `protocol/README.md`, "Values".
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum, StrEnum
from itertools import chain
from typing import Any, Final, NoReturn

import orjson

from .errors import CommandCode, PeerError, UsageError
from .limits import NESTING_MAX

Json = Any
"""Any JSON value: None, bool, int, float, str, list, dict with str keys."""

INTEGER_DIGITS: Final = 4_300
"""Digits of an integer, both ways. Reading digits takes quadratic time; this is where Python's own
guard stands (`sys.int_info.default_max_str_digits`), so no integer can raise from there."""

ENCODED_NESTING_MAX: Final = 2 * NESTING_MAX
"""Levels of a value on its way out: what a frame brought in always fits a frame of ours around it,
and a value that holds itself is found soon."""

_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_RUN: Final = b"0" * 19
"""Digits that may be more than 64 bit hold."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|u[dD][89a-fA-F][0-9a-fA-F]{2}"
    r"|.)",
    re.DOTALL,
)
_LONE_SURROGATE_CHARS: Final = 6


# ---- text -> value ---------------------------------------------------------------------------


def parse_json(text: str | bytes, *, nesting: int = NESTING_MAX) -> Json:
    """The value that a strict JSON text holds; of duplicate keys the last counts.

    Integers keep every digit; lone surrogates, escaped or not, become U+FFFD, in keys too.

    Raises:
        PeerError: `invalid_frame`; not UTF-8, not JSON, NaN or Infinity, a number that overflows
            a double, an integer of more than INTEGER_DIGITS, more than `nesting` levels.
    """
    data = _utf8(text)
    value = _parse_exactly(data) if _differs(data) else _parse_fast(data)
    if data.count(b"[") + data.count(b"{") > nesting and not within_nesting(value, nesting):
        raise _refused(f"nested deeper than {nesting} levels")
    return value


def _differs(data: bytes) -> bool:
    """Whether orjson might read this otherwise: it holds half a surrogate pair, or 19 digits."""
    return b"\\ud" in data or b"\\uD" in data or _LONG_RUN in data.translate(_DIGITS)


def _parse_fast(data: bytes) -> Json:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _refused("not strict JSON") from None


def _refused(why: str) -> PeerError:
    return PeerError(CommandCode.INVALID_FRAME, why)


def _utf8(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        return scrub(text).encode()


def _parse_exactly(data: bytes) -> Json:
    try:
        return _DECODER.decode(_ESCAPE.sub(_whole_escape, data.decode()))
    except (ValueError, RecursionError):
        raise _refused("not strict JSON") from None


def _whole_escape(found: re.Match[str]) -> str:
    """Leaves pairs and all other escapes as they are; a surrogate alone becomes U+FFFD."""
    escape = found[0]
    return r"\ufffd" if len(escape) == _LONE_SURROGATE_CHARS else escape


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("overflows a double")
    return number


def _bounded(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS and len(digits.lstrip("-")) > INTEGER_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_bounded, parse_constant=_no_constant)


# ---- value -> text ---------------------------------------------------------------------------

_ATOMS: Final = frozenset({str, int, bool, type(None)})
ORJSON_NESTING_MAX: Final = 254
"""Levels that orjson writes; documented by it, and held to it by a test."""

_HOLDERS: Final = (dict, list, tuple)
_ENUMS: Final = (StrEnum, IntEnum)
_ONLY_JSON: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_TOO_LARGE: Final = 10**INTEGER_DIGITS


def encode(value: Json) -> bytes:
    """Compact strict JSON in UTF-8; lone surrogates become U+FFFD, tuples arrays, mappings objects.

    Fast for the small dict of strings that a text delta is.

    Raises:
        UsageError: NaN, Infinity, a key that is no string, a value that JSON does not have, one
            nested deeper than ENCODED_NESTING_MAX or holding itself; names the JSON pointer.
    """
    try:
        data = orjson.dumps(value, option=_ONLY_JSON)
    except TypeError:
        return _encode_exactly(value)
    if type(value) is str or _is_plain(value):
        return data
    return _encode_exactly(value)


def size_within(value: Json, nesting: int = NESTING_MAX) -> int | None:
    """Bytes of the text of a value that is known to be JSON; None: nested deeper than `nesting`.

    In C for whatever orjson takes: it refuses more than ORJSON_NESTING_MAX levels, so the value is
    put as deep as leaves it `nesting` of them. What it refuses is looked at level by level.

    Raises:
        UsageError: as `encode`.
    """
    wrapped, around = value, ORJSON_NESTING_MAX - nesting
    for _ in range(around):
        wrapped = (wrapped,)
    try:
        return len(orjson.dumps(wrapped)) - 2 * around
    except TypeError:
        return len(encode(value)) if within_nesting(value, nesting) else None


def _is_plain(value: Json) -> bool:
    """Whether what orjson wrote is what the value says: no NaN, and no type that JSON has not.

    Only for values that orjson has written: it has found them to end.
    """
    layer: Collection[Json] = value.values() if type(value) is dict else (value,)
    while not _ATOMS.issuperset(map(type, layer)):
        below: list[Json] = []
        for it in layer:
            kind = type(it)
            if kind is dict:
                below.extend(it.values())
            elif kind is list or kind is tuple:
                below.extend(it)
            elif kind is float:
                if not math.isfinite(it):
                    return False
            elif kind not in _ATOMS and not issubclass(kind, _ENUMS):
                return False
        layer = below
    return True


def _within(layer: Iterable[Json]) -> list[Json]:
    """What the objects and arrays among these hold."""
    held = (it.values() if isinstance(it, dict) else it for it in layer if isinstance(it, _HOLDERS))
    return list(chain.from_iterable(held))


def _encode_exactly(value: Json) -> bytes:
    plain = _plain(value, "", 0)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Json, pointer: str, depth: int) -> Json:
    """The same value in exactly the types of JSON, ready for the standard library."""
    match value:
        case None | bool():
            return value
        case str():
            return scrub(str.__str__(value))
        case int():
            return _plain_int(value, pointer)
        case float():
            return _plain_float(value, pointer)
    if depth == ENCODED_NESTING_MAX:
        raise UsageError(f"{_place(pointer)}: nested deeper than {ENCODED_NESTING_MAX} levels")
    match value:
        case list() | tuple():
            return [_plain(item, f"{pointer}/{at}", depth + 1) for at, item in enumerate(value)]
        case Mapping():
            return {
                _plain_key(key, pointer): _plain(item, f"{pointer}/{escape(key)}", depth + 1)
                for key, item in value.items()
            }
    raise UsageError(f"{_place(pointer)}: JSON has no {type(value).__name__}")


def _plain_int(value: int, pointer: str) -> int:
    if not -_TOO_LARGE < value < _TOO_LARGE:
        raise UsageError(f"{_place(pointer)}: an integer of more than {INTEGER_DIGITS} digits")
    return int(value)


def _plain_float(value: float, pointer: str) -> float:
    if not math.isfinite(value):
        raise UsageError(f"{_place(pointer)}: JSON has no {float(value)!r}")
    return float(value)


def _plain_key(key: Any, pointer: str) -> str:
    if not isinstance(key, str):
        raise UsageError(f"{_place(pointer)}: the key {key!r:.40} is not a string")
    return scrub(str.__str__(key))


def _place(pointer: str) -> str:
    return f"at {scrub(pointer)[:200]}" if pointer else "at the root"


# ---- text ------------------------------------------------------------------------------------


def escape(key: object) -> str:
    """One step of a JSON pointer. *Source:* RFC 6901, section 3."""
    return str(key).replace("~", "~0").replace("/", "~1")


def scrub(text: str) -> str:
    """The text with every lone surrogate as U+FFFD, and pairs of them as the character they are."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def within_nesting(value: Json, levels: int = NESTING_MAX) -> bool:
    """Whether arrays and objects nest at most this deep; ends on a value that holds itself."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [item for item in layer if isinstance(item, _HOLDERS)]
        if not layer:
            return True
        layer = _within(layer)
    return False
