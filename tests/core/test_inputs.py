"""What a thread is told: facts that nobody changes, and that any copy equals (P15)."""

import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import get_args

import pytest
from tests.core.builders import page

from handspan.core import inputs as i
from handspan.core.parties import ANONYMOUS, Asker
from handspan_protocol.errors import CallCode
from handspan_protocol.frames import JournalEntry

ASKER = Asker("a", "d 1")
PAGE = page("a")
ANSWER = i.Answer(value={"n": 1})
RUN = i.RunRequested(asker=ASKER)

INPUTS = [
    i.PageOpened(PAGE),
    i.PageClosed("a"),
    i.PageChanged(PAGE),
    i.PageReturned(PAGE, (JournalEntry(call_id="c", attempt=1, state="done"),), "doc-0"),
    i.DocumentGone("a", 3.0, ended=True),
    RUN,
    i.InvokeRequested(asker=ASKER, name="t", raw="{}"),
    i.AbortRequested(ASKER, "r"),
    i.LeaveAsked(ASKER, "c", 1),
    i.ProgressMade("a", "c", 1, 0.5, 1.0, "half"),
    i.ResultGiven(ASKER, "c", 1, ANSWER),
    i.CallRefused("a", "c", 1),
    i.ApprovalGiven(
        asker=ASKER,
        call_id="c",
        digest="d",
        approved=True,
        reason=None,
        args={"x": 1},
        remember=False,
    ),
    i.StateGiven(ASKER, None, {"n": 1}),
    i.TextSaid("r", 0, ("a", "b")),
    i.ReasoningSaid("r", 0, "hm"),
    i.EventSaid("r", 0, {"type": "RAW"}),
    i.CallSaid(run_id="r", depth=0, name="t", raw="{}"),
    i.HandoffSaid("r", 0, "other"),
    i.StateSaid("r", 0, ({"op": "remove", "path": "/a"},), None),
    i.UsageSaid("r", 0, {"inputTokens": 1}),
    i.CallForgone("r", "k"),
    i.StepEnded("r", 0, "stop"),
    i.StepFailed("r", 0, "agent_error", "broke"),
    i.DelegateSaid(run_id="r", depth=0, sub_id="s", agent="other", text="do", ticket="k"),
    i.StepShaped("r", 0, "other", frozenset({"t"})),
    i.ToolReturned("c", ANSWER),
    i.StopsJudged("r", 0, stop=True),
    i.RunJudged(run_id="r", request=RUN),
    i.CallJudged("c", "allow"),
    i.ArgumentsRepaired("c", {"x": 1}),
    i.ResultRevised("c", ANSWER),
    i.StepReviewed("r", 0),
    i.SuggestionsMade("r", ("more",)),
    i.Restored(()),
    i.Deleted(),
    i.Evicted(),
    i.DeadlinePassed(),
]


def test_every_input_of_a_thread_is_in_this_table_once():
    assert {type(one) for one in INPUTS} == set(get_args(i.ThreadInput))
    assert len(INPUTS) == len(get_args(i.ThreadInput))


@pytest.mark.parametrize("fact", INPUTS, ids=lambda fact: type(fact).__name__)
def test_p15_a_fact_cannot_be_changed_and_equals_what_came_over_a_network(fact):
    assert is_dataclass(fact)
    for field in fields(fact):
        with pytest.raises(FrozenInstanceError):
            setattr(fact, field.name, None)
    assert not hasattr(fact, "__dict__")
    assert pickle.loads(pickle.dumps(fact)) == fact


DEFAULTS = [
    (
        RUN,
        {
            "run_id": None,
            "agent": None,
            "message": None,
            "after": None,
            "context": (),
            "forwarded_props": None,
            "if_busy": "reject",
            "principal": ANONYMOUS,
        },
    ),
    (
        i.InvokeRequested(asker=ASKER, name="t", raw="{}"),
        {"run_id": None, "follow_up": False, "if_busy": "reject", "principal": ANONYMOUS},
    ),
    (
        i.CallSaid(run_id="r", depth=0, name="t", raw="{}"),
        {"wish": None, "ticket": None, "by_tool": False},
    ),
    (i.StepEnded("r", 0, None), {"output": None, "has_output": False}),
    (i.RunJudged(run_id="r"), {"request": None, "code": None, "message": None}),
    (i.CallJudged("c", "deny"), {"reason": None}),
    (
        i.Answer(),
        {
            "value": None,
            "content": None,
            "error_code": None,
            "error_message": None,
            "code": None,
        },
    ),
]


@pytest.mark.parametrize(("fact", "usual"), DEFAULTS, ids=[type(c[0]).__name__ for c in DEFAULTS])
def test_what_is_not_said_is_the_usual_case(fact, usual):
    assert {name: getattr(fact, name) for name in usual} == usual


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (i.Answer(), False),
        (i.Answer(value=0), False),
        (i.Answer(content=()), False),
        (i.Answer(error_code="mine"), False),
        (i.Answer(error_message="broken"), True),
        (i.Answer(error_message=""), True),
        (i.Answer(error_message="bad", code=CallCode.INVALID_RESULT), True),
    ],
)
def test_an_answer_is_a_failure_when_it_has_a_message(answer, failed):
    assert answer.failed is failed


@pytest.mark.parametrize(
    "made", [lambda: i.RunRequested(ASKER), lambda: i.CallSaid("r", 0, "t", "{}")]
)
def test_a_fact_of_many_parts_names_them(made):
    with pytest.raises(TypeError, match="positional"):
        made()
