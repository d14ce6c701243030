"""Two threads and three pages under random inputs: what must hold after each, and at the end.

A failing example prints the steps that lead to it. HANDSPAN_LONG=1 tries 2,000 of them.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.builders import DrawnIds, World, picture, plain, spec, takes, tool
from tests.core.page_fold import comparable
from tests.core.verifier import Orders, Stream, look

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan_protocol import frames as f

LONG = os.environ.get("HANDSPAN_LONG", "") not in ("", "0")
THREADS = ("t1", "t2")
SERVER = ("srv", "srv_ask")
PAGE_TOOLS = {
    "plain": {},
    "again": {"idempotent": True},
    "look": {"readOnly": True},
    "ask": {"approval": "always"},
    "ask_look": {"approval": "always", "readOnly": True},
    "side": {"parallel": True},
    "last": {"followUp": False},
    "picky": {"parameters": takes("x", x="integer"), "timeoutMs": 5_000},
    "scoped": {"agent": "other"},
    "*": {},
}
NAMES = (*PAGE_TOOLS, *SERVER, "nobody_has_it")
ARGS = ("{}", "", "null", '{"x":1}', '{ "x": 1.0 }', '{"x":"1"}', "{", "[1]", '{"x":1}{"x":2}')
ENDS = (None, None, None, "stop", "tool_calls", "length")
WAITS = (0.05, 0.05, 1.0, 1.0, 5.0, 29.0, 31.0, 61.0, 125.0, 601.0)

at = st.integers(0, 50)
tabs = st.integers(0, 2)
threads = st.sampled_from(THREADS)
busy = st.sampled_from(("reject", "queue", "replace"))
toolsets = st.lists(
    st.tuples(st.sampled_from(sorted(PAGE_TOOLS)), st.sampled_from(("v1", "v1", "v2"))),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one[0],
)
ids = st.sampled_from(("x", "y", "c-1", "m-1", "r-1", ""))
events = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("TEXT_MESSAGE_START", "TEXT_MESSAGE_END")), "messageId": ids}
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK")
            ),
            "messageId": ids,
            "delta": st.sampled_from(("", "a", "é")),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                (
                    "REASONING_START",
                    "REASONING_END",
                    "REASONING_MESSAGE_START",
                    "REASONING_MESSAGE_END",
                )
            ),
            "messageId": ids,
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("TOOL_CALL_START", "TOOL_CALL_CHUNK")),
            "toolCallId": ids,
            "toolCallName": st.sampled_from(NAMES),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(("TOOL_CALL_ARGS", "TOOL_CALL_CHUNK")),
            "toolCallId": ids,
            "delta": st.sampled_from(("{", "}", '"x":1', "")),
        }
    ),
    st.fixed_dictionaries({"type": st.just("TOOL_CALL_END"), "toolCallId": ids}),
    st.fixed_dictionaries(
        {"type": st.just("TOOL_CALL_RESULT"), "toolCallId": ids, "content": st.just("theirs")}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("ACTIVITY_SNAPSHOT"),
            "messageId": ids,
            "activityType": st.just("plan"),
            "content": st.just({"n": 1}),
        }
    ),
    st.just({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/n", "value": 1}]}),
    st.just({"type": "RUN_FINISHED", "threadId": "t1", "runId": "theirs"}),
    st.just({"type": "STEP_STARTED", "stepName": "theirs"}),
    st.just({"type": "CUSTOM", "name": "theirs", "value": None}),
)


ACTIONS: dict[str, tuple[int, str | None, dict[str, Any]]] = {}
"""What may happen: the method; how often, where it means something, its arguments."""


def does(weight: int, needs: str | None, **arguments: Any) -> Any:
    """Registers an action; `needs` names what must be there (see `Machines.there_is`)."""

    def register(method: Any) -> Any:
        ACTIONS[method.__name__] = (weight, needs, arguments)
        return method

    return register


def made(chosen: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [tool(name, **PAGE_TOOLS[name], title=version) for name, version in chosen]


class Machines(RuleBasedStateMachine):
    """The bridge's two machines, as many as two conversations and three pages need."""

    @initialize(
        execution=st.sampled_from(("ordered", "parallel")),
        disconnect=st.sampled_from(("grace", "grace", "abort")),
        reflect=st.sampled_from(("never", "at_limit")),
        on_error=st.sampled_from(("resume", "stop")),
        stops=st.booleans(),
        sets=st.tuples(toolsets, toolsets, toolsets),
    )
    def begin(self, execution, disconnect, reflect, on_error, stops, sets):
        self.policy = Policy(
            tool_execution=execution,
            on_disconnect=disconnect,
            reflect=reflect,
            on_error=on_error,
            stop_when=[lambda steps: False] if stops else [],
            max_depth=3,
            calls_per_step=5,
            open_calls_per_run=4,
            open_calls_per_session=2,
            server_tools_at_once=1,
            queued_runs=2,
            runs_per_session=2,
            log_events=400,
            context_bytes=1_000,
        )
        self.world = World(
            self.policy,
            agents=("default", "other"),
            server=(spec("srv", invoke=True), spec("srv_ask", invoke=True, approval="always")),
        )
        Orders(self.world)
        self.streams = {}
        self.seen = {}
        self.tabs = []
        for number, chosen in enumerate(sets):
            threads = (("t1",), ("t1", "t2"), ("t2",))[number]
            self.tabs.append(self.world.tab("abc"[number], threads=threads, tools=made(chosen)))

    @rule(data=st.data())
    def something_happens(self, data):
        """One rule, so that each step does something and every action has its share."""
        there = self.there_is()
        possible = [
            name
            for name, (weight, needs, _) in ACTIONS.items()
            for _ in range(weight)
            if needs is None or there[needs]
        ]
        name = data.draw(st.sampled_from(possible), label="what happens")
        _, needs, arguments = ACTIONS[name]
        narrowed = {}
        if needs in ("speaking", "running"):
            narrowed["thread"] = st.sampled_from(there[needs])
        elif needs in ("page", "out", "offered", "asked"):
            narrowed["tab"] = st.sampled_from(there["out" if needs == "out" else "page"])
        drawn = data.draw(st.fixed_dictionaries(arguments | narrowed), label=name)
        getattr(self, name)(**drawn)

    def there_is(self):
        pages = [n for n, tab in enumerate(self.tabs) if tab.connection is not None]
        questions = [question for tab in self.tabs for question in tab.questions]
        running = [name for name in THREADS if self.running(name) is not None]
        return {
            "page": pages,
            "out": [n for n in pages if self.own(n, 0) is not None],
            "offered": pages and [call for tab in self.tabs for call in tab.calls],
            "asked": pages and questions,
            "running": running,
            "speaking": [name for name in running if self.speaking(name) is not None],
            "begun": [x for _, x in self.world.effects if isinstance(x, e.StartStep)],
            "tool": [x for _, x in self.world.effects if isinstance(x, e.StartTool)],
        }

    # ---- runs ----------------------------------------------------------------------------------

    @does(4, "page", tab=tabs, thread=threads, if_busy=busy)
    def start(self, tab, thread, if_busy):
        if self.there(tab):
            self.tabs[tab].run("hi", thread, if_busy=if_busy)

    @does(2, None, thread=threads, if_busy=busy, agent=st.sampled_from((None, "other")))
    def start_from_python(self, thread, if_busy, agent):
        self.world.start(thread, if_busy=if_busy, agent=agent)

    @does(
        3,
        "page",
        tab=tabs,
        thread=threads,
        name=st.sampled_from(NAMES),
        args=st.sampled_from((None, {}, {"x": 1}, [1])),
        follow_up=st.sampled_from((None, True, "and then?")),
        if_busy=st.sampled_from(("reject", "queue")),
    )
    def invoke(self, tab, thread, name, args, follow_up, if_busy):
        if self.there(tab):
            self.tabs[tab].invoke(name, args, thread, follow_up=follow_up, if_busy=if_busy)

    @does(2, "page", tab=tabs, thread=threads, which=at)
    def abort(self, tab, thread, which):
        known = self.world.threads.get(self.world.key(thread))
        if known is None or not self.there(tab):
            return
        waiting = [request.run_id for request in known.runs.queue]
        names = [None, *([known.run.id] if known.run else []), *waiting]
        run = names[which % len(names)]
        if run is None:
            self.tabs[tab].abort(thread=thread)
        else:
            assert self.tabs[tab].abort(run=run) == {"aborted": True}
            assert known.run is None or known.run.id != run

    # ---- agents --------------------------------------------------------------------------------

    def running(self, thread):
        known = self.world.threads.get(self.world.key(thread))
        return known.run if known is not None else None

    def speaking(self, thread):
        run = self.running(thread)
        return run.id if run is not None and not run.step.ended else None

    @does(
        3,
        "speaking",
        thread=threads,
        text=st.sampled_from(("", "Hello", " world")),
        thought=st.booleans(),
    )
    def say(self, thread, text, thought):
        run = self.speaking(thread)
        if run is not None:
            (self.world.think if thought else self.world.text)(run, text)

    @does(
        5,
        "speaking",
        thread=threads,
        name=st.sampled_from(NAMES),
        args=st.sampled_from(ARGS),
        wish=st.sampled_from((None, None, "", "x", "c-1", "not an id")),
        waits=st.booleans(),
    )
    def call(self, thread, name, args, wish, waits):
        run = self.speaking(thread)
        if run is not None:
            self.world.call(run, name, args, wish=wish, ticket="waits" if waits else None)

    @does(
        10,
        "page",
        tab=tabs,
        thread=threads,
        picks=st.lists(at, min_size=1, max_size=4),
        ends=st.booleans(),
    )
    def a_whole_turn(self, tab, thread, picks, ends):
        """What mostly happens: somebody asks, the model calls tools, its turn ends."""
        if self.speaking(thread) is None and self.there(tab):
            self.tabs[tab].run("hi", thread)
        there = {name for page in self.tabs for name in page.tool_names}
        names = [*sorted(there - {"*"}), "srv", "nobody_has_it"]
        for pick in picks:
            run = self.speaking(thread)
            if run is not None:
                self.world.call(run, names[pick % len(names)], '{"x":1}')
        run = self.speaking(thread)
        if run is not None and ends:
            self.world.end(run)

    @does(5, "out", tab=tabs, thread=threads)
    def everything_is_answered(self, tab, thread):
        """So that a run comes to its next depth."""
        page = self.tabs[tab]
        for _ in range(8):
            run = self.world.threads.get(self.world.key(thread))
            calls = [c for c in page.calls if (c.call_id, c.attempt) in page.journal]
            if not calls or not self.there(tab) or run is None:
                break
            page.result(calls[0], "done")

    @does(
        8,
        "out",
        tab=tabs,
        which=at,
        begins=st.booleans(),
        trouble=st.sampled_from(("lost", "kept", "anew", "away", "bye", "closed", "changed")),
    )
    def page_at_work_gets_into_trouble(self, tab, which, begins, trouble):
        """A call is out, perhaps started, and then something happens to its page."""
        page, call = self.tabs[tab], self.own(tab, which)
        if call is None or not self.there(tab):
            return
        if begins:
            page.started(call)
        match trouble:
            case "lost":
                page.journal.pop((call.call_id, call.attempt), None)
                page.back()
            case "kept":
                page.drop()
                page.back()
            case "anew":
                told = f.JournalEntry(call_id=call.call_id, attempt=call.attempt, state="started")
                page.reload(journal=[told][which % 2 :])
            case "away":
                page.drop()
                self.world.wait(31.0)
            case "bye":
                self.page_says_bye_and_another_comes(tab, [("plain", "v1"), ("look", "v1")])
            case "closed":
                page.close(call.thread_id)
            case "changed":
                page.tools(*made([("picky", "v2"), ("*", "v2")]))

    @does(4, "speaking", thread=threads, said=st.lists(events, min_size=1, max_size=4))
    def say_events(self, thread, said):
        for event in said:
            run = self.speaking(thread)
            if run is not None:
                self.world.event(run, event["type"], **{k: event[k] for k in event if k != "type"})

    @does(6, "speaking", thread=threads, reason=st.sampled_from(ENDS))
    def end_step(self, thread, reason):
        run = self.speaking(thread)
        if run is not None:
            self.world.end(run, reason)

    @does(2, "speaking", thread=threads, what=st.sampled_from(("fail", "other", "nobody")))
    def fail_or_hand_over(self, thread, what):
        run = self.speaking(thread)
        if run is not None and what == "fail":
            self.world.fail(run)
        elif run is not None:
            self.world.hand_over(run, what)

    @does(1, "begun", thread=threads, which=at)
    def speak_too_late(self, thread, which):
        """What a step says after its end counts for nothing."""
        key = self.world.key(thread)
        known = self.world.threads.get(key)
        steps = [x for owner, x in self.world.effects if isinstance(x, e.StartStep)]
        if known is None or not steps:
            return
        step = steps[which % len(steps)]
        run = known.run
        now = None if run is None or run.step.ended else (run.id, run.depth)
        if now == (step.run_id, step.depth):
            return
        head = known.head
        for late in (
            i.TextSaid(step.run_id, step.depth, ("late",)),
            i.CallSaid(run_id=step.run_id, depth=step.depth, name="plain", raw=""),
            i.StepEnded(step.run_id, step.depth, None),
            i.StepFailed(step.run_id, step.depth, "agent_error", "late"),
        ):
            assert self.world.tell(key, late) == []
        assert known.head == head

    @does(4, "tool", thread=threads, which=at)
    def server_tool_returns(self, thread, which):
        begun = [x for owner, x in self.world.effects if isinstance(x, e.StartTool)]
        open_ones = {call for t in self.world.threads.values() for call in t.desk.open_calls}
        begun = [x for x in begun if which > 40 or x.call_id in open_ones]
        if begun:
            self.world.returned(begun[which % len(begun)].call_id, {"n": which}, thread)

    @does(3, "running", thread=threads, stop=st.booleans())
    def stop_conditions_are_judged(self, thread, stop):
        known = self.world.threads.get(self.world.key(thread))
        if known is not None and known.run is not None:
            run = known.run
            self.world.tell(self.world.key(thread), i.StopsJudged(run.id, run.depth, stop))

    # ---- pages ---------------------------------------------------------------------------------

    def there(self, tab):
        return self.tabs[tab].connection is not None

    def offered(self, which):
        """Any call that any page was ever given."""
        calls = [call for tab in self.tabs for call in tab.calls]
        return calls[which % len(calls)] if calls else None

    def own(self, tab, which):
        """A call that this page knows as unsettled."""
        calls = [
            c for c in self.tabs[tab].calls if (c.call_id, c.attempt) in self.tabs[tab].journal
        ]
        return calls[which % len(calls)] if calls else None

    @does(10, "out", tab=tabs, which=at, answers=st.booleans())
    def page_works(self, tab, which, answers):
        call = self.own(tab, which)
        if call is None or not self.there(tab):
            return
        if answers:
            self.tabs[tab].result(call, {"n": which % 2})
        else:
            self.tabs[tab].started(call)

    @does(
        4,
        "offered",
        tab=tabs,
        which=at,
        attempt=st.integers(1, 3),
        kind=at,
        value=st.integers(0, 1),
    )
    def anybody_answers_anything(self, tab, which, attempt, kind, value):
        call = self.offered(which)
        if call is None or not self.there(tab):
            return
        match kind % 3:
            case 0:
                self.tabs[tab].started(call, attempt)
            case 1:
                self.tabs[tab].result(call, {"n": value}, attempt=attempt)
            case 2:
                self.tabs[tab].error(call, attempt=attempt)

    @does(2, "offered", tab=tabs, which=at)
    def page_tells_progress(self, tab, which):
        call = self.offered(which)
        if call is not None and self.there(tab):
            self.tabs[tab].progress(call, which)

    @does(
        8,
        "asked",
        tab=tabs,
        which=at,
        approved=st.booleans(),
        right=st.sampled_from((True, True, True, False)),
        args=st.sampled_from((None, None, {"x": 2}, {"x": "2"})),
        remember=st.booleans(),
    )
    def human_answers(self, tab, which, approved, right, args, remember):
        questions = [question for one in self.tabs for question in one.questions]
        if questions and self.there(tab):
            open_ones = [one for one in questions if self.is_open(one)] or questions
            question = (questions if which > 40 else open_ones)[which % len(open_ones)]
            digest = question.digest if right else "another"
            more = {"args": args, "remember": remember, "digest": digest}
            self.tabs[tab].approve(question, approved, **more)

    def is_open(self, question):
        known = self.world.threads.get(self.world.key(question.thread_id))
        call = known.desk.open_calls.get(question.call_id) if known is not None else None
        return call is not None and call.approval is not None

    @does(2, "page", tab=tabs)
    def socket_is_lost(self, tab):
        if self.there(tab):
            self.tabs[tab].drop()

    @does(4, None, tab=tabs, honest=st.booleans(), which=at)
    def page_comes_back(self, tab, honest, which):
        page = self.tabs[tab]
        if not honest and page.journal:
            lost = sorted(page.journal)[which % len(page.journal)]
            del page.journal[lost]
        page.back()

    @does(2, None, tab=tabs, done=st.booleans(), tools=st.none() | toolsets)
    def page_is_loaded_anew(self, tab, done, tools):
        page = self.tabs[tab]
        kept = [
            f.JournalEntry(call_id=call_id, attempt=attempt, state="done")
            for call_id, attempt in page.journal
            if done
        ]
        page.reload(journal=kept, tools=None if tools is None else made(tools))

    @does(3, "page", tab=tabs, chosen=toolsets)
    def tools_change(self, tab, chosen):
        if self.there(tab):
            self.tabs[tab].tools(*made(chosen))

    @does(3, "page", tab=tabs, thread=threads, closes=st.booleans())
    def page_opens_or_closes_a_thread(self, tab, thread, closes):
        if self.there(tab):
            (self.tabs[tab].close if closes else self.tabs[tab].open)(thread)

    @does(1, "page", tab=tabs, chosen=toolsets)
    def page_says_bye_and_another_comes(self, tab, chosen):
        if self.there(tab):
            page = self.tabs[tab]
            page.bye()
            self.world.tabs.remove(page)
            self.tabs[tab] = self.world.tab(page.name + "x", threads=("t1",), tools=made(chosen))

    @does(1, "page", tab=tabs, visible=st.booleans())
    def page_is_hidden_or_seen(self, tab, visible):
        if self.there(tab):
            self.tabs[tab].notice(f.Visibility(visible=visible))

    @does(1, "page", tab=tabs, thread=threads, good=st.booleans())
    def page_changes_the_state(self, tab, thread, good):
        path = "/s" if good else "/not/there"
        if self.there(tab):
            patch = ({"op": "add", "path": path, "value": 1},)
            self.tabs[tab].ask(f.StateUpdate, thread_id=thread, patch=patch)

    @does(1, "page", tab=tabs, thread=threads, sure=at)
    def thread_is_deleted(self, tab, thread, sure):
        if self.there(tab) and sure == 0:
            self.tabs[tab].ask(f.ThreadDelete, thread_id=thread)
            key = self.world.key(thread)
            assert not self.world.threads.get(key) or self.world.threads[key].run is None

    @does(1, "page", tab=tabs, value=st.integers(0, 9), large=st.booleans())
    def context_changes(self, tab, value, large):
        item = f.ContextItem(name="c", value="x" * 2_000 if large else value)
        if self.there(tab):
            self.tabs[tab].ask(f.ContextUpdate, set=(item,))

    @does(4, None, seconds=st.sampled_from(WAITS))
    def time_passes(self, seconds):
        self.world.wait(seconds)

    # ---- what holds ----------------------------------------------------------------------------

    @invariant()
    def every_promise_holds(self):
        if hasattr(self, "world"):
            self.streams_are_in_order()
            look(self.world)
            self.pages_know_what_the_thread_knows()

    def streams_are_in_order(self):
        """P6, by each event."""
        for epoch, log in self.world.logs.items():
            stream = self.streams.setdefault(epoch, Stream())
            for event in log[self.seen.get(epoch, 0) :]:
                stream.take(event)
            self.seen[epoch] = len(log)

    def pages_know_what_the_thread_knows(self):
        """P9: a snapshot and the later events are all events, wherever the page came in."""
        shown = {key: comparable(picture(t)) for key, t in self.world.threads.items()}
        for tab in self.tabs:
            if tab.connection is not None:
                for name, fold in tab.folds.items():
                    assert fold.shown() == shown[self.world.key(name)]

    def teardown(self):
        if not hasattr(self, "world"):
            return
        self.let_everything_end()
        replay_all(self.world)

    def let_everything_end(self):
        """Agents stop and time passes: every run ends by itself, and nothing of it is left."""
        for _ in range(60):
            for thread in THREADS:
                run = self.speaking(thread)
                if run is not None:
                    self.world.end(run)
                self.stop_conditions_are_judged_at_last(thread)
            if not any(thread.run for thread in self.world.threads.values()):
                break
            self.world.wait(150.0)
        left = [(t.run, t.desk.open_calls) for t in self.world.threads.values() if t.run]
        assert not left, f"a run never ends: {left}"
        look(self.world)
        for session in self.world.sessions.values():
            assert session.held == {}
            assert session.running == {}
            assert session.queued == {}

    def stop_conditions_are_judged_at_last(self, thread):
        known = self.world.threads.get(self.world.key(thread))
        if known is not None and known.run is not None and known.run.asking == "stop_when":
            self.stop_conditions_are_judged(thread, True)


def replay_all(world: World) -> None:
    """P15: the recorded inputs, on fresh machines, give equal effects and equal bytes."""
    living = [(owner, it, world.id_sources[owner]) for owner, it in world.histories.items()]
    for owner, history, source in (*living, *world.forgotten):
        ids = DrawnIds(source.drawn)
        fresh: Any = (
            Thread(owner, world.policy, ids, world.roster)
            if isinstance(owner, ThreadKey)
            else world.fresh_session(owner, world.principals[owner], ids)
        )
        for message, now, effects in history:
            assert plain(fresh.handle(message, now)) == plain(effects), "P15: another effect"
        before = world.threads.get(owner)
        if before is not None and before.epoch == fresh.epoch:
            base = before.space.log.base
            assert fresh.read(base, 1 << 62) == before.read(base, 1 << 62), "P15: another byte"


TestMachines = Machines.TestCase
TestMachines.settings = settings(
    max_examples=2_000 if LONG else 120,
    stateful_step_count=60 if LONG else 40,
    deadline=None,
    derandomize=not LONG,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
