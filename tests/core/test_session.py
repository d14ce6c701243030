"""One page's identity: every input it may be told, and the whole list of what it orders then."""

from dataclasses import replace
from typing import get_args

import pytest
from tests.core.builders import World, spec, tool

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.entries import Entry
from handspan.core.greeting import JOURNAL_READ
from handspan.core.parties import Asker, ConnectionId, PageView, Principal, ThreadKey
from handspan.core.policy import Policy
from handspan.core.session import _HANDLERS, Session
from handspan_protocol import frames as f
from handspan_protocol.errors import CommandCode, PeerError

NOW = 1_000.0
T1, T2, T3 = (ThreadKey("eva", name) for name in ("t1", "t2", "t3"))
SEEN = PageView(session="s:1", document="d-1", seen_at=NOW)
"""The page as its threads see it after its first hello."""


class Lone:
    """A session without a world: `tell` is the whole list of what it orders."""

    def __init__(self, server=(), agents=("default",), **policy):
        world = World(Policy(**policy), server=server, agents=agents)
        self.session: Session = world.session(Principal("eva"))
        self.now = NOW

    def tell(self, event):
        return self.session.handle(event, self.now)

    def hello(self, *threads, connection=1, document="d-1", denied=(), refusal=None, **fields):
        wishes = tuple(x if isinstance(x, f.ThreadWish) else wish(x) for x in threads)
        frame = f.Hello(protocol=1, document_id=document, threads=wishes, **fields)
        greeted = s.Greeted(ConnectionId(connection), frame, refusal, frozenset(denied))
        return self.tell(greeted)

    def frame(self, frame, *, allowed=True, connection=1):
        return self.tell(s.FrameReceived(ConnectionId(connection), frame, allowed))

    def lose(self, connection=1):
        return self.tell(s.SocketLost(ConnectionId(connection)))

    def wait(self, seconds):
        self.now += seconds
        return self.tell(i.DeadlinePassed())


def wish(name, epoch=None, offset=None):
    return f.ThreadWish(thread_id=name, epoch=epoch, offset=offset)


def open_page(*threads, **more):
    """A session whose page has said hello and opened these threads."""
    lone = Lone(**more)
    lone.hello(*threads)
    return lone


def offer(call_id="c1", attempt=1, key=T1, after=7):
    frame = f.ToolCall(
        call_id=call_id,
        attempt=attempt,
        thread_id=key.thread_id,
        run_id="r",
        depth=0,
        name="t",
        args={},
        raw_args="{}",
        timeout_ms=1,
        revision=1,
    )
    return s.CallOffered(key, frame, after)


def cancel(call_id="c1", attempt=1, reason="aborted"):
    return f.ToolCancel(call_id=call_id, attempt=attempt, reason=reason)


def entry(call_id="c1", attempt=1, state="received"):
    return f.JournalEntry(call_id=call_id, attempt=attempt, state=state)


def tells(message, *keys, create=False):
    return [e.TellThread(key, message, create) for key in keys]


def reply(command="1", **fields):
    return e.SendFrame(f.Reply(id=command, **fields))


def refused(code, message, path=None, command="1"):
    return reply(command, error=f.WireError(code=code, message=message, path=path))


def sent(effects):
    return [effect.frame for effect in effects if isinstance(effect, e.SendFrame)]


def test_every_input_of_a_session_has_a_handler():
    assert set(_HANDLERS) == set(get_args(s.SessionInput))


# ---- hello --------------------------------------------------------------------------------------


def test_a_first_hello_is_welcomed_and_its_threads_are_opened_in_its_order():
    lone = Lone(agents=("default", "other"), heartbeat=7.5)
    effects = lone.hello("t2", wish("t1", "e", 3), "x", denied=["x"], refusal="unknown_session")
    forbidden = f.WireError(code="forbidden", message="not yours to open")
    welcome = f.Welcome(
        protocol=1,
        session=f.SessionGrant(id="s:1", secret="secret:1"),
        resumed=False,
        reason="unknown_session",
        agents=("default", "other"),
        limits=lone.session.policy.told(),
        heartbeat_ms=7_500,
        threads=(
            f.ThreadOpened(thread_id="t2"),
            f.ThreadOpened(thread_id="t1"),
            f.ThreadOpened(thread_id="x", error=forbidden),
        ),
        tools=f.ToolsVerdict(),
    )
    assert effects == [
        e.SendFrame(welcome),
        e.OpenStream(T2, None, None),
        *tells(i.PageOpened(SEEN), T2, create=True),
        e.OpenStream(T1, "e", 3),
        *tells(i.PageOpened(SEEN), T1, create=True),
    ]
    assert list(lone.session.open) == ["t2", "t1"]
    assert lone.session.knows("secret:1")
    assert not lone.session.knows("secret:2")


def test_a_hello_brings_tools_and_context_before_its_threads_see_the_page():
    lone = Lone(server=[spec("srv")])
    item = f.ContextItem(name="cart", value=[])
    effects = lone.hello("t1", tools=(tool("t"), tool("srv")), context=(item,), visible=False)
    (welcome,) = sent(effects)
    assert welcome.tools.accepted == ("t",)
    assert [one.code for one in welcome.tools.rejected] == ["name_taken"]
    opened = effects[-1].message.page
    assert (list(opened.tools), opened.revision, opened.context) == (["t"], 1, (item,))
    assert (opened.visible, opened.seen_at) == (False, NOW)


def test_p12_too_much_context_of_a_hello_costs_only_itself():
    lone = Lone(context_bytes=40)
    effects = lone.hello("t1", context=(f.ContextItem(name="x", value="y" * 50),))
    error = f.Error(code="too_large", message="the context has 63 bytes, over 40", retryable=False)
    assert [type(frame) for frame in sent(effects)] == [f.Welcome, f.Error]
    assert sent(effects)[1] == error
    assert effects[-1] == e.TellThread(T1, i.PageOpened(SEEN), create=True)


def test_p12_threads_beyond_the_limit_are_told_so_and_not_opened():
    lone = Lone(open_threads=1)
    effects = lone.hello("t1", "t2")
    too_many = f.WireError(code="limit", message="too many open threads")
    assert sent(effects)[0].threads == (
        f.ThreadOpened(thread_id="t1"),
        f.ThreadOpened(thread_id="t2", error=too_many),
    )
    assert list(lone.session.open) == ["t1"]


# ---- coming back --------------------------------------------------------------------------------


def claim(secret="secret:1"):
    return f.SessionClaim(id="s:1", secret=secret)


@pytest.mark.parametrize("lost", [False, True])
def test_p9_the_newest_socket_is_the_live_one(lost):
    """The one before is closed, and whatever it still says is not heard."""
    lone = open_page("t1")
    if lost:
        lone.lose()
    effects = lone.hello("t1", connection=2, session=claim())
    superseded = [] if lost else [e.CloseSocket(ConnectionId(1), 4409, "superseded")]
    assert effects == [
        *superseded,
        e.SendFrame(sent(effects)[0]),
        *tells(i.PageReturned(SEEN, (), "d-1"), T1),
        e.OpenStream(T1, None, None),
    ]
    assert sent(effects)[0].resumed is True
    assert lone.frame(f.ThreadList(id="1"), connection=1) == []
    assert lone.lose(1) == []
    assert lone.frame(f.ThreadList(id="1"), connection=2) == [e.ListThreads("d-1 1")]


def test_p9_of_the_secrets_the_presented_one_and_the_new_one_are_good():
    lone = open_page()
    lone.hello(connection=2, session=claim("secret:1"))
    assert [lone.session.knows(f"secret:{n}") for n in (1, 2, 3)] == [True, True, False]
    lone.hello(connection=3, session=claim("secret:2"))
    assert [lone.session.knows(f"secret:{n}") for n in (1, 2, 3)] == [False, True, True]


def test_every_thread_that_the_page_has_to_do_with_hears_that_it_is_back_each_once():
    """It reads t1, holds a call of t2, started a run on t3; and t1 is no longer wished for."""
    lone = open_page("t1")
    lone.tell(offer("c1", key=T2))
    lone.tell(s.RunCounted(T3, 1, 0))
    lone.tell(s.RunCounted(T1, 0, 1))
    journal = (entry("c1"),)
    effects = lone.hello("t4", connection=2, document="d-2", calls=journal)
    now = replace(SEEN, document="d-2")
    t4 = ThreadKey("eva", "t4")
    assert effects[2:] == [
        *tells(i.PageReturned(now, journal, "d-1"), T1, T2, T3),
        e.OpenStream(t4, None, None),
        *tells(i.PageOpened(now), t4, create=True),
        *tells(i.PageClosed("s:1"), T1),
    ]


def test_what_is_not_said_again_is_kept_also_by_a_new_document():
    lone = Lone()
    lone.hello(tools=(tool("t"),), context=(f.ContextItem(name="x"),))
    lone.hello("t1", connection=2, document="d-2")
    view = lone.session.view()
    assert (list(view.tools), len(view.context)) == (["t"], 1)
    lone.hello("t1", connection=3, document="d-2", tools=(), context=())
    view = lone.session.view()
    assert (list(view.tools), view.context) == ([], ())


JOURNALS = [
    ("it holds that attempt", entry("held", 2), None),
    ("it holds another attempt", entry("held", 1), "superseded"),
    ("it was taken away, and why is known", entry("timed out"), "timeout"),
    ("it was taken away in silence", entry("silent"), "unknown"),
    ("nobody knows it", entry("stranger"), "unknown"),
]


@pytest.mark.parametrize(
    ("known", "reason"), [c[1:] for c in JOURNALS], ids=[c[0] for c in JOURNALS]
)
def test_a_journal_entry_that_is_not_held_at_that_attempt_is_called_off(known, reason):
    lone = open_page("t1")
    for call_id, attempt in (("held", 2), ("timed out", 1), ("silent", 1)):
        lone.tell(offer(call_id, attempt))
    lone.lose()
    lone.tell(s.CallTaken("timed out", cancel("timed out", reason="timeout")))
    lone.tell(s.CallTaken("silent", None))
    frames = sent(lone.hello("t1", connection=2, calls=(known,)))[1:]
    called_off = cancel(known.call_id, known.attempt, reason)
    assert frames == ([] if reason is None else [called_off])


def test_p12_of_a_long_journal_only_the_beginning_is_read():
    lone = open_page("t1")
    journal = tuple(entry(f"c{n}") for n in range(JOURNAL_READ + 5))
    effects = lone.hello("t1", connection=2, calls=journal)
    assert len(sent(effects)) == 1 + JOURNAL_READ
    (returned,) = [x.message for x in effects if isinstance(x, e.TellThread)]
    assert returned.journal == journal[:JOURNAL_READ]


# ---- without a socket ---------------------------------------------------------------------------


def test_threads_hear_that_the_socket_is_lost_and_the_session_waits():
    lone = open_page("t1")
    lone.now += 5
    assert lone.lose() == tells(i.PageChanged(replace(SEEN, attached=False)), T1)
    assert lone.session.connection is None
    assert lone.lose() == []


def test_p12_the_document_is_gone_after_the_grace_and_the_session_after_the_window():
    lone = open_page("t1", page_grace=30, resume_window=120)
    assert lone.session.next_deadline() is None
    assert lone.wait(1) == []
    lost = lone.now
    lone.lose()
    assert lone.session.next_deadline() == lost + 30
    assert lone.wait(29.9) == []
    lone.now = lost
    assert lone.wait(30) == tells(i.DocumentGone("s:1", lost, False), T1)
    assert lone.session.next_deadline() == lost + 120
    assert lone.wait(1) == []
    lone.now = lost
    assert lone.wait(120) == [*tells(i.DocumentGone("s:1", lost, True), T1), e.SessionOver()]
    assert lone.session.over
    assert lone.session.next_deadline() is None


def test_a_grace_longer_than_the_window_ends_with_it():
    lone = open_page("t1", page_grace=30, resume_window=20)
    lone.lose()
    assert lone.session.next_deadline() == NOW + 20
    assert lone.wait(20) == [*tells(i.DocumentGone("s:1", NOW, True), T1), e.SessionOver()]


def test_p9_who_is_back_in_time_is_neither_gone_nor_over():
    lone = open_page("t1", page_grace=30, resume_window=120)
    for connection in (1, 2):
        lone.lose(connection)
        lone.wait(31)
        lone.hello("t1", connection=connection + 1)
        assert lone.session.next_deadline() is None
    lone.lose(3)
    assert lone.session.next_deadline() == lone.now + 30


def test_what_is_said_to_a_page_without_a_socket_is_not_sent():
    lone = open_page("t1")
    lone.frame(f.ThreadList(id="1"))
    lone.lose()
    assert lone.tell(s.ApprovalAsked(QUESTION)) == []
    assert lone.tell(s.Answered("d-1 1", {"threads": []})) == []
    assert lone.tell(offer()) == []
    lone.hello("t1", connection=2)
    assert lone.frame(f.ThreadList(id="1"), connection=2) == [reply(result={"threads": []})]


def test_a_session_that_is_over_does_nothing_whatever_it_is_told():
    lone = open_page("t1")
    lone.now += 1
    assert lone.frame(f.Bye()) == [
        *tells(i.DocumentGone("s:1", NOW + 1, True), T1),
        e.CloseSocket(ConnectionId(1), 1000, "bye"),
        e.SessionOver(),
    ]
    assert lone.hello("t1", connection=2) == []
    assert lone.tell(offer()) == []
    assert lone.frame(f.Bye()) == []
    assert lone.wait(1_000) == []


# ---- commands, sent once and again --------------------------------------------------------------


def test_p2_a_command_is_carried_out_once_and_answered_as_often_as_it_is_sent():
    lone = open_page("t1")
    command = f.ThreadList(id="1")
    assert lone.frame(command) == [e.ListThreads("d-1 1")]
    assert lone.frame(command) == []
    assert lone.tell(s.Answered("d-1 1", {"threads": []})) == [reply(result={"threads": []})]
    assert lone.frame(command) == [reply(result={"threads": []})]
    assert lone.tell(s.Answered("d-1 1", "again")) == []
    assert lone.tell(s.Answered("d-1 2", "nobody asked")) == []


def test_p2_another_command_under_the_same_id_is_told_and_the_first_one_still_answered():
    lone = open_page("t1")
    lone.frame(f.ThreadList(id="1"))
    used = refused("duplicate_id", "this id was used for another command")
    assert lone.frame(f.ThreadClose(id="1", thread_id="t1")) == [used]
    assert list(lone.session.open) == ["t1"]
    assert lone.tell(s.Answered("d-1 1", {})) == [reply(result={})]


def test_p2_an_answer_for_an_earlier_document_is_kept_and_not_sent_to_the_new_one():
    lone = open_page("t1")
    lone.frame(f.ThreadList(id="1"))
    lone.hello("t1", connection=2, document="d-2")
    assert lone.tell(s.Answered("d-1 1", "old")) == []
    assert lone.frame(f.ThreadList(id="1"), connection=2) == [e.ListThreads("d-2 1")]
    assert lone.tell(s.Answered("d-2 1", "new")) == [reply(result="new")]
    lone.hello("t1", connection=3, document="d-1")
    assert lone.frame(f.ThreadList(id="1"), connection=3) == [reply(result="old")]


def test_an_answer_that_is_an_error_is_told_with_its_code_and_path():
    lone = open_page("t1")
    lone.frame(f.ThreadList(id="1"))
    problem = PeerError(CommandCode.BUSY, "not now", "/threadId")
    assert lone.tell(s.Answered("d-1 1", error=problem)) == [
        refused("busy", "not now", "/threadId")
    ]


def test_an_id_with_a_space_is_an_id():
    lone = open_page("t1")
    assert lone.frame(f.ThreadList(id="a b c")) == [e.ListThreads("d-1 a b c")]
    assert lone.tell(s.Answered("d-1 a b c", 1)) == [reply("a b c", result=1)]


def test_what_is_not_allowed_is_not_carried_out_and_the_answer_stands():
    lone = open_page("t1")
    command = f.ThreadClose(id="1", thread_id="t1")
    no = refused("forbidden", "not allowed")
    assert lone.frame(command, allowed=False) == [no]
    assert lone.frame(command) == [no]
    assert list(lone.session.open) == ["t1"]


def test_p12_the_replies_that_are_kept_are_bounded_by_their_bytes():
    lone = open_page("t1", replies_bytes=1_000)
    for n in (1, 2):
        lone.frame(f.ThreadList(id=str(n)))
        lone.tell(s.Answered(f"d-1 {n}", "x" * 600))
    assert lone.frame(f.ThreadList(id="2")) == [reply("2", result="x" * 600)]
    assert lone.frame(f.ThreadList(id="1")) == [e.ListThreads("d-1 1")]


def test_p12_refusals_count_with_their_message():
    lone = open_page("t1", replies_bytes=1_000)
    for n in range(6):
        lone.frame(f.ThreadList(id=str(n)))
        lone.tell(s.Answered(f"d-1 {n}", error=PeerError(CommandCode.BUSY, "x" * 150)))
    again = [lone.frame(f.ThreadList(id=str(n))) for n in range(6)]
    assert [type(effects[0]) for effects in again] == [e.ListThreads] * 2 + [e.SendFrame] * 4


# ---- notices ------------------------------------------------------------------------------------


def test_a_notice_is_not_answered_and_not_kept():
    lone = open_page("t1")
    progress = f.ToolProgress(call_id="c1", attempt=2, progress=1, total=3, message="on it")
    made = e.TellCall("c1", i.ProgressMade("s:1", "c1", 2, 1, 3, "on it"), None)
    assert [lone.frame(progress), lone.frame(progress)] == [[made], [made]]
    assert lone.frame(f.Pong()) == []


SIGHTS = [
    ("never looked away", [True], (True, NOW + 1)),
    ("looks away now: seen until now", [False], (False, NOW + 1)),
    ("looked away before: seen until then", [False, False], (False, NOW + 1)),
    ("looks again", [False, False, True], (True, NOW + 3)),
]


@pytest.mark.parametrize(("looks", "seen"), [c[1:] for c in SIGHTS], ids=[c[0] for c in SIGHTS])
def test_threads_hear_when_the_page_was_last_seen(looks, seen):
    lone = open_page("t1")
    for visible in looks:
        lone.now += 1
        effects = lone.frame(f.Visibility(visible=visible))
    visible, seen_at = seen
    view = replace(SEEN, visible=visible, seen_at=seen_at)
    assert effects == tells(i.PageChanged(view), T1)


# ---- calls, questions, runs, threads ------------------------------------------------------------

QUESTION = f.ApprovalRequest(
    call_id="c", thread_id="t1", run_id="r", name="t", args={}, digest="d", expires_ms=1
)


def test_a_call_is_held_and_sent_behind_its_threads_events():
    lone = open_page("t1")
    offered = offer("c1", after=7)
    assert lone.tell(offered) == [e.SendCall(offered.frame, 7)]
    assert lone.session.holding.calls == {"c1": (T1, 1)}


def test_p12_a_page_that_holds_too_many_calls_refuses_another_but_not_a_new_attempt():
    lone = open_page("t1", open_calls_per_session=2)
    lone.tell(offer("c1"))
    lone.tell(offer("c2"))
    assert lone.tell(offer("c3", 4, T2)) == tells(i.CallRefused("s:1", "c3", 4), T2)
    again = offer("c2", 2)
    assert lone.tell(again) == [e.SendCall(again.frame, 7)]
    assert lone.session.holding.calls == {"c1": (T1, 1), "c2": (T1, 2)}
    lone.tell(s.CallTaken("c1", None))
    free = offer("c3", 4, T2)
    assert lone.tell(free) == [e.SendCall(free.frame, 7)]


@pytest.mark.parametrize("told", [None, cancel(reason="timeout")])
def test_a_call_that_is_taken_away_is_dropped_once(told):
    lone = open_page("t1")
    lone.tell(offer("c1"))
    assert lone.tell(s.CallTaken("c1", told)) == [e.DropCall("c1", told)]
    assert lone.session.holding.calls == {}
    assert lone.tell(s.CallTaken("c1", told)) == []


def test_p10_a_question_is_sent_to_the_page():
    assert open_page("t1").tell(s.ApprovalAsked(QUESTION)) == [e.SendFrame(QUESTION)]


def test_runs_are_counted_by_thread_until_they_are_over():
    lone = open_page()
    for running, queued in ((1, 0), (0, 1), (0, 1), (1, -1), (-1, 0)):
        assert lone.tell(s.RunCounted(T1, running, queued)) == []
    assert (lone.session.running, lone.session.queued) == ({T1: 1}, {T1: 1})
    lone.tell(s.RunCounted(T1, -1, -1))
    assert lone.lose() == [], "a thread on which nothing of its runs need not hear of it"


def test_p8_a_thread_that_was_deleted_is_read_no_more():
    lone = open_page("t1", "t2")
    assert lone.tell(s.ThreadGone(T1)) == [e.CloseStream("t1")]
    assert lone.tell(s.ThreadGone(T1)) == []
    assert list(lone.session.open) == ["t2"]


def test_p12_a_page_reads_no_more_threads_than_it_may_and_may_set_a_cursor_anew():
    lone = open_page("t1", open_threads=1)
    full = refused("limit", "over 1 open threads")
    assert lone.frame(f.ThreadOpen(id="1", thread_id="t2")) == [full]
    assert list(lone.session.open) == ["t1"]
    assert lone.frame(f.ThreadOpen(id="2", thread_id="t1", epoch="e", offset=4)) == [
        reply("2", result={"threadId": "t1"}),
        e.OpenStream(T1, "e", 4),
        *tells(i.PageOpened(SEEN), T1, create=True),
    ]


def test_a_server_that_goes_down_takes_no_new_runs():
    lone = open_page("t1")
    start = f.RunStart(id="0", thread_id="t1", message="hi")
    assert [type(effect.message) for effect in lone.frame(start)] == [i.RunRequested]
    assert lone.tell(s.Draining()) == []
    no = refused("draining", "the server is going down")
    assert lone.frame(replace(start, id="1")) == [no]
    assert lone.frame(f.RunAbort(id="2", thread_id="t1")) == tells(
        i.AbortRequested(Asker("s:1", "d-1 2"), None), T1
    )


def test_p15_the_same_inputs_give_the_same_effects():
    def once():
        lone = Lone()
        return [
            lone.hello("t1", "t2", context=()),
            lone.tell(offer()),
            lone.frame(f.ThreadOpen(id="1")),
            lone.lose(),
            lone.wait(40),
            lone.hello("t1", connection=2, document="d-2", calls=(entry("zz"),)),
            lone.frame(f.Bye(), connection=2),
        ]

    assert once() == once()


# ---- over a restart -----------------------------------------------------------------------------


def test_p16_a_session_that_nobody_keeps_has_nothing_to_write():
    assert open_page("t1").session.changes() == []


def test_p16_a_session_of_the_store_waits_for_its_page_and_says_only_what_is_new():
    kept = Lone()
    kept.session.keep()
    kept.hello("t1")
    changes = kept.session.changes()
    assert [change.part for change in changes] == ["self"]
    entries = [Entry(change.part, change.name, change.body) for change in changes]
    lone = Lone()
    lone.session.restore(entries, NOW)
    session = lone.session
    assert (session.document, session.changes(), session.connection) == ("d-1", [], None)
    assert session.view() == replace(SEEN, attached=False)
    assert session.next_deadline() == NOW + 30
    welcome = sent(lone.hello("t1", session=claim()))[0]
    assert welcome.resumed
    assert [change.part for change in session.changes()] == ["self"]
