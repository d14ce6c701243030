"""What came of a call that was carried out inside a step, as the model is shown it.

For adapters with a loop of their own: the same words that the history has of it afterwards
(protocol.md 3), and the same parts.
"""

from typing import Any

from ag_ui.core import ContentPart
from pydantic import TypeAdapter

from handspan_protocol.content import error_text, result_text

from .history import Answer, Text, parts_of

_PARTS: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])


def answer_of(result: Any) -> Answer:
    """The answer that this CallResult is."""
    if result.error is not None:
        told = error_text(result.error.code, result.error.message)
        return Answer(result.call_id, result.name, (Text(told),), failed=True)
    if result.is_content:
        parts = parts_of(_PARTS.validate_python(result.value))
        return Answer(result.call_id, result.name, parts)
    text = result_text(result.value)
    return Answer(result.call_id, result.name, (Text(text),) if text else ())
