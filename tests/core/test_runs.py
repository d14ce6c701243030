"""Runs: depths, order, results, stops, failures, who may start one (behaviour.md 2 and 3)."""

import json
from dataclasses import replace

import pytest
from tests.core.builders import World, spec, takes, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.parties import Asker
from handspan_protocol import frames as f
from handspan_protocol.ids import RunId

# ---- the recursion ------------------------------------------------------------------------------


def test_a_run_without_calls_is_one_step(make):
    world = make()
    tab = world.tab()
    run = tab.run("hello")
    world.text(run, "Hi")
    world.end(run)
    assert world.kinds() == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert world.reason() == "completed"
    assert [(m["role"], m["content"]) for m in world.messages()] == [
        ("user", "hello"),
        ("assistant", "Hi"),
    ]


def test_p1_three_calls_three_results_one_follow_up(make):
    """C035, C039."""
    world = make()
    tab = world.tab(tools=[tool("t", readOnly=True)])
    run = tab.run()
    for n in range(3):
        world.call(run, "t", {"n": n})
    assert tab.calls == []
    world.end(run)
    assert [call.args for call in tab.calls] == [{"n": 0}, {"n": 1}, {"n": 2}]
    for n, call in enumerate(tab.calls):
        assert len(world.steps(run)) == 1
        tab.result(call, n)
    assert [step.depth for step in world.steps(run)] == [0, 1]
    assert [value.value for value in world.steps(run)[1].results] == [0, 1, 2]
    assert world.roles() == ["user", "assistant", "tool", "tool", "tool"]


def test_p1_results_stand_in_call_order_and_handspan_call_tells_at_once(make):
    """C036, C046: matched by id only, whatever the order of arrival."""
    world = make()
    tab = world.tab(tools=[tool("t", readOnly=True)])
    run = tab.run()
    for n in range(3):
        world.call(run, "t", {"n": n})
    world.end(run)
    first, second, third = tab.calls
    tab.result(third, "third")
    tab.result(second, "second")
    settled = [ev["value"]["callId"] for ev in world.events("t1", "CUSTOM")][-2:]
    assert settled == [third.call_id, second.call_id]
    assert world.results() == []
    tab.result(first, "first")
    assert world.results() == ["first", "second", "third"]


def test_p1_server_and_page_tools_in_one_message(make):
    """C038: the server's result is streamed at once, history waits, it runs once."""
    world = make(server=[spec("srv")])
    tab = world.tab(tools=[tool("page")])
    run = tab.run()
    world.call(run, "srv")
    world.call(run, "page")
    world.end(run)
    (begun,) = world.of(e.StartTool)
    world.returned(begun.call_id, 7)
    assert world.results() == ["7"]
    assert len(world.steps(run)) == 1
    tab.result(tab.call("page"), "done")
    assert [value.value for value in world.steps(run)[1].results] == [7, "done"]
    assert len(world.of(e.StartTool)) == 1


def test_a_run_goes_down_and_up_again(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for depth in range(5):
        assert world.depth(run) == depth
        world.text(run, f"step {depth}")
        world.call(run, "t", {"depth": depth})
        world.end(run)
        assert tab.calls[-1].depth == depth
        tab.result(tab.calls[-1], depth)
    world.end(run)
    assert world.last_run()["result"] == {"reason": "completed", "depth": 5}
    assert [step.depth for step in world.steps(run)] == list(range(6))


def test_the_next_step_sees_the_newest_tools_and_context(make):
    """C097, C033: what the page changed before its result is in force."""
    world = make()
    tab = world.tab(tools=[tool("t"), tool("u")], context=(f.ContextItem(name="cart", value=1),))
    run = tab.run()
    assert [spec.name for spec in world.steps(run)[0].tools] == ["t", "u"]
    world.call(run, "t")
    world.end(run)
    tab.tools(tool("t", title="new"), tool("v"))
    tab.result(tab.call("t"), context=(f.ContextItem(name="cart", value=2),))
    step = world.steps(run)[1]
    assert [(spec.name, spec.tool.title) for spec in step.tools] == [("t", "new"), ("v", None)]
    assert [item.value for item in step.context] == [2]


def test_fresh_context_of_a_result_wins_over_what_the_run_began_with(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run(context=(f.ContextItem(name="cart", value=1),))
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"), context=(f.ContextItem(name="cart", value=2),))
    assert [item.value for item in world.steps(run)[1].context] == [2]


def test_p1_a_page_that_answers_before_the_turn_has_ended_is_kept(make):
    """C045: continuation is decided when both are there, in either order."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t", ticket="inside")
    assert tab.result(tab.call("t"), 1) == "applied"
    world.text(run, "still talking")
    assert world.of(e.GiveValue)[0].value.value == 1
    assert len(world.steps(run)) == 1
    world.end(run)
    assert "still talking" in [m.get("content") for m in world.messages()]


# ---- order of dispatch --------------------------------------------------------------------------

KINDS = {
    "plain": {},
    "look": {"readOnly": True},
    "side": {"parallel": True},
    "again": {"idempotent": True},
}


@pytest.mark.parametrize(
    ("names", "execution", "at_once"),
    [
        (["plain", "plain"], "ordered", 1),
        (["look", "look", "look"], "ordered", 3),
        (["side", "side"], "ordered", 2),
        (["plain", "look", "plain", "side"], "ordered", 3),
        (["look", "plain", "plain"], "ordered", 2),
        (["again", "again"], "ordered", 1),
        (["plain", "plain", "again"], "parallel", 3),
    ],
)
def test_calls_of_one_page_run_in_order_unless_they_may_overlap(make, names, execution, at_once):
    world = make(tool_execution=execution)
    tab = world.tab(tools=[tool(name, **fields) for name, fields in KINDS.items()])
    run = tab.run()
    for name in names:
        world.call(run, name)
    world.end(run)
    assert len(tab.calls) == at_once
    while tab.journal:
        (call_id, _attempt), *_ = sorted(tab.journal)
        tab.result(next(c for c in tab.calls if c.call_id == call_id))
    assert sorted(tab.names) == sorted(names)
    plain = [name for name in tab.names if name == "plain"]
    assert plain == [name for name in names if name == "plain"]
    assert len(world.results()) == len(names)


def test_calls_of_two_pages_do_not_wait_for_each_other(make):
    world = make()
    one = world.tab("a", tools=[tool("one")])
    two = world.tab("b", tools=[tool("two")])
    run = one.run()
    world.call(run, "one")
    world.call(run, "two")
    world.end(run)
    assert (one.names, two.names) == (["one"], ["two"])


def test_server_tools_overlap_up_to_their_number(make):
    """C040."""
    world = make(server=[spec("srv")], server_tools_at_once=2)
    run = world.start()
    for _ in range(5):
        world.call(run, "srv")
    world.end(run)
    assert len(world.of(e.StartTool)) == 2
    for n in range(5):
        world.returned(world.of(e.StartTool)[n].call_id, n)
        assert len(world.of(e.StartTool)) == min(5, n + 3)
    assert world.results() == [str(n) for n in range(5)]


# ---- leave to start, timeouts, progress ---------------------------------------------------------


def test_p2_leave_is_given_once_and_only_to_the_holder(make):
    world = make()
    one, two = world.tab("a", tools=[tool("t")]), world.tab("b", tools=[tool("u")])
    run = one.run()
    world.call(run, "t")
    world.end(run)
    call = one.call("t")
    assert two.started(call) == "not_owner"
    assert one.started(call, attempt=2) == "not_owner"
    assert one.started(call) == "go"
    assert one.started(call) == "duplicate"
    assert one.result(call) == "applied"
    assert one.started(call) == "late"


def test_leave_is_recorded_before_it_is_given(make):
    """P16."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    asked = i.LeaveAsked(Asker(tab.id, "x"), tab.call("t").call_id, 1)
    effects = world.tell(world.key("t1"), asked)
    kinds = [type(x) for x in effects]
    assert kinds.index(e.Record) < kinds.index(e.Reply)
    assert next(x for x in effects if isinstance(x, e.Record)).facts[0].kind == "call_started"


@pytest.mark.parametrize(("wish", "seconds"), [(None, 60), (150, 0.15), (10_000_000, 900)])
def test_p12_a_call_that_is_not_answered_in_time_settles(make, wish, seconds):
    """C071: the page is told to stop, the model is told, the run goes on."""
    world = make()
    tab = world.tab(tools=[tool("t", timeoutMs=wish)])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    call = tab.call("t")
    assert call.timeout_ms == seconds * 1000
    world.wait(seconds - 0.01)
    tab.progress(call, 1)
    assert world.outcomes() == []
    world.wait(0.02)
    assert world.outcomes() == ["timeout"]
    assert tab.cancels == [(call.call_id, "timeout")]
    assert len(world.steps(run)) == 2
    assert tab.result(call, 1) == "late"


def test_progress_is_told_at_most_every_hundred_milliseconds_and_the_last_wins(make):
    """C072: progress does not extend the time."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    for n in range(20):
        tab.progress(tab.call("t"), n)
    told = [
        e["value"]["progress"] for e in world.events("t1", "CUSTOM") if "progress" in e["value"]
    ]
    assert told == [0]
    world.wait(0.1)
    told = [
        e["value"]["progress"] for e in world.events("t1", "CUSTOM") if "progress" in e["value"]
    ]
    assert told == [0, 19]
    world.wait(60)
    assert world.outcomes() == ["timeout"]


def test_p7_progress_of_a_stranger_or_of_an_old_attempt_is_nothing(make):
    world = make()
    tab, other = world.tab("a", tools=[tool("t")]), world.tab("b")
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    head = world.thread("t1").head
    other.progress(tab.call("t"), 1)
    tab.progress(tab.call("t"), 1, attempt=2)
    assert world.thread("t1").head == head


def test_p6_what_a_step_says_after_its_end_is_not_heard(make):
    """Neither while its calls are open, nor when the next step speaks."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)

    def late():
        head = world.thread("t1").head
        for said in (
            i.TextSaid(run, 0, ("late",)),
            i.ReasoningSaid(run, 0, "late"),
            i.EventSaid(run, 0, {"type": "TEXT_MESSAGE_START", "messageId": "m"}),
            i.CallSaid(run_id=run, depth=0, name="t", raw=""),
            i.HandoffSaid(run, 0, "nobody"),
            i.StepEnded(run, 0, "length"),
            i.StepFailed(run, 0, "agent_error", "late"),
        ):
            assert world.tell(world.key("t1"), said) == []
        assert world.thread("t1").head == head

    late()
    tab.result(tab.call("t"))
    assert world.depth(run) == 1
    late()
    world.end(run)
    assert world.reason() == "completed"


# ---- bad calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["{", "[1]", '{"x":"1"}', "", '{"x":1}{"x":2}', '{"x":NaN}'])
def test_p3_bad_arguments_go_to_the_model_and_not_to_the_handler(make, raw):
    """C002, C003, C011."""
    world = make()
    tab = world.tab(tools=[tool("t", parameters=takes("x", x="integer"))])
    run = tab.run()
    world.call(run, "t", raw)
    world.call(run, "t", '{"x":2}')
    world.end(run)
    assert [call.args for call in tab.calls] == [{"x": 2}]
    tab.result(tab.calls[0])
    assert world.outcomes() == ["invalid_arguments", "ok"]
    assert len(world.steps(run)) == 2


def test_p3_the_raw_text_is_kept_as_the_model_wrote_it(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    raw = '{ "n": 12345678901234567890123, "n": 1e2 }'
    world.call(run, "t", raw)
    world.end(run)
    assert tab.call("t").raw_args == raw
    assert world.messages()[1]["toolCalls"][0]["function"]["arguments"] == raw


def test_p13_a_name_that_nobody_has_settles_at_once_and_names_those_there_are(make):
    """C115."""
    world = make()
    tab = world.tab(tools=[tool("known")])
    run = tab.run()
    world.call(run, "unknown")
    world.call(run, "known")
    world.end(run)
    tab.result(tab.call("known"), 1)
    assert world.outcomes() == ["unknown_tool", "ok"]
    assert "known" in world.results()[0]


def test_p13_the_wildcard_takes_what_nobody_has(make):
    """C117, C118: two different unknown calls in parallel, each under its own id."""
    world = make()
    tab = world.tab(tools=[tool("known"), tool("*", readOnly=True)])
    run = tab.run()
    world.call(run, "one", {"n": 1})
    world.call(run, "two", {"n": 2})
    world.call(run, "known")
    world.end(run)
    one, two, known = tab.calls
    assert (one.name, one.tool_name, one.args) == (
        "*",
        "one",
        {"toolName": "one", "args": {"n": 1}},
    )
    assert (known.name, known.tool_name) == ("known", None)
    tab.result(two, 2)
    tab.result(one, 1)
    tab.result(known, 3)
    assert world.results() == ["1", "2", "3"]
    assert [spec.name for spec in world.steps(run)[0].tools] == ["known"]


def test_p1_provider_ids_that_are_empty_or_equal_make_calls_of_their_own(make):
    """C053."""
    world = make()
    tab = world.tab(tools=[tool("get", readOnly=True)])
    run = tab.run()
    for wish in ("", "", "get", "get"):
        world.call(run, "get", {}, wish=wish)
    world.end(run)
    assert len({call.call_id for call in tab.calls}) == 4
    for n, call in enumerate(tab.calls):
        tab.result(call, n)
    assert world.results() == ["0", "1", "2", "3"]


def test_p1_an_id_of_an_earlier_step_is_another_call(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for n in range(2):
        world.call(run, "t", {}, wish="same")
        world.end(run)
        tab.result(tab.calls[-1], n)
    assert len({call.call_id for call in tab.calls}) == 2
    assert world.results() == ["0", "1"]


def test_p7_a_result_from_the_model_side_is_no_answer_to_a_pages_call(make):
    """C042: the placeholder is passed over, the page still gets the call."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    world.event(
        run, "TOOL_CALL_RESULT", toolCallId="c1", content="forwarded to client", messageId="m"
    )
    world.end(run)
    tab.result(tab.call("t"), "the page's")
    assert world.results() == ["the page's"]


def test_a_call_that_the_provider_carried_out_has_its_result(make):
    """C042, the other side: nobody here has that tool."""
    world = make()
    run = world.start()
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="web_search")
    world.event(run, "TOOL_CALL_RESULT", toolCallId="c1", content="found", messageId="m")
    world.text(run, "I found it")
    world.end(run)
    assert (world.results(), world.outcomes()) == (["found"], ["ok"])
    assert world.reason() == "completed"


# ---- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "unknown"])
def test_a_turn_that_was_cut_off_runs_none_of_its_calls(make, reason):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.text(run, "half a")
    world.call(run, "t")
    world.end(run, reason)
    assert (tab.calls, world.outcomes(), world.reason()) == ([], ["truncated_turn"], "truncated")


def test_a_failing_agent_keeps_what_was_seen_and_leaves_nothing_open(make):
    world = make()
    tab = world.tab(tools=[tool("t"), tool("u")])
    run = tab.run()
    world.text(run, "visible")
    world.call(run, "u", {}, ticket="inside")
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    world.event(run, "TOOL_CALL_ARGS", toolCallId="c1", delta='{"x')
    world.fail(run, "the provider is down", "provider_error")
    assert world.kinds()[-2:] == ["STEP_FINISHED", "RUN_ERROR"]
    assert world.reason() == "provider_error"
    assert world.outcomes() == ["aborted_before_start", "truncated_turn"]
    assert world.messages()[1]["content"] == "visible"
    assert tab.cancels == [(tab.call("u").call_id, "aborted")]
    again = tab.run("once more")
    world.end(again)
    assert world.reason() == "completed"


def test_an_event_out_of_place_fails_the_step(make):
    world = make()
    run = world.start()
    world.text(run, "before")
    world.event(run, "MESSAGES_SNAPSHOT", messages=[])
    assert world.reason() == "agent_error"
    assert world.of(e.StopStep) == [e.StopStep(run, 0)]


def test_an_event_that_is_no_json_fails_the_step(make):
    """C130."""
    world = make()
    run = world.start()
    world.event(run, "CUSTOM", name="x", value=float("nan"))
    assert world.reason() == "agent_error"


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_p12_max_depth_stops_and_the_next_run_begins_at_nought(make, cap):
    """C110."""
    world = make(max_depth=cap)
    tab = world.tab(tools=[tool("t")])
    for _ in range(2):
        run = tab.run()
        for n in range(cap + 1):
            world.call(run, "t", {"n": n})
            world.end(run)
            tab.result(tab.calls[-1], n)
        assert world.last_run()["result"] == {"reason": "max_depth", "depth": cap}


def test_reflect_at_limit_gives_one_last_step_without_tools(make):
    world = make(max_depth=1, reflect="at_limit")
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for n in range(2):
        world.call(run, "t", {"n": n})
        world.end(run)
        tab.result(tab.calls[-1])
    assert [bool(step.tools) for step in world.steps(run)] == [True, True, False]
    world.text(run, "in short")
    world.call(run, "t")
    world.end(run)
    assert world.last_run()["result"] == {"reason": "max_depth", "depth": 2}
    assert world.outcomes()[-1] == "limit"
    assert len(tab.calls) == 2


def test_p12_identical_rounds_stop(make):
    """C111: compared as canonical JSON; a counter in the arguments never trips it."""
    world = make(max_repeats=3)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for raw in ('{"a":1,"b":2}', '{"b":2,"a":1}', '{"a":1.0,"b":2}'):
        world.call(run, "t", raw)
        world.end(run)
        tab.result(tab.calls[-1])
    assert world.reason() == "repeating"
    run = tab.run()
    for n in range(5):
        world.call(run, "t", {"n": n})
        world.end(run)
        tab.result(tab.calls[-1])
    assert world.depth(run) == 5


@pytest.mark.parametrize("raws", [("{}", "", "null"), (" {}", "{ }", "{}")])
def test_p12_identical_rounds_are_identical_however_nothing_is_spelled(make, raws):
    world = make(max_repeats=3)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for raw in raws:
        world.call(run, "t", raw)
        world.end(run)
        tab.result(tab.calls[-1])
    assert world.reason() == "repeating"


def test_p12_a_model_that_calls_what_nobody_has_again_and_again_is_stopped(make):
    world = make(max_repeats=3)
    run = world.start()
    for raw in ('{"a":1,"b":2}', '{"b":2,"a":1}', '{ "a":1,"b":2}'):
        world.call(run, "nobody", raw)
        world.end(run)
    assert world.reason() == "repeating"


def test_stop_conditions_are_asked_once_a_step_and_decide(make):
    world = make(stop_when=[lambda steps: True])
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    for stop in (False, True):
        world.call(run, "t", {"stop": stop})
        world.end(run)
        assert len(world.steps(run)) == len(world.of(e.JudgeStops)) + 1
        tab.result(tab.calls[-1], stop)
        assert len(world.of(e.JudgeStops)[-1].steps) == (2 if stop else 1)
        world.judge(run, stop)
    assert world.reason() == "stop_condition"


def test_a_verdict_that_nobody_asked_for_is_nothing(make):
    world = make(stop_when=[lambda steps: True])
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    assert world.judge(run, True) == []
    world.call(run, "t")
    world.end(run)
    assert world.judge(run, True) == []
    tab.result(tab.call("t"))
    world.judge(run, False)
    assert world.depth(run) == 1
    late = world.tell(world.key("t1"), i.StopsJudged(run, 0, True))
    assert late == []


def test_an_abort_while_stop_conditions_are_judged(make):
    world = make(stop_when=[lambda steps: True])
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"))
    tab.abort(run)
    assert world.tell(world.key("t1"), i.StopsJudged(run, 0, False)) == []
    assert world.reason() == "aborted"


@pytest.mark.parametrize(("on_error", "goes_on"), [("resume", True), ("stop", False)])
def test_a_failed_call_is_followed_up_as_the_policy_says(make, on_error, goes_on):
    world = make(on_error=on_error)
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.error(tab.call("t"), "it broke", code="my_code")
    assert json.loads(world.results()[0]) == {"error": {"code": "my_code", "message": "it broke"}}
    assert world.outcomes() == ["handler_error"]
    assert len(world.steps(run)) == (2 if goes_on else 1)


def test_a_tool_without_follow_up_ends_the_run(make):
    world = make()
    tab = world.tab(tools=[tool("t", followUp=False)])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"))
    assert world.reason() == "no_follow_up"


def test_a_step_hands_over_once_its_calls_have_settled(make):
    world = make(agents=("default", "other", "third"))
    tab = world.tab(tools=[tool("t", followUp=False), tool("only", agent="other")])
    run = tab.run()
    assert [spec.name for spec in world.steps(run)[0].tools] == ["t"]
    world.call(run, "t")
    world.hand_over(run, "other")
    world.hand_over(run, "third")
    world.end(run)
    assert len(world.steps(run)) == 1
    tab.result(tab.call("t"))
    step = world.steps(run)[1]
    assert (step.agent, [spec.name for spec in step.tools]) == ("other", ["t", "only"])
    world.call(run, "only")
    world.end(run)
    tab.result(tab.call("only"))
    assert world.steps(run)[2].agent == "other"


def test_nobody_to_hand_over_to_fails_the_step(make):
    world = make()
    run = world.start()
    world.hand_over(run, "nobody")
    assert world.reason() == "agent_error"


def test_output_is_told_in_the_result(make):
    world = make()
    run = world.start()
    world.end(run, output={"n": 1}, has_output=True)
    assert world.last_run()["result"]["output"] == {"n": 1}
    assert world.of(e.RunOver)[0].value.output == {"n": 1}


# ---- who may start one --------------------------------------------------------------------------


def test_a_busy_thread_refuses_by_default(make):
    """C126."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    assert tab.run("again") == "busy"
    assert tab.answer(tab.invoke("t")) == "busy"
    world.end(run)
    assert world.roles() == ["user"]


def test_queued_runs_start_in_order_and_never_interleave(make):
    world = make()
    tab = world.tab()
    first = tab.run("one")
    reply = tab.ask(f.RunStart, thread_id="t1", message="two", if_busy="queue")
    assert reply["queued"] is True
    third = tab.run("three", if_busy="queue")
    for run in (first, reply["runId"], third):
        world.text(run, f"to {run}")
        world.end(run)
    assert world.roles() == ["user", "assistant"] * 3
    assert [ev["runId"] for ev in world.events("t1", "RUN_STARTED", "RUN_FINISHED")] == [
        run for run in (first, reply["runId"], third) for _ in range(2)
    ]


def test_a_run_that_replaces_goes_to_the_head_of_the_queue(make):
    """C048: calls are closed first, finished results stay."""
    world = make()
    tab = world.tab(tools=[tool("a", readOnly=True), tool("b", readOnly=True)])
    run = tab.run()
    world.call(run, "a")
    world.call(run, "b")
    world.end(run)
    tab.result(tab.call("a"), "done")
    waits = tab.run("waits", if_busy="queue")
    new = tab.run("new", if_busy="replace")
    assert world.thread("t1").run.id == new
    assert world.outcomes() == ["ok", "aborted"]
    assert world.roles() == ["user", "assistant", "tool", "tool", "user"]
    assert tab.result(tab.call("b"), "late") == "aborted"
    world.end(new)
    assert world.thread("t1").run.id == waits
    world.end(waits)


def test_a_queued_run_that_is_aborted_leaves_no_trace(make):
    world = make()
    tab = world.tab()
    run = tab.run()
    queued = tab.run("never", if_busy="queue")
    head = world.thread("t1").head
    assert tab.abort(queued) == {"aborted": True}
    assert tab.abort(queued) == {"aborted": False}
    assert world.thread("t1").head == head
    world.end(run)
    assert world.roles() == ["user"]


def test_a_queued_run_whose_page_closed_the_thread_still_has_its_tools(make):
    """protocol.md 3: thread.close ends the stream only; 6: the starting session has the tool."""
    world = make()
    first, second = world.tab("a"), world.tab("b", tools=[tool("t")])
    run = first.run()
    queued = second.run("later", if_busy="queue")
    second.close("t1")
    world.end(run)
    assert [spec.name for spec in world.steps(queued)[0].tools] == ["t"]
    world.call(queued, "t")
    world.end(queued)
    second.result(second.call("t"))
    assert world.outcomes() == ["ok"]


def test_run_ids_are_used_once(make):
    world = make()
    tab = world.tab()
    assert tab.run(run_id="mine") == "mine"
    world.end("mine")
    assert tab.run(run_id="mine") == "duplicate_id"


def test_an_agent_that_is_not_there_is_told_and_leaves_no_trace(make):
    world = make()
    tab = world.tab()
    assert tab.run(agent="nobody") == "unknown_agent"
    assert world.events() == []


@pytest.mark.parametrize("role", ["assistant", "system", "tool", "developer"])
def test_messages_of_another_role_are_refused(make, role):
    world = make()
    assert world.tab().run({"role": role, "content": "x"}) == "invalid_frame"


def test_a_run_after_a_message_cuts_the_history_there(make):
    world = make()
    tab = world.tab()
    for n in range(2):
        run = tab.run(f"ask {n}")
        world.text(run, f"say {n}")
        world.end(run)
    first = world.messages()[1]["id"]
    run = tab.run("another way", after=first)
    assert world.kinds()[-3:] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STEP_STARTED"]
    assert [m["content"] for m in world.messages()] == ["ask 0", "say 0", "another way"]
    assert [m["content"] for m in world.steps(run)[0].messages] == ["ask 0", "say 0", "another way"]
    world.end(run)
    assert tab.run("x", after="nowhere") == "invalid_frame"


def test_a_run_without_a_message_goes_on_from_the_history(make):
    world = make()
    tab = world.tab()
    world.end(tab.run("hi"))
    run = tab.run(None)
    assert [m["content"] for m in world.steps(run)[0].messages] == ["hi"]
    world.end(run)


# ---- buttons ------------------------------------------------------------------------------------


def test_a_button_runs_its_tool_and_no_model(make):
    """C122."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    command = tab.invoke("t", {"x": 1})
    assert tab.answer(command) is None
    tab.result(tab.call("t"), {"ok": True})
    reply = tab.answer(command)
    assert reply["outcome"] == "ok"
    assert reply["result"] == {"ok": True}
    assert reply["callId"] == tab.call("t").call_id
    assert (world.steps(), world.reason()) == ([], "no_follow_up")
    assert world.roles() == ["assistant", "tool"]


def test_a_button_for_what_nobody_has_leaves_no_trace(make):
    world = make(server=[spec("mine"), spec("yours", invoke=True)])
    tab = world.tab()
    assert tab.answer(tab.invoke("nope")) == "unknown_tool"
    assert tab.answer(tab.invoke("mine")) == "forbidden"
    assert world.events() == []
    tab.invoke("yours")
    assert [x.name for x in world.of(e.StartTool)] == ["yours"]
    tab.abort(thread="t1")


@pytest.mark.parametrize(
    ("follow_up", "roles"),
    [
        (True, ["assistant", "tool"]),
        ("explain", ["assistant", "tool", "user"]),
    ],
)
def test_a_button_with_a_follow_up_hands_the_run_to_the_agent(make, follow_up, roles):
    """C123: the trigger's choice rules over the tool's."""
    world = make()
    tab = world.tab(tools=[tool("t", followUp=False)])
    tab.invoke("t", follow_up=follow_up)
    tab.result(tab.call("t"), 1)
    (step,) = world.steps()
    assert (step.depth, step.agent) == (1, "default")
    assert [m["role"] for m in step.messages] == roles
    world.end(step.run_id)
    assert world.reason() == "completed"


@pytest.mark.parametrize("follow_up", [True, "explain"])
def test_a_button_whose_call_fails_is_told_and_never_followed_up(make, follow_up):
    world = make()
    tab = world.tab(tools=[tool("t", parameters=takes("x", x="integer"))])
    bad = tab.answer(tab.invoke("t", {"x": "1"}, follow_up=follow_up))
    assert bad["error"]["code"] == "invalid_arguments"
    command = tab.invoke("t", {"x": 1}, follow_up=follow_up)
    tab.error(tab.call("t"))
    assert tab.answer(command)["outcome"] == "error"
    assert world.steps() == []
    assert world.reason() == "no_follow_up"


def test_a_queued_button_is_answered_when_its_call_has_settled(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    command = tab.invoke("t", if_busy="queue")
    assert tab.answer(command) is None
    world.end(run)
    tab.result(tab.call("t"), 5)
    assert tab.answer(command)["result"] == 5


def test_a_queued_button_that_is_aborted_is_answered(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    command = tab.invoke("t", if_busy="queue", run_id="button")
    tab.abort("button")
    assert tab.answer(command) == "denied"
    world.end(run)


def test_python_may_call_a_tool(make):
    world = make(server=[spec("srv")])
    asked = i.InvokeRequested(asker=Asker(None, "mine"), name="srv", raw="{}")
    world.tell(world.key("t1"), asked, create=True)
    world.returned(world.of(e.StartTool)[0].call_id, 3)
    assert world.answers["mine"]["result"] == 3


# ---- what a step calls inside itself ------------------------------------------------------------


def test_a_step_that_waits_for_a_call_gets_its_value_at_once(make):
    """behaviour.md 2: calls made while others are open join the same message."""
    world = make()
    tab = world.tab(tools=[tool("t", readOnly=True)])
    run = tab.run()
    world.text(run, "let me see")
    world.call(run, "t", {"n": 1}, ticket="one")
    world.call(run, "t", {"n": 2}, ticket="two")
    first, second = tab.calls
    tab.result(second, 22)
    assert [(x.ticket, x.value.value) for x in world.of(e.GiveValue)] == [("two", 22)]
    assert world.results() == []
    tab.result(first, 11)
    assert world.results() == ["11", "22"]
    world.text(run, "so that is it")
    world.end(run)
    assert world.roles() == ["user", "assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize(("raw", "code"), [("{", "invalid_arguments"), ("{}", "unknown_tool")])
def test_a_step_that_waits_for_a_bad_call_is_told_at_once(make, raw, code):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t" if raw == "{" else "nope", raw, ticket="one")
    (given,) = world.of(e.GiveValue)
    assert given.value.code == code
    world.end(run)


# ---- what hooks say of a run --------------------------------------------------------------------


def judge_run(world, run, **judged):
    return world.tell(world.key("t1"), i.RunJudged(run_id=RunId(run), **judged))


VERDICTS = [
    ("as it is", {}, ["RUN_STARTED", "STEP_STARTED"], None),
    ("with another agent", {"agent": "other"}, ["RUN_STARTED", "STEP_STARTED"], None),
    ("with an agent that is not there", {"agent": "nobody"}, ["RUN_STARTED", "RUN_ERROR"],
     {"code": "agent_error", "message": "there is no agent 'nobody'"}),
    ("denied", ("denied", "not today"), ["RUN_STARTED", "RUN_ERROR"],
     {"code": "denied", "message": "not today"}),
    ("a hook that broke", (None, None), ["RUN_STARTED", "RUN_ERROR"],
     {"code": "agent_error", "message": "the agent failed"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "kinds", "error"), [c[1:] for c in VERDICTS], ids=[c[0] for c in VERDICTS]
)
def test_before_run_lets_a_run_begin_or_ends_it(make, verdict, kinds, error):
    world = make(agents=("default", "other"), hooks=["before_run"])
    run = world.start()
    (asked,) = world.of(e.JudgeRun)
    assert (asked.run_id, world.events(), world.steps()) == (run, [], [])
    if isinstance(verdict, dict):
        judge_run(world, run, request=replace(asked.request, **verdict))
    else:
        judge_run(world, run, code=verdict[0], message=verdict[1])
    assert world.kinds() == kinds
    if error is None:
        assert world.steps()[0].agent == verdict.get("agent", "default")
        assert judge_run(world, run, code="denied") == []
        world.end(run)
    assert (world.last_run().get("error")) == error


@pytest.mark.parametrize(
    ("judged", "reply"),
    [
        ({"code": "denied"}, "denied"),
        ({"code": "agent_error"}, "internal"),
        (None, "denied"),
    ],
    ids=["denied", "broken", "aborted"],
)
def test_a_button_whose_call_was_never_made_is_answered_all_the_same(make, judged, reply):
    world = make(hooks=["before_run"])
    tab = world.tab("a", tools=[tool("t")])
    command = tab.invoke("t", run_id="button")
    if judged is None:
        tab.abort("button")
    else:
        judge_run(world, "button", **judged)
    assert (tab.answer(command), tab.calls) == (reply, [])


def test_a_button_that_may_run_makes_its_call(make):
    world = make(hooks=["before_run"])
    tab = world.tab("a", tools=[tool("t")])
    command = tab.invoke("t", {"n": 1})
    (asked,) = world.of(e.JudgeRun)
    judge_run(world, asked.run_id, request=asked.request)
    assert tab.call("t").args == {"n": 1}
    tab.result(tab.call("t"), 5)
    assert tab.answer(command)["result"] == 5


def test_after_step_is_waited_for_before_anything_is_decided(make):
    world = make(hooks=["after_step"])
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run, "tool_calls")
    assert world.of(e.ReviewStep) == []
    tab.result(tab.call("t"), 1)
    (asked,) = world.of(e.ReviewStep)
    assert (asked.run_id, asked.depth, asked.finish_reason) == (run, 0, "tool_calls")
    assert [value.value for value in asked.calls] == [1]
    for late in (i.StepReviewed(RunId("nobody"), 0), i.StepReviewed(RunId(run), 1)):
        assert world.tell(world.key("t1"), late) == []
    assert world.depth(run) == 0
    world.tell(world.key("t1"), i.StepReviewed(RunId(run), 0))
    assert world.depth(run) == 1
    world.end(run)
    world.tell(world.key("t1"), i.StepReviewed(RunId(run), 1))
    assert world.reason() == "completed"


def test_a_step_is_counted_once_however_often_it_is_looked_at(make):
    world = make(hooks=["after_step"], stop_when=[lambda steps: False])
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"))
    world.tell(world.key("t1"), i.StepReviewed(RunId(run), 0))
    assert [len(x.steps) for x in world.of(e.JudgeStops)] == [1]
    world.judge(run, False)
    assert (world.depth(run), len(world.running(run).rounds)) == (1, 1)
    world.abort()


@pytest.mark.parametrize("when", ["between", "before it is announced", "while it runs"])
def test_a_state_that_no_run_has_said_is_said_with_the_next_one(make, when):
    world = make(hooks=["before_run"])
    tab = world.tab("a")
    if when == "while it runs":
        run = tab.run()
        judge_run(world, run, request=world.of(e.JudgeRun)[0].request)
        tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
        world.end(run)
    elif when == "between":
        tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    run = tab.run()
    if when == "before it is announced":
        tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    judge_run(world, run, request=world.of(e.JudgeRun)[-1].request)
    said = world.kinds()[-3:]
    again = ["RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED"]
    assert (said == again) is (when != "while it runs")
    world.abort()


# ---- what is suggested --------------------------------------------------------------------------


def suggested(world, run, *items):
    return world.tell(world.key("t1"), i.SuggestionsMade(RunId(run), items))


def test_suggestions_are_asked_for_after_a_run_that_completed(make):
    world = make(hooks=["suggest"])
    run = world.start()
    world.text(run, "Hello.")
    world.end(run)
    (asked,) = world.of(e.Suggest)
    assert (asked.value.run_id, asked.value.text) == (run, "Hello.")
    assert [m["role"] for m in asked.messages] == ["user", "assistant"]
    assert suggested(world, "another", "x") == []
    suggested(world, run, "more", "less")
    said = world.events("t1", "CUSTOM")[-1]
    assert said["value"] == {"runId": run, "items": ["more", "less"]}
    assert world.thread("t1").space.suggestions == ("more", "less")
    assert suggested(world, run, "again") == []


@pytest.mark.parametrize("how", ["the next run", "deletion"])
def test_nobody_thinks_on_when_nobody_wants_to_know(make, how):
    world = make(hooks=["suggest"])
    run = world.start()
    world.end(run)
    if how == "deletion":
        world.tell(world.key("t1"), i.Deleted())
    else:
        world.start()
        assert suggested(world, run, "late") == []
    assert world.of(e.StopSuggesting) == [e.StopSuggesting(run)]


@pytest.mark.parametrize("how", ["nobody registered", "failed", "another waits"])
def test_nothing_is_suggested_after(make, how):
    world = make(hooks=[] if how == "nobody registered" else ["suggest"])
    run = world.start()
    if how == "failed":
        world.fail(run)
    elif how == "another waits":
        world.start(if_busy="queue")
        world.end(run)
    else:
        world.end(run)
    assert world.of(e.Suggest) == []


# ---- ends ---------------------------------------------------------------------------------------


def test_a_button_that_can_no_longer_begin_is_answered_and_everybody_sees_that_it_failed(make):
    world = make()
    tab, other = world.tab("a", tools=[tool("t")]), world.tab("b")
    run = tab.run()
    failed = other.invoke("t", if_busy="queue", run_id="failed")
    last = other.run("last", if_busy="queue")
    tab.tools()
    world.end(run)
    assert other.answer(failed) == "unknown_tool"
    assert world.thread("t1").run.id == last
    over = [(x.value.run_id, x.value.reason, x.value.depth) for x in world.of(e.RunOver)]
    assert over == [(run, "completed", 0), ("failed", "failed", 0)]
    kinds = ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")
    assert [(ev["type"], ev.get("code")) for ev in world.events("t1", *kinds)][2:] == [
        ("RUN_STARTED", None),
        ("RUN_ERROR", "agent_error"),
        ("RUN_STARTED", None),
    ]
    world.end(last)
    assert world.sessions[other.id].queued.total() == world.sessions[other.id].running.total() == 0


def test_a_run_that_can_no_longer_begin_fails_behind_what_was_said(make):
    """What it was to be said after was cut by the run before it."""
    world = make()
    tab = world.tab("a")
    world.end(tab.run("kept"))
    run = tab.run("cut")
    kept, cut = [m["id"] for m in world.messages()]
    given = {"thread_id": "t1", "if_busy": "queue"}
    between = tab.ask(f.RunStart, message="instead", after=kept, **given)["runId"]
    late = tab.ask(f.RunStart, message="late", after=cut, **given)["runId"]
    world.end(run)
    world.end(between)
    assert (world.last_run()["runId"], world.reason()) == (late, "agent_error")
    assert not world.thread("t1").busy
    assert [m["content"] for m in world.messages()] == ["kept", "instead", "late"]


def test_p16_a_run_whose_request_could_not_be_kept_fails_in_its_turn():
    world = World()  # what a store has not kept is no input
    tab = world.tab("a")
    run = tab.run("x")
    waits = tab.ask(f.RunStart, thread_id="t1", message="half", if_busy="queue")["runId"]
    world.thread("t1").runs.unheard.add(waits)
    world.end(run)
    assert (world.last_run()["runId"], world.reason()) == (waits, "agent_error")
    assert "restarted" in world.last_run()["error"]["message"]
    assert [m["content"] for m in world.messages()] == ["x", "half"]


def test_p12_a_run_for_whose_words_there_is_no_room_fails_without_them(make):
    world = make(history_bytes=2_000)
    tab = world.tab("a")
    run = tab.run("x")
    tab.ask(f.RunStart, thread_id="t1", message="no room", if_busy="queue")
    world.text(run, "y" * 3_000)
    world.end(run)
    assert world.reason() == "agent_error"
    assert not world.thread("t1").busy
    assert [m["content"][:2] for m in world.messages()] == ["x", "yy"]


def test_a_thread_that_goes_ends_what_runs_and_what_waits(make):
    world = make()
    run = world.start()
    world.start(if_busy="queue", run_id=RunId("waits"))
    world.tell(world.key("t1"), i.Deleted())
    over = [(x.value.run_id, x.value.reason) for x in world.of(e.RunOver)]
    assert over == [("waits", "aborted"), (run, "aborted")]


def test_runs_are_found_while_they_are_under_way_or_wait(make):
    world = make(agents=("default", "helper"))
    run = world.start()
    waits = world.start(if_busy="queue")
    sub = world.delegate(run, "helper")
    runs = world.thread("t1").runs
    assert [runs.has(RunId(name)) for name in (run, waits, sub, "nobody")] == [
        True,
        True,
        True,
        False,
    ]
    world.abort()
    assert runs.has(RunId(run)) is runs.has(RunId(sub)) is False
    world.abort()


@pytest.mark.parametrize("found", [True, False])
def test_an_abort_says_whether_there_was_anything_to_stop(make, found):
    world = make()
    world.tab("a")
    if found:
        world.start()
    assert world.abort() == {"aborted": found}
    assert world.abort(run="nobody") == {"aborted": False}


def test_p12_a_session_is_told_what_it_counts(make):
    world = make()
    tab = world.tab("a")
    run = tab.run()
    tab.run("waits", if_busy="queue")
    world.end(run)
    world.abort()
    counted = [
        (x.message.running, x.message.queued)
        for x in world.of(e.TellSession)
        if isinstance(x.message, s.RunCounted)
    ]
    assert counted == [(1, 0), (0, 1), (-1, 0), (1, -1), (-1, 0)]


def breaks(*_, **__):
    raise RuntimeError("an invariant")


def test_p14_a_run_that_broke_fails_and_the_thread_is_free(monkeypatch):
    world = World()  # what was broken by hand is not judged
    run = world.start()
    with monkeypatch.context() as patch:
        patch.setattr("handspan.core.emission.Emission.reasoning", breaks)
        world.think(run, "hm")
    assert world.last_run()["error"] == {
        "code": "internal",
        "message": "something broke in the server",
    }
    runs = world.thread("t1").runs
    assert runs.run is None
    runs.give_up()
    assert len(world.events("t1", "RUN_ERROR")) == 1


def test_p14_a_run_that_cannot_even_fail_is_dropped(monkeypatch):
    world = World(server=[spec("srv")])
    run = world.start()
    sub = world.delegate(run)
    world.call(run, "srv", ticket="k")
    with monkeypatch.context() as patch:
        patch.setattr("handspan.core.space.Space.emit", breaks)
        effects = world.think(run, "hm")
    stopped = [x for x in effects if isinstance(x, e.StopStep)]
    assert stopped[-2:] == [e.StopStep(run, 0), e.StopStep(sub, 1)]
    (over,) = [x for x in effects if isinstance(x, e.RunOver)]
    assert (over.value.reason, over.value.code) == ("failed", "internal")
    thread = world.thread("t1")
    assert (thread.run, len(thread.runs.live), thread.desk.open_calls) == (None, 0, {})
    assert world.steps(world.start())


@pytest.mark.parametrize("part", ["_begin", "_drop_queued"])
def test_a_request_without_an_id_is_a_broken_invariant(make, part):
    runs = make().thread("t1").runs
    with pytest.raises(AssertionError):
        getattr(runs, part)(i.RunRequested(asker=Asker(None, "x")))


# ---- over a restart -----------------------------------------------------------------------------


def test_a_run_that_nobody_has_seen_begins_once_more():
    world = World(hooks=["before_run"])
    run = world.start()
    thread = world.thread("t1")
    before = thread.run
    thread.space.effects = told = []
    thread.runs.begin_again(before)
    assert thread.run is not before
    assert thread.run.id == run
    assert [type(effect) for effect in told] == [e.Record, e.JudgeRun]
