"""Where the sequence of one step goes: into the thread's log, its calls to the desk.

Owns what the run counts of it (text said, size) and what an agent may settle by itself.
`emission.Sink` is what it implements.
"""

from typing import Any

from handspan_protocol.codec import encode
from handspan_protocol.errors import CommandCode, PeerError, UsageError
from handspan_protocol.ids import CallId, MessageId, RunId
from handspan_protocol.limits import NESTING_MAX
from handspan_protocol.strict_json import size_within

from .answer import Answer
from .call import CallEvent, CallState, Settlement
from .desk import Desk
from .emission import Misplaced
from .patching import patched
from .run import Run
from .space import Space

Json = Any


class StepSink:
    """Where one step's sequence goes; see `emission.Sink`."""

    __slots__ = ("_desk", "_mark", "_root", "_run", "_space")

    def __init__(self, space: Space, desk: Desk, run: Run) -> None:
        self._space = space
        self._desk = desk
        self._run = run
        self._root = run.root
        self._mark = b"" if run.owner is None else b'{"subagentRunId":%b,' % encode(run.owner)
        """What every delta of a sub-run begins with."""

    def emit(self, event: dict[str, Json]) -> None:
        delta = event.get("delta")
        if isinstance(delta, str):
            self._root.said_chars += len(delta)
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                self._run.said.append(delta)
        elif event["type"] == "ACTIVITY_DELTA":
            self._check_activity(event)
        self._space.emit(event, self._run.owner)

    def _check_activity(self, event: dict[str, Json]) -> None:
        """A patch that does not apply changes nothing; one that makes too much fails the step."""
        content = self._space.transcript.content_of(event["messageId"])
        most = self._space.policy.state_bytes
        try:
            after = patched(content, event.get("patch") or (), most)
        except UsageError:
            return
        size = size_within(after)
        if size is None or size > most:
            raise PeerError(CommandCode.TOO_LARGE, "the activity would be too large")

    def say(self, head: bytes, message_id: str, delta: str) -> None:
        self._root.said_chars += len(delta)
        self._run.said.append(delta)
        if self._mark:
            head = self._mark + head[1:]
        self._space.emit_delta(head, message_id, delta)

    def new_id(self, kind: str) -> str:
        return self._space.ids.new(kind)

    def message_taken(self, message_id: str) -> bool:
        others = self._space.is_anothers(message_id, self._run.owner)
        return others or self._space.transcript.has(message_id)

    def is_anothers(self, name: str) -> bool:
        return self._space.is_anothers(name, self._run.owner)

    def role_of(self, message_id: str) -> str | None:
        return self._space.transcript.role_of(message_id)

    def call_started(self, wish: str | None, name: str, message_id: MessageId) -> CallId:
        return self._desk.announce(self._run, wish, name, message_id).id

    def call_said(self, call_id: CallId, delta: str) -> None:
        self._desk.calls[call_id].pieces.append(delta)

    def call_ended(self, call_id: CallId) -> None:
        self._desk.calls[call_id].ended = True

    def call_provided(self, call_id: CallId, content: Json) -> None:
        """Taken only for a call to a name that nobody here has (C042); a wildcard has none."""
        call = self._desk.calls[call_id]
        found = self._desk.find(call)
        if call.state is not CallState.PROPOSED or (found and found.spec.name == call.name):
            return
        parts = tuple(content) if isinstance(content, list) else None
        answer = Answer(value=content if parts is None else None, content=parts)
        self._desk.settle(call, Settlement(by=CallEvent.PROVIDED, answer=answer))

    def state_given(self, event: dict[str, Json]) -> None:
        patch = event.get("delta")
        if event["type"] == "STATE_DELTA" and not isinstance(patch, list):
            raise Misplaced("STATE_DELTA without a patch")
        given = tuple(patch) if isinstance(patch, list) else None
        change_state(self._space, given, event.get("snapshot"), self._run.owner)


def change_state(
    space: Space, patch: tuple[Json, ...] | None, state: Json, owner: RunId | None = None
) -> None:
    """Set or patch the state, all of it or none.

    Raises:
        UsageError: the patch does not apply, or the state is no JSON.
        PeerError: `too_large`.
    """
    most = space.policy.state_bytes
    after = state if patch is None else patched(space.transcript.state, patch, most)
    _check_state(space, after)
    if patch is not None:
        space.emit({"type": "STATE_DELTA", "delta": list(patch)}, owner)
    else:
        space.emit({"type": "STATE_SNAPSHOT", "snapshot": state}, owner)
    space.record("state")


def _check_state(space: Space, state: Json) -> None:
    size = size_within(state)
    if size is None:
        message = f"the state would be nested deeper than {NESTING_MAX} levels"
        raise PeerError(CommandCode.TOO_LARGE, message)
    if size > space.policy.state_bytes:
        raise PeerError(CommandCode.TOO_LARGE, f"the state would have {size} bytes, too many")
