"""Every code of the protocol, and the exceptions, split by whose fault it is.

    HandspanError
    ├── UsageError      ours: the program that uses the library asked for what cannot be
    ├── PeerError       the peer's: carries a code of CommandCode, goes out as reply or error frame
    └── Unavailable     the world's: a store, a network, a provider did not answer

A tool's failure is none of these: it is a result, with a code of CallCode. Codes are stable
strings; tests match codes, never texts. *Source:* protocol.md 5, 7, 8.
"""

from enum import IntEnum, StrEnum


class CommandCode(StrEnum):
    """Errors of commands (`reply.error.code`) and of `error` frames."""

    INVALID_FRAME = "invalid_frame"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_THREAD = "unknown_thread"
    FORBIDDEN = "forbidden"
    BUSY = "busy"
    DENIED = "denied"
    UNKNOWN_AGENT = "unknown_agent"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_CALL = "unknown_call"
    UNKNOWN_RUN = "unknown_run"
    DUPLICATE_ID = "duplicate_id"
    NOT_OWNER = "not_owner"
    RATE_LIMITED = "rate_limited"
    TOO_LARGE = "too_large"
    LIMIT = "limit"
    DRAINING = "draining"
    UNAUTHENTICATED = "unauthenticated"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    INTERNAL = "internal"


class CallCode(StrEnum):
    """Why a call did not succeed; `handspan.call.code` and `metadata.handspan.code`."""

    UNKNOWN_TOOL = "unknown_tool"
    UNAVAILABLE = "unavailable"
    INVALID_ARGUMENTS = "invalid_arguments"
    HANDLER_ERROR = "handler_error"
    DENIED = "denied"
    APPROVAL_EXPIRED = "approval_expired"
    TIMEOUT = "timeout"
    NO_CLIENT = "no_client"
    PAGE_GONE = "page_gone"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RESULT_TOO_LARGE = "result_too_large"
    INVALID_RESULT = "invalid_result"
    TRUNCATED_TURN = "truncated_turn"
    ABORTED_BEFORE_START = "aborted_before_start"
    ABORTED = "aborted"
    LIMIT = "limit"


class Outcome(StrEnum):
    """How a call settled, in one word."""

    OK = "ok"
    DENIED = "denied"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    ERROR = "error"


_OUTCOMES = {
    CallCode.DENIED: Outcome.DENIED,
    CallCode.APPROVAL_EXPIRED: Outcome.DENIED,
    CallCode.ABORTED: Outcome.ABORTED,
    CallCode.ABORTED_BEFORE_START: Outcome.ABORTED,
    CallCode.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
}


def outcome_of(code: CallCode | None) -> Outcome:
    """The outcome that a call's code stands for; no code is success."""
    return Outcome.OK if code is None else _OUTCOMES.get(code, Outcome.ERROR)


class RunCode(StrEnum):
    """`RUN_ERROR.code`."""

    AGENT_ERROR = "agent_error"
    PROVIDER_ERROR = "provider_error"
    DENIED = "denied"
    OUTPUT_LIMIT = "output_limit"
    INTERNAL = "internal"


class ToolCode(StrEnum):
    """Why a tool was refused; `welcome.tools.rejected[].code`."""

    BAD_NAME = "bad_name"
    BAD_DESCRIPTION = "bad_description"
    NAME_TAKEN = "name_taken"
    BAD_SCHEMA = "bad_schema"
    SCHEMA_REMOTE_REF = "schema_remote_ref"
    SCHEMA_TOO_LARGE = "schema_too_large"
    TOO_MANY_TOOLS = "too_many_tools"
    DUPLICATE_NAME = "duplicate_name"


class StopReason(StrEnum):
    """`RUN_FINISHED.result.reason`."""

    COMPLETED = "completed"
    NO_FOLLOW_UP = "no_follow_up"
    STOP_CONDITION = "stop_condition"
    MAX_DEPTH = "max_depth"
    REPEATING = "repeating"
    TRUNCATED = "truncated"
    ABORTED = "aborted"


class CallStatus(StrEnum):
    """Answers to `tool.started`, `tool.result` and `approval.answer`."""

    GO = "go"
    APPLIED = "applied"
    STALE = "stale"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    ABORTED = "aborted"
    LATE = "late"


class CancelReason(StrEnum):
    """`tool.cancel.reason`."""

    ABORTED = "aborted"
    TIMEOUT = "timeout"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"


class ResumeRefusal(StrEnum):
    """`welcome.reason` when a session was not resumed."""

    UNKNOWN_SESSION = "unknown_session"
    SESSION_IN_USE = "session_in_use"


class CloseCode(IntEnum):
    """WebSocket close codes. 4000-4499 may be retried (4409 not by itself), 4500-4999 not."""

    NORMAL = 1000
    PAGE_LEAVES = 1001
    BINARY_FRAME = 1003
    BAD_UTF8 = 1007
    TOO_LARGE = 1009
    OUR_FAULT = 1011
    RESTART = 1012
    OVERLOAD = 1013
    UNAUTHENTICATED = 3000
    FORBIDDEN = 3003
    DOES_NOT_READ = 4008
    NO_HELLO = 4408
    SUPERSEDED = 4409
    TOO_MANY_MESSAGES = 4429
    BROKE_PROTOCOL = 4500
    SESSION_REVOKED = 4501
    VERSION = 4503


class HandspanError(Exception):
    """The root of all errors raised by Handspan."""


class UsageError(HandspanError):
    """The program asked for what cannot be; the message says what to change."""


class PeerError(HandspanError):
    """The peer sent what it must not.

    `code` goes over the wire; `path` is a JSON pointer into the frame, where one is known.
    """

    def __init__(self, code: CommandCode, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path


class Unavailable(HandspanError):  # noqa: N818 - whose fault it is, not what it is
    """A store, a network or a provider did not do its part; trying again may help."""
