"""Whatever happened on a thread, the next process has it, and goes on with it (P16, P1, P2, P7).

Random threads are written to a shelf as they happen, and at every cut, which is after every input,
a fresh process is made from what the shelf has: it must know what the one that wrote it knew, and
bring what was under way to a good end, whether its pages come back or not.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.core.at_rest import look
from tests.core.builders import picture
from tests.core.kept import KeptWorld, begin, follow, loaded, revived
from tests.core.page_fold import comparable
from tests.core.tales import Tale, moves
from tests.core.test_machine import LONG
from tests.fake_store import Shelf

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.answer import Answer
from handspan.core.call import Call, CallState, judge_result, judge_start
from handspan.core.keeping import PLACE
from handspan.core.parties import ThreadKey
from handspan.core.thread import Thread
from handspan.core.transcript import broken_rules
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.errors import PeerError
from handspan_protocol.ids import SessionId

RESTARTS_PER_TALE = 1_000 if LONG else 12
"""How many of a tale's cuts are lived on from; each costs some 20 ms."""

# ---- what a thread knows ------------------------------------------------------------------------


def known_of(thread: Thread) -> dict[str, Any]:
    """What must be the same in the next process: all but words that are still being said."""
    transcript, runs = thread.space.transcript, thread.runs
    whole = [transcript.whole_part(message) for message in transcript.messages]
    subs = {run_id for run_id in runs.live.used if run_id.startswith("sub-")}
    return {
        "messages": parse_json(encode([message for message in whole if message is not None])),
        "state": transcript.state,
        "last run": parse_json(encode(runs.endings.last_run)),
        "used": set(runs.live.used) - subs,
        "allowed": set(runs.desk.approvals.allowed),
        "under way": None if thread.run is None else thread.run.id,
        "waiting": [request.run_id for request in runs.queue],
        "open": [c.id for c in runs.desk.open_calls.values() if c.ended and c.owner is None],
        "calls": {call.id: asked_about(call) for call in runs.desk.calls.values() if call.ended},
    }


ANSWERS = (
    Answer(value=None),
    Answer(value={"n": 0}),
    Answer(error_message="broken"),
    Answer(content=({"type": "text", "text": "x"},)),
)


def asked_about(call: Call) -> list[str]:
    """What every session is told of every attempt, to the same answer and to others (P7)."""
    answers = [*ANSWERS, *([call.settlement.answer] if call.settlement else [])]
    last = None if call.open else call.last  # progress is not kept
    told = [call.state.value, str(call.attempt), str(last)]
    for session in (*call.held, SessionId("a stranger")):
        for attempt in range(1, call.attempt + 2):
            told.append(_status(judge_start, call, session, attempt))
            told += [_status(judge_result, call, session, attempt, answer) for answer in answers]
    return told


def _status(judge: Any, *about: Any) -> str:
    try:
        return str(judge(*about))
    except PeerError as problem:
        return problem.code.value


def is_said(thread: Thread) -> bool:
    """Whether somebody still speaks."""
    return any(run.step.opened and not run.step.ended for run in thread.runs.live)


# ---- at every cut -------------------------------------------------------------------------------


@given(moves)
def test_p16_whatever_happened_what_is_loaded_is_what_was_written(told):
    tale = Tale(KeptWorld)
    world, key = tale.world, tale.thread.space.key
    checked: dict[ThreadKey, Any] = {}

    def look_at(written: set[ThreadKey]) -> None:
        if key in written or not is_said(tale.thread):
            fresh = loaded(world, key)
            checked[key] = known_of(fresh)
            assert checked[key] == known_of(tale.thread)
        if key in written and len(tale.thread.runs.live) < 2:  # sub-runs are lost
            loading_twice_changes_nothing(world, key)

    world.on_turn.append(look_at)
    tale.happens(told, lambda: None)
    assert checked


def loading_twice_changes_nothing(world: KeptWorld, key: ThreadKey) -> None:
    """What was loaded and is written again is what was there already."""
    shelf = world.shelf.copy()
    for _ in range(2):
        shelf.apply(loaded(world, key, shelf).changes(()), 0)
        assert all_but_places(shelf, key) == all_but_places(world.shelf, key)


def all_but_places(shelf: Shelf, key: ThreadKey) -> list[Any]:
    """A message that is not whole has but a place; nobody says any more what it would be."""
    entries = shelf.threads[key].items()
    return [(name, body) for name, body in entries if name[0] != "message" or body != PLACE]


@given(moves, st.integers(0, 9))
def test_p2_whatever_happened_the_next_process_brings_it_to_a_good_end(told, first):
    """P1, P2, P5: from any cut, with pages that come back, were loaded anew, or never come."""
    tale = Tale(KeptWorld)
    before: list[Any] = [None]
    cuts: list[Any] = []

    def remember(_: set[ThreadKey]) -> None:
        entries = tale.world.shelf.threads.get(tale.thread.space.key)
        if entries != before[0] and tale.thread.busy:
            before[0] = dict(entries or {})
            cuts.append(Cut(tale))

    tale.world.on_turn.append(remember)
    tale.happens(told, lambda: None)
    step = max(1, len(cuts) // RESTARTS_PER_TALE)
    for number, cut in enumerate(cuts[first % step :: step]):
        cut.live_on(WAYS[(number + first) % len(WAYS)])


class Cut:
    """A process that ended here, and what it had promised until then."""

    def __init__(self, tale: Tale) -> None:
        self.world = revived(tale.world)
        self.tab = follow(tale.tab, self.world)
        self.threads = list(tale.tab.folds)
        calls = tale.thread.desk.calls.values()
        self.settled = {call.id for call in calls if not call.open}
        self.spent = {call.id: call.attempt for call in calls if _is_spent(call)}
        self.world.watchers.append(self._watch)

    def live_on(self, way: Any) -> None:
        begin(self.world)
        look(self.world)
        way(self)
        assert not self.thread.busy
        assert broken_rules(self.thread.space.transcript.view()) == []
        look(self.world)
        for name, fold in self.tab.folds.items():
            if self.tab.connection is not None:
                assert fold.shown() == comparable(picture(self.world.thread(name))), "P9"
        assert known_of(loaded(self.world, self.thread.space.key)) == known_of(self.thread)

    @property
    def thread(self) -> Thread:
        return self.world.thread("t1")

    # ---- what may not happen -------------------------------------------------------------------

    def _watch(self, target: Any, message: Any, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case e.StartStep():
                    assert broken_rules(effect.messages) == [], "P1: a model would be shown this"
                case e.StartTool(call_id=call_id):
                    assert call_id not in self.settled, "P2: a settled call is carried out"
                    assert call_id not in self.spent, "P2: it runs twice"
                case e.TellSession(_, s.CallOffered(_, frame, _)):
                    assert frame.call_id not in self.settled, "P2: a settled call is offered"
                    spent = self.spent.get(frame.call_id, frame.attempt)
                    assert frame.attempt == spent, "P2: another attempt"
                case e.Record((fact,)) if fact.kind == "call_settled":
                    assert fact.data["callId"] not in self.settled, "P2: it settles twice"
                    self.settled.add(fact.data["callId"])
                case e.Reply(result={"status": "go"}):
                    assert isinstance(message, i.LeaveAsked)
                    assert message.call_id not in self.spent, "P2: leave is given twice"
                    self.spent.update(_spent_by(self.thread, message))
                case e.Broke(error):
                    raise error

    # ---- how it goes on ------------------------------------------------------------------------

    def comes_back(self) -> None:
        """The page with its journal: what it did meanwhile counts."""
        self.tab.connect(threads=self.threads)
        look(self.world)
        self.let_go_on()

    def is_loaded_anew(self) -> None:
        self.tab.reload(threads=self.threads)
        look(self.world)
        self.let_go_on()

    def comes_late(self) -> None:
        self.world.wait(self.world.policy.page_grace + 1)
        self.comes_back()

    def never_comes(self) -> None:
        self.let_go_on()

    def is_aborted(self) -> None:
        while self.thread.busy:
            self.world.abort()

    def ends_again(self) -> None:
        """The next process ends as well, before anybody has come."""
        self.world, self.tab = (other := revived(self.world)), follow(self.tab, other)
        other.watchers.append(self._watch)
        begin(other)
        look(other)
        self.comes_back()

    def let_go_on(self) -> None:
        """Agents stop, tools answer, time passes: every run ends by itself."""
        for _ in range(60):
            for run in [r for r in self.thread.runs.live if r.step.opened and not r.step.ended]:
                if self.thread.runs.live.get(run.id) is run:
                    self.world.end(run.id)
            for call in [c for c in self.thread.desk.open_calls.values() if c.out]:
                if call.holder is None:
                    self.world.returned(call.id, "again")
            if self.tab.connection is not None:
                self._page_works()
            if not self.thread.busy:
                return
            self.world.wait(40.0)

    def _page_works(self) -> None:
        for (call_id, attempt), state in list(self.tab.journal.items()):
            call = next(c for c in self.tab.calls if c.call_id == call_id and c.attempt == attempt)
            if state != "received" or self.tab.started(call) in ("go", "duplicate"):
                self.tab.result(call, "late")
        for question in self.tab.questions:
            self.tab.approve(question)


WAYS = (
    Cut.comes_back,
    Cut.is_loaded_anew,
    Cut.never_comes,
    Cut.comes_late,
    Cut.is_aborted,
    Cut.ends_again,
)


def _is_spent(call: Call) -> bool:
    """It may have been carried out, and may not be again."""
    at_work = call.holder is None and call.out
    return not call.repeatable and (call.state is CallState.STARTED or at_work)


def _spent_by(thread: Thread, leave: i.LeaveAsked) -> dict[str, int]:
    call = thread.desk.calls[leave.call_id]
    return {} if call.repeatable else {call.id: call.attempt}
