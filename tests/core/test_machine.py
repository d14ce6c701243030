"""Two threads and three pages under random inputs: what must hold after each, and at the end.

The actions are in `machine_agents`, `machine_pages` and `machine_hooks`. A failing example prints
the steps that lead to it. HANDSPAN_LONG=1 tries 2,000 of them.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.builders import DrawnIds, World, picture, plain, spec
from tests.core.machine_agents import Agents
from tests.core.machine_hooks import Application
from tests.core.machine_pages import Pages
from tests.core.machine_parts import ACTIONS, AGENTS, hooks, made, toolsets
from tests.core.page_fold import comparable
from tests.core.verifier import Orders, Stream, look

from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy
from handspan.core.thread import Thread

LONG = os.environ.get("HANDSPAN_LONG", "") not in ("", "0")


class Machines(Agents, Application, Pages, RuleBasedStateMachine):
    """The bridge's two machines, as many as two conversations and three pages need."""

    @initialize(
        execution=st.sampled_from(("ordered", "parallel")),
        disconnect=st.sampled_from(("grace", "grace", "abort")),
        reflect=st.sampled_from(("never", "at_limit")),
        on_error=st.sampled_from(("resume", "stop")),
        stops=st.booleans(),
        sets=st.tuples(toolsets, toolsets, toolsets),
        asked=hooks,
    )
    def begin(self, execution, disconnect, reflect, on_error, stops, sets, asked):
        self.policy = Policy(
            tool_execution=execution,
            on_disconnect=disconnect,
            reflect=reflect,
            on_error=on_error,
            stop_when=[lambda steps: False] if stops else [],
            max_depth=3,
            calls_per_step=5,
            open_calls_per_run=6,
            open_calls_per_session=2,
            subruns_per_run=4,
            server_tools_at_once=1,
            queued_runs=2,
            runs_per_session=2,
            log_events=400,
            context_bytes=1_000,
        )
        self.world = World(
            self.policy,
            agents=AGENTS,
            server=(spec("srv", invoke=True), spec("srv_ask", invoke=True, approval="always")),
            hooks=asked,
        )
        self.orders = Orders(self.world)
        self.streams: dict[str, Stream] = {}
        self.seen: dict[str, int] = {}
        self.tabs = []
        self.count = 0
        self.sound = True
        """Nothing has broken so far: what comes after the first break says nothing."""
        for number, chosen in enumerate(sets):
            threads = (("t1",), ("t1", "t2"), ("t2",))[number]
            self.tabs.append(self.world.tab("abc"[number], threads=threads, tools=made(chosen)))

    @rule(data=st.data())
    def something_happens(self, data):
        """One rule, so that each step does something and every action has its share."""
        self.sound = False
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
        if "run" in arguments:
            narrowed["run"] = st.sampled_from(there[needs])
        if needs in ("page", "out", "offered", "asked"):
            narrowed["tab"] = st.sampled_from(there["out" if needs == "out" else "page"])
        drawn = data.draw(st.fixed_dictionaries(arguments | narrowed), label=name)
        getattr(self, name)(**drawn)

    def there_is(self):
        pages = [n for n, tab in enumerate(self.tabs) if tab.connection is not None]
        questions = [question for tab in self.tabs for question in tab.questions]
        return {
            "page": pages,
            "out": [n for n in pages if self.own(n, 0) is not None],
            "offered": pages and [call for tab in self.tabs for call in tab.calls],
            "asked": pages and questions,
            "live": self.live(),
            "sub": [run.id for run in self.live() if run.parent is not None],
            "speaking": self.speaking(),
            "waiting": self.waiting(),
            "tooling": self.with_tools_at_work(),
            "begun": self.orders.begun,
            "tool": self.orders.begun_tools,
            "question": self.orders.questions.asked,
            "open question": self.open_questions(),
        }

    # ---- what holds ----------------------------------------------------------------------------

    @invariant()
    def every_promise_holds(self):
        if hasattr(self, "world"):
            self.sound = False
            self.streams_are_in_order()
            look(self.world)
            self.streams_tell_who_is_under_way()
            self.pages_know_what_the_thread_knows()
            self.sound = True

    def streams_are_in_order(self):
        """P6, by each event."""
        for epoch, log in self.world.logs.items():
            stream = self.streams.setdefault(epoch, Stream())
            for event in log[self.seen.get(epoch, 0) :]:
                stream.take(event)
            self.seen[epoch] = len(log)

    def streams_tell_who_is_under_way(self):
        """P6: a lane for each that was announced, below its own caller."""
        for thread in self.world.threads.values():
            stream = self.streams[thread.epoch]
            live = [run for run in thread.runs.live if run.announced]
            assert stream.lanes.keys() == {run.owner for run in live}
            for run in live:
                assert run.parent is None or stream.parents[run.id] == run.parent.owner

    def pages_know_what_the_thread_knows(self):
        """P9: a snapshot and the later events are all events, wherever the page came in."""
        shown = {key: comparable(picture(t)) for key, t in self.world.threads.items()}
        for tab in self.tabs:
            if tab.connection is not None:
                for name, fold in tab.folds.items():
                    assert fold.shown() == shown[self.world.key(name)]

    # ---- the end -------------------------------------------------------------------------------

    def teardown(self):
        if not getattr(self, "sound", False):
            return
        self.let_everything_end()
        self.nothing_is_left()
        replay_all(self.world)

    def let_everything_end(self):
        """Agents stop, hooks agree and time passes: every run ends by itself."""
        for _ in range(60):
            for run in self.speaking():
                if self.speaks(run):
                    self.world.end(run)
            for key in list(self.world.threads):
                self.let_go_on(key)
            if not self.live():
                break
            self.world.wait(150.0)
        left = [(t.run, t.desk.open_calls) for t in self.world.threads.values() if t.run]
        assert not left, f"a run never ends: {left}"
        self.every_promise_holds()

    def nothing_is_left(self):
        """Of any run or call; and nothing at all of pages that are gone."""
        for session in self.world.sessions.values():
            assert session.holding.calls == {}
            assert session.running == {}
            assert session.queued == {}
        for key in list(self.world.threads):
            self.let_go_on(key)
        assert self.open_questions() == []
        promises = self.orders.promises
        assert {**promises.tickets, **promises.askers, **promises.accepted} == {}
        for tab in self.tabs:
            if tab.connection is not None:
                tab.drop()
        self.world.wait(self.policy.resume_window + 1)
        assert self.world.sessions == {}
        assert all(thread.idle for thread in self.world.threads.values())


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
            again = plain(fresh.handle(message, now))
            assert again == effects, f"P15: {message} gives {again}, not {effects}"
        before = world.threads.get(owner)
        if before is not None and before.epoch == fresh.epoch:
            again, said = (it.log.read(before.log.base, 1 << 62) for it in (fresh, before))
            assert again == said, "P15: another byte"


TestMachines = Machines.TestCase
TestMachines.settings = settings(
    max_examples=2_000 if LONG else 60,
    stateful_step_count=60 if LONG else 40,
    deadline=None,
    derandomize=not LONG,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
