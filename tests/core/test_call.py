"""One call's machine: every state against every event, and what a page is told of a call."""

from dataclasses import FrozenInstanceError

import pytest
from tests.core.builders import spec

from handspan.core.answer import Answer
from handspan.core.call import (
    TRANSITIONS,
    Approval,
    Call,
    CallEvent,
    CallState,
    Settlement,
    judge_result,
    judge_start,
    next_state,
    refusal,
)
from handspan.core.effects import CallValue
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


def call(state=S.DISPATCHED, *, attempt=1, held=None, settlement=None, ticket=None):
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
        ticket=ticket,
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
    ("an older attempt of the same page", call(attempt=2), A, 1, "stale"),
    ("an attempt of many", call(attempt=1_000), A, int("1000"), "go"),
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
    ("an older attempt of the same page", call(attempt=2), A, 1, "stale"),
    ("an attempt of many", call(attempt=1_000), A, int("1000"), "applied"),
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


# ---- a call as data -----------------------------------------------------------------------------


def test_a_call_is_proposed_and_nothing_is_known_of_it():
    of = Call(id="c1", run_id="r1", depth=0, name="t", message_id="m1")
    said = {name: getattr(of, name) for name in Call.__slots__}
    assert said == {
        "id": "c1",
        "run_id": "r1",
        "depth": 0,
        "name": "t",
        "message_id": "m1",
        "owner": None,
        "ticket": None,
        "by_tool": False,
        "hook": None,
        "judged": False,
        "state": S.PROPOSED,
        "ended": False,
        "over_limit": None,
        "pieces": [],
        "args": {},
        "spec": None,
        "holder": None,
        "attempt": 0,
        "held": {},
        "lost_as": CallCode.NO_CLIENT,
        "deadline": None,
        "homeless_until": None,
        "approval": None,
        "asked": False,
        "decision": None,
        "settlement": None,
        "revised": None,
        "last": None,
        "result_shown": False,
        "progress_at": float("-inf"),
        "progress_waiting": None,
    }


def test_p8_a_call_is_itself_and_equals_no_other():
    one, other = call(), call()
    assert one != other
    assert len({one, other, one}) == 2
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize(
    "made",
    [
        lambda: Call("c1", "r1", 0, "t", "m1"),
        lambda: Settlement(E.ANSWERED, Answer()),
        lambda: Approval("d", 1.0),
    ],
)
def test_what_a_call_is_made_of_is_named(made):
    with pytest.raises(TypeError, match="positional"):
        made()


FACTS = [
    Settlement(by=E.ANSWERED, answer=Answer(value=1)),
    Approval(digest="d", expires_at=1.0),
]


@pytest.mark.parametrize("fact", FACTS, ids=["settlement", "approval"])
def test_p2_how_a_call_ended_and_what_was_asked_cannot_be_changed(fact):
    for name in type(fact).__slots__:
        with pytest.raises(FrozenInstanceError):
            setattr(fact, name, None)
    assert not hasattr(fact, "__dict__")
    assert (FACTS[0].code, FACTS[1].reason) == (None, None)


def test_a_call_takes_only_what_its_table_has():
    of = call(S.QUEUED)
    of.move(E.TURN)
    assert of.state is S.DISPATCHED
    with pytest.raises(AssertionError, match="dispatched cannot take turn"):
        of.move(E.TURN)
    assert of.state is S.DISPATCHED


STATES = [
    (S.PROPOSED, True, False),
    (S.WAITING_APPROVAL, True, False),
    (S.QUEUED, True, False),
    (S.DISPATCHED, True, True),
    (S.STARTED, True, True),
    (S.SETTLED, False, False),
]


@pytest.mark.parametrize(("state", "is_open", "is_out"), STATES)
def test_open_is_announced_and_not_settled_and_out_is_somebodys_work(state, is_open, is_out):
    of = call(state)
    assert (of.open, of.out, of.over) == (is_open, is_out, not is_open)
    of.hook = "after_call"
    assert of.over is False


def settlement(by):
    return Settlement(by=by, answer=Answer(value=1))


INSIDE = [
    ("open", call(), False),
    ("somebody in the step waits for it", call(ticket="w"), True),
    ("a page answered", call(S.SETTLED, settlement=settlement(E.ANSWERED)), False),
    ("the agent's own side did", call(S.SETTLED, settlement=settlement(E.PROVIDED)), True),
]


@pytest.mark.parametrize(("of", "had"), [c[1:] for c in INSIDE], ids=[c[0] for c in INSIDE])
def test_what_the_step_that_called_has_already_is_known(of, had):
    assert of.had_inside is had


@pytest.mark.parametrize("hook", [None, "repair_arguments", "before_call", "after_call"])
def test_p5_a_hooks_answer_is_taken_while_it_is_awaited_and_once(hook):
    for asked in ("repair_arguments", "before_call", "after_call"):
        of = call()
        of.hook = hook
        assert of.awaited(asked) is (asked == hook)
        assert of.hook == (None if asked == hook else hook)
        assert of.awaited(asked) is False


def test_p5_a_hook_is_known_by_its_name():
    of = call()
    of.hook = "".join(["before", "_call"])
    assert of.awaited("before_call") is True


def test_a_hooks_answer_stands_before_the_settlement_for_everybody_but_who_answered():
    of = answered(value=1)
    assert of.final is of.settlement
    of.revised = Settlement(by=E.ANSWERED, answer=Answer(value=2))
    assert of.final is of.revised
    assert (of.value().value, call().final) == (2, None)
    assert judge_result(of, A, 1, Answer(value=1)) is CallStatus.DUPLICATE


def test_a_call_is_of_its_sub_run_or_of_the_run():
    of = call()
    assert of.own_run_id == "r1"
    of.owner = RunId("sub")
    assert of.own_run_id == "sub"


@pytest.mark.parametrize(
    ("pieces", "raw"), [([], ""), (["{}"], "{}"), (['{"a', '":', "1}"], '{"a":1}'), ([""], "")]
)
def test_p3_the_text_of_a_call_is_all_its_pieces(pieces, raw):
    of = call()
    of.pieces = pieces
    assert (of.raw, of.raw) == (raw, raw)
    of.pieces.append("more")
    assert of.raw == raw + "more"
    assert len(of.pieces) == 1


@pytest.mark.parametrize("pieces", [[], ["{}"]])
def test_a_text_that_is_whole_is_not_joined_again(pieces):
    of = call()
    of.pieces = pieces
    before = list(pieces)
    assert of.raw == "".join(before)
    assert of.pieces is pieces
    assert pieces == before


def test_a_call_is_the_servers_while_no_page_has_it_and_none_is_waited_for():
    of = call()
    assert of.is_servers
    of.homeless_until = 30.0
    assert not of.is_servers
    of.holder, of.homeless_until = A, None
    assert not of.is_servers


FLAGS = [
    ({}, False, False),
    ({"readOnly": True}, True, True),
    ({"idempotent": True}, True, False),
    ({"parallel": True}, False, True),
]


@pytest.mark.parametrize(("fields", "repeatable", "overlaps"), FLAGS)
def test_p2_its_tool_says_whether_a_call_may_be_repeated_and_whether_it_may_overlap(
    fields, repeatable, overlaps
):
    of = call()
    assert (of.repeatable, of.overlaps) == (False, False)
    of.spec = spec("t", **fields)
    assert (of.repeatable, of.overlaps) == (repeatable, overlaps)


def test_p2_each_turn_is_a_new_attempt_which_its_holder_may_answer():
    of = call(S.QUEUED, attempt=0, held={})
    of.homeless_until = 5.0
    of.dispatch(A, 60.0)
    assert (of.state, of.attempt, of.held) == (S.DISPATCHED, 1, {A: 1})
    assert (of.deadline, of.homeless_until) == (60.0, None)
    of.move(E.LOST)
    of.dispatch(B, 90.0)
    assert (of.attempt, of.held, of.deadline) == (2, {A: 1, B: 2}, 90.0)
    of.move(E.LOST)
    of.dispatch(None, 99.0)
    assert (of.attempt, of.held) == (3, {A: 1, B: 2})


def test_p2_a_settled_call_waits_for_nothing_more():
    of = call()
    of.deadline, of.homeless_until, of.progress_waiting = 1.0, 2.0, {"progress": 1}
    ending = refusal(E.DEADLINE, CallCode.TIMEOUT, "too slow")
    of.settle(ending)
    assert (of.state, of.settlement) == (S.SETTLED, ending)
    assert (of.deadline, of.homeless_until, of.progress_waiting) == (None, None, None)
    with pytest.raises(AssertionError, match="settled cannot take answered"):
        of.settle(Settlement(by=E.ANSWERED, answer=Answer()))
    assert of.settlement is ending


def test_a_refusal_has_words_for_the_model():
    assert refusal(E.REFUSED, CallCode.LIMIT, "too many") == Settlement(
        by=E.REFUSED, answer=Answer(error_message="too many"), code=CallCode.LIMIT
    )


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (None, {"outcome": "ok"}),
        (CallCode.TIMEOUT, {"outcome": "error", "code": "timeout"}),
        (CallCode.DENIED, {"outcome": "denied", "code": "denied"}),
    ],
)
def test_an_end_is_told_by_its_outcome_and_its_code(code, outcome):
    assert Settlement(by=E.ANSWERED, answer=Answer(), code=code).told() == outcome


@pytest.mark.parametrize(("message", "shown"), [("slow", "slow"), (None, ""), ("", "")])
def test_a_failure_of_ours_is_shown_under_its_own_code(message, shown):
    ending = Settlement(by=E.DEADLINE, answer=Answer(error_message=message), code=CallCode.TIMEOUT)
    assert ending.shown() == f'{{"error":{{"code":"timeout","message":"{shown}"}}}}'


PARTS = ({"type": "text", "text": "a"},)
VALUES = [
    (answered(value={"n": 1}), {"outcome": "ok", "value": {"n": 1}}),
    (answered(content=PARTS), {"outcome": "ok", "content": PARTS}),
    (TIMED_OUT, {"outcome": "error", "code": "timeout", "message": "over"}),
    (answered(error_message="no"), {"outcome": "error", "code": "handler_error", "message": "no"}),
    (
        answered(error_message="no", error_code="mine"),
        {"outcome": "error", "code": "mine", "message": "no"},
    ),
    (answered(value=1, error_code="stray"), {"outcome": "ok", "value": 1}),
]


@pytest.mark.parametrize(("of", "value"), VALUES)
def test_a_settled_call_is_given_to_agents_as_a_value(of, value):
    assert of.value() == CallValue(call_id="c1", name="t", **value)


def test_a_call_that_is_open_has_no_value():
    with pytest.raises(AssertionError, match="c1 is not settled"):
        call().value()


def test_p7_an_answer_to_a_call_that_the_provider_carried_out_is_late():
    of = call(S.SETTLED, settlement=Settlement(by=E.PROVIDED, answer=Answer(value=1)))
    assert judge_result(of, A, 1, Answer(value=1)) is CallStatus.LATE


@pytest.mark.parametrize("state", [S.QUEUED, S.WAITING_APPROVAL])
def test_p7_a_call_that_is_back_in_the_queue_is_nobodys(state):
    of = call(state)
    assert judge_start(of, A, 1) is CallStatus.STALE
    assert judge_result(of, A, 1, Answer()) is CallStatus.STALE
