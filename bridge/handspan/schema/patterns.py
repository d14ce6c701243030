"""Regular expressions of a schema: what the linear-time engine cannot do, and how big they are.

Only names and measures; whether a pattern is one at all, the engine says. The measure is rough and
from above; behind it stands `PATTERN_BYTES`, which the engine itself keeps.
"""

import re
from dataclasses import dataclass, field
from typing import Final

PATTERN_BYTES: Final = 2 * 1024 * 1024
"""A compiled pattern, as the engine counts. `\\p{L}` alone takes 20 KiB; at this size building or
refusing takes about 20 ms. *Source:* measured with jsonschema_rs 0.61, 2026."""

PATTERN_STEPS: Final = 10_000
"""All patterns of a schema, counted repetition multiplied out and references followed."""

_UNICODE_CLASS_STEPS: Final = 100
"""`\\p{...}` compiles to hundreds of states."""

_ESCAPE: Final = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|u\{[^}]*\}|x\{[^}]*\}|.)", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]?", re.DOTALL)
_COUNT: Final = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<[^=!>]*>|[a-zA-Z-]*[:)])?")
_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]")
_BACKREFERENCE: Final = re.compile(r"\\(?:[1-9]|k[<{'])")


@dataclass(slots=True)
class _Measure:
    """The steps so far, and of the last atom: a group becomes an atom when it closes."""

    before: list[int] = field(default_factory=lambda: [0])
    """What came before the last atom, for each group that is open."""
    atom: int = 0
    total: int = 0

    def add(self, steps: int) -> None:
        self.before[-1] += self.atom
        self.atom = steps
        self.total += steps

    def repeat(self, times: int) -> None:
        grown = self.atom * max(1, times)
        self.total += grown - self.atom
        self.atom = grown

    def open(self) -> None:
        self.add(0)
        self.before.append(0)

    def close(self) -> None:
        if len(self.before) > 1:
            self.atom += self.before.pop()


def unsupported(pattern: str) -> str | None:
    """The name of what `pattern` asks for and a linear-time engine cannot do."""
    place = 0
    while place < len(pattern):
        if _LOOK_AROUND.match(pattern, place):
            return "look-around"
        if _BACKREFERENCE.match(pattern, place):
            return "a backreference"
        part = _part(pattern, place)
        place = part.end() if part else place + 1
    return None


def steps(pattern: str) -> int:
    """About how many states `pattern` has, counted repetition multiplied out."""
    measure, place = _Measure(), 0
    while place < len(pattern):
        part = _part(pattern, place)
        text = part[0] if part else pattern[place]
        if part and (counted := _COUNT.fullmatch(text)):
            measure.repeat(_times(counted))
        elif text.startswith("(") and not text.endswith(")"):
            measure.open()
        elif text == ")":
            measure.close()
        elif text not in ("*", "+", "?", "|"):
            measure.add(_atom_steps(text))
        place += len(text)
        if measure.total > PATTERN_STEPS:
            return PATTERN_STEPS + 1
    return measure.total


def _part(pattern: str, place: int) -> re.Match[str] | None:
    """The escape, class, count or opening of a group that begins at `place`."""
    kind = {"\\": _ESCAPE, "[": _CLASS, "{": _COUNT, "(": _GROUP}.get(pattern[place])
    return kind.match(pattern, place) if kind else None


def _times(counted: re.Match[str]) -> int:
    """{n} and {n,m} end at n and m copies; {n,} goes on in one more."""
    least, comma, most = counted.groups()
    return int(most) if most else int(least) + (1 if comma else 0)


def _atom_steps(text: str) -> int:
    unicode_classes = text.count("\\p") + text.count("\\P")
    return max(1, unicode_classes * _UNICODE_CLASS_STEPS)
