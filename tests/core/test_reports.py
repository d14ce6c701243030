"""What everybody is told of calls and runs: the events, one by one."""

import pytest
from tests.core.scenarios import a_call, a_run, a_space, logged, settled

from handspan.core import reports
from handspan.core.call import CallEvent, CallState, Settlement
from handspan.core.inputs import Answer, ProgressMade
from handspan_protocol.errors import CallCode

PARTS = ({"type": "text", "text": "a"},)


def ids(space):
    return [event.get("toolCallId") for event in logged(space)]


# ---- results ------------------------------------------------------------------------------------


def waits(call):
    call.hook = "after_call"
    return call


def four():
    return [a_call(f"c{n}") for n in range(4)]


SETTLED = [
    ("none", (), [], [0]),
    ("all", (0, 1, 2, 3), ["c0", "c1", "c2", "c3"], [4]),
    ("up to the first that is open", (0, 1, 3), ["c0", "c1"], [2]),
    ("not past it", (1, 2, 3), [], [0]),
]


@pytest.mark.parametrize(
    ("over", "shown", "count"), [c[1:] for c in SETTLED], ids=[c[0] for c in SETTLED]
)
def test_p1_results_stand_in_call_order_and_each_once(over, shown, count):
    space, calls = a_space(), four()
    for n in over:
        settled(calls[n], n)
    for _ in range(2):
        reports.show_results(space, calls)
        assert ids(space) == shown
    assert [sum(call.result_shown for call in calls)] == count


def test_p1_a_result_that_waits_for_its_hook_holds_up_what_is_behind_it():
    space, calls = a_space(), [waits(settled(a_call("c0"), 0)), settled(a_call("c1"), 1)]
    reports.show_results(space, calls)
    assert ids(space) == []
    calls[0].hook = None
    calls[0].revised = Settlement(by=CallEvent.ANSWERED, answer=Answer(value="***"))
    reports.show_results(space, calls)
    assert [event["content"] for event in logged(space)] == ["***", "1"]


@pytest.mark.parametrize(
    ("given", "content", "told"),
    [
        ({"value": {"a": 1}}, '{"a":1}', {"outcome": "ok"}),
        ({"answer": Answer(content=PARTS)}, list(PARTS), {"outcome": "ok"}),
        (
            {"answer": Answer(error_message="no"), "code": CallCode.TIMEOUT},
            '{"error":{"code":"timeout","message":"no"}}',
            {"outcome": "error", "code": "timeout"},
        ),
    ],
)
@pytest.mark.parametrize("owner", [None, "sub"])
def test_a_result_is_an_event_with_its_outcome_beside_it(given, content, told, owner):
    space = a_space()
    reports.show_results(space, [settled(a_call("c1", owner=owner), **given)])
    assert logged(space) == [
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "m:1",
            "toolCallId": "c1",
            "role": "tool",
            "content": content,
            "metadata": {"handspan": told},
            **({} if owner is None else {"subagentRunId": owner}),
        }
    ]


# ---- what became of a call ----------------------------------------------------------------------


@pytest.mark.parametrize("owner", [None, "sub"])
def test_what_became_of_a_call_is_told_at_once_and_remembered(owner):
    space, call = a_space(), a_call("c1", owner=owner)
    reports.tell(space, call, "settled", outcome="ok")
    value = {"callId": "c1", "state": "settled", "outcome": "ok"}
    assert call.last == value
    event = {"type": "CUSTOM", "name": "handspan.call", "value": value}
    assert logged(space) == [event | ({} if owner is None else {"subagentRunId": owner})]


def at_work(**given):
    return a_call("c1", **({"state": CallState.STARTED, "holder": "a", "attempt": 1} | given))


def made(session="a", attempt=1, progress=0.5, total=None, message=None):
    return ProgressMade(session, "c1", attempt, progress, total, message)


MADE = [
    ("of its holder", at_work(), made(), True),
    ("it is only dispatched", at_work(state=CallState.DISPATCHED), made(), True),
    ("it is queued again", at_work(state=CallState.QUEUED), made(), False),
    ("it is settled", at_work(state=CallState.SETTLED), made(), False),
    ("of another page", at_work(), made(session="b"), False),
    ("of an older attempt", at_work(attempt=2), made(), False),
    ("of an attempt that was never made", at_work(), made(attempt=2), False),
]


@pytest.mark.parametrize(
    ("call", "said", "counts"), [c[1:] for c in MADE], ids=[c[0] for c in MADE]
)
def test_p7_progress_counts_from_who_is_at_work_on_it(call, said, counts):
    space = a_space()
    reports.progress(space, call, said)
    assert len(logged(space)) == (1 if counts else 0)
    assert call.progress_waiting is None


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (made(progress=0), {"progress": 0}),
        (made(progress=None, message="soon"), {"message": "soon"}),
        (made(progress=1, total=2, message=""), {"progress": 1, "total": 2, "message": ""}),
    ],
)
def test_progress_is_told_with_what_was_said_and_nothing_else(said, parts):
    space, call = a_space(), at_work()
    reports.progress(space, call, said)
    assert call.last == {"callId": "c1", "state": "progress", **parts}


@pytest.mark.parametrize(("later", "events"), [(0.05, 1), (0.099, 1), (0.1, 2), (5, 2)])
def test_p12_progress_is_told_at_most_every_hundred_milliseconds(later, events):
    """C072: the last wins."""
    space, call = a_space(), at_work()
    space.now = 8.0
    reports.progress(space, call, made(progress=1))
    assert call.progress_at == 8.0
    space.now = 8.0 + later
    reports.progress(space, call, made(progress=2))
    assert len(logged(space)) == events
    assert call.progress_waiting == ({"progress": 2} if events == 1 else None)
    if events == 1:
        reports.tell_progress(space, call)
        assert logged(space)[-1]["value"]["progress"] == 2


def test_progress_that_nobody_waits_for_is_told_bare():
    space, call = a_space(), at_work()
    reports.tell_progress(space, call)
    assert call.last == {"callId": "c1", "state": "progress"}


# ---- the frame of a run -------------------------------------------------------------------------


def started_with(message=None, after=None, *, space=None):
    space = space or a_space()
    run = a_run("r1")
    reports.run_started(space, run, message, after)
    assert run.announced is True
    return logged(space)


def test_a_run_begins_with_its_message_which_has_an_id_of_its_own():
    message = {"role": "user", "content": "hi"}
    assert started_with(message) == [
        {
            "type": "RUN_STARTED",
            "threadId": "t1",
            "runId": "r1",
            "input": {"threadId": "t1", "runId": "r1", "messages": [{**message, "id": "m:1"}]},
        }
    ]
    assert "id" not in message


IDS = [
    ("its own", "mine", "mine"),
    ("one that is taken", "taken", "m:1"),
    ("empty", "", "m:1"),
    ("no text", 7, "m:1"),
]


@pytest.mark.parametrize(("wish", "message_id"), [c[1:] for c in IDS], ids=[c[0] for c in IDS])
def test_a_message_keeps_its_id_where_it_is_free(wish, message_id):
    space = a_space()
    space.emit({"type": "TEXT_MESSAGE_START", "messageId": "taken", "role": "user"})
    events = started_with({"id": wish, "role": "user", "content": "hi"}, space=space)
    assert events[-1]["input"]["messages"][0]["id"] == message_id


def test_a_run_behind_a_message_says_what_is_left():
    space = a_space()
    for name in ("m1", "m2"):
        space.emit({"type": "TEXT_MESSAGE_START", "messageId": name, "role": "user"})
    events = started_with({"role": "user", "content": "hi"}, "m1", space=space)
    assert [event["type"] for event in events[2:]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert [message["id"] for message in events[-1]["messages"]] == ["m1", "m:1"]
    assert [message["id"] for message in space.transcript.view()] == ["m1", "m:1"]


@pytest.mark.parametrize("changed", [True, False])
def test_a_state_that_changed_between_runs_is_said_once_more(changed):
    space = a_space()
    space.emit({"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}})
    space.state_changed_between = changed
    events = started_with(space=space)
    said = [event["snapshot"] for event in events[2:]]
    assert said == ([{"n": 1}] if changed else [])
    assert space.state_changed_between is False


def test_what_was_suggested_after_the_last_run_is_gone_with_the_next():
    space = a_space()
    space.suggestions = ("more",)
    started_with(space=space)
    assert space.suggestions == ()


def test_a_run_ends_with_its_outcome_and_its_result():
    space = a_space()
    reports.run_finished(space, a_run("r1"), {"type": "success"}, {"reason": "completed"})
    assert logged(space) == [
        {
            "type": "RUN_FINISHED",
            "threadId": "t1",
            "runId": "r1",
            "outcome": {"type": "success"},
            "result": {"reason": "completed"},
        }
    ]


# ---- sub-runs -----------------------------------------------------------------------------------


def test_a_sub_run_says_who_it_is_whose_it_is_and_what_it_was_told():
    space = a_space()
    sub = a_run("sub", parent=a_run("r1"), agent="helper")
    deep = a_run("deep", parent=sub, agent="third")
    reports.subrun_started(space, sub, "do it")
    reports.subrun_started(space, deep, "")
    own = {"subagentRunId": "sub"}
    assert logged(space) == [
        {"type": "SUBAGENT_STARTED", "name": "helper", **own},
        {"type": "TEXT_MESSAGE_START", "messageId": "m:1", "role": "user", **own},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m:1", "delta": "do it", **own},
        {"type": "TEXT_MESSAGE_END", "messageId": "m:1", **own},
        {
            "type": "SUBAGENT_STARTED",
            "name": "third",
            "parentSubagentRunId": "sub",
            "subagentRunId": "deep",
        },
    ]
    assert sub.announced is deep.announced is True


def test_only_a_sub_run_can_begin_as_one():
    with pytest.raises(AssertionError):
        reports.subrun_started(a_space(), a_run("r1"), "do it")


def test_a_sub_run_ends_finished_or_failed():
    space, sub = a_space(), a_run("sub", parent=a_run("r1"))
    reports.subrun_finished(space, sub, {"reason": "completed", "depth": 1})
    reports.subrun_failed(space, sub, "aborted", "the run was aborted")
    own = {"subagentRunId": "sub"}
    assert logged(space) == [
        {
            "type": "SUBAGENT_FINISHED",
            "outcome": {"type": "success"},
            "result": {"reason": "completed", "depth": 1},
            **own,
        },
        {"type": "SUBAGENT_ERROR", "code": "aborted", "message": "the run was aborted", **own},
    ]


def test_p4_what_is_said_as_the_user_is_valid_utf8():
    space = a_space()
    reports.say_as_user(space, "a\ud800b")
    assert space.transcript.view()[0]["content"] == "a\ufffdb"
    assert space.transcript.view()[0]["role"] == "user"
    assert all("subagentRunId" not in event for event in logged(space))


# ---- buttons ------------------------------------------------------------------------------------

INVOKED = [
    ({"value": {"a": 1}}, {"outcome": "ok", "result": {"a": 1}}),
    ({}, {"outcome": "ok", "result": None}),
    ({"answer": Answer(content=PARTS)}, {"outcome": "ok", "content": list(PARTS)}),
    (
        {"answer": Answer(error_message="no"), "code": CallCode.DENIED},
        {"outcome": "denied", "error": {"code": "denied", "message": "no"}},
    ),
    (
        {"answer": Answer(), "code": CallCode.TIMEOUT},
        {"outcome": "error", "error": {"code": "timeout", "message": ""}},
    ),
    (
        {"answer": Answer(error_message="no", error_code="mine"), "code": CallCode.HANDLER_ERROR},
        {"outcome": "error", "error": {"code": "mine", "message": "no"}},
    ),
]


@pytest.mark.parametrize(("given", "reply"), INVOKED)
def test_a_button_is_answered_with_a_result_with_parts_or_with_an_error(given, reply):
    call = settled(a_call("c1"), **given)
    assert reports.invoke_result(call) == {"callId": "c1", "runId": "r1", **reply}
