"""The calls of a thread: every row of behaviour.md 3 driven through a world, then its edges."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.core.builders import World, page, spec, takes, tool
from tests.core.scenarios import (
    Reach,
    Scene,
    a_call,
    a_run,
    a_scene,
    a_space,
    answered,
    ended,
    logged,
    proposed,
    queued_away,
    queued_behind,
    started,
)

from handspan.core import desk as desk_room
from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.call import CallEvent, CallState, Settlement
from handspan.core.desk import Desk
from handspan.core.live import Live
from handspan.core.parties import Asker
from handspan.core.session_inputs import CallTaken
from handspan_protocol import frames as f
from handspan_protocol.errors import CallCode
from handspan_protocol.ids import RunId

S = CallState
ALWAYS = {"approval": "always"}
NEEDS_X = {"parameters": takes("x", x="integer")}
NEEDS_Y = {"parameters": takes("y", y="integer")}
AGAIN = {"idempotent": True}
LOOK = {"readOnly": True}

# ---- the table ----------------------------------------------------------------------------------


def nothing(scene: Scene) -> None:
    """What brought the call here was the event."""


def end_step(scene: Scene) -> None:
    scene.world.end(scene.run)


def allow(scene: Scene) -> None:
    end_step(scene)
    assert (scene.call.state, scene.call.hook) == (S.PROPOSED, "before_call")
    scene.world.judged(scene.call.id, "allow")


def approve(scene: Scene, *, approved: bool = True, **more: Any) -> None:
    assert scene.tab.approve(scene.tab.questions[0], approved, **more) == "applied"


def expire(scene: Scene) -> None:
    scene.world.wait(600)


def abort(scene: Scene) -> None:
    assert scene.world.abort() == {"aborted": True}


def come_back(scene: Scene) -> None:
    scene.tab.back()


def forget_and_come_back(scene: Scene) -> None:
    scene.tab.journal.clear()
    scene.tab.drop()
    scene.tab.back()


def another_page(scene: Scene) -> None:
    """With the tool, and a call of another run that keeps it from nothing."""
    scene.world.tab("b", tools=[tool("t")])


def lose_the_tool(scene: Scene) -> None:
    scene.tab.tools(tool("first"))


def lose_the_tool_to_another(scene: Scene) -> None:
    another_page(scene)
    lose_the_tool(scene)


def stay_away(scene: Scene) -> None:
    if scene.tab.connection is not None:
        scene.tab.drop()
    scene.world.wait(31)


def stay_away_with_another_there(scene: Scene) -> None:
    another_page(scene)
    stay_away(scene)


def reload(scene: Scene) -> None:
    scene.tab.reload()


def reload_without_the_tool(scene: Scene) -> None:
    scene.tab.reload(tools=[tool("first")])
    scene.world.wait(31)


def reload_with_the_result(scene: Scene) -> None:
    call = scene.tab.call("t")
    done = f.JournalEntry(call_id=call.call_id, attempt=1, state="done")
    scene.tab.reload(journal=[done])
    assert scene.call.open
    assert scene.tab.result(call, 7) == "applied"


def ask_leave(scene: Scene) -> None:
    assert scene.tab.started(scene.tab.call("t")) == "go"


def give(scene: Scene) -> None:
    assert scene.tab.result(scene.tab.call("t"), 7) == "applied"


def give_an_error(scene: Scene) -> None:
    assert scene.tab.error(scene.tab.call("t"), "broken") == "applied"


def wait_a_minute(scene: Scene) -> None:
    scene.world.wait(60)


def repeat(value: Any, status: str) -> Callable[[Scene], None]:
    def event(scene: Scene) -> None:
        assert scene.tab.result(scene.tab.call("t"), value) == status

    return event


def verdicts_of_nobody(scene: Scene) -> None:
    """A hook's and a human's, of a call that is settled."""
    assert scene.world.judged(scene.call.id, "deny") == []
    assert scene.tab.ask(f.ApprovalAnswer, call_id=scene.call.id, digest="d", approved=False) == (
        "unknown_call"
    )


@dataclass(frozen=True)
class Row:
    """One case of the table: where a call stands, what happens, where it is then."""

    name: str
    reach: Reach
    state: CallState
    event: Callable[[Scene], None]
    to: CallState
    code: str | None = None
    """What it settles as."""
    attempt: int = 0
    """Of the call, after the event."""
    cancel: str | None = None
    """What its page is told to stop for."""
    setting: dict[str, Any] = field(default_factory=dict)
    """Of the scene."""


def timed_out(scene: Scene) -> None:
    ended(scene)
    scene.world.wait(60)


def aborted(scene: Scene) -> None:
    started(scene)
    abort(scene)


ROWS = [
    Row("proposed: all is well", proposed, S.PROPOSED, end_step, S.DISPATCHED, attempt=1),
    Row(
        *("proposed: all is well, its turn has not come", queued_behind, S.QUEUED),
        *(nothing, S.QUEUED),
    ),
    Row(
        *("proposed: hooks done", proposed, S.PROPOSED, allow, S.DISPATCHED),
        attempt=1,
        setting={"hooks": ["before_call"]},
    ),
    Row(
        *("proposed: all is well, a human must be asked", proposed, S.PROPOSED, end_step),
        *(S.WAITING_APPROVAL,),
        setting=ALWAYS,
    ),
    Row(
        *("proposed: nobody", proposed, S.PROPOSED, end_step, S.SETTLED, "unknown_tool"),
        setting={"tools": [tool("first")]},
    ),
    Row(
        *("proposed: not available", proposed, S.PROPOSED, end_step, S.SETTLED, "unavailable"),
        setting={"available": False},
    ),
    Row(
        *("proposed: bad arguments", proposed, S.PROPOSED, end_step, S.SETTLED),
        *("invalid_arguments",),
        setting=NEEDS_Y,
    ),
    Row(
        *("proposed: over a limit", queued_behind, S.SETTLED, nothing, S.SETTLED, "limit"),
        setting={"policy": {"calls_per_step": 1}},
    ),
    Row(
        *("waiting_approval: approved", ended, S.WAITING_APPROVAL, approve, S.DISPATCHED),
        attempt=1,
        setting=ALWAYS,
    ),
    Row(
        *("waiting_approval: approved with edited arguments", ended, S.WAITING_APPROVAL),
        *(lambda scene: approve(scene, args={"x": 2}), S.DISPATCHED),
        attempt=1,
        setting=ALWAYS | NEEDS_X,
    ),
    Row(
        *("waiting_approval: approved with bad arguments", ended, S.WAITING_APPROVAL),
        *(lambda scene: approve(scene, args={"x": "2"}), S.SETTLED, "invalid_arguments"),
        setting=ALWAYS | NEEDS_X,
    ),
    Row(
        *("waiting_approval: denied", ended, S.WAITING_APPROVAL),
        *(lambda scene: approve(scene, approved=False), S.SETTLED, "denied"),
        setting=ALWAYS,
    ),
    Row(
        *("waiting_approval: expired", ended, S.WAITING_APPROVAL, expire, S.SETTLED),
        *("approval_expired",),
        setting=ALWAYS,
    ),
    Row(
        *("waiting_approval: run aborted", ended, S.WAITING_APPROVAL, abort, S.SETTLED),
        *("aborted_before_start",),
        setting=ALWAYS,
    ),
    Row("queued: its turn", queued_behind, S.QUEUED,
        lambda scene: scene.tab.result(scene.tab.call("first")), S.DISPATCHED, attempt=1),
    Row("queued: the holder is attached", queued_away, S.QUEUED, come_back, S.DISPATCHED,
        attempt=1),
    Row("queued: the holder lost the tool, another has it", queued_behind, S.QUEUED,
        lose_the_tool_to_another, S.DISPATCHED, attempt=1),
    Row("queued: the holder lost the tool, nobody has it", queued_behind, S.QUEUED,
        lose_the_tool, S.SETTLED, "unavailable"),
    Row("queued: the holder stayed away, another is there", queued_away, S.QUEUED,
        stay_away_with_another_there, S.DISPATCHED, attempt=1),
    Row("queued: the holder stayed away, nobody is there", queued_away, S.QUEUED,
        stay_away, S.SETTLED, "no_client"),
    Row("dispatched: back, and its journal lacks the call", ended, S.DISPATCHED,
        forget_and_come_back, S.DISPATCHED, attempt=1),
    Row("started: back, and its journal lacks the call", started, S.STARTED,
        forget_and_come_back, S.SETTLED, "outcome_unknown", attempt=1),
    Row("started: back, its journal lacks the call, which may be repeated", started, S.STARTED,
        forget_and_come_back, S.DISPATCHED, attempt=2, setting=AGAIN),
    Row("dispatched: tool.started", ended, S.DISPATCHED, ask_leave, S.STARTED, attempt=1),
    Row("dispatched: result", ended, S.DISPATCHED, give, S.SETTLED, "ok", attempt=1),
    Row("dispatched: an error", ended, S.DISPATCHED, give_an_error, S.SETTLED,
        "handler_error", attempt=1),
    Row("started: result", started, S.STARTED, give, S.SETTLED, "ok", attempt=1),
    Row("started: an error", started, S.STARTED, give_an_error, S.SETTLED, "handler_error",
        attempt=1),
    Row("dispatched: a new document of the session", ended, S.DISPATCHED, reload, S.DISPATCHED,
        attempt=2),
    Row("dispatched: the document stayed away, another page is there", ended, S.DISPATCHED,
        stay_away_with_another_there, S.DISPATCHED, attempt=2),
    Row("dispatched: the document stayed away", ended, S.DISPATCHED, stay_away, S.SETTLED,
        "page_gone", attempt=1),
    Row("dispatched: nobody of the session's new document", ended, S.DISPATCHED,
        reload_without_the_tool, S.SETTLED, "page_gone", attempt=1),
    Row("started: the document went away", started, S.STARTED, reload, S.SETTLED,
        "outcome_unknown", attempt=1),
    Row("started: the document of an idempotent tool went away", started, S.STARTED, reload,
        S.DISPATCHED, attempt=2, setting=AGAIN),
    Row("started: the document of a readOnly tool went away", started, S.STARTED, reload,
        S.DISPATCHED, attempt=2, setting=LOOK),
    Row("started: the document of an idempotent tool stayed away", started, S.STARTED, stay_away,
        S.SETTLED, "outcome_unknown", attempt=1, setting=AGAIN),
    Row("started: the gone document had the result", started, S.STARTED, reload_with_the_result,
        S.SETTLED, "ok", attempt=1),
    Row("dispatched: deadline", ended, S.DISPATCHED, wait_a_minute, S.SETTLED, "timeout",
        attempt=1, cancel="timeout"),
    Row("started: deadline", started, S.STARTED, wait_a_minute, S.SETTLED, "timeout",
        attempt=1, cancel="timeout"),
    Row("proposed: abort", proposed, S.PROPOSED, abort, S.SETTLED, "aborted_before_start"),
    Row("queued: abort", queued_behind, S.QUEUED, abort, S.SETTLED, "aborted_before_start"),
    Row("dispatched: abort", ended, S.DISPATCHED, abort, S.SETTLED, "aborted_before_start",
        attempt=1, cancel="aborted"),
    Row("dispatched: abort, it may have begun", ended, S.DISPATCHED, abort, S.SETTLED, "aborted",
        attempt=1, cancel="aborted", setting=AGAIN),
    Row("started: abort", started, S.STARTED, abort, S.SETTLED, "aborted", attempt=1,
        cancel="aborted"),
    Row("settled: the same result again", answered, S.SETTLED, repeat(7, "duplicate"), S.SETTLED,
        "ok", attempt=1),
    Row("settled: another result", answered, S.SETTLED, repeat(8, "conflict"), S.SETTLED,
        "ok", attempt=1),
    Row("settled: a result after its time", timed_out, S.SETTLED, repeat(7, "late"), S.SETTLED,
        "timeout", attempt=1, cancel="timeout"),
    Row("settled: a result after the abort", aborted, S.SETTLED, repeat(7, "aborted"), S.SETTLED,
        "aborted", attempt=1, cancel="aborted"),
    Row("settled: a verdict", answered, S.SETTLED, verdicts_of_nobody, S.SETTLED, "ok",
        attempt=1),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_row_of_the_table_of_calls(make: Callable[..., World], row: Row) -> None:
    """behaviour.md 3, in its order. What is let through is dispatched in the same turn, when its
    turn has come: "queued" is seen only where it must wait."""
    scene = a_scene(make, row.reach, **row.setting)
    call = scene.call
    assert (call.state, call.open) == (row.state, row.state is not S.SETTLED)
    row.event(scene)
    assert (call.state, scene.code, call.attempt) == (row.to, row.code, row.attempt)
    wanted = [] if row.cancel is None else [(call.id, row.cancel)]
    assert [one for one in scene.tab.cancels if one[0] == call.id] == wanted
    attempts = [
        order.attempt for tab in scene.world.tabs for order in tab.calls if order.call_id == call.id
    ]
    assert sorted(set(attempts)) == list(range(1, row.attempt + 1))


def test_every_state_has_its_rows():
    assert {row.state for row in ROWS} == set(S)
    assert {row.to for row in ROWS} == set(S) - {S.PROPOSED}


def test_a_call_that_is_sent_again_is_the_same_attempt(make):
    scene = a_scene(make, ended)
    forget_and_come_back(scene)
    assert [order.attempt for order in scene.tab.calls] == [1, 1]


def test_edited_arguments_are_the_calls_arguments(make):
    scene = a_scene(make, ended, **(ALWAYS | NEEDS_X))
    approve(scene, args={"x": 2})
    assert scene.tab.call("t").args == {"x": 2}


def test_p16_a_dispatch_is_recorded_before_it_is_sent(make):
    scene = a_scene(make, proposed)
    told = scene.world.end(scene.run)
    facts = [x.facts[0].kind for x in told if isinstance(x, e.Record)]
    assert "call_dispatched" in facts
    recorded = next(
        n for n, x in enumerate(told)
        if isinstance(x, e.Record) and x.facts[0].kind == "call_dispatched"
    )  # fmt: skip
    sent = next(n for n, x in enumerate(told) if isinstance(x, e.SendCall))
    assert recorded < sent


# ---- making calls -------------------------------------------------------------------------------


class Listener:
    """Who is told that a call is over."""

    def __init__(self):
        self.heard = []

    def __call__(self, call):
        self.heard.append(call.id)


def a_desk(*server, hooks=(), **policy):
    space = a_space(*server, **policy)
    live = Live()
    run = a_run("r1")
    live.add(run)
    over = Listener()
    return space, Desk(space, live, set(hooks), over), run, over


WISHES = [
    ("its own", "mine", "mine"),
    ("none", None, "c:1"),
    ("empty", "", "c:1"),
    ("no id", "has a space", "c:1"),
    ("of an open call", "open", "c:1"),
    ("of a call in history", "old", "c:1"),
]


@pytest.mark.parametrize(("wish", "call_id"), [c[1:] for c in WISHES], ids=[c[0] for c in WISHES])
def test_p1_a_call_has_its_own_id_or_a_fresh_one(wish, call_id):
    """C053: an id is usable when it is one, and was not used before in the thread."""
    space, desk, run, _ = a_desk()
    desk.announce(run, "open", "t", "m0")
    space.emit({"type": "TOOL_CALL_START", "toolCallId": "old", "toolCallName": "t"})
    assert desk.announce(run, wish, "t", "m1").id == call_id


def test_a_call_is_announced_as_what_it_is():
    _, desk, root, _ = a_desk()
    sub = a_run("sub", parent=root)
    sub.step.depth = 2
    call = desk.announce(sub, "c9", "t", "m7")
    assert (call.id, call.run_id, call.owner, call.depth) == ("c9", "r1", "sub", 2)
    assert (call.name, call.message_id, call.state) == ("t", "m7", S.PROPOSED)
    assert (sub.step.calls, desk.calls, desk.open_calls) == ([call], {"c9": call}, {"c9": call})
    assert desk.calls_of(root) == [call]
    assert desk.calls_of(sub) == []


@pytest.mark.parametrize(
    ("policy", "last"),
    [
        ({"calls_per_step": 2}, "over 2 calls in one step"),
        ({"open_calls_per_run": 2}, "over 2 open calls in one run"),
        ({"calls_per_step": 3}, None),
        ({"open_calls_per_run": 3}, None),
    ],
)
def test_p12_calls_are_counted_in_their_step_and_among_the_open_ones(policy, last):
    _, desk, run, _ = a_desk(**policy)
    said = [desk.announce(run, None, "t", "m").over_limit for _ in range(3)]
    assert said == [None, None, last]


# ---- answers ------------------------------------------------------------------------------------

ANSWERS = [
    ("a value", i.Answer(value=1), {}, "ok", "1"),
    ("parts", i.Answer(content=({"type": "text", "text": "a"},)), {}, "ok", "text"),
    ("an error", i.Answer(error_message="no"), {}, "handler_error", "no"),
    ("the page's own code", i.Answer(error_message="no", error_code="mine"), {}, "handler_error",
     "mine"),
    ("not available", i.Answer(error_message="no", error_code="unavailable"), {}, "unavailable",
     "no"),
    ("too large, says the page", i.Answer(error_message="no", error_code="result_too_large"), {},
     "result_too_large", "no"),
    ("a server tool's", i.Answer(error_message="no", code=CallCode.INVALID_RESULT), {},
     "invalid_result", "no"),
    ("exactly as large as may be", i.Answer(value="x" * 98), {}, "ok", "xxx"),
    ("too large", i.Answer(value="x" * 99), {}, "result_too_large", "101 bytes, over 100"),
    ("parts that are too large", i.Answer(content=("x" * 97,)), {}, "result_too_large",
     "101 bytes, over 100"),
    ("what its schema takes", i.Answer(value=1), {"returns": {"type": "integer"}}, "ok", "1"),
    ("what its schema does not take", i.Answer(value="1"), {"returns": {"type": "integer"}},
     "invalid_result", "does not fit the tool's schema: (root):"),
    ("parts are no value of a schema", i.Answer(content=()), {"returns": {"type": "integer"}},
     "ok", ""),
    ("too large and not what its schema takes", i.Answer(value="x" * 99),
     {"returns": {"type": "integer"}}, "result_too_large", "101 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "fields", "code", "shown"), [c[1:] for c in ANSWERS], ids=[c[0] for c in ANSWERS]
)
def test_an_answer_settles_as_what_it_is(make, answer, fields, code, shown):
    scene = a_scene(make, ended, policy={"result_bytes": 100}, **fields)
    order = scene.tab.call("t")
    scene.tell(i.ResultGiven(Asker(scene.tab.id, "x 1"), order.call_id, 1, answer))
    assert scene.code == code
    assert shown in str(scene.world.results()[0])


def test_p7_only_what_is_applied_changes_anything(make):
    scene = a_scene(make, started)
    order = scene.tab.call("t")
    stranger = scene.world.tab("b")
    assert stranger.started(order) == "not_owner"
    assert stranger.result(order) == "not_owner"
    assert scene.tab.started(order) == "duplicate"
    assert scene.call.state is S.STARTED


def test_leave_is_told_to_everybody_and_other_statuses_to_nobody(make):
    scene = a_scene(make, started)
    assert scene.world.kinds()[-1] == "call started"
    head = scene.world.thread("t1").head
    assert scene.tab.started(scene.tab.call("t")) == "duplicate"
    assert scene.world.thread("t1").head == head


# ---- ends ---------------------------------------------------------------------------------------


def queued(desk, run, call_id="c1", **fields):
    """A call that may be dispatched; `fields` are of its tool."""
    call = desk.announce(run, call_id, "t", "m1")
    call.spec, call.ended = spec("t", **fields), True
    call.move(CallEvent.READY)
    return call


GONE = Settlement(
    by=CallEvent.REFUSED, code=CallCode.LIMIT, answer=i.Answer(error_message="too many")
)


def test_p2_the_end_is_recorded_told_once_and_the_call_is_no_longer_open():
    space, desk, run, over = a_desk()
    call = queued(desk, run)
    desk.settle(call, GONE)
    assert space.effects == [
        e.Record((e.Fact(space.key, "call_settled", {"callId": "c1", "outcome": "error"}),))
    ]
    told = {"callId": "c1", "state": "settled", "outcome": "error", "code": "limit"}
    assert logged(space) == [{"type": "CUSTOM", "name": "handspan.call", "value": told}]
    assert (call.settlement, over.heard, desk.open_calls) == (GONE, ["c1"], {})
    assert desk.calls == {"c1": call}
    with pytest.raises(AssertionError, match="cannot take refused"):
        desk.settle(call, GONE)


def test_a_server_tool_is_stopped_unless_it_answered_itself():
    for settlement, stopped in (
        (Settlement(by=CallEvent.ANSWERED, answer=i.Answer(value=1)), []),
        (Settlement(by=CallEvent.ABORTED, answer=i.Answer(error_message="")), [e.StopTool("c1")]),
    ):
        space, desk, run, _ = a_desk()
        call = queued(desk, run)
        desk.pump()
        assert call.state is S.STARTED
        desk.settle(call, settlement)
        assert [x for x in space.effects if isinstance(x, e.StopTool)] == stopped


def test_a_result_waits_for_its_hook_unless_the_run_ends():
    space, desk, run, over = a_desk(hooks=["after_call"])
    waits, cut, stopped = (queued(desk, run, name) for name in ("c1", "c2", "c3"))
    desk.settle(waits, GONE)
    desk.cut(cut, "cut off")
    desk.abort(stopped)
    assert (waits.over, waits.hook, over.heard) == (False, "after_call", ["c2", "c3"])
    assert [x.value.call_id for x in space.effects if isinstance(x, e.ReviseResult)] == ["c1"]
    assert [(call.final.code, call.final.answer.error_message) for call in (cut, stopped)] == [
        ("truncated_turn", "cut off"),
        ("aborted_before_start", "the run was aborted"),
    ]


REVISIONS = [
    ("it stays", None, "limit", "too many"),
    ("another value", i.Answer(value="made up"), None, None),
    ("another error", i.Answer(error_message="worse"), "handler_error", "worse"),
    ("one that is too large", i.Answer(value="x" * 99), "result_too_large", "101 bytes, over 100"),
]


@pytest.mark.parametrize(
    ("answer", "code", "message"), [c[1:] for c in REVISIONS], ids=[c[0] for c in REVISIONS]
)
def test_a_hook_may_make_another_answer_of_it(answer, code, message):
    _, desk, run, over = a_desk(hooks=["after_call"], result_bytes=100)
    call = queued(desk, run)
    desk.settle(call, GONE)
    desk.revised(call, answer)
    assert (call.final.code, over.heard, call.settlement) == (code, ["c1"], GONE)
    assert (call.final.answer.error_message or "").endswith(message or "")
    assert bool(call.final.answer.error_message) is bool(message)


def test_a_revision_that_is_not_awaited_is_dropped():
    space, desk, run, over = a_desk(hooks=["after_call"])
    open_one = queued(desk, run)
    desk.revised(open_one, i.Answer(value=1))
    open_one.hook = "after_call"
    desk.revised(open_one, i.Answer(value=1))
    assert (open_one.revised, over.heard, space.effects) == (None, [], [])


def test_p5_a_hook_that_is_at_work_is_stopped_with_the_call():
    space, desk, run, over = a_desk(hooks=["after_call"])
    call = queued(desk, run)
    desk.settle(call, GONE)
    desk.let_go(call)
    assert space.effects[-1] == e.StopHook("c1")
    assert (call.hook, over.heard, call.final) == (None, ["c1"], GONE)


def test_who_waits_inside_the_step_gets_the_value():
    space, desk, run, _ = a_desk()
    call = queued(desk, run)
    call.ticket = "inside"
    desk.refuse(call, CallCode.DENIED, "no")
    assert space.effects[-1] == e.GiveValue("inside", call.value())


def test_a_call_that_is_not_settled_cannot_be_concluded():
    _, desk, run, over = a_desk()
    call = queued(desk, run)
    with pytest.raises(AssertionError, match="c1 is not settled"):
        desk.let_go(call)
    assert over.heard == []


@pytest.mark.parametrize(
    ("holder", "told"), [("here", [CallTaken("c1", None)]), ("gone", []), (None, [])]
)
def test_only_a_page_that_is_there_is_told_that_a_call_is_no_longer_its_own(holder, told):
    space, desk, run, _ = a_desk()
    space.pages = {"here": page("here")}
    call = queued(desk, run)
    call.holder = holder
    desk.take(call, None)
    assert [x.message for x in space.effects] == told


# ---- time ---------------------------------------------------------------------------------------


def test_the_next_deadline_is_the_earliest_of_what_is_waited_for():
    _, desk, run, _ = a_desk()
    assert desk.next_deadline() is None
    call = queued(desk, run)
    assert desk.next_deadline() is None
    for name, at in (("deadline", 90.0), ("homeless_until", 70.0)):
        setattr(call, name, at)
        assert desk.next_deadline() == at
    call.progress_at, call.progress_waiting = 60.0, {}
    assert desk.next_deadline() == 60.1
    desk.approvals.ask(queued_for_approval(desk, run), CallEvent.ASKED, None)
    assert desk.next_deadline() == 60.1
    call.progress_waiting = call.deadline = call.homeless_until = None
    assert desk.next_deadline() == 600.0


def queued_for_approval(desk, run):
    call = desk.announce(run, "c2", "t", "m1")
    call.spec = spec("t")
    return call


@pytest.mark.parametrize(("now", "state"), [(59.9, S.STARTED), (60.0, S.SETTLED)])
def test_p12_a_call_is_overdue_at_its_deadline_and_not_before(now, state):
    space, desk, run, _ = a_desk()
    call = queued(desk, run)
    desk.pump()
    space.now = now
    desk.deadline_passed()
    assert call.state is state


def test_a_question_expires_at_its_time_and_not_before():
    space, desk, run, _ = a_desk(approval_timeout=10)
    call = queued_for_approval(desk, run)
    desk.approvals.ask(call, CallEvent.ASKED, None)
    space.now = 9.9
    desk.deadline_passed()
    assert call.state is S.WAITING_APPROVAL
    space.now = 10.0
    desk.deadline_passed()
    assert (call.final.code, call.approval) == ("approval_expired", None)


def test_progress_that_waited_is_told_when_its_time_has_come():
    space, desk, run, _ = a_desk()
    call = queued(desk, run)
    desk.pump()
    call.progress_at, call.progress_waiting = 1.0, {"progress": 2}
    space.now = 1.0
    desk.deadline_passed()
    assert call.progress_waiting == {"progress": 2}
    space.now = 1.2
    desk.deadline_passed()
    assert (call.progress_waiting, call.last["progress"]) == (None, 2)


# ---- what is forgotten --------------------------------------------------------------------------


def test_p12_settled_calls_are_remembered_up_to_a_number(monkeypatch):
    assert desk_room.SETTLED_KEPT == 1_024
    monkeypatch.setattr(desk_room, "SETTLED_KEPT", 2)
    _, desk, run, _ = a_desk()
    kept = queued(desk, run, "open")
    for n in range(4):
        desk.settle(queued(desk, run, f"c{n}"), GONE)
    assert list(desk.calls) == ["open", "c2", "c3"]
    assert desk.open_calls == {"open": kept}


def test_p14_a_run_that_could_not_be_ended_leaves_no_open_call():
    space, desk, run, over = a_desk(hooks=["before_call"])
    call, other = queued(desk, run, "c1"), queued(desk, run, "c2")
    call.hook = "before_call"
    desk.forget_open()
    assert (desk.open_calls, over.heard, other.state) == ({}, [], S.QUEUED)
    assert space.effects == [e.StopHook("c1")]


def test_a_bare_call_has_no_turn():
    """Only what is final may be dispatched."""
    space, desk, run, _ = a_desk()
    call = queued(desk, run)
    call.ended = False
    desk.pump()
    assert (call.state, space.effects) == (S.QUEUED, [])
    assert a_call().ended is False


def test_p5_an_answer_that_the_hook_has_not_seen_is_shown_to_nobody():
    _, desk, run, _ = a_desk(hooks=["after_call"])
    call = queued(desk, run)
    call.move(CallEvent.TURN)
    desk.answer(call, i.Answer(value="secret"))
    desk.let_go(call)
    assert (call.final.code, call.final.answer.value) == (CallCode.ABORTED, None)
    assert call.settlement.answer.value == "secret"


def test_p2_none_is_forgotten_while_all_wait_for_their_hook(monkeypatch):
    monkeypatch.setattr(desk_room, "SETTLED_KEPT", 1)
    _, desk, run, _ = a_desk(hooks=["after_call"])
    waiting = [queued(desk, run) for _ in range(2)]
    for call in waiting:
        desk.settle(call, GONE)
    last = queued(desk, run)
    desk.abort(last)
    assert all(call.id in desk.calls for call in waiting)
    assert last.id not in desk.calls
    desk.revised(waiting[0], None)
    assert waiting[0].id not in desk.calls


def test_a_page_that_had_a_call_before_a_restart_is_told_so_again_and_nothing_else(make):
    scene = a_scene(make, started)
    desk = scene.world.thread("t1").desk
    desk._space.effects = told = []
    desk.tell_holder(scene.call)
    (offered,) = told
    assert (offered.session, offered.message.frame.call_id) == (scene.tab.id, scene.call.id)
    assert (scene.call.state, scene.call.attempt) == (CallState.STARTED, 1)


# ---- calls that nobody waits for any more --------------------------------------------------------


def waiting(make: Any, **tool_fields: Any) -> tuple[Any, Any, str]:
    """A page's tool at work on a call that code inside the step waits for."""
    world = make()
    tab = world.tab("a", tools=[tool("t", **tool_fields)])
    run = tab.run("please")
    world.call(run, "t", ticket="k")
    return world, tab, run


@pytest.mark.parametrize(
    ("fields", "code"), [({}, "aborted_before_start"), (LOOK, "aborted")], ids=["asks", "at once"]
)
def test_p5_a_call_whose_caller_has_gone_is_stopped_at_its_page(make, fields, code):
    world, tab, run = waiting(make, **fields)
    effects = world.tell(world.key("t1"), i.CallForgone(RunId(run), "k"))
    (given,) = [effect for effect in effects if isinstance(effect, e.GiveValue)]
    assert (given.ticket, given.value.outcome, given.value.code) == ("k", "aborted", code)
    (cancel,) = [frame for frame in tab.frames if isinstance(frame, f.ToolCancel)]
    assert (cancel.call_id, cancel.reason) == (tab.call("t").call_id, "aborted")
    world.text(run, "Never mind.")
    world.end(run)
    results = [event for event in world.events() if event["type"] == "TOOL_CALL_RESULT"]
    assert len(results) == 1
    assert world.events()[-1]["result"]["reason"] == "completed"


def test_p2_a_call_that_is_answered_cannot_be_forgone(make):
    world, tab, run = waiting(make, **LOOK)
    tab.result(tab.call("t"), "seen")
    head = len(world.events())
    for ticket in ("k", "nobodys"):
        assert world.tell(world.key("t1"), i.CallForgone(RunId(run), ticket)) == []
    assert len(world.events()) == head
    world.end(run)
