"""What of a thread is written, and what is not written again (P16)."""

import pytest
from tests.core.builders import spec, tool
from tests.core.kept import KeptWorld, loaded
from tests.core.scenarios import KEY, a_space
from tests.fake_store import Shelf

from handspan.core import inputs as i
from handspan.core import keeping as room
from handspan.core.admission import Roster
from handspan.core.call import Call
from handspan.core.effects import Fact
from handspan.core.entries import Drop, Entry, Put, read
from handspan.core.keeping import TITLE_CHARS, Keeping, title_of
from handspan.core.parties import Asker, Principal
from handspan.core.policy import Policy
from handspan.core.runs import Runs
from handspan_protocol import frames as f
from handspan_protocol.codec import parse_json
from handspan_protocol.errors import UsageError
from handspan_protocol.ids import RunId


def lone(entries=()):
    """What is kept of a thread on which nothing moves by itself."""
    space = a_space()
    runs = Runs(space, Roster(("default",), {}))
    return space, runs, Keeping(space, runs, entries)


def names(changes):
    """Each change as (part, name), a Drop with a minus before it."""
    return [(("-" if isinstance(c, Drop) else "") + (c.part or ""), c.name or "") for c in changes]


class Book:
    """A world whose pages are read: `written` is what came of the last input."""

    def __init__(self, **policy):
        self.world = KeptWorld(Policy(**policy), server=(spec("srv"),))

    def since(self, mark=0):
        """All that was written since there were so many pages."""
        pages = self.world.written[mark:]
        return names(change for page in pages for change in page if change.scope == KEY)

    @property
    def mark(self):
        return len(self.world.written)

    def body(self, part, name=""):
        found = self.world.shelf.threads[KEY].get((part, name))
        return None if found is None else parse_json(found)

    def parts(self):
        return [part for part, _ in self.world.shelf.threads.get(KEY, {})]


# ---- messages -----------------------------------------------------------------------------------

OPENS = {"type": "TEXT_MESSAGE_START", "messageId": "a1", "role": "assistant"}
ENDS = {"type": "TEXT_MESSAGE_END", "messageId": "a1"}
SAYS = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a1", "delta": "hi"}
PLAN = {"type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "plan", "content": {}}


def test_a_text_that_is_being_said_has_a_place_and_nothing_else():
    """What comes after it is whole before it is, and stays behind it all the same."""
    space, _, keeping = lone()
    for event in (OPENS, SAYS, PLAN):
        space.emit(dict(event))
    one, other = list(keeping.changes(()))[:2]
    assert (one, other.name) == (Put(KEY, "message", "a1", b"null"), "p")
    space.emit(dict(SAYS))
    assert keeping.changes(()) == []
    space.emit(dict(ENDS))
    (whole,) = keeping.changes(())
    assert parse_json(whole.body) == {"id": "a1", "role": "assistant", "content": "hihi"}
    assert keeping.changes(()) == []


def test_a_text_that_was_none_leaves_its_place():
    space, _, keeping = lone()
    space.emit(dict(OPENS))
    assert names(keeping.changes(()))[:1] == [("message", "a1")]
    space.emit(dict(ENDS))
    assert keeping.changes(()) == [Drop(KEY, "message", "a1")]
    space.emit(dict(OPENS))
    assert keeping.changes(()) == [Put(KEY, "message", "a1", b"null")]


def test_the_place_of_what_was_never_whole_is_let_go_by_the_next_process():
    _, _, keeping = lone([Entry("message", "a1", b"null"), Entry("message", "u", b"{}")])
    assert Drop(KEY, "message", "a1") in keeping.changes(())


def test_a_history_that_was_cut_is_written_anew():
    space, _, keeping = lone()
    for name in ("u1", "u2"):
        space.transcript.append({"id": name, "role": "user", "content": name})
    keeping.changes(())
    space.emit({"type": "MESSAGES_SNAPSHOT", "messages": [space.transcript.messages[0]]})
    assert names(keeping.changes(())) == [("-message", ""), ("message", "u1")]


def test_a_thread_whose_messages_nobody_watches_has_none_to_write():
    space, _, keeping = lone()
    space.transcript.append({"id": "u1", "role": "user", "content": "x"})
    space.transcript.touched = None
    assert ("message", "u1") not in names(keeping.changes(()))


# ---- the rest of a thread -----------------------------------------------------------------------


def test_state_is_written_when_it_is_another():
    book = Book()
    tab = book.world.tab()
    tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    assert book.body("state") == {"n": 1}
    assert book.body("about")["stateChanged"] is True
    mark = book.mark
    tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    assert book.since(mark) == []


def test_p16_a_whole_run_is_written_bit_by_bit_and_ends_without_a_trace_of_its_way():
    book = Book()
    world, tab = book.world, book.world.tab("a", tools=[tool("t", approval="always")])
    run = tab.run("hi there")
    assert book.since() == [
        ("message", "m:1"),
        ("state", ""),
        ("request", run),
        ("used", run),
        ("run", run),
        ("about", ""),
    ]
    mark = book.mark
    world.text(run, "I will.")
    assert book.since(mark) == []
    world.call(run, "t")
    assert book.since(mark) == []
    world.end(run)
    assert {part for part, _ in book.since(mark)} == {"message", "call", "run"}
    mark = book.mark
    tab.approve(tab.questions[0], remember=True)
    assert {part for part, _ in book.since(mark)} == {"call", "about"}
    assert len(book.body("about")["allowed"]) == 1
    tab.started(tab.call("t"))
    tab.result(tab.call("t"), 7)
    world.end(run)
    assert ("-run", run) in book.since()
    assert ("-request", run) in book.since()
    assert {"run", "request"}.isdisjoint(book.parts())
    assert book.body("used", run) is True
    assert book.body("about")["title"] == "hi there"
    assert read(book.body("about")["lastRun"])["runId"] == run


def test_a_call_that_is_over_is_not_looked_at_again():
    book = Book()
    world, tab = book.world, book.world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    tab.started(tab.call("t"))
    tab.result(tab.call("t"), 7)
    mark = book.mark
    world.end(run)
    assert not [name for name in book.since(mark) if name[0] == "call"]


def test_calls_are_written_in_the_order_they_were_made():
    book = Book()
    world, tab = book.world, book.world.tab("a", tools=[tool("t"), tool("u", readOnly=True)])
    run = tab.run()
    for name in ("u", "t", "u", "t"):
        world.call(run, name)
    mark = book.mark
    world.end(run)
    assert [name for part, name in book.since(mark) if part == "call"] == [
        call.id for call in world.thread("t1").desk.calls.values()
    ]


def test_a_call_that_is_still_being_said_is_not_written():
    book = Book()
    world, tab = book.world, book.world.tab("a", tools=[tool("t")])
    run = tab.run()
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    tab.ask(f.StateUpdate, thread_id="t1", state={"n": 1})
    assert ("call", "c1") not in book.since()
    world.event(run, "TOOL_CALL_END", toolCallId="c1")
    world.end(run)
    assert ("call", "c1") in book.since()


def test_p12_what_the_thread_forgets_is_kept_no_longer(monkeypatch):
    monkeypatch.setattr("handspan.core.desk.SETTLED_KEPT", 1)
    book = Book()
    world = book.world
    run = world.start()
    for _ in range(3):
        world.call(run, "nobody_has_it")
    world.end(run)
    world.end(run)
    kept = [name for part, name in world.shelf.threads[KEY] if part == "call"]
    assert kept == list(world.thread("t1").desk.calls)
    assert loaded(world, KEY).desk.calls.keys() == world.thread("t1").desk.calls.keys()


def test_p12_a_call_from_the_store_is_forgotten_there_too():
    _, runs, keeping = lone([Entry("call", "c1", b"{}"), Entry("call", "c2", b"{}")])
    runs.desk.calls["c2"] = Call(id="c2", run_id="r", depth=0, name="t", message_id="m")
    assert Drop(KEY, "call", "c1") in keeping.changes(())
    assert Drop(KEY, "call", "c1") not in keeping.changes(())


def test_runs_that_wait_are_kept_in_their_order_and_leave_one_by_one():
    book = Book()
    world, tab = book.world, book.world.tab("a")
    run = tab.run("one")
    for text in ("two", "three"):
        tab.run(text, if_busy="queue")
    second, third = [request.run_id for request in world.thread("t1").runs.queue]
    assert [book.body("run", name)["place"] for name in (run, second, third)] == [0, 1, 2]
    assert book.body("run", third) == {"place": 2}
    tab.abort(second)
    assert book.body("run", second) is None
    assert book.body("run", third) == {"place": 1}
    world.end(run)
    assert book.body("run", third)["depth"] == 0


def test_an_id_that_only_a_fact_names_is_used_all_the_same():
    """A sub-run that was aborted."""
    _, _, keeping = lone()
    facts = [Fact(KEY, "run_aborted", {"runId": "sub"})]
    assert Put(KEY, "used", "sub", b"true") in keeping.changes(facts)


def test_a_request_is_written_again_when_a_hook_has_changed_it():
    world = KeptWorld(Policy(), hooks={"before_run"})
    run = world.start()
    before = world.shelf.threads[KEY]["request", run]
    request = world.thread("t1").run.request
    other = i.RunRequested(asker=request.asker, run_id=RunId(run), message=None, agent="default")
    world.tell(KEY, i.RunJudged(run_id=RunId(run), request=other))
    assert world.shelf.threads[KEY]["request", run] != before


def test_a_request_whose_principal_json_cannot_hold_is_kept_without_its_attributes():
    world = KeptWorld(Policy())
    who = Principal("anonymous", when=object())
    asked = i.RunRequested(asker=Asker(None, "x"), run_id=RunId("r1"), principal=who)
    world.tell(KEY, asked, create=True)
    image = parse_json(world.shelf.threads[KEY]["request", "r1"])
    assert image["principal"] == ["anonymous", None]


# ---- what was written is not written again ------------------------------------------------------


def test_p16_a_thread_that_was_just_loaded_has_nothing_new_to_say():
    book = Book()
    tab = book.world.tab("a", tools=[tool("t")])
    run = tab.run("hi")
    book.world.call(run, "t")
    book.world.end(run)
    tab.run("more", if_busy="queue")
    before = dict(book.world.shelf.threads[KEY])
    for change in loaded(book.world, KEY).changes(()):
        assert isinstance(change, Put)
        assert before[change.part, change.name] == change.body


def test_p16_what_cannot_be_written_is_told_and_leaves_no_hole():
    """What was written with it in one page is not in the store: the next page has everything."""
    book = Book()
    tab = book.world.tab("a", tools=[tool("t")])
    run = tab.run("hi")
    book.world.call(run, "t")
    book.world.end(run)
    thread = book.world.thread("t1")
    sound, thread.space.transcript.state = thread.space.transcript.state, object()
    thread.space.transcript.append({"id": "m9", "role": "user", "content": "behind"})
    with pytest.raises(UsageError):
        thread.changes(())
    thread.space.transcript.state = sound
    told = thread.changes(())
    assert told[0] == Drop(KEY, "message")
    shelf = Shelf()
    shelf.apply(told, 1.0)
    again = loaded(book.world, KEY, shelf)
    assert again.space.transcript.messages == thread.space.transcript.messages
    assert again.desk.calls.keys() == thread.desk.calls.keys()
    assert again.run.id == run
    assert thread.changes(()) == []


TITLES = [
    ([], None),
    ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], None),
    ([{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}], "y"),
    ([{"role": "user", "content": "x" * 100}], "x" * TITLE_CHARS),
]


@pytest.mark.parametrize(("messages", "title"), TITLES)
def test_a_title_is_the_beginning_of_the_first_user_text(messages, title):
    assert title_of(messages) == title
    assert room.PLACE == b"null"
