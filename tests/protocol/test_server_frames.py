"""What the server sends: which frames there are, and that they agree with the codes (P4)."""

from dataclasses import MISSING, FrozenInstanceError, fields
from typing import get_args

import pytest
from pydantic import TypeAdapter
from tests.protocol.vectors import cases

from handspan_protocol import server_frames
from handspan_protocol.errors import CancelReason, ResumeRefusal
from handspan_protocol.parts import ABSENT
from handspan_protocol.server_frames import (
    RejectedTool,
    Reply,
    ServerFrame,
    SessionGrant,
    ThreadOpened,
    ToolCancel,
    ToolsVerdict,
    Welcome,
    WireError,
)

FRAMES = get_args(ServerFrame)
PARTS = {RejectedTool, SessionGrant, ThreadOpened, ToolsVerdict, WireError}
GOOD = {case["frame"]["type"]: case["frame"] for case in cases("server_frames.jsonl")}


def kind_of(frame):
    return get_args(frame.__annotations__["type"])[0]


def annotation(frame, name):
    (own,) = [field.type for field in fields(frame) if field.name == name]
    return own


def test_every_frame_that_is_described_may_be_sent():
    described = {
        kind
        for kind in vars(server_frames).values()
        if isinstance(kind, type) and kind.__module__ == server_frames.__name__
    }
    assert described == {*FRAMES, *PARTS}


def test_no_two_frames_have_one_type():
    assert len({kind_of(frame) for frame in FRAMES}) == len(FRAMES)


@pytest.mark.parametrize("frame", FRAMES, ids=kind_of)
def test_a_frame_says_its_type_by_itself(frame):
    (own,) = [field for field in fields(frame) if field.name == "type"]
    assert own.default == kind_of(frame)


@pytest.mark.parametrize("frame", FRAMES, ids=kind_of)
def test_a_frame_cannot_be_changed(frame):
    one = TypeAdapter(frame).validate_python(GOOD[kind_of(frame)])
    with pytest.raises(FrozenInstanceError):
        one.type = "other"
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("part", sorted(PARTS, key=lambda part: part.__name__))
def test_a_part_cannot_be_changed(part):
    one = part(**{f.name: "x" for f in fields(part) if f.default is MISSING})
    with pytest.raises(FrozenInstanceError):
        setattr(one, fields(part)[0].name, "other")


def test_a_cancel_gives_one_of_the_reasons_there_are():
    assert get_args(annotation(ToolCancel, "reason")) == tuple(CancelReason)


def test_a_welcome_that_did_not_resume_gives_one_of_the_reasons_there_are():
    refusals, nothing = get_args(annotation(Welcome, "reason"))
    assert get_args(refusals) == tuple(ResumeRefusal)
    assert nothing is type(None)


def test_p4_a_reply_of_null_is_not_a_reply_without_a_result():
    assert Reply(id="1").result is ABSENT
    assert Reply(id="1", result=None).result is None
    assert Reply(id="1") != Reply(id="1", result=None)


def test_a_verdict_on_no_tools_is_empty():
    assert ToolsVerdict() == ToolsVerdict(accepted=(), rejected=())
