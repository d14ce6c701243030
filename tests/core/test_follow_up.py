"""Whether a run goes on: every row of behaviour.md 2 alone, and against each later one."""

import itertools

import pytest

from handspan.core.follow_up import (
    CallFacts,
    Continue,
    Judge,
    StepFacts,
    Stop,
    should_continue,
    wants_follow_up,
)
from handspan.core.policy import Policy
from handspan_protocol.errors import StopReason

R = StopReason
GOOD = CallFacts(failed=False, follow_up=True)
FAILED = CallFacts(failed=True, follow_up=True)
SILENT = CallFacts(failed=False, follow_up=False)
POLICY = Policy(max_depth=3, max_repeats=3, stop_when=[lambda steps: False])

ROWS = {
    R.ABORTED: {"aborted": True},
    R.TRUNCATED: {"finish_reason": "length"},
    R.COMPLETED: {"calls": ()},
    R.NO_FOLLOW_UP: {"calls": (SILENT,)},
    R.STOP_CONDITION: {"stop_condition": True},
    R.MAX_DEPTH: {"depth": 3},
    R.REPEATING: {"repeats": 3},
}
"""What makes each row hold, where no earlier one does."""


def step(**fields):
    given = {"depth": 0, "calls": (GOOD,), "stop_condition": False}
    return StepFacts(**(given | fields))


def test_a_step_with_a_good_call_goes_on():
    assert should_continue(step(), POLICY) == Continue()


@pytest.mark.parametrize("reason", ROWS)
def test_each_row_alone_stops_for_its_reason(reason):
    assert should_continue(step(**ROWS[reason]), POLICY) == Stop(reason)


ORDER = list(ROWS)
PAIRS = [
    (earlier, later)
    for earlier, later in itertools.combinations(ORDER, 2)
    if not ROWS[earlier].keys() & ROWS[later].keys()
]


@pytest.mark.parametrize(("earlier", "later"), PAIRS)
def test_an_earlier_row_wins_over_a_later_one(earlier, later):
    both = step(**ROWS[later], **ROWS[earlier])
    assert should_continue(both, POLICY) == Stop(earlier)


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "unknown", "new_kind"])
def test_a_model_that_was_cut_off_stops(reason):
    assert should_continue(step(finish_reason=reason), POLICY) == Stop(R.TRUNCATED)


@pytest.mark.parametrize("reason", [None, "stop", "tool_calls"])
def test_a_whole_turn_goes_on(reason):
    assert should_continue(step(finish_reason=reason), POLICY) == Continue()


INVOKED = [
    ("it succeeded and wants one", {"invoke_follow_up": True}, Continue()),
    ("it succeeded and wants none", {}, Stop(R.NO_FOLLOW_UP)),
    ("it failed", {"invoke_follow_up": True, "calls": (FAILED,)}, Stop(R.NO_FOLLOW_UP)),
    ("its tool wants none", {"invoke_follow_up": True, "calls": (SILENT,)}, Continue()),
    ("stop", {"invoke_follow_up": True, "stop_condition": True}, Stop(R.STOP_CONDITION)),
    ("depth", {"invoke_follow_up": True, "depth": 3}, Stop(R.MAX_DEPTH)),
    ("cut", {"invoke_follow_up": True, "finish_reason": "length"}, Stop(R.TRUNCATED)),
    ("aborted", {"invoke_follow_up": True, "aborted": True}, Stop(R.ABORTED)),
]


@pytest.mark.parametrize(
    ("facts", "verdict"), [c[1:] for c in INVOKED], ids=[c[0] for c in INVOKED]
)
def test_a_button_decides_itself_and_goes_on_at_the_stop_conditions(facts, verdict):
    """C123: the trigger's choice rules over the tool's default."""
    assert should_continue(step(invoked=True, **facts), POLICY) == verdict


HANDED = [
    ("without a call", {"calls": ()}, Continue()),
    ("its calls want none", {"calls": (SILENT,)}, Continue()),
    ("a stop condition is not asked", {"stop_condition": True}, Continue()),
    ("depth", {"calls": (), "depth": 3}, Stop(R.MAX_DEPTH)),
    ("cut", {"finish_reason": "length"}, Stop(R.TRUNCATED)),
    ("aborted", {"aborted": True}, Stop(R.ABORTED)),
]


@pytest.mark.parametrize(("facts", "verdict"), [c[1:] for c in HANDED], ids=[c[0] for c in HANDED])
def test_a_step_that_handed_over_goes_on_at_the_depth(facts, verdict):
    assert should_continue(step(handed_over=True, **facts), POLICY) == verdict


def test_two_agents_that_hand_the_same_calls_to_and_fro_are_repeating():
    assert should_continue(step(handed_over=True, repeats=3), POLICY) == Stop(R.REPEATING)


def test_stop_conditions_are_asked_for_only_where_there_are_any():
    assert should_continue(step(stop_condition=None), POLICY) == Judge()
    assert should_continue(step(stop_condition=None), Policy()) == Continue()


@pytest.mark.parametrize("earlier", [R.ABORTED, R.TRUNCATED, R.COMPLETED, R.NO_FOLLOW_UP])
def test_stop_conditions_are_not_asked_for_where_an_earlier_row_decides(earlier):
    assert should_continue(step(stop_condition=None, **ROWS[earlier]), POLICY) == Stop(earlier)


def test_steps_without_calls_are_no_repetition():
    quiet = step(calls=(), handed_over=True, repeats=9)
    assert should_continue(quiet, POLICY) == Continue()


WISHES = [
    (GOOD, "resume", True),
    (GOOD, "stop", True),
    (FAILED, "resume", True),
    (FAILED, "stop", False),
    (SILENT, "resume", False),
    (CallFacts(failed=True, follow_up=False), "resume", False),
    (CallFacts(failed=True, follow_up=False), "stop", False),
]


@pytest.mark.parametrize(("call", "on_error", "wants"), WISHES)
def test_a_call_wants_a_follow_up_as_its_tool_and_the_policy_say(call, on_error, wants):
    assert wants_follow_up(call, Policy(on_error=on_error)) is wants


def test_one_call_that_wants_a_follow_up_is_enough():
    assert should_continue(step(calls=(SILENT, FAILED, SILENT)), POLICY) == Continue()


@pytest.mark.parametrize("depth", range(5))
def test_max_depth_is_the_last_depth_that_is_reached(depth):
    """C110."""
    verdict = should_continue(step(depth=depth), POLICY)
    assert verdict == (Continue() if depth < 3 else Stop(R.MAX_DEPTH))
