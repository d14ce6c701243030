"""What must hold of a stream of events, whatever happened (P6), and who else judges a world.

`Stream` reads a thread's events one by one; `Orders` (in `orders`) reads every input and effect of
every machine; `look` (in `at_rest`) looks at the machines when they are at rest. Each knows only
the promise, and says which one is broken.
"""

from typing import Any

from tests.core.at_rest import look
from tests.core.orders import Orders

from handspan.core.transcript import broken_rules

__all__ = ["Lane", "Orders", "Stream", "look"]

Json = Any
Thing = tuple[str, str]
"""What has a beginning: its kind and its id."""


class Stream:
    """P6: per id start, deltas, end; one terminal event a run, nothing of the run after it.

    A run and each of its sub-runs has a lane of its own, and what one of them began is its own.
    """

    def __init__(self) -> None:
        self.run: str | None = None
        self.ended: set[str] = set()
        """Runs and sub-runs."""
        self.lanes: dict[str | None, Lane] = {}
        """Those that are open, by their `subagentRunId`; None: the run's own."""
        self.parents: dict[str, str | None] = {}
        self.suggested: str | None = None
        self.used: set[Thing] = set()
        self.settled: set[str] = set()
        self.owners: dict[Thing, str | None] = {}
        """Of the run under way: who began each thing. An AG-UI client tells them apart by that."""

    def take(self, event: dict[str, Json]) -> None:
        kind, owner = event["type"], event.get("subagentRunId")
        if kind in _OF_RUNS:
            getattr(self, f"_{kind.lower()}")(event)
        elif kind == "CUSTOM" and event["name"] == "handspan.suggestions":
            assert self.run is None, "P6: suggestions inside of a run"
            assert event["value"]["runId"] == self.suggested, "P6: suggestions of another run"
            self.suggested = None
        elif self.run is None:
            assert kind in _BETWEEN, f"P6: {kind} outside of a run"
        else:
            assert owner in self.lanes, f"P6: {kind} of {owner}, which is not under way"
            self.lanes[owner].take(event)

    def _run_started(self, event: dict[str, Json]) -> None:
        assert self.run is None, "P6: a run inside a run"
        assert event["runId"] not in self.ended, "P6: a run begins twice"
        assert "subagentRunId" not in event
        self.run, self.suggested = event["runId"], None
        self.owners = {}
        self.lanes[None] = Lane(self, None, 0)

    def _run_finished(self, event: dict[str, Json]) -> None:
        assert event["runId"] == self.run, "P6: the end of another run"
        self._depth_is_told(None, event)
        if event["result"]["reason"] == "completed":
            self.suggested = event["runId"]
        self._over()

    def _depth_is_told(self, name: str | None, event: dict[str, Json]) -> None:
        assert event["result"]["depth"] == max(self.lanes[name].next_step - 1, 0)

    def _run_error(self, event: dict[str, Json]) -> None:
        assert event["code"]
        assert event["message"]
        self._over()

    def _over(self) -> None:
        assert self.run is not None, "P6: a second terminal event"
        self.lanes.pop(None).over()
        assert not self.lanes, f"P6: a run ends with {list(self.lanes)} under way"
        self.ended.add(self.run)
        self.run = None

    def _subagent_started(self, event: dict[str, Json]) -> None:
        name, parent = event["subagentRunId"], event.get("parentSubagentRunId")
        assert event["name"], "P6: a sub-run of no agent"
        assert name not in self.ended | {self.run}, "P6: a sub-run begins twice"
        assert name not in self.lanes, "P6: a sub-run begins twice"
        assert parent in self.lanes, "P6: a sub-run of nobody"
        step = self.lanes[parent].step
        assert step is not None, "P6: a sub-run outside of a step"
        self.parents[name] = parent
        self.lanes[name] = Lane(self, name, step + 1)

    def _subagent_finished(self, event: dict[str, Json]) -> None:
        self._depth_is_told(event["subagentRunId"], event)
        assert event["outcome"] == {"type": "success"}
        assert event["result"]["reason"] not in ("aborted", "failed"), "P6: that is an error"
        self._sub_over(event["subagentRunId"])

    def _subagent_error(self, event: dict[str, Json]) -> None:
        assert event["code"]
        assert event["message"]
        self._sub_over(event["subagentRunId"])

    def _sub_over(self, name: str) -> None:
        assert name in self.lanes, f"P6: the end of {name}, which is not under way"
        below = self.below(name)
        assert not below, f"P6: {name} ends before its own sub-runs {below}"
        self.lanes.pop(name).over()
        self.ended.add(name)

    def below(self, name: str | None) -> list[str]:
        """The sub-runs under way that this run, or sub-run, began."""
        return [sub for sub in self.lanes if sub is not None and self.parents[sub] == name]

    def _messages_snapshot(self, event: dict[str, Json]) -> None:
        assert self.lanes[None].step is None
        assert broken_rules(event["messages"]) == []


class Lane:
    """What one run, or one sub-run, has open."""

    def __init__(self, stream: Stream, name: str | None, first_step: int) -> None:
        self.stream = stream
        self.name = name
        self.step: int | None = None
        self.next_step = first_step
        self.open: set[Thing] = set()
        """What is open: (kind, id)."""
        self.used = stream.used
        self.empty: set[Thing] = set()
        """Texts without a word, which are no messages: a later step may take their ids."""
        self.unanswered: list[str] = []
        """The step's calls in order, as far as they have no result."""
        self.settled = stream.settled
        self.states: dict[str, str] = {}

    def take(self, event: dict[str, Json]) -> None:
        handler = getattr(self, f"_{event['type'].lower()}", None)
        assert handler is not None, f"P6: {event['type']} is not an event of ours"
        handler(event)

    def over(self) -> None:
        assert self.step is None, "P6: a run ends inside a step"
        assert not self.open, f"P6: a run ends with {self.open} open"
        self.used -= self.empty

    def _step_started(self, event: dict[str, Json]) -> None:
        assert self.step is None, "P6: a step inside a step"
        assert event["stepName"] == f"step-{self.next_step}", "P6: steps are counted"
        self.step, self.next_step = self.next_step, self.next_step + 1
        self.used -= self.empty
        self.empty.clear()

    def _step_finished(self, event: dict[str, Json]) -> None:
        assert event["stepName"] == f"step-{self.step}", "P6: the end of another step"
        assert not self.open, f"P6: a step ends with {self.open} open"
        assert not self.unanswered, f"P1: a step ends, {self.unanswered} have no result"
        below = self.stream.below(self.name)
        assert not below, f"P6: a step ends before its sub-runs {below}"
        self.step = None

    def _begin(self, kind: str, name: str) -> None:
        assert (kind, name) not in self.open, f"P6: {kind} {name} begins while it is open"
        assert (kind, name) not in self.used, f"P6: {kind} {name} begins again"
        self.used.add((kind, name))
        self.open.add((kind, name))
        self.empty.add((kind, name))

    def _is_mine(self, kind: str, name: str) -> None:
        """What is told of a thing is told by whose it is."""
        owner = self.stream.owners.setdefault((kind, name), self.name)
        assert owner == self.name, f"P6: {kind} {name} of {owner} is used by {self.name}"

    def _goes_on(self, kind: str, name: str) -> None:
        assert (kind, name) in self.open, f"P6: {kind} {name} goes on, but is not open"
        self.empty.discard((kind, name))

    def _finish(self, kind: str, name: str) -> None:
        assert (kind, name) in self.open, f"P6: {kind} {name} ends, but is not open"
        self.open.remove((kind, name))

    def _in_a_step(self, kind: str) -> None:
        assert self.step is not None, f"P6: {kind} outside of a step"

    def _text_message_start(self, event: dict[str, Json]) -> None:
        if event["role"] == "assistant":
            self._in_a_step("a text")
        self._is_mine("text", event["messageId"])
        self._begin("text", event["messageId"])

    def _text_message_content(self, event: dict[str, Json]) -> None:
        assert event["delta"] != "", "P6: an empty delta"
        self._goes_on("text", event["messageId"])

    def _text_message_end(self, event: dict[str, Json]) -> None:
        self._finish("text", event["messageId"])

    def _reasoning_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("thoughts")
        self._is_mine("thought", event["messageId"])
        self.used.discard(("span", event["messageId"]))
        self._begin("span", event["messageId"])

    def _reasoning_end(self, event: dict[str, Json]) -> None:
        self._finish("span", event["messageId"])

    def _reasoning_message_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("a thought")
        self._is_mine("thought", event["messageId"])
        self._begin("text", event["messageId"])

    _reasoning_message_content = _text_message_content
    _reasoning_message_end = _text_message_end

    def _reasoning_encrypted_value(self, event: dict[str, Json]) -> None:
        kinds = ("call",) if event.get("subtype") == "tool-call" else ("text", "thought")
        names = [(kind, event["entityId"]) for kind in kinds]
        owners = [self.stream.owners[name] for name in names if name in self.stream.owners]
        assert not owners or self.name in owners, f"P6: a value for what is {owners}'s"

    def _activity_snapshot(self, event: dict[str, Json]) -> None:
        self._is_mine("activity", event["messageId"])

    def _activity_delta(self, event: dict[str, Json]) -> None:
        if ("activity", event["messageId"]) in self.stream.owners:
            self._is_mine("activity", event["messageId"])

    def _tool_call_start(self, event: dict[str, Json]) -> None:
        self._in_a_step("a call")
        self._is_mine("call", event["toolCallId"])
        self._is_mine("text", event["parentMessageId"])
        self._begin("call", event["toolCallId"])
        self.empty.discard(("call", event["toolCallId"]))
        texts = [name for kind, name in self.open if kind == "text"]
        assert not texts, f"P6: a call begins while {texts} are open"
        self.unanswered.append(event["toolCallId"])

    def _tool_call_args(self, event: dict[str, Json]) -> None:
        self._goes_on("call", event["toolCallId"])

    def _tool_call_end(self, event: dict[str, Json]) -> None:
        self._finish("call", event["toolCallId"])

    def _tool_call_result(self, event: dict[str, Json]) -> None:
        call_id = event["toolCallId"]
        assert ("call", call_id) not in self.open, f"P6: the result of {call_id} before its end"
        assert self.unanswered, f"P1: a second result of {call_id}"
        assert self.unanswered[0] == call_id, f"P1: the result of {call_id} before its turn"
        assert call_id in self.settled, f"P6: {call_id} has a result and was not told as settled"
        self.unanswered.pop(0)
        assert ("text", event["messageId"]) not in self.used, "P6: a result under another's id"
        self.used.add(("text", event["messageId"]))

    def _custom(self, event: dict[str, Json]) -> None:
        if event["name"] != "handspan.call":
            return
        call_id, state = event["value"]["callId"], event["value"]["state"]
        assert ("call", call_id) in self.used, f"P6: {call_id} is told of before it began"
        self._is_mine("call", call_id)
        assert call_id not in self.settled, f"P2: {call_id} is {state} after it settled"
        before = self.states.get(call_id)
        if state in ("started", "progress"):
            assert before in ("dispatched", "started", "progress"), f"{call_id}: {before}, {state}"
        self.states[call_id] = state
        if state == "settled":
            self.settled.add(call_id)

    def _anything(self, event: dict[str, Json]) -> None:
        """Means nothing to the order of others."""

    _state_snapshot = _state_delta = _raw = _anything


_BETWEEN = {"CUSTOM", "STATE_SNAPSHOT", "STATE_DELTA"}
_OF_RUNS = {
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "SUBAGENT_STARTED",
    "SUBAGENT_FINISHED",
    "SUBAGENT_ERROR",
    "MESSAGES_SNAPSHOT",
}
