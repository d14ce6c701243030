"""What the runs and calls of one thread share: its log, its messages, its pages, and the way out.

Owns the one door for events (`emit`: folded, encoded once, appended) and the list of effects of
the `handle` under way. Deliberately decides nothing. Above sit `desk` (calls), `run` and `thread`.
"""

from collections.abc import Mapping
from typing import Any

from handspan_protocol.codec import encode
from handspan_protocol.errors import PeerError
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import RunId, SessionId

from .arguments import ToolSpec
from .effects import Fact, Record, Reply, TellSession, ThreadEffect
from .log import Log
from .parties import Asker, IdSource, PageView, ThreadKey
from .policy import Policy
from .session_inputs import SessionInput
from .transcript import Transcript

Json = Any

_BEGINNINGS = {
    "TEXT_MESSAGE_START": "messageId",
    "REASONING_START": "messageId",
    "REASONING_MESSAGE_START": "messageId",
    "ACTIVITY_SNAPSHOT": "messageId",
    "TOOL_CALL_START": "toolCallId",
}


class Space:
    """Shared by one thread's parts; `now` and `effects` are of the `handle` under way."""

    __slots__ = (
        "effects",
        "ids",
        "key",
        "log",
        "now",
        "owners",
        "pages",
        "policy",
        "readers",
        "server",
        "state_changed_between",
        "suggestions",
        "transcript",
    )

    def __init__(
        self, key: ThreadKey, policy: Policy, ids: IdSource, server: Mapping[str, ToolSpec]
    ) -> None:
        self.key = key
        self.policy = policy
        self.ids = ids
        self.server = server
        self.log = Log(ids.new("e"), policy.log_events, policy.log_bytes)
        self.transcript = Transcript()
        self.pages: dict[SessionId, PageView] = {}
        """Every session that is at the thread's service, in the order they came."""
        self.readers: set[SessionId] = set()
        """Those that have the thread open."""
        self.state_changed_between = False
        """The state was changed between runs: the next one says it again."""
        self.suggestions: tuple[str, ...] = ()
        """What the user might say next; of the last run, until another begins."""
        self.owners: dict[str, RunId | None] = {}
        """Whose each id is: of each text, thought, span, activity and call of the run."""
        self.now = 0.0
        self.effects: list[ThreadEffect] = []

    def serving(self, starter: SessionId | None) -> list[PageView]:
        """The pages that a run of this starter may call: it, and all that have the thread open."""
        return [p for p in self.pages.values() if p.session in self.readers or p.session == starter]

    def context_of(
        self,
        starter: SessionId | None,
        own: tuple[ContextItem, ...],
        began: tuple[ContextItem, ...],
    ) -> tuple[ContextItem, ...]:
        """What the starting page says of itself now, and what the run itself was given.

        The run's own wins over what the page said when the run `began`, and no longer.
        """
        page = self.pages.get(starter) if starter is not None else None
        now = page.context if page else ()
        older, newer = (now, own) if now == began else (own, now)
        return tuple({item.name: item for item in (*older, *newer)}.values())

    def emit(self, event: dict[str, Json], owner: RunId | None = None) -> None:
        """Take one event into the log and the messages; the only way in. `owner`: a sub-run."""
        if owner is not None:
            event["subagentRunId"] = owner
        self._own(event, owner)
        encoded = encode(event)
        self.transcript.apply(event)
        self.log.append(encoded)

    def _own(self, event: Mapping[str, Json], owner: RunId | None) -> None:
        kind = event["type"]
        if kind == "RUN_STARTED":
            self.owners = {}
        elif kind in _BEGINNINGS:
            self.owners.setdefault(event[_BEGINNINGS[kind]], owner)

    def is_anothers(self, name: str, owner: RunId | None) -> bool:
        """Whether somebody else in this run has begun what has this id."""
        return self.owners.get(name, owner) != owner

    def emit_delta(self, head: bytes, message_id: str, delta: str) -> None:
        """`emit` for what comes by the thousand: a delta whose event begins with `head`.

        *Source:* half of what `emit` costs, measured 2026-11-30.
        """
        self.log.append(head + encode(delta) + b"}")
        self.transcript.add_text(message_id, delta)

    def custom(self, name: str, value: Json, owner: RunId | None = None) -> None:
        self.emit({"type": "CUSTOM", "name": f"handspan.{name}", "value": value}, owner)

    def do(self, effect: ThreadEffect) -> None:
        self.effects.append(effect)

    def tell(self, session: SessionId, message: SessionInput) -> None:
        self.do(TellSession(session, message))

    def reply(self, asker: Asker, result: Json = None, error: PeerError | None = None) -> None:
        self.do(Reply(asker, result, error))

    def record(self, kind: str, **data: Json) -> None:
        """Order that a fact be kept before whatever comes after."""
        self.do(Record((Fact(self.key, kind, data),)))
