"""Who holds a call as pages come, change and go; every attempt that is safe, and no other (P2)."""

import pytest
from tests.core.builders import World, spec, takes, tool
from tests.core.scenarios import (
    Scene,
    a_scene,
    answered,
    ended,
    proposed,
    queued_away,
    queued_behind,
    started,
)

from handspan.core.call import CallState
from handspan.core.policy import Policy
from handspan_protocol import frames as f

S = CallState
ALWAYS = {"approval": "always"}
AGAIN = {"idempotent": True}
FIRST = tool("first")


def orders(tab):
    """(attempt, arguments) of every order of `t` that came."""
    return [(order.attempt, order.args) for order in tab.calls if order.name == "t"]


def message_of(scene):
    return scene.call.final.answer.error_message


# ---- the page's tools are new -------------------------------------------------------------------

CHANGES = [
    ("the same", [tool("t")], S.QUEUED, None),
    ("another tool beside it", [tool("t"), tool("u")], S.QUEUED, None),
    ("another definition", [tool("t", title="new")], S.QUEUED, None),
    ("it is not available", [tool("t", available=False)], S.SETTLED, "unavailable"),
    ("it is gone", [], S.SETTLED, "unavailable"),
    ("its arguments do not fit any more", [tool("t", parameters=takes("y", y="string"))],
     S.SETTLED, "invalid_arguments"),
    ("it wants a human now", [tool("t", **ALWAYS)], S.SETTLED, "unavailable"),
    ("a wildcard is left", [tool("*")], S.QUEUED, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tools", "state", "code"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_a_queued_call_is_resolved_again_when_its_tool_changes(make, tools, state, code):
    scene = a_scene(make, queued_behind)
    scene.tab.tools(FIRST, *tools)
    assert (scene.call.state, scene.code) == (state, code)
    scene.tab.result(scene.tab.call("first"))
    names = [order.name for order in scene.tab.calls[1:]]
    assert names == ([] if code else ["*" if tools[-1]["name"] == "*" else "t"])


@pytest.mark.parametrize("reach", [ended, started])
def test_p2_a_call_that_is_out_stays_where_it_is_when_tools_change(make, reach):
    scene = a_scene(make, reach)
    scene.tab.tools(FIRST)
    assert scene.call.out
    assert scene.tab.result(scene.tab.call("t"), 1) == "applied"


def test_p10_a_changed_tool_is_asked_about_anew_and_the_old_question_is_closed(make):
    scene = a_scene(make, ended, **ALWAYS)
    scene.tab.tools(FIRST, tool("t", title="new", **ALWAYS))
    old, new = scene.tab.questions
    assert (scene.call.state, old.digest == new.digest) == (S.WAITING_APPROVAL, False)
    assert scene.tab.approve(old) == "late"
    assert scene.tab.approve(new) == "applied"


def test_p10_the_reason_of_a_question_stays_with_it(make):
    scene = a_scene(make, ended, hooks=["before_call"])
    scene.world.judged(scene.call.id, "ask", "it costs money")
    scene.tab.tools(FIRST, tool("t", title="new"))
    assert [question.reason for question in scene.tab.questions] == ["it costs money"] * 2


def test_a_tool_that_goes_while_a_human_is_asked_ends_the_call(make):
    scene = a_scene(make, ended, **ALWAYS)
    scene.tab.tools(FIRST)
    assert (scene.code, message_of(scene)) == ("unavailable", "the page no longer has this tool")


def test_a_call_that_moves_after_its_approval_is_not_approved_of_another_tool(make):
    """P10: what was approved is this definition."""
    scene = a_scene(make, lambda scene: None, **ALWAYS)
    scene.world.call(scene.run, "first")
    ended(scene)
    scene.tab.approve(scene.tab.questions[0])
    assert scene.call.state is S.QUEUED
    scene.world.tab("b", tools=[tool("t", title="another", **ALWAYS)])
    scene.tab.tools(FIRST)
    assert scene.code == "unavailable"
    assert message_of(scene) == "the tool changed after the call was approved; call it again"


def test_a_call_that_moves_to_the_same_definition_needs_no_second_approval(make):
    scene = a_scene(make, lambda scene: None, **ALWAYS)
    scene.world.call(scene.run, "first")
    ended(scene)
    scene.tab.approve(scene.tab.questions[0])
    other = scene.world.tab("b", tools=[tool("t", **ALWAYS)])
    scene.tab.tools(FIRST)
    assert orders(other) == [(1, {"x": 1})]
    assert len(scene.tab.questions) == 1


def test_another_pages_change_moves_nothing(make):
    scene = a_scene(make, queued_behind)
    other = scene.world.tab("b", tools=[tool("t")])
    other.tools(tool("t", title="new"))
    assert (scene.call.holder, other.calls) == (scene.tab.id, [])


# ---- the page is back ---------------------------------------------------------------------------

BACK = [
    ("dispatched, known as received", ended, "received", [1], None),
    ("dispatched, known as started", ended, "started", [1], None),
    ("dispatched, known as done", ended, "done", [1], None),
    ("dispatched, not known", ended, None, [1, 1], None),
    ("started, known as started", started, "started", [1], None),
    ("started, known as done", started, "done", [1], None),
    ("started, not known", started, None, [1], "outcome_unknown"),
]


@pytest.mark.parametrize(
    ("reach", "known", "attempts", "code"), [c[1:] for c in BACK], ids=[c[0] for c in BACK]
)
def test_p2_what_the_same_document_knows_is_not_sent_again(make, reach, known, attempts, code):
    """C088."""
    scene = a_scene(make, reach)
    call = scene.call
    scene.tab.drop()
    journal = [] if known is None else [f.JournalEntry(call_id=call.id, attempt=1, state=known)]
    scene.tab.back(journal=journal)
    assert ([attempt for attempt, _ in orders(scene.tab)], scene.code) == (attempts, code)


def test_p2_a_journal_of_another_attempt_does_not_know_this_one(make):
    scene = a_scene(make, ended)
    scene.tab.drop()
    scene.tab.back(journal=[f.JournalEntry(call_id=scene.call.id, attempt=2, state="received")])
    assert [attempt for attempt, _ in orders(scene.tab)] == [1, 1]


RELOADS = [
    ("dispatched", ended, {}, None, [1, 2], None),
    ("dispatched, the old document had it done", ended, {}, "done", [1], None),
    ("dispatched, the old document had begun", ended, {}, "started", [1, 2], None),
    ("started", started, {}, None, [1], "outcome_unknown"),
    ("started, the old document had it done", started, {}, "done", [1], None),
    ("started, and may be repeated", started, AGAIN, None, [1, 2], None),
]


@pytest.mark.parametrize(
    ("reach", "fields", "known", "attempts", "code"),
    [c[1:] for c in RELOADS],
    ids=[c[0] for c in RELOADS],
)
def test_p2_what_the_gone_document_had_is_another_attempt_where_that_is_safe(
    make, reach, fields, known, attempts, code
):
    scene = a_scene(make, reach, **fields)
    journal = [f.JournalEntry(call_id=scene.call.id, attempt=1, state=known)] if known else []
    scene.tab.reload(journal=journal)
    assert ([attempt for attempt, _ in orders(scene.tab)], scene.code) == (attempts, code)


def test_a_lost_calls_clock_stands_until_it_is_sent_again(make):
    scene = a_scene(make, ended)
    scene.tab.reload(tools=[FIRST])
    assert (scene.call.state, scene.call.deadline, scene.call.holder) == (S.QUEUED, None, None)
    scene.world.wait(20)
    scene.tab.tools(FIRST, tool("t"))
    assert scene.call.deadline == scene.world.now + 60


# ---- nobody comes -------------------------------------------------------------------------------

GRACE = [
    ("queued", queued_away, {}, "no_client", "no page that has this tool is connected"),
    ("dispatched", ended, {}, "page_gone",
     "the page went away before the tool was started; it was not carried out"),
    ("dispatched, and may have begun", ended, AGAIN, "page_gone",
     "the page went away before it answered; the tool may have been carried out"),
    ("started", started, {}, "outcome_unknown",
     "the page went away while the tool was running; it may or may not have been carried out, so"
     " check before calling it again"),
    ("started, and may be repeated", started, AGAIN, "outcome_unknown",
     "the page went away; whether the tool was carried out is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reach", "fields", "code", "words"), [c[1:] for c in GRACE], ids=[c[0] for c in GRACE]
)
def test_p12_a_page_that_stays_away_has_its_grace_and_then_loses_its_calls(
    make, reach, fields, code, words
):
    scene = a_scene(make, reach, **fields)
    if scene.tab.connection is not None:
        scene.tab.drop()
    scene.world.wait(29.9)
    assert scene.call.open
    scene.world.wait(0.2)
    assert (scene.code, message_of(scene)) == (code, words)


def test_p12_the_grace_begins_when_the_socket_was_lost(make):
    """Not when the session noticed, nor when the page said bye."""
    scene = a_scene(make, ended)
    scene.tab.drop()
    scene.world.wait(20)
    scene.tab.reload(tools=[FIRST])
    assert scene.call.homeless_until is not None
    assert scene.call.homeless_until <= scene.world.now + 30


def test_a_page_that_says_bye_leaves_its_calls_to_others(make):
    scene = a_scene(make, queued_behind)
    other = scene.world.tab("b", tools=[FIRST, tool("t")])
    scene.tab.bye()
    assert [order.attempt for order in other.calls] == [2]
    other.result(other.calls[0])
    assert orders(other) == [(1, {"x": 1})]


def test_a_page_that_closed_the_thread_gives_up_what_waits_for_it(make):
    world = make()
    asker, tab, other = (
        world.tab("a"),
        world.tab("b", tools=[tool("t")]),
        world.tab("c", tools=[tool("t")]),
    )
    run = asker.run()
    for n in range(2):
        world.call(run, "t", {"n": n})
    world.end(run)
    holder, heir = (tab, other) if tab.calls else (other, tab)
    assert heir.calls == []
    holder.close("t1")
    assert [order.args for order in heir.calls] == [{"n": 1}]
    holder.result(holder.calls[0])
    heir.result(heir.calls[0])
    assert world.outcomes() == ["ok", "ok"]


def test_p3_a_home_whose_schema_the_arguments_do_not_fit_is_none(make):
    scene = a_scene(make, queued_away)
    scene.world.tab("b", tools=[tool("t", parameters=takes("y", y="string"))])
    scene.world.wait(31)
    assert scene.code == "invalid_arguments"


# ---- a human said yes ---------------------------------------------------------------------------


def test_a_call_whose_page_is_there_goes_to_it_when_it_is_approved(make):
    scene = a_scene(make, ended, **ALWAYS)
    scene.tab.approve(scene.tab.questions[0])
    assert orders(scene.tab) == [(1, {"x": 1})]


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_whose_page_left_while_it_was_asked_about_waits_for_another(make, approved):
    world = make()
    asker, tab = world.tab("a"), world.tab("b", tools=[tool("t", **ALWAYS)])
    run = asker.run()
    world.call(run, "t", {"x": 1})
    world.end(run)
    tab.bye()
    assert asker.approve(asker.questions[0], approved) == "applied"
    call = next(iter(world.thread("t1").desk.calls.values()))
    if not approved:
        assert (call.final.code, call.homeless_until) == ("denied", None)
        return
    assert (call.state, call.holder) == (S.QUEUED, None)
    assert call.homeless_until == world.now + 30
    late = world.tab("c", tools=[tool("t", **ALWAYS)])
    assert orders(late) == [(1, {"x": 1})]


def test_an_approved_server_tool_needs_no_home(make):
    scene = a_scene(make, ended, tools=[FIRST], server=[spec("t", **ALWAYS)])
    scene.tab.approve(scene.tab.questions[0])
    assert (scene.call.state, scene.call.homeless_until) == (S.STARTED, None)


def test_calls_that_are_proposed_or_settled_have_no_home_to_lose(make):
    for reach in (proposed, answered):
        scene = a_scene(make, reach)
        before = scene.call.state
        scene.tab.drop()
        scene.world.wait(31)
        assert scene.call.state is before


# ---- the process began anew ---------------------------------------------------------------------

LEFT = [
    ("at work", ended, S.QUEUED, True),
    ("started", started, S.SETTLED, False),
    ("it waits for its turn", queued_behind, S.QUEUED, True),
    ("proposed", proposed, S.PROPOSED, False),
]


@pytest.mark.parametrize(
    ("reach", "state", "waits"), [c[1:] for c in LEFT], ids=[c[0] for c in LEFT]
)
def test_p2_what_a_page_had_that_nobody_knows_any_more_waits_or_is_lost(reach, state, waits):
    world = World(Policy())
    tab = world.tab("a", tools=[FIRST, tool("t")])
    scene = Scene(world, tab, tab.run("please"))
    reach(scene)
    world.thread("t1").homes.left_behind(scene.call)
    assert (scene.call.state, scene.call.homeless_until is not None) == (state, waits)


@pytest.mark.parametrize("had", [True, False])
def test_a_call_whose_tool_cannot_be_had_goes_to_who_has_it(had):
    world = World(Policy())
    tab = world.tab("a", tools=[FIRST, tool("t")])
    scene = Scene(world, tab, tab.run("please"))
    queued_behind(scene)
    if not had:
        world.thread("t1").space.pages.clear()
    scene.call.spec = None
    world.thread("t1").homes.without_tool(scene.call)
    assert scene.code == (None if had else "unavailable")
    assert (scene.call.spec is not None) is had
