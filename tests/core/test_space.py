"""What a thread's parts share: one door for events, one list of orders, who may be called."""

import pytest
from tests.core.builders import CountedIds, page, spec, specs

from handspan.core import effects as e
from handspan.core import session_inputs as s
from handspan.core.parties import Asker, ThreadKey
from handspan.core.policy import Policy
from handspan.core.space import Space
from handspan_protocol.codec import parse_json
from handspan_protocol.errors import CommandCode, PeerError, UsageError
from handspan_protocol.frames import ContextItem

KEY = ThreadKey("anonymous", "t1")
START = {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}
HEAD = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":'


def space(**policy):
    return Space(KEY, Policy(**policy), CountedIds(), specs(spec("srv")))


def logged(one):
    return [parse_json(event) for event in one.log.read(one.log.base, 1 << 30)]


def test_a_thread_begins_with_an_empty_log_of_its_own_and_nobody_there():
    one = space(log_events=2, log_bytes=1_000)
    assert (one.key, one.log.epoch, one.log.head) == (KEY, "e:1", 0)
    assert (one.pages, one.readers, one.effects, one.now) == ({}, set(), [], 0.0)
    assert one.server.keys() == {"srv"}
    assert (one.policy.log_bytes, one.ids.new("m")) == (1_000, "m:1")
    for n in range(3):
        one.custom("call", n)
    assert (one.log.base, one.log.head) == (1, 3)


def test_p6_an_event_is_in_the_log_and_in_the_messages_at_once():
    one = space()
    one.emit(START)
    one.emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "hi"})
    assert [event["type"] for event in logged(one)] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
    ]
    assert one.transcript.view() == ({"id": "m1", "role": "assistant", "content": "hi"},)
    assert one.effects == []


def test_what_a_sub_run_says_carries_its_id():
    one = space()
    one.emit(dict(START), "r2")
    one.custom("call", 1, "r2")
    assert [event["subagentRunId"] for event in logged(one)] == ["r2", "r2"]
    assert one.transcript.view()[0]["subagentRunId"] == "r2"


@pytest.mark.parametrize("delta", ["x", 'a "quoted" \\ line\n', "é 😀", "\x00\u2028"])
def test_p6_a_delta_by_the_short_way_is_the_event_that_emit_makes(delta):
    short, long = space(), space()
    for one in (short, long):
        one.emit(START)
    short.emit_delta(HEAD, "m1", delta)
    long.emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": delta})
    assert logged(short) == logged(long)
    assert short.transcript.view() == long.transcript.view()


def test_p9_an_event_that_is_no_json_changes_neither_log_nor_messages():
    one = space()
    with pytest.raises(UsageError):
        one.emit({**START, "name": float("nan")})
    assert (one.log.head, one.transcript.view()) == (0, ())


def test_what_ag_ui_has_no_event_for_is_custom_with_our_name():
    one = space()
    one.custom("call", {"callId": "c"})
    assert logged(one) == [{"type": "CUSTOM", "name": "handspan.call", "value": {"callId": "c"}}]


def test_orders_stand_in_the_order_they_were_given():
    one = space()
    asker, refused = Asker("a", "d 1"), PeerError(CommandCode.BUSY, "no")
    one.record("call_settled", callId="c")
    one.tell("a", s.RunCounted(KEY, 1, 0))
    one.reply(asker, {"n": 1})
    one.reply(asker, error=refused)
    one.do(e.ThreadOver())
    assert one.effects == [
        e.Record((e.Fact(KEY, "call_settled", {"callId": "c"}),)),
        e.TellSession("a", s.RunCounted(KEY, 1, 0)),
        e.Reply(asker, {"n": 1}, None),
        e.Reply(asker, None, refused),
        e.ThreadOver(),
    ]


@pytest.mark.parametrize(
    ("starter", "serving"),
    [(None, ["b", "c"]), ("a", ["a", "b", "c"]), ("b", ["b", "c"]), ("gone", ["b", "c"])],
)
def test_p13_a_run_may_call_the_readers_and_the_page_that_started_it(starter, serving):
    one = space()
    one.pages = {name: page(name) for name in ("a", "b", "c")}
    one.readers = {"c", "b"}
    assert [found.session for found in one.serving(starter)] == serving


def said(**values):
    return tuple(ContextItem(name=name, value=value) for name, value in values.items())


CONTEXTS = [
    ("nobody said anything", (), (), (), {}),
    ("only the page", said(a=1), (), said(a=1), {"a": 1}),
    ("only the run", (), said(a=2), (), {"a": 2}),
    ("the run's own wins over what the page said then", said(a=1), said(a=2), said(a=1), {"a": 2}),
    ("and no longer, once the page says something new", said(a=3), said(a=2), said(a=1), {"a": 3}),
    ("names of both stand", said(a=1), said(b=2), said(a=1), {"a": 1, "b": 2}),
    ("an item the page took back is gone", (), said(b=2), said(a=1), {"b": 2}),
]


@pytest.mark.parametrize(
    ("now", "own", "began", "shown"), [c[1:] for c in CONTEXTS], ids=[c[0] for c in CONTEXTS]
)
def test_a_step_sees_the_newest_of_what_the_page_and_the_run_say(now, own, began, shown):
    one = space()
    one.pages = {"a": page("a", context=now), "b": page("b", context=said(a="another's"))}
    seen = one.context_of("a", own, began)
    assert {item.name: item.value for item in seen} == shown


@pytest.mark.parametrize("starter", [None, "gone"])
def test_a_run_without_a_page_sees_its_own_context_only(starter):
    one = space()
    one.pages = {"b": page("b", context=said(a="another's"))}
    assert one.context_of(starter, said(a=2), ()) == said(a=2)


def test_p6_an_id_is_whose_began_it_until_the_next_run():
    one = space()
    one.emit({"type": "RUN_STARTED", "threadId": "t1", "runId": "r"})
    one.emit({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}, "sub")
    one.emit({"type": "TEXT_MESSAGE_END", "messageId": "m"}, "sub")
    assert [one.is_anothers("m", owner) for owner in (None, "sub", "other")] == [True, False, True]
    assert not one.is_anothers("free", None)
    one.emit({"type": "RUN_STARTED", "threadId": "t1", "runId": "r2"})
    assert not one.is_anothers("m", None)
