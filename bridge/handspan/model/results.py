"""What came of a call that was carried out inside a step, as the model is shown it.

For adapters with a loop of their own: the same words that the history has of it afterwards
(protocol.md 3), and the same parts.
"""

from typing import Any

from ag_ui.core import ContentPart
from pydantic import TypeAdapter

from handspan_protocol.content import error_text, result_text

from .history import Answer, Part, Text, parts_of

_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])


def answer_of(result: Any) -> Answer:
    """The answer that this CallResult is."""
    failed = result.error is not None
    if result.is_content and not failed:
        return Answer(result.call_id, result.name, content_of(result))
    text = told(result)
    return Answer(result.call_id, result.name, (Text(text),) if text else (), failed)


def content_of(result: Any) -> tuple[Part, ...]:
    """The parts that a handler gave as content; none: it failed, or gave a plain value."""
    return parts_of(_PARTS.validate_python(result.value)) if result.is_content else ()


def told(result: Any) -> str:
    """The text that stands for it, whatever it is."""
    if result.error is not None:
        return error_text(result.error.code, result.error.message)
    return result_text(result.value)
