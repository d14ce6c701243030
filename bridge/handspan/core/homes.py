"""Who holds a thread's open calls, as pages come, change and go.

Owns what becomes of a call whose page lost the tool, lost its socket for too long, or was loaded
anew: it is sent again, given to another page, waits for somebody to come, or is settled for what
is known of it. Whether another attempt is safe is said by the call's own state and tool (P2).
Deliberately does not know how a call came to its page. *Source:* behaviour.md 3.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from handspan_protocol.errors import CallCode
from handspan_protocol.frames import JournalEntry
from handspan_protocol.ids import SessionId

from .arguments import BadArguments, fit
from .call import Call, CallEvent, CallState, refusal
from .desk import Desk
from .registry import Found
from .space import Space

Json = Any

_LOST: Final = (
    "the page went away while the tool was running; it may or may not have been carried out, so"
    " check before calling it again"
)

_MAYBE: Final = "the page went away before it answered; the tool may have been carried out"
"""Of a tool that starts without leave, as one that can be repeated does."""

_NOBODY: Final[Mapping[CallCode, str]] = {
    CallCode.UNAVAILABLE: "the page no longer has this tool",
    CallCode.NO_CLIENT: "no page that has this tool is connected",
    CallCode.PAGE_GONE: "the page went away before the tool was started; it was not carried out",
    CallCode.OUTCOME_UNKNOWN: "the page went away; whether the tool was carried out is unknown",
}


class Homes:
    """Finds calls another home, or none."""

    __slots__ = ("_desk", "_space")

    def __init__(self, space: Space, desk: Desk) -> None:
        self._space = space
        self._desk = desk

    # ---- what happens to pages ---------------------------------------------------------------

    def changed(self, session: SessionId) -> None:
        """The page's tools are new: what it no longer has is resolved again."""
        for call in self._open(CallState.QUEUED, CallState.WAITING_APPROVAL):
            if call.holder == session and not self._still_held(call):
                self._move_or_end(call, CallCode.UNAVAILABLE)
        self.settle_in()

    def returned(
        self, session: SessionId, journal: Iterable[JournalEntry], *, same_document: bool
    ) -> None:
        """The page is back: what its journal lacks is sent again, or lost with its document.

        A result that a journal announces ("done") is waited for.
        """
        known = {(entry.call_id, entry.attempt): entry.state for entry in journal}
        for call in self._out_at(session):
            state = known.get((call.id, call.attempt))
            if state == "done" or (same_document and state is not None):
                continue
            if same_document and call.state is CallState.DISPATCHED:
                self._desk.resend(call)
            else:
                self._lose(call, self._space.now)

    def gone(self, session: SessionId, since: float) -> None:
        """The session's document went away at `since`, or its session no longer serves here."""
        for call in self._out_at(session):
            self._lose(call, since)
        self.vacate(session, since)

    def vacate(self, session: SessionId, since: float) -> None:
        """What waits for this page may be given to another."""
        for call in self._open(CallState.QUEUED):
            if call.holder == session:
                self._make_homeless(call, since)

    def left_behind(self, call: Call) -> None:
        """The process began anew, and nobody knows the page that had this call."""
        if call.out:
            self._lose(call, self._space.now)
        elif call.state is CallState.QUEUED:
            self._make_homeless(call, self._space.now)

    def without_tool(self, call: Call) -> None:
        """The process began anew, and the tool that this call was for cannot be had any more."""
        self._move_or_end(call, CallCode.UNAVAILABLE)

    # ---- looking for homes -------------------------------------------------------------------

    def settle_in(self) -> None:
        """Look once more for somebody for each queued call that has nobody."""
        for call in self._open(CallState.QUEUED):
            if call.homeless_until is not None:
                found = self._desk.find(call)
                if found is not None:
                    self._move_to(call, found)
                elif self._space.now >= call.homeless_until:
                    self._nobody(call, call.lost_as)

    def approved(self, call: Call) -> None:
        """The answer came; whose call it was may have gone meanwhile."""
        if call.state is not CallState.QUEUED or call.holder is None:
            return
        if not self._still_held(call):
            self._make_homeless(call, self._space.now)
            self.settle_in()

    # ---- parts -------------------------------------------------------------------------------

    def _open(self, *states: CallState) -> list[Call]:
        return [call for call in self._desk.open_calls.values() if call.state in states]

    def _out_at(self, session: SessionId) -> list[Call]:
        return [c for c in self._desk.open_calls.values() if c.holder == session and c.out]

    def _still_held(self, call: Call) -> bool:
        page = self._space.pages.get(call.holder) if call.holder is not None else None
        spec = page.tools.get(call.spec.name) if page is not None and call.spec else None
        same = spec is not None and call.spec is not None and spec.digest == call.spec.digest
        return same and spec is not None and spec.tool.available

    def _lose(self, call: Call, since: float) -> None:
        """The holder's document went away with this call."""
        self._desk.take(call, None)
        started = call.state is CallState.STARTED
        if started and not call.repeatable:
            lost = refusal(CallEvent.LOST_FOR_GOOD, CallCode.OUTCOME_UNKNOWN, _LOST)
            self._desk.settle(call, lost)
            return
        call.lost_as = CallCode.OUTCOME_UNKNOWN if started else CallCode.PAGE_GONE
        call.move(CallEvent.LOST)
        call.deadline = None
        self._make_homeless(call, since)

    def _make_homeless(self, call: Call, since: float) -> None:
        call.holder = None
        call.homeless_until = since + self._space.policy.page_grace

    def _move_or_end(self, call: Call, code: CallCode) -> None:
        found = self._desk.find(call)
        if found is None:
            self._nobody(call, code)
        else:
            self._move_to(call, found)

    def _move_to(self, call: Call, found: Found) -> None:
        args = fit(call.name, call.args, found.spec)
        changed = call.spec is None or call.spec.digest != found.spec.digest
        if isinstance(args, BadArguments):
            self._desk.refuse(call, CallCode.INVALID_ARGUMENTS, args.message)
            return
        self._desk.assign(call, found)
        if call.state is CallState.WAITING_APPROVAL:
            reason = call.approval.reason if call.approval else None
            self._desk.approvals.ask(call, CallEvent.ASKED, reason)
        elif changed and (call.judged or self._desk.approvals.needed(found.spec)):
            message = "the tool changed after the call was approved; call it again"
            self._desk.refuse(call, CallCode.UNAVAILABLE, message)
        else:
            call.move(CallEvent.MOVED)

    def _nobody(self, call: Call, code: CallCode) -> None:
        """Nobody is left who could carry it out."""
        event = CallEvent.NOBODY if call.state is CallState.QUEUED else CallEvent.REFUSED
        gone = code is CallCode.PAGE_GONE and call.repeatable
        self._desk.settle(call, refusal(event, code, _MAYBE if gone else _NOBODY[code]))
