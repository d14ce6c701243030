"""What must hold of a stream of events and of the orders of a machine, whatever happened.

`Stream` reads a thread's events one by one (P6); `Orders` reads every input and effect of every
machine (P1, P2, P5, P7); `look` looks at the machines when they are at rest. Each knows only the
promise, and says which one is broken.
"""

from collections import Counter
from typing import Any

from tests.core.builders import World

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.call import CallState
from handspan.core.parties import ThreadKey
from handspan.core.transcript import broken_rules

Json = Any


class Stream:
    """P6: per id start, deltas, end; one terminal event a run, nothing of the run after it.

    A run and each of its sub-runs has a lane of its own.
    """

    def __init__(self) -> None:
        self.run: str | None = None
        self.ended: set[str] = set()
        self.lanes: dict[str | None, Lane] = {}
        """Those that are open, by their `subagentRunId`; None: the run's own."""
        self.parents: dict[str, str | None] = {}
        self.suggested: str | None = None
        self.used: set[tuple[str, str]] = set()
        self.settled: set[str] = set()

    def take(self, event: dict[str, Json]) -> None:
        kind, owner = event["type"], event.get("subagentRunId")
        if kind in _OF_RUNS:
            getattr(self, f"_{kind.lower()}")(event)
        elif kind == "CUSTOM" and event["name"] == "handspan.suggestions":
            assert self.run is None, "P6: suggestions inside of a run"
            assert event["value"]["runId"] == self.suggested, "P6: suggestions of another run"
            self.suggested = None
        elif self.run is None:
            assert kind in _BETWEEN, f"P6: {kind} outside of a run"
        else:
            assert owner in self.lanes, f"P6: {kind} of {owner}, which is not under way"
            self.lanes[owner].take(event)

    def _run_started(self, event: dict[str, Json]) -> None:
        assert self.run is None, "P6: a run inside a run"
        assert event["runId"] not in self.ended, "P6: a run begins twice"
        self.run, self.suggested = event["runId"], None
        self.lanes[None] = Lane(self, 0)

    def _run_finished(self, event: dict[str, Json]) -> None:
        assert event["runId"] == self.run, "P6: the end of another run"
        lane = self.lanes[None]
        assert event["result"]["depth"] == max(lane.next_step - 1, 0)
        if event["result"]["reason"] == "completed":
            self.suggested = event["runId"]
        self._over()

    def _run_error(self, event: dict[str, Json]) -> None:
        assert event["code"]
        assert event["message"]
        self._over()

    def _over(self) -> None:
        assert self.run is not None, "P6: a second terminal event"
        self.lanes.pop(None).over()
        assert not self.lanes, f"P6: a run ends with {list(self.lanes)} under way"
        self.ended.add(self.run)
        self.run = None

    def _subagent_started(self, event: dict[str, Json]) -> None:
        name, parent = event["subagentRunId"], event.get("parentSubagentRunId")
        assert name not in self.ended, "P6: a sub-run begins twice"
        assert name not in self.lanes, "P6: a sub-run begins twice"
        assert parent in self.lanes, "P6: a sub-run of nobody"
        step = self.lanes[parent].step
        assert step is not None, "P6: a sub-run outside of a step"
        self.parents[name] = parent
        self.lanes[name] = Lane(self, step + 1)

    def _subagent_finished(self, event: dict[str, Json]) -> None:
        name = event["subagentRunId"]
        assert name not in self.parents.values() or not any(
            self.parents[other] == name for other in self.lanes if other is not None
        ), "P6: a sub-run ends before its own sub-runs"
        self.lanes.pop(name).over()
        self.ended.add(name)

    _subagent_error = _subagent_finished

    def _messages_snapshot(self, event: dict[str, Json]) -> None:
        assert self.lanes[None].step is None
        assert broken_rules(event["messages"]) == []


class Lane:
    """What one run, or one sub-run, has open."""

    def __init__(self, stream: Stream, first_step: int) -> None:
        self.step: int | None = None
        self.next_step = first_step
        self.open: set[tuple[str, str]] = set()
        """What is open: (kind, id)."""
        self.used = stream.used
        self.empty: set[tuple[str, str]] = set()
        """Texts without a word, which are no messages: a later step may take their ids."""
        self.unanswered: list[str] = []
        """The step's calls in order, as far as they have no result."""
        self.settled = stream.settled
        self.states: dict[str, str] = {}

    def take(self, event: dict[str, Json]) -> None:
        handler = getattr(self, f"_{event['type'].lower()}", None)
        assert handler is not None, f"P6: {event['type']} is not an event of ours"
        handler(event)

    def over(self) -> None:
        assert self.step is None, "P6: a run ends inside a step"
        assert not self.open, f"P6: a run ends with {self.open} open"

    def _step_started(self, event: dict[str, Json]) -> None:
        assert self.step is None, "P6: a step inside a step"
        assert event["stepName"] == f"step-{self.next_step}", "P6: steps are counted"
        self.step, self.next_step = self.next_step, self.next_step + 1
        self.used -= self.empty
        self.empty.clear()

    def _step_finished(self, event: dict[str, Json]) -> None:
        assert event["stepName"] == f"step-{self.step}", "P6: the end of another step"
        assert not self.open, f"P6: a step ends with {self.open} open"
        assert not self.unanswered, f"P1: a step ends, {self.unanswered} have no result"
        self.step = None

    def _begin(self, kind: str, name: str) -> None:
        assert (kind, name) not in self.open, f"P6: {kind} {name} begins while it is open"
        assert (kind, name) not in self.used, f"P6: {kind} {name} begins again"
        self.used.add((kind, name))
        self.open.add((kind, name))
        self.empty.add((kind, name))

    def _goes_on(self, kind: str, name: str) -> None:
        assert (kind, name) in self.open, f"P6: {kind} {name} goes on, but is not open"
        self.empty.discard((kind, name))

    def _finish(self, kind: str, name: str) -> None:
        assert (kind, name) in self.open, f"P6: {kind} {name} ends, but is not open"
        self.open.remove((kind, name))

    def _in_a_step(self, kind: str) -> None:
        assert self.step is not None, f"P6: {kind} outside of a step"

    def _text_message_start(self, event: dict[str, Json]) -> None:
        if event["role"] == "assistant":
            self._in_a_step("a text")
        self._begin("text", event["messageId"])

    def _text_message_content(self, event: dict[str, Json]) -> None:
        assert event["delta"] != "", "P6: an empty delta"
        self._goes_on("text", event["messageId"])

    def _text_message_end(self, event: dict[str, Json]) -> None:
        self._finish("text", event["messageId"])

    def _reasoning_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("thoughts")
        self.used.discard(("span", event["messageId"]))
        self._begin("span", event["messageId"])

    def _reasoning_end(self, event: dict[str, Json]) -> None:
        self._finish("span", event["messageId"])

    def _reasoning_message_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("a thought")
        self._begin("text", event["messageId"])

    _reasoning_message_content = _text_message_content
    _reasoning_message_end = _text_message_end

    def _tool_call_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("a call")
        self._begin("call", event["toolCallId"])
        self.empty.discard(("call", event["toolCallId"]))
        texts = [name for kind, name in self.open if kind == "text"]
        assert not texts, f"P6: a call begins while {texts} are open"
        self.unanswered.append(event["toolCallId"])

    def _tool_call_args(self, event: dict[str, Json]) -> None:
        self._goes_on("call", event["toolCallId"])

    def _tool_call_end(self, event: dict[str, Json]) -> None:
        self._finish("call", event["toolCallId"])

    def _tool_call_result(self, event: dict[str, Json]) -> None:
        call_id = event["toolCallId"]
        assert ("call", call_id) not in self.open, f"P6: the result of {call_id} before its end"
        assert self.unanswered, f"P1: a second result of {call_id}"
        assert self.unanswered[0] == call_id, f"P1: the result of {call_id} before its turn"
        assert call_id in self.settled, f"P6: {call_id} has a result and was not told as settled"
        self.unanswered.pop(0)
        assert ("text", event["messageId"]) not in self.used, "P6: a result under another's id"
        self.used.add(("text", event["messageId"]))

    def _custom(self, event: dict[str, Json]) -> None:
        if event["name"] != "handspan.call":
            return
        call_id, state = event["value"]["callId"], event["value"]["state"]
        assert ("call", call_id) in self.used, f"P6: {call_id} is told of before it began"
        assert call_id not in self.settled, f"P2: {call_id} is {state} after it settled"
        before = self.states.get(call_id)
        if state in ("started", "progress"):
            assert before in ("dispatched", "started", "progress"), f"{call_id}: {before}, {state}"
        self.states[call_id] = state
        if state == "settled":
            self.settled.add(call_id)

    def _anything(self, event: dict[str, Json]) -> None:
        """Means nothing to the order of others."""

    _state_snapshot = _state_delta = _raw = _anything
    _activity_snapshot = _activity_delta = _reasoning_encrypted_value = _anything


_BETWEEN = {"CUSTOM", "STATE_SNAPSHOT", "STATE_DELTA"}
_OF_RUNS = {
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "SUBAGENT_STARTED",
    "SUBAGENT_FINISHED",
    "SUBAGENT_ERROR",
    "MESSAGES_SNAPSHOT",
}


Name = tuple[Any, str]
"""A call: its thread and its id, which is free again elsewhere once the call has settled."""


class Orders:
    """Reads every input and effect: what was ordered once may not be ordered again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.steps: set[tuple[str, int]] = set()
        self.over: set[str] = set()
        self.runs_over: Counter[str] = Counter()
        self.offers: dict[tuple[Name, int], str] = {}
        self.attempts: dict[Name, int] = {}
        self.leaves: Counter[tuple[Name, int]] = Counter()
        self.tools: Counter[Name] = Counter()
        self.settled: set[Name] = set()
        self.repeatable: dict[Name, bool] = {}
        self.heads: dict[ThreadKey, int] = {}
        world.watchers.append(self.watch)

    def watch(self, target: Any, message: Any, effects: list[Any]) -> None:
        head = self.heads.get(target, 0) if isinstance(target, ThreadKey) else 0
        for effect in effects:
            self._effect(target, effect)
        if isinstance(target, ThreadKey):
            thread = self.world.threads[target]
            if isinstance(message, i.LeaveAsked | i.ResultGiven | i.ApprovalGiven):
                self._refused_changes_nothing(target, message, effects, thread.head - head)
            self.heads[target] = thread.head
            if thread.run is None:
                assert broken_rules(thread.space.transcript.view()) == [], "P1: after a run"

    def _refused_changes_nothing(
        self, target: Any, message: Any, effects: list[Any], grown: int
    ) -> None:
        replies = [x for x in effects if isinstance(x, e.Reply) and x.asker == message.asker]
        assert len(replies) == 1, "P7: every answer is answered once"
        status = None if replies[0].error else replies[0].result["status"]
        if status in ("go", "applied"):
            if status == "go":
                self._leave(target, message)
            return
        assert len(effects) == 1, f"P7: {status} changed something: {effects}"
        assert grown == 0, f"P7: {status} said something"

    def _leave(self, target: Any, message: i.LeaveAsked) -> None:
        name = (target, message.call_id)
        key = (name, message.attempt)
        self.leaves[key] += 1
        assert self.leaves[key] == 1, f"P2: leave for {key} twice"
        assert self.offers.get(key) == message.asker.session, f"P7: leave for {key} to another page"
        assert name not in self.settled, f"P2: leave for {key}, which is settled"

    def _effect(self, target: Any, effect: Any) -> None:
        match effect:
            case e.StartStep():
                self._step(effect)
            case e.StartTool():
                self.tools[target, effect.call_id] += 1
                assert self.tools[target, effect.call_id] == 1, f"P2: {effect.call_id} runs twice"
                self._may_run(effect.run_id)
            case e.TellSession(session, s.CallOffered(_, frame, _)):
                self._offer(target, session, frame)
            case e.ThreadOver():
                self._forget(target)
            case e.GiveResult():
                self.over.add(effect.value.run_id)
            case e.RunOver():
                self.over.add(effect.value.run_id)
                self.runs_over[effect.value.run_id] += 1
                assert self.runs_over[effect.value.run_id] == 1, "P5: a run is over twice"
            case e.Record((fact,)) if fact.kind == "call_settled":
                name = (target, fact.data["callId"])
                assert name not in self.settled, f"P2: {name} settles twice"
                self.settled.add(name)

    def _forget(self, key: Any) -> None:
        """A thread that was deleted may come again, and its calls' ids with it."""
        self.settled = {name for name in self.settled if name[0] != key}
        self.attempts = {k: v for k, v in self.attempts.items() if k[0] != key}
        self.tools = Counter({k: v for k, v in self.tools.items() if k[0] != key})
        self.offers = {k: v for k, v in self.offers.items() if k[0][0] != key}
        self.leaves = Counter({k: v for k, v in self.leaves.items() if k[0][0] != key})
        self.heads.pop(key, None)

    def _may_run(self, run_id: str) -> None:
        assert run_id not in self.over, f"P5: {run_id} is over and still orders something"

    def _step(self, effect: e.StartStep) -> None:
        self._may_run(effect.run_id)
        key = (effect.run_id, effect.depth)
        assert key not in self.steps, f"P2: step {key} starts twice"
        self.steps.add(key)
        assert broken_rules(effect.messages) == [], "P1: a model would be shown this"
        assert all(spec.name != "*" for spec in effect.tools), "P13: * is shown to a model"

    def _offer(self, key: ThreadKey, session: str, frame: Any) -> None:
        self._may_run(frame.run_id)
        call = self.world.threads[key].desk.calls[frame.call_id]
        name = (key, frame.call_id)
        offer = (name, frame.attempt)
        assert self.offers.setdefault(offer, session) == session, f"P2: {offer} goes to two pages"
        before = self.attempts.get(name, 0)
        assert frame.attempt in (before, before + 1), f"P2: attempt {before}, then {frame.attempt}"
        if before and frame.attempt > before:
            unsafe = self.leaves[name, before] and not self.repeatable[name]
            assert not unsafe, f"P2: {name} had started and is offered again"
        if frame.attempt == before:
            assert not self.leaves[offer], f"P2: {offer} had leave and is offered again"
        self.attempts[name] = frame.attempt
        self.repeatable[name] = call.repeatable
        assert name not in self.settled, f"P2: {name} is settled and offered"
        assert call.spec is not None
        wild = call.spec.name == "*" != call.name
        given = {"toolName": call.name, "args": call.args} if wild else call.args
        assert frame.args == given
        assert call.spec.arguments.problems(given) == (), "P3: arguments do not fit the schema"


# ---- at rest ----------------------------------------------------------------------------------


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
        assert not thread.runs.queue, "a run waits for nothing"
        assert not desk.open_calls, f"calls are left open: {list(desk.open_calls)}"
        assert space.pages.keys() == space.readers, "a page stays that nobody needs"
        assert thread.next_deadline() is None
        return
    assert all(call.run_id == run.id for call in desk.open_calls.values())
    for one in thread.runs.live:
        settled = one.step.ended and not one.step.open_calls and not one.subs
        assert not settled or one.asking, "a step has settled and nobody asks how to go on"
    _look_at_pages(world, key, thread)
    for call in desk.open_calls.values():
        _look_at_call(world, thread, call)


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
    if call.out:
        assert call.deadline is not None, f"{call.id} is out for ever"
        if call.holder is not None:
            assert session is not None, f"{call.id} is with a page that is over"
            assert session.held.get(call.id) == (thread.space.key, call.attempt)
    elif call.state is CallState.WAITING_APPROVAL:
        assert call.approval is not None
    elif call.state is CallState.PROPOSED:
        step = thread.runs.live.of(call).step
        assert call.hook or not step.ended, f"{call.id} was never proposed"
    elif call.state is CallState.QUEUED and call.homeless_until is None:
        _look_at_queued(world, thread, call, session)


def _look_at_queued(world: World, thread: Any, call: Any, session: Any) -> None:
    others = [other for other in thread.desk.open_calls.values() if other is not call]
    if call.holder is None:
        at_work = [other for other in others if other.out and other.holder is None]
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
    for call_id, (key, attempt) in session.held.items():
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
