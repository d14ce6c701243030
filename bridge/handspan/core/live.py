"""The runs under way on one thread: a root, and the sub-runs its steps wait for.

Owns finding them: by their id, by a call of theirs, and whether one may still say something.
Deliberately moves none. Above sit `desk` (calls) and `runs`.
"""

from collections.abc import Iterator

from handspan_protocol.ids import RunId

from .call import Call
from .run import Run


class Live:
    """A tree of runs; every one is in its place until it has ended."""

    __slots__ = ("_runs", "root", "used")

    def __init__(self) -> None:
        self.root: Run | None = None
        """The run under way; at most one (P8)."""
        self._runs: dict[RunId, Run] = {}
        self.used: set[RunId] = set()
        """Every id that a run, one that waits, or a sub-run ever had here."""

    def __iter__(self) -> Iterator[Run]:
        """The root first, then its sub-runs in the order they began; safe against changes."""
        return iter(tuple(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Run) -> None:
        self._runs[run.id] = run
        self.used.add(run.id)
        if run.parent is None:
            self.root = run
        else:
            run.parent.subs[run.id] = run

    def remove(self, run: Run) -> None:
        del self._runs[run.id]
        if run.parent is None:
            self.root = None
        else:
            del run.parent.subs[run.id]

    def clear(self) -> None:
        """Forget all of them, whatever their state."""
        self._runs.clear()
        self.root = None

    def get(self, run_id: RunId | None) -> Run | None:
        return self._runs.get(run_id) if run_id is not None else None

    def of(self, call: Call) -> Run:
        """The run whose step made this call; an open call has one."""
        return self._runs[call.own_run_id]

    def speaking(self, run_id: RunId, depth: int) -> Run | None:
        """The run whose step is still being spoken; None: what it says comes too late."""
        run = self._runs.get(run_id)
        if run is None or run.depth != depth or run.step.ended or run.step.emission is None:
            return None
        return run

    def waiting(self, run_id: RunId, depth: int) -> Run | None:
        """The run whose step is under way: it speaks, or one of its tools is at work.

        So a server tool may call other tools and start sub-runs, as its agent may.
        """
        run = self._runs.get(run_id)
        if run is None or run.depth != depth or run.step.emission is None:
            return None
        return run if not run.step.ended or run.step.open_calls else None
