"""What agents say: to the step it belongs to, or to nobody; and the bound of what a run may say."""

import pytest
from tests.core.builders import World, spec, tool
from tests.core.scenarios import Scene, a_scene

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.effects import CallValue
from handspan_protocol.ids import RunId


def quiet(scene: Scene) -> None:
    """The agent has not said a word."""


def over(scene: Scene) -> None:
    """The step has ended, and the run with it."""
    scene.world.end(scene.run)


def waits(scene: Scene) -> None:
    """The step has ended, a call is open."""
    scene.world.call(scene.run, "t")
    scene.world.end(scene.run)


def words(run: str) -> list:
    """One of everything that an agent may say, at depth 0."""
    return [
        i.TextSaid(RunId(run), 0, ("hi",)),
        i.ReasoningSaid(RunId(run), 0, "hm"),
        i.EventSaid(RunId(run), 0, {"type": "TEXT_MESSAGE_START", "messageId": "m"}),
        i.EventSaid(RunId(run), 0, {"type": "CUSTOM", "name": "x", "value": 1}),
        i.StateSaid(RunId(run), 0, None, {"n": 1}),
        i.CallSaid(run_id=RunId(run), depth=0, name="t", raw="{}"),
        i.CallSaid(run_id=RunId(run), depth=0, name="t", raw="{}", ticket="k"),
        i.HandoffSaid(RunId(run), 0, "other"),
        i.StepShaped(RunId(run), 0, "other", frozenset()),
        i.StepEnded(RunId(run), 0, "length"),
        i.StepFailed(RunId(run), 0, "agent_error", "late"),
    ]


OF_A_TOOL = {
    "EventSaid CUSTOM": "CUSTOM",
    "StateSaid": "STATE_SNAPSHOT",
    "CallSaid k": "TOOL_CALL_START",
}
"""What a tool of a step may still say while it is at work, and what comes of it."""


def named(said) -> str:
    kind = getattr(said, "event", {}).get("type")
    more = "CUSTOM" if kind == "CUSTOM" else getattr(said, "ticket", None)
    return " ".join(filter(None, (type(said).__name__, more)))


ALL = [named(said) for said in words("r")]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("when", [over, waits, "another depth", "another run"])
def test_p5_what_comes_too_late_says_nothing(make, when, name):
    """But a tool of the step that is still at work; and who waits for a value always gets one."""
    scene = a_scene(make, when if callable(when) else quiet)
    said = next(x for x in words(scene.run) if named(x) == name)
    if when == "another depth":
        said = type(said)(**{**vars_of(said), "depth": 1})
    elif when == "another run":
        said = type(said)(**{**vars_of(said), "run_id": RunId("nobody")})
    head = scene.world.thread("t1").head
    effects = scene.tell(said)
    kinds = [event["type"] for event in scene.world.events("t1")[head:]]
    if when is waits and name in OF_A_TOOL:
        assert OF_A_TOOL[name] in kinds
    elif name == "CallSaid k":
        (given,) = effects
        assert given == e.GiveValue(
            "k",
            CallValue(
                call_id="",
                name="t",
                outcome="aborted",
                code="aborted_before_start",
                message="the step is over; it was not carried out",
            ),
        )
        assert kinds == []
    else:
        assert (effects, kinds) == ([], [])


def vars_of(said):
    return {name: getattr(said, name) for name in said.__slots__}


# ---- words --------------------------------------------------------------------------------------


def test_words_go_into_the_step_in_the_order_they_were_said(make):
    world = make()
    run = world.start()
    world.tell(world.key("t1"), i.TextSaid(RunId(run), 0, ("He", "", "llo")))
    world.think(run, "hm")
    world.event(run, "CUSTOM", name="handspan_or_not", value={})
    assert [event["type"] for event in world.events()[2:]] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "CUSTOM",
    ]
    world.abort()


def flood(world, run, n=1):
    match n:
        case 0:
            world.tell(world.key("t1"), i.TextSaid(RunId(run), 0, ("x" * 11, "not said")))
        case 1:
            world.think(run, "x" * 11)
        case 2:
            world.event(run, "TEXT_MESSAGE_CHUNK", messageId="m", delta="x" * 11)
        case 3:
            world.call(run, "t", "x" * 11)
        case 4:
            world.call(run, "t", "x" * 11, ticket="k")


@pytest.mark.parametrize("how", range(5), ids=["text", "thoughts", "event", "call", "inside"])
def test_p12_a_run_that_says_more_than_it_may_fails(make, how):
    world = make(output_bytes=10)
    run = world.start()
    flood(world, run, how)
    assert world.reason() == "output_limit"
    assert world.last_run()["error"]["message"] == "the run said more than it may"
    assert not [m for m in world.messages() if "not said" in str(m.get("content"))]


def test_p12_a_run_may_say_exactly_as_much_as_it_may(make):
    world = make(output_bytes=10)
    run = world.start()
    world.text(run, "x" * 5)
    world.think(run, "x" * 5)
    world.end(run)
    assert world.reason() == "completed"


def test_p12_a_sub_run_counts_for_the_whole_run(make):
    world = make(output_bytes=10)
    run = world.start()
    world.text(run, "x" * 6)
    sub = world.delegate(run, text="")
    world.text(sub, "x" * 6)
    assert world.reason() == "output_limit"
    assert [x.value.reason for x in world.of(e.GiveResult)] == ["aborted"]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("MESSAGES_SNAPSHOT", {"messages": []}),
        ("CUSTOM", {"name": "x", "value": float("inf")}),
        ("STATE_DELTA", {"delta": [{"op": "remove", "path": "/nope"}]}),
        ("STATE_SNAPSHOT", {"snapshot": "x" * 200}),
    ],
    ids=["misplaced", "no JSON", "a patch that does not apply", "a state too large"],
)
def test_an_event_that_cannot_be_fails_the_step(make, kind, fields):
    """C130: ours, the agent's and the world's faults alike."""
    world = make(state_bytes=100)
    run = world.start()
    world.event(run, kind, **fields)
    assert world.reason() == "agent_error"
    assert world.of(e.StopStep) == [e.StopStep(run, 0)]


@pytest.mark.parametrize(
    ("patch", "state", "reason"),
    [
        (None, {"n": 1}, None),
        (({"op": "add", "path": "/n", "value": 1},), None, None),
        (({"op": "remove", "path": "/nope"},), None, "agent_error"),
        (None, "x" * 200, "agent_error"),
    ],
)
def test_an_agent_changes_the_state_or_fails(make, patch, state, reason):
    world = make(state_bytes=100)
    run = world.start()
    world.tell(world.key("t1"), i.StateSaid(RunId(run), 0, None, {}))
    world.tell(world.key("t1"), i.StateSaid(RunId(run), 0, patch, state))
    if reason is None:
        assert world.thread("t1").space.transcript.state == {"n": 1}
        world.end(run)
        assert world.reason() == "completed"
    else:
        assert world.reason() == reason
        assert world.thread("t1").space.transcript.state == {}


# ---- calls --------------------------------------------------------------------------------------


def test_a_call_waits_for_the_end_of_its_step_and_one_inside_it_does_not(make):
    world = make()
    tab = world.tab("a", tools=[tool("t", readOnly=True)])
    run = tab.run()
    world.call(run, "t", {"n": 1}, wish="c1")
    assert tab.calls == []
    world.call(run, "t", {"n": 2}, wish="c2", ticket="k")
    assert [order.call_id for order in tab.calls] == ["c2"]
    calls = world.thread("t1").desk.calls
    assert [(c.ticket, c.by_tool) for c in calls.values()] == [(None, False), ("k", False)]
    world.end(run)
    assert [order.call_id for order in tab.calls] == ["c2", "c1"]


def test_a_call_of_a_server_tool_is_marked_as_its(make):
    world = make(server=[spec("srv"), spec("inner")])
    run = world.start()
    world.call(run, "srv")
    world.end(run)
    world.call(run, "inner", ticket="k", by_tool=True)
    inner = list(world.thread("t1").desk.calls.values())[1]
    assert (inner.by_tool, inner.ticket) == (True, "k")
    assert [x.name for x in world.of(e.StartTool)] == ["srv", "inner"]


# ---- moves --------------------------------------------------------------------------------------


def test_the_first_handover_of_a_step_counts(make):
    world = make(agents=("default", "other", "third"))
    run = world.start()
    world.hand_over(run, "other")
    world.hand_over(run, "third")
    world.hand_over(run, "nobody")
    world.end(run)
    assert [step.agent for step in world.steps(run)] == ["default", "other"]


def test_a_handover_to_nobody_fails_the_step_and_names_whom_it_sought(make):
    world = make()
    run = world.start()
    world.hand_over(run, "n" * 100)
    assert world.last_run()["error"] == {
        "code": "agent_error",
        "message": f"no agent '{'n' * 64}' to hand over to",
    }


def test_a_hook_shapes_a_step(make):
    world = make(agents=("default", "other"))
    run = world.start()
    world.tell(world.key("t1"), i.StepShaped(RunId(run), 0, "other", frozenset({"t"})))
    step = world.running(run).step
    assert (step.agent, step.withheld) == ("other", frozenset({"t"}))


# ---- the end of a step --------------------------------------------------------------------------


def test_what_a_step_gives_is_the_runs_output(make):
    world = make()
    run = world.start()
    world.text(run, "bye")
    world.end(run, "stop", output={"n": 1}, has_output=True)
    assert world.kinds()[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]
    assert world.last_run()["result"] == {
        "reason": "completed",
        "depth": 0,
        "output": {"n": 1},
    }


def test_a_step_that_gives_nothing_keeps_what_an_earlier_one_gave(make):
    world = make(agents=("default", "other"))
    run = world.start()
    world.hand_over(run, "other")
    world.end(run, output=1, has_output=True)
    world.end(run, output=2)
    assert world.last_run()["result"]["output"] == 1


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "unknown"])
def test_a_turn_that_was_cut_off_refuses_its_calls(make, reason):
    world = make()
    tab = world.tab("a", tools=[tool("t"), tool("in")])
    run = tab.run()
    world.call(run, "t")
    world.call(run, "in", ticket="k")
    world.end(run, reason)
    assert [call.name for call in tab.calls] == ["in"]
    tab.result(tab.call("in"))
    assert (world.outcomes(), world.reason()) == (["truncated_turn", "ok"], "truncated")
    assert "cut off before this call was complete" in world.results()[0]


def test_the_last_step_at_the_depth_limit_calls_nothing(make):
    world = make(max_depth=0, reflect="at_limit")
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.result(tab.call("t"))
    world.call(run, "t")
    world.end(run)
    assert (world.outcomes(), world.reason()) == (["ok", "limit"], "max_depth")
    assert "depth limit" in world.results()[1]


def test_a_call_that_a_hook_looks_at_is_not_proposed_twice(make):
    world = make(hooks=["before_call"])
    tab = world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t", ticket="k")
    world.end(run)
    assert len(world.of(e.JudgeCall)) == 1
    world.judged(world.of(e.JudgeCall)[0].call_id, "allow")
    assert len(tab.calls) == 1


@pytest.mark.parametrize("code", ["agent_error", "provider_error", "internal"])
def test_an_agent_that_raised_fails_its_run_with_its_code(make, code):
    world = make()
    run = world.start()
    world.fail(run, "boom", code)
    assert world.last_run()["error"] == {"code": code, "message": "boom"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ACTIVITY_SNAPSHOT", {"content": {}}),
        ("ACTIVITY_SNAPSHOT", {"activityType": "plan"}),
        ("ACTIVITY_DELTA", {}),
        ("ACTIVITY_DELTA", {"patch": 7}),
    ],
)
def test_an_activity_that_lacks_a_part_is_the_agents_fault(kind, fields):
    world = World()  # what breaks is not judged
    run = world.start()
    if kind == "ACTIVITY_DELTA":
        world.event(run, "ACTIVITY_SNAPSHOT", messageId="y", activityType="plan", content={})
    world.event(run, kind, messageId="y", **fields)
    assert world.reason() == "agent_error"


# ---- tokens -------------------------------------------------------------------------------------


def test_tokens_are_told_at_the_end_with_those_of_sub_runs_and_only_if_there_are_any(make):
    world = make()
    run = world.start()
    world.tell(world.key("t1"), i.UsageSaid(RunId(run), 0, {"model": "m", "inputTokens": 3}))
    sub = world.delegate(run)
    world.tell(world.key("t1"), i.UsageSaid(RunId(sub), 1, {"model": "m", "inputTokens": 4}))
    world.end(sub)
    world.end(run)
    assert world.events()[-1]["usage"] == [{"model": "m", "inputTokens": 7}]
    (over,) = [x for _, x in world.effects if isinstance(x, e.RunOver)]
    assert list(over.value.usage) == [{"model": "m", "inputTokens": 7}]
    world.end(world.start())
    assert "usage" not in world.events()[-1]


@pytest.mark.parametrize("when", [over, waits])
def test_p6_tokens_that_are_told_too_late_are_not_counted(make, when):
    scene = a_scene(make, when)
    assert scene.tell(i.UsageSaid(RunId(scene.run), 0, {"inputTokens": 1})) == []
