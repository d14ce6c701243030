"""A call by name: "call make_coffee with cups 2", "use make_coffee {"cups": 2}".

Such a call is made as it was asked, whether or not the tool is known: the page's `*` may take it.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from handspan_protocol.errors import PeerError
from handspan_protocol.strict_json import parse_json

from . import english
from .tokens import Clause, Word, words_of

Json = Any

_CALL: Final = re.compile(
    r"\s*(?:please\s+)?(?:(call|use|invoke|run|execute)\s+(?:the\s+)?(?:tool\s+)?)?"
    r"[\"'`]?([A-Za-z0-9_.-]{1,64})[\"'`]?(?:\s+tool\b)?(?![^\s.,;:!?{(])",
    re.IGNORECASE,
)
_LIKE_A_NAME: Final = re.compile(r"[_.0-9]|[a-z][A-Z]|[a-z]-[a-z]")
_OPENING: Final = re.compile(r"\s*[:(]?\s*(?:with\b)?\s*(?:the\s+)?(?:arguments|args)?\s*[:(]?\s*")
_GIVEN: Final = re.compile(r"\s*(?:with\b|[:(]?\s*\{)", re.IGNORECASE)
_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A tool asked for by its name."""

    name: str
    rest: str
    """What follows the name, its opening words left out."""
    is_certain: bool
    """Whether it can be nothing else: the name is a tool's, or looks like one."""

    @property
    def gives_json(self) -> bool:
        return self.rest.startswith("{")


def named_call(text: str, names: Iterable[str]) -> NamedCall | None:
    """The call by name that a text begins with, if it is one."""
    found = _CALL.match(text)
    if found is None:
        return None
    said = found[2].rstrip(".-") or found[2]
    known = {name.casefold(): name for name in names}
    after = text[found.end() :]
    rest = after[_opening_end(after) :]
    if found[1] is None and not (said.casefold() in known and rest.startswith("{")):
        return None
    if said.casefold() in known:
        return NamedCall(known[said.casefold()], rest, is_certain=True)
    if _LIKE_A_NAME.search(said):
        return NamedCall(said, rest, is_certain=True)
    plain = found[1].casefold() in ("call", "invoke") and english.fold(said) not in english.STOP
    return NamedCall(said, rest, is_certain=False) if plain and _GIVEN.match(after) else None


def json_at(text: str) -> tuple[dict[str, Json], str] | None:
    """The JSON object that a text begins with, and what follows it; None if it is broken."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        value = parse_json(text[:end])
    except (ValueError, RecursionError, PeerError):
        return None
    return (value, text[end:].removeprefix(")")) if isinstance(value, dict) else None


def pairs_in(text: str) -> dict[str, Json]:
    """The keys and values of "cups 2, milk=true and name: Ada"; a value ends at the next mark."""
    found: dict[str, Json] = {}
    words = words_of(text)
    at = 0
    while at < len(words):
        end = _end_of_pair(words, at)
        pair = [word for word in words[at:end] if word.text not in ("=", ":")]
        if len(pair) > 1 and not pair[0].mark and _KEY.fullmatch(pair[0].text):
            found[pair[0].text] = _value(Clause(text, pair), pair[1:])
        at = end + 1
    return found


def _opening_end(text: str) -> int:
    found = _OPENING.match(text)
    return found.end() if found else 0


def _end_of_pair(words: list[Word], at: int) -> int:
    while at < len(words) and words[at].text not in (",", ";", "and", "(", ")", "\n"):
        at += 1
    return at


def _value(clause: Clause, words: list[Word]) -> Json:
    first = words[0]
    text = clause.text(1, len(clause))
    if len(words) > 1 or first.quoted:
        return text
    if first.fold in ("true", "yes", "on", "false", "no", "off"):
        return first.fold in english.YES
    number = first.number
    return number if number is not None and first.text[-1:].isdigit() else text
