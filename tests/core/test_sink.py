"""Where one step's sequence goes: the log, the run's own count, the calls, the state."""

import pytest
from tests.core.builders import page, spec
from tests.core.scenarios import KEY, a_run, a_space, logged

from handspan.core import effects as e
from handspan.core.call import CallEvent, CallState
from handspan.core.desk import Desk
from handspan.core.emission import Misplaced
from handspan.core.live import Live
from handspan.core.sink import StepSink, change_state
from handspan_protocol.errors import PeerError, UsageError
from handspan_protocol.limits import NESTING_MAX

START = {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}
HEAD = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":'


def a_sink(*server, sub=False, **policy):
    """A space, a sink of a run (or of its sub-run `r2`), the run, the root, the desk."""
    space = a_space(*server, **policy)
    live = Live()
    root = a_run("r1")
    live.add(root)
    run = a_run("r2", parent=root) if sub else root
    if sub:
        live.add(run)
    desk = Desk(space, live, (), lambda call: None)
    return space, StepSink(space, desk, run), run, root, desk


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


# ---- what is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("sub", [False, True])
def test_a_delta_is_logged_counted_and_remembered_with_its_owner(sub):
    space, sink, run, root, _ = a_sink(sub=sub)
    sink.emit(dict(START))
    sink.say(HEAD, "m1", "hé")
    owner = {"subagentRunId": "r2"} if sub else {}
    assert logged(space) == [
        {**START, **owner},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "hé", **owner},
    ]
    assert (run.said, root.said_chars) == (["hé"], 2)
    assert space.transcript.view()[0]["content"] == "hé"
    if sub:
        assert (root.said, run.said_chars) == ([], 0)


SAID = [
    ("text", {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "abc"}, 3, ["abc"]),
    ("thoughts", {"type": "REASONING_MESSAGE_CONTENT", "messageId": "m1", "delta": "abc"}, 3, []),
    ("arguments", {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}, 2, []),
    ("no delta", dict(START), 0, []),
    ("a delta that is no text", {"type": "CUSTOM", "name": "x", "delta": [1]}, 0, []),
]


@pytest.mark.parametrize(
    ("event", "chars", "said"), [c[1:] for c in SAID], ids=[c[0] for c in SAID]
)
def test_p12_all_that_is_said_counts_and_only_text_is_the_runs(event, chars, said):
    space, sink, run, _, _ = a_sink()
    sink.emit(dict(event))
    assert (run.said_chars, run.said, logged(space)) == (chars, said, [event])


def test_ids_and_messages_are_the_threads():
    space, sink, *_ = a_sink()
    assert (sink.message_taken("m1"), sink.role_of("m1")) == (False, None)
    sink.emit(dict(START))
    assert (sink.message_taken("m1"), sink.role_of("m1")) == (True, "assistant")
    assert (sink.new_id("m"), space.ids.new("m")) == ("m:1", "m:2")


# ---- activities ---------------------------------------------------------------------------------


def add(path, value):
    return {"op": "add", "path": path, "value": value}


DELTAS = [
    ("it applies", [add("/b", 1)], {"a": 1, "b": 1}),
    ("nothing", [], {"a": 1}),
    ("no patch at all", None, {"a": 1}),
    ("it does not apply", [{"op": "remove", "path": "/no"}], {"a": 1}),
    ("exactly as large as may be", [add("/b", "x" * 86)], {"a": 1, "b": "x" * 86}),
    ("too large", [add("/b", "x" * 87)], None),
]


@pytest.mark.parametrize(("patch", "content"), [c[1:] for c in DELTAS], ids=[c[0] for c in DELTAS])
def test_p12_an_activity_is_patched_as_far_as_a_state_may_be_large(patch, content):
    space, sink, *_ = a_sink(state_bytes=100)
    snapshot = {"type": "ACTIVITY_SNAPSHOT", "messageId": "y1", "activityType": "plan"}
    sink.emit({**snapshot, "content": {"a": 1}})
    delta = {"type": "ACTIVITY_DELTA", "messageId": "y1", "activityType": "plan", "patch": patch}
    if content is None:
        with pytest.raises(PeerError, match="the activity would be too large"):
            sink.emit(delta)
        content = {"a": 1}
    else:
        sink.emit(delta)
    assert space.transcript.content_of("y1") == content


def test_p12_an_activity_nests_no_deeper_than_a_frame():
    space, sink, *_ = a_sink()
    base = {"messageId": "y1", "activityType": "plan"}
    sink.emit({"type": "ACTIVITY_SNAPSHOT", **base, "content": {"a": deep(NESTING_MAX - 1)}})
    before = space.transcript.content_of("y1")
    patch = [{"op": "copy", "from": "/a", "path": "/a/0"}]
    with pytest.raises(PeerError, match="the activity would be too large"):
        sink.emit({"type": "ACTIVITY_DELTA", **base, "patch": patch})
    assert space.transcript.content_of("y1") is before


def test_a_delta_of_an_activity_that_is_not_there_changes_nothing():
    space, sink, *_ = a_sink()
    sink.emit({"type": "ACTIVITY_DELTA", "messageId": "y1", "patch": [add("/a", 1)]})
    assert space.transcript.view() == ()


# ---- calls --------------------------------------------------------------------------------------


def test_a_call_goes_to_the_desk_piece_by_piece():
    _, sink, run, _, desk = a_sink()
    call_id = sink.call_started("c1", "t", "m1")
    call = desk.calls[call_id]
    sink.call_said(call_id, '{"a"')
    sink.call_said(call_id, ":1}")
    assert (call.raw, call.ended, run.step.calls) == ('{"a":1}', False, [call])
    sink.call_ended(call_id)
    assert call.ended is True
    assert sink.call_started("c1", "t", "m1") != call_id


PARTS = [{"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("content", "value", "parts"), [("found", "found", None), (PARTS, None, tuple(PARTS))]
)
def test_a_provider_that_carried_a_call_out_settles_it(content, value, parts):
    """C042, where nobody here has the tool."""
    _, sink, _, _, desk = a_sink()
    call = desk.calls[sink.call_started("c1", "web", "m1")]
    sink.call_provided("c1", content)
    assert (call.state, call.settlement.by) == (CallState.SETTLED, CallEvent.PROVIDED)
    assert (call.settlement.answer.value, call.settlement.answer.content) == (value, parts)


def test_p7_a_providers_result_is_dropped_where_somebody_would_carry_the_call_out():
    """C042, the other side."""
    space, sink, _, _, desk = a_sink(spec("srv"))
    call = desk.calls[sink.call_started("c1", "srv", "m1")]
    sink.call_provided("c1", "made up")
    assert (call.state, space.effects) == (CallState.PROPOSED, [])


def test_p13_a_wildcard_has_no_name_and_so_no_call_that_was_carried_out():
    _, sink, _, _, desk = a_sink(spec("*"))
    call = desk.calls[sink.call_started("c1", "web", "m1")]
    sink.call_provided("c1", "found")
    assert call.settlement.by is CallEvent.PROVIDED


def test_p7_a_providers_result_for_a_call_that_is_on_its_way_is_dropped():
    space, sink, _, _, desk = a_sink()
    call = desk.calls[sink.call_started("c1", "gone", "m1")]
    call.move(CallEvent.READY)
    sink.call_provided("c1", "made up")
    assert (call.state, space.effects) == (CallState.QUEUED, [])


# ---- state --------------------------------------------------------------------------------------

STATES = [
    ("the whole", None, {"a": 1}, {"a": 1}, {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}}),
    (
        "a patch",
        ({"op": "add", "path": "/b", "value": 2},),
        None,
        {"a": 0, "b": 2},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/b", "value": 2}]},
    ),
    ("no patch at all", (), None, {"a": 0}, {"type": "STATE_DELTA", "delta": []}),
]


@pytest.mark.parametrize(
    ("patch", "state", "after", "event"), [c[1:] for c in STATES], ids=[c[0] for c in STATES]
)
@pytest.mark.parametrize("owner", [None, "r2"])
def test_a_state_is_set_or_patched_recorded_and_then_said(patch, state, after, event, owner):
    space = a_space()
    change_state(space, None, {"a": 0})
    space.effects = []
    change_state(space, patch, state, owner)
    assert space.transcript.state == after
    assert logged(space)[-1] == event | ({} if owner is None else {"subagentRunId": owner})
    assert space.effects == [e.Record((e.Fact(KEY, "state", {}),))]


BAD = [
    ("a patch that does not apply", ({"op": "remove", "path": "/nope"},), None, UsageError, None),
    ("too large", None, "x" * 99, PeerError, "101 bytes, too many"),
    (
        "patched too large",
        ({"op": "add", "path": "/b", "value": "x" * 99},),
        None,
        PeerError,
        "bytes",
    ),
    ("too deep", None, deep(NESTING_MAX + 1), PeerError, f"deeper than {NESTING_MAX} levels"),
]


@pytest.mark.parametrize(
    ("patch", "state", "error", "words"), [c[1:] for c in BAD], ids=[c[0] for c in BAD]
)
def test_a_state_that_cannot_be_changes_nothing(patch, state, error, words):
    space = a_space(state_bytes=100)
    change_state(space, None, {"a": 0})
    head, effects = space.log.head, list(space.effects)
    with pytest.raises(error, match=words):
        change_state(space, patch, state)
    assert (space.transcript.state, space.log.head, space.effects) == ({"a": 0}, head, effects)
    if error is PeerError:
        with pytest.raises(PeerError) as problem:
            change_state(space, patch, state)
        assert problem.value.code == "too_large"


def test_p4_a_state_that_is_no_json_is_neither_said_nor_kept():
    space = a_space()
    change_state(space, None, {"a": 0})
    with pytest.raises(UsageError):
        change_state(space, None, {"a": float("nan")})
    assert (space.transcript.state, space.log.head) == ({"a": 0}, 1)


def test_p16_a_state_that_is_no_json_is_not_recorded():
    space = a_space()
    with pytest.raises(UsageError):
        change_state(space, None, {"a": float("nan")})
    assert space.effects == []


def test_p12_a_state_may_be_as_large_as_its_limit():
    space = a_space(state_bytes=100)
    change_state(space, None, "x" * 98)
    assert space.transcript.state == "x" * 98


@pytest.mark.parametrize("sub", [False, True])
def test_an_agent_gives_the_state_as_events(sub):
    space, sink, *_ = a_sink(sub=sub)
    sink.state_given({"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}})
    sink.state_given({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]})
    assert space.transcript.state == {}
    owners = {event.get("subagentRunId") for event in logged(space)}
    assert owners == {"r2" if sub else None}


@pytest.mark.parametrize("delta", [None, {}, "x"])
def test_a_delta_of_the_state_that_is_no_patch_is_misplaced(delta):
    space, sink, *_ = a_sink()
    with pytest.raises(Misplaced, match="without a patch"):
        sink.state_given({"type": "STATE_DELTA", "delta": delta, "snapshot": {"a": 1}})
    assert logged(space) == []


def test_a_reader_of_the_thread_carries_calls_out_too():
    space, sink, _, _, desk = a_sink()
    space.pages, space.readers = {"a": page("a", spec("t"))}, {"a"}
    call = desk.calls[sink.call_started("c1", "t", "m1")]
    sink.call_provided("c1", "made up")
    assert call.open


@pytest.mark.parametrize("sub", [False, True])
def test_p6_what_the_other_of_two_runs_began_is_anothers(sub):
    space, sink, *_ = a_sink(sub=sub)
    space.emit({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}, "r3")
    assert sink.is_anothers("m")
    assert sink.message_taken("m")
    assert not sink.is_anothers("free")
