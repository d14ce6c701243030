"""What is open in a step, and in which order it is opened and closed (P6).

Spoken to through `emission`, the only one that speaks to it; the sink checks each event.
"""

import pytest
from tests.core.test_emission import Sink

from handspan.core.emission import Emission
from handspan.core.sequence import Misplaced, Sequence


class Speaker:
    """A step's sequence and its sink; `told` is what came since it was last asked."""

    def __init__(self):
        self.sink = Sink()
        self.emission = Emission(self.sink)
        self._read = 0

    def text(self, kind, name="m1", **more):
        self.emission.event({"type": f"TEXT_MESSAGE_{kind}", "messageId": name, **more})

    def thought(self, kind, name="r1", **more):
        self.emission.event({"type": f"REASONING_{kind}", "messageId": name, **more})

    def call(self, kind="START", name="c1", **more):
        more = {"toolCallName": "t", **more} if kind == "START" else more
        self.emission.event({"type": f"TOOL_CALL_{kind}", "toolCallId": name, **more})

    def told(self):
        """Each new event as its type and the id of what it is about."""
        new, self._read = self.sink.events[self._read :], len(self.sink.events)
        return [
            f"{event['type']} {event.get('toolCallId') or event.get('messageId')}" for event in new
        ]

    @property
    def open(self):
        emission = self.emission
        return (emission.open_texts, emission.open_reasoning, emission.open_calls)


@pytest.fixture
def step():
    return Speaker()


NOTHING = ([], [], [])


def test_a_step_begins_with_nothing_open_and_its_end_says_nothing():
    sink = Sink()
    sequence = Sequence(sink)
    assert (sequence.open_texts, sequence.open_reasoning, sequence.open_calls) == NOTHING
    sequence.close()
    assert sink.events == []


# ---- what is open -------------------------------------------------------------------------------


def test_p9_what_is_open_is_told_by_the_ids_that_pages_know(step):
    step.emission.text("hi")
    assert step.open == (["m:1"], [], [])
    step.emission.reasoning("hm")
    assert step.open == ([], ["r:3"], [])
    step.call("START", "c1")
    step.call("START", "not an id")
    assert step.open == ([], [], ["c1", "call:4"])
    step.text("START", "m1")
    assert step.open == (["m1"], [], ["c1", "call:4"])
    step.call("END", "c1")
    step.thought("START", "s")
    step.thought("MESSAGE_START", "r1")
    step.thought("MESSAGE_START", "r2")
    assert step.open == ([], ["r1", "r2"], ["call:4"])
    step.emission.close()
    assert step.open == NOTHING


def test_p6_the_end_closes_innermost_first_and_only_once(step):
    """C066: texts, thoughts, spans, calls; of thoughts the newest first."""
    step.text("START", "m1")
    step.call("START", "c1")
    step.call("START", "c2")
    step.thought("START", "s")
    step.thought("MESSAGE_START", "r1")
    step.thought("MESSAGE_START", "r2")
    step.text("CONTENT", "m1", delta="x")
    step.told()
    step.emission.close()
    assert step.told() == [
        "TEXT_MESSAGE_END m:1",
        "REASONING_MESSAGE_END r2",
        "REASONING_MESSAGE_END r1",
        "REASONING_END s",
        "TOOL_CALL_END c1",
        "TOOL_CALL_END c2",
    ]
    assert step.sink.ended == ["c1", "c2"]
    step.emission.close()
    assert step.told() == []


CLOSERS = [
    ("a call closes a text", lambda s: s.emission.text("x"), lambda s: s.call(), "m:1"),
    ("a call closes the agent's text", lambda s: s.text("START"), lambda s: s.call(), "m1"),
    (
        "a text closes the agent's text",
        lambda s: s.text("START"),
        lambda s: s.emission.text("x"),
        "m1",
    ),
    (
        "the agent's text closes a text",
        lambda s: s.emission.text("x"),
        lambda s: s.text("START"),
        "m:1",
    ),
    (
        "another text of the agent closes the one before",
        lambda s: s.text("START"),
        lambda s: s.text("START", "m2"),
        "m1",
    ),
    (
        "a span of thoughts closes a text",
        lambda s: s.text("START"),
        lambda s: s.thought("START", "s"),
        "m1",
    ),
    (
        "thoughts close a text",
        lambda s: s.text("START"),
        lambda s: s.thought("MESSAGE_START"),
        "m1",
    ),
    (
        "a call closes thoughts",
        lambda s: s.thought("MESSAGE_START"),
        lambda s: s.call(),
        "r1",
    ),
    (
        "a text closes thoughts",
        lambda s: s.thought("MESSAGE_START"),
        lambda s: s.emission.text("x"),
        "r1",
    ),
]


@pytest.mark.parametrize(
    ("before", "then", "closed"), [c[1:] for c in CLOSERS], ids=[c[0] for c in CLOSERS]
)
def test_p6_what_begins_ends_first_what_cannot_go_on_beside_it(step, before, then, closed):
    before(step)
    step.told()
    then(step)
    told = step.told()
    assert told[0].endswith(f"_MESSAGE_END {closed}")
    assert [line for line in told if "_END " in line] == told[:1] != told


def test_p6_a_call_under_way_is_not_closed_by_a_text_or_thoughts(step):
    step.call("START")
    step.emission.text("x")
    step.emission.reasoning("hm")
    step.call("ARGS", delta="{}")
    assert step.open == ([], ["r:4"], ["c1"])
    assert step.sink.calls == {"c1": "{}"}


# ---- which message a call belongs to ------------------------------------------------------------


def parents(step):
    return [e["parentMessageId"] for e in step.sink.events if e["type"] == "TOOL_CALL_START"]


def test_a_call_stands_in_the_assistant_message_before_it_and_the_next_text_opens_another(step):
    """C035, C137."""
    step.emission.text("one")
    step.emission.call(None, "t", "{}")
    step.emission.call(None, "t", "{}")
    step.emission.text("two")
    step.emission.call(None, "t", "{}")
    texts = [e["messageId"] for e in step.sink.events if e["type"] == "TEXT_MESSAGE_START"]
    assert parents(step) == [texts[0], texts[0], texts[1]]
    assert texts[0] != texts[1]


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_call_after_a_text_of_another_role_has_a_message_of_its_own(step, role):
    step.text("START", "m1")
    step.text("START", "m2", role=role)
    step.call("START", "c1")
    step.call("START", "c2")
    assert parents(step) == ["m:1", "m:1"]


def test_thoughts_between_do_not_part_a_call_from_its_message(step):
    step.text("START", "m1")
    step.emission.reasoning("hm")
    step.call("START", "c1")
    assert parents(step) == ["m1"]


# ---- names --------------------------------------------------------------------------------------


WISHES = [
    ("one of its own", "m1", True),
    ("as long as may be", "x" * 128, True),
    ("a space is no fault in a message's id", "a b", True),
    ("too long", "x" * 129, False),
    ("empty", "", False),
    ("a message of the thread has it", "taken", False),
]


@pytest.mark.parametrize("kind", ["text", "thought"])
@pytest.mark.parametrize(("wish", "granted"), [c[1:] for c in WISHES], ids=[c[0] for c in WISHES])
def test_p6_a_message_gets_the_id_it_wishes_where_it_is_one_and_free(step, kind, wish, granted):
    step.sink.roles["taken"] = "user"
    begin, say = {
        "text": (lambda: step.text("START", wish), lambda: step.text("CONTENT", wish, delta="x")),
        "thought": (
            lambda: step.thought("MESSAGE_START", wish),
            lambda: step.thought("MESSAGE_CONTENT", wish, delta="x"),
        ),
    }[kind]
    begin()
    say()
    given = step.sink.events[0]["messageId"]
    assert given == (wish if granted else "m:1")
    assert [event["messageId"] for event in step.sink.events] == [given, given]


def test_p6_an_id_that_was_used_in_the_step_means_its_newest_message(step):
    step.text("START", "m1")
    step.text("END", "m1")
    step.text("START", "m1")
    step.text("CONTENT", "m1", delta="x")
    assert step.told() == [
        "TEXT_MESSAGE_START m1",
        "TEXT_MESSAGE_END m1",
        "TEXT_MESSAGE_START m:1",
        "TEXT_MESSAGE_CONTENT m:1",
    ]


def test_p6_a_text_that_was_closed_goes_on_under_a_fresh_id_and_closes_what_was_open(step):
    step.text("START", "m1")
    step.text("START", "m2")
    step.told()
    step.text("CONTENT", "m1", delta="x")
    step.text("CONTENT", "m1", delta="y")
    assert step.told() == [
        "TEXT_MESSAGE_END m2",
        "TEXT_MESSAGE_START m:1",
        "TEXT_MESSAGE_CONTENT m:1",
        "TEXT_MESSAGE_CONTENT m:1",
    ]


def test_p6_a_delta_of_a_text_that_never_began_is_misplaced_and_says_nothing(step):
    step.text("START", "m1")
    step.told()
    with pytest.raises(Misplaced, match="TEXT_MESSAGE_CONTENT for m2"):
        step.text("CONTENT", "m2", delta="x")
    assert step.told() == []
    assert step.open == (["m1"], [], [])


def test_p6_a_span_inside_a_span_is_misplaced_and_one_after_it_is_not(step):
    step.thought("START", "s1")
    with pytest.raises(Misplaced, match="inside a span"):
        step.thought("START", "s2")
    step.thought("END", "s1")
    step.thought("START", "s2")
    assert step.told() == ["REASONING_START s1", "REASONING_END s1", "REASONING_START s2"]


def test_p1_a_calls_id_used_before_in_the_step_is_no_wish_and_means_the_newest(step):
    """C053."""
    step.emission.call("c1", "t", "1")
    step.call("START", "c1", toolCallName="u")
    step.call("ARGS", "c1", delta="2")
    step.emission.close()
    first, second = step.sink.calls
    assert (first, second) == ("c1", "call:2")
    assert step.sink.calls == {first: "1", second: "2"}
    assert step.sink.names == {first: "t", second: "u"}


def test_p3_what_names_no_call_means_the_newest_that_is_open(step):
    for name in ("c1", "c2", "c3"):
        step.call("START", name)
    step.call("END", "c3")
    step.call("ARGS", None, delta="x")
    step.call("END", None)
    step.call("ARGS", None, delta="y")
    assert step.sink.calls == {"c1": "y", "c2": "x", "c3": ""}
    assert step.open == ([], [], ["c1"])


# ---- what a call says ---------------------------------------------------------------------------


def test_p4_a_calls_name_and_text_go_out_whole_and_what_is_empty_does_not(step):
    step.call("START", toolCallName="t\ud800")
    step.call("ARGS", delta="")
    step.call("ARGS", delta='"\udc00"')
    assert step.sink.names == {"c1": "t\ud800"}
    assert step.sink.calls == {"c1": '"\ufffd"'}
    shown = [(e.get("toolCallName"), e.get("delta")) for e in step.sink.events]
    assert shown == [("t\ufffd", None), (None, '"\ufffd"')]


def test_p3_the_desk_hears_of_a_call_before_and_of_its_end_after_the_page_does(step):
    """A call's text must be known when its event is, and its end must be told before it is used."""
    order = []
    sink = step.sink
    for name in ("emit", "call_started", "call_said", "call_ended"):
        order_of(sink, name, order)
    step.emission.call("c1", "t", "{}")
    assert order == [
        "call_started",
        "emit TOOL_CALL_START",
        "call_said",
        "emit TOOL_CALL_ARGS",
        "emit TOOL_CALL_END",
        "call_ended",
    ]


def order_of(sink, name, order):
    """Let each use of this method of the sink be noted, in order."""
    method = getattr(sink, name)

    def noted(*args):
        order.append(f"emit {args[0]['type']}" if name == "emit" else name)
        return method(*args)

    setattr(sink, name, noted)


def test_p6_a_text_that_was_ended_goes_on_as_another_message():
    sink = Sink()
    emission = Emission(sink)
    emission.text("before")
    emission.end_texts()
    assert emission.open_texts == []
    emission.text("after")
    assert [e["type"] for e in sink.events].count("TEXT_MESSAGE_START") == 2
