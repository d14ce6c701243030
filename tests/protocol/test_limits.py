"""The numbers both ends must agree on: kept to the last one, and told alike (P12)."""

import pytest
from tests.protocol.vectors import PROTOCOL

from handspan_protocol.codec import decode, events_bytes
from handspan_protocol.content import page_error_message
from handspan_protocol.errors import PeerError
from handspan_protocol.limits import (
    DESCRIPTION_CHARS,
    ERROR_MESSAGE_CHARS,
    EVENTS_FRAME_BYTES,
    NESTING_MAX,
    PROGRESS_INTERVAL_S,
)
from handspan_protocol.tools import Refusal, Tool, read_tool

README = (PROTOCOL / "README.md").read_text(encoding="utf-8")
PAGE = (PROTOCOL.parent / "bridge" / "handspan" / "client" / "core" / "protocol.js").read_text(
    encoding="utf-8"
)


def frame_of_levels(levels):
    inside = levels - 1
    return '{"type":"pong","deep":' + "[" * inside + "]" * inside + "}"


def test_p12_a_frame_may_nest_as_deep_as_said_and_no_deeper():
    assert decode(frame_of_levels(NESTING_MAX)).type == "pong"
    with pytest.raises(PeerError, match=f"{NESTING_MAX} levels"):
        decode(frame_of_levels(NESTING_MAX + 1))


@pytest.mark.parametrize(("chars", "kind"), [(0, Tool), (1, Refusal)])
def test_p12_a_description_may_be_as_long_as_said_and_no_longer(chars, kind):
    description = "x" * (DESCRIPTION_CHARS + chars)
    assert isinstance(read_tool({"name": "a", "description": description}), kind)


@pytest.mark.parametrize("more", [0, 1])
def test_p12_a_pages_error_message_is_cut_where_said(more):
    assert len(page_error_message("x" * (ERROR_MESSAGE_CHARS + more))) == ERROR_MESSAGE_CHARS


def test_p12_a_frame_of_events_has_room_for_far_more_than_its_envelope():
    """The writer fills what the envelope leaves; with the longest ids it must leave most of it."""
    assert len(events_bytes("t" * 128, "e" * 128, 10**12, [])) < EVENTS_FRAME_BYTES // 100


@pytest.mark.parametrize(
    "told",
    [
        f"nested more than {NESTING_MAX} levels",
        f"up to {EVENTS_FRAME_BYTES // 1024} KiB or one event",
        f"cut at {ERROR_MESSAGE_CHARS:,} characters",
        f"at most one per call and {PROGRESS_INTERVAL_S * 1000:.0f} ms",
    ],
)
def test_the_readme_tells_the_limit(told):
    assert told in README


@pytest.mark.parametrize(
    "told",
    [
        f"PROGRESS_MS = {PROGRESS_INTERVAL_S * 1000:.0f};",
        f"ERROR_CHARS = {ERROR_MESSAGE_CHARS:_};",
    ],
)
def test_the_pages_library_has_the_same_limit(told):
    assert f"export const {told}" in PAGE
