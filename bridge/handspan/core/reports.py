"""What everybody on a thread is told of a call, and when.

Owns the `handspan.call` events (at once), the pace of progress, and the results (in call order).
Deliberately changes no call's state. *Source:* protocol.md 1.
"""

from collections.abc import Iterable
from typing import Any

from handspan_protocol.limits import PROGRESS_INTERVAL_S

from .call import Call, Settlement
from .inputs import ProgressMade
from .space import Space

Json = Any


def show_results(space: Space, calls: Iterable[Call]) -> None:
    """Put settled results into the log, in call order, up to the first that is open."""
    for call in calls:
        if call.settlement is None:
            return
        if not call.result_shown:
            call.result_shown = True
            _show(space, call, call.settlement)


def _show(space: Space, call: Call, settlement: Settlement) -> None:
    shown = settlement.shown()
    space.emit(
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": space.ids.new("m"),
            "toolCallId": call.id,
            "role": "tool",
            "content": shown if isinstance(shown, str) else list(shown),
            "metadata": {"handspan": settlement.told()},
        }
    )


def tell(space: Space, call: Call, state: str, **more: Json) -> None:
    """Say at once, to everybody on the thread, what became of the call."""
    call.last = {"callId": call.id, "state": state, **more}
    space.custom("call", call.last)


def progress(space: Space, call: Call, made: ProgressMade) -> None:
    """At most one event a call and PROGRESS_INTERVAL_S; the last wins."""
    if not call.out or call.holder != made.session or made.attempt != call.attempt:
        return
    parts = {"progress": made.progress, "total": made.total, "message": made.message}
    call.progress_waiting = {k: v for k, v in parts.items() if v is not None}
    if space.now >= call.progress_at + PROGRESS_INTERVAL_S:
        tell_progress(space, call)


def tell_progress(space: Space, call: Call) -> None:
    waiting, call.progress_waiting = call.progress_waiting, None
    call.progress_at = space.now
    tell(space, call, "progress", **(waiting or {}))
