"""One conversation: its runs, its calls, its pages. `handle(input, now)` is all there is to it.

Owns which input goes where, who is on the thread, and what a newcomer is shown. `runs` moves the
runs, `desk` sees calls through. Deliberately knows no socket, no clock and no task: it is told what
happened and answers what must be done, in order. It is total: an input that comes too late or
means nothing changes nothing.

Above sits the driver; beside it `session`, which it knows only as messages.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from handspan_protocol.codec import frame_bytes
from handspan_protocol.errors import CallCode, CommandCode, PeerError, UsageError
from handspan_protocol.frames import Snapshot
from handspan_protocol.ids import CallId, SessionId

from . import inputs as i
from .admission import Roster
from .arguments import Compile
from .call import Call, CallState
from .desk import Desk
from .effects import Broke, Fact, ThreadEffect, ThreadOver
from .entries import Change, Entry
from .homes import Homes
from .inputs import ThreadInput
from .keeping import Keeping
from .live import Live
from .log import Log
from .parties import Asker, IdSource, PageView, ThreadKey
from .policy import Policy
from .reports import progress
from .revival import load, take_up
from .run import Run
from .runs import Runs
from .sink import change_state
from .space import Space

Json = Any

__all__ = ["Roster", "Thread"]


class Thread:
    """The machine. Only the driver calls `handle`, and nothing calls back into it meanwhile."""

    def __init__(self, key: ThreadKey, policy: Policy, ids: IdSource, roster: Roster) -> None:
        self.space = Space(key, policy, ids, roster.tools)
        self.runs = Runs(self.space, roster)
        self.homes = Homes(self.space, self.runs.desk)
        self.keeping: Keeping | None = None
        """What a store has of it; None: it is kept nowhere."""
        self.touched_at = 0.0
        """When it last heard anything; an idle thread may leave memory."""

    # ---- the machine -------------------------------------------------------------------------

    def handle(self, event: ThreadInput, now: float) -> list[ThreadEffect]:
        """Take one input at `now` (monotonic seconds); returns what must be done, in order."""
        space, runs = self.space, self.runs
        space.now = self.touched_at = now
        effects: list[ThreadEffect] = []
        space.effects = effects
        before = runs.run
        try:
            _HANDLERS[type(event)](self, event)
            runs.move_on()
        except Exception as error:  # total: half a change must not outlive its input (P14)
            self._mend(event, error)
        if before is not None and runs.run is not before:
            self._let_all_go()
        return effects

    def _mend(self, event: ThreadInput, error: Exception) -> None:
        """The run fails with `internal`, who asked is told so, and the thread is free again."""
        self.space.do(Broke(error))
        asker = getattr(event, "asker", None)
        if asker is not None:
            problem = PeerError(CommandCode.INTERNAL, "this could not be done")
            self.space.reply(asker, error=problem)
        self.runs.give_up()

    def keep(self, entries: Sequence[Entry], compile_schema: Compile) -> None:
        """From now on it is kept; `entries` are what a store has of it already."""
        load(self.space, self.runs, entries, compile_schema)
        self.keeping = Keeping(self.space, self.runs, entries)

    def changes(self, facts: Iterable[Fact]) -> list[Change]:
        """What must be written so that these facts, and all before them, are kept."""
        return self.keeping.changes(facts) if self.keeping is not None else []

    def next_deadline(self) -> float | None:
        """When DeadlinePassed is due; None: nothing waits for time."""
        desk = self.runs.desk
        return desk.next_deadline() if desk.open_calls else None

    @property
    def run(self) -> Run | None:
        """The run under way."""
        return self.runs.run

    @property
    def desk(self) -> Desk:
        return self.runs.desk

    @property
    def busy(self) -> bool:
        """Whether a run is under way or waits for its turn."""
        return self.runs.run is not None or bool(self.runs.queue)

    @property
    def idle(self) -> bool:
        """Whether it may leave memory: nothing runs, nothing waits, nobody reads."""
        return not self.busy and not self.space.pages

    # ---- as a socket's writer reads it (ports.Stream) ------------------------------------------

    @property
    def thread_id(self) -> str:
        return self.space.key.thread_id

    @property
    def log(self) -> Log:
        return self.space.log

    @property
    def epoch(self) -> str:
        return self.space.log.epoch

    @property
    def head(self) -> int:
        return self.space.log.head

    def snapshot(self, session_id: str) -> bytes:
        """The whole thread as it is now, encoded; `yours` marks the calls of this session."""
        return frame_bytes(self.picture(SessionId(session_id)))

    def picture(self, session: SessionId) -> Snapshot:
        """State(snapshot) + later events == state(all events) (P9)."""
        run = self.run if self.run is not None and self.run.announced else None
        told = {"runId": run.id, "depth": run.depth, "status": run.status} if run else None
        return Snapshot(
            thread_id=self.space.key.thread_id,
            epoch=self.epoch,
            offset=self.head,
            messages=self.space.transcript.view(),
            state=self.space.transcript.state,
            run=told,
            last_run=self.runs.endings.last_run,
            calls=tuple(_pictured(c, session) for c in self.desk.calls_of(run)) if run else (),
            open=_opened(self.runs.live),
            suggestions=self.space.suggestions,
        )

    # ---- pages -------------------------------------------------------------------------------

    def _page_opened(self, event: i.PageOpened) -> None:
        self.space.readers.add(event.page.session)
        self._page_seen(event.page)
        self.desk.ask_again(event.page.session)

    def _page_closed(self, event: i.PageClosed) -> None:
        self.space.readers.discard(event.session)
        if self.run is not None and self.run.starter != event.session:
            self.homes.vacate(event.session, self.space.now)
            self.homes.settle_in()
        self._let_go(event.session)

    def _page_changed(self, event: i.PageChanged) -> None:
        if event.page.session in self.space.pages:
            self._page_seen(event.page)

    def _page_seen(self, page: PageView) -> None:
        self.space.pages[page.session] = page
        self.homes.changed(page.session)

    def _page_returned(self, event: i.PageReturned) -> None:
        session = event.page.session
        if session not in self.space.pages:
            return
        same = event.document_before == event.page.document
        self.space.pages[session] = event.page
        self.homes.returned(session, event.journal, same_document=same)
        self.homes.changed(session)
        if session in self.space.readers:
            self.desk.ask_again(session)

    def _document_gone(self, event: i.DocumentGone) -> None:
        page = self.space.pages.get(event.session)
        if page is None:
            return
        if event.ended:
            del self.space.pages[event.session]
            self.space.readers.discard(event.session)
        else:
            self.space.pages[event.session] = replace(page, tools={}, attached=False, gone=True)
        self.homes.gone(event.session, event.since)
        self.homes.settle_in()
        self._abort_without_pages()

    def _abort_without_pages(self) -> None:
        wanted = self.space.policy.on_disconnect == "abort"
        if wanted and self.run is not None and not self._anybody_there():
            self.runs.endings.abort(self.run)

    def _anybody_there(self) -> bool:
        return not all(page.gone for page in self.space.pages.values())

    def _let_all_go(self) -> None:
        for session in list(self.space.pages):
            self._let_go(session)

    def _let_go(self, session: SessionId) -> None:
        """Forget a page that neither reads, nor started a run, nor holds a call."""
        holds = any(c.holder == session and c.out for c in self.desk.open_calls.values())
        started = self.run is not None and self.run.starter == session
        started = started or any(r.asker.session == session for r in self.runs.queue)
        if session not in self.space.readers and not holds and not started:
            self.space.pages.pop(session, None)

    # ---- calls -------------------------------------------------------------------------------

    def _known(self, call_id: CallId) -> Call:
        call = self.desk.calls.get(call_id)
        if call is None:
            raise PeerError(CommandCode.UNKNOWN_CALL, "there is no such call")
        return call

    def _answered(self, asker: Asker, judge: Callable[[], Any]) -> None:
        try:
            self.space.reply(asker, {"status": str(judge())})
        except PeerError as problem:
            self.space.reply(asker, error=problem)

    def _leave_asked(self, event: i.LeaveAsked) -> None:
        session = _of_page(event.asker)
        self._answered(
            event.asker,
            lambda: self.desk.leave(self._known(event.call_id), session, event.attempt),
        )

    def _progress_made(self, event: i.ProgressMade) -> None:
        call = self.desk.open_calls.get(event.call_id)
        if call is not None:
            progress(self.space, call, event)

    def _result_given(self, event: i.ResultGiven) -> None:
        session = _of_page(event.asker)
        self._answered(
            event.asker,
            lambda: self.desk.result(
                self._known(event.call_id), session, event.attempt, event.answer
            ),
        )

    def _call_refused(self, event: i.CallRefused) -> None:
        call = self.desk.open_calls.get(event.call_id)
        if call is None or call.holder != event.session or call.attempt != event.attempt:
            return
        if call.state is CallState.STARTED:  # of a process that allowed more
            self.homes.left_behind(call)
        else:
            self.desk.refuse(call, CallCode.LIMIT, "the page holds too many open calls")

    def _approval_given(self, event: i.ApprovalGiven) -> None:
        self._answered(event.asker, lambda: self._approve(event))

    def _approve(self, event: i.ApprovalGiven) -> Any:
        call = self._known(event.call_id)
        status = self.runs.proposals.approve(call, event)
        self.homes.approved(call)
        return status

    def _tool_returned(self, event: i.ToolReturned) -> None:
        call = self.desk.open_calls.get(event.call_id)
        if call is not None and call.out and call.holder is None:
            self.desk.answer(call, event.answer)

    def _deadline_passed(self, _: i.DeadlinePassed) -> None:
        self.desk.deadline_passed()
        self.homes.settle_in()

    def _deleted(self, _: i.Deleted) -> None:
        self.runs.end_all()
        self.space.do(ThreadOver())

    # ---- what hooks say ----------------------------------------------------------------------

    def _call_judged(self, event: i.CallJudged) -> None:
        call = self.desk.calls.get(event.call_id)
        if call is not None:
            self.runs.proposals.judged(call, event.verdict, event.reason)

    def _arguments_repaired(self, event: i.ArgumentsRepaired) -> None:
        call = self.desk.calls.get(event.call_id)
        if call is not None:
            args = None if event.args is None else dict(event.args)
            self.runs.proposals.repaired(call, args)

    def _result_revised(self, event: i.ResultRevised) -> None:
        call = self.desk.calls.get(event.call_id)
        if call is not None:
            self.desk.revised(call, event.answer)

    # ---- state -------------------------------------------------------------------------------

    def _state_given(self, event: i.StateGiven) -> None:
        try:
            change_state(self.space, event.patch, event.state)
            self.runs.state_changed()
        except UsageError as problem:
            place = "/patch" if event.patch is not None else "/state"
            error = PeerError(CommandCode.INVALID_FRAME, str(problem), place)
            self.space.reply(event.asker, error=error)
        except PeerError as problem:
            self.space.reply(event.asker, error=problem)
        else:
            self.space.reply(event.asker, {})


def _of_page(asker: Asker) -> SessionId:
    if asker.session is None:
        raise AssertionError("only a page holds calls")
    return asker.session


def _opened(live: Live) -> dict[str, list[str]]:
    """What is under way, of the run and of its sub-runs."""
    steps = [run.step for run in live]
    emissions = [step.emission for step in steps if step.emission is not None]
    return {
        "messages": [name for emission in emissions for name in emission.open_texts],
        "reasoning": [name for emission in emissions for name in emission.open_reasoning],
        "calls": [name for emission in emissions for name in emission.open_calls],
        "steps": [step.name for step in steps if step.opened],
        "subagents": [run.id for run in live if run.owner is not None],
    }


def _pictured(call: Call, session: SessionId) -> dict[str, Json]:
    return {
        "callId": call.id,
        "name": call.name,
        "args": call.args,
        "attempt": call.attempt,
        "yours": call.holder == session and call.open,
        "last": call.last,
    }


_HANDLERS: Final[Mapping[type, Callable[[Thread, Any], None]]] = {
    i.PageOpened: Thread._page_opened,
    i.PageClosed: Thread._page_closed,
    i.PageChanged: Thread._page_changed,
    i.PageReturned: Thread._page_returned,
    i.DocumentGone: Thread._document_gone,
    i.RunRequested: lambda thread, event: thread.runs.requested(event),
    i.InvokeRequested: lambda thread, event: thread.runs.requested(event),
    i.AbortRequested: lambda thread, event: thread.runs.abort_requested(event),
    i.LeaveAsked: Thread._leave_asked,
    i.ProgressMade: Thread._progress_made,
    i.ResultGiven: Thread._result_given,
    i.CallRefused: Thread._call_refused,
    i.ApprovalGiven: Thread._approval_given,
    i.StateGiven: Thread._state_given,
    i.TextSaid: lambda thread, event: thread.runs.speech.text_said(event),
    i.ReasoningSaid: lambda thread, event: thread.runs.speech.reasoning_said(event),
    i.EventSaid: lambda thread, event: thread.runs.speech.event_said(event),
    i.CallSaid: lambda thread, event: thread.runs.speech.call_said(event),
    i.HandoffSaid: lambda thread, event: thread.runs.speech.handoff_said(event),
    i.StateSaid: lambda thread, event: thread.runs.speech.state_said(event),
    i.UsageSaid: lambda thread, event: thread.runs.speech.usage_said(event),
    i.CallForgone: lambda thread, event: thread.desk.forgo(event.ticket),
    i.StepEnded: lambda thread, event: thread.runs.speech.step_ended(event),
    i.StepFailed: lambda thread, event: thread.runs.speech.step_failed(event),
    i.StepShaped: lambda thread, event: thread.runs.speech.step_shaped(event),
    i.DelegateSaid: lambda thread, event: thread.runs.subruns.delegate_said(event),
    i.RunJudged: lambda thread, event: thread.runs.run_judged(event),
    i.CallJudged: Thread._call_judged,
    i.ArgumentsRepaired: Thread._arguments_repaired,
    i.ResultRevised: Thread._result_revised,
    i.StepReviewed: lambda thread, event: thread.runs.step_reviewed(event),
    i.StopsJudged: lambda thread, event: thread.runs.stops_judged(event),
    i.SuggestionsMade: lambda thread, event: thread.runs.suggesting.made(event),
    i.ToolReturned: Thread._tool_returned,
    i.Restored: lambda thread, event: take_up(thread.space, thread.runs, thread.homes, event),
    i.Deleted: Thread._deleted,
    i.Evicted: lambda thread, _: thread.runs.suggesting.stop(),
    i.DeadlinePassed: Thread._deadline_passed,
}
