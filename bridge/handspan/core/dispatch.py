"""The queue of a thread's calls: whose turn it is, and the order that goes out.

Owns the turns (calls of one page wait for each other unless they are readOnly or parallel; server
tools overlap, at most `server_tools_at_once`), the attempt and its deadline, and the `tool.call`
frame. Deliberately does not know how a call came here, nor how it ends.
*Source:* behaviour.md 3, "Order".
"""

from typing import Any

from handspan_protocol.frames import ToolCall
from handspan_protocol.ids import WILDCARD, SessionId

from .call import Call, CallEvent, CallState
from .effects import StartTool
from .reports import tell
from .session_inputs import CallOffered
from .space import Space

Json = Any


class Dispatch:
    """Gives queued calls to those who hold them."""

    __slots__ = ("_space",)

    def __init__(self, space: Space) -> None:
        self._space = space

    def pump(self, calls: list[Call]) -> None:
        """Dispatch every queued call whose turn has come and whose holder is there.

        `calls` are the open ones of a run and its sub-runs, in the order they were made. One that a
        server tool waits for needs no place among them, or ten such would wait for each other.
        """
        busy: set[SessionId] = set()
        at_work = sum(c.out and c.holder is None and not c.by_tool for c in calls)
        for call in calls:
            if call.state is CallState.QUEUED and call.spec is not None:
                if call.is_servers:
                    if call.by_tool or at_work < self._space.policy.server_tools_at_once:
                        self._dispatch_to_server(call)
                        at_work += not call.by_tool
                elif self._may_go(call, busy):
                    self._dispatch_to_page(call)
            if call.open and call.holder is not None and not self._overlaps(call):
                busy.add(call.holder)

    def _may_go(self, call: Call, busy: set[SessionId]) -> bool:
        page = self._space.pages.get(call.holder) if call.holder is not None else None
        return (
            page is not None
            and page.attached
            and (self._overlaps(call) or page.session not in busy)
        )

    def _overlaps(self, call: Call) -> bool:
        return call.overlaps or self._space.policy.tool_execution == "parallel"

    def _begin_attempt(self, call: Call) -> None:
        """Recorded, then told; what goes out comes behind."""
        call.dispatch(call.holder, self._space.now + self._timeout(call))
        self._space.record("call_dispatched", callId=call.id, attempt=call.attempt)
        tell(self._space, call, "dispatched")

    def _dispatch_to_page(self, call: Call) -> None:
        self._begin_attempt(call)
        self.offer(call)

    def _dispatch_to_server(self, call: Call) -> None:
        assert call.spec is not None  # of `pump`
        self._begin_attempt(call)
        call.move(CallEvent.LEAVE)
        args = _given(call)
        self._space.do(StartTool(call.id, call.own_run_id, call.depth, call.spec.name, args))

    def offer(self, call: Call) -> None:
        """Send the order, or send it again."""
        assert call.holder is not None and call.spec is not None  # noqa: PT018 (of its caller)
        wildcard = call.spec.name == WILDCARD
        frame = ToolCall(
            call_id=call.id,
            attempt=call.attempt,
            thread_id=self._space.key.thread_id,
            run_id=call.run_id,
            depth=call.depth,
            name=call.spec.name,
            args=_given(call),
            raw_args=call.raw,
            tool_name=call.name if wildcard else None,
            timeout_ms=round(self._timeout(call) * 1000),
            revision=self._space.pages[call.holder].revision,
        )
        self._space.tell(call.holder, CallOffered(self._space.key, frame, self._space.log.head))

    def _timeout(self, call: Call) -> float:
        wish = call.spec.tool.timeout_ms if call.spec else None
        return self._space.policy.timeout_of(wish)


def _given(call: Call) -> dict[str, Json]:
    """What the handler gets: the arguments, or for a wildcard {toolName, args}."""
    if call.spec is not None and call.spec.name == WILDCARD != call.name:
        return {"toolName": call.name, "args": call.args}
    return call.args
