"""Calls, requests and runs as JSON and back: each image is the other direction's inverse (P16)."""

from dataclasses import fields, replace

import pytest
from tests.core.builders import COMPILE, spec, takes, tool
from tests.core.scenarios import a_call, a_run, asked_by, settled

from handspan.core.answer import Answer
from handspan.core.call import Approval, Call, CallEvent, CallState, Settlement, refusal
from handspan.core.entries import read
from handspan.core.images import (
    call_image,
    context_image,
    is_whole,
    read_call,
    read_context,
    read_page_tool,
    read_request,
    read_run,
    request_image,
    run_image,
    tool_image,
)
from handspan.core.inputs import InvokeRequested, RunRequested
from handspan.core.parties import Principal
from handspan.core.run import Run, Step
from handspan_protocol.codec import encode
from handspan_protocol.errors import CallCode
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import RunId

SPEC = spec("t", parameters=takes("x", x="string"))
PARTS = ({"type": "text", "text": "a"},)


def through_json(image):
    return read(encode(image))


# ---- calls --------------------------------------------------------------------------------------

OF_THE_PROCESS = {
    *("ticket", "by_tool", "hook", "deadline", "homeless_until"),
    *("result_shown", "progress_at", "progress_waiting"),
}
"""What hangs on the process, or is a point in time."""


OF_SERVER = {"server": "t", "digest": SPEC.digest}


def find(image):
    """The one page's tool, or the server's of that name."""
    return SPEC if image in (tool("t", parameters=takes("x", x="string")), OF_SERVER) else None


def back(call):
    return read_call(call.id, through_json(call_image(call)), find)


def same(one, other, *but):
    """Whether both have the same fields, as far as an image goes."""
    names = {field.name for field in fields(one)} - {"approval", *OF_THE_PROCESS, *but}
    return {n: getattr(one, n) for n in names} == {n: getattr(other, n) for n in names}


OPEN = [
    a_call(raw='{"x":1}', ended=True, over_limit="over 3 calls"),
    a_call(state=CallState.QUEUED, spec=SPEC, holder="a", args={"x": "y"}, judged=True, asked=True),
    a_call(
        state=CallState.STARTED, spec=SPEC, holder="a", attempt=2, held={"a": 2, "b": 1},
        last={"callId": "c1", "state": "started"}, owner="sub", lost_as=CallCode.PAGE_GONE,
    ),
    a_call(state=CallState.STARTED, spec=SPEC, attempt=1),
    a_call(state=CallState.QUEUED, spec=SPEC, decision=("d", True, None, None, False)),
]  # fmt: skip


@pytest.mark.parametrize("call", OPEN, ids=lambda call: call.state.value)
def test_p16_an_open_call_is_had_again_as_it_was(call):
    again = back(call)
    assert same(call, again, "pieces")
    assert again.raw == call.raw
    assert again.approval is None
    assert call_image(again) == call_image(call)


def test_p16_a_question_is_had_again_and_its_time_begins_anew():
    call = a_call(state=CallState.WAITING_APPROVAL, spec=SPEC, holder="a")
    call.approval = Approval(digest="d", expires_at=77.0, reason="why")
    assert back(call).approval == Approval(digest="d", expires_at=0.0, reason="why")


HOMES = [
    ("a page has it", {"holder": "a"}, None),
    ("it waits for a page", {"homeless_until": 5.0}, 0.0),
    ("the server has it", {}, None),
]


@pytest.mark.parametrize(("given", "until"), [c[1:] for c in HOMES], ids=[c[0] for c in HOMES])
def test_a_call_without_a_page_waits_for_one_unless_it_is_the_servers(given, until):
    call = a_call(state=CallState.QUEUED, spec=SPEC, **given)
    assert back(call).homeless_until == until
    assert back(call).spec is SPEC


def test_a_call_whose_tool_cannot_be_had_any_more_has_none():
    call = a_call(state=CallState.QUEUED, spec=spec("other"), holder="a")
    assert back(call).spec is None


SETTLED = [
    settled(a_call(ended=True), {"n": 1}),
    settled(a_call(ended=True, held={"a": 1}, attempt=1), answer=Answer(content=PARTS)),
    settled(
        a_call(ended=True),
        answer=Answer(error_code="x", error_message="m"),
        code=CallCode.HANDLER_ERROR,
    ),
    settled(
        a_call(ended=True),
        answer=Answer(error_message="m", code=CallCode.INVALID_RESULT),
        code=CallCode.INVALID_RESULT,
    ),
]


@pytest.mark.parametrize("call", SETTLED)
def test_p7_a_settled_call_is_had_again_with_what_settled_it(call):
    again = back(call)
    assert same(call, again, "pieces", "args", "spec", "holder", "judged", "over_limit", "lost_as")
    assert again.value() == call.value()
    assert again.over
    assert "raw" not in call_image(call)


def test_p16_what_a_hook_made_of_a_result_is_kept_beside_it():
    call = settled(a_call(ended=True), 1)
    call.revised = replace(call.settlement, answer=Answer(value=2))
    again = back(call)
    assert (again.settlement.answer.value, again.revised.answer.value) == (1, 2)


def test_p16_every_way_to_settle_comes_back():
    for event in CallEvent:
        call = a_call(ended=True, state=CallState.SETTLED)
        call.settlement = Settlement(by=event, answer=Answer(value=None))
        assert back(call).settlement == call.settlement
    call.settlement = refusal(CallEvent.DEADLINE, CallCode.TIMEOUT, "late")
    assert back(call).settlement == call.settlement


def test_p16_no_field_of_a_call_is_forgotten_by_accident():
    """A field that is new is either kept or stands among those that hang on the process."""
    names = {field.name for field in fields(Call)} - OF_THE_PROCESS - {"id"}
    renamed = {"pieces": "raw", "spec": "tool", "settlement": "settled"}
    assert {renamed.get(n) or _on_the_wire(n) for n in names} == (
        call_image(OPEN[0]).keys() | call_image(SETTLED[0]).keys()
    )


def _on_the_wire(name):
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


# ---- tools --------------------------------------------------------------------------------------


def test_a_pages_tool_is_kept_whole_and_one_of_the_servers_by_name_and_digest():
    assert tool_image(SPEC, server=True) == OF_SERVER
    again = read_page_tool(through_json(tool_image(SPEC, server=False)), COMPILE)
    assert (again.tool, again.digest) == (SPEC.tool, SPEC.digest)


NO_TOOLS = [
    {"name": "no name", "description": "d"},
    None,
    tool("t", parameters={"type": "object", "properties": {"x": {"$ref": "https://x.example"}}}),
]


@pytest.mark.parametrize("image", NO_TOOLS)
def test_what_is_no_tool_by_the_rules_of_today_is_none(image):
    assert read_page_tool(image, COMPILE) is None


# ---- requests -----------------------------------------------------------------------------------

ITEM = ContextItem(name="page", description="which", value={"n": 1})
ANN = Principal("ann", roles=["a"])
UNHEARD = Principal("ann", when=object())
RUN = RunRequested(
    asker=asked_by("s", "d 7"),
    run_id=RunId("r1"),
    agent="other",
    message={"role": "user", "content": "hi"},
    after="m1",
    context=(ITEM,),
    forwarded_props={"x": 1},
    if_busy="queue",
    principal=ANN,
)
BUTTON = InvokeRequested(
    asker=asked_by(None, "t"),
    run_id=RunId("r1"),
    name="t",
    raw="{}",
    follow_up="and now?",
    if_busy="replace",
    principal=ANN,
)


@pytest.mark.parametrize("request_", [RUN, BUTTON, RunRequested(asker=asked_by(), run_id="r1")])
def test_p16_a_request_is_had_again_as_it_was(request_):
    again = read_request(RunId("r1"), through_json(request_image(request_, (ITEM,))))
    assert again == request_
    assert again.principal.attributes == request_.principal.attributes


@pytest.mark.parametrize("request_", [RUN, BUTTON])
def test_a_principal_that_json_cannot_hold_is_kept_without_attributes_and_that_is_told(request_):
    image = through_json(request_image(replace(request_, principal=UNHEARD), ()))
    again = read_request(RunId("r1"), image)
    assert not is_whole(image)
    assert (again.principal.id, again.principal.attributes) == ("ann", {})
    assert is_whole(request_image(request_, ()))


def test_context_is_had_again_as_it_was():
    assert read_context(through_json([context_image(ITEM)])) == (ITEM,)


# ---- runs ---------------------------------------------------------------------------------------

C1, C2 = settled(a_call("c1", ended=True), 1), a_call("c2", ended=True)
CALLS = {"c1": C1, "c2": C2}


def a_run_on_its_way():
    run = a_run(
        "r1", request=replace(RUN, run_id=RunId("r1")), agent="other", principal=ANN,
        announced=True, replied=True, restarts=2, since="m1", fingerprint="f", repeats=2,
        reflecting=True, output={"n": 1}, has_output=True, subs_made=3,
    )  # fmt: skip
    run.rounds = [(C1.value(),)]
    run.results = run.rounds[-1]
    run.step = Step(
        depth=1, base="m3", calls=[C2], ended=True, finish_reason="stop", handoff="third",
        agent="fourth", withheld=frozenset({"u", "t"}), counted=True, reviewed=True,
    )  # fmt: skip
    return run


def test_p16_a_run_is_had_again_as_far_as_it_was():
    run = a_run_on_its_way()
    again = read_run(run.request, through_json(run_image(run)), CALLS)
    left_out = {"root", "step", "context", "context_began", "forwarded_props", "said", "said_chars"}
    for name in {field.name for field in fields(Run)} - left_out:
        assert getattr(again, name) == getattr(run, name), name
    for name in {field.name for field in fields(Step)} - {"emission", "opened"}:
        assert getattr(again.step, name) == getattr(run.step, name), name


def test_a_call_that_is_known_no_longer_or_was_not_whole_is_left_out():
    run = a_run_on_its_way()
    run.step.calls.append(a_call("c3"))
    assert run_image(run)["calls"] == ["c2"]
    again = read_run(run.request, through_json(run_image(run)), {})
    assert (again.rounds, again.results, again.step.calls) == ([()], (), [])


def test_a_run_in_its_first_step_has_no_results():
    again = read_run(RUN, through_json(run_image(a_run())), {})
    assert (again.rounds, again.results, again.announced) == ([], (), False)


DELEGATED = [
    ("nobody", False, False, False, False),
    ("its step began one", True, False, False, True),
    ("the step is over, and so are they", True, True, False, False),
    ("a tool of the step waits for one", True, True, True, True),
]


@pytest.mark.parametrize(
    ("began", "ended", "under_way", "kept"),
    [c[1:] for c in DELEGATED],
    ids=[c[0] for c in DELEGATED],
)
def test_that_somebody_waited_for_a_sub_run_is_kept(began, ended, under_way, kept):
    run = a_run()
    run.step.delegated, run.step.ended = began, ended
    if under_way:
        run.subs[RunId("sub")] = a_run("sub", parent=run)
    assert run_image(run)["delegated"] is kept


# ---- values as deep as they may be -----------------------------------------------------------

DEPTHS = [127, 250]
"""A page's deepest value, and almost the deepest that can be written."""


def nested(depth):
    """Lists in lists."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", DEPTHS)
def test_p16_a_call_with_deep_values_is_had_again(depth):
    value = nested(depth)
    decision = ("d", True, value, None, False)
    call = a_call(state=CallState.QUEUED, spec=SPEC, args={"x": value}, decision=decision)
    again = back(call)
    assert (again.args, again.decision) == ({"x": value}, decision)
    done = settled(a_call(ended=True), value)
    done.revised = replace(done.settlement, answer=Answer(content=({"json": value},)))
    again = back(done)
    assert again.settlement.answer.value == value
    assert again.revised.answer.content == ({"json": value},)


@pytest.mark.parametrize("depth", DEPTHS)
def test_p16_a_run_and_its_request_with_deep_values_are_had_again(depth):
    value = nested(depth)
    run = replace(a_run_on_its_way(), output=value)
    assert read_run(run.request, through_json(run_image(run)), CALLS).output == value
    request = replace(RUN, principal=Principal("ann", tree=value))
    again = read_request(RunId("r1"), through_json(request_image(request, ())))
    assert again.principal.attributes == {"tree": value}
