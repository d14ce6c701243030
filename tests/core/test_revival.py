"""A thread in the next process: what it was, and how what was under way goes on (P16)."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.core.at_rest import look
from tests.core.builders import EPOCH_S, spec, tool
from tests.core.kept import KeptWorld, begin, follow, revived

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.call import CallState
from handspan.core.parties import Asker, Principal
from handspan.core.policy import Policy
from handspan.core.revival import RESTARTS_MAX
from handspan.core.transcript import broken_rules
from handspan_protocol import frames as f
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.ids import CallId, RunId

S = CallState
AGAIN = {"idempotent": True}
ITEM = f.ContextItem(name="page", description="which", value=1)


@dataclass
class Life:
    """A process with a page, and the next one."""

    world: KeptWorld
    tab: Any
    run: str = ""

    def restart(self, *, server=None, edit=None) -> "Life":
        """`server`: the tools of the next one; `edit`: what becomes of the shelf in between."""
        old = self.world
        if server is not None:
            old.server = {one.name: one for one in server}
        if edit is not None:
            edit(old.shelf.threads[old.key("t1")])
        world = revived(old)
        life = Life(world, follow(self.tab, world), self.run)
        begin(world)
        look(world)
        return life

    @property
    def thread(self):
        return self.world.thread("t1")

    @property
    def call(self):
        return next(c for c in self.thread.desk.calls.values() if c.name in ("t", "srv"))

    @property
    def code(self):
        return self.call.final.told().get("code", "ok") if self.call.final else None

    def started(self):
        return [(step.run_id, step.depth) for step in self.world.steps()]


def a_life(*tools, server=(), hooks=(), thread="t1", **policy):
    world = KeptWorld(Policy(**policy), server=server, hooks=hooks)
    return Life(world, world.tab("a", tools=tools, threads=(thread,)))


def calling(name="t", server=(), hooks=(), tools=None, policy=None, **fields):
    """A life whose run has called `name` and has nothing more to say."""
    made = [tool("t", **fields)] if tools is None else tools
    life = a_life(*made, server=server, hooks=hooks, **(policy or {}))
    life.run = life.tab.run("go")
    life.world.text(life.run, "I will.")
    life.world.call(life.run, name, {"x": 1})
    life.world.end(life.run)
    return life


def is_over(life, reason):
    assert not life.thread.busy
    assert life.world.reason() == reason
    assert broken_rules(life.thread.space.transcript.view()) == []
    look(life.world)


# ---- a thread on which nothing is under way -----------------------------------------------------


def test_p16_a_thread_at_rest_is_the_same_and_nothing_moves():
    life = a_life()
    run = life.tab.run("hello")
    life.world.text(run, "hi")
    life.world.end(run)
    life.tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    again = life.restart()
    assert again.world.messages() == life.world.messages()
    assert again.thread.space.transcript.state == {"n": 1}
    assert again.thread.space.state_changed_between
    assert again.world.last_run() == life.world.last_run()
    assert again.world.effects == []
    assert again.thread.epoch != life.thread.epoch
    again.tab.connect(threads=["t1"])
    assert again.tab.run("again", run_id=run) == "duplicate_id"


def test_a_thread_that_is_told_of_a_restart_and_has_nothing_under_way_stays_at_rest():
    life = a_life()
    assert life.world.tell(life.world.key("t1"), i.Restored(())) == []


# ---- how a run goes on --------------------------------------------------------------------------


def test_a_step_that_was_being_said_is_asked_again_and_half_a_text_is_gone():
    life = a_life()
    run = life.tab.run("hello", context=(ITEM,), forwarded_props={"x": 1})
    life.world.text(run, "half a ")
    life.tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    again = life.restart()
    (step,) = again.world.steps()
    assert (step.run_id, step.depth, step.state) == (run, 0, {"n": 1})
    assert [m["role"] for m in step.messages] == ["user"]
    assert (step.context, step.forwarded_props) == ((ITEM,), {"x": 1})
    again.world.text(run, "whole")
    again.world.end(run)
    is_over(again, "completed")
    assert again.world.of(e.RunOver)[0].value.text == "whole"


def test_what_the_run_had_said_before_its_step_is_still_said():
    life = calling(readOnly=True)
    life.tab.result(life.tab.call("t"), 5)
    again = life.restart()
    assert again.started() == [(life.run, 1)]
    assert [value.value for value in again.world.steps()[0].results] == [5]
    again.world.text(life.run, " done")
    again.world.end(life.run)
    assert again.world.of(e.RunOver)[0].value.text == "I will. done"


def test_a_run_whose_history_was_cut_behind_it_has_said_what_is_left():
    life = calling()

    def forget_where_it_began(entries):
        image = parse_json(entries["run", life.run])
        entries["run", life.run] = encode({**image, "since": "nobody"})

    again = life.restart(edit=forget_where_it_began)
    assert again.thread.run.said == ["I will."]


def test_a_hook_on_the_runs_begin_is_asked_again():
    life = a_life(hooks=["before_run"])
    run = life.tab.run("hello")
    again = life.restart()
    assert [x.run_id for x in again.world.of(e.JudgeRun)] == [run]
    request = again.thread.run.request
    again.world.tell(again.world.key("t1"), i.RunJudged(run_id=RunId(run), request=request))
    again.world.end(run)
    is_over(again, "completed")


def test_p16_runs_that_wait_keep_their_order_and_their_place_among_the_pages_runs():
    life = a_life()
    run = life.tab.run("one")
    for text in ("two", "three"):
        life.tab.run(text, if_busy="queue")
    again = life.restart()
    session = again.world.sessions[life.tab.id]
    assert (session.running.total(), session.queued.total()) == (1, 2)
    for _ in range(3):
        again.world.end(again.thread.run.id)
    asked = [m["content"] for m in again.world.messages() if m["role"] == "user"]
    assert asked == ["one", "two", "three"]
    assert run not in {request.run_id for request in again.thread.runs.queue}
    is_over(again, "completed")


def test_a_run_closed_by_policy_ends_and_the_next_one_begins():
    life = a_life(on_restart="close")
    run = life.tab.run("one")
    waits = life.tab.ask(f.RunStart, thread_id="t1", message="two", if_busy="queue")["runId"]
    again = life.restart()
    assert again.thread.run.id == waits
    assert [x.value.run_id for x in again.world.of(e.RunOver)] == [run]
    again.world.end(waits)
    is_over(again, "completed")


def test_a_run_that_ends_its_process_each_time_is_given_up():
    life = a_life()
    run = life.tab.run("one")
    for _ in range(RESTARTS_MAX):
        life = life.restart()
        assert life.started() == [(run, 0)]
    is_over(life.restart(), "internal")


def test_a_step_that_was_reached_may_be_taken_up_as_often_as_the_first():
    life = calling(readOnly=True)
    life = life.restart()
    life.tab.connect(threads=["t1"])
    life.tab.result(life.tab.call("t"), 5)
    assert life.thread.run.restarts == 0


def test_a_run_that_only_waits_for_a_page_outlives_any_number_of_restarts():
    life = calling(readOnly=True)
    for _ in range(RESTARTS_MAX + 2):
        life = life.restart()
    assert life.thread.run is not None
    assert life.thread.run.restarts == 0


def test_a_run_that_nobody_has_seen_is_given_up_as_well():
    """It begins anew each time, with the restarts that it has had."""
    life = a_life(hooks=["before_run"])
    run = life.tab.run("one")
    for _ in range(RESTARTS_MAX):
        life = life.restart()
        assert [x.run_id for x in life.world.of(e.JudgeRun)] == [run]
    is_over(life.restart(), "internal")


UNHEARD = Principal("anonymous", when=object())


def test_runs_whose_requests_could_not_be_kept_fail_in_their_turn():
    life = a_life()
    for name, who in (("r1", UNHEARD), ("r2", UNHEARD), ("r3", Principal("anonymous"))):
        asked = i.RunRequested(
            asker=Asker(None, name), run_id=RunId(name), principal=who, if_busy="queue",
            message={"role": "user", "content": name},
        )  # fmt: skip
        life.world.tell(life.world.key("t1"), asked)
    again = life.restart()
    over = [(x.value.run_id, x.value.reason, x.value.code) for x in again.world.of(e.RunOver)]
    assert over == [("r1", "failed", "internal"), ("r2", "failed", "agent_error")]
    assert again.started() == [("r3", 0)]
    assert [m["content"] for m in again.world.messages()] == ["r1", "r2", "r3"]
    again.world.end("r3")
    is_over(again, "completed")


def test_a_button_whose_request_could_not_be_kept_is_answered_and_its_call_is_over():
    life = a_life(tool("t"))
    asked = i.InvokeRequested(
        asker=Asker(None, "x"), run_id=RunId("r1"), name="t", raw="{}", principal=UNHEARD
    )
    life.world.tell(life.world.key("t1"), asked)
    again = life.restart()
    is_over(again, "internal")
    assert again.code == "aborted_before_start"
    assert again.world.answers["x"]["outcome"] == "aborted"


def test_a_run_that_had_delegated_is_closed_and_what_was_called_below_has_results():
    life = a_life(tool("t"), tool("u", readOnly=True))
    life.run = life.tab.run("go")
    sub = life.world.delegate(life.run)
    life.world.call(sub, "u")
    life.world.call(sub, "t")
    life.world.end(sub)
    life.tab.result(life.tab.call("u"), 1)
    again = life.restart()
    is_over(again, "internal")
    assert again.world.outcomes() == ["ok", "aborted"]


def test_a_button_is_answered_by_the_next_process():
    life = a_life(tool("t"))
    command = life.tab.invoke("t", {"x": 1})
    again = life.restart()
    again.tab.connect(threads=["t1"])
    assert again.tab.started(again.tab.call("t")) == "go"
    assert again.tab.result(again.tab.call("t"), 7) == "applied"
    assert again.tab.answer(command)["result"] == 7
    is_over(again, "no_follow_up")


# ---- calls at a page ----------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [True, False])
def test_p2_a_call_at_a_page_stays_there_and_its_clock_begins_anew(leave):
    life = calling()
    if leave:
        life.tab.started(life.tab.call("t"))
    life.world.wait(50)
    again = life.restart()
    assert again.call.deadline == EPOCH_S + 50 + 60
    assert again.world.sessions[life.tab.id].holding.calls.keys() == {again.call.id}
    again.tab.connect(threads=["t1"])
    assert again.tab.started(again.tab.call("t")) == ("duplicate" if leave else "go")
    assert again.tab.result(again.tab.call("t"), 5) == "applied"
    assert again.started() == [(life.run, 1)]
    assert len(again.tab.calls) == 1


GONE = [
    ("not started", False, {}, "page_gone"),
    ("started", True, {}, "outcome_unknown"),
    ("started, may be run again", True, AGAIN, "outcome_unknown"),
]


@pytest.mark.parametrize(
    ("leave", "fields", "code"), [c[1:] for c in GONE], ids=[c[0] for c in GONE]
)
@pytest.mark.parametrize("known", [True, False])
def test_p2_a_page_that_never_comes_back_is_given_up(leave, fields, code, known):
    life = calling(**fields)
    if leave:
        life.tab.started(life.tab.call("t"))
    if not known:
        life.world.shelf.sessions.clear()
    again = life.restart()
    again.world.wait(31)
    assert again.code == code
    again.world.end(life.run)
    is_over(again, "completed")


def test_a_call_that_waited_for_its_page_waits_again():
    life = calling(tools=[tool("first"), tool("t")])
    life.tab.drop()
    again = life.restart()
    assert again.call.state in (S.QUEUED, S.DISPATCHED)
    again.tab.connect(threads=["t1"])
    again.tab.started(again.tab.call("t"))
    assert again.tab.result(again.tab.call("t")) == "applied"


@pytest.mark.parametrize("known", [True, False])
def test_a_call_that_waited_for_its_turn_waits_for_its_page(known):
    life = a_life(tool("first"), tool("t"))
    life.run = life.tab.run("go")
    for name in ("first", "t"):
        life.world.call(life.run, name)
    life.world.end(life.run)
    if not known:
        life.world.shelf.sessions.clear()
    again = life.restart()
    assert (again.call.state, again.call.homeless_until is None) == (S.QUEUED, known)
    again.world.wait(31)
    assert again.code == "no_client"


def test_a_call_that_had_nobody_left_is_looked_for_anew():
    life = calling()
    life.tab.reload(threads=["t1"], tools=())
    life.tab.ask(f.StateUpdate, thread_id="t1", state=1)
    assert life.call.homeless_until is not None
    again = life.restart()
    assert again.call.homeless_until == EPOCH_S + 30
    again.world.wait(31)
    assert again.code == "page_gone"


def test_p10_a_question_is_open_again_and_its_time_begins_anew():
    life = calling(approval="always")
    life.world.wait(500)
    again = life.restart()
    assert again.call.approval.expires_at == EPOCH_S + 500 + 600
    again.tab.connect(threads=["t1"])
    (question,) = again.tab.questions
    assert question.digest == life.tab.questions[0].digest
    assert again.tab.approve(question) == "applied"
    again.tab.started(again.tab.call("t"))
    again.tab.result(again.tab.call("t"), 1)
    again.world.end(life.run)
    is_over(again, "completed")


def spoil(entries):
    """The tools that calls were made for are none by the rules of today."""
    for (part, name), body in list(entries.items()):
        if part == "call":
            image = parse_json(body)
            image["tool"] = {"name": "no name"}
            entries[part, name] = encode(image)


def test_p2_a_call_whose_tool_cannot_be_read_any_more_counts_as_lost():
    life = calling()
    life.tab.started(life.tab.call("t"))
    again = life.restart(edit=spoil)
    assert again.code == "outcome_unknown"


def test_a_question_about_a_tool_that_cannot_be_read_any_more_is_asked_of_who_has_it():
    life = calling(approval="always")
    again = life.restart(edit=spoil)
    assert (again.call.state, again.call.spec.name) == (S.WAITING_APPROVAL, "t")


# ---- calls of the server's tools ----------------------------------------------------------------


@pytest.mark.parametrize(("fields", "again_"), [(AGAIN, True), ({}, False)])
def test_p2_a_server_tool_at_work_is_run_again_only_if_it_may_be(fields, again_):
    life = calling("srv", server=[spec("srv", **fields)])
    again = life.restart()
    assert [x.call_id for x in again.world.of(e.StartTool)] == ([again.call.id] if again_ else [])
    if again_:
        assert again.call.attempt == 2
        again.world.returned(again.call.id, 1)
    assert again.code == ("ok" if again_ else "outcome_unknown")
    again.world.end(life.run)
    is_over(again, "completed")


@pytest.mark.parametrize("approval", [True, False])
def test_a_call_of_a_server_tool_that_is_no_more_is_unavailable(approval):
    """It had waited for its turn among the server's tools, or for a human."""
    fields = {"approval": "always"} if approval else {}
    server = [spec("other"), spec("srv", **fields)]
    life = a_life(server=server, server_tools_at_once=1)
    life.run = life.tab.run("go")
    for name in ("other", "srv"):
        life.world.call(life.run, name)
    life.world.end(life.run)
    again = life.restart(server=[spec("other")])
    assert again.code == "unavailable"
    again.world.end(life.run)
    is_over(again, "completed")


ANOTHER = {"description": "does something else now"}


def test_p10_an_approval_for_a_server_tool_that_has_changed_is_asked_for_anew():
    life = calling("srv", server=[spec("srv", approval="always")])
    again = life.restart(server=[spec("srv", approval="always", **ANOTHER)])
    again.tab.connect(threads=["t1"])
    (old,), (new,) = life.tab.questions, again.tab.questions
    assert old.digest != new.digest
    assert again.tab.approve(old) == "late"
    assert again.world.of(e.StartTool) == []
    assert again.tab.approve(new) == "applied"
    assert [x.call_id for x in again.world.of(e.StartTool)] == [again.call.id]


def waiting_for_its_turn(**fields):
    """A server tool that has leave to begin, and waits behind another one."""
    life = a_life(server=[spec("other"), spec("srv", **fields)], server_tools_at_once=1)
    life.run = life.tab.run("go")
    for name in ("other", "srv"):
        life.world.call(life.run, name, {"x": 1})
    life.world.end(life.run)
    for question in life.tab.questions:
        life.tab.approve(question)
    assert life.call.state is S.QUEUED
    return life


NEEDS_X = {"parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
CHANGES = [
    ("it was approved", {"approval": "always"}, ANOTHER, "unavailable"),
    ("its arguments do not fit", {}, NEEDS_X, "invalid_arguments"),
    ("nobody had to be asked", {}, ANOTHER, None),
    ("it is the same", {"approval": "always"}, {}, None),
]


@pytest.mark.parametrize(
    ("fields", "change", "code"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_p10_a_server_tool_that_has_changed_is_not_run_on_the_strength_of_the_old_one(
    fields, change, code
):
    life = waiting_for_its_turn(**fields)
    again = life.restart(server=[spec("other"), spec("srv", **{**fields, **change})])
    assert again.code == code
    started = [x.call_id for x in again.world.of(e.StartTool)]
    assert started == ([again.call.id] if code is None else [])


@pytest.mark.parametrize(
    ("fields", "change", "code"), [c[1:] for c in CHANGES[1:3]], ids=[c[0] for c in CHANGES[1:3]]
)
def test_a_repeatable_server_tool_that_was_at_work_and_has_changed_is_looked_at_again(
    fields, change, code
):
    life = calling("srv", server=[spec("srv", **AGAIN, **fields)])
    again = life.restart(server=[spec("srv", **AGAIN, **change)])
    assert again.code == code
    assert len(again.world.of(e.StartTool)) == (code is None)


# ---- deep values --------------------------------------------------------------------------------


def nested(depth):
    """Lists in lists."""
    value = 0
    for _ in range(depth):
        value = [value]
    return value


DEPTHS = [127, 250]


@pytest.mark.parametrize("depth", DEPTHS)
def test_p16_a_deep_result_of_a_server_tool_is_had_again(depth):
    life = calling("srv", server=[spec("srv")])
    life.world.returned(life.call.id, nested(depth))
    again = life.restart()
    assert [r.value for r in again.world.steps()[0].results] == [nested(depth)]
    assert again.world.messages() == life.world.messages()


def test_p16_a_deep_result_of_a_page_and_deep_arguments_are_had_again():
    life = a_life(tool("t"))
    life.run = life.tab.run("go")
    life.world.call(life.run, "t", {"x": nested(126)})
    life.world.end(life.run)
    again = life.restart()
    assert again.call.args == {"x": nested(126)}
    again.tab.connect(threads=["t1"])
    again.tab.started(again.tab.call("t"))
    assert again.tab.result(again.tab.call("t"), nested(127)) == "applied"
    third = again.restart()
    assert [r.value for r in third.world.steps()[0].results] == [nested(127)]


@pytest.mark.parametrize("depth", DEPTHS)
def test_p16_what_a_run_has_to_show_may_be_deep_also_when_it_is_over(depth):
    """`agent.output`, which is in the run's image and then in what is said of the last run."""
    life = a_life()
    run = life.tab.run("go")
    life.thread.run.output, life.thread.run.has_output = nested(depth - 3), True
    life.tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    again = life.restart()
    assert again.thread.run.output == nested(depth - 3)
    again.world.end(run)
    assert again.restart().world.last_run() == again.world.last_run()


# ---- steps that were cut off --------------------------------------------------------------------


def test_a_step_that_called_from_inside_goes_on_without_its_agent():
    """What is out is waited for; a call that nobody had carried out yet is not."""
    life = a_life(tool("t"), tool("u", approval="always"))
    life.run = life.tab.run("go")
    life.world.call(life.run, "t", ticket="w")
    life.world.call(life.run, "u", ticket="v")
    again = life.restart()
    assert again.started() == []
    assert again.world.outcomes() == []
    again.tab.connect(threads=["t1"])
    again.tab.started(again.tab.call("t"))
    again.tab.result(again.tab.call("t"), 5)
    assert again.world.outcomes() == ["ok", "truncated_turn"]
    assert again.started() == [(life.run, 1)]
    again.world.end(life.run)
    is_over(again, "completed")


def test_a_call_that_waits_for_a_hook_is_judged_again():
    life = calling(hooks=["before_call"])
    again = life.restart()
    assert [x.call_id for x in again.world.of(e.JudgeCall)] == [again.call.id]
    again.world.judged(again.call.id, "deny")
    again.world.end(life.run)
    is_over(again, "completed")


def test_a_result_that_a_hook_had_not_seen_is_shown_to_it():
    life = calling(hooks=["after_call"])
    life.tab.started(life.tab.call("t"))
    life.tab.result(life.tab.call("t"), 5)
    assert life.world.results() == []
    again = life.restart()
    assert [x.value.value for x in again.world.of(e.ReviseResult)] == [5]
    again.world.tell(again.world.key("t1"), i.ResultRevised(CallId(again.call.id), None))
    assert again.world.results() == ["5"]
    again.world.end(life.run)
    is_over(again, "completed")


@pytest.mark.parametrize("leave", [True, False])
def test_p2_of_a_run_that_is_closed_nobody_can_say_whether_what_had_started_was_done(leave):
    life = calling(policy={"on_restart": "close"})
    if leave:
        life.tab.started(life.tab.call("t"))
    again = life.restart()
    assert again.code == ("outcome_unknown" if leave else "aborted_before_start")
    is_over(again, "internal")
    again.tab.connect(threads=["t1"])
    assert again.tab.cancels[0][0] == again.call.id


def test_a_thread_is_read_back_in_any_order_of_its_parts():
    life = calling()
    life.tab.tools(tool("t"))

    def turn_round(entries):
        order = [item for item in entries.items() if item[0][0] not in ("message", "call")]
        rest = [item for item in entries.items() if item[0][0] in ("message", "call")]
        entries.clear()
        entries.update([*reversed(order), *rest])

    again = life.restart(edit=turn_round)
    assert again.world.messages() == life.world.messages()
    assert again.thread.run.id == life.run
