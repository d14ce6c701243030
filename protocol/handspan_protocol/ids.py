"""Names of things on the wire, and the one place that says which strings may be one.

Ids are NewTypes: the type checker keeps a call's id out of a run's place, at run time they are str.
"""

import re
from typing import Final, NewType

ThreadId = NewType("ThreadId", str)
RunId = NewType("RunId", str)
CallId = NewType("CallId", str)
SessionId = NewType("SessionId", str)
DocumentId = NewType("DocumentId", str)
MessageId = NewType("MessageId", str)

ID_PATTERN: Final = r"[A-Za-z0-9_.:-]{1,128}"
"""Threads, runs, calls, documents and sessions; full match. *Source:* protocol.md."""

TOOL_NAME_PATTERN: Final = r"[A-Za-z0-9_.-]{1,64}"
"""A tool's name, full match; or exactly WILDCARD. *Source:* protocol.md 5."""

ERROR_CODE_PATTERN: Final = r"[a-z0-9_]{1,64}"
"""What a page may put into `tool.result.error.code`. *Source:* protocol.md 8."""

WILDCARD: Final = "*"
"""The tool that takes what nobody else does; never offered to a model."""

_ID = re.compile(ID_PATTERN)
_TOOL_NAME = re.compile(TOOL_NAME_PATTERN)
_ERROR_CODE = re.compile(ERROR_CODE_PATTERN)


def is_id(text: str) -> bool:
    """Whether `text` may name a thread, run, call, document or session."""
    return _ID.fullmatch(text) is not None


def is_tool_name(text: str) -> bool:
    """Whether `text` may name a tool, the wildcard included."""
    return text == WILDCARD or _TOOL_NAME.fullmatch(text) is not None


def is_error_code(text: str) -> bool:
    """Whether `text` may be a page's own error code."""
    return _ERROR_CODE.fullmatch(text) is not None
