"""What stands between a call's announcement and its queue: resolution, arguments, hooks, humans."""

import pytest
from tests.core.builders import spec, takes, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.parties import Asker
from handspan_protocol import frames as f
from handspan_protocol.ids import CallId

BEFORE, REPAIR, AFTER = ("before_call",), ("repair_arguments",), ("after_call",)
NEEDS_X = {"parameters": takes("x", x="integer")}


def ready(make, hooks, *tools, server=()):
    """A world with a page, whose run has called `t` with {"x":1} and ended its turn."""
    world = make(hooks=hooks, server=server)
    tab = world.tab("a", tools=tools or [tool("t")])
    run = tab.run("please")
    world.call(run, "t", {"x": 1})
    world.end(run)
    return world, tab, run


def repair(world, call_id, args):
    return world.tell(world.key("t1"), i.ArgumentsRepaired(CallId(call_id), args))


def revise(world, call_id, answer):
    return world.tell(world.key("t1"), i.ResultRevised(CallId(call_id), answer))


# ---- before_call ------------------------------------------------------------------------------


@pytest.mark.parametrize("asks", [False, True])
def test_before_call_is_told_what_the_tool_itself_wishes(make, asks):
    wish = {"approval": "always"} if asks else {}
    world, tab, run = ready(make, BEFORE, tool("t", **wish))
    (asked,) = world.of(e.JudgeCall)
    assert (asked.run_id, asked.depth, asked.name, asked.args) == (run, 0, "t", {"x": 1})
    assert asked.asks is asks
    assert (tab.calls, tab.questions) == ([], [])


@pytest.mark.parametrize(
    ("verdict", "calls", "questions", "outcomes"),
    [("allow", 1, 0, []), ("ask", 0, 1, []), ("deny", 0, 0, ["denied"])],
)
@pytest.mark.parametrize("approval", ["never", "always"])
def test_p10_the_verdict_rules_over_the_tools_own_wish(
    make, verdict, calls, questions, outcomes, approval
):
    world, tab, _ = ready(make, BEFORE, tool("t", approval=approval))
    world.judged(world.of(e.JudgeCall)[0].call_id, verdict, "because")
    assert (len(tab.calls), len(tab.questions), world.outcomes()) == (calls, questions, outcomes)
    if questions:
        assert tab.questions[0].reason == "because"
    if outcomes:
        assert "because" in world.results()[0]


def test_p5_a_verdict_that_comes_after_the_abort_starts_nothing(make):
    world, tab, run = ready(make, BEFORE)
    call = world.of(e.JudgeCall)[0].call_id
    assert tab.abort(run) == {"aborted": True}
    assert [x.subject for x in world.of(e.StopHook)] == [call]
    assert world.outcomes() == ["aborted_before_start"]
    assert world.judged(call, "allow") == []
    assert tab.calls == []


def test_a_verdict_counts_once(make):
    world, tab, _ = ready(make, BEFORE)
    call = world.of(e.JudgeCall)[0].call_id
    world.judged(call, "allow")
    assert world.judged(call, "deny") == []
    assert world.judged("nobody", "deny") == []
    assert len(tab.calls) == 1


def test_p11_a_tool_that_changed_meanwhile_is_judged_anew(make):
    world, tab, _ = ready(make, BEFORE)
    call = world.of(e.JudgeCall)[0].call_id
    tab.tools(tool("t", title="another"))
    world.judged(call, "allow")
    assert (len(world.of(e.JudgeCall)), tab.calls) == (2, [])
    assert world.of(e.JudgeCall)[1].spec.tool.title == "another"
    world.judged(call, "allow")
    assert len(tab.calls) == 1


def test_p3_a_tool_whose_new_schema_the_arguments_do_not_fit_is_refused(make):
    world, tab, _ = ready(make, BEFORE)
    tab.tools(tool("t", parameters=takes("y", y="integer")))
    world.judged(world.of(e.JudgeCall)[0].call_id, "allow")
    assert world.outcomes() == ["invalid_arguments"]


def test_a_tool_that_is_gone_when_the_verdict_comes_is_gone(make):
    world, tab, _ = ready(make, BEFORE)
    tab.tools(tool("other"))
    world.judged(world.of(e.JudgeCall)[0].call_id, "allow")
    assert world.outcomes() == ["unknown_tool"]


def test_calls_behind_one_that_is_judged_keep_their_order_on_the_page(make):
    world = make(hooks=BEFORE)
    tab = world.tab("a", tools=[tool("t"), tool("u")])
    run = tab.run("please")
    world.call(run, "t")
    world.call(run, "u")
    world.end(run)
    first, second = [x.call_id for x in world.of(e.JudgeCall)]
    world.judged(second, "allow")
    assert tab.names == []
    world.judged(first, "allow")
    assert tab.names == ["t"]
    tab.result(tab.call("t"))
    assert tab.names == ["t", "u"]


def test_a_call_inside_the_step_is_judged_too_and_the_turns_end_does_not_ask_again(make):
    world = make(hooks=BEFORE)
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run("please")
    world.call(run, "t", ticket="waits")
    call = world.of(e.JudgeCall)[0].call_id
    world.end(run)
    assert len(world.of(e.JudgeCall)) == 1
    world.judged(call, "deny")
    assert [(x.ticket, x.value.code) for x in world.of(e.GiveValue)] == [("waits", "denied")]
    assert world.reason() == "completed"


# ---- repair_arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["{", "[1]", '{"x":"1"}', '{"x":1}{"x":2}', "{}", '{"x":NaN}'])
def test_p3_every_kind_of_bad_arguments_may_be_repaired(make, raw):
    """C010: asked with what came and what was wrong with it; the model's text stays in history."""
    world = make(hooks=REPAIR)
    tab = world.tab("a", tools=[tool("t", **NEEDS_X)])
    run = tab.run("please")
    world.call(run, "t", raw)
    world.end(run)
    (asked,) = world.of(e.RepairArguments)
    assert (asked.run_id, asked.name, asked.raw) == (run, "t", raw)
    assert asked.bad.message
    repair(world, asked.call_id, {"x": 1})
    call = tab.call("t")
    assert (call.args, call.raw_args) == ({"x": 1}, raw)


@pytest.mark.parametrize("args", [None, {"x": "1"}, {}])
def test_p3_a_repair_that_does_not_fit_is_the_models_error(make, args):
    world, tab, _ = ready(make, REPAIR, tool("t", parameters=takes("y", y="integer")))
    repair(world, world.of(e.RepairArguments)[0].call_id, args)
    assert (world.outcomes(), tab.calls) == (["invalid_arguments"], [])


def test_a_repaired_call_is_judged_like_any_other(make):
    world, tab, _ = ready(make, REPAIR + BEFORE, tool("t", parameters=takes("y", y="integer")))
    asked = world.of(e.RepairArguments)[0]
    assert world.of(e.JudgeCall) == []
    repair(world, asked.call_id, {"y": 1})
    assert repair(world, asked.call_id, {"y": 2}) == []
    assert world.of(e.JudgeCall)[0].args == {"y": 1}
    world.judged(asked.call_id, "allow")
    assert tab.call("t").args == {"y": 1}


def test_a_repair_for_a_tool_that_is_gone_changes_nothing(make):
    world, tab, _ = ready(make, REPAIR, tool("t", parameters=takes("y", y="integer")))
    tab.tools(tool("other"))
    repair(world, world.of(e.RepairArguments)[0].call_id, {"y": 1})
    assert world.outcomes() == ["unknown_tool"]
    assert repair(world, "nobody", {"y": 1}) == []


# ---- after_call -------------------------------------------------------------------------------


def test_after_call_changes_what_everybody_but_the_page_is_told(make):
    world, tab, run = ready(make, AFTER)
    call = tab.call("t")
    assert tab.result(call, "secret") == "applied"
    asked = world.of(e.ReviseResult)[0]
    assert (asked.run_id, asked.depth, asked.value.value) == (run, 0, "secret")
    assert (world.results(), world.depth(run)) == ([], 0)
    assert tab.result(call, "secret") == "duplicate"
    revise(world, call.call_id, i.Answer(value="***"))
    assert (world.results(), world.depth(run)) == (["***"], 1)
    assert world.steps(run)[1].results[0].value == "***"
    assert tab.result(call, "secret") == "duplicate"
    assert tab.result(call, "***") == "conflict"


@pytest.mark.parametrize(
    ("answer", "outcome", "result"),
    [
        (None, "ok", "value"),
        (i.Answer(value={"a": 1}), "ok", '{"a":1}'),
        (i.Answer(error_message="no", error_code="mine"), "handler_error", "mine"),
        (i.Answer(value="x" * 2_000), "result_too_large", "2002 bytes"),
    ],
)
def test_a_revision_may_be_a_value_an_error_or_nothing(make, answer, outcome, result):
    world = make(hooks=AFTER, result_bytes=1_000)
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run("please")
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"), "value")
    revise(world, tab.call("t").call_id, answer)
    assert world.outcomes() == [outcome]
    assert result in world.results()[0]
    assert world.depth(run) == 1


def test_p5_an_abort_shows_nobody_what_the_hook_has_not_seen(make):
    """A hook that redacts must not be outrun; the page is told that its result was applied."""
    world, tab, run = ready(make, AFTER)
    call = tab.call("t")
    assert tab.result(call, "secret") == "applied"
    assert tab.abort(run) == {"aborted": True}
    assert [x.subject for x in world.of(e.StopHook)] == [call.call_id]
    assert world.outcomes() == ["aborted"]
    assert "it was carried out" in world.results()[0]
    assert "secret" not in str(world.events())
    assert revise(world, call.call_id, i.Answer(value="late")) == []
    assert revise(world, "nobody", None) == []
    assert tab.result(call, "secret") == "duplicate"


def test_what_was_no_answer_is_shown_as_it_is_when_the_run_ends_first(make):
    world, tab, run = ready(make, AFTER, tool("other"))
    tab.abort(run)
    assert world.outcomes() == ["unknown_tool"]


def test_a_refused_call_is_shown_to_after_call_too(make):
    world, _, run = ready(make, AFTER, tool("other"))
    asked = world.of(e.ReviseResult)[0]
    assert asked.value.code == "unknown_tool"
    revise(world, asked.value.call_id, i.Answer(value="made up"))
    assert world.results() == ["made up"]
    assert world.depth(run) == 1


def test_a_call_inside_the_step_gives_its_revised_value(make):
    world = make(hooks=AFTER, server=[spec("srv")])
    run = world.start()
    world.call(run, "srv", ticket="waits")
    call = world.of(e.StartTool)[0].call_id
    world.returned(call, "secret")
    assert world.of(e.GiveValue) == []
    revise(world, call, i.Answer(value="***"))
    assert [(x.ticket, x.value.value) for x in world.of(e.GiveValue)] == [("waits", "***")]


def test_a_button_is_answered_with_the_revised_result(make):
    world = make(hooks=AFTER)
    tab = world.tab("a", tools=[tool("t")])
    command = tab.invoke("t")
    call = tab.call("t")
    tab.result(call, "secret")
    assert tab.answer(command) is None
    revise(world, call.call_id, i.Answer(value="***"))
    assert tab.answer(command)["result"] == "***"
    assert world.reason() == "no_follow_up"


# ---- tools that a hook took away --------------------------------------------------------------


def test_a_tool_that_was_withheld_from_the_step_is_not_carried_out(make):
    world = make(agents=("default", "other"))
    tab = world.tab("a", tools=[tool("t"), tool("scoped", agent="other"), tool("*")])
    run = tab.run("please")
    world.tell(world.key("t1"), i.StepShaped(run, 0, "other", frozenset({"t"})))
    for name in ("t", "scoped"):
        world.call(run, name)
    world.end(run)
    assert world.outcomes() == ["unavailable"]
    assert tab.names == ["scoped"]
    tab.result(tab.call("scoped"))
    world.call(run, "t")
    world.end(run)
    assert tab.names == ["scoped", "t"]


# ---- proposing ----------------------------------------------------------------------------------


def test_a_call_over_a_limit_is_refused_whatever_its_name(make):
    world = make(calls_per_step=1)
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run("please")
    for name in ("t", "nobody"):
        world.call(run, name)
    world.end(run)
    tab.result(tab.call("t"))
    assert world.outcomes() == ["ok", "limit"]
    assert "this call is over 1 calls in one step" in world.results()[1]


NAMES = [
    ("nobody has it", "nope", "unknown_tool", "the tools are: t"),
    ("it is not available", "off", "unavailable", "not available now"),
    ("it is of another agent", "scoped", "unknown_tool", "the tools are: t"),
]


@pytest.mark.parametrize(
    ("name", "code", "words"), [c[1:] for c in NAMES], ids=[c[0] for c in NAMES]
)
def test_p13_a_name_that_nobody_answers_to_is_told_to_the_model(make, name, code, words):
    world = make(agents=("default", "other"))
    tools = [tool("t"), tool("off", available=False), tool("scoped", agent="other")]
    run = world.tab("a", tools=tools).run("please")
    world.call(run, name)
    world.end(run)
    assert world.outcomes() == [code]
    assert words in world.results()[0]


@pytest.mark.parametrize("raw", ["{", "[1]", '{"x":"1"}', "{}"])
def test_p3_bad_arguments_are_refused_where_nobody_repairs_them(make, raw):
    world = make()
    tab = world.tab("a", tools=[tool("t", **NEEDS_X)])
    run = tab.run("please")
    world.call(run, "t", raw)
    world.end(run)
    assert (world.outcomes(), tab.calls) == (["invalid_arguments"], [])


# ---- what humans say ----------------------------------------------------------------------------

ASKING = {"approval": "always", **NEEDS_X}


def asked(make, *, hooks=(), **fields):
    world, tab, _ = ready(make, hooks, tool("t", **(fields or ASKING)))
    (question,) = tab.questions
    return world, tab, question


ANSWERS = [
    ("yes", True, {}, None, {"x": 1}),
    ("yes, with other arguments", True, {"args": {"x": 2}}, None, {"x": 2}),
    ("yes, with arguments that do not fit", True, {"args": {"x": "2"}}, "invalid_arguments", None),
    ("no", False, {}, "denied", None),
    ("no, and why", False, {"reason": "not today"}, "denied", None),
    ("no, with arguments", False, {"args": {"x": 2}}, "denied", None),
]


@pytest.mark.parametrize(
    ("approved", "more", "code", "args"), [c[1:] for c in ANSWERS], ids=[c[0] for c in ANSWERS]
)
def test_p10_the_first_answer_decides(make, approved, more, code, args):
    world, tab, question = asked(make)
    assert tab.approve(question, approved, **more) == "applied"
    assert world.outcomes() == ([code] if code else [])
    assert [order.args for order in tab.calls] == ([args] if args else [])
    if code == "denied":
        assert more.get("reason", "the user said no") in world.results()[0]


@pytest.mark.parametrize(
    ("again", "status"),
    [
        ({}, "duplicate"),
        ({"approved": False}, "late"),
        ({"digest": "another"}, "late"),
        ({"remember": True}, "late"),
        ({"args": {"x": 1}}, "late"),
        ({"reason": "because"}, "late"),
    ],
)
def test_p10_an_answer_that_was_given_is_harmless_again_and_another_one_is_late(
    make, again, status
):
    _, tab, question = asked(make)
    assert tab.approve(question, True) == "applied"
    assert tab.approve(question, **({"approved": True} | again)) == status
    assert len(tab.calls) == 1


def test_p10_a_digest_that_was_never_asked_about_decides_nothing(make):
    _, tab, question = asked(make)
    assert tab.approve(question, True, digest="another") == "late"
    assert tab.calls == []
    assert tab.approve(question, True) == "applied"


@pytest.mark.parametrize("approved", [True, False])
def test_p10_remember_covers_the_definition_only_where_it_was_approved(make, approved):
    world, tab, question = asked(make)
    tab.approve(question, approved, remember=True)
    if approved:
        tab.result(tab.call("t"))
    run = world.thread("t1").run.id
    world.call(run, "t", {"x": 5})
    world.end(run)
    assert len(tab.questions) == (1 if approved else 2)


def test_p7_nobody_decides_about_a_call_that_was_not_asked_about(make):
    _, tab, _ = ready(make, ())
    told = tab.ask(f.ApprovalAnswer, call_id=tab.call("t").call_id, digest="d", approved=True)
    assert told == "unknown_call"


def test_p10_a_question_without_a_tool_is_a_broken_invariant(make):
    world, tab, question = asked(make)
    call = world.thread("t1").desk.calls[question.call_id]
    made, call.spec = call.spec, None
    given = i.ApprovalGiven(
        asker=Asker(None, "x"),
        call_id=call.id,
        digest=question.digest,
        approved=True,
        reason=None,
        args=None,
        remember=False,
    )
    before = call.approval
    with pytest.raises(AssertionError):
        world.thread("t1").runs.proposals.approve(call, given)
    call.spec, call.approval, call.decision = made, before, None
    assert tab.approve(question) == "applied"


def test_p10_what_was_allowed_for_good_is_not_asked_about_again(make):
    """`remember: true` covers this definition in this thread, whoever wanted to ask."""
    world = make(hooks=BEFORE)
    tab = world.tab("a", tools=[tool("t")])
    for n in range(2):
        run = tab.run("please")
        world.call(run, "t")
        world.end(run)
        world.judged(world.of(e.JudgeCall)[n].call_id, "ask", "sure?")
        if n == 0:
            assert tab.approve(tab.questions[0], remember=True) == "applied"
        tab.result(tab.call("t"))
        world.end(run)
    assert len(tab.questions) == 1
    assert world.outcomes() == ["ok", "ok"]
