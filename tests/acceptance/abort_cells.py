"""Where a run may be stopped and when: the two axes of the abort matrix.

Data alone; `abort_stage` plays it.
"""

from dataclasses import dataclass
from typing import Any

from ag_ui.core import ToolCallArgsEvent, ToolCallStartEvent
from tests.conftest import spread

from handspan.shell.values import ReasoningItem


@dataclass(frozen=True)
class Place:
    """A step of the recursion, and what is stopped while it is under way."""

    depth: int
    levels: int = 0
    """How many sub-runs deep: 0 is the run itself."""
    stopped: int = 0
    """Of which level the stop is: 0 stops the run with all its sub-runs."""


PLACES = {
    "depth 0": Place(0),
    "depth 1": Place(1),
    "depth 3": Place(3),
    "in a sub-run, all": Place(1, levels=1),
    "in a sub-run, it alone": Place(1, levels=1, stopped=1),
    "in a sub-run that resumed, it alone": Place(3, levels=1, stopped=1),
    "in a sub-run of a sub-run, the outer one": Place(2, levels=2, stopped=1),
}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What is at work when the stop comes."""

    says: tuple[Any, ...] = ()
    """Before it calls or hangs."""
    calls: tuple[str, ...] = ()
    """The tools that the step calls; without any the agent itself hangs."""
    args: Any = None
    inside: bool = False
    """Called by `run.call_tool`: the step waits for it."""
    hook: str | None = None
    """Which hook, or stop condition, hangs."""
    codes: tuple[str | None, ...] = ()
    """The codes of the step's calls when it is over."""
    delta: str | None = None
    """What the page has heard when it is time."""
    frame: str | None = None
    """Time is when the page gets this about the last call; else, when something hangs."""
    hangs: bool = True
    """Whether something of the server's is at work that has to be called off."""

    @property
    def at_work(self) -> int:
        """How many hang, of handlers, server tools, hooks and agents."""
        busy = sum(name in ("hold", "look", "work", "block") for name in self.calls)
        return busy if self.calls and not self.hook else 1

    @property
    def streams(self) -> bool:
        """Whether the step's agent is at work."""
        return not self.hook and (self.inside or not self.calls)


HALF_A_CALL = (
    ToolCallStartEvent(tool_call_id="c1", tool_call_name="hold"),
    ToolCallArgsEvent(tool_call_id="c1", delta='{"a'),
)
NOT_STARTED = ("aborted_before_start",)

STREAMING = {
    "the model, silent": Moment(),
    "a text": Moment(says=("half a sen",), delta="half a sen"),
    "a thought": Moment(says=(ReasoningItem("hm"),), delta="hm"),
    "model_request": Moment(hook="model_request"),
    "half a call": Moment(says=("I ", *HALF_A_CALL), delta='{"a', codes=NOT_STARTED),
}
TOOLS = {
    "a page's tool": Moment(calls=("hold",), codes=("aborted",), hangs=False),
    "a page's readOnly tool": Moment(calls=("look",), codes=("aborted",), hangs=False),
    "a page's tool without leave": Moment(
        calls=("unstarted",), codes=NOT_STARTED, frame="tool.call", hangs=False
    ),
    "a page's tool inside the step": Moment(
        says=("I ",), calls=("hold",), inside=True, codes=("aborted",), hangs=False
    ),
    "a page's tool behind one that is done": Moment(
        calls=("last", "hold"), codes=(None, "aborted"), hangs=False
    ),
    "a page's tool before one that waits": Moment(
        calls=("hold", "unstarted"), codes=("aborted", *NOT_STARTED), hangs=False
    ),
    "a server tool": Moment(calls=("work",), codes=("aborted",)),
    "a server tool inside the step": Moment(calls=("work",), inside=True, codes=("aborted",)),
    "a server tool in a thread": Moment(calls=("block",), codes=("aborted",), hangs=False),
    "a page's tool and a server tool": Moment(calls=("hold", "work"), codes=("aborted", "aborted")),
}
APPROVALS = {
    "approval of a page's tool": Moment(
        calls=("ask",), codes=NOT_STARTED, frame="approval.request", hangs=False
    ),
    "approval of a server tool": Moment(
        calls=("charge",), codes=NOT_STARTED, frame="approval.request", hangs=False
    ),
    "approval inside the step": Moment(
        calls=("ask",), inside=True, codes=NOT_STARTED, frame="approval.request", hangs=False
    ),
}
BETWEEN_STEPS = {
    "after_call": Moment(calls=("last",), hook="after_call", codes=("aborted",)),
    "after_step": Moment(calls=("last",), hook="after_step", codes=(None,)),
    "a stop condition": Moment(calls=("last",), hook="stop_when", codes=(None,)),
}
BEFORE_THE_STEP = {
    "before_step": Moment(hook="before_step"),
}
BEFORE_THE_RUN = {
    "before_run": Moment(hook="before_run"),
}
"""Only a run begins so, and it does at depth 0."""
BEFORE_THE_CALL = {
    "before_call": Moment(calls=("judged",), args={"x": 1}, hook="before_call", codes=NOT_STARTED),
    "repair_arguments": Moment(
        calls=("judged",), args="{x:", hook="repair_arguments", codes=NOT_STARTED
    ),
}

EVERYWHERE = STREAMING | TOOLS | APPROVALS | BETWEEN_STEPS | BEFORE_THE_STEP | BEFORE_THE_CALL
MOMENTS = EVERYWHERE | BEFORE_THE_RUN
HOOKS = {name: moment for name, moment in MOMENTS.items() if moment.hook}

CELLS = [*spread(tuple(PLACES), tuple(EVERYWHERE), 2)] + [
    ("depth 0", moment) for moment in BEFORE_THE_RUN
]
