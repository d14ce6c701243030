"""Sessions, documents, sockets: who holds a call when a page comes, goes and comes back."""

import pytest
from tests.core.builders import Tab, takes, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan_protocol import frames as f
from handspan_protocol.ids import DocumentId

# ---- hello --------------------------------------------------------------------------------------


def test_a_hello_is_answered_with_a_welcome_and_snapshots(make):
    world = make(agents=("default", "other"))
    tab = world.tab(threads=["t1", "t2"], tools=[tool("good"), {"name": "bad name"}])
    welcome = tab.welcome
    assert (welcome.resumed, welcome.reason, welcome.agents) == (False, None, ("default", "other"))
    assert [t.thread_id for t in welcome.threads] == ["t1", "t2"]
    assert welcome.tools.accepted == ("good",)
    assert [x.code for x in welcome.tools.rejected] == ["bad_name"]
    assert tab.folds.keys() == {"t1", "t2"}


def test_p9_a_resume_needs_the_secret_and_makes_a_new_one(make):
    world = make()
    tab = world.tab()
    first = tab.claim
    tab.drop()
    tab.back()
    assert (tab.welcome.resumed, tab.id) == (True, first.id)
    assert tab.claim.secret != first.secret
    tab.drop()
    tab.claim = f.SessionClaim(id=first.id, secret="wrong")
    tab.back()
    assert (tab.welcome.resumed, tab.welcome.reason) == (False, "unknown_session")
    assert tab.id != first.id


def test_p9_the_presented_secret_is_good_until_the_new_one_is_used(make):
    """A welcome can get lost."""
    world = make()
    tab = world.tab()
    session, one = tab.session, tab.claim.secret
    tab.back()
    two = tab.claim.secret
    assert [session.knows(x) for x in (one, two)] == [True, True]
    tab.claim = f.SessionClaim(id=session.id, secret=one)
    tab.back()
    three = tab.claim.secret
    assert [session.knows(x) for x in (one, two, three)] == [True, False, True]
    tab.back()
    four = tab.claim.secret
    assert [session.knows(x) for x in (one, two, three, four)] == [False, False, True, True]


def test_p9_the_newest_socket_is_the_live_one_and_the_old_ones_close_harms_nothing(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    old = tab.connection
    tab.back()
    assert tab.session.connection == tab.connection != old
    assert e.CloseSocket(old, 4409, "superseded") in world.of(e.CloseSocket)
    world.tell(tab.id, s.SocketLost(old))
    assert tab.session.connection == tab.connection
    assert world.tell(tab.id, s.FrameReceived(old, f.ThreadList(id="x"))) == []
    world.call(run, "t")
    world.end(run)
    assert tab.names == ["t"]


def test_p2_a_command_sent_again_is_carried_out_once(make):
    """C085: also after a reconnect."""
    world = make()
    tab = world.tab()
    frame = f.RunStart(id="start", thread_id="t1", message="hi")
    tab.frame(frame)
    tab.frame(frame)
    tab.drop()
    tab.back()
    tab.frame(frame)
    assert len(world.events("t1", "RUN_STARTED")) == 1
    assert len([x for x in tab.frames if isinstance(x, f.Reply) and x.id == "start"]) == 3
    tab.frame(f.RunStart(id="start", thread_id="t1", message="another"))
    assert tab.frames[-1].error.code == "duplicate_id"


def test_p2_a_command_that_is_still_at_work_gets_its_reply_when_it_is_done(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    frame = f.ToolInvoke(id="press", thread_id="t1", name="t")
    tab.frame(frame)
    tab.drop()
    tab.back()
    tab.frame(frame)
    assert tab.answer("press") is None
    tab.result(tab.call("t"), 1)
    assert tab.answer("press")["result"] == 1
    assert tab.names == ["t"]


def test_p2_a_reply_goes_to_the_document_that_asked_and_to_no_later_one(make):
    """Ids of commands are unique in a document only."""
    world = make()
    tab = world.tab(tools=[tool("t")])
    tab.frame(f.ToolInvoke(id="1x", thread_id="t1", name="t"))
    tab.reload(threads=["t1"])
    tab.frame(f.ToolInvoke(id="1x", thread_id="t2", name="t"))
    first, second = [c for c in tab.calls if c.attempt == 2 or c.thread_id == "t2"]
    tab.result(first, "of the first document")
    assert tab.answer("1x") is None
    tab.result(second, "of the second")
    assert tab.answer("1x")["result"] == "of the second"


def test_frames_that_are_not_allowed_do_nothing(make):
    world = make()
    tab = world.tab()
    tab.frame(f.RunStart(id="x", thread_id="t1", message="hi"), allowed=False)
    assert tab.answer("x") == "forbidden"
    assert world.events() == []


def test_a_server_that_goes_down_takes_no_new_runs(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.tell(tab.id, s.Draining())
    assert tab.run(thread="t2") == "draining"
    assert tab.answer(tab.invoke("t", thread="t2")) == "draining"
    world.end(run)
    assert world.reason() == "completed"


# ---- the same document --------------------------------------------------------------------------


def out(make, *, start=False, **fields):
    """A world with one call that a page holds."""
    world = make()
    tab = world.tab("a", tools=[tool("t", **fields)])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    if start:
        assert tab.started(tab.call("t")) == "go"
    return world, tab, run


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("fields", [{}, {"idempotent": True}])
def test_p2_a_document_that_is_back_and_knows_the_call_goes_on_with_it(make, start, fields):
    """C088."""
    world, tab, _ = out(make, start=start, **fields)
    tab.drop()
    world.wait(20)
    tab.back()
    assert len(tab.calls) == 1
    assert tab.cancels == []
    assert tab.result(tab.calls[0], 1) == "applied"


def test_p2_a_dispatched_call_that_the_document_never_got_is_sent_again_same_attempt(make):
    _world, tab, _ = out(make)
    tab.journal.clear()
    tab.drop()
    tab.back()
    assert [call.attempt for call in tab.calls] == [1, 1]
    assert tab.result(tab.calls[1], 1) == "applied"


def test_p2_a_call_that_came_while_the_page_was_away_is_sent_when_it_is_back(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    tab.drop()
    world.end(run)
    assert tab.calls == []
    world.wait(20)
    tab.back()
    assert [call.attempt for call in tab.calls] == [1]


def test_p2_a_started_call_that_the_document_does_not_know_is_as_when_it_went_away(make):
    world, tab, run = out(make, start=True)
    tab.journal.clear()
    tab.drop()
    tab.back()
    assert world.outcomes() == ["outcome_unknown"]
    assert len(world.steps(run)) == 2
    assert tab.result(tab.calls[0], 1) == "late"


def test_a_journal_entry_that_is_not_held_is_called_off(make):
    world, tab, _run = out(make)
    tab.journal["stranger", 1] = "started"
    tab.journal[tab.calls[0].call_id, 7] = "received"
    tab.drop()
    tab.abort_from_python = world.abort()
    tab.back()
    assert sorted(tab.cancels) == sorted(
        [(tab.calls[0].call_id, "aborted")] * 2 + [("stranger", "unknown")]
    )


# ---- another document ---------------------------------------------------------------------------


def test_p2_a_dispatched_call_goes_to_the_sessions_new_document_as_a_new_attempt(make):
    _world, tab, _ = out(make)
    old = tab.calls[0]
    tab.reload()
    assert [call.attempt for call in tab.calls] == [1, 2]
    assert tab.result(old) == "stale"
    assert tab.started(old) == "stale"
    assert tab.result(tab.calls[1], 1) == "applied"


def test_p2_a_started_call_is_never_given_to_a_new_document(make):
    """C088."""
    world, tab, _run = out(make, start=True)
    tab.reload()
    assert len(tab.calls) == 1
    assert world.outcomes() == ["outcome_unknown"]
    assert world.messages()[-1]["metadata"]["handspan"]["outcome"] == "unknown"


@pytest.mark.parametrize("fields", [{"idempotent": True}, {"readOnly": True}])
def test_p2_a_started_call_that_may_be_repeated_is(make, fields):
    _world, tab, _ = out(make, start=True, **fields)
    tab.reload()
    assert [call.attempt for call in tab.calls] == [1, 2]


def test_a_result_that_the_gone_document_had_is_waited_for(make):
    world, tab, _ = out(make, start=True)
    call = tab.calls[0]
    tab.reload(journal=[f.JournalEntry(call_id=call.call_id, attempt=1, state="done")])
    assert world.outcomes() == []
    assert tab.result(call, "from the store") == "applied"
    assert world.results() == ["from the store"]


@pytest.mark.parametrize("state", ["received", "started"])
def test_p2_only_a_result_of_the_gone_document_is_waited_for(make, state):
    """A handler of a document that is gone does not run on, whatever its journal says."""
    _world, tab, _ = out(make)
    call = tab.calls[0]
    tab.reload(journal=[f.JournalEntry(call_id=call.call_id, attempt=1, state=state)])
    assert [one.attempt for one in tab.calls] == [1, 2]
    assert tab.result(call) == "stale"


def test_p3_a_call_that_moves_is_checked_under_the_schema_of_its_new_tool(make):
    world = make()
    tab = world.tab(tools=[tool("t"), tool("u")])
    run = tab.run()
    world.call(run, "t")
    world.call(run, "u", {"x": "1"})
    world.end(run)
    tab.tools(tool("t"), tool("u", parameters=takes("x", x="integer")))
    tab.result(tab.call("t"))
    assert world.outcomes() == ["ok", "invalid_arguments"]
    assert tab.names == ["t"]


def test_a_new_document_that_registers_other_tools_leaves_the_call_without_a_home(make):
    world, tab, _run = out(make)
    tab.reload(tools=[tool("u")])
    assert world.outcomes() == []
    world.wait(31)
    assert world.outcomes() == ["page_gone"]


def test_a_new_document_that_registers_late_gets_the_call_then(make):
    world, tab, _ = out(make)
    tab.reload(tools=[])
    world.wait(5)
    tab.tools(tool("t"))
    assert [call.attempt for call in tab.calls] == [1, 2]


# ---- grace --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "fields", "code"),
    [
        (False, {}, "page_gone"),
        (True, {}, "outcome_unknown"),
        (True, {"idempotent": True}, "outcome_unknown"),
    ],
)
def test_p12_a_page_that_stays_away_loses_its_calls(make, start, fields, code):
    world, tab, _ = out(make, start=start, **fields)
    tab.drop()
    world.wait(29.9)
    assert world.outcomes() == []
    world.wait(0.2)
    assert world.outcomes() == [code]


def test_p2_a_call_of_a_page_that_stays_away_goes_to_another_that_has_the_tool(make):
    world, tab, _ = out(make)
    other = world.tab("b", tools=[tool("t")])
    tab.drop()
    world.wait(31)
    assert [call.attempt for call in other.calls] == [2]
    tab.back()
    assert tab.cancels == [(tab.calls[0].call_id, "unknown")]
    assert tab.result(tab.calls[0], 1) == "stale"
    assert other.result(other.calls[0], 2) == "applied"
    assert tab.result(tab.calls[0], 1) == "stale"


def test_a_queued_call_whose_page_stays_away_is_no_client(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    run = tab.run()
    tab.drop()
    world.call(run, "t")
    world.end(run)
    world.wait(31)
    assert world.outcomes() == ["no_client"]


def test_a_queued_call_whose_tool_goes_is_resolved_again(make):
    world = make()
    tab, other = world.tab("a", tools=[tool("t"), tool("u")]), world.tab("b", tools=[tool("u")])
    run = tab.run()
    for name in ("t", "u", "t"):
        world.call(run, name)
    world.end(run)
    tab.tools(tool("t", title="new"))
    assert other.names == ["u"]
    tab.tools()
    tab.result(tab.calls[0])
    other.result(other.calls[0])
    assert world.outcomes() == ["ok", "ok", "unavailable"]


def test_a_page_without_a_socket_keeps_its_tools_for_the_grace(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    tab.drop()
    world.wait(20)
    assert [spec.name for spec in world.steps(world.start())[0].tools] == ["t"]
    world.abort()
    world.wait(20)
    assert world.steps(world.start("t1"))[0].tools == ()
    world.abort()


def test_p9_a_session_ends_after_its_window_and_leaves_nothing(make):
    world = make()
    tab = world.tab(tools=[tool("t")])
    name = tab.id
    tab.drop()
    world.wait(119)
    assert name in world.sessions
    world.wait(2)
    assert name not in world.sessions
    assert world.thread("t1").idle
    tab.back()
    assert tab.welcome.reason == "unknown_session"
    assert tab.id != name


def test_bye_ends_the_session_at_once_and_its_run_goes_on(make):
    world = make()
    tab, other = world.tab("a", tools=[tool("t")]), world.tab("b", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.bye()
    assert tab.closed == [1000]
    assert [call.attempt for call in other.calls] == [2]
    other.result(other.calls[0])
    world.end(run)
    assert world.reason() == "completed"


def test_a_page_that_closed_the_thread_still_answers_what_it_holds(make):
    world = make()
    asker, tab = world.tab("a"), world.tab("b", tools=[tool("t")])
    run = asker.run()
    world.call(run, "t")
    world.call(run, "t")
    world.end(run)
    tab.close("t1")
    assert tab.result(tab.calls[0], 1) == "applied"
    world.wait(31)
    assert world.outcomes() == ["ok", "no_client"]
    assert world.steps(run)[1].tools == ()
    assert len(tab.calls) == 1


def test_a_page_that_closed_the_thread_and_left_is_given_nothing_more(make):
    world = make()
    asker, tab = world.tab("a"), world.tab("b", tools=[tool("t")])
    run = asker.run()
    world.call(run, "t")
    world.end(run)
    tab.close("t1")
    tab.result(tab.calls[0], 1)
    tab.bye()
    world.call(run, "t")
    world.end(run)
    assert world.outcomes() == ["ok", "unknown_tool"]


# ---- tabs ---------------------------------------------------------------------------------------


def test_each_tab_answers_for_its_own_runs(make):
    """C081."""
    world = make()
    one, two = world.tab("a", tools=[tool("getTitle")]), world.tab("b", tools=[tool("getTitle")])
    for tab in (one, two):
        run = tab.run()
        world.call(run, "getTitle")
        world.end(run)
        tab.result(tab.calls[0], tab.name)
        world.end(run)
    assert world.results() == ["a", "b"]
    one.close("t1")
    run = two.run()
    assert [spec.name for spec in world.steps(run)[0].tools] == ["getTitle"]
    world.end(run)


def test_a_tool_is_not_offered_to_a_thread_that_the_page_has_not_open(make):
    world = make()
    world.tab("a", threads=["t2"], tools=[tool("t")])
    assert world.steps(world.start("t1"))[0].tools == ()
    world.abort()


def test_a_run_opens_its_thread(make):
    """C091: the tools that were registered before it are there."""
    world = make()
    tab = world.tab(threads=[], tools=[tool("t")])
    run = tab.run(thread="new")
    assert "new" in tab.folds
    assert [spec.name for spec in world.steps(run)[0].tools] == ["t"]
    world.end(run)


def test_p14_a_notice_for_what_is_not_there_is_nothing(make):
    world = make()
    tab = world.tab()
    for frame in (
        f.ToolProgress(call_id="zz", attempt=1),
        f.Pong(),
        f.Visibility(visible=False),
    ):
        tab.notice(frame)
    assert tab.ask(f.ToolStarted, call_id="zz", attempt=1) == "unknown_call"
    assert tab.ask(f.RunAbort, run_id="zz") == {"aborted": False}
    assert tab.ask(f.RunAbort) == "invalid_frame"
    assert tab.ask(f.StateUpdate, thread_id="zz", state=1) == "unknown_thread"
    assert tab.ask(f.ThreadClose, thread_id="zz") == {}


def test_p15_the_related_threads_are_told_in_one_order(make):
    """P15: not in the order of a set."""
    world = make()
    names = [f"t{n}" for n in range(30)]
    tab = world.tab(threads=names)
    tab.drop()
    world.wait(31)
    told = [
        x.key.thread_id
        for _, x in world.effects
        if isinstance(x, e.TellThread) and isinstance(x.message, i.DocumentGone)
    ]
    assert told == sorted(names)


def test_another_document_of_the_same_page_is_another_tab_of_it(make):
    world = make()
    tab = world.tab()
    twin = Tab(world, "twin")
    twin.document = DocumentId("twin.1")
    twin.connect(threads=["t1"])
    assert twin.id != tab.id
