"""A command sent again is not carried out again (P2); what is kept is bounded (P12)."""

from handspan.core.replies import Replies
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
