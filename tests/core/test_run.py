"""A run as data: what it remembers, what it says of itself, and the facts it is judged by."""

import pytest
from tests.core.builders import spec
from tests.core.scenarios import a_button, a_call, a_run, asked_by, settled

from handspan.core.call import CallEvent, Settlement, refusal
from handspan.core.effects import CallValue, RunValue
from handspan.core.follow_up import CallFacts, StepFacts
from handspan.core.inputs import Answer, RunRequested
from handspan.core.parties import ANONYMOUS
from handspan.core.run import Run, Step
from handspan_protocol.errors import CallCode

# ---- what it begins with ------------------------------------------------------------------------


def test_a_step_begins_with_nothing_said_and_nothing_called():
    step = Step(depth=3)
    said = {name: getattr(step, name) for name in Step.__slots__}
    assert said == {
        "depth": 3,
        "emission": None,
        "calls": [],
        "opened": False,
        "ended": False,
        "finish_reason": None,
        "handoff": None,
        "agent": None,
        "withheld": frozenset(),
        "counted": False,
        "reviewed": False,
        "base": None,
        "delegated": False,
    }
    assert step.name == "step-3"


def test_a_run_begins_at_depth_nought_with_nothing_to_remember():
    request = RunRequested(asker=asked_by("s1"))
    run = Run(id="r1", request=request, agent="default", principal=ANONYMOUS)
    said = {name: getattr(run, name) for name in Run.__slots__ if name != "step"}
    assert said == {
        "id": "r1",
        "request": request,
        "agent": "default",
        "principal": ANONYMOUS,
        "parent": None,
        "ticket": "",
        "subs": {},
        "subs_made": 0,
        "by_tool": False,
        "announced": False,
        "replied": False,
        "unheard": False,
        "since": None,
        "restarts": 0,
        "context": (),
        "context_began": (),
        "forwarded_props": None,
        "results": (),
        "rounds": [],
        "said": [],
        "said_chars": 0,
        "fingerprint": "",
        "repeats": 0,
        "reflecting": False,
        "asking": None,
        "output": None,
        "has_output": False,
        "usage": [],
        "root": run,
    }
    assert (run.depth, run.step.calls, run.step.ended) == (0, [], False)
    assert a_run().step is not a_run().step


@pytest.mark.parametrize("made", [lambda: a_run("r1"), lambda: Step(depth=0)])
def test_p8_a_run_and_a_step_are_themselves_and_equal_no_other(made):
    one, other = made(), made()
    assert one != other
    assert len({one, other, one}) == 2
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("made", [lambda: Step(0), lambda: Run("r1", None, "default", ANONYMOUS)])
def test_what_a_run_is_made_of_is_named(made):
    with pytest.raises(TypeError, match="positional"):
        made()


# ---- what it says of itself ---------------------------------------------------------------------


def test_the_root_of_a_sub_run_is_the_top_level_run_however_deep():
    root = a_run("root", session="s1")
    sub = a_run("sub", request=root.request, parent=root)
    deep = a_run("deep", request=root.request, parent=sub)
    assert [run.root for run in (root, sub, deep)] == [root] * 3
    assert [run.owner for run in (root, sub, deep)] == [None, "sub", "deep"]
    assert [run.starter for run in (root, sub, deep)] == ["s1"] * 3
    assert deep.asker == root.request.asker


def test_python_is_no_session():
    assert a_run().starter is None


@pytest.mark.parametrize(("chosen", "speaks"), [(None, "default"), ("other", "other")])
def test_a_hook_may_have_chosen_who_speaks_in_this_step(chosen, speaks):
    run = a_run()
    run.step.agent = chosen
    assert (run.speaker, run.agent) == (speaks, "default")


@pytest.mark.parametrize(("ended", "status"), [(False, "running"), (True, "waiting")])
def test_a_run_whose_step_has_ended_waits(ended, status):
    run = a_run()
    run.step.ended = ended
    assert run.status == status


BUTTONS = [
    ("a run", a_run(), False, False),
    ("a button at its call", a_button(), True, False),
    ("a button with a follow-up", a_button(follow_up=True), True, True),
    ("a button with a text", a_button(follow_up="explain"), True, "explain"),
    ("a sub-run below a button", None, False, True),
    ("a button that went on", "deeper", False, True),
]


@pytest.mark.parametrize(
    ("run", "invoked", "follow_up"), [c[1:] for c in BUTTONS], ids=[c[0] for c in BUTTONS]
)
def test_only_step_nought_of_a_button_is_its_call(run, invoked, follow_up):
    if run is None:
        root = a_button(follow_up=True)
        run = a_run("sub", request=root.request, parent=root)
    elif run == "deeper":
        run = a_button(follow_up=True)
        run.step = Step(depth=1)
    assert (run.invoked, run.follow_up) == (invoked, follow_up)


# ---- counting -----------------------------------------------------------------------------------


def waits_for_hook(call):
    call.hook = "after_call"
    return call


OPEN = [
    ("no calls", [], 0),
    ("open ones", [a_call("c1"), a_call("c2")], 2),
    ("one is over", [a_call("c1"), settled(a_call("c2"))], 1),
    ("all are over", [settled(a_call("c1"))], 0),
    ("a result that waits for its hook", [waits_for_hook(settled(a_call("c1")))], 1),
]


@pytest.mark.parametrize(("calls", "count"), [c[1:] for c in OPEN], ids=[c[0] for c in OPEN])
def test_p2_a_step_counts_the_calls_that_are_not_over(calls, count):
    assert Step(depth=0, calls=calls).open_calls == count


def a_round(run, *calls):
    run.step = Step(depth=run.depth + 1, calls=[settled(call, n) for n, call in enumerate(calls)])
    run.count_round()


def test_a_settled_step_is_counted_with_its_results_in_call_order():
    run = a_run()
    a_round(run, a_call("c1"), a_call("c2"))
    assert run.step.counted is True
    first = run.results
    assert [value.value for value in first] == [0, 1]
    assert first[0] == CallValue(call_id="c1", name="t", outcome="ok", value=0)
    a_round(run)
    assert (run.results, run.rounds) == ((), [first, ()])


CALLS = [
    ("the same again", ("t", '{"a":1}'), ("t", '{"a":1}'), 2),
    ("spelled otherwise", ("t", '{"a":1,"b":2}'), ("t", '{ "b": 2.0, "a": 1 }'), 2),
    ("nothing, in two ways", ("t", ""), ("t", "{}"), 2),
    ("other arguments", ("t", '{"a":1}'), ("t", '{"a":2}'), 1),
    ("another tool", ("t", "{}"), ("u", "{}"), 1),
    ("no object, the same text", ("t", "[1]"), ("t", "[1]"), 2),
    ("no object, another text", ("t", "[1]"), ("t", "[2]"), 1),
    ("no object, another spelling", ("t", "[1]"), ("t", "[ 1]"), 1),
    ("no JSON and nothing", ("t", "{"), ("t", "{}"), 1),
]


@pytest.mark.parametrize(
    ("before", "now", "repeats"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS]
)
def test_p12_a_round_repeats_the_one_before_when_it_calls_the_same(before, now, repeats):
    """C111."""
    run = a_run()
    for name, raw in (before, now):
        a_round(run, a_call(name=name, raw=raw))
    assert run.repeats == repeats


def test_p12_repeats_are_counted_in_a_row_and_begin_again_with_another_round():
    run = a_run()
    counted = []
    for raw in ("{}", "{}", "{}", '{"n":1}', "{}", "{}"):
        a_round(run, a_call(raw=raw))
        counted.append(run.repeats)
    assert counted == [1, 2, 3, 1, 1, 2]


def test_p12_the_order_and_the_number_of_calls_count():
    run = a_run()
    counted = []
    for names in ("ab", "ba", "b", "bb", "bb"):
        a_round(run, *(a_call(name=name, raw="{}") for name in names))
        counted.append(run.repeats)
    assert counted == [1, 1, 1, 1, 2]


def test_p12_steps_without_calls_have_no_fingerprint():
    run = a_run()
    a_round(run, a_call(raw="{}"))
    assert len(run.fingerprint) == 64
    a_round(run)
    assert (run.fingerprint, run.repeats) == ("", 1)
    a_round(run, a_call(raw="{}"))
    assert run.repeats == 1


# ---- facts --------------------------------------------------------------------------------------


def test_a_quiet_step_is_judged_by_these_facts():
    assert a_run().facts(None) == StepFacts(
        depth=0,
        aborted=False,
        calls=(),
        finish_reason=None,
        invoked=False,
        invoke_follow_up=False,
        handed_over=False,
        stop_condition=None,
        repeats=0,
    )


def test_everything_that_is_known_of_a_step_is_told():
    run = a_button(follow_up="explain")
    run.repeats = 2
    run.step.finish_reason = "stop"
    run.step.handoff = "other"
    assert run.facts(True) == StepFacts(
        depth=0,
        calls=(),
        finish_reason="stop",
        invoked=True,
        invoke_follow_up=True,
        handed_over=True,
        stop_condition=True,
        repeats=2,
    )
    run.step = Step(depth=4)
    assert (run.facts(False).depth, run.facts(False).stop_condition) == (4, False)


@pytest.mark.parametrize(
    ("follow_up", "wanted"), [(False, False), (True, True), ("say", True), ("", True)]
)
def test_a_buttons_follow_up_is_wanted_unless_it_is_false(follow_up, wanted):
    assert a_button(follow_up=follow_up).facts(None).invoke_follow_up is wanted


FAILED = Answer(error_message="no")


def refused(call, code=CallCode.UNKNOWN_TOOL):
    call.settle(refusal(CallEvent.REFUSED, code, "no"))
    return call


def revised(call, **given):
    call.revised = settled(a_call(), **given).settlement
    return call


OF_CALLS = [
    ("answered", settled(a_call(spec=spec("t")), 1), CallFacts(False, True)),
    (
        "its tool wants none",
        settled(a_call(spec=spec("t", followUp=False))),
        CallFacts(False, False),
    ),
    ("nobody had it", refused(a_call()), CallFacts(True, True)),
    (
        "its handler failed",
        settled(a_call(spec=spec("t")), answer=FAILED, code=CallCode.HANDLER_ERROR),
        CallFacts(True, True),
    ),
    ("not settled", a_call(spec=spec("t")), CallFacts(True, True)),
    (
        "a hook made a failure of it",
        revised(settled(a_call()), answer=FAILED, code=CallCode.HANDLER_ERROR),
        CallFacts(True, True),
    ),
    ("a hook made a success of it", revised(refused(a_call()), value=1), CallFacts(False, True)),
]


@pytest.mark.parametrize(("call", "facts"), [c[1:] for c in OF_CALLS], ids=[c[0] for c in OF_CALLS])
def test_a_call_is_judged_by_its_end_and_its_tool(call, facts):
    run = a_run()
    run.step.calls = [call]
    assert run.facts(None).calls == (facts,)


def test_a_call_whose_value_the_step_itself_waited_for_is_not_asked():
    run = a_run()
    run.step.calls = [settled(a_call("c1", ticket="inside")), settled(a_call("c2"))]
    assert run.facts(None).calls == (CallFacts(False, True),)


def test_a_call_that_the_agents_own_side_carried_out_is_not_asked():
    run = a_run()
    run.step.calls = [a_call("c1")]
    run.step.calls[0].settle(Settlement(by=CallEvent.PROVIDED, answer=Answer(value=1)))
    assert run.facts(None).calls == ()


# ---- how it ends --------------------------------------------------------------------------------


def test_a_run_that_is_over_is_told_with_all_that_it_said():
    run = a_run("r1")
    run.said += ["It ", "is."]
    run.step = Step(depth=2)
    assert run.value("completed") == RunValue(
        run_id="r1",
        reason="completed",
        depth=2,
        text="It is.",
        output=None,
        code=None,
        message=None,
    )
    run.output = {"n": 1}
    failed = run.value("failed", "internal", "broke")
    assert (failed.output, failed.code, failed.message) == ({"n": 1}, "internal", "broke")


@pytest.mark.parametrize(
    ("output", "has_output", "told"),
    [
        (None, False, {}),
        ({"n": 1}, False, {}),
        ({"n": 1}, True, {"output": {"n": 1}}),
        (None, True, {"output": None}),
    ],
)
def test_the_output_of_a_run_is_told_where_there_is_one(output, has_output, told):
    run = a_run()
    run.output, run.has_output = output, has_output
    assert run.result("completed") == {"reason": "completed", "depth": 0} | told


def test_tokens_of_one_model_are_added_up_and_others_stand_beside_them():
    run = a_run()
    run.count_usage({"model": "m", "inputTokens": 1, "outputTokens": 2})
    run.count_usage({"model": "n", "inputTokens": 5})
    run.count_usage({"model": "m", "inputTokens": 10, "reasoningTokens": 3})
    run.count_usage({"inputTokens": 7})
    assert run.usage == [
        {"model": "m", "inputTokens": 11, "outputTokens": 2, "reasoningTokens": 3},
        {"model": "n", "inputTokens": 5},
        {"inputTokens": 7},
    ]
    assert [dict(each) for each in run.value("completed").usage] == run.usage
    assert run.value("completed").usage[0] is not run.usage[0]
