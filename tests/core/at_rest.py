"""What must hold of the machines between any two inputs: everything waits for what will come."""

from collections import Counter
from typing import Any

from tests.core.builders import World

from handspan.core.call import CallState
from handspan.core.parties import ThreadKey


def look(world: World) -> None:
    """Everything that holds between any two inputs."""
    for key, thread in world.threads.items():
        _look_at_thread(world, key, thread)
    for session in world.sessions.values():
        _look_at_session(world, session)


def _look_at_thread(world: World, key: ThreadKey, thread: Any) -> None:
    run, space, desk = thread.run, thread.space, thread.desk
    assert space.readers <= space.pages.keys(), "a reader that is no page"
    assert all(call.open for call in desk.open_calls.values())
    if run is None:
        assert not thread.busy, "a run waits for nothing"
        assert not len(thread.runs.live), f"sub-runs are left: {[r.id for r in thread.runs.live]}"
        assert not desk.open_calls, f"calls are left open: {list(desk.open_calls)}"
        left = [call.id for call in desk.calls.values() if not call.over or not call.result_shown]
        assert not left, f"results of {left} are never shown"
        assert space.pages.keys() == space.readers, "a page stays that nobody needs"
        assert thread.next_deadline() is None
        return
    for one in thread.runs.live:
        _look_at_run(thread, one)
    _look_at_pages(world, key, thread)
    for call in desk.open_calls.values():
        _look_at_call(world, thread, call)


def _look_at_run(thread: Any, run: Any) -> None:
    """It speaks, or waits for a call, a sub-run or a hook; never for nothing."""
    live, step = thread.runs.live, run.step
    assert run.root is thread.run
    if run.parent is not None:
        assert live.get(run.parent.id) is run.parent, f"{run.id} is below a run that is over"
        assert run.parent.subs.get(run.id) is run
    assert all(live.get(sub.id) is sub for sub in run.subs.values()), f"{run.id} waits for nobody"
    settled = step.ended and not step.open_calls and not run.subs
    assert not settled or run.asking, "a step has settled and nobody asks how to go on"
    if run.asking == "before_run":
        assert not run.announced
        assert not step.opened
    else:
        assert step.opened
        assert run.asking is None or settled, "a question comes before its step has settled"
    for call in step.calls:
        open_here = thread.desk.open_calls.get(call.id) is call
        assert call.open is open_here, f"{call.id} is lost"
        assert live.of(call) is run, f"{call.id} is in the step of another"
        if call.hook is not None:
            wanted = CallState.SETTLED if call.hook == "after_call" else CallState.PROPOSED
            assert call.state is wanted, f"{call.id} is {call.state} and {call.hook} is at work"


def _look_at_pages(world: World, key: ThreadKey, thread: Any) -> None:
    served = {page.session for page in thread.space.serving(thread.run.starter)}
    holders = {call.holder for call in thread.desk.open_calls.values() if call.out}
    for name, page in thread.space.pages.items():
        session = world.sessions.get(name)
        if name not in served | holders:
            continue
        assert session is not None, f"{name} is over, and is still a page of the thread"
        assert key in session._related(), f"{name} will never tell this thread of its end"
        if session._gone:
            assert not page.attached
            assert not page.tools
        else:
            assert page == session.view(), f"the thread does not know {name} as it is"


def _look_at_call(world: World, thread: Any, call: Any) -> None:
    """An open call waits for something that will come."""
    session = world.sessions.get(call.holder) if call.holder is not None else None
    run = thread.runs.live.of(call)
    assert any(call is one for one in run.step.calls), f"{call.id} is of a step that is over"
    if call.out:
        assert call.deadline is not None, f"{call.id} is out for ever"
        if call.holder is not None:
            assert session is not None, f"{call.id} is with a page that is over"
            assert session.holding.calls.get(call.id) == (thread.space.key, call.attempt)
    elif call.state is CallState.WAITING_APPROVAL:
        assert call.approval is not None
    elif call.state is CallState.PROPOSED:
        assert call.hook or not run.step.ended, f"{call.id} was never proposed"
        assert call.hook or call.ticket is None, f"code waits for {call.id}, which waits for it"
    elif call.state is CallState.QUEUED and call.homeless_until is None:
        _look_at_queued(world, thread, call, session)


def _look_at_queued(world: World, thread: Any, call: Any, session: Any) -> None:
    others = [other for other in thread.desk.open_calls.values() if other is not call]
    if call.holder is None:
        at_work = [o for o in others if o.out and o.holder is None and not o.by_tool]
        assert not call.by_tool, f"{call.id} waits, and a tool waits for it"
        assert len(at_work) >= world.policy.server_tools_at_once, f"{call.id} is stuck"
        return
    assert session is not None, f"{call.id} waits for a page that is over"
    if session.connection is None:
        assert not session._gone, f"{call.id} waits for a page that is gone"
        return
    before = [other for other in others if other.holder == call.holder and not other.overlaps]
    assert before, f"{call.id} is stuck: its page is there and idle"
    assert not call.overlaps, f"{call.id} waits without need"


def _look_at_session(world: World, session: Any) -> None:
    for call_id, (key, attempt) in session.holding.calls.items():
        thread = world.threads.get(key)
        call = thread.desk.open_calls.get(call_id) if thread is not None else None
        assert call is not None, f"{session.id} holds {call_id}, which is not open"
        assert (call.holder, call.attempt) == (session.id, attempt)
        assert call.out
    mine = [t for t in world.threads.values() if t.run is not None]
    running = Counter(t.space.key for t in mine if t.run.starter == session.id)
    assert session.running == running, "the session counts its runs wrong"
    waiting = [r for t in world.threads.values() for r in t.runs.queue]
    assert session.queued.total() == sum(r.asker.session == session.id for r in waiting)
