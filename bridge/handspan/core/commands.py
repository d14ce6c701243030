"""What each command of a page does: one function a frame, one table.

Owns the checks that need only the session, and the message that goes to the thread. Each function
answers at once, or leaves the answer to the thread; a PeerError is the answer too.
*Source:* protocol.md 3.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from handspan_protocol import frames as f
from handspan_protocol.codec import encode
from handspan_protocol.content import page_error_message
from handspan_protocol.errors import CallCode, CommandCode, PeerError
from handspan_protocol.ids import ThreadId, is_error_code, is_tool_name
from handspan_protocol.limits import PARTS_MAX
from handspan_protocol.messages import parts_json, read_user_message

from . import effects as e
from . import inputs as i
from .answer import Answer
from .context import check_context
from .parties import Asker

if TYPE_CHECKING:
    from .session import Session


def _tools_update(session: "Session", frame: f.ToolsUpdate) -> None:
    before = session.tools.revision
    if frame.set is not None:
        verdict = session.tools.replace(frame.set)
    else:
        verdict = session.tools.change(frame.add or (), frame.remove or ())
    if session.tools.revision != before:
        session.tell_threads()
    told = {
        "accepted": list(verdict.accepted),
        "rejected": [
            {"name": r.name, "code": r.code, "message": r.message} for r in verdict.rejected
        ],
    }
    session.reply(frame.id, told | {"revision": session.tools.revision})


def _context_update(session: "Session", frame: f.ContextUpdate) -> None:
    if frame.set is not None:
        session.context.replace(frame.set)
    else:
        session.context.change(frame.add or (), frame.remove or ())
    session.tell_threads()
    session.reply(frame.id, {})


def _thread_open(session: "Session", frame: f.ThreadOpen) -> None:
    thread_id = frame.thread_id or ThreadId(session.ids.new("t"))
    session.check_room(thread_id)
    session.reply(frame.id, {"threadId": thread_id})
    session.open_thread(thread_id, frame.epoch, frame.offset)


def _thread_close(session: "Session", frame: f.ThreadClose) -> None:
    if frame.thread_id in session.open:
        del session.open[frame.thread_id]
        session.do(e.CloseStream(frame.thread_id))
        session.do(e.TellThread(session.key(frame.thread_id), i.PageClosed(session.id)))
    session.reply(frame.id, {})


def _run_start(session: "Session", frame: f.RunStart) -> None:
    message = None if frame.message is None else read_user_message(frame.message)
    check_context(frame.context or (), session.policy.context_bytes)
    _check_may_run(session, frame.thread_id, frame.if_busy)
    _open_unless(session, frame.thread_id)
    request = i.RunRequested(
        asker=_asker(session, frame),
        run_id=frame.run_id,
        agent=frame.agent,
        message=message,
        after=frame.after,
        context=frame.context or (),
        forwarded_props=frame.forwarded_props,
        if_busy=frame.if_busy or "reject",
        principal=session.principal,
    )
    session.do(e.TellThread(session.key(frame.thread_id), request, create=True))


def _tool_invoke(session: "Session", frame: f.ToolInvoke) -> None:
    if not is_tool_name(frame.name):
        raise PeerError(CommandCode.UNKNOWN_TOOL, "this cannot be the name of a tool", "/name")
    _check_may_run(session, frame.thread_id, frame.if_busy)
    _open_unless(session, frame.thread_id)
    request = i.InvokeRequested(
        asker=_asker(session, frame),
        run_id=frame.run_id,
        name=frame.name,
        raw="{}" if frame.args is None else encode(frame.args).decode(),
        follow_up=False if frame.follow_up is None else frame.follow_up,
        if_busy=frame.if_busy or "reject",
        principal=session.principal,
    )
    session.do(e.TellThread(session.key(frame.thread_id), request, create=True))


def _check_may_run(session: "Session", thread_id: ThreadId, if_busy: str | None) -> None:
    if session.draining:
        raise PeerError(CommandCode.DRAINING, "the server is going down")
    session.check_room(thread_id)
    if sum(session.running.values()) >= session.policy.runs_per_session:
        raise PeerError(CommandCode.BUSY, "too many runs of this page are under way")
    if if_busy in ("queue", "replace") and session.queued.total() >= session.policy.queued_runs:
        raise PeerError(CommandCode.BUSY, "too many runs of this page are waiting")


def _open_unless(session: "Session", thread_id: ThreadId) -> None:
    if thread_id not in session.open:
        session.open_thread(thread_id, None, None)


def _run_abort(session: "Session", frame: f.RunAbort) -> None:
    asker = _asker(session, frame)
    if frame.thread_id is not None:
        message = i.AbortRequested(asker, frame.run_id)
        session.do(e.TellThread(session.key(frame.thread_id), message))
    elif frame.run_id is not None:
        session.do(e.AbortAnywhere(asker, frame.run_id))
    else:
        raise PeerError(CommandCode.INVALID_FRAME, "runId or threadId is needed", "/runId")


def _tool_started(session: "Session", frame: f.ToolStarted) -> None:
    message = i.LeaveAsked(_asker(session, frame), frame.call_id, frame.attempt)
    session.do(e.TellCall(frame.call_id, message, session.ticket(frame.id)))


def _tool_result(session: "Session", frame: f.ToolResult) -> None:
    if frame.content is not None and len(frame.content) > PARTS_MAX:
        raise PeerError(CommandCode.INVALID_FRAME, f"more than {PARTS_MAX} parts", "/content")
    if frame.context is not None and session.take_context(frame.context):
        session.tell_threads()
    asker = _asker(session, frame)
    message = i.ResultGiven(asker, frame.call_id, frame.attempt, answer_of(frame))
    session.do(e.TellCall(frame.call_id, message, session.ticket(frame.id)))


def _approval_answer(session: "Session", frame: f.ApprovalAnswer) -> None:
    message = i.ApprovalGiven(
        asker=_asker(session, frame),
        call_id=frame.call_id,
        digest=frame.digest,
        approved=frame.approved,
        reason=frame.reason,
        args=frame.args,
        remember=frame.remember is True,
    )
    session.do(e.TellCall(frame.call_id, message, session.ticket(frame.id)))


def _state_update(session: "Session", frame: f.StateUpdate) -> None:
    state = None if frame.state is f.ABSENT else frame.state
    message = i.StateGiven(_asker(session, frame), frame.patch, state)
    session.do(e.TellThread(session.key(frame.thread_id), message))


def _thread_list(session: "Session", frame: f.ThreadList) -> None:
    session.do(e.ListThreads(session.ticket(frame.id)))


def _thread_delete(session: "Session", frame: f.ThreadDelete) -> None:
    session.do(e.DeleteThread(session.ticket(frame.id), frame.thread_id))


def _asker(session: "Session", frame: f.Command) -> Asker:
    return Asker(session.id, session.ticket(frame.id))


def answer_of(frame: f.ToolResult) -> Answer:
    """What a page's `tool.result` says; presence has decided, never truthiness."""
    if frame.error is not None:
        code = frame.error.code
        known = code is not None and is_error_code(code)
        return Answer(
            error_code=code if known else CallCode.HANDLER_ERROR.value,
            error_message=page_error_message(frame.error.message),
        )
    if frame.content is not None:
        return Answer(content=tuple(parts_json(part) for part in frame.content))
    return Answer(value=frame.result)


COMMANDS: Final[Mapping[type, Callable[["Session", Any], None]]] = {
    f.ToolsUpdate: _tools_update,
    f.ContextUpdate: _context_update,
    f.ThreadOpen: _thread_open,
    f.ThreadClose: _thread_close,
    f.RunStart: _run_start,
    f.RunAbort: _run_abort,
    f.ToolInvoke: _tool_invoke,
    f.ToolStarted: _tool_started,
    f.ToolResult: _tool_result,
    f.ApprovalAnswer: _approval_answer,
    f.StateUpdate: _state_update,
    f.ThreadList: _thread_list,
    f.ThreadDelete: _thread_delete,
}
