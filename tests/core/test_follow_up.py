"""Whether a run goes on: every row of behaviour.md 2 alone, against each later one, and driven."""

import itertools
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from tests.core.builders import tool

from handspan.core.follow_up import (
    ROWS,
    CallFacts,
    Continue,
    Judge,
    Row,
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


def step(**fields):
    given = {"depth": 0, "calls": (GOOD,), "stop_condition": False}
    return StepFacts(**(given | fields))


# ---- behaviour.md 2, row by row -----------------------------------------------------------------

TABLE = {
    "the run is aborted": ({"aborted": True}, Stop(R.ABORTED)),
    "the model was cut off": ({"finish_reason": "length"}, Stop(R.TRUNCATED)),
    "step 0 of a tool.invoke": ({"invoked": True}, Stop(R.NO_FOLLOW_UP)),
    "the step handed over": ({"handed_over": True}, Continue()),
    "the step made no calls": ({"calls": ()}, Stop(R.COMPLETED)),
    "no call of the step wants a follow-up": ({"calls": (SILENT,)}, Stop(R.NO_FOLLOW_UP)),
    "a stop condition holds": ({"stop_condition": True}, Stop(R.STOP_CONDITION)),
    "depth + 1 > max_depth": ({"depth": 3}, Stop(R.MAX_DEPTH)),
    "the same calls came max_repeats rounds in a row": ({"repeats": 3}, Stop(R.REPEATING)),
    "otherwise": ({}, Continue()),
}
"""What makes each row hold, where no earlier one does, and its verdict. "A call is open" is not
here: then the function is not called (below)."""

HANDED = "the step handed over"
AT_THE_DEPTH = ("depth + 1 > max_depth", "the same calls came max_repeats rounds in a row")
"""The rows that a step which handed over goes on at."""


@pytest.mark.parametrize("row", TABLE)
def test_each_row_of_the_table_alone_has_its_verdict(row):
    facts, verdict = TABLE[row]
    assert should_continue(step(**facts), POLICY) == verdict


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(TABLE, 2)))
def test_an_earlier_row_of_the_table_wins_over_every_later_one(earlier, later):
    """But for the step that handed over, which goes on at the depth."""
    both = step(**(TABLE[later][0] | TABLE[earlier][0]))
    wins = later if earlier == HANDED and later in AT_THE_DEPTH else earlier
    assert should_continue(both, POLICY) == TABLE[wins][1]


def test_every_row_of_the_code_stops_for_the_reason_that_it_names():
    rows = [row for row in TABLE if row not in (HANDED, "otherwise")]
    for row, name in zip(ROWS, rows, strict=True):
        facts, verdict = TABLE[name]
        assert row.holds(step(**facts), POLICY) is True
        assert verdict == Stop(row.reason)
        assert row.holds(step(), POLICY) is False
        assert row.when


def called(world, run, *names, finish_reason=None, **args):
    for name in names:
        world.call(run, name, args)
    world.end(run, finish_reason)


def aborted(world, tab, run):
    called(world, run, "t")
    world.abort()


def open_call(world, tab, run):
    called(world, run, "t", "quiet")
    tab.result(tab.call("t"))


def cut_off(world, tab, run):
    called(world, run, "t", finish_reason="length")


def button(world, tab, run):
    world.end(run)
    tab.invoke("t")
    tab.result(tab.call("t"))


def handed_over(world, tab, run):
    world.hand_over(run, "other")
    world.end(run)


def no_calls(world, tab, run):
    world.end(run)


def no_wish(world, tab, run):
    called(world, run, "quiet")
    tab.result(tab.call("quiet"))


def stop_condition(world, tab, run):
    called(world, run, "t")
    tab.result(tab.call("t"))
    world.judge(run, True)


def round_of(world, tab, run, **args):
    called(world, run, "t", **args)
    tab.result(tab.calls[-1])
    world.judge(run, False)


def too_deep(world, tab, run):
    for n in range(4):
        round_of(world, tab, run, n=n)


def repeating(world, tab, run):
    for _ in range(3):
        round_of(world, tab, run)


def good_call(world, tab, run):
    round_of(world, tab, run)


DRIVEN = {
    "the run is aborted": (aborted, "aborted"),
    "a call is open": (open_call, None),
    "the model was cut off": (cut_off, "truncated"),
    "step 0 of a tool.invoke": (button, "no_follow_up"),
    "the step handed over": (handed_over, 1),
    "the step made no calls": (no_calls, "completed"),
    "no call of the step wants a follow-up": (no_wish, "no_follow_up"),
    "a stop condition holds": (stop_condition, "stop_condition"),
    "depth + 1 > max_depth": (too_deep, "max_depth"),
    "the same calls came max_repeats rounds in a row": (repeating, "repeating"),
    "otherwise": (good_call, 1),
}
"""The table again, whole: what happens on a thread, and how the run ends, or the depth it goes to;
None: it is not decided yet."""


@pytest.mark.parametrize("row", DRIVEN)
def test_each_row_of_the_table_decides_a_run(make, row):
    drive, verdict = DRIVEN[row]
    world = make(
        agents=("default", "other"), max_depth=3, max_repeats=3, stop_when=[lambda steps: False]
    )
    tab = world.tab("a", tools=[tool("t"), tool("quiet", followUp=False)])
    run = tab.run()
    drive(world, tab, run)
    if verdict is None:
        assert (world.last_run(), world.depth(run)) == (None, 0)
    elif isinstance(verdict, int):
        assert (world.last_run(), world.depth(run)) == (None, verdict)
    else:
        assert world.reason() == verdict


def test_the_two_spellings_of_the_table_have_the_same_rows():
    assert [row for row in DRIVEN if row != "a call is open"] == list(TABLE)


# ---- what each row looks at ---------------------------------------------------------------------


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


HANDOVERS = [
    ("without a call", {"calls": ()}, Continue()),
    ("its calls want none", {"calls": (SILENT,)}, Continue()),
    ("a stop condition is not asked", {"stop_condition": True}, Continue()),
    ("depth", {"calls": (), "depth": 3}, Stop(R.MAX_DEPTH)),
    ("cut", {"finish_reason": "length"}, Stop(R.TRUNCATED)),
    ("aborted", {"aborted": True}, Stop(R.ABORTED)),
]


@pytest.mark.parametrize(
    ("facts", "verdict"), [c[1:] for c in HANDOVERS], ids=[c[0] for c in HANDOVERS]
)
def test_a_step_that_handed_over_goes_on_at_the_depth(facts, verdict):
    assert should_continue(step(handed_over=True, **facts), POLICY) == verdict


def test_two_agents_that_hand_the_same_calls_to_and_fro_are_repeating():
    assert should_continue(step(handed_over=True, repeats=3), POLICY) == Stop(R.REPEATING)


def test_stop_conditions_are_asked_for_only_where_there_are_any():
    assert should_continue(step(stop_condition=None), POLICY) == Judge()
    assert should_continue(step(stop_condition=None), Policy()) == Continue()


@pytest.mark.parametrize("earlier", list(TABLE)[:6])
def test_stop_conditions_are_not_asked_for_where_an_earlier_row_decides(earlier):
    facts, verdict = TABLE[earlier]
    assert should_continue(step(stop_condition=None, **facts), POLICY) == verdict


def test_steps_without_calls_are_no_repetition():
    quiet = step(calls=(), handed_over=True, repeats=9)
    assert should_continue(quiet, POLICY) == Continue()


READ_ELSEWHERE = "".join(["res", "ume"])
"""As a settings file gives it: equal to the literal, and not the same object."""

WISHES = [
    (GOOD, "resume", True),
    (FAILED, READ_ELSEWHERE, True),
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


BUTTONS = [
    ("no calls", {"calls": ()}, Continue()),
    ("a tool that wants none", {"calls": (SILENT,)}, Continue()),
    ("one that failed among several", {"calls": (GOOD, FAILED)}, Stop(R.NO_FOLLOW_UP)),
    ("a handover", {"handed_over": True, "stop_condition": True}, Continue()),
    ("a repetition", {"repeats": 3}, Stop(R.REPEATING)),
    ("a stop condition that was not asked", {"stop_condition": None}, Judge()),
]


@pytest.mark.parametrize(
    ("facts", "verdict"), [c[1:] for c in BUTTONS], ids=[c[0] for c in BUTTONS]
)
def test_a_button_whose_follow_up_is_wanted_is_not_asked_about_its_call(facts, verdict):
    assert should_continue(step(invoked=True, invoke_follow_up=True, **facts), POLICY) == verdict


@pytest.mark.parametrize("repeats", range(6))
def test_max_repeats_is_the_round_that_is_not_followed_up(repeats):
    """C111."""
    verdict = should_continue(step(repeats=repeats), POLICY)
    assert verdict == (Continue() if repeats < 3 else Stop(R.REPEATING))


@pytest.mark.parametrize(
    ("of_handover", "of_button", "asked"),
    [
        (True, True, [True, True, True, True]),
        (False, True, [True, False, True, False]),
        (True, False, [True, True, False, False]),
        (False, False, [True, False, False, False]),
    ],
)
def test_a_row_says_which_steps_it_is_asked_about(of_handover, of_button, asked):
    row = Row(
        when="never",
        reason=R.ABORTED,
        holds=lambda step, policy: False,
        of_handover=of_handover,
        of_button=of_button,
    )
    steps = [
        step(handed_over=handed, invoked=invoked)
        for invoked in (False, True)
        for handed in (False, True)
    ]
    assert [row.applies(one) for one in steps] == asked


def test_a_row_is_asked_about_every_step_unless_it_says_otherwise():
    row = Row(when="never", reason=R.ABORTED, holds=lambda step, policy: False)
    assert (row.of_handover, row.of_button) == (True, True)


def test_what_is_not_said_of_a_step_is_the_usual_case():
    assert StepFacts(depth=0) == StepFacts(
        depth=0,
        aborted=False,
        calls=(),
        finish_reason=None,
        invoked=False,
        invoke_follow_up=False,
        handed_over=False,
        stop_condition=None,
        repeats=1,
    )


FACTS = [
    GOOD,
    step(),
    Continue(),
    Judge(),
    Stop(R.ABORTED),
    ROWS[0],
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_p15_facts_rows_and_verdicts_cannot_be_changed(fact):
    assert hash(fact) == hash(replace(fact))
    assert fact == replace(fact)
    assert not hasattr(fact, "__dict__")
    for field in fields(fact):
        with pytest.raises(FrozenInstanceError):
            setattr(fact, field.name, None)


@pytest.mark.parametrize("made", [lambda: StepFacts(0), lambda: Row("", R.ABORTED, None)])
def test_what_a_step_and_a_row_are_made_of_is_named(made):
    with pytest.raises(TypeError, match="positional"):
        made()
