"""What a session orders its socket leaves when what it says is kept, and to that socket only."""

from types import SimpleNamespace

import pytest

from handspan.core import effects as e
from handspan.core.parties import ConnectionId, ThreadKey
from handspan.shell.outlets import Outlets
from handspan_protocol import frames as f
from handspan_protocol.errors import CloseCode
from handspan_protocol.ids import ThreadId

KEY = ThreadKey("ann", ThreadId("t1"))
CALL = f.ToolCall(
    call_id="c1", attempt=1, thread_id="t1", run_id="r", depth=0, name="t", args={}, raw_args="{}",
    timeout_ms=1, revision=1,
)  # fmt: skip
CANCEL = f.ToolCancel(call_id="c1", attempt=1, reason="aborted")
QUESTION = f.ApprovalRequest(
    call_id="c1", thread_id="t1", run_id="r", name="t", args={}, digest="d", expires_ms=1
)


class Writer:
    """Notes what it is told."""

    def __init__(self, *, unwritten=False):
        self.told = []
        self.unwritten = unwritten

    def control(self, text, call_id=None):
        self.told.append(("control", call_id))

    def offer(self, call_id, text, thread_id, after, still=None):
        self.told.append(("offer", call_id, after))

    def withdraw(self, call_id):
        self.told.append(("withdraw", call_id))
        return self.unwritten

    def open(self, thread, offset):
        self.told.append(("open", offset))

    def close(self, thread_id):
        self.told.append(("close", thread_id))


class Stage:
    """One session with one socket; what was ordered waits in `waiting`."""

    def __init__(self, *, held=False, unwritten=False, snapshot=b"{}"):
        self.waiting = []
        self.writer = Writer(unwritten=unwritten)
        log = SimpleNamespace(held=held, reaches=lambda offset: offset <= 7)
        self.call = SimpleNamespace(approval="open")
        desk = SimpleNamespace(open_calls={"c1": self.call})
        thread = SimpleNamespace(epoch="e", log=log, head=7, snapshot=lambda _: snapshot, desk=desk)
        self.threads = {KEY: thread}
        hub = SimpleNamespace(reach=lambda key, create: self.threads.get(key), threads=self.threads)
        self.outlets = Outlets(hub, self.waiting.append)
        self.holding = {"c1": (KEY, 1)}
        self.session = SimpleNamespace(
            id="s",
            connection=ConnectionId(1),
            holding=SimpleNamespace(calls=self.holding),
            key=lambda thread_id: ThreadKey("ann", thread_id),
        )
        self.closed = []
        socket = SimpleNamespace(writer=self.writer, close=lambda *how: self.closed.append(how))
        self.outlets.sockets[1] = socket

    def kept(self):
        waiting, self.waiting[:] = list(self.waiting), []
        for act in waiting:
            act()
        return self.writer.told


ORDERS = [
    ("send_frame", e.SendFrame(f.Ping()), [("control", None)]),
    ("send_frame", e.SendFrame(CANCEL), [("control", "c1")]),
    ("send_frame", e.SendFrame(QUESTION), [("offer", "c1", 0)]),
    ("send_call", e.SendCall(CALL, 5), [("offer", "c1", 5)]),
    ("close_stream", e.CloseStream("t1"), [("close", "t1")]),
    ("open_stream", e.OpenStream(KEY, "e", 3), [("open", 3)]),
    ("open_stream", e.OpenStream(KEY, "e", 8), [("control", None), ("open", 7)]),
    ("open_stream", e.OpenStream(KEY, "other", 3), [("control", None), ("open", 7)]),
    ("open_stream", e.OpenStream(KEY, "e", None), [("control", None), ("open", 7)]),
]


@pytest.mark.parametrize(("order", "effect", "told"), ORDERS)
def test_p16_nothing_leaves_before_it_is_kept(order, effect, told):
    stage = Stage()
    getattr(stage.outlets, order)(stage.session, effect)
    assert stage.writer.told == []
    assert stage.kept() == told


@pytest.mark.parametrize(("order", "effect", "told"), ORDERS)
def test_a_session_without_a_socket_is_not_written_to(order, effect, told):
    stage = Stage()
    for nobody in (None, ConnectionId(2)):
        stage.session.connection = nobody
        getattr(stage.outlets, order)(stage.session, effect)
    assert stage.kept() == []
    assert told


@pytest.mark.parametrize(("order", "effect", "told"), ORDERS)
def test_what_waits_is_for_the_socket_of_its_moment_and_not_for_a_later_one(order, effect, told):
    stage = Stage()
    getattr(stage.outlets, order)(stage.session, effect)
    stage.session.connection = ConnectionId(2)
    later = Writer()
    stage.outlets.sockets[2] = SimpleNamespace(writer=later)
    assert stage.kept() == told
    assert later.told == []


def test_a_call_that_was_not_written_is_dropped_at_once_and_needs_no_cancel():
    stage = Stage(unwritten=True)
    stage.outlets.drop_call(stage.session, e.DropCall("c1", CANCEL))
    assert (stage.writer.told, stage.waiting) == ([("withdraw", "c1")], [])


def test_the_cancel_of_one_that_was_written_waits_until_its_end_is_kept():
    stage = Stage()
    stage.outlets.drop_call(stage.session, e.DropCall("c1", CANCEL))
    assert stage.writer.told == [("withdraw", "c1")]
    assert stage.kept() == [("withdraw", "c1"), ("control", "c1")]


def test_a_call_that_its_page_has_kept_to_itself_is_not_cancelled():
    stage = Stage()
    stage.outlets.drop_call(stage.session, e.DropCall("c1", None))
    assert stage.kept() == [("withdraw", "c1")]


@pytest.mark.parametrize("held", [{}, {"c1": (KEY, 2)}])
def test_p2_a_call_that_was_taken_back_while_it_waited_is_not_sent(held):
    stage = Stage()
    stage.outlets.send_call(stage.session, e.SendCall(CALL, 5))
    stage.holding.clear()
    stage.holding.update(held)
    assert stage.kept() == []


def test_p10_a_question_that_was_closed_while_it_waited_is_not_asked():
    stage = Stage()
    stage.outlets.send_frame(stage.session, e.SendFrame(QUESTION))
    stage.call.approval = None
    assert stage.kept() == []


@pytest.mark.parametrize(
    "large", [{"held": True}, {"snapshot": b"x" * (64 * 1024 + 1)}], ids=["not kept yet", "large"]
)
def test_a_snapshot_that_is_large_or_ahead_of_the_store_is_made_when_its_turn_has_come(large):
    stage = Stage(**large)
    stage.outlets.open_stream(stage.session, e.OpenStream(KEY, None, None))
    assert stage.kept() == [("open", None)]


def test_p8_a_thread_that_was_deleted_while_its_stream_waited_is_not_made_anew():
    stage = Stage()
    stage.outlets.open_stream(stage.session, e.OpenStream(KEY, None, None))
    stage.threads.clear()
    assert stage.kept() == []
    assert stage.threads == {}


def test_a_page_for_which_something_broke_loses_its_socket_and_nobody_else_does():
    stage = Stage()
    stage.outlets.give_up(None)
    stage.outlets.give_up(SimpleNamespace(connection=None))
    assert stage.closed == []
    stage.outlets.give_up(stage.session)
    assert stage.closed == [(CloseCode.OUR_FAULT,)]


def test_a_socket_that_is_to_close_is_nobodys_at_once_and_closes_behind_what_was_said():
    stage = Stage()
    stage.outlets.send_frame(stage.session, e.SendFrame(f.Ping()))
    close = e.CloseSocket(ConnectionId(1), CloseCode.NORMAL, "bye")
    stage.outlets.close_socket(stage.session, close)
    stage.outlets.close_socket(stage.session, close)
    assert stage.outlets.of(stage.session) is None
    assert stage.outlets.of(None) is None
    assert stage.closed == []
    stage.kept()
    assert stage.closed == [(CloseCode.NORMAL, "bye")]


def test_a_page_whose_thread_cannot_be_read_begins_anew():
    stage = Stage()
    stage.threads.clear()
    stage.outlets.open_stream(stage.session, e.OpenStream(KEY, None, None))
    assert stage.closed == [(CloseCode.OUR_FAULT,)]
    assert stage.kept() == []


def test_p2_a_superseded_socket_closes_at_once_so_that_what_it_was_offered_is_not_written():
    stage = Stage()
    superseded = e.CloseSocket(ConnectionId(1), CloseCode.SUPERSEDED, "superseded")
    stage.outlets.close_socket(stage.session, superseded)
    assert stage.closed == [(CloseCode.SUPERSEDED, "superseded")]
