"""What everybody on a thread is told of its calls and runs, and in which words.

Owns the `handspan.call` events (at once), the pace of progress, the results (in call order), and
the frame of a run. Deliberately changes nobody's state. *Source:* protocol.md 1.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from handspan_protocol.content import scrub
from handspan_protocol.ids import RunId
from handspan_protocol.limits import PROGRESS_INTERVAL_S

from .call import Call, Settlement
from .inputs import ProgressMade
from .run import Run
from .space import Space

Json = Any


def show_results(space: Space, calls: Iterable[Call]) -> None:
    """Put settled results into the log, in call order, up to the first that is open."""
    for call in calls:
        if not call.over or call.final is None:
            return
        if not call.result_shown:
            call.result_shown = True
            _show(space, call, call.final)


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
        },
        call.owner,
    )


def tell(space: Space, call: Call, state: str, **more: Json) -> None:
    """Say at once, to everybody on the thread, what became of the call."""
    call.last = {"callId": call.id, "state": state, **more}
    space.custom("call", call.last, call.owner)


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


def run_started(
    space: Space, run: Run, message: Mapping[str, Json] | None = None, after: str | None = None
) -> None:
    """RUN_STARTED with the new message; what is left of a history that was cut; a changed state."""
    run.announced = True
    space.suggestions = ()
    new = [] if message is None else [_with_id(space, message)]
    kept = None if after is None else space.transcript.cut_after(after)
    thread_id = space.key.thread_id
    space.emit(
        {
            "type": "RUN_STARTED",
            "threadId": thread_id,
            "runId": run.id,
            "input": {"threadId": thread_id, "runId": run.id, "messages": new},
        }
    )
    if kept is not None:
        space.emit({"type": "MESSAGES_SNAPSHOT", "messages": [*kept, *new]})
    if space.state_changed_between:
        space.state_changed_between = False
        space.emit({"type": "STATE_SNAPSHOT", "snapshot": space.transcript.state})


def run_finished(
    space: Space, run: Run, outcome: Mapping[str, Json], result: Mapping[str, Json]
) -> None:
    """The terminal event of a run that did not fail."""
    space.emit(
        {
            "type": "RUN_FINISHED",
            "threadId": space.key.thread_id,
            "runId": run.id,
            "outcome": outcome,
            "result": result,
            **({"usage": run.usage} if run.usage else {}),
        }
    )


def subrun_started(space: Space, sub: Run, text: str) -> None:
    """SUBAGENT_STARTED, and what the sub-run was told."""
    assert sub.parent is not None  # of its caller
    sub.announced = True
    above = sub.parent.owner
    parent = {} if above is None else {"parentSubagentRunId": above}
    space.emit({"type": "SUBAGENT_STARTED", "name": sub.agent, **parent}, sub.id)
    if text:
        say_as_user(space, text, sub.id)


def subrun_finished(space: Space, sub: Run, result: Mapping[str, Json]) -> None:
    """The end of a sub-run that was neither aborted nor failed."""
    outcome = {"type": "success"}
    space.emit({"type": "SUBAGENT_FINISHED", "outcome": outcome, "result": result}, sub.id)


def subrun_failed(space: Space, sub: Run, code: str, message: str) -> None:
    """The end of one that was."""
    space.emit({"type": "SUBAGENT_ERROR", "code": code, "message": message}, sub.id)


def say_as_user(space: Space, text: str, owner: RunId | None = None) -> None:
    """A user's text in the middle of a run."""
    message = space.ids.new("m")
    space.emit({"type": "TEXT_MESSAGE_START", "messageId": message, "role": "user"}, owner)
    space.emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": scrub(text)}, owner)
    space.emit({"type": "TEXT_MESSAGE_END", "messageId": message}, owner)


def _with_id(space: Space, message: Mapping[str, Json]) -> dict[str, Json]:
    wish = message.get("id")
    free = isinstance(wish, str) and wish and not space.transcript.has(wish)
    return {**message, "id": wish if free else space.ids.new("m")}


def invoke_result(call: Call) -> dict[str, Json]:
    """The reply to a `tool.invoke` whose call has settled."""
    value = call.value()
    told: dict[str, Json] = {"callId": call.id, "runId": call.run_id, "outcome": value.outcome}
    if value.code is not None:
        return told | {"error": {"code": str(value.code), "message": value.message or ""}}
    if value.content is not None:
        return told | {"content": list(value.content)}
    return told | {"result": value.value}
