"""What a page sends: which frames there are, which are answered, how absence reads (P4, P14)."""

from dataclasses import MISSING, FrozenInstanceError, fields
from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.protocol.vectors import cases

from handspan_protocol import page_frames
from handspan_protocol.page_frames import (
    ApprovalAnswer,
    Bye,
    Command,
    Hello,
    Notice,
    PageFrame,
    Pong,
    RunStart,
    StateUpdate,
    ToolInvoke,
    ToolProgress,
    ToolResult,
    ToolsUpdate,
)
from handspan_protocol.parts import ABSENT, CommandId

FRAMES = get_args(PageFrame)
COMMANDS, NOTICES = get_args(Command), get_args(Notice)
GOOD = {}
for case in cases("page_frames.jsonl"):
    if case["ok"] and "frame" in case:
        GOOD.setdefault(case["frame"]["type"], case["frame"])


def kind_of(frame):
    return get_args(frame.__annotations__["type"])[0]


def read(frame, raw):
    return TypeAdapter(frame).validate_python(raw)


def refuses(frame, raw):
    try:
        read(frame, raw)
    except ValidationError:
        return True
    return False


def test_a_page_opens_with_hello_then_commands_and_notices():
    assert set(FRAMES) == {Hello, *COMMANDS, *NOTICES}
    assert len(FRAMES) == 1 + len(COMMANDS) + len(NOTICES)


def test_every_frame_that_is_described_may_be_sent():
    described = {
        kind
        for kind in vars(page_frames).values()
        if isinstance(kind, type) and kind.__module__ == page_frames.__name__
    }
    assert described == set(FRAMES)


def test_no_two_frames_have_one_type():
    assert len({kind_of(frame) for frame in FRAMES}) == len(FRAMES)


@pytest.mark.parametrize("frame", FRAMES, ids=kind_of)
def test_a_frame_says_its_type_by_itself(frame):
    (own,) = [field for field in fields(frame) if field.name == "type"]
    assert own.default == kind_of(frame)


@pytest.mark.parametrize("frame", COMMANDS, ids=kind_of)
def test_a_command_needs_an_id_to_be_answered_under(frame):
    (own,) = [field for field in fields(frame) if field.name == "id"]
    assert own.type == CommandId
    assert own.default is MISSING


@pytest.mark.parametrize("frame", [Hello, *NOTICES], ids=kind_of)
def test_hello_and_notices_have_no_id(frame):
    assert "id" not in {field.name for field in fields(frame)}


@pytest.mark.parametrize("frame", FRAMES, ids=kind_of)
def test_a_frame_cannot_be_changed(frame):
    one = read(frame, GOOD[kind_of(frame)])
    with pytest.raises(FrozenInstanceError):
        one.type = "other"
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("frame", [f for f in FRAMES if len(fields(f)) > 1], ids=kind_of)
def test_p14_a_frame_without_a_field_that_it_needs_is_none(frame):
    raw = GOOD[kind_of(frame)]
    alias = TypeAdapter(frame).json_schema(by_alias=True)["properties"]
    needed = TypeAdapter(frame).json_schema(by_alias=True).get("required", [])
    assert set(needed) <= set(alias) & set(raw)
    for name in needed:
        assert refuses(frame, {key: value for key, value in raw.items() if key != name})


# ---- what types alone do not tell


def test_p14_a_hello_takes_tools_as_they_come():
    assert read(Hello, GOOD["hello"] | {"tools": [5, None, {}]}).tools == (5, None, {})


def test_p4_an_empty_set_of_tools_is_not_an_absent_one():
    assert read(ToolsUpdate, {"id": "1", "set": []}).set == ()
    assert read(ToolsUpdate, {"id": "1"}).set is None


@pytest.mark.parametrize("frame", [ToolResult, StateUpdate])
def test_p4_presence_is_told_apart_from_null(frame):
    name = "result" if frame is ToolResult else "state"
    rest = {"id": "1", "callId": "c", "attempt": 1, "threadId": "t"}
    assert getattr(read(frame, rest), name) is ABSENT
    assert getattr(read(frame, rest | {name: None}), name) is None
    for value in (False, 0, "", [], {}):
        assert getattr(read(frame, rest | {name: value}), name) == value


def test_a_tool_invoke_cannot_replace_a_run():
    rest = {"id": "1", "threadId": "t", "name": "n"}
    assert read(ToolInvoke, rest | {"ifBusy": "queue"}).if_busy == "queue"
    assert refuses(ToolInvoke, rest | {"ifBusy": "replace"})
    assert read(RunStart, rest | {"ifBusy": "replace"}).if_busy == "replace"


@pytest.mark.parametrize("wish", [True, False, "go on", ""])
def test_p4_a_follow_up_is_a_yes_a_no_or_a_text(wish):
    read_wish = read(
        ToolInvoke, {"id": "1", "threadId": "t", "name": "n", "followUp": wish}
    ).follow_up
    assert read_wish == wish
    assert type(read_wish) is type(wish)


def test_a_run_starts_from_a_text_a_message_or_neither():
    rest = {"id": "1", "threadId": "t"}
    assert read(RunStart, rest).message is None
    assert read(RunStart, rest | {"message": ""}).message == ""
    assert read(RunStart, rest | {"message": {"content": []}}).message == {"content": []}
    assert refuses(RunStart, rest | {"message": []})


def test_p10_an_approval_is_a_yes_or_a_no_and_nothing_like_it():
    rest = {"id": "1", "callId": "c", "digest": "d"}
    assert read(ApprovalAnswer, rest | {"approved": False}).approved is False
    for truthy in (1, "true", "yes", [1], None):
        assert refuses(ApprovalAnswer, rest | {"approved": truthy})


def test_p14_the_content_of_a_result_is_ag_ui_parts():
    rest = {"id": "1", "callId": "c", "attempt": 1}
    (part,) = read(ToolResult, rest | {"content": [{"type": "text", "text": "a"}]}).content
    assert (part.type, part.text) == ("text", "a")
    assert refuses(ToolResult, rest | {"content": [{"type": "song"}]})
    assert refuses(ToolResult, rest | {"content": "a"})


def test_p4_progress_may_be_whole_or_a_fraction():
    read_progress = read(ToolProgress, {"callId": "c", "attempt": 1, "progress": 1, "total": 2.5})
    assert (read_progress.progress, read_progress.total) == (1, 2.5)


def test_frames_without_fields_are_all_alike():
    assert read(Pong, {"type": "pong", "x": 1}) == Pong()
    assert read(Bye, {}) == Bye()
    assert Pong() != Bye()
