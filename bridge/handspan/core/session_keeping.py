"""What of a session must be kept, and the way back: whose it is, its secrets, its page's words.

Owns what was written of one session, and so what need not be written again. Whatever changed is
found by looking: tools, context and secrets are replaced, never changed, so a look is cheap. What
it holds and what runs it started are not kept here: the threads' own entries say so.
See `entries` for the parts. Above sits `session`.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from handspan_protocol.codec import encode
from handspan_protocol.errors import UsageError
from handspan_protocol.ids import DocumentId
from handspan_protocol.tools import to_wire

from .arguments import Compile, ToolSpec
from .entries import Change, Drop, Entry, Put, as_text, read
from .images import context_image, read_context, read_page_tool
from .parties import Principal

if TYPE_CHECKING:
    from .session import Session

Json = Any

KnownTools = dict[bytes, tuple[int, list[ToolSpec]]]
"""Tool sets by what a store has of them: the pages of one application have the same ones."""


class SessionKeeping:
    """What is kept of one session."""

    __slots__ = ("_context", "_me", "_session", "_tools")

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._me = _me(session)
        self._tools: object = session.tools.current
        self._context: object = session.context.current
        session.replies.changed = {}

    def changes(self) -> list[Change]:
        """What is to be written now; it counts as written. A session over is kept no longer."""
        session = self._session
        if session.over:
            return [Drop(session.id)]
        return [*self._of_itself(), *self._of_page(), *self._of_replies()]

    def _of_itself(self) -> Iterator[Change]:
        session, me = self._session, _me(self._session)
        if me != self._me:
            self._me = me
            yield Put(session.id, "self", "", _image(session))

    def _of_page(self) -> Iterator[Change]:
        session = self._session
        if session.tools.current is not self._tools:
            self._tools = session.tools.current
            tools = [to_wire(spec.tool) for spec in session.tools.current.values()]
            yield Put(session.id, "tools", "", encode([session.tools.revision, tools]))
        if session.context.current is not self._context:
            self._context = session.context.current
            items = [context_image(item) for item in session.context.items]
            yield Put(session.id, "context", "", encode(items))

    def _of_replies(self) -> Iterator[Change]:
        replies = self._session.replies
        changed, replies.changed = replies.changed or {}, {}
        for document, command in changed:
            image, name = replies.image((document, command)), f"{document} {command}"
            if image is None:
                yield Drop(self._session.id, "reply", name)
            else:
                yield Put(self._session.id, "reply", name, encode(image))


def _me(session: "Session") -> tuple[Any, ...]:
    return (session.document, session.secrets.hashes, tuple(session.open))


def _image(session: "Session") -> bytes:
    hashes = [each.hex() for each in session.secrets.hashes]
    common = {
        "origin": session.origin,
        "document": session.document,
        "secrets": hashes,
        "open": list(session.open),
    }
    principal = session.principal
    try:
        attributes = as_text(dict(principal.attributes))
    except UsageError:  # they are the application's own, and come anew with the page
        attributes = "{}"
    return encode({**common, "principal": [principal.id, attributes]})


# ---- the way back ----------------------------------------------------------------------------


def owner_of(entries: Iterable[Entry]) -> tuple[Principal, str | None] | None:
    """Whose the session is, and the Origin it came from; None: it never was welcomed."""
    for entry in entries:
        if entry.part == "self":
            image = read(entry.body)
            principal_id, attributes = image["principal"]
            return Principal(principal_id, **read(attributes)), image["origin"]
    return None


def load(
    session: "Session", entries: Iterable[Entry], compile_schema: Compile, known: KnownTools
) -> None:
    """Make the session what it was; what `known` has of tools is not compiled again."""
    for entry in entries:
        match entry.part:
            case "self":
                image = read(entry.body)
                session.document = DocumentId(image["document"])
                session.had_open = frozenset(image["open"])
                session.secrets.hashes = tuple(bytes.fromhex(each) for each in image["secrets"])
            case "tools":
                if entry.body not in known:
                    known[entry.body] = _read_tools(entry.body, compile_schema)
                session.tools.restore(*known[entry.body])
            case "context":
                session.context.replace(read_context(read(entry.body)))
            case "reply":
                document, _, command = entry.name.partition(" ")
                session.replies.restore((DocumentId(document), command), read(entry.body))


def _read_tools(body: bytes, compile_schema: Compile) -> tuple[int, list[ToolSpec]]:
    revision, tools = read(body)
    specs = [read_page_tool(tool, compile_schema) for tool in tools]
    return revision, [spec for spec in specs if spec is not None]
