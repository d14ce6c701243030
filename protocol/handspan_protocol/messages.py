"""A user's message as a page or a program gives it: text, parts, or a whole AG-UI message.

Owns what may enter a thread from outside: role user and nothing else, since what pages send is
data. *Source:* protocol.md 3 (`run.start`), behaviour.md 7.
"""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from .errors import CommandCode, PeerError
from .limits import PARTS_MAX

if TYPE_CHECKING:
    from ag_ui.core import ContentPart


@cache
def _parts() -> TypeAdapter[list[Any]]:
    """Of AG-UI parts. The first bad one is enough: a frame may hold a million of them (P12)."""
    from ag_ui.core import ContentPart

    return TypeAdapter(Annotated[list[ContentPart], Field(fail_fast=True)])


def read_user_message(raw: Any) -> dict[str, Any]:
    """An AG-UI user message as JSON, without an id when none was given.

    Raises:
        PeerError: `invalid_frame`: another role, or content that is neither text nor parts.
    """
    if isinstance(raw, str | list):
        raw = {"content": raw}
    if not isinstance(raw, dict):
        raise _bad("a message is text, parts, or an AG-UI user message", "/message")
    if raw.get("role") not in (None, "user"):
        raise _bad("only messages of role user are taken", "/message/role")
    message: dict[str, Any] = {"role": "user", "content": _content(raw.get("content"))}
    for key in ("id", "name"):
        value = raw.get(key)
        if value is not None and not isinstance(value, str):
            raise _bad(f"{key} must be a string", f"/message/{key}")
        if value:
            message[key] = value
    if isinstance(raw.get("metadata"), dict):
        message["metadata"] = raw["metadata"]
    return message


def read_parts(raw: list[Any]) -> list[dict[str, Any]]:
    """AG-UI content parts as JSON.

    Raises:
        PeerError: `invalid_frame`, with the path of the part; there are too many.
    """
    if len(raw) > PARTS_MAX:
        raise _bad(f"more than {PARTS_MAX} content parts", "/message/content")
    try:
        parts = _parts().validate_python(raw)
    except ValidationError as problem:
        index = problem.errors()[0]["loc"][0]
        raise _bad("not an AG-UI content part", f"/message/content/{index}") from None
    return [parts_json(part) for part in parts]


def parts_json(part: "ContentPart") -> dict[str, Any]:
    """One part as it goes over the wire."""
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)


def _content(raw: Any) -> Any:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list) and raw:
        return read_parts(raw)
    raise _bad("content must be text or a list of parts", "/message/content")


def _bad(message: str, path: str) -> PeerError:
    return PeerError(CommandCode.INVALID_FRAME, message, path)
