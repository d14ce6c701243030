"""What must hold of every stream and every history, whatever the test was about (P1, P6).

Written from protocol.md 1 alone, as short as it can be said.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Event = Mapping[str, Any]

PAIRS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
ENDS = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}
INSIDE = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
BETWEEN_RUNS = ("CUSTOM", "STATE_SNAPSHOT", "STATE_DELTA")
TERMINAL = ("RUN_FINISHED", "RUN_ERROR")


def broken_stream(events: Iterable[Event]) -> list[str]:
    """What protocol 1 and P6 forbid in one thread's events; empty when all is well."""
    reader = _Reader()
    for event in events:
        reader.take(event)
    return reader.broken


class _Reader:
    def __init__(self) -> None:
        self.broken: list[str] = []
        self.run: str | None = None
        self.runs: set[str] = set()
        self.open: list[tuple[str, str]] = []
        self.ended_calls: dict[str | None, list[str]] = {}
        """Of the run (None), and of each sub-run."""
        self.results: dict[str | None, list[str]] = {}

    def take(self, event: Event) -> None:
        kind = event["type"]
        if kind == "RUN_STARTED":
            self.start_run(event)
        elif self.run is None:
            if kind not in BETWEEN_RUNS:
                self.broken.append(f"{kind} between runs")
        elif kind in TERMINAL:
            self.end_run(event)
        elif kind in PAIRS:
            self.start(PAIRS[kind][0], _name(event, PAIRS[kind]), event)
        elif kind in ENDS:
            self.end(ENDS[kind][0], _name(event, ENDS[kind]), event)
        elif kind in INSIDE:
            what = (INSIDE[kind][0], event[INSIDE[kind][1]])
            if what not in self.open:
                self.broken.append(f"{kind} of {what}, which is not open")
        elif kind == "TOOL_CALL_RESULT":
            self.result(event["toolCallId"], event.get("subagentRunId"))

    def start_run(self, event: Event) -> None:
        if self.run is not None:
            self.broken.append(f"run {event['runId']} begins inside {self.run}")
        if event["runId"] in self.runs:
            self.broken.append(f"run {event['runId']} begins twice")
        self.run = event["runId"]
        self.runs.add(event["runId"])
        self.open, self.ended_calls, self.results = [], {}, {}

    def end_run(self, event: Event) -> None:
        if self.open:
            self.broken.append(f"{event['type']} while {self.open} are open")
        answered = [call for calls in self.results.values() for call in calls]
        ended = [call for calls in self.ended_calls.values() for call in calls]
        unanswered = [call for call in ended if call not in answered]
        if unanswered:
            self.broken.append(f"{event['type']} while {unanswered} have no result")
        self.run = None

    def start(self, what: str, name: str, event: Event) -> None:
        owner = event.get("subagentRunId")
        if what != "subagent" and owner and ("subagent", owner) not in self.open:
            self.broken.append(f"{what} {name} begins in {owner}, which is not open")
        if (what, name) in self.open:
            self.broken.append(f"{what} {name} begins while it is open")
        self.open.append((what, name))

    def end(self, what: str, name: str, event: Event) -> None:
        owner = event.get("subagentRunId")
        if (what, name) not in self.open:
            self.broken.append(f"{what} {name} ends, but is not open")
            return
        self.open.remove((what, name))
        ended = self.ended_calls.setdefault(owner, [])
        if what == "call":
            ended.append(name)
        if what == "step" and len(self.results.get(owner, [])) != len(ended):
            self.broken.append(f"{name} ends before the results of its calls")

    def result(self, call_id: str, owner: str | None) -> None:
        results = self.results.setdefault(owner, [])
        results.append(call_id)
        expected = self.ended_calls.get(owner, [])[len(results) - 1 :][:1]
        if expected != [call_id]:
            self.broken.append(f"the result of {call_id} stands where {expected} was to come")


def _name(event: Event, kind: tuple[str, str]) -> str:
    """Steps of a run and of its sub-runs have the same names."""
    name, owner = str(event[kind[1]]), event.get("subagentRunId")
    return f"{name} of {owner}" if kind[0] == "step" and owner else name
