"""Messages and state as a fold over the log; what P1 forbids in a history; cutting one."""

import pytest
from tests.protocol.vectors import cases, each

from handspan.core.transcript import Transcript, broken_rules, patched
from handspan_protocol.content import equal_json
from handspan_protocol.errors import UsageError


def folded(events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


@each("fold.jsonl")
def test_p9_the_fold_is_that_of_the_vectors(case):
    transcript = folded(case["events"])
    assert list(transcript.view()) == case["messages"]
    assert equal_json(transcript.state, case["state"])


@each("fold.jsonl")
def test_p9_looking_in_between_changes_nothing(case):
    transcript = Transcript()
    for event in case["events"]:
        transcript.apply(event)
        transcript.view()
    assert list(transcript.view()) == case["messages"]


def user(name):
    return {"id": name, "role": "user", "content": name}


def calling(name, *calls):
    made = [
        {"id": call, "type": "function", "function": {"name": "t", "arguments": "{}"}}
        for call in calls
    ]
    return {"id": name, "role": "assistant", **({"toolCalls": made} if made else {"content": "x"})}


def result(call):
    return {"id": f"of {call}", "role": "tool", "toolCallId": call, "content": "ok"}


GOOD = [
    [],
    [user("u1"), calling("a1")],
    [calling("a1", "c1"), result("c1")],
    [calling("a1", "c1", "c2"), result("c1"), result("c2"), calling("a2", "c3"), result("c3")],
    [calling("a1", "c1"), result("c1"), user("u1"), calling("a2")],
]
BAD = [
    ("no result", [calling("a1", "c1")]),
    ("no result of the second", [calling("a1", "c1", "c2"), result("c1")]),
    ("another order", [calling("a1", "c1", "c2"), result("c2"), result("c1")]),
    ("a text between", [calling("a1", "c1"), user("u1"), result("c1")]),
    ("two results", [calling("a1", "c1"), result("c1"), result("c1")]),
    ("a result of nothing", [user("u1"), result("c1")]),
    ("a result at the head", [result("c1"), calling("a1", "c1")]),
    (
        "a thought between",
        [calling("a1", "c1"), {"id": "r", "role": "reasoning", "content": ""}, result("c1")],
    ),
]


@pytest.mark.parametrize("messages", GOOD)
def test_p1_a_valid_history_breaks_no_rule(messages):
    assert broken_rules(messages) == []


@pytest.mark.parametrize("messages", [c[1] for c in BAD], ids=[c[0] for c in BAD])
def test_p1_a_history_that_no_model_would_take_is_told(messages):
    assert broken_rules(messages)


def test_p1_sub_runs_are_counted_apart():
    outer = [calling("a1", "c1"), result("c1")]
    inner = [{**message, "subagentRunId": "s1"} for message in (calling("a2", "c2"), result("c2"))]
    assert broken_rules([outer[0], inner[0], outer[1], inner[1]]) == []
    assert broken_rules([outer[0], inner[0], outer[1]])


TURNS = [
    message
    for n in range(3)
    for message in (
        user(f"u{n}"),
        calling(f"a{n}", f"c{n}", f"d{n}"),
        result(f"c{n}"),
        result(f"d{n}"),
        calling(f"z{n}"),
    )
]


@pytest.mark.parametrize("message", [m["id"] for m in TURNS])
def test_p1_a_cut_takes_a_call_with_its_results_or_leaves_both(message):
    """C056."""
    transcript = Transcript()
    transcript.replace(TURNS)
    cut = transcript.cut_after(message)
    assert cut is not None
    assert broken_rules(cut) == []
    assert list(cut) == TURNS[: len(cut)]
    assert message in [m["id"] for m in cut]


def test_there_is_no_cut_after_a_message_that_is_not_there():
    assert Transcript().cut_after("u1") is None


def test_a_history_that_was_replaced_shares_nothing_with_what_it_was_given():
    given = [calling("a1", "c1"), result("c1")]
    transcript = Transcript()
    transcript.replace(given)
    transcript.apply(
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "c2",
            "toolCallName": "t",
            "parentMessageId": "a1",
        }
    )
    assert len(given[0]["toolCalls"]) == 1


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "add", "path": "/b", "value": 1}, {"op": "remove", "path": "/not/there"}],
        [{"op": "nothing", "path": "/a"}],
        [{"op": "add"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 1, "value": 1}],
        [{"op": "move", "from": "/zz", "path": "/a"}],
        ["add"],
        [None],
    ],
)
def test_a_patch_that_fails_changes_nothing(patch):
    state = {"a": 1}
    with pytest.raises(UsageError):
        patched(state, patch)
    assert state == {"a": 1}


def test_a_patch_may_replace_the_whole():
    assert patched({"a": 1}, [{"op": "replace", "path": "", "value": [1]}]) == [1]


def test_size_grows_with_what_is_said():
    transcript = folded(
        [
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "12345"},
        ]
    )
    assert transcript.size_bytes == 5


def test_every_vector_is_read():
    assert len(cases("fold.jsonl")) > 50
