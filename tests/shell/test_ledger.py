"""What leaves, and when: nothing before what it says is kept (P16)."""

import logging

import pytest
from tests.core.builders import COMPILE, CountedIds
from tests.core.scenarios import asked_by
from tests.fake_store import FakeStore

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.entries import Drop
from handspan.core.parties import ANONYMOUS, ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import Session
from handspan.core.thread import Roster, Thread
from handspan.shell.ledger import Ledger
from handspan.stores.memory import MemoryStore
from handspan_protocol.ids import DocumentId, RunId, SessionId, ThreadId

T1, T2 = (ThreadKey("anonymous", ThreadId(name)) for name in ("t1", "t2"))


class Desk:
    """A ledger with its store, threads that are kept, and what left in which order."""

    def __init__(self):
        self.store = FakeStore()
        self.store.open(lambda call: call())
        self.left = []
        self.grew = []
        self.ledger = Ledger(self.store, lambda key, thread: self.grew.append(key.thread_id))
        self.threads = {key: self.thread(key) for key in (T1, T2)}

    def thread(self, key):
        thread = Thread(key, Policy(), CountedIds(), Roster(("default",), {}))
        thread.keep((), COMPILE)
        return thread

    def handle(self, event, key=T1):
        """As the driver does, within the input that is being handled."""
        thread = self.threads[key]
        before = thread.head
        self.ledger.note(thread, thread.handle(event, 1.0), before)

    def start(self, run="r1", key=T1):
        self.handle(i.RunRequested(asker=asked_by(None, run), run_id=RunId(run)), key)

    def say(self, text="x", key=T1):
        thread = self.threads[key]
        self.handle(i.TextSaid(thread.run.id, thread.run.depth, (text,)), key)

    def change(self, state, key=T1):
        given = i.StateGiven(asker=asked_by(None, "s"), patch=None, state=state)
        self.handle(given, key)

    def turn(self):
        self.ledger.turn()

    def act(self, name):
        self.ledger.after(lambda: self.left.append(name))

    def shown(self, key=T1):
        """Whether readers see all there is of it."""
        log = self.threads[key].log
        return log.readable == log.head


@pytest.fixture
def desk():
    return Desk()


def test_what_was_recorded_is_written_as_one_page_and_then_leaves_in_order(desk):
    desk.act("before anything")
    assert desk.left == ["before anything"]
    desk.start()
    desk.act("one")
    desk.act("two")
    desk.turn()
    (page,) = desk.store.waiting
    assert {change.scope for change in page.changes} == {T1}
    assert ("run", "r1") in {(change.part, change.name) for change in page.changes}
    assert (desk.left, desk.grew, desk.shown()) == (["before anything"], [], False)
    desk.store.commit()
    assert desk.left[1:] == ["one", "two"]
    assert (desk.grew, desk.shown(), desk.threads[T1].log.held) == (["t1"], True, False)


def test_one_page_of_two_threads_is_shown_of_both_at_once(desk):
    desk.start()
    desk.start(key=T2)
    desk.turn()
    assert len(desk.store.waiting) == 1
    assert not (desk.shown(T1))
    assert not (desk.shown(T2))
    desk.store.commit()
    assert sorted(desk.grew) == ["t1", "t2"]
    assert desk.shown(T1)
    assert desk.shown(T2)


def test_nothing_behind_a_page_leaves_before_it_and_each_page_shows_what_is_its_own(desk):
    desk.start()
    desk.turn()
    first = desk.threads[T1].head
    desk.say("a token that needs no record")
    desk.act("behind the first")
    desk.turn()
    held = desk.threads[T1].head
    desk.change({"n": 1})
    desk.act("with the second")
    desk.turn()
    desk.say("another")
    desk.turn()
    log = desk.threads[T1].log
    assert (log.readable, desk.left) == (0, [])
    desk.store.commit(1)
    assert (log.readable, log.held, desk.left) == (held, True, ["behind the first"])
    assert held > first
    desk.store.commit(1)
    assert desk.shown()
    assert (log.held, desk.left) == (False, ["behind the first", "with the second"])


def test_two_records_of_one_input_begin_where_the_first_one_does(desk):
    desk.start()
    desk.turn()
    desk.store.commit()
    before = desk.threads[T1].head
    desk.change({"n": 1})
    desk.change({"n": 2})
    desk.turn()
    assert desk.threads[T1].log.readable == before
    assert len(desk.store.waiting) == 1


def test_a_token_of_another_thread_does_not_wait(desk):
    desk.start(key=T2)
    desk.turn()
    desk.store.commit()
    desk.start()
    desk.turn()
    desk.say("x", key=T2)
    desk.turn()
    assert desk.shown(T2)
    assert not desk.shown(T1)


def test_what_waits_leaves_also_behind_one_that_breaks(desk, caplog):
    def broken():
        raise RuntimeError("payload")

    desk.start()
    desk.ledger.after(broken)
    desk.act("behind")
    desk.turn()
    with caplog.at_level(logging.ERROR, "handspan.driver"):
        desk.store.commit()
    assert desk.left == ["behind"]
    assert "payload" not in caplog.text
    assert len(caplog.records) == 1


def test_behind_the_end_what_was_written_is_kept_and_nothing_that_waited_is_done(desk):
    desk.start()
    desk.turn()
    desk.act("with the first")
    desk.say()
    desk.change({"n": 1})
    desk.turn()
    desk.act("with the second")
    desk.ledger.shut()
    desk.store.commit()
    assert desk.left == []
    assert ("run", "r1") in desk.store.kept.threads[T1]
    assert desk.shown()


def test_an_input_that_records_nothing_writes_nothing(desk):
    desk.start()
    desk.turn()
    desk.store.commit()
    desk.say()
    desk.act("at once")
    desk.turn()
    assert (len(desk.store.waiting), desk.left) == (0, ["at once"])


def test_a_deleted_thread_is_dropped_whole_and_nothing_of_it_is_written_behind(desk):
    desk.start()
    desk.turn()
    desk.handle(i.Deleted())
    desk.ledger.forget(desk.threads[T1])
    desk.turn()
    assert list(desk.store.waiting[-1].changes) == [Drop(T1)]
    desk.store.commit()
    assert desk.store.kept.threads == {}
    assert desk.grew == ["t1", "t1"]


def test_a_thread_may_be_deleted_that_had_nothing_to_record(desk):
    desk.ledger.forget(desk.threads[T2])
    desk.turn()
    assert list(desk.store.waiting[-1].changes) == [Drop(T2)]


def test_a_session_is_part_of_the_page_and_of_none_where_nothing_has_changed(desk):
    session = Session(
        SessionId("s"),
        ANONYMOUS,
        policy=Policy(),
        ids=CountedIds(),
        compile_schema=COMPILE,
        server_tools={},
        agents=("default",),
    )
    session.keep()
    desk.ledger.note_session(session)
    desk.turn()
    assert not desk.store.waiting
    session.document = DocumentId("d-1")
    desk.ledger.note_session(session)
    desk.start()
    desk.turn()
    (page,) = desk.store.waiting
    assert {change.scope for change in page.changes} == {"s", T1}
    assert page.changes[0].part == "self"


def test_effects_that_are_no_records_hold_nothing(desk):
    thread = desk.threads[T1]
    desk.ledger.note(thread, [e.StopStep(RunId("r"), 0)], 0)
    desk.turn()
    assert (thread.log.held, len(desk.store.waiting)) == (False, 0)


def test_with_a_store_that_keeps_nothing_everything_leaves_at_once():
    left = []
    ledger = Ledger(MemoryStore(), lambda *_: None)
    ledger.after(lambda: left.append("at once"))
    ledger.turn()
    assert (ledger.on, left) == (False, ["at once"])
