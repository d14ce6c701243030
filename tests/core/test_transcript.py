"""Messages and state as a fold over the log; what P1 forbids in a history; cutting one."""

import copy

import pytest
from tests.protocol.vectors import cases, each

from handspan.core.transcript import Touched, Transcript, broken_rules, patched
from handspan_protocol.codec import encode
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


# ---- what is known by its id --------------------------------------------------------------------


def start(kind, name, **more):
    return {"type": f"{kind}_START", "messageId": name, **more}


def says(kind, name, delta):
    return {"type": f"{kind}_CONTENT", "messageId": name, "delta": delta}


def end(kind, name):
    return {"type": f"{kind}_END", "messageId": name}


TEXT, THOUGHT = "TEXT_MESSAGE", "REASONING_MESSAGE"
CALL = {
    "type": "TOOL_CALL_START",
    "toolCallId": "c1",
    "toolCallName": "t",
    "parentMessageId": "m1",
}
ARGS = {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"}
CALL_END = {"type": "TOOL_CALL_END", "toolCallId": "c1"}
RESULT = {
    "type": "TOOL_CALL_RESULT",
    "messageId": "x1",
    "toolCallId": "c1",
    "content": "ok",
}
ACTIVITY = {
    "type": "ACTIVITY_SNAPSHOT",
    "messageId": "y1",
    "activityType": "plan",
    "content": {"steps": ["a"]},
}


def test_messages_and_calls_are_known_by_their_ids_and_roles():
    transcript = folded(
        [
            {"type": "RUN_STARTED", "runId": "r", "input": {"messages": [user("u1")]}},
            start(TEXT, "m1"),
            start(THOUGHT, "r1"),
            CALL,
            RESULT,
            ACTIVITY,
        ]
    )
    roles = {name: transcript.role_of(name) for name in ("u1", "m1", "r1", "x1", "y1", "zz", "c1")}
    assert roles == {
        "u1": "user",
        "m1": "assistant",
        "r1": "reasoning",
        "x1": "tool",
        "y1": "activity",
        "zz": None,
        "c1": None,
    }
    assert [transcript.has(name) for name in roles] == [role is not None for role in roles.values()]
    assert [transcript.has_call(name) for name in ("c1", "m1", "zz")] == [True, False, False]


def test_an_empty_text_of_an_assistant_leaves_no_message_and_its_id_is_free_again():
    transcript = folded([start(TEXT, "m1"), end(TEXT, "m1")])
    assert (transcript.view(), transcript.has("m1")) == ((), False)
    transcript.apply(start(TEXT, "m1"))
    transcript.apply(says(TEXT, "m1", "hi"))
    assert transcript.view() == ({"id": "m1", "role": "assistant", "content": "hi"},)


ON = [start(TEXT, "m1"), says(TEXT, "m1", "one"), CALL, ARGS, RESULT, ACTIVITY]
PASSED_OVER = [
    ("a delta of what is not there", says(TEXT, "zz", "x")),
    ("an end of what is not there", end(TEXT, "zz")),
    ("the start of a text that is there", start(TEXT, "m1", role="user")),
    ("the start of thoughts under another's id", start(THOUGHT, "m1")),
    ("arguments of a call that is not there", {**ARGS, "toolCallId": "zz"}),
    ("an end of a call that is not there", {**CALL_END, "toolCallId": "zz"}),
    ("a result under the id of another message", {**RESULT, "messageId": "m1", "content": "x"}),
    (
        "a message of a run's input that is there",
        {"type": "RUN_STARTED", "input": {"messages": [{**user("m1"), "content": "x"}]}},
    ),
    ("a run without input", {"type": "RUN_STARTED", "runId": "r"}),
    (
        "a patch of what is no activity",
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "m1",
            "patch": [{"op": "replace", "path": "", "value": {}}],
        },
    ),
    (
        "a patch of an activity that is not there",
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "zz",
            "patch": [{"op": "replace", "path": "", "value": {}}],
        },
    ),
    (
        "a patch that does not apply",
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "y1",
            "patch": [{"op": "remove", "path": "/steps"}, {"op": "remove", "path": "/steps"}],
        },
    ),
    (
        "a patch that leaves no object",
        {
            "type": "ACTIVITY_DELTA",
            "messageId": "y1",
            "patch": [{"op": "replace", "path": "", "value": [1]}],
        },
    ),
    ("an activity that must not replace", {**ACTIVITY, "content": {}, "replace": False}),
    (
        "a state patch that does not apply",
        {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/nothing"}]},
    ),
    ("what says nothing of messages", {"type": "STEP_STARTED", "stepName": "step-0"}),
    ("what nobody knows", {"type": "NOBODY_KNOWS"}),
]


@pytest.mark.parametrize("event", [c[1] for c in PASSED_OVER], ids=[c[0] for c in PASSED_OVER])
def test_p9_an_event_that_fits_nothing_changes_nothing(event):
    transcript = folded(ON)
    before = copy.deepcopy((transcript.view(), transcript.state, transcript.size_bytes))
    transcript.apply(event)
    assert (transcript.view(), transcript.state, transcript.size_bytes) == before


def test_an_activity_is_patched_or_replaced_where_it_stands():
    transcript = folded([ACTIVITY, start(TEXT, "m1"), says(TEXT, "m1", "x")])
    patch = [{"op": "add", "path": "/steps/-", "value": "b"}]
    transcript.apply({"type": "ACTIVITY_DELTA", "messageId": "y1", "patch": patch})
    assert transcript.view()[0]["content"] == {"steps": ["a", "b"]}
    assert ACTIVITY["content"] == {"steps": ["a"]}
    transcript.apply({**ACTIVITY, "activityType": "other", "content": {"n": 1}})
    assert [message["id"] for message in transcript.view()] == ["y1", "m1"]
    assert transcript.view()[0]["activityType"] == "other"


def test_a_delta_by_the_short_way_is_folded_as_its_event_is():
    short, long = folded([start(TEXT, "m1")]), folded([start(TEXT, "m1")])
    short.add_text("m1", "hi")
    short.add_text("zz", "nothing")
    long.apply(says(TEXT, "m1", "hi"))
    assert (short.view(), short.size_bytes) == (long.view(), long.size_bytes)


SIZES = [
    ("a text", [start(TEXT, "m1"), says(TEXT, "m1", "123"), end(TEXT, "m1")], 3),
    ("a thought", [start(THOUGHT, "r1"), says(THOUGHT, "r1", "1234")], 4),
    ("the arguments of a call", [CALL, ARGS, CALL_END], 2),
    ("a result", [CALL, RESULT], 2),
    (
        "what a user wrote",
        [{"type": "RUN_STARTED", "input": {"messages": [{**user("u1"), "content": "12345"}]}}],
        5,
    ),
    (
        "only what a new history holds",
        [
            start(TEXT, "m1"),
            says(TEXT, "m1", "123"),
            {"type": "MESSAGES_SNAPSHOT", "messages": [{**user("u1"), "content": "1"}]},
        ],
        1,
    ),
]


@pytest.mark.parametrize(("events", "size"), [c[1:] for c in SIZES], ids=[c[0] for c in SIZES])
def test_p12_the_text_that_a_history_holds_is_counted_once(events, size):
    assert folded(events).size_bytes == size


def test_p1_results_stand_behind_their_call_in_call_order_whatever_came_between():
    transcript = folded(
        [
            CALL,
            {**CALL, "toolCallId": "c2"},
            RESULT,
            start(TEXT, "m2"),
            says(TEXT, "m2", "x"),
            {**RESULT, "messageId": "x2", "toolCallId": "c2"},
        ]
    )
    assert [message["id"] for message in transcript.view()] == ["m1", "x1", "x2", "m2"]
    assert broken_rules(transcript.view()) == []


def test_a_list_that_lost_a_message_it_knows_is_told_at_once():
    """Nobody but `apply` may change the messages; whoever does hears of it."""
    transcript = folded([ACTIVITY])
    transcript.messages.clear()
    with pytest.raises(AssertionError, match="stands in the list"):
        transcript.apply(ACTIVITY)


def test_p14_no_patch_of_an_activity_leaves_a_message_that_cannot_be_sent():
    patch = [{"op": "copy", "from": "/steps/-", "path": "/b"}]
    transcript = folded([ACTIVITY, {"type": "ACTIVITY_DELTA", "messageId": "y1", "patch": patch}])
    encode(list(transcript.view()))


LONG_PARTS = [{"type": "text", "text": "x" * 1_000}]
UNCOUNTED = [
    (
        "parts that a user sent",
        [{"type": "RUN_STARTED", "input": {"messages": [{**user("u1"), "content": LONG_PARTS}]}}],
        1_000,
    ),
    ("parts of a result", [CALL, {**RESULT, "content": LONG_PARTS}], 1_000),
    (
        "arguments in a new history",
        [{"type": "MESSAGES_SNAPSHOT", "messages": [calling("a1", "c1"), result("c1")]}],
        len("{}ok"),
    ),
]


@pytest.mark.parametrize(
    ("events", "size"), [c[1:] for c in UNCOUNTED], ids=[c[0] for c in UNCOUNTED]
)
def test_p12_whatever_text_a_history_holds_is_counted(events, size):
    assert folded(events).size_bytes == size


def test_p1_an_agent_sees_the_messages_of_its_own_run_or_sub_run_alone():
    start = {"type": "TEXT_MESSAGE_START", "role": "assistant"}
    transcript = folded(
        [
            {**start, "messageId": "m1"},
            {**start, "messageId": "m2", "subagentRunId": "sub"},
            {**start, "messageId": "m3"},
        ]
    )
    shown = {owner: transcript.shown_to(owner) for owner in (None, "sub", "another")}
    assert {owner: [m["id"] for m in messages] for owner, messages in shown.items()} == {
        None: ["m1", "m3"],
        "sub": ["m2"],
        "another": [],
    }


PARTS = [
    ("no object", ["text"], 0),
    ("a text", [{"type": "text", "text": "abc"}], 3),
    ("data inside", [{"type": "image", "source": {"type": "data", "value": "abcd"}}], 4),
    ("numbers", [{"type": "text", "n": 1}], 0),
    ("kinds only", [{"type": "text", "mimeType": "image/png"}], 0),
]


@pytest.mark.parametrize(("content", "size"), [c[1:] for c in PARTS], ids=[c[0] for c in PARTS])
def test_p12_parts_count_by_their_texts_and_data(content, size):
    transcript = Transcript()
    transcript.append({"id": "u1", "role": "user", "content": content})
    assert transcript.size_bytes == size


def test_what_a_message_holds_is_told_by_its_id():
    transcript = Transcript()
    transcript.append(user("u1"))
    assert (transcript.content_of("u1"), transcript.content_of("u2")) == ("u1", None)


# ---- what is kept of it (P16) -------------------------------------------------------------------

STREAM = [
    {"type": "TEXT_MESSAGE_START", "messageId": "a1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a1", "delta": "hi"},
    {"type": "TEXT_MESSAGE_END", "messageId": "a1"},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "t", "parentMessageId": "a1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
    {"type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "t", "parentMessageId": "a1"},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    {"type": "TOOL_CALL_END", "toolCallId": "c2"},
]
WHOLE_PARTS = [
    (1, None),
    (2, None),
    (3, ("hi", [])),
    (4, None),
    (6, None),
    (7, ("hi", ["c1"])),
    (8, ("hi", ["c1", "c2"])),
]


@pytest.mark.parametrize(("events", "part"), WHOLE_PARTS)
def test_p16_the_whole_part_of_a_message_has_nothing_that_is_still_said(events, part):
    transcript = folded(STREAM[:events])
    message = transcript.get("a1")
    whole = transcript.whole_part(message)
    if part is None:
        assert whole is None
    else:
        calls = [call["id"] for call in whole.get("toolCalls", ())]
        assert (whole["content"], calls) == part
        assert (whole is message) is (events in (3, 8))


def test_nobody_is_told_of_what_changes_where_nobody_wants_to_know():
    transcript = folded(STREAM)
    transcript.replace([user("u1")])
    assert transcript.touched is None


def touched(events, before=()):
    transcript = folded(before)
    transcript.touched = Touched()
    for event in events:
        transcript.apply(event)
    return list(transcript.touched.names)


ANSWERED = {"type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "ok"}
PLAN = {"type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "plan", "content": {}}
PATCH = [{"op": "add", "path": "/n", "value": 1}]
PATCHED = {"type": "ACTIVITY_DELTA", "messageId": "p", "activityType": "plan", "patch": PATCH}
SIGNED = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "encryptedValue": "x"}
EMPTY = [STREAM[0], STREAM[2]]
TOUCHING = [
    ("a text begins", STREAM[:1], (), ["a1"]),
    ("a text goes on", STREAM[1:3], STREAM[:1], []),
    ("a text was none", EMPTY, (), ["a1"]),
    ("a call", STREAM[3:5], STREAM[:3], ["a1"]),
    ("a result", [ANSWERED], STREAM, ["r1"]),
    ("a result again", [ANSWERED], [*STREAM, ANSWERED], []),
    ("an activity", [PLAN], (), ["p"]),
    ("another picture of it", [PLAN], [PLAN], ["p"]),
    ("a patch of it", [PATCHED], [PLAN], ["p"]),
    ("something encrypted", [{**SIGNED, "entityId": "a1"}], STREAM, ["a1"]),
    ("something encrypted of nobody", [{**SIGNED, "entityId": "zz"}], STREAM, []),
]


@pytest.mark.parametrize(
    ("events", "before", "names"), [c[1:] for c in TOUCHING], ids=[c[0] for c in TOUCHING]
)
def test_p16_every_message_that_begins_or_changes_is_told(events, before, names):
    """What is streamed is told when it begins: whoever keeps it looks whether it is whole."""
    assert touched(events, before) == names


@each("fold.jsonl")
def test_p16_whole_messages_in_the_order_they_came_give_the_history_again(case):
    before = folded(case["events"])
    messages = [message for m in before.view() if (message := before.whole_part(m)) is not None]
    after = Transcript()
    after.restore(copy.deepcopy(messages))
    assert list(after.view()) == messages


def test_p16_a_result_that_came_late_finds_its_place_again():
    """C056: it stands with its call, whatever was said meanwhile."""
    transcript = Transcript()
    said = [calling("a1", "c1", "c2"), user("u1"), result("c1"), result("c2"), result("c9")]
    transcript.restore(said)
    names = [message["id"] for message in transcript.messages]
    assert names == ["a1", "of c1", "of c2", "u1", "of c9"]
    assert transcript.has_call("c1")
    assert transcript.has_result("c2")
    assert not transcript.has_result("c3")
    assert transcript.size_bytes > 0
    assert (transcript.get("u1"), transcript.get("zz")) == (user("u1"), None)


CUTS = [
    ("u1", ["u1"], ["a1", "of c1", "a2"]),
    ("a2", ["u1", "a1", "of c1", "a2"], []),
    (None, [], ["u1", "a1", "of c1", "a2"]),
    ("zz", ["u1", "a1", "of c1", "a2"], []),
]


@pytest.mark.parametrize(("behind", "left", "gone"), CUTS)
def test_what_a_step_had_said_leaves_with_all_that_stands_behind_it(behind, left, gone):
    transcript = Transcript()
    transcript.restore([user("u1"), calling("a1", "c1"), result("c1"), calling("a2")])
    transcript.touched = Touched()
    assert transcript.cut_behind(behind) == gone
    assert [message["id"] for message in transcript.messages] == left
    assert transcript.has_call("c1") is ("a1" in left)
    assert transcript.touched.everything is (behind != "zz")


def test_the_last_message_is_known_by_its_id():
    transcript = Transcript()
    assert transcript.last_id is None
    transcript.restore([user("u1"), user("u2")])
    assert transcript.last_id == "u2"
