"""One call's machine: every state against every event, and what a page is told of a call."""

import pytest
from tests.core.builders import spec

from handspan.core.call import (
    TRANSITIONS,
    Call,
    CallEvent,
    CallState,
    Settlement,
    judge_result,
    judge_start,
    next_state,
    refusal,
)
from handspan.core.inputs import Answer
from handspan_protocol.errors import CallCode, CallStatus, PeerError
from handspan_protocol.ids import CallId, MessageId, RunId, SessionId

S, E = CallState, CallEvent
A, B = SessionId("a"), SessionId("b")

ALLOWED = {
    S.PROPOSED: {
        E.READY: S.QUEUED,
        E.ASKED: S.WAITING_APPROVAL,
        E.REFUSED: S.SETTLED,
        E.PROVIDED: S.SETTLED,
        E.DEADLINE: S.SETTLED,
        E.ABORTED: S.SETTLED,
    },
    S.WAITING_APPROVAL: {
        E.APPROVED: S.QUEUED,
        E.ASKED: S.WAITING_APPROVAL,
        E.DENIED: S.SETTLED,
        E.EXPIRED: S.SETTLED,
        E.REFUSED: S.SETTLED,
        E.DEADLINE: S.SETTLED,
        E.ABORTED: S.SETTLED,
    },
    S.QUEUED: {
        E.TURN: S.DISPATCHED,
        E.MOVED: S.QUEUED,
        E.NOBODY: S.SETTLED,
        E.REFUSED: S.SETTLED,
        E.DEADLINE: S.SETTLED,
        E.ABORTED: S.SETTLED,
    },
    S.DISPATCHED: {
        E.RESENT: S.DISPATCHED,
        E.LEAVE: S.STARTED,
        E.ANSWERED: S.SETTLED,
        E.LOST: S.QUEUED,
        E.REFUSED: S.SETTLED,
        E.DEADLINE: S.SETTLED,
        E.ABORTED: S.SETTLED,
    },
    S.STARTED: {
        E.ANSWERED: S.SETTLED,
        E.LOST: S.QUEUED,
        E.LOST_FOR_GOOD: S.SETTLED,
        E.DEADLINE: S.SETTLED,
        E.ABORTED: S.SETTLED,
    },
    S.SETTLED: {},
}
"""behaviour.md 3, written down a second time."""


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("event", E)
def test_every_state_takes_exactly_the_events_of_the_table(state, event):
    if event in ALLOWED[state]:
        assert next_state(state, event) is ALLOWED[state][event]
    else:
        with pytest.raises(AssertionError, match=f"{state} cannot take {event}"):
            next_state(state, event)


def test_the_table_has_nothing_that_behaviour_md_has_not():
    assert {(s, e): to for s, row in ALLOWED.items() for e, to in row.items()} == TRANSITIONS


def test_p2_a_settled_call_takes_nothing_more():
    assert not [event for state, event in TRANSITIONS if state is S.SETTLED]


# ---- statuses -----------------------------------------------------------------------------------


def call(state=S.DISPATCHED, *, attempt=1, held=None, settlement=None):
    return Call(
        id=CallId("c1"),
        run_id=RunId("r1"),
        depth=0,
        name="t",
        message_id=MessageId("m1"),
        state=state,
        attempt=attempt,
        held=held if held is not None else {A: attempt},
        settlement=settlement,
    )


def answered(**answer):
    failed = "error_message" in answer
    code = CallCode.HANDLER_ERROR if failed else None
    return call(S.SETTLED, settlement=Settlement(by=E.ANSWERED, answer=Answer(**answer), code=code))


def ended(by, code):
    return call(S.SETTLED, settlement=refusal(by, code, "over"))


ABORTED = ended(E.ABORTED, CallCode.ABORTED)
TIMED_OUT = ended(E.DEADLINE, CallCode.TIMEOUT)
LOST = ended(E.LOST_FOR_GOOD, CallCode.OUTCOME_UNKNOWN)
MOVED_ON = call(S.DISPATCHED, attempt=2, held={A: 1, B: 2})

STARTS = [
    ("dispatched and held", call(), A, 1, "go"),
    ("started already", call(S.STARTED), A, 1, "duplicate"),
    ("settled by an answer", answered(value=1), A, 1, "late"),
    ("settled by time", TIMED_OUT, A, 1, "late"),
    ("lost for good", LOST, A, 1, "late"),
    ("aborted", ABORTED, A, 1, "aborted"),
    ("an older attempt, with another page now", MOVED_ON, A, 1, "stale"),
    ("an older attempt, back in the queue", call(S.QUEUED), A, 1, "stale"),
    ("an attempt that was never made", call(), A, 2, "not_owner"),
    ("another page's attempt", MOVED_ON, A, 2, "not_owner"),
    ("a page that never held it", call(), B, 1, "not_owner"),
    ("never dispatched", call(S.QUEUED, attempt=0, held={}), A, 1, "not_owner"),
    ("a human is still asked", call(S.WAITING_APPROVAL, attempt=0, held={}), A, 1, "not_owner"),
]


@pytest.mark.parametrize(
    ("of", "session", "attempt", "status"), [c[1:] for c in STARTS], ids=[c[0] for c in STARTS]
)
def test_p7_a_page_that_asks_for_leave_is_told_how_the_call_stands(of, session, attempt, status):
    assert told(judge_start, of, session, attempt) == status


RESULTS = [
    ("dispatched, without a start", call(), A, 1, "applied"),
    ("started", call(S.STARTED), A, 1, "applied"),
    ("the same again", answered(value={"n": 1}), A, 1, "duplicate"),
    ("another one", answered(value={"n": 2}), A, 1, "conflict"),
    ("a value after an error", answered(error_message="broken"), A, 1, "conflict"),
    ("after the abort", ABORTED, A, 1, "aborted"),
    ("after its time", TIMED_OUT, A, 1, "late"),
    ("after it was lost", LOST, A, 1, "late"),
    ("an older attempt", MOVED_ON, A, 1, "stale"),
    ("back in the queue", call(S.QUEUED), A, 1, "stale"),
    ("an attempt that was never made", call(), A, 2, "not_owner"),
    ("a page that never held it", call(), B, 1, "not_owner"),
]


@pytest.mark.parametrize(
    ("of", "session", "attempt", "status"), [c[1:] for c in RESULTS], ids=[c[0] for c in RESULTS]
)
def test_p7_a_page_that_answers_is_told_what_became_of_it(of, session, attempt, status):
    """Equal means equal as JSON: {"n": 1.0} is {"n": 1}."""
    answer = Answer(value={"n": 1.0})
    assert told(lambda *a: judge_result(*a, answer), of, session, attempt) == status


EQUAL = [
    (Answer(value=None), Answer(value=None), True),
    (Answer(value=None), Answer(value=0), False),
    (Answer(value=0), Answer(value=False), False),
    (Answer(value={"a": 1, "b": 2}), Answer(value={"b": 2, "a": 1}), True),
    (Answer(value=None), Answer(content=()), False),
    (Answer(content=({"type": "text", "text": "a"},)), Answer(value="a"), False),
    (Answer(error_message="a", error_code="x"), Answer(error_message="a", error_code="y"), False),
    (Answer(error_message="", error_code="x"), Answer(error_message="", error_code="x"), True),
]


@pytest.mark.parametrize(("one", "other", "equal"), EQUAL)
def test_p7_a_repeat_is_harmless_when_it_is_equal_as_json(one, other, equal):
    code = CallCode.HANDLER_ERROR if one.failed else None
    of = call(S.SETTLED, settlement=Settlement(by=E.ANSWERED, answer=one, code=code))
    assert judge_result(of, A, 1, other) is (CallStatus.DUPLICATE if equal else CallStatus.CONFLICT)


def test_judging_changes_nothing():
    of = call()
    before = (of.state, of.attempt, dict(of.held), of.settlement)
    judge_start(of, A, 1)
    judge_result(of, A, 1, Answer(value=1))
    assert (of.state, of.attempt, of.held, of.settlement) == before


def told(judge, of, session, attempt):
    try:
        return judge(of, session, attempt)
    except PeerError as problem:
        return problem.code


# ---- what stands in history ---------------------------------------------------------------------

SHOWN = [
    (Answer(value="007"), "007"),
    (Answer(value='{"a":1}'), '{"a":1}'),
    (Answer(value="null"), "null"),
    (Answer(value=""), ""),
    (Answer(value={"a": 1}), '{"a":1}'),
    (Answer(value=None), "null"),
    (Answer(value=False), "false"),
    (Answer(content=({"type": "text", "text": "a"},)), ({"type": "text", "text": "a"},)),
]


@pytest.mark.parametrize(("answer", "shown"), SHOWN)
def test_p4_a_string_is_shown_as_it_is_and_all_else_as_its_json(answer, shown):
    """C062, C134."""
    assert Settlement(by=E.ANSWERED, answer=answer).shown() == shown


def test_a_failure_is_shown_with_the_pages_own_code_and_settles_under_ours():
    failed = Answer(error_code="no_such_row", error_message="row 7 is gone")
    settled = Settlement(by=E.ANSWERED, answer=failed, code=CallCode.HANDLER_ERROR)
    assert settled.shown() == '{"error":{"code":"no_such_row","message":"row 7 is gone"}}'
    assert settled.told() == {"outcome": "error", "code": "handler_error"}


def test_what_may_be_repeated_is_read_only_or_idempotent():
    for fields, repeatable in (
        ({}, False),
        ({"readOnly": True}, True),
        ({"idempotent": True}, True),
    ):
        of = call()
        of.spec = spec("t", **fields)
        assert of.repeatable is repeatable
