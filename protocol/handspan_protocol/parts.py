"""What frames are made of: ids, numbers and the small objects that stand in several of them.

`None` is an absent optional. Where presence itself decides, the default is ABSENT. Above stand
`page_frames` and `server_frames`.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from pydantic.alias_generators import to_camel

from .ids import ID_PATTERN, CallId, RunId, SessionId, ThreadId

_T = TypeVar("_T")
WIRE = ConfigDict(alias_generator=to_camel, extra="ignore")


class Absent(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The field was not there; needed where null is a value (`tool.result.result`, `state`)."""


def absent() -> Any:
    return ABSENT


def _empty_if_null(value: Any) -> Any:
    return "" if value is None else value


Json = Any
"""Any JSON value, as `codec.parse_json` returns it."""

ThreadId_ = Annotated[ThreadId, Field(pattern=rf"^{ID_PATTERN}$")]
RunId_ = Annotated[RunId, Field(pattern=rf"^{ID_PATTERN}$")]
CallId_ = Annotated[CallId, Field(pattern=rf"^{ID_PATTERN}$")]
CommandId = Annotated[StrictStr, Field(min_length=1, max_length=256)]
Attempt = Annotated[StrictInt, Field(ge=1)]
Offset = Annotated[StrictInt, Field(ge=0)]
Number = StrictInt | StrictFloat
Items = Annotated[tuple[_T, ...], Field(fail_fast=True)]
"""An array from a page. Reading stops at the first item that is wrong: to tell a million of them
takes seconds (measured 10 s for a frame of 2 MiB, 2026-11)."""

Text = Annotated[
    StrictStr, BeforeValidator(_empty_if_null, json_schema_input_type=StrictStr | None)
]
"""A string that null leaves empty: null is absent for an optional field."""

IfBusy = Literal["reject", "queue", "replace"]


# ---- parts of frames -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    name: StrictStr | None = None
    version: StrictStr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClaim:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    id: SessionId
    secret: StrictStr


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWish:
    """A thread to open: from after (epoch, offset), or as a snapshot when either is absent."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    thread_id: ThreadId_
    epoch: StrictStr | None = None
    offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One unsettled call as the page remembers it."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    call_id: CallId_
    attempt: Attempt
    state: Literal["received", "started", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    name: Annotated[StrictStr, Field(min_length=1, max_length=128)]
    description: Text = ""
    value: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageError:
    """A handler's failure as the page tells it."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE
    message: StrictStr
    code: StrictStr | None = None
    data: Json = None
