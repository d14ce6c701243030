"""What a handler gave, a page's or the server's: the one thing that settles a call from outside.

Owns when two answers are the same (P7). Deliberately does not know whose it is.
"""

from dataclasses import dataclass
from typing import Any

from handspan_protocol.content import equal_json
from handspan_protocol.errors import CallCode

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler gave: a value, parts (`content`), or an error. Exactly one counts."""

    value: Json = None
    content: tuple[Json, ...] | None = None
    error_code: str | None = None
    """`handler_error`, `unavailable`, `result_too_large`, or the page's own code."""
    error_message: str | None = None
    code: CallCode | None = None
    """The call's code, where the failure is not the handler's own (a server tool's bad result)."""

    @property
    def failed(self) -> bool:
        return self.error_message is not None


def same_answer(one: Answer, other: Answer) -> bool:
    """Equal as JSON; a value, parts and an error are never equal to one another."""
    return (
        (one.error_code, one.error_message, one.content is None)
        == (other.error_code, other.error_message, other.content is None)
        and equal_json(one.value, other.value)
        and equal_json(list(one.content or ()), list(other.content or ()))
    )
