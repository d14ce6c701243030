"""What the bridge counts, and how /metrics says it (Prometheus text, version 0.0.4).

Counters only grow; gauges are asked for when the text is made. No thread, page or payload is named.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from handspan.core.effects import Fact


@dataclass(slots=True)
class Tally:
    """Counters of one process."""

    events: int = 0
    frames_in: int = 0
    facts: Counter[str] = field(default_factory=Counter)
    settled: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def count(self, fact: Fact) -> None:
        """Count one recorded fact."""
        self.facts[fact.kind] += 1
        if fact.kind == "call_settled":
            self.settled[fact.data["outcome"]] += 1
        elif fact.kind == "run_ended":
            self.ended[fact.data["reason"]] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything, as Prometheus reads it."""
        lines = [
            *_counter("events_total", "AG-UI events appended to logs", {"": self.events}),
            *_counter("frames_in_total", "frames read from pages", {"": self.frames_in}),
            *_counter("runs_started_total", "runs begun", {"": self.facts["run_started"]}),
            *_counter("runs_ended_total", "runs ended", _labelled("reason", self.ended)),
            *_counter("calls_settled_total", "calls settled", _labelled("outcome", self.settled)),
            *_counter("calls_dispatched_total", "attempts", {"": self.facts["call_dispatched"]}),
        ]
        for name, value in gauges.items():
            lines += [f"# TYPE handspan_{name} gauge", f"handspan_{name} {value}"]
        return "\n".join(lines) + "\n"


def _labelled(label: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f'{{{label}="{key}"}}': count for key, count in sorted(counts.items())}


def _counter(name: str, what: str, values: Mapping[str, int]) -> list[str]:
    head = [f"# HELP handspan_{name} {what}", f"# TYPE handspan_{name} counter"]
    return head + [f"handspan_{name}{labels} {value}" for labels, value in values.items()]
