"""The calls a session holds, and what its page's journal is told of them (protocol.md 2)."""

import pytest
from tests.core.scenarios import KEY

from handspan.core.holding import CANCELS_KEPT, Holding
from handspan_protocol.frames import JournalEntry, ToolCancel
from handspan_protocol.ids import CallId


def cancel(call_id="c1", reason="aborted"):
    return ToolCancel(call_id=CallId(call_id), attempt=1, reason=reason)


def told(holding, *calls):
    """What calls off these entries of a journal, (call, attempt) each."""
    journal = [JournalEntry(call_id=name, attempt=n, state="received") for name, n in calls]
    return [(x.call_id, x.attempt, x.reason) for x in holding.unknown(journal)]


def test_p12_a_session_holds_so_many_calls_and_any_attempt_of_those():
    holding = Holding(2)
    assert holding.take(KEY, "c1", 1)
    assert holding.take(KEY, "c2", 1)
    assert not holding.take(KEY, "c3", 1)
    assert holding.take(KEY, "c1", 2)
    assert holding.calls == {"c1": (KEY, 2), "c2": (KEY, 1)}


@pytest.mark.parametrize("why", [None, cancel()])
def test_what_is_given_up_is_held_no_longer_and_leaves_room(why):
    holding = Holding(1)
    holding.take(KEY, "c1", 1)
    assert holding.give_up("c1", why)
    assert holding.calls == {}
    assert not holding.give_up("c1", why)
    assert holding.take(KEY, "c2", 1)


def test_a_journal_is_told_what_is_not_held_at_that_attempt():
    holding = Holding(9)
    for name, attempt in (("held", 2), ("timed out", 1), ("silent", 1)):
        holding.take(KEY, name, attempt)
    holding.give_up("timed out", cancel("timed out", "timeout"))
    holding.give_up("silent", None)
    holding.give_up("never held", cancel("never held"))
    assert told(holding, ("held", 2)) == []
    asked = ("held", 1), ("timed out", 1), ("silent", 1), ("never held", 1)
    reasons = "superseded", "timeout", "unknown", "unknown"
    told_of = [(*call, reason) for call, reason in zip(asked, reasons, strict=True)]
    assert told(holding, *asked) == told_of


def test_a_call_that_is_held_again_is_superseded_and_no_longer_what_it_once_was():
    holding = Holding(9)
    holding.take(KEY, "c1", 1)
    holding.give_up("c1", cancel("c1", "timeout"))
    holding.take(KEY, "c1", 2)
    assert told(holding, ("c1", 1), ("c1", 2)) == [("c1", 1, "superseded")]


def test_p12_reasons_of_the_newest_calls_are_kept():
    holding = Holding(1)
    names = [f"c{n}" for n in range(CANCELS_KEPT + 1)]
    for name in names:
        holding.take(KEY, name, 1)
        holding.give_up(name, cancel(name))
    asked = (names[0], 1), (names[1], 1), (names[-1], 1)
    reasons = [reason for _, _, reason in told(holding, *asked)]
    assert reasons == ["unknown", "aborted", "aborted"]
