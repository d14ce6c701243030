"""A command sent again is not carried out again (P2); what is kept is bounded (P12)."""

from typing import get_args

import pytest

from handspan.core.replies import KEPT, Replies
from handspan_protocol import frames as f
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.errors import CommandCode
from handspan_protocol.frames import Reply, ThreadClose, ThreadList, ThreadOpen

DOC = "d-1"


def reply(name, result=None):
    return Reply(id=name, result=result)


def test_p2_the_same_command_is_new_once_then_at_work_then_answered():
    replies = Replies(10, 1_000)
    command = ThreadList(id="1")
    assert replies.begin(DOC, command) == "new"
    assert replies.begin(DOC, command) == "at_work"
    assert replies.finish(DOC, reply("1", {"n": 1}), 8)
    assert replies.begin(DOC, ThreadList(id="1")) == reply("1", {"n": 1})


def test_p2_another_body_under_the_same_id_is_told():
    replies = Replies(10, 1_000)
    replies.begin(DOC, ThreadClose(id="1", thread_id="t1"))
    assert replies.begin(DOC, ThreadClose(id="1", thread_id="t2")) == "other_body"
    assert replies.begin(DOC, ThreadOpen(id="1", thread_id="t1")) == "other_body"


def test_another_document_has_ids_of_its_own():
    replies = Replies(10, 1_000)
    replies.begin(DOC, ThreadList(id="1"))
    assert replies.begin("d-2", ThreadClose(id="1", thread_id="t1")) == "new"


def test_what_nobody_asked_or_what_was_answered_is_not_sent():
    replies = Replies(10, 1_000)
    assert not replies.finish(DOC, reply("1"), 1)
    replies.begin(DOC, ThreadList(id="1"))
    assert replies.finish(DOC, reply("1"), 1)
    assert not replies.finish(DOC, reply("1", "again"), 1)


def test_p12_the_oldest_answers_go_those_at_work_stay():
    replies = Replies(3, 1_000)
    replies.begin(DOC, ThreadList(id="at work"))
    for n in range(10):
        replies.begin(DOC, ThreadList(id=str(n)))
        replies.finish(DOC, reply(str(n)), 1)
    assert replies.begin(DOC, ThreadList(id="at work")) == "at_work"
    assert replies.begin(DOC, ThreadList(id="9")) == reply("9")
    assert replies.begin(DOC, ThreadList(id="0")) == "new"


def test_p12_bytes_are_counted_too():
    replies = Replies(1_000, 100)
    for n in range(4):
        replies.begin(DOC, ThreadList(id=str(n)))
        replies.finish(DOC, reply(str(n)), 60)
    assert replies.begin(DOC, ThreadList(id="3")) == reply("3")
    assert replies.begin(DOC, ThreadList(id="2")) == "new"


def test_p12_nothing_is_let_go_while_all_are_at_work():
    """A command that is carried out twice is worse than a reply too many."""
    replies = Replies(1, 10)
    for n in range(3):
        replies.begin(DOC, ThreadList(id=str(n)))
    assert replies.finish(DOC, reply("1", "x" * 50), 50)
    assert [replies.begin(DOC, ThreadList(id=n)) for n in "02"] == ["at_work", "at_work"]
    assert replies.begin(DOC, ThreadList(id="1")) == "new"


def test_p12_a_limit_that_is_reached_and_not_passed_lets_nothing_go():
    replies = Replies(2, 20)
    for n in "ab":
        replies.begin(DOC, ThreadList(id=n))
        replies.finish(DOC, reply(n), 10)
    assert [replies.begin(DOC, ThreadList(id=n)) for n in "ab"] == [reply("a"), reply("b")]


def test_p12_the_bytes_of_what_has_gone_are_free_again():
    replies = Replies(1_000, 100)
    for n in range(20):
        replies.begin(DOC, ThreadList(id=str(n)))
        replies.finish(DOC, reply(str(n)), 50)
    assert [replies.begin(DOC, ThreadList(id=n)) for n in ("18", "19")] == [
        reply("18"),
        reply("19"),
    ]


# ---- over a restart -----------------------------------------------------------------------------

FAILED = f.WireError(code=CommandCode.BUSY, message="a run is under way", path="/ifBusy")
REPLIED = [
    ("at work", None),
    ("a result", Reply(id="1", result={"threadId": "t1"})),
    ("null is a result", Reply(id="1", result=None)),
    ("an error", Reply(id="1", error=FAILED)),
]


def kept(**bounds):
    """Replies that somebody keeps."""
    replies = Replies(bounds.get("most", 10), bounds.get("most_bytes", 1_000))
    replies.changed = {}
    return replies


def changed(replies):
    names, replies.changed = list(replies.changed), {}
    return names


@pytest.mark.parametrize(("_", "replied"), REPLIED)
def test_p2_a_command_is_known_in_the_next_process_with_its_reply(_, replied):
    command, replies = ThreadOpen(id="1", thread_id="t1"), kept()
    replies.begin(DOC, command)
    if replied is not None:
        replies.finish(DOC, replied, 8)
    image = parse_json(encode(replies.image((DOC, "1"))))
    again = kept()
    again.restore((DOC, "1"), image)
    assert again.begin(DOC, command) == (replied or "at_work")
    assert again.begin(DOC, ThreadOpen(id="1", thread_id="t2")) == "other_body"
    assert again.image((DOC, "1")) == image
    assert again.finish(DOC, Reply(id="1", result=1), 3) is (replied is None)
    assert changed(again) == ([(DOC, "1")] if replied is None else [])


def test_p2_of_commands_that_do_something_twice_it_is_told_whenever_they_change():
    replies = kept()
    replies.begin(DOC, ThreadOpen(id="1", thread_id="t1"))
    assert changed(replies) == [(DOC, "1")]
    replies.begin(DOC, ThreadOpen(id="1", thread_id="t1"))
    assert changed(replies) == []
    replies.finish(DOC, reply("1"), 8)
    assert changed(replies) == [(DOC, "1")]
    assert set(get_args(f.Command)) >= KEPT


@pytest.mark.parametrize(
    "command",
    [f.ToolStarted(id="1", call_id="c", attempt=1), f.RunAbort(id="1", run_id="r")],
    ids=["leave to start", "an abort"],
)
def test_p2_what_would_be_answered_otherwise_the_second_time_has_the_reply_it_had(command):
    replies, again = kept(), kept()
    replies.begin(DOC, command)
    replies.finish(DOC, reply("1", {"status": "go"}), 8)
    assert changed(replies) == [(DOC, "1")]
    again.restore((DOC, "1"), replies.image((DOC, "1")))
    assert again.begin(DOC, command) == reply("1", {"status": "go"})


def test_commands_that_tell_themselves_apart_are_nobodys_to_keep():
    replies = kept()
    replies.begin(DOC, ThreadList(id="1"))
    replies.finish(DOC, reply("1"), 8)
    assert changed(replies) == []


def test_nothing_is_noted_where_nobody_keeps_replies():
    replies = Replies(10, 1_000)
    replies.begin(DOC, ThreadOpen(id="1", thread_id="t1"))
    replies.finish(DOC, reply("1"), 8)
    assert replies.changed is None


def test_p12_a_reply_that_has_left_is_told_and_is_known_no_longer():
    replies = kept(most=1)
    for name in ("1", "2"):
        replies.begin(DOC, ThreadOpen(id=name, thread_id="t1"))
        replies.finish(DOC, reply(name), 8)
    assert changed(replies) == [(DOC, "1"), (DOC, "2")]
    assert replies.image((DOC, "1")) is None
    assert replies.image((DOC, "2")) is not None


def test_p12_what_was_restored_counts_among_the_bytes():
    replies = kept(most_bytes=10)
    replies.restore((DOC, "1"), {"body": "00", "size": 8, "result": 1})
    replies.begin(DOC, ThreadOpen(id="2", thread_id="t1"))
    replies.finish(DOC, reply("2"), 8)
    assert replies.image((DOC, "1")) is None
