"""What an agent says in one step, made into a valid sequence (P6)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.verifier import Stream

from handspan.core.emission import Emission, Misplaced
from handspan_protocol.ids import is_id


class Sink:
    """Takes one step's sequence and checks it; messages and calls by name, nothing else."""

    def __init__(self):
        self.events = []
        self.calls = {}
        self.names = {}
        self.ended = []
        self.provided = {}
        self.roles = {}
        self.states = []
        self.others = set()
        self.stream = Stream()
        self.stream.take({"type": "RUN_STARTED", "runId": "r1"})
        self.stream.take({"type": "STEP_STARTED", "stepName": "step-0"})
        self.count = 0

    def say(self, head, message_id, delta):
        event = json.loads(head + json.dumps(delta).encode() + b"}")
        assert event["messageId"] == message_id
        self.emit(event)

    def emit(self, event):
        self.stream.take(event)
        self.events.append(event)
        if "role" in event:
            self.roles[event["messageId"]] = event["role"]
        if event["type"] == "ACTIVITY_SNAPSHOT":
            self.roles[event["messageId"]] = "activity"

    def new_id(self, kind):
        self.count += 1
        return f"{kind}:{self.count}"

    def is_anothers(self, name):
        return name in self.others

    def message_taken(self, message_id):
        return message_id in self.roles

    def role_of(self, message_id):
        return self.roles.get(message_id)

    def call_started(self, wish, name, message_id):
        usable = wish is not None and is_id(wish) and wish not in self.calls
        call_id = wish if usable else self.new_id("call")
        self.calls[call_id], self.names[call_id] = "", name
        return call_id

    def call_said(self, call_id, delta):
        self.calls[call_id] += delta

    def call_ended(self, call_id):
        self.ended.append(call_id)

    def call_provided(self, call_id, content):
        self.provided[call_id] = content

    def state_given(self, event):
        self.states.append(event)


def saying(*said):
    """The sink after these: a str, or an event as (type, fields)."""
    sink = Sink()
    emission = Emission(sink)
    for one in said:
        if isinstance(one, str):
            emission.text(one)
        else:
            emission.event({"type": one[0], **one[1]})
    emission.close()
    return sink


def kinds(sink):
    return [event["type"] for event in sink.events]


def start(call_id="c1", name="t"):
    return ("TOOL_CALL_START", {"toolCallId": call_id, "toolCallName": name})


def args(delta, call_id="c1"):
    return ("TOOL_CALL_ARGS", {"toolCallId": call_id, "delta": delta})


def end(call_id="c1"):
    return ("TOOL_CALL_END", {"toolCallId": call_id})


def chunk(call_id="c1", **more):
    return ("TOOL_CALL_CHUNK", {"toolCallId": call_id, **more})


def text(kind, message="m1", **more):
    return (f"TEXT_MESSAGE_{kind}", {"messageId": message, **more})


def thought(kind, message="r1", **more):
    return (f"REASONING_{kind}", {"messageId": message, **more})


# ---- short forms --------------------------------------------------------------------------------


def test_p6_a_str_is_one_text_until_something_else_comes():
    assert kinds(saying("a", "b")) == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]


@pytest.mark.parametrize("nothing", [(), ("",), ("", "")])
def test_p6_an_empty_str_says_nothing(nothing):
    """C058."""
    assert saying(*nothing).events == []


def test_p6_text_and_calls_stand_in_the_order_they_were_said():
    """C137: text, call, text, call; each call belongs to the text before it."""
    sink = Sink()
    emission = Emission(sink)
    emission.text("one")
    emission.call(None, "t", "{}")
    emission.text("two")
    emission.call(None, "u", "")
    emission.close()
    assert kinds(sink) == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
    ]
    texts = [e["messageId"] for e in sink.events if e["type"] == "TEXT_MESSAGE_START"]
    parents = [e["parentMessageId"] for e in sink.events if e["type"] == "TOOL_CALL_START"]
    assert parents == texts


def test_calls_without_a_text_share_one_message():
    """C035."""
    sink = Sink()
    emission = Emission(sink)
    emission.call(None, "t", "{}")
    emission.call(None, "u", "{}")
    parents = {e["parentMessageId"] for e in sink.events if e["type"] == "TOOL_CALL_START"}
    assert len(parents) == 1


def test_p6_thoughts_have_a_span_of_their_own_and_end_before_the_text():
    sink = Sink()
    emission = Emission(sink)
    emission.reasoning("hm")
    emission.reasoning("")
    emission.reasoning("!")
    emission.text("so")
    emission.close()
    assert kinds(sink) == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]


def test_p4_half_a_character_is_never_sent():
    sink = saying("a\ud83d", args("x"), start(), args('"\udc00"'))
    json.dumps(sink.events).encode("utf-8", "strict")
    assert [e["delta"] for e in sink.events if "delta" in e] == ["a\ufffd", '"\ufffd"']


# ---- calls by events ----------------------------------------------------------------------------


def test_p3_deltas_belong_to_the_call_they_name():
    """C006."""
    sink = saying(
        start("c1"),
        start("c2"),
        args('{"a"', "c1"),
        args('{"b"', "c2"),
        args(":1}", "c1"),
        args(":2}", "c2"),
        args("!", "zz"),
        end("c1"),
        end("c2"),
    )
    assert sink.calls == {"c1": '{"a":1}', "c2": '{"b":2}'}


def test_p3_a_name_that_is_repeated_is_no_new_call():
    """C007."""
    sink = saying(
        start(name="search"), start(name="search"), args("{}"), start(name="search"), end()
    )
    assert sink.names == {"c1": "search"}
    sink = saying(*[chunk(toolCallName="search", delta=d) for d in ("{", "}")])
    assert (sink.names, sink.calls) == ({"c1": "search"}, {"c1": "{}"})


def test_p6_what_comes_after_the_end_of_a_call_is_dropped():
    """C017."""
    sink = saying(start(), args("{"), args("}"), end(), args("}"), end())
    assert kinds(sink) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert sink.calls == {"c1": "{}"}


CHUNKINGS = [
    [chunk(toolCallName="t", delta='{"x":1}')],
    [chunk(toolCallName="t"), *[chunk(delta=char) for char in '{"x":1}']],
    [chunk(toolCallName="t"), *[("TOOL_CALL_CHUNK", {"delta": char}) for char in '{"x":1}']],
    [start(), args('{"x":1}'), end()],
    [start(), args(""), args('{"x":'), args("1}")],
]


@pytest.mark.parametrize("said", CHUNKINGS)
def test_p3_a_call_is_the_same_however_it_is_cut(said):
    """C019."""
    sink = saying(*said)
    assert (sink.names, sink.calls, sink.ended) == ({"c1": "t"}, {"c1": '{"x":1}'}, ["c1"])
    told = "".join(e["delta"] for e in sink.events if e["type"] == "TOOL_CALL_ARGS")
    assert told == '{"x":1}'


def test_a_chunk_of_another_call_ends_the_one_before():
    sink = saying(chunk("c1", toolCallName="t", delta="{}"), chunk("c2", toolCallName="u"))
    assert sink.ended == ["c1", "c2"]


@pytest.mark.parametrize("name", ["", "get"])
def test_p1_calls_of_one_id_are_two_calls(name):
    """C053: a START of an id that has ended in this step is another call."""
    sink = saying(start(name, "get"), args("{}", name), end(name), start(name, "get"), end(name))
    assert len(sink.calls) == 2
    assert list(sink.calls.values()) == ["{}", ""]


@pytest.mark.parametrize("name", ["not an id", "x" * 129, "é", "a\nb"])
def test_ids_that_are_none_get_a_fresh_one_and_are_still_understood(name):
    sink = saying(start(name), args("{}", name), end(name))
    assert list(sink.calls.values()) == ["{}"]
    assert is_id(next(iter(sink.calls)))


def test_a_result_of_the_agent_ends_the_call_and_means_the_newest_of_that_id():
    """C042."""
    result = ("TOOL_CALL_RESULT", {"toolCallId": "c1", "content": "theirs", "messageId": "x"})
    sink = saying(start(), end(), start(), result)
    first, second = sink.calls
    assert sink.provided == {second: "theirs"}
    assert sink.ended == [first, second]


# ---- texts by events ----------------------------------------------------------------------------


def test_p6_texts_of_events_are_chunked_or_whole():
    whole = saying(text("START"), text("CONTENT", delta="a"), text("END"))
    chunks = saying(text("CHUNK", delta="a"))
    nameless = saying(("TEXT_MESSAGE_CHUNK", {"delta": "a"}))
    assert kinds(whole) == kinds(chunks) == kinds(nameless)


def test_p6_a_text_that_a_call_closed_goes_on_as_another_message():
    sink = saying(
        text("START"), text("CONTENT", delta="a"), start(), end(), text("CONTENT", delta="b")
    )
    started = [e["messageId"] for e in sink.events if e["type"] == "TEXT_MESSAGE_START"]
    assert started[0] == "m1"
    assert len(set(started)) == 2


def test_p6_an_id_that_was_used_before_gets_a_fresh_one():
    sink = saying(text("START"), text("END"), text("START"), text("CONTENT", delta="a"))
    started = [e["messageId"] for e in sink.events if e["type"] == "TEXT_MESSAGE_START"]
    assert len(set(started)) == 2
    assert sink.events[-2]["messageId"] == started[1]


def test_the_end_of_a_text_that_was_closed_is_no_fault():
    assert kinds(saying(text("START"), start(), text("END")))[-1] == "TOOL_CALL_END"


MISPLACED = [
    ("a delta of nothing", [text("CONTENT", delta="a")]),
    ("an end of nothing", [text("END")]),
    ("a text twice", [text("START"), text("START")]),
    ("a thought's delta of nothing", [thought("MESSAGE_CONTENT", delta="a")]),
    ("a thought's end of nothing", [thought("MESSAGE_END")]),
    ("a thought twice", [thought("MESSAGE_START"), thought("MESSAGE_START")]),
    ("a span in a span", [thought("START"), thought("START", "r2")]),
    ("the end of another span", [thought("START"), thought("END", "r2")]),
    ("a result of nothing", [("TOOL_CALL_RESULT", {"toolCallId": "zz", "content": ""})]),
    ("a call without a name", [("TOOL_CALL_START", {"toolCallId": "c1"})]),
    ("a delta without a text", [text("START"), text("CONTENT")]),
    ("all messages", [("MESSAGES_SNAPSHOT", {"messages": []})]),
    ("their failure", [("RUN_ERROR", {"message": "theirs"})]),
    ("what nobody knows", [("NOBODY_KNOWS", {})]),
    ("no kind", [(None, {})]),
    ("a chunk whose delta is a number", [text("CHUNK", delta=1)]),
    ("an activity on a text", [text("START"), ("ACTIVITY_SNAPSHOT", {"messageId": "m1"})]),
    ("an activity of no type", [("ACTIVITY_SNAPSHOT", {"messageId": "y", "content": {}})]),
    ("an activity of nothing", [("ACTIVITY_SNAPSHOT", {"messageId": "y", "activityType": "p"})]),
    ("a change of nothing", [("ACTIVITY_DELTA", {"messageId": "y"})]),
    ("a change that is a number", [("ACTIVITY_DELTA", {"messageId": "y", "patch": 7})]),
]


@pytest.mark.parametrize("said", [c[1] for c in MISPLACED], ids=[c[0] for c in MISPLACED])
def test_p6_an_event_out_of_order_is_misplaced(said):
    with pytest.raises(Misplaced):
        saying(*said)


@pytest.mark.parametrize(
    "said",
    [
        ("ACTIVITY_SNAPSHOT", {"messageId": "x", "activityType": "p", "content": {}}),
        ("ACTIVITY_DELTA", {"messageId": "x", "patch": []}),
        ("REASONING_ENCRYPTED_VALUE", {"subtype": "message", "entityId": "x"}),
    ],
)
def test_p6_what_another_run_has_begun_is_not_this_ones_to_change(said):
    sink = Sink()
    sink.others = {"x"}
    with pytest.raises(Misplaced, match="another's"):
        Emission(sink).event({"type": said[0], **said[1]})


@pytest.mark.parametrize(
    "kind",
    [
        "RUN_STARTED",
        "RUN_FINISHED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "SUBAGENT_ERROR",
    ],
)
def test_p6_the_frame_of_a_run_is_not_the_agents_to_say(kind):
    assert saying((kind, {"runId": "theirs", "stepName": "x"})).events == []


def test_p6_what_is_left_open_is_closed_innermost_first():
    """C066."""
    sink = saying(start("c1"), start("c2"), thought("START"), thought("MESSAGE_START", "r2"))
    assert kinds(sink)[-4:] == [
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TOOL_CALL_END",
        "TOOL_CALL_END",
    ]
    sink = saying(start("c1"), text("START"))
    assert kinds(sink)[-2:] == ["TEXT_MESSAGE_END", "TOOL_CALL_END"]


def test_an_agent_cannot_speak_for_a_sub_run():
    sink = saying(
        text("CHUNK", delta="a", subagentRunId="s"), text("CONTENT", delta="b", subagentRunId="s")
    )
    assert not [event for event in sink.events if "subagentRunId" in event]


def test_state_events_go_to_be_checked_and_are_not_emitted_here():
    sink = saying(("STATE_SNAPSHOT", {"snapshot": {"a": 1}}), ("STATE_DELTA", {"delta": []}))
    assert sink.events == []
    assert [event["type"] for event in sink.states] == ["STATE_SNAPSHOT", "STATE_DELTA"]


# ---- the agent's own events, whole -------------------------------------------------------------


def whole(sink):
    """Each event as these tests write it: its type, and the rest."""
    rests = [{k: v for k, v in event.items() if k != "type"} for event in sink.events]
    return list(zip(kinds(sink), rests, strict=True))


def begun(message="m1", **more):
    return ("TEXT_MESSAGE_START", {"messageId": message, "role": "assistant", **more})


def thinks(message="r1", **more):
    return (
        "REASONING_MESSAGE_START",
        {"messageId": message, "role": "reasoning", **more},
    )


SAID = [
    (
        "chunks of one text, one of them empty",
        [text("CHUNK"), text("CHUNK", delta="a"), text("CHUNK", delta="")],
        [begun(), text("CONTENT", delta="a"), text("END")],
    ),
    (
        "a chunk without an id goes on with the text that is open",
        [text("START"), ("TEXT_MESSAGE_CHUNK", {"delta": "a"})],
        [begun(), text("CONTENT", delta="a"), text("END")],
    ),
    (
        "a text has the role and the name it was given",
        [text("START", role="user", name="Eva", title="x"), text("CONTENT", delta="")],
        [begun(role="user", name="Eva"), text("END")],
    ),
    (
        "null is absent",
        [text("START", role=None, name=None), text("CONTENT", delta="a", rawEvent=None)],
        [begun(), text("CONTENT", delta="a"), text("END")],
    ),
    (
        "a span, its thoughts, their end",
        [
            thought("START", "s"),
            thought("MESSAGE_START", metadata={"n": 1}),
            thought("MESSAGE_CONTENT", delta="a"),
            thought("MESSAGE_CONTENT", delta=""),
            thought("MESSAGE_END"),
            thought("END", "s"),
        ],
        [
            thought("START", "s"),
            thinks(metadata={"n": 1}),
            thought("MESSAGE_CONTENT", delta="a"),
            thought("MESSAGE_END"),
            thought("END", "s"),
        ],
    ),
    (
        "the end of a span ends the thoughts in it",
        [thought("START", "s"), thought("MESSAGE_START"), thought("END", "s")],
        [thought("START", "s"), thinks(), thought("MESSAGE_END"), thought("END", "s")],
    ),
    (
        "chunks of thoughts, one without an id, one that is empty",
        [
            thought("MESSAGE_CHUNK"),
            thought("MESSAGE_CHUNK", delta="a"),
            ("REASONING_MESSAGE_CHUNK", {"delta": "b"}),
            thought("MESSAGE_CHUNK", delta=""),
        ],
        [
            thinks(),
            thought("MESSAGE_CONTENT", delta="a"),
            thought("MESSAGE_CONTENT", delta="b"),
            thought("MESSAGE_END"),
        ],
    ),
    (
        "a chunk of thoughts of nobody's id",
        [("REASONING_MESSAGE_CHUNK", {"delta": "b"})],
        [
            thinks("r:1"),
            thought("MESSAGE_CONTENT", "r:1", delta="b"),
            thought("MESSAGE_END", "r:1"),
        ],
    ),
    (
        "an activity, and its patch",
        [
            ("ACTIVITY_SNAPSHOT", {"messageId": "y", "activityType": "plan", "content": {}}),
            ("ACTIVITY_SNAPSHOT", {"messageId": "y", "activityType": "plan", "content": {"a": 1}}),
            ("ACTIVITY_DELTA", {"messageId": "y", "activityType": "plan", "patch": []}),
        ],
        [
            ("ACTIVITY_SNAPSHOT", {"messageId": "y", "activityType": "plan", "content": {}}),
            ("ACTIVITY_SNAPSHOT", {"messageId": "y", "activityType": "plan", "content": {"a": 1}}),
            ("ACTIVITY_DELTA", {"messageId": "y", "activityType": "plan", "patch": []}),
        ],
    ),
    (
        "what is raw or the application's own, falsy or not",
        [
            ("RAW", {"event": 0, "source": None}),
            ("CUSTOM", {"name": "mine", "value": False}),
            ("CUSTOM", {"name": "handspanner", "value": 1}),
        ],
        [
            ("RAW", {"event": 0}),
            ("CUSTOM", {"name": "mine", "value": False}),
            ("CUSTOM", {"name": "handspanner", "value": 1}),
        ],
    ),
    ("nobody speaks in our name", [("CUSTOM", {"name": "handspan.call", "value": {}})], []),
]


@pytest.mark.parametrize(("said", "out"), [c[1:] for c in SAID], ids=[c[0] for c in SAID])
def test_p6_what_an_agent_says_by_events_comes_out_as_it_was_meant(said, out):
    assert whole(saying(*said)) == out


def test_an_encrypted_value_names_the_message_or_the_call_as_the_page_knows_it():
    """The agent's own id is ours, unless it was used before: then its newest is meant."""
    sink = saying(
        text("START"),
        text("END"),
        text("START"),
        start(),
        end(),
        start(),
        *[
            ("REASONING_ENCRYPTED_VALUE", {"entityId": name, "encryptedValue": "v"})
            for name in ("m1", "c1", "earlier")
        ],
    )
    newest_text = [e["messageId"] for e in sink.events if e["type"] == "TEXT_MESSAGE_START"][-1]
    newest_call = list(sink.calls)[-1]
    assert newest_text != "m1"
    assert newest_call != "c1"
    named = [e["entityId"] for e in sink.events if e["type"] == "REASONING_ENCRYPTED_VALUE"]
    assert named == [newest_text, newest_call, "earlier"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_result_of_the_agent_ends_its_call_once(ended):
    """C042."""
    result = ("TOOL_CALL_RESULT", {"toolCallId": "c1", "content": "theirs"})
    sink = saying(start(), *([end()] if ended else []), result)
    assert (sink.ended, sink.provided) == (["c1"], {"c1": "theirs"})
    assert kinds(sink) == ["TOOL_CALL_START", "TOOL_CALL_END"]


def test_a_call_without_an_id_gets_one_and_what_names_none_means_the_newest():
    sink = saying(
        ("TOOL_CALL_START", {"toolCallName": "t"}),
        ("TOOL_CALL_START", {"toolCallName": "u"}),
        ("TOOL_CALL_ARGS", {"delta": "{}"}),
        ("TOOL_CALL_END", {}),
        ("TOOL_CALL_ARGS", {"delta": "[]"}),
    )
    first, second = sink.calls
    assert sink.calls == {first: "[]", second: "{}"}
    assert sink.ended == [second, first]


@pytest.mark.parametrize("before", [[], [start(), args("{}"), end()]])
@pytest.mark.parametrize("name", [{}, {"toolCallId": None}, {"toolCallId": "c1"}])
def test_p6_deltas_and_ends_of_a_call_that_is_not_open_are_dropped(before, name):
    """C017."""
    stray = [("TOOL_CALL_ARGS", {"delta": "x", **name}), ("TOOL_CALL_END", name)]
    sink, quiet = saying(*before, *stray), saying(*before)
    assert (sink.events, sink.calls, sink.ended) == (quiet.events, quiet.calls, quiet.ended)


def test_a_whole_call_gets_the_id_it_wishes_where_no_open_one_has_it():
    sink = Sink()
    emission = Emission(sink)
    emission.event({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "open"})
    given = [emission.call(wish, "t", "{}") for wish in ("c2", "c1", None, "c2")]
    assert given[0] == "c2"
    assert len({"c1", *given}) == 5
    assert sink.ended == given
    assert emission.open_calls == ["c1"]


MALFORMED = [
    ("a text without an id", ("TEXT_MESSAGE_START", {})),
    ("a text whose id is a number", ("TEXT_MESSAGE_START", {"messageId": 1})),
    ("a thought without an id", ("REASONING_MESSAGE_START", {})),
    ("a span without an id", ("REASONING_START", {})),
    ("arguments without a delta", ("TOOL_CALL_ARGS", {"toolCallId": "c0"})),
    ("a result without a call", ("TOOL_CALL_RESULT", {"content": "x"})),
    ("a custom event without a name", ("CUSTOM", {"value": 1})),
    ("an encrypted value of nothing", ("REASONING_ENCRYPTED_VALUE", {"encryptedValue": "v"})),
    ("an activity without an id", ("ACTIVITY_SNAPSHOT", {"content": {}})),
    ("a type that is a number", (1, {})),
]


@pytest.mark.parametrize("event", [c[1] for c in MALFORMED], ids=[c[0] for c in MALFORMED])
def test_p14_an_event_that_lacks_what_it_needs_is_misplaced_and_emits_nothing(event):
    sink = Sink()
    emission = Emission(sink)
    emission.event({"type": "TOOL_CALL_START", "toolCallId": "c0", "toolCallName": "t"})
    before = len(sink.events)
    with pytest.raises(Misplaced) as misplaced:
        emission.event({"type": event[0], **event[1]})
    assert str(event[0]) in str(misplaced.value)
    assert sink.events[before:] == []


IDS = st.sampled_from(("a", "b", "", "not an id"))
ANYTHING = st.one_of(
    st.sampled_from(("x", "", "\ud800")),
    st.tuples(
        st.sampled_from(
            [f"TEXT_MESSAGE_{k}" for k in ("START", "CONTENT", "END", "CHUNK")]
            + [f"REASONING_{k}" for k in ("START", "END", "MESSAGE_START", "MESSAGE_CONTENT")]
            + ["REASONING_MESSAGE_END", "REASONING_MESSAGE_CHUNK"]
        ),
        st.fixed_dictionaries({"messageId": IDS}, optional={"delta": st.sampled_from(("d", ""))}),
    ),
    st.tuples(
        st.sampled_from([f"TOOL_CALL_{k}" for k in ("START", "ARGS", "END", "CHUNK", "RESULT")]),
        st.fixed_dictionaries(
            {"toolCallId": IDS},
            optional={"delta": st.just("{"), "toolCallName": st.just("t"), "content": st.just("r")},
        ),
    ),
)


@given(st.lists(ANYTHING, max_size=25))
def test_p6_whatever_is_said_comes_out_in_order_or_is_misplaced(said):
    """The sink checks each event; at the end nothing is open."""
    sink = Sink()
    emission = Emission(sink)
    for one in said:
        try:
            if isinstance(one, str):
                emission.text(one)
            else:
                emission.event({"type": one[0], **one[1]})
        except Misplaced:
            break
    emission.close()
    assert sink.stream.lanes[None].open == set()
    assert sorted(sink.ended) == sorted(sink.calls)


@pytest.mark.parametrize(("activity", "parent"), [("m1", "m:1"), ("y1", "m1")])
def test_p1_no_call_hangs_on_an_activity_that_took_the_name_of_a_silent_text(activity, parent):
    sink = Sink()
    emission = Emission(sink)
    emission.event({"type": "TEXT_MESSAGE_START", "messageId": "m1"})
    emission.event({"type": "TEXT_MESSAGE_END", "messageId": "m1"})
    del sink.roles["m1"]  # it said nothing, and so it is no message
    emission.event(
        {"type": "ACTIVITY_SNAPSHOT", "messageId": activity, "activityType": "p", "content": {}}
    )
    emission.call("c1", "t", "{}")
    (call,) = [event for event in sink.events if event["type"] == "TOOL_CALL_START"]
    assert call["parentMessageId"] == parent


def test_thoughts_between_calls_belong_to_the_calls_behind_them():
    """Providers want each thought back before the call that it led to."""
    sink = Sink()
    emission = Emission(sink)
    emission.reasoning("first")
    emission.text("so")
    emission.call(None, "a", "{}")
    emission.call(None, "b", "{}")
    emission.reasoning("second")
    emission.call(None, "c", "{}")
    emission.close()
    homes = [e["parentMessageId"] for e in sink.events if e["type"] == "TOOL_CALL_START"]
    assert homes[0] == homes[1] != homes[2]
