"""The machine of a thread: what goes where, who is on it, what a newcomer is shown."""

from typing import get_args

import pytest
from tests.core.builders import COMPILE, CountedIds, World, page, picture, plain, spec, tool
from tests.core.scenarios import KEY, Scene, a_scene, answered, asked_by, ended, started

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core import thread as thread_room
from handspan.core.admission import Roster
from handspan.core.entries import Entry
from handspan.core.parties import Asker
from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan_protocol import frames as f
from handspan_protocol.codec import parse_json
from handspan_protocol.ids import RunId, ThreadId


def a_thread(*, hooks=(), **policy):
    roster = Roster(("default",), {}, set(hooks))
    return Thread(KEY, Policy(**policy), CountedIds(), roster)


def begin(thread, run_id="r1", session=None):
    asked = i.RunRequested(asker=asked_by(session, run_id), run_id=RunId(run_id))
    return thread.handle(asked, 1.0)


# ---- the machine --------------------------------------------------------------------------------


def test_every_input_has_somebody_who_takes_it():
    assert set(thread_room._HANDLERS) == set(get_args(i.ThreadInput))


def test_a_thread_begins_idle_and_waits_for_nothing():
    thread = a_thread()
    assert (thread.run, thread.busy, thread.idle) == (None, False, True)
    assert (thread.next_deadline(), thread.touched_at) == (None, 0.0)
    assert (thread.thread_id, thread.epoch, thread.head) == ("t1", "e:1", 0)
    assert thread.log is thread.space.log
    assert thread.log.read(0, 100) == []


def test_p15_the_effects_of_one_input_are_its_own():
    thread = a_thread()
    first = begin(thread)
    kept = list(first)
    assert thread.touched_at == 1.0
    second = thread.handle(i.StepEnded(RunId("r1"), 0, None), 2.0)
    assert (first, thread.touched_at) == (kept, 2.0)
    assert isinstance(second[-1], e.RunOver)


LATE = [
    i.PageClosed("nobody"),
    i.PageChanged(page("nobody")),
    i.PageReturned(page("nobody"), (), "doc"),
    i.DocumentGone("nobody", 1.0, True),
    i.ProgressMade("a", "c", 1, 1.0, None, None),
    i.CallRefused("a", "c", 1),
    i.TextSaid("r", 0, ("x",)),
    i.ReasoningSaid("r", 0, "x"),
    i.EventSaid("r", 0, {"type": "RAW"}),
    i.CallSaid(run_id="r", depth=0, name="t", raw=""),
    i.HandoffSaid("r", 0, "default"),
    i.StateSaid("r", 0, None, {}),
    i.StepEnded("r", 0, None),
    i.StepFailed("r", 0, "agent_error", "x"),
    i.StepShaped("r", 0, "default", frozenset()),
    i.ToolReturned("c", i.Answer()),
    i.StopsJudged("r", 0, True),
    i.RunJudged(run_id="r", code="denied"),
    i.CallJudged("c", "deny"),
    i.ArgumentsRepaired("c", None),
    i.ResultRevised("c", None),
    i.StepReviewed("r", 0),
    i.SuggestionsMade("r", ("x",)),
    i.DeadlinePassed(),
]


@pytest.mark.parametrize("late", LATE, ids=lambda late: type(late).__name__)
def test_what_means_nothing_here_changes_nothing(late):
    thread = a_thread()
    assert thread.handle(late, 1.0) == []
    assert (thread.head, thread.idle, thread.space.pages) == (0, True, {})


@pytest.mark.parametrize(
    "command",
    [
        i.LeaveAsked(Asker("a", "x"), "c", 1),
        i.ResultGiven(Asker("a", "x"), "c", 1, i.Answer()),
        i.ApprovalGiven(
            asker=Asker("a", "x"),
            call_id="c",
            digest="d",
            approved=True,
            reason=None,
            args=None,
            remember=False,
        ),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_about_a_call_that_is_not_there_is_told_so(command):
    (reply,) = a_thread().handle(command, 1.0)
    assert (reply.asker, reply.error.code) == (Asker("a", "x"), "unknown_call")


@pytest.mark.parametrize(
    "command",
    [i.LeaveAsked(Asker(None, "x"), "c", 1), i.ResultGiven(Asker(None, "x"), "c", 1, i.Answer())],
    ids=lambda command: type(command).__name__,
)
def test_p14_only_a_page_holds_calls(command):
    """A broken invariant is told, and ends nothing but itself."""
    broke, reply = a_thread().handle(command, 1.0)
    assert str(broke.error) == "only a page holds calls"
    assert reply.error.code == "internal"


def breaks(*_, **__):
    raise RuntimeError("an invariant")


@pytest.mark.parametrize(
    "broken",
    [i.StateGiven(Asker(None, "x"), None, {}), i.Deleted(), i.TextSaid("r1", 0, ("x",))],
    ids=lambda broken: type(broken).__name__,
)
def test_p14_what_breaks_ends_the_run_tells_who_asked_and_frees_the_thread(monkeypatch, broken):
    thread = a_thread()
    begin(thread)
    part = {
        i.StateGiven: "handspan.core.thread.change_state",
        i.Deleted: "handspan.core.runs.Runs.end_all",
        i.TextSaid: "handspan.core.emission.Emission.text",
    }[type(broken)]
    with monkeypatch.context() as patch:
        patch.setattr(part, breaks)
        effects = thread.handle(broken, 2.0)
    assert [type(x) for x in effects if isinstance(x, e.Broke | e.RunOver)] == [e.Broke, e.RunOver]
    told = [(x.asker.ticket, x.error.code) for x in effects if isinstance(x, e.Reply)]
    assert told == ([("x", "internal")] if isinstance(broken, i.StateGiven) else [])
    assert thread.run is None
    assert [type(x) for x in begin(thread, "r2")].count(e.StartStep) == 1


# ---- what a newcomer is shown -------------------------------------------------------------------


def test_p9_a_snapshot_is_the_whole_thread_as_it_is_now(make):
    scene = a_scene(make, started)
    thread = scene.world.thread("t1")
    assert picture(thread, scene.tab.id) == parse_json(thread.snapshot(scene.tab.id))
    told = thread.picture(scene.tab.id)
    assert (told.thread_id, told.epoch, told.offset) == ("t1", thread.epoch, thread.head)
    assert told.run == {"runId": scene.run, "depth": 0, "status": "waiting"}
    assert [m["role"] for m in told.messages] == ["user", "assistant"]
    (call,) = told.calls
    assert call == {
        "callId": scene.call.id,
        "name": "t",
        "args": {"x": 1},
        "attempt": 1,
        "yours": True,
        "last": {"callId": scene.call.id, "state": "started"},
    }
    assert thread.picture("another").calls[0]["yours"] is False
    assert (told.last_run, told.suggestions, told.state) == (None, (), {})
    assert told.open["steps"] == ["step-0"]


def test_a_settled_call_is_nobodys(make):
    scene = a_scene(make, answered, followUp=False)
    assert scene.world.thread("t1").picture(scene.tab.id).calls == ()
    scene = a_scene(make, answered)
    (call,) = scene.world.thread("t1").picture(scene.tab.id).calls
    assert call["yours"] is False


def test_what_is_under_way_is_shown_of_the_run_and_its_sub_runs(make):
    world = make(agents=("default", "helper"))
    run = world.start()
    world.text(run, "half a")
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    sub = world.delegate(run, "helper", text="")
    world.think(sub, "hm")
    shown = world.thread("t1").picture("nobody").open
    assert shown["steps"] == ["step-0", "step-1"]
    assert (shown["calls"], shown["subagents"]) == (["c1"], [sub])
    assert (len(shown["reasoning"]), shown["messages"]) == (1, [])
    world.abort()


def test_a_run_that_is_not_announced_is_not_shown():
    thread = a_thread(hooks=["before_run"])
    begin(thread)
    assert (thread.run.id, thread.picture("nobody").run) == ("r1", None)
    assert (thread.busy, thread.idle) == (True, False)


def test_the_last_run_and_what_was_suggested_stay_until_the_next(make):
    world = make(hooks=["suggest"])
    run = world.start()
    world.end(run)
    world.tell(world.key("t1"), i.SuggestionsMade(RunId(run), ("more",)))
    told = world.thread("t1").picture("nobody")
    assert (told.last_run["runId"], told.suggestions, told.run) == (run, ("more",), None)


# ---- pages --------------------------------------------------------------------------------------


def test_a_page_reads_until_it_closes_and_is_then_forgotten():
    thread = a_thread()
    thread.handle(i.PageOpened(page("a")), 1.0)
    assert (thread.space.readers, set(thread.space.pages)) == ({"a"}, {"a"})
    assert thread.idle is False
    changed = page("a", spec("t"))
    thread.handle(i.PageChanged(changed), 2.0)
    assert thread.space.pages["a"] is changed
    thread.handle(i.PageClosed("a"), 3.0)
    assert (thread.space.readers, thread.space.pages, thread.idle) == (set(), {}, True)


STAYS = [
    ("it holds a call", ended, True),
    ("its call has settled, and it started the run", answered, True),
    ("the run is over", lambda scene: scene.world.end(scene.run), False),
]


@pytest.mark.parametrize(("reach", "stays"), [c[1:] for c in STAYS], ids=[c[0] for c in STAYS])
def test_a_page_that_closed_the_thread_stays_as_long_as_it_is_needed(make, reach, stays):
    scene = a_scene(make, reach)
    scene.tab.close("t1")
    thread = scene.world.thread("t1")
    assert thread.space.readers == set()
    assert (scene.tab.id in thread.space.pages) is stays
    scene.world.abort()
    assert thread.space.pages == {}


def test_a_page_whose_run_waits_stays_too(make):
    world = make()
    first, second = world.tab("a"), world.tab("b")
    run = first.run()
    waits = second.run("later", if_busy="queue")
    second.close("t1")
    assert second.id in world.thread("t1").space.pages
    world.end(run)
    world.end(waits)
    assert set(world.thread("t1").space.pages) == {first.id}


def test_a_page_that_neither_started_the_run_nor_holds_a_call_goes_at_once(make):
    world = make()
    first, second = world.tab("a"), world.tab("b")
    first.run()
    second.close("t1")
    assert second.id not in world.thread("t1").space.pages
    world.abort()


def test_p10_a_page_is_asked_what_is_open_when_it_opens_or_comes_back_and_reads(make):
    scene = a_scene(make, ended, approval="always")
    other = scene.world.tab("b")
    assert len(other.questions) == 1
    scene.tab.close("t1")
    scene.tab.drop()
    scene.tab.back(threads=[])
    assert len(scene.tab.questions) == 1
    other.drop()
    other.back()
    assert len(other.questions) == 2
    scene.world.abort()


@pytest.mark.parametrize("gone", [True, False])
def test_a_document_that_is_gone_leaves_or_loses_its_tools(gone):
    thread = a_thread()
    thread.handle(i.PageOpened(page("a", spec("t"))), 1.0)
    thread.handle(i.DocumentGone("a", 1.0, ended=gone), 31.0)
    if gone:
        assert (thread.space.pages, thread.space.readers) == ({}, set())
        return
    kept = thread.space.pages["a"]
    assert (kept.tools, kept.attached, kept.gone) == ({}, False, True)
    assert thread.space.readers == {"a"}


ABORTS = [
    ("grace", "the only page", None),
    ("abort", "the only page", "aborted"),
    ("abort", "one of two", None),
    ("abort", "no run", None),
]


@pytest.mark.parametrize(("policy", "who", "reason"), ABORTS)
def test_p5_a_run_without_any_page_is_aborted_where_the_policy_says_so(policy, who, reason):
    thread = a_thread(on_disconnect=policy)
    thread.handle(i.PageOpened(page("a")), 1.0)
    if who == "one of two":
        thread.handle(i.PageOpened(page("b")), 1.0)
    if who != "no run":
        begin(thread)
    effects = thread.handle(i.DocumentGone("a", 1.0, ended=False), 31.0)
    assert [x.value.reason for x in effects if isinstance(x, e.RunOver)] == (
        [reason] if reason else []
    )


def test_p2_a_document_that_is_back_is_told_from_another_one(make):
    scene = a_scene(make, ended)
    thread = scene.world.thread("t1")
    scene.tab.drop()
    scene.tab.back()
    assert [order.attempt for order in scene.tab.calls] == [1]
    scene.tab.reload()
    assert [order.attempt for order in scene.tab.calls] == [1, 2]
    assert thread.space.pages[scene.tab.id].document == scene.tab.document


# ---- calls --------------------------------------------------------------------------------------


def refused(scene: Scene, session=None, attempt=1):
    refused = i.CallRefused(session or scene.tab.id, scene.call.id, attempt)
    return scene.tell(refused)


@pytest.mark.parametrize(
    ("session", "attempt", "code"),
    [(None, 1, "limit"), ("another", 1, None), (None, 2, None)],
)
def test_p12_a_session_that_holds_too_many_calls_refuses_its_own(session, attempt, code):
    world = World()  # what its session has not said is not judged
    scene = a_scene(lambda **_: world, ended)
    refused(scene, session, attempt)
    assert scene.code == code


@pytest.mark.parametrize(
    ("fields", "code"), [({}, "outcome_unknown"), ({"idempotent": True}, None)], ids=["", "again"]
)
def test_p2_a_call_that_has_started_is_not_refused_but_lost(fields, code):
    """A session is restored by a process that allows fewer calls than the one before it."""
    world = World()
    scene = a_scene(lambda **_: world, started, **fields)
    refused(scene)
    assert scene.code == code
    if code is None:
        assert (scene.call.holder, scene.call.homeless_until is None) == (None, False)


def test_progress_goes_to_the_call_it_is_of(make):
    scene = a_scene(make, started)
    scene.tab.progress(scene.tab.call("t"), 0.5)
    assert scene.call.last["state"] == "progress"


@pytest.mark.parametrize(
    ("reach", "setting", "settles"),
    [
        (ended, {"tools": [], "server": [spec("t")]}, True),
        (ended, {}, False),
        (answered, {}, False),
        (ended, {"tools": [], "server": [spec("t", approval="always")]}, False),
    ],
    ids=["a server tool", "a page's tool", "it is settled", "it has not begun"],
)
def test_what_a_server_tool_returns_settles_a_call_of_its_own(make, reach, setting, settles):
    scene = a_scene(make, reach, **setting)
    before = scene.code
    scene.world.returned(scene.call.id, "from the server")
    assert scene.code == ("ok" if settles else before)


def test_time_that_has_passed_is_for_calls_and_for_homes(make):
    scene = a_scene(make, ended)
    thread = scene.world.thread("t1")
    assert thread.next_deadline() == scene.world.now + 60
    scene.world.wait(60)
    assert (scene.code, thread.next_deadline()) == ("timeout", None)


def test_a_thread_that_is_deleted_ends_all_and_says_so_last(make):
    scene = a_scene(make, ended)
    effects = scene.tell(i.Deleted())
    assert isinstance(effects[-1], e.ThreadOver | s.ThreadGone | e.DropCall | e.SendFrame)
    assert [type(x) for x in scene.world.of(e.ThreadOver)] == [e.ThreadOver]
    assert scene.world.of(e.RunOver)[0].value.reason == "aborted"


def test_an_answer_to_a_question_goes_to_the_call_and_the_call_to_its_home(make):
    scene = a_scene(make, ended, approval="always")
    (question,) = scene.tab.questions
    assert scene.tab.approve(question) == "applied"
    assert [order.name for order in scene.tab.calls] == ["t"]
    world = make()
    asker, tab = world.tab("a"), world.tab("b", tools=[tool("t", approval="always")])
    run = asker.run()
    world.call(run, "t")
    world.end(run)
    tab.bye()
    asker.approve(asker.questions[0])
    (call,) = world.thread("t1").desk.open_calls.values()
    assert call.homeless_until == world.now + 30
    world.abort()


# ---- what hooks say -----------------------------------------------------------------------------


def test_a_hooks_answers_go_to_the_call_they_are_of(make):
    scene = a_scene(make, ended, hooks=["repair_arguments", "before_call", "after_call"])
    name = scene.call.id
    scene.world.judged(name, "allow")
    scene.tab.result(scene.tab.call("t"), "secret")
    scene.tell(i.ResultRevised(name, i.Answer(value="***")))
    assert scene.world.results() == ["***"]


@pytest.mark.parametrize("args", [{"y": "z"}, None])
def test_repaired_arguments_are_a_copy_or_none(make, args):
    needs = {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]}
    scene = a_scene(make, ended, hooks=["repair_arguments"], parameters=needs)
    scene.tell(i.ArgumentsRepaired(scene.call.id, args))
    if args is None:
        assert scene.code == "invalid_arguments"
        return
    assert scene.call.args == args
    assert scene.call.args is not args


# ---- state --------------------------------------------------------------------------------------

GIVEN = [
    ("the whole", None, {"n": 1}, None, None),
    ("a patch", ({"op": "add", "path": "/n", "value": 1},), None, None, None),
    ("a patch that does not apply", ({"op": "remove", "path": "/no"},), None, "invalid_frame",
     "/patch"),
    ("no JSON", None, float("nan"), "invalid_frame", "/state"),
    ("too large", None, "x" * 200, "too_large", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("patch", "state", "code", "path"), [c[1:] for c in GIVEN], ids=[c[0] for c in GIVEN]
)
def test_a_page_changes_the_state_or_is_told_why_not(patch, state, code, path):
    thread = a_thread(state_bytes=100)
    thread.handle(i.StateGiven(Asker("a", "x"), None, {}), 1.0)
    effects = thread.handle(i.StateGiven(Asker("a", "x"), patch, state), 2.0)
    (reply,) = [x for x in effects if isinstance(x, e.Reply)]
    if code is None:
        assert (reply.result, reply.error) == ({}, None)
        assert thread.space.transcript.state == {"n": 1}
        assert thread.space.state_changed_between is True
    else:
        assert (reply.error.code, reply.error.path) == (code, path)
        assert thread.space.transcript.state == {}


# ---- commands -----------------------------------------------------------------------------------


def test_statuses_are_answered_to_who_asked(make):
    scene = a_scene(make, ended)
    asker = Asker(scene.tab.id, "mine 1")
    told = scene.tell(i.LeaveAsked(asker, scene.call.id, 1))
    assert plain([x for x in told if isinstance(x, e.Reply)]) == [
        e.Reply(asker, {"status": "go"}, None)
    ]
    told = scene.tell(i.ResultGiven(asker, scene.call.id, 1, i.Answer(value=1)))
    assert plain([x for x in told if isinstance(x, e.Reply)]) == [
        e.Reply(asker, {"status": "applied"}, None)
    ]


def test_a_button_and_an_abort_are_commands_of_the_same_thread(make):
    world = make()
    tab = world.tab("a", tools=[tool("t")])
    command = tab.invoke("t")
    assert tab.ask(f.RunAbort, thread_id=ThreadId("t1")) == {"aborted": True}
    assert tab.answer(command)["error"]["code"] == "aborted_before_start"


# ---- what a store has ---------------------------------------------------------------------------


def test_a_thread_that_nobody_keeps_has_nothing_to_write():
    thread = a_thread()
    facts = [f for x in begin(thread) if isinstance(x, e.Record) for f in x.facts]
    assert facts
    assert thread.changes(facts) == []


def test_p16_a_thread_that_is_kept_writes_what_facts_are_about_and_is_had_again():
    thread = a_thread()
    thread.keep((), COMPILE)
    records = [effect for effect in begin(thread) if isinstance(effect, e.Record)]
    changes = thread.changes([fact for record in records for fact in record.facts])
    assert {change.part for change in changes} == {"state", "request", "used", "run", "about"}
    again = a_thread()
    again.keep([Entry(c.part, c.name, c.body) for c in changes], COMPILE)
    assert (again.run.id, again.run.step.opened) == ("r1", False)
    effects = again.handle(i.Restored(()), 2.0)
    assert [x.run_id for x in effects if isinstance(x, e.StartStep)] == ["r1"]
