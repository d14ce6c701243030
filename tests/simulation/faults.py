"""Faults planted in the product, each of which the checker must notice.

Owns one small change of the product a name; `planted` makes it for as long as a block lasts. Each
has the worlds in which it can show: some need a server that crashes.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from handspan.core import call, desk, keys, replies, reports, runs, space
from handspan.core import session as sessions
from handspan.core.approvals import Approvals
from handspan.core.endings import Endings
from handspan.core.thread import Thread
from handspan.shell import crew, ledger, writer
from handspan_protocol.errors import CallStatus

Fault = Callable[[Callable[[Any, str, Any], None]], None]
"""Given `change(owner, name, value)`, makes the fault."""


# ---- what is kept ------------------------------------------------------------------------------


def _no_record(change: Any) -> None:
    """Nothing of a thread is handed to the store."""
    change(ledger.Ledger, "note", lambda *_: None)


def _unrecorded_start(change: Any) -> None:
    """That a call was started is not kept."""
    record = space.Space.record

    def all_but_starts(self: Any, kind: str, **data: Any) -> None:
        if kind != "call_started":
            record(self, kind, **data)

    change(space.Space, "record", all_but_starts)


def _early_reply(change: Any) -> None:
    """Pages are told before it is kept."""
    change(ledger.Ledger, "after", lambda self, act: act())


def _forgotten_replies(change: Any) -> None:
    """A command that was answered is carried out again when it is sent again."""
    change(replies.Replies, "begin", _begin_anew)


def _begin_anew(self: Any, document: Any, command: Any) -> str:
    self._entries.pop((document, command.id), None)
    self._entries[document, command.id] = replies._Entry(b"")
    return "new"


# ---- who may say what --------------------------------------------------------------------------


def _any_attempt(change: Any) -> None:
    """Whatever attempt a page names counts as the newest."""

    def start(call_: Any, session: Any, attempt: int) -> CallStatus:
        return call.judge_start(call_, session, call_.held.get(session, attempt))

    def result(call_: Any, session: Any, attempt: int, answer: Any) -> CallStatus:
        return call.judge_result(call_, session, call_.held.get(session, attempt), answer)

    change(desk, "judge_start", start)
    change(desk, "judge_result", result)


def _any_session(change: Any) -> None:
    """Whoever answers a call settles it."""
    change(call, "_check_holder", lambda *_: None)


def _applied_twice(change: Any) -> None:
    """The same result again counts as applied."""

    def result(*args: Any) -> CallStatus:
        status = call.judge_result(*args)
        return CallStatus.APPLIED if status is CallStatus.DUPLICATE else status

    change(desk, "judge_result", result)


def _go_twice(change: Any) -> None:
    """Leave is given again to who asks again."""
    leave = desk.Desk.leave

    def generous(self: Any, call_: Any, session: Any, attempt: int) -> CallStatus:
        status = leave(self, call_, session, attempt)
        return CallStatus.GO if status is CallStatus.DUPLICATE else status

    change(desk.Desk, "leave", generous)


def _no_questions(change: Any) -> None:
    """Nobody is asked for approval."""
    change(Approvals, "needed", lambda *_: False)


# ---- sessions ----------------------------------------------------------------------------------


def _any_secret(change: Any) -> None:
    """A session is resumed with whatever secret."""
    change(sessions.Session, "knows", lambda *_: True)


def _old_secrets(change: Any) -> None:
    """A secret is never void."""

    def rotate(self: Any, fresh: str, _: Any) -> None:
        self.hashes = (keys._hash(fresh), *self.hashes)

    change(keys.Secrets, "rotate", rotate)


def _one_secret(change: Any) -> None:
    """The secret that was shown is void at once, though the new one may get lost."""

    def rotate(self: Any, fresh: str, _: Any) -> None:
        self.hashes = (keys._hash(fresh),)

    change(keys.Secrets, "rotate", rotate)


# ---- calls -------------------------------------------------------------------------------------


def _all_repeatable(change: Any) -> None:
    """Every tool counts as one that may run again."""
    change(call.Call, "repeatable", property(lambda _: True))


def _lost_cancel(change: Any) -> None:
    """A page at work is not told to stop."""
    change(desk, "_REASONS", {})


def _no_withdrawal(change: Any) -> None:
    """A call that settled while its order waited is sent all the same."""
    offer = writer.Writer.offer

    def for_good(
        self: Any, call_id: Any, frame: bytes, thread_id: str, after: int, *_: Any
    ) -> None:
        offer(self, call_id, frame, thread_id, after)

    change(writer.Writer, "withdraw", lambda *_: False)
    change(writer.Writer, "offer", for_good)


def _out_of_order(change: Any) -> None:
    """Results are shown as they come, not in call order."""

    def show(space_: Any, calls: Any) -> None:
        for call_ in calls:
            reports.show_results(space_, [call_])

    change(runs, "show_results", show)


# ---- runs --------------------------------------------------------------------------------------


def _deaf_abort(change: Any) -> None:
    """An abort is answered, and the run goes on."""
    abort = Endings.abort

    def deaf(self: Any, run: Any) -> None:
        if run.parent is not None:
            abort(self, run)

    change(Endings, "abort", deaf)


def _agent_goes_on(change: Any) -> None:
    """An agent that is called off is not cancelled."""
    change(crew.Crew, "call_off", lambda *_: None)


def _unknown_run(change: Any) -> None:
    """A run id may be had again."""
    why_not_now = runs.Runs._why_not_now

    def forgetful(self: Any, request: Any) -> Any:
        self.live.used.clear()
        return why_not_now(self, request)

    change(runs.Runs, "_why_not_now", forgetful)


# ---- streams -----------------------------------------------------------------------------------


def _renumbered(change: Any) -> None:
    """A page that comes back gets its last event again, under another number."""
    _shift(change, -1)


def _event_lost(change: Any) -> None:
    """A page that comes back misses an event."""
    _shift(change, 1)


def _shift(change: Any, by: int) -> None:
    opened = writer.Writer.open

    def shifted(self: Any, stream: Any, offset: int | None) -> None:
        if offset is not None and 0 <= offset + by <= stream.log.head:
            offset += by
        opened(self, stream, offset)

    change(writer.Writer, "open", shifted)


def _snapshot_ahead(change: Any) -> None:
    """A snapshot says that it is one event further than it is."""
    picture = Thread.picture

    def ahead(self: Any, session: Any) -> Any:
        shown = picture(self, session)
        return replace(shown, offset=shown.offset + 1)

    change(Thread, "picture", ahead)


def _uncommitted_shown(change: Any) -> None:
    """A log shows what is not kept yet."""
    from handspan.core.log import Log

    change(Log, "hold", lambda *_: None)


# ---- all of them -------------------------------------------------------------------------------

FAULTS: Final[dict[str, tuple[Fault, bool | None]]] = {
    "no_record": (_no_record, True),
    "unrecorded_start": (_unrecorded_start, True),
    "early_reply": (_early_reply, True),
    "uncommitted_shown": (_uncommitted_shown, True),
    "forgotten_replies": (_forgotten_replies, None),
    "any_attempt": (_any_attempt, None),
    "any_session": (_any_session, None),
    "applied_twice": (_applied_twice, None),
    "go_twice": (_go_twice, None),
    "no_questions": (_no_questions, None),
    "any_secret": (_any_secret, None),
    "old_secrets": (_old_secrets, None),
    "one_secret": (_one_secret, None),
    "all_repeatable": (_all_repeatable, None),
    "lost_cancel": (_lost_cancel, None),
    "no_withdrawal": (_no_withdrawal, None),
    "out_of_order": (_out_of_order, None),
    "deaf_abort": (_deaf_abort, None),
    "agent_goes_on": (_agent_goes_on, None),
    "unknown_run": (_unknown_run, None),
    "renumbered": (_renumbered, None),
    "event_lost": (_event_lost, None),
    "snapshot_ahead": (_snapshot_ahead, None),
}
"""Each with whether it needs a store that lasts; None: it shows in any world."""


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The product with this fault in it; None: as it is."""
    with ExitStack() as changes:
        if name is not None:
            fault, _ = FAULTS[name]
            fault(
                lambda owner, attribute, value: changes.enter_context(
                    patch.object(owner, attribute, value)
                )
            )
        yield


__all__ = ["FAULTS", "planted"]
