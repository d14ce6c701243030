"""The parties to it all, and what names them: who asks, who answers, who makes the ids.

An **asker** is who waits for an answer to a command, a page's command or somebody in this process;
a **page** is what a thread may know of a session. Plain frozen data, which could cross a network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NewType, Protocol

from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import CallId, DocumentId, SessionId, ThreadId

from .arguments import ToolSpec

Json = Any
ConnectionId = NewType("ConnectionId", int)


class IdSource(Protocol):
    """Where ids come from; given once, so that a machine never throws dice (P15)."""

    def new(self, kind: str) -> str:
        """A fresh id that begins with `kind` and cannot be guessed."""

    def secret(self) -> str:
        """256 random bits as text."""

    def claim_call(self, wish: str | None) -> CallId:
        """`wish` where no open call of the principal has it, else a fresh id."""

    def adopt_call(self, call_id: CallId) -> None:
        """This call is the thread's, as it was before the process began anew."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a page is. `attributes` are the application's own; only `id` is compared."""

    id: str
    attributes: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __init__(self, id: str, **attributes: Any) -> None:  # noqa: A002 (api.md names it)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "attributes", attributes)


ANONYMOUS = Principal("anonymous")
"""Everybody, where there is no authenticator. *Source:* behaviour.md 7."""


class ThreadKey(NamedTuple):
    """A thread is known by its principal and its id (P8). A tuple, since it is hashed per event."""

    principal: str
    thread_id: ThreadId


@dataclass(frozen=True, slots=True)
class Asker:
    """Who gets the answer: a page's command, or (session None) a ticket of this process."""

    session: SessionId | None
    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A session as its threads see it; sent anew with every change."""

    session: SessionId
    document: DocumentId
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    revision: int = 0
    context: tuple[ContextItem, ...] = ()
    attached: bool = True
    seen_at: float = 0.0
    """When it was last visible, for choosing among several."""
    visible: bool = True
    gone: bool = False
    """Without a socket for longer than `page_grace`; it may still come back."""
