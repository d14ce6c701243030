"""What an agent yields, read: each item becomes an input of its thread.

Pure. Deliberately does not know who is told; above sits `run`.
"""

from collections.abc import Mapping
from typing import Any

from handspan.core import inputs as i
from handspan_protocol.codec import encode
from handspan_protocol.errors import UsageError
from handspan_protocol.ids import RunId

from .values import CallItem, Handoff, ReasoningItem

Json = Any


def input_of(item: Any, run_id: RunId, depth: int) -> i.ThreadInput | None:
    """What the thread is told; None: nothing.

    Raises:
        UsageError: it is no item.
    """
    match item:
        case CallItem(name, raw, wish):
            return i.CallSaid(run_id=run_id, depth=depth, name=name, raw=raw, wish=wish)
        case ReasoningItem(text):
            return i.ReasoningSaid(run_id, depth, text)
        case Handoff(agent):
            check_text("an agent's name", agent)
            return i.HandoffSaid(run_id, depth, agent)
        case None:
            return None
    if hasattr(item, "model_dump") and hasattr(item, "type"):
        return i.EventSaid(run_id, depth, _event(item))
    raise UsageError(f"an agent may not yield {type(item).__name__}")


def _event(item: Any) -> dict[str, Json]:
    """An AG-UI event as JSON. A null that is the value itself stays: exclude_none means absent
    optionals only."""
    event: dict[str, Json] = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    for field in ("value", "snapshot", "event"):
        if field in type(item).model_fields and field not in event:
            event[field] = getattr(item, field, None)
    return event


def check_text(what: str, value: Any) -> None:
    """Raises: UsageError: it is no str."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is a str, not {type(value).__name__}")


def raw_of(args: Mapping[str, Json] | str | None) -> str:
    """Arguments as a model's text.

    Raises:
        UsageError: they are nothing that JSON can hold.
    """
    if args is None:
        return "{}"
    if not isinstance(args, str | Mapping):
        raise UsageError(f"arguments are a mapping or a text, not {type(args).__name__}")
    return args if isinstance(args, str) else encode(dict(args)).decode()
