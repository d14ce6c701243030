"""Frames to text and back: P4, P14. Vectors page_frames.jsonl, server_frames.jsonl."""

import json
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from tests.protocol.values import JSON
from tests.protocol.vectors import cases, each

from handspan_protocol import codec, frames
from handspan_protocol.codec import (
    PAGE_TYPES,
    SERVER_TYPES,
    FrameProblem,
    decode,
    decode_server,
    encode,
    events_bytes,
    frame_bytes,
    page_frame,
    server_frame,
)
from handspan_protocol.errors import CommandCode, PeerError, ResumeRefusal, UsageError
from handspan_protocol.frames import ABSENT

CLASS_OF = {get_args(c.__annotations__["type"])[0]: c for c in get_args(frames.PageFrame)}
RESULT = {"type": "tool.result", "id": "1", "callId": "c1", "attempt": 1}


def text_of(case):
    return case["text"] if "text" in case else json.dumps(case["frame"])


def problem(frame):
    with pytest.raises(FrameProblem) as caught:
        decode(frame if isinstance(frame, str) else json.dumps(frame))
    return caught.value


def problem_or_none(text):
    try:
        decode(text)
    except FrameProblem as found:
        return found
    return None


def kinds_of_problems(frame):
    try:
        page_frame().validate_python(frame)
    except ValidationError as problem:
        return [each["type"] for each in problem.errors()]
    return []


# ---- page -> server


@each("page_frames.jsonl")
def test_p14_a_frame_is_read_or_refused_with_code_and_place(case):
    if case["ok"]:
        frame = decode(text_of(case))
        assert frame.type == case.get("frame", {"type": frame.type})["type"]
    else:
        found = problem(text_of(case))
        assert found.code == case["code"]
        assert found.path == case.get("path")
        assert 0 < len(found.message) < 200
        assert "pydantic" not in found.message
        assert "http" not in found.message


def test_p14_whatever_is_wrong_with_a_field_has_words_and_no_words_are_spare():
    frames_of_vectors = [c["frame"] for c in cases("page_frames.jsonl") if "frame" in c]
    told = {kind for frame in frames_of_vectors for kind in kinds_of_problems(frame)}
    assert told == {*codec._EXPECTED, "literal_error", "union_tag_invalid", "greater_than_equal"}


def test_every_page_type_has_a_good_and_a_bad_vector():
    seen = {
        (c["frame"]["type"], c["ok"])
        for c in cases("page_frames.jsonl")
        if "type" in c.get("frame", {})
    }
    assert {kind for kind, ok in seen if ok} == PAGE_TYPES
    without_fields = {"pong", "bye"}
    asking_only_an_id = {"thread.list", "thread.delete", "tools.update"}
    bad = {kind for kind, ok in seen if not ok}
    assert PAGE_TYPES - without_fields - asking_only_an_id <= bad


def test_c138_null_equals_absent_for_every_optional_field():
    """P14. Every frame with all its optional fields null reads as the frame without them."""
    minimal = {}
    for case in cases("page_frames.jsonl"):
        if case["ok"] and "frame" in case:
            kind = case["frame"]["type"]
            if kind not in minimal or len(case["frame"]) < len(minimal[kind]):
                minimal[kind] = case["frame"]
    for frame in minimal.values():
        read = decode(json.dumps(frame))
        optional = [f.name for f in fields(read) if f.default is None]
        nulls = {to_camel(name): None for name in optional}
        assert decode(json.dumps({**nulls, **frame})) == read


def test_the_frame_has_snake_case_fields_and_values_keep_their_keys():
    frame = decode(
        '{"type":"run.start","id":"1","threadId":"t","forwardedProps":{"camelCase":1,"snake_case":2},'
        '"ifBusy":"queue","message":{"role":"user","fooBar":1}}'
    )
    assert isinstance(frame, frames.RunStart)
    assert frame.thread_id == "t"
    assert frame.if_busy == "queue"
    assert frame.forwarded_props == {"camelCase": 1, "snake_case": 2}
    assert frame.message == {"role": "user", "fooBar": 1}


def test_p4_presence_decides_what_a_result_is():
    def read(**more):
        frame = decode(json.dumps(RESULT | more))
        assert isinstance(frame, frames.ToolResult)
        return frame.result, frame.content, frame.error and frame.error.message

    assert read(result=None) == (None, None, None)
    assert read(result=False, error=None) == (False, None, None)
    assert read(result=None, error={"message": ""}) == (ABSENT, None, "")
    assert read(result=None, content=[]) == (ABSENT, (), None)


def test_p4_presence_decides_what_a_state_is():
    def read(text):
        frame = decode('{"type":"state.update","id":"1","threadId":"t",' + text + "}")
        assert isinstance(frame, frames.StateUpdate)
        return frame.patch, frame.state

    assert read('"state":null') == (None, None)
    assert read('"state":null,"patch":null') == (None, None)
    assert read('"state":null,"patch":[]') == ((), ABSENT)


def test_p3_digits_beyond_a_double_arrive():
    frame = decode(
        '{"type":"tool.invoke","id":"1","threadId":"t","name":"f","args":{"n":12345678901234567890123}}'
    )
    assert isinstance(frame, frames.ToolInvoke)
    assert frame.args == {"n": 12345678901234567890123}


@pytest.mark.parametrize(
    ("frame", "frame_id"),
    [
        ({"type": "run.start", "id": "7"}, "7"),
        ({"type": "dance", "id": "7"}, "7"),
        ({"id": "7"}, "7"),
        ({"type": "run.start", "id": ""}, ""),
        ({"type": "run.start", "id": 7}, None),
        ({"type": "run.start"}, None),
        ("[]", None),
        ("{", None),
    ],
)
def test_a_problem_knows_the_id_under_which_the_page_waits(frame, frame_id):
    assert problem(frame).id == frame_id


def test_p14_a_field_of_several_kinds_is_told_in_one_sentence():
    found = problem({"type": "run.start", "id": "1", "threadId": "t", "message": 5})
    assert found.message == "/message must be a string or an object"


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "text", "text": 5}, "/content/0/text"),
        (
            {"type": "image", "source": {"type": "data", "data": {}, "mimeType": "a"}},
            "/content/0/source/value",
        ),
        (
            {"type": "image", "image": 1, "source": {"type": "url", "url": 1}},
            "/content/0/source/value",
        ),
    ],
)
def test_p14_a_field_named_like_its_type_does_not_mislead_the_pointer(part, path):
    assert problem(RESULT | {"content": [part]}).path == path


def test_p14_a_key_of_the_frame_named_like_a_type_does_not_mislead_the_pointer():
    assert (
        problem(
            {"type": "tool.started", "tool.started": {"callId": 1}, "id": "1", "attempt": 1}
        ).path
        == "/callId"
    )


def test_p12_a_million_bad_items_cost_what_one_costs():
    """Each was told once; a frame of 2 MiB took ten seconds."""
    for text in (
        '{"type":"hello","protocol":1,"documentId":"d","calls":[%s]}',
        '{"type":"tools.update","id":"1","remove":[%s]}',
        '{"type":"tool.result","id":"1","callId":"c","attempt":1,"content":[%s]}',
        '{"type":"state.update","id":"1","threadId":"t","patch":[%s]}',
    ):
        with pytest.raises(ValidationError) as caught:
            page_frame().validate_python(json.loads(text % ",".join(["0"] * 1_000)))
        assert caught.value.error_count() == 1


@given(
    st.dictionaries(
        st.sampled_from(["type", "id", "callId", "threadId", "result", "content"]), JSON
    )
    | JSON
)
def test_p14_any_value_is_a_frame_or_a_problem(value):
    found = problem_or_none(encode(value))
    assert found is None or found.code in (CommandCode.INVALID_FRAME, CommandCode.UNKNOWN_TYPE)


@given(st.sampled_from(sorted(PAGE_TYPES)), st.data())
def test_p14_a_frame_with_odd_fields_is_read_or_told_with_a_place(kind, data):
    names = [to_camel(f.name) for f in fields(CLASS_OF[kind]) if f.name != "type"]
    odd = data.draw(st.dictionaries(st.sampled_from(names), JSON)) if names else {}
    found = problem_or_none(encode({**odd, "type": kind}))
    assert found is None or (found.path or "")[1:].split("/")[0] in names


# ---- server -> page


@each("server_frames.jsonl")
def test_p4_a_server_frame_is_written_as_the_vector_says(case):
    frame = server_frame().validate_python(case["frame"])
    assert json.loads(frame_bytes(frame)) == case["frame"]
    assert decode_server(json.dumps(case["frame"])) == case["frame"]


def test_every_server_type_has_a_vector():
    assert {case["frame"]["type"] for case in cases("server_frames.jsonl")} == SERVER_TYPES


def test_page_types_and_server_types_are_strangers():
    assert not PAGE_TYPES & SERVER_TYPES


def test_absent_optionals_are_not_written_and_required_nulls_are():
    call = frames.ToolCall(
        call_id="c", attempt=1, thread_id="t", run_id="r", depth=0, name="f", args=None,
        raw_args="null", timeout_ms=1, revision=0,
    )  # fmt: skip
    assert json.loads(frame_bytes(call)) == {
        "type": "tool.call", "callId": "c", "attempt": 1, "threadId": "t", "runId": "r",
        "depth": 0, "name": "f", "args": None, "rawArgs": "null", "timeoutMs": 1, "revision": 0,
    }  # fmt: skip
    assert (
        frame_bytes(frames.Reply(id="1", result=None)) == b'{"type":"reply","id":"1","result":null}'
    )
    assert frame_bytes(frames.Reply(id="1")) == b'{"type":"reply","id":"1"}'


def test_nested_parts_are_renamed_and_values_are_not():
    welcome = frames.Welcome(
        protocol=1,
        session=frames.SessionGrant(id="s", secret="x"),
        resumed=False,
        reason=ResumeRefusal.SESSION_IN_USE,
        agents=("default",),
        limits={"frame_bytes": 1},
        heartbeat_ms=1,
        threads=(
            frames.ThreadOpened(thread_id="t"),
            frames.ThreadOpened(
                thread_id="u", error=frames.WireError(code=CommandCode.BUSY, message="m")
            ),
        ),
        tools=frames.ToolsVerdict(
            rejected=(frames.RejectedTool(name="a", code="bad_name", message="m"),)
        ),
    )
    wire = json.loads(frame_bytes(welcome))
    assert wire["threads"] == [
        {"threadId": "t"},
        {"threadId": "u", "error": {"code": "busy", "message": "m"}},
    ]
    assert wire["tools"] == {
        "accepted": [],
        "rejected": [{"name": "a", "code": "bad_name", "message": "m"}],
    }
    assert wire["limits"] == {"frame_bytes": 1}
    assert wire["reason"] == "session_in_use"


def test_p4_a_value_in_a_frame_that_json_has_not_is_a_usage_error():
    with pytest.raises(UsageError, match="/result/a"):
        frame_bytes(frames.Reply(id="1", result={"a": float("nan")}))


def test_a_frame_of_events_is_the_events_as_they_were_encoded():
    encoded = [encode({"type": "A", "x": "\u00e9"}), encode({"type": "B"})]
    data = events_bytes("t1", 'e"', 814, encoded)
    assert (
        data
        == (
            '{"type":"events","threadId":"t1","epoch":"e\\"","offset":814,'
            '"events":[{"type":"A","x":"\u00e9"},{"type":"B"}]}'
        ).encode()
    )
    assert decode_server(data)["events"][1] == {"type": "B"}
    assert events_bytes("t", "e", 0, [])[-3:] == b"[]}"


def test_p12_what_a_page_sent_at_the_limit_fits_a_frame_to_a_page():
    value = decode(
        '{"type":"tool.result","id":"1","callId":"c","attempt":1,"result":'
        + "[" * 127
        + "]" * 127
        + "}"
    )
    data = frame_bytes(frames.Reply(id="1", result={"result": {"deeper": value.result}}))
    assert decode_server(data)["id"] == "1"


@pytest.mark.parametrize("text", ["[]", "{}", '{"type":5}', '{"type":"hello"}', "{"])
def test_a_page_in_python_refuses_what_no_server_sends(text):
    with pytest.raises(PeerError):
        decode_server(text)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"type": "tool.invoke", "followUp": {"a": 1}}, "/followUp"),
        ({"type": "tool.invoke", "followUp": [1]}, "/followUp"),
        ({"type": "tool.progress", "progress": {"int": 1}}, "/progress"),
        ({"type": "tool.progress", "total": {}}, "/total"),
        ({"type": "run.start", "message": 7}, "/message"),
    ],
)
def test_p14_a_path_names_fields_of_the_frame_and_nothing_of_the_validator(
    fields: dict[str, Any], path: str
) -> None:
    whole = {"id": "1", "threadId": "t", "name": "x", "callId": "c", "attempt": 1} | fields
    with pytest.raises(FrameProblem) as problem:
        decode(json.dumps(whole))
    assert problem.value.path == path
