"""A thread as a page knows it: a snapshot, then events. What P9 compares with the thread itself.

The messages are folded by `tests.protocol.fold_model`, the rules written to be read; the rest (the
run under way, its calls, what is open) is the bookkeeping that protocol.md 2 lets a snapshot stand
for. Knows nothing of the server.
"""

from typing import Any

from tests.protocol.fold_model import fold_message, patched

Json = Any

_OPENS = {
    "TEXT_MESSAGE_START": ("messages", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("calls", "toolCallId"),
    "STEP_STARTED": ("steps", "stepName"),
    "SUBAGENT_STARTED": ("subagents", "subagentRunId"),
}
_CLOSES = {
    "TEXT_MESSAGE_END": ("messages", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("calls", "toolCallId"),
    "STEP_FINISHED": ("steps", "stepName"),
    "SUBAGENT_FINISHED": ("subagents", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagents", "subagentRunId"),
}


class PageFold:
    """Messages, state, the run, its calls, and what is open."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Json]] = []
        self.state: Json = {}
        self.run: dict[str, Json] | None = None
        self.last_run: dict[str, Json] | None = None
        self.calls: dict[str, dict[str, Json]] = {}
        self.suggestions: list[str] = []
        self.open: dict[str, list[str]] = {
            kind: [] for kind in ("messages", "reasoning", "calls", "steps", "subagents")
        }

    @classmethod
    def of_snapshot(cls, shown: dict[str, Json]) -> "PageFold":
        fold = cls()
        fold.messages, fold.state = shown["messages"], shown["state"]
        run = shown["run"]
        fold.run = None if run is None else {"runId": run["runId"], "depth": run["depth"]}
        fold.last_run, fold.open = shown["lastRun"], shown["open"]
        fold.suggestions = shown["suggestions"]
        kept = ("callId", "name", "last")
        fold.calls = {c["callId"]: {key: c[key] for key in kept} for c in shown["calls"]}
        return fold

    def apply(self, event: dict[str, Json]) -> None:
        kind = event["type"]
        if kind in _OPENS:
            place, name = _OPENS[kind]
            self.open[place].append(event[name])
        elif kind in _CLOSES:
            place, name = _CLOSES[kind]
            self.open[place].remove(event[name])
        match kind:
            case "RUN_STARTED":
                self.run, self.calls = {"runId": event["runId"], "depth": 0}, {}
                self.suggestions = []
            case "CUSTOM" if event["name"] == "handspan.suggestions":
                self.suggestions = event["value"]["items"]
            case "STEP_STARTED" if "subagentRunId" not in event:
                assert self.run is not None
                self.run["depth"] = int(event["stepName"].removeprefix("step-"))
            case "TOOL_CALL_START":
                call_id, name = event["toolCallId"], event["toolCallName"]
                self.calls[call_id] = {"callId": call_id, "name": name, "last": None}
            case "CUSTOM" if event["name"] == "handspan.call":
                self.calls[event["value"]["callId"]]["last"] = event["value"]
            case "RUN_FINISHED" | "RUN_ERROR":
                self._over(event)
        self._fold(event)

    def _over(self, event: dict[str, Json]) -> None:
        assert self.run is not None
        told = {key: event[key] for key in ("outcome", "result") if key in event}
        if event["type"] == "RUN_ERROR":
            told = {"error": {"code": event["code"], "message": event["message"]}}
        self.last_run, self.run, self.calls = {"runId": self.run["runId"], **told}, None, {}

    def _fold(self, event: dict[str, Json]) -> None:
        match event["type"]:
            case "STATE_SNAPSHOT":
                self.state = event["snapshot"]
            case "STATE_DELTA":
                self.state = patched(self.state, event["delta"])
            case "MESSAGES_SNAPSHOT":
                self.messages = event["messages"]
            case _:
                fold_message(self.messages, event)

    def shown(self) -> dict[str, Json]:
        """What must equal the thread's own picture."""
        return {
            "messages": self.messages,
            "state": self.state,
            "run": self.run,
            "lastRun": self.last_run,
            "calls": list(self.calls.values()),
            "suggestions": self.suggestions,
            "open": {kind: sorted(ids) for kind, ids in self.open.items()},
        }


def comparable(shown: dict[str, Json]) -> dict[str, Json]:
    """Of a snapshot, what events can tell too."""
    return PageFold.of_snapshot(shown).shown()
