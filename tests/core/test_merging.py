"""Deltas for a page that lags: which are merged, that nothing else is touched, what fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.fold_model import fold

from handspan.core.merging import merged
from handspan_protocol.codec import encode, parse_json

NO_LIMIT = 1 << 30


def text(delta, name="m1", kind="TEXT_MESSAGE_CONTENT", **more):
    return encode({"type": kind, "messageId": name, "delta": delta, **more})


def thought(delta, name="r1", **more):
    return text(delta, name, "REASONING_MESSAGE_CONTENT", **more)


def args(delta, name="c1", **more):
    return encode({"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": delta, **more})


def of_sub_run(delta, run="s1", name="m1"):
    """As `StepSink.say` writes it."""
    return b'{"subagentRunId":%b,' % encode(run) + text(delta, name)[1:]


# ---- which ------------------------------------------------------------------------------------

MERGED = {
    "texts": ([text("Hel"), text("lo"), text(" you")], text("Hello you")),
    "thoughts": ([thought("h"), thought("m")], thought("hm")),
    "arguments": ([args('{"a"'), args(":1}")], args('{"a":1}')),
    "of a sub-run, which stands first": ([of_sub_run("a"), of_sub_run("b")], of_sub_run("ab")),
    "of a sub-run, which stands last": (
        [text("a", subagentRunId="s1"), text("b", subagentRunId="s1")],
        text("ab", subagentRunId="s1"),
    ),
    "quotes and backslashes": (
        [text('"'), text("\\"), text('\\"}'), text('{"delta":"')],
        text('"\\\\"}{"delta":"'),
    ),
    "what looks like an end": ([text('"}'), text('"},{"')], text('"}"},{"')),
    "control characters": ([text("\x00\n"), text("\x1f\x7f")], text("\x00\n\x1f\x7f")),
    "any character": ([text("\u00e9\u6f22"), text("\U0001f600")], text("\u00e9\u6f22\U0001f600")),
    "empty ones": ([text(""), text("a"), text("")], text("a")),
    "ids that are words": ([text("a", "\u00e9 }"), text("b", "\u00e9 }")], text("ab", "\u00e9 }")),
}


@pytest.mark.parametrize(("events", "one"), MERGED.values(), ids=MERGED)
def test_adjacent_deltas_of_one_thing_become_one(events, one):
    assert merged(events, NO_LIMIT) == ([one], len(events))
    assert parse_json(one)["delta"] == "".join(parse_json(event)["delta"] for event in events)


def raw(delta):
    return b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"%b"}' % delta


APART = {
    "another id": [text("a"), text("b", "m2"), text("c")],
    "another kind": [text("a", "x"), thought("b", "x"), args("c", "x"), text("d", "x")],
    "another sub-run": [of_sub_run("a"), of_sub_run("b", "s2"), text("c")],
    "another sub-run, last": [
        text("a", subagentRunId="s1"),
        text("b", subagentRunId="s2"),
        text("c"),
        of_sub_run("d", "s1"),
    ],
    "something between": [
        text("a"),
        encode({"type": "CUSTOM", "name": "x", "value": 1}),
        text("b"),
        encode({"type": "TEXT_MESSAGE_END", "messageId": "m1"}),
        text("c"),
    ],
    "more than a delta": [
        text("a", timestamp=1),
        text("b", timestamp=1),
        text("c", rawEvent={}),
        text("d", rawEvent={}),
        thought("e", metadata={"x": "1"}),
        thought("f", metadata={"x": "1"}),
    ],
    "more before it": [encode({"timestamp": 1, **parse_json(text("a"))})] * 2,
    "another order": [encode({"messageId": "m1", "type": "TEXT_MESSAGE_CONTENT", "delta": "a"})]
    * 2,
    "a delta that is no string": [text(1), text(1), text(["a"]), text(["a"])],
    "other events twice": [encode({"type": "TEXT_MESSAGE_START", "messageId": "m1"})] * 2,
    "other events with a delta": [
        encode({"type": "STATE_DELTA", "delta": []}),
        encode({"type": "STATE_DELTA", "delta": []}),
        text("a", kind="THEIR_CONTENT"),
        text("b", kind="THEIR_CONTENT"),
    ],
    "an id of another kind": [args("a").replace(b"toolCallId", b"messageId")] * 2,
    "ids with escapes": [text("a", 'm"1'), text("b", 'm"1')],
    "no id": [text("a", ""), text("b", "")],
    "halves of a character": [raw(rb"\ud83d"), raw(rb"\ude00")],
    "escapes that we never write": [raw(rb"\u0130"), raw(rb"\u6f22")],
    "a delta twice": [raw(b'a","delta":"b')] * 2,
    "a string that does not end": [raw(b"a\\"), raw(b"a\\")],
    "spaces": [b'{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "a"}'] * 2,
    "no JSON at all": [b"", b"", b"\xff", b"\xff", text("a")[:-1], text("a")[:-1]],
}


@pytest.mark.parametrize("events", APART.values(), ids=APART)
def test_whatever_else_there_is_stays_as_it_is_and_where_it_is(events):
    assert merged(events, NO_LIMIT) == (events, len(events))


def test_what_stands_around_what_is_merged_is_not_touched():
    start = encode({"type": "TEXT_MESSAGE_START", "messageId": "m1"})
    end = encode({"type": "TEXT_MESSAGE_END", "messageId": "m1"})
    events = [start, text("a"), text("b"), end, args("{"), args("}"), text("c", "m2")]
    assert merged(events, NO_LIMIT) == ([start, text("ab"), end, args("{}"), text("c", "m2")], 7)


def test_nothing_makes_nothing():
    assert merged([], 100) == ([], 0)


# ---- how much ---------------------------------------------------------------------------------

SIZE = len(text(""))
FITS = [
    ("one, however large", [text("abc")], 1, 1),
    ("one, however large, and no more", [text("abc"), text("")], 1, 1),
    ("no text more than fits", [text("ab"), text("cd")], SIZE + 1 + 3, 1),
    ("text to the last byte", [text("ab"), text("cd")], SIZE + 1 + 4, 2),
    ("text as it is written", [text("ab"), text("\n\u6f22")], SIZE + 1 + 2 + 4, 1),
    ("text as it is written, whole", [text("ab"), text("\n\u6f22")], SIZE + 1 + 2 + 5, 2),
    ("no event more than fits", [text("a"), args("")], SIZE + 2 + len(args("")), 1),
    ("an event to the last byte", [text("a"), args("")], SIZE + 3 + len(args("")), 2),
    ("none behind one that does not fit", [text("a"), text("b" * 99), text("c")], SIZE + 9, 1),
]


@pytest.mark.parametrize(
    ("events", "limit", "count"), [case[1:] for case in FITS], ids=[case[0] for case in FITS]
)
def test_as_many_go_in_as_fit_or_one(events, limit, count):
    assert merged(events, limit) == (merged(events[:count], NO_LIMIT)[0], count)


# ---- whatever comes ---------------------------------------------------------------------------

names = st.sampled_from(("a", "b", 'q"'))
deltas = st.text(max_size=4) | st.sampled_from(('"', "\\", '"}', '\\"', "\x00", "\u2028"))
more = st.sampled_from(({}, {}, {}, {"subagentRunId": "s1"}, {"timestamp": 1}))
events = st.one_of(
    st.builds(lambda delta, name, rest: text(delta, name, **rest), deltas, names, more),
    st.builds(lambda delta, name, rest: text(delta, name, **rest), deltas, st.just("a"), more),
    st.builds(lambda delta, name: thought(delta, name), deltas, names),
    st.builds(lambda delta, name, rest: args(delta, f"c{name}", **rest), deltas, names, more),
    st.builds(lambda delta, name: of_sub_run(delta, "s1", name), deltas, names),
    st.builds(lambda name: encode({"type": "TEXT_MESSAGE_START", "messageId": name}), names),
    st.builds(lambda name: encode({"type": "TEXT_MESSAGE_END", "messageId": name}), names),
    st.builds(
        lambda name: encode(
            {"type": "TOOL_CALL_START", "toolCallId": f"c{name}", "toolCallName": "t"}
        ),
        names,
    ),
)
logs = st.lists(events, max_size=40)


def by_the_rule(log):
    """What protocol.md 1 lets be merged, said with values; of fields in the same order only."""
    out = []
    for event in map(parse_json, log):
        last = out[-1] if out else {}
        around = [(key, value) for key, value in event.items() if key != "delta"]
        if (
            event["type"] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS")
            and around == [(key, value) for key, value in last.items() if key != "delta"]
            and list(event) == list(last)
            and event.keys() <= {"type", "messageId", "toolCallId", "delta", "subagentRunId"}
            and '"' not in event.get("messageId", "") + event.get("toolCallId", "")
        ):
            last["delta"] += event["delta"]
        else:
            out.append(event)
    return out


@given(logs)
def test_all_that_may_be_merged_is_and_nothing_else(log):
    out, count = merged(log, NO_LIMIT)
    assert [parse_json(event) for event in out] == by_the_rule(log)
    assert count == len(log)


@given(logs)
def test_merging_again_changes_nothing(log):
    out, _ = merged(log, NO_LIMIT)
    assert merged(out, NO_LIMIT) == (out, len(out))


@given(logs, st.integers(1, 300))
def test_what_goes_in_is_as_much_as_fits(log, limit):
    out, count = merged(log, limit)
    assert out == merged(log[:count], NO_LIMIT)[0]
    assert count == min(count, 1) or size(out) <= limit
    if count < len(log):
        assert count
        assert size(merged(log[: count + 1], NO_LIMIT)[0]) > limit


def size(out):
    return sum(len(event) + 1 for event in out)


@given(logs, st.integers(1, 300))
def test_p9_frame_by_frame_the_fold_of_what_was_merged_is_the_fold_of_all(log, limit):
    at, received = 0, []
    while at < len(log):
        out, count = merged(log[at:], limit)
        received += out
        at += count
        assert fold(read(received)) == fold(read(log[:at]))
    assert at == len(log)


def read(log):
    return [parse_json(event) for event in log]


def test_a_text_full_of_escapes_is_read_once():
    """Linear: the work of one long delta is not that of its square."""
    delta = raw(b'\\"' * 200_000)
    broken = delta[:-2]
    assert merged([delta, delta], NO_LIMIT) == ([raw(b'\\"' * 400_000)], 2)
    assert merged([broken, broken], NO_LIMIT) == ([broken, broken], 2)
