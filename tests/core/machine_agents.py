"""What runs and their agents do in the machine of `test_machine`: the actions, and who may act."""

from typing import Any

from hypothesis import strategies as st
from tests.core.builders import World
from tests.core.machine_parts import (
    AGENTS,
    ARGS,
    ENDS,
    NAMES,
    at,
    busy,
    does,
    events,
    runs,
    tabs,
    threads,
)
from tests.core.orders import Orders

from handspan.core import effects as e
from handspan.core import inputs as i


class Agents:
    """Actions of those who ask, and of those who answer."""

    world: World
    orders: Orders
    tabs: list[Any]
    count: int

    # ---- who there is --------------------------------------------------------------------------

    def live(self, thread=None):
        """Every run and sub-run under way."""
        keys = self.world.threads if thread is None else [self.world.key(thread)]
        known = [self.world.threads[key] for key in keys if key in self.world.threads]
        return [run for one in known for run in one.runs.live]

    def speaking(self, thread=None):
        """Ids of those whose step is being spoken."""
        return [r.id for r in self.live(thread) if r.step.opened and not r.step.ended]

    def waiting(self):
        """Ids of those whose step may still call and delegate: its agent, or a tool of it."""
        steps = [run for run in self.live() if run.step.opened]
        return [run.id for run in steps if not run.step.ended or run.step.open_calls]

    def with_tools_at_work(self):
        """Ids of those for whom a server tool is at work."""
        return [r.id for r in self.live() if any(c.out and not c.holder for c in r.step.calls)]

    def speaks(self, run):
        return run in self.speaking()

    def fresh(self, kind):
        self.count += 1
        return f"{kind}:{self.count}"

    # ---- those who ask -------------------------------------------------------------------------

    @does(
        4,
        "page",
        tab=tabs,
        thread=threads,
        if_busy=busy,
        again=st.sampled_from((False,) * 7 + (True,)),
    )
    def start(self, tab, thread, if_busy, again):
        """A run id that was used before in the thread, by a sub-run too, is refused."""
        stream = self.streams.get(
            getattr(self.world.threads.get(self.world.key(thread)), "epoch", "")
        )
        used = sorted(stream.ended | stream.parents.keys()) if stream is not None else []
        if again and used:
            answer = self.tabs[tab].run("hi", thread, run_id=used[self.count % len(used)])
            assert answer in ("duplicate_id", "busy")
        else:
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
        self.tabs[tab].invoke(name, args, thread, follow_up=follow_up, if_busy=if_busy)

    @does(2, "page", tab=tabs, thread=threads, which=at)
    def abort(self, tab, thread, which):
        known = self.world.threads.get(self.world.key(thread))
        if known is None:
            return
        waiting = [request.run_id for request in known.runs.queue]
        names = [None, *([known.run.id] if known.run else []), *waiting]
        run = names[which % len(names)]
        if run is None:
            self.tabs[tab].abort(thread=thread)
        else:
            assert self.tabs[tab].abort(run=run) == {"aborted": True}
            assert not known.runs.has(run)

    @does(3, "sub", run=runs, python=st.booleans(), tab=tabs)
    def abort_a_sub_run(self, run, python, tab):
        """Its subtree goes with it, its caller goes on."""
        key = self.world.home(run)
        caller = self.world.running(run).parent.id
        if python or not self.there(tab):
            assert self.world.abort(key, run) == {"aborted": True}
        else:
            assert self.tabs[tab].abort(run=run) == {"aborted": True}
        live = self.world.threads[key].runs.live
        assert live.get(run) is None
        assert (
            live.get(caller) is not None or live.root is None or (key, caller) in self.orders.over
        )

    # ---- those who answer ----------------------------------------------------------------------

    @does(
        3,
        "speaking",
        run=runs,
        text=st.sampled_from(("", "Hello", " world")),
        thought=st.booleans(),
    )
    def say(self, run, text, thought):
        (self.world.think if thought else self.world.text)(run, text)

    @does(
        5,
        "speaking",
        run=runs,
        name=st.sampled_from(NAMES),
        args=st.sampled_from(ARGS),
        wish=st.sampled_from((None, None, "", "x", "c-1", "not an id")),
        waits=st.booleans(),
    )
    def call(self, run, name, args, wish, waits):
        self.world.call(run, name, args, wish=wish, ticket=self.fresh("ticket") if waits else None)

    @does(
        10,
        "page",
        tab=tabs,
        thread=threads,
        which=at,
        picks=st.lists(at, min_size=1, max_size=4),
        ends=st.sampled_from(("not", "open", "answered", "answered")),
    )
    def a_whole_turn(self, tab, thread, which, picks, ends):
        """What mostly happens: somebody asks, the model calls tools, its turn ends, all answer."""
        if not self.live(thread):
            self.tabs[tab].run("hi", thread)
            if which % 4:
                self.let_go_on(self.world.key(thread))
        speakers = self.speaking(thread)
        there = {name for page in self.tabs for name in page.tool_names}
        names = [*sorted(there - {"*"}), "srv", "nobody_has_it"]
        for run in speakers[which % len(speakers) :][:1] if speakers else ():
            for pick in picks:
                if self.speaks(run):
                    self.world.call(run, names[pick % len(names)], '{"x":1}')
            if self.speaks(run) and ends != "not":
                self.world.end(run)
        if ends == "answered":
            self.everything_is_answered(thread)

    @does(5, "speaking", run=runs, said=st.lists(events, min_size=1, max_size=4))
    def say_events(self, run, said):
        for event in said:
            if self.speaks(run):
                self.world.event(run, event["type"], **{k: event[k] for k in event if k != "type"})

    @does(6, "speaking", run=runs, reason=st.sampled_from(ENDS))
    def end_step(self, run, reason):
        self.world.end(run, reason)

    @does(2, "speaking", run=runs, what=st.sampled_from(("fail", "other", "nobody")))
    def fail_or_hand_over(self, run, what):
        if what == "fail":
            self.world.fail(run)
        else:
            self.world.hand_over(run, what)

    @does(
        1,
        "speaking",
        run=runs,
        agent=st.sampled_from(AGENTS),
        withheld=st.sets(st.sampled_from(NAMES), max_size=3),
    )
    def hooks_shape_the_step(self, run, agent, withheld):
        depth = self.world.depth(run)
        shaped = i.StepShaped(run, depth, agent, frozenset(withheld))
        self.world.tell(self.world.home(run), shaped)

    # ---- sub-runs and tools that call ----------------------------------------------------------

    @does(
        6,
        "waiting",
        run=runs,
        agent=st.sampled_from((*AGENTS, *AGENTS, "nobody")),
        text=st.sampled_from(("do it", "")),
        calls=st.sampled_from((None, None, "srv", "plain", "look")),
    )
    def delegate(self, run, agent, text, calls):
        """Any step that is under way may, be it of a sub-run; what is begun often calls at once."""
        sub = self.world.delegate(run, agent, text, sub=self.fresh("sub"))
        if calls is not None and self.speaks(sub):
            self.world.call(sub, calls)
            self.world.end(sub)

    @does(3, "tooling", run=runs, name=st.sampled_from(NAMES), args=st.sampled_from(ARGS[:5]))
    def a_server_tool_calls_another(self, run, name, args):
        self.world.call(run, name, args, ticket=self.fresh("ticket"), by_tool=True)

    @does(1, "begun", which=at)
    def a_caller_leaves(self, which):
        """Code that waits for a call inside a step goes; or what waited has gone already."""
        waiting = [
            (key, call)
            for key, thread in self.world.threads.items()
            for call in thread.desk.open_calls.values()
            if call.ticket is not None
        ]
        if not waiting:
            return
        key, call = waiting[which % len(waiting)]
        forgone = i.CallForgone(call.own_run_id, call.ticket)
        (given,) = [x for x in self.world.tell(key, forgone) if isinstance(x, e.GiveValue)] or [
            None
        ]
        assert given is None or given.value.outcome == "aborted"
        assert call.id not in self.world.threads[key].desk.open_calls
        assert self.world.tell(key, forgone) == []

    @does(1, "speaking", run=runs, tokens=at)
    def count_tokens(self, run, tokens):
        used = {"model": "m", "inputTokens": tokens}
        self.world.tell(self.world.home(run), i.UsageSaid(run, self.world.depth(run), used))

    @does(4, "tool", which=at)
    def server_tool_returns(self, which):
        begun = self.orders.begun_tools
        open_ones = {call for t in self.world.threads.values() for call in t.desk.open_calls}
        begun = [x for x in begun if which > 40 or x[1] in open_ones]
        if begun:
            key, call_id = begun[which % len(begun)]
            answer = i.Answer(value={"n": which})
            self.world.tell(key, i.ToolReturned(call_id, answer))

    @does(1, "begun", which=at)
    def speak_too_late(self, which):
        """What a step says after its end counts for nothing, and who waits is told so."""
        key, step = self.orders.begun[which % len(self.orders.begun)]
        known = self.world.threads.get(key)
        under_way = [(r.id, r.depth) for r in self.live() if r.id in self.waiting()]
        if known is None or (step.run_id, step.depth) in under_way:
            return
        head = known.head
        named = {"run_id": step.run_id, "depth": step.depth}
        for late in (
            i.TextSaid(**named, deltas=("late",)),
            i.CallSaid(**named, name="plain", raw=""),
            i.StateSaid(**named, patch=None, state={}),
            i.HandoffSaid(**named, agent="other"),
            i.StepEnded(**named, finish_reason=None),
            i.StepFailed(**named, code="agent_error", message="late"),
        ):
            assert self.world.tell(key, late) == []
        one, two = self.fresh("ticket"), self.fresh("sub")
        (value,) = self.world.tell(key, i.CallSaid(**named, name="plain", raw="", ticket=one))
        assert isinstance(value, e.GiveValue)
        delegated = i.DelegateSaid(**named, sub_id=two, agent="other", text="", ticket=two)
        (result,) = self.world.tell(key, delegated)
        assert isinstance(result, e.GiveResult)
        assert (value.value.outcome, result.value.reason) == ("aborted", "aborted")
        assert known.head == head

    @does(1, "live", thread=threads, sure=at)
    def something_breaks(self, thread, sure):
        """P14: the run fails, whatever it was at, and nothing else does."""
        if sure == 0 and self.live(thread):
            self.world.tell(self.world.key(thread), Nonsense())
            assert self.world.reason(thread) == "internal"


class Nonsense:
    """An input that no thread knows."""
