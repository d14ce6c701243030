"""Questions to a human about a call, open until they are answered, expire or lose their object.

Owns what is asked (bound by a digest to the call, its tool's definition and its arguments), who is
asked, and what was allowed for good. Deliberately settles nothing: a verdict goes back to `desk`.
*Source:* behaviour.md 3, P10.
"""

from collections.abc import Iterable
from typing import Any

from handspan_protocol.content import digest
from handspan_protocol.frames import ApprovalRequest
from handspan_protocol.ids import SessionId

from .arguments import ToolSpec
from .call import Approval, Call, CallEvent
from .reports import tell
from .session_inputs import ApprovalAsked
from .space import Space

Json = Any


class Approvals:
    """The open questions of one thread's calls."""

    __slots__ = ("_space", "allowed")

    def __init__(self, space: Space) -> None:
        self._space = space
        self.allowed: set[str] = set()
        """Digests of the definitions that were approved for good, in this thread."""

    def remember(self, spec: ToolSpec) -> None:
        """This definition needs no approval any more."""
        self.allowed.add(spec.digest)

    def ask_again(self, session: SessionId, calls: Iterable[Call]) -> None:
        """Send every open question to a page that has just opened the thread."""
        for call in calls:
            if call.approval is not None:
                self._space.tell(session, ApprovalAsked(self._question(call, call.approval)))

    def needed(self, spec: ToolSpec) -> bool:
        """Whether a human must say yes before this tool is carried out."""
        wish = spec.tool.approval
        asked = wish == "always" or (spec.tool.consequential and wish != "never")
        return asked and not self.remembered(spec)

    def remembered(self, spec: ToolSpec) -> bool:
        """Whether a human has allowed this definition for good, in this thread."""
        return spec.digest in self.allowed

    def ask(self, call: Call, event: CallEvent, reason: str | None) -> None:
        """Open the question, or open it anew; every page that reads the thread gets it."""
        assert call.spec is not None  # resolved before anybody is asked
        call.move(event)
        bound = digest([call.id, call.spec.digest, call.name, call.args])
        call.asked = True
        expires = self._space.now + self._space.policy.approval_timeout
        call.approval = Approval(digest=bound, expires_at=expires, reason=reason)
        self._space.record("call_asked", callId=call.id)
        tell(self._space, call, "waiting_approval")
        for session in sorted(self._space.readers):
            self._space.tell(session, ApprovalAsked(self._question(call, call.approval)))

    def _question(self, call: Call, approval: Approval) -> ApprovalRequest:
        return ApprovalRequest(
            call_id=call.id,
            thread_id=self._space.key.thread_id,
            run_id=call.run_id,
            name=call.name,
            args=call.args,
            digest=approval.digest,
            reason=approval.reason,
            expires_ms=max(0, round((approval.expires_at - self._space.now) * 1000)),
        )
