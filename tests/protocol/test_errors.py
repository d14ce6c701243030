"""Codes, and whose fault an error is: protocol.md 7 and 8."""

import re
from enum import StrEnum

import pytest
from tests.protocol.vectors import PROTOCOL

from handspan_protocol import errors
from handspan_protocol.errors import (
    CallCode,
    CallStatus,
    CloseCode,
    CommandCode,
    HandspanError,
    Outcome,
    PeerError,
    RunCode,
    StopReason,
    Unavailable,
    UsageError,
    outcome_of,
)

README = (PROTOCOL / "README.md").read_text(encoding="utf-8")
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
]
FAULTS = {UsageError, PeerError, Unavailable}


# ---- codes


@pytest.mark.parametrize("code", [None, *CallCode])
def test_every_code_has_one_outcome(code):
    named = {
        None: Outcome.OK,
        CallCode.DENIED: Outcome.DENIED,
        CallCode.APPROVAL_EXPIRED: Outcome.DENIED,
        CallCode.ABORTED: Outcome.ABORTED,
        CallCode.ABORTED_BEFORE_START: Outcome.ABORTED,
        CallCode.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
    }
    assert outcome_of(code) is named.get(code, Outcome.ERROR)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_that_of_some_code(outcome):
    assert outcome in {outcome_of(code) for code in [None, *CallCode]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_code_travels_as_its_name_in_small_letters(kind):
    assert [str(code) for code in kind] == [code.name.lower() for code in kind]


@pytest.mark.parametrize("kind", [*KINDS, CloseCode], ids=lambda kind: kind.__name__)
def test_no_two_names_are_one_code(kind):
    assert len(kind.__members__) == len(set(kind))


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("`reply.error` and `error` frames", CommandCode),
        ("RUN_ERROR", RunCode),
        ("RUN_FINISHED `result.reason`", StopReason),
        ("status of a reply about a call", CallStatus),
    ],
)
def test_the_readme_lists_the_codes_there_are_and_no_others(row, kind):
    (listed,) = re.findall(rf"\n\| {re.escape(row)} \| (.*) \|", README)
    assert re.findall(r"`([^`]+)`", listed) == list(kind)


@pytest.mark.parametrize("code", list(CloseCode))
def test_a_close_code_is_one_that_may_be_sent(code):
    """*Source:* RFC 6455, 7.4; 1005, 1006 and 1015 are never sent."""
    assert code in {1000, 1001, 1003, *range(1007, 1015)} or 3000 <= code < 5000


# ---- exceptions


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_is_of_one_fault_under_one_root(fault):
    assert fault.__bases__ == (HandspanError,)
    assert not any(issubclass(fault, other) for other in FAULTS - {fault})


def test_a_peer_error_carries_code_message_and_path():
    error = PeerError(CommandCode.BUSY, "a run is going on", "/threadId")
    assert (error.code, error.message, error.path, str(error)) == (
        "busy",
        "a run is going on",
        "/threadId",
        "a run is going on",
    )


def test_a_peer_error_of_no_field_has_no_path():
    assert PeerError(CommandCode.INTERNAL, "it is ours").path is None
