"""A compiled schema: is this value one of its kind, and if not, what is wrong, for a model to read.

The verdict is the library's and always exact; the explanation is bounded, and falls back to one
sentence where a full one would cost too much. Knows nothing of tools or calls.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from handspan.core.arguments import PROBLEMS_MAX, Problem

from .document import Document, Size
from .effort import explainable
from .shape import characters, stand_in, weight, without_stand_ins

MESSAGE_CHARS: Final = 300
"""A longer message loses its middle: the value is at its front, what is wrong at its end."""

CHECK_UNITS: Final = 100_000_000
"""The weight of the expanded schema times that of the value: about half a second, at most four.
A schema of 20 values may judge a value of 5 million. *Source:* measured, 2026: 3 to 40 ns each."""

CHECK_PATTERN_UNITS: Final = 1_000_000_000
"""The steps of all patterns times the characters of the value: about a second at worst.
*Source:* measured, 2026: 1.2 ns each where the engine has to simulate."""

FREE_WEIGHT: Final = 100
"""A schema up to this weight need not count its values: frames are bounded."""

FREE_STEPS: Final = 400
"""The same for patterns."""


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema that passed every gate. Safe to share: judging changes nothing."""

    judge: jsonschema_rs.Validator
    document: Document
    size: Size

    def problems(self, value: Any, /) -> tuple[Problem, ...]:
        """What is wrong with `value`, at most PROBLEMS_MAX; empty when it fits.

        `value` is what a JSON text stands for. One that is not is said to be none.
        """
        if self._too_large(value):
            return (Problem("", "the value is too large to be checked against its schema"),)
        try:
            return self._judged(value)
        except UnicodeEncodeError:
            return self._judged(json.loads(stand_in(json.dumps(value, ensure_ascii=False))))
        except ValueError as problem:
            return (Problem("", _shown(f"the value cannot be checked: {problem}")),)

    def _too_large(self, value: Any) -> bool:
        size = self.size
        if size.weight > FREE_WEIGHT:
            limit = CHECK_UNITS // size.weight
            if weight(value, limit) > limit:
                return True
        if size.steps <= FREE_STEPS:
            return False
        limit = CHECK_PATTERN_UNITS // size.steps
        return characters(value, limit) > limit

    def _judged(self, value: Any) -> tuple[Problem, ...]:
        if self.judge.is_valid(value):
            return ()
        if not explainable(self.document, value):
            return (
                Problem("", "the value does not fit the schema; to say where would take too long"),
            )
        return tuple(islice(_told(self.judge.iter_errors(value)), PROBLEMS_MAX))


_NO_PATTERN: Final = "is no pattern of the linear-time engine, or too large for it"
"""`regex` is the only format in a meta-schema that is judged."""


def reason(error: jsonschema_rs.ValidationError) -> str:
    """The first thing wrong with a schema that failed its meta-schema, with its place."""
    deepest = list(_told([error]))[-1]
    if error.kind.name == "format":
        deepest = replace(deepest, message=_shown(f"{error.instance!r} {_NO_PATTERN}"))
    return f"{deepest.pointer or '(root)'}: {deepest.message}"


def _told(errors: Iterable[jsonschema_rs.ValidationError]) -> Iterator[Problem]:
    """Each error, and after a union that fits nowhere what is wrong with its nearest branch."""
    for error in errors:
        yield Problem(_pointer(error.instance_path), _shown(error.message))
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.AnyOf(
                context
            ) | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context):
                yield from _told(_nearest(context))


def _nearest(
    branches: list[list[jsonschema_rs.ValidationError]],
) -> list[jsonschema_rs.ValidationError]:
    """The branch that got furthest into the value, of those the one with the fewest errors."""
    return min(
        branches,
        key=lambda errors: (-min((len(e.instance_path) for e in errors), default=0), len(errors)),
        default=[],
    )


def _pointer(path: list[str | int]) -> str:
    tokens = (str(token).replace("~", "~0").replace("/", "~1") for token in path)
    return without_stand_ins("".join(f"/{token}" for token in tokens))


def _shown(message: str) -> str:
    if len(message) > MESSAGE_CHARS:
        half = MESSAGE_CHARS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return without_stand_ins(message)
