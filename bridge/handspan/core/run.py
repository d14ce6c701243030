"""A run as data: one answer to one request, the whole recursion, and its step under way.

Owns what a run remembers (its depth, its calls, what it has said, who asked) and the facts that
the follow-up table is asked about. A **sub-run** is a run too: one step of its `parent` waits for
it, and everything it says carries its id. Changed only by its own methods and by those that move
runs. Deliberately does not know how calls are carried out, nor who is listening.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from handspan_protocol.content import canonical, digest
from handspan_protocol.frames import ContextItem
from handspan_protocol.ids import RunId, SessionId

from .arguments import BadArguments, parse_arguments
from .call import Call
from .effects import CallValue, RunValue
from .emission import Emission
from .follow_up import CallFacts, StepFacts
from .inputs import InvokeRequested, RunRequested
from .parties import Asker, Principal

Json = Any

Status = Literal["running", "waiting"]


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """One invocation of the agent with the calls it made."""

    depth: int
    emission: Emission | None = None
    """None before it is opened."""
    calls: list[Call] = field(default_factory=list)
    opened: bool = False
    """Its STEP_STARTED is in the log, and its STEP_FINISHED is not."""
    ended: bool = False
    finish_reason: str | None = None
    handoff: str | None = None
    agent: str | None = None
    """Who speaks in place of the run's agent, by a hook's wish."""
    withheld: frozenset[str] = frozenset()
    """Tools that a hook took away from it."""
    counted: bool = False
    """It has settled once, and its round was counted."""
    reviewed: bool = False
    """`after_step` is through."""
    base: str | None = None
    """The message behind which what this step says stands; None: the history was empty."""
    delegated: bool = False
    """It, or a sub-run of it, has begun a sub-run."""

    @property
    def open_calls(self) -> int:
        """Calls that are not over, in the eyes of the run: a result may wait for its hook."""
        return sum(not call.over for call in self.calls)

    @property
    def name(self) -> str:
        """Its AG-UI step name."""
        return f"step-{self.depth}"


Asking = Literal["before_run", "after_step", "stop_when"]
"""What of the application's own code a run waits for."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One run under way; of a sub-run `request` is the root's."""

    id: RunId
    request: RunRequested | InvokeRequested
    agent: str
    principal: Principal
    parent: "Run | None" = None
    """Of a sub-run: whose step waits for it."""
    ticket: str = ""
    """Of a sub-run: who in that step waits."""
    by_tool: bool = False
    """Of a sub-run: a server tool waits for it, and so for its calls."""
    subs: dict[RunId, "Run"] = field(default_factory=dict)
    """Its step's sub-runs, as long as they are under way."""
    subs_made: int = 0
    """Of the root: all that were ever begun below it."""
    announced: bool = False
    """Its RUN_STARTED (SUBAGENT_STARTED) is in the log."""
    replied: bool = False
    """Of a `tool.invoke`: the command was answered."""
    unheard: bool = False
    """Its request could not be kept over a restart of the process."""
    context: tuple[ContextItem, ...] = ()
    """What the request brought along."""
    context_began: tuple[ContextItem, ...] = ()
    """What the starting page said of itself when the run began."""
    forwarded_props: Json = None
    step: Step = field(default_factory=lambda: Step(depth=0))
    results: tuple[CallValue, ...] = ()
    """Of the previous step, in call order."""
    restarts: int = 0
    """Times that the process ended while something of the step was at work in it."""
    since: str | None = None
    """The message behind which what this run says stands."""
    rounds: list[tuple[CallValue, ...]] = field(default_factory=list)
    """The settled calls of every step so far; for stop conditions."""
    said: list[str] = field(default_factory=list)
    said_chars: int = 0
    """Of the root: with what its sub-runs said."""
    fingerprint: str = ""
    repeats: int = 0
    reflecting: bool = False
    """The last step, without tools, at the depth limit."""
    asking: Asking | None = None
    output: Json = None
    has_output: bool = False
    usage: list[dict[str, Json]] = field(default_factory=list)
    """Of the root: an AG-UI TokenUsage for each model, with what its sub-runs used."""
    root: "Run" = field(init=False)
    """The top-level run; itself when it is one."""

    def __post_init__(self) -> None:
        self.root = self if self.parent is None else self.parent.root

    @property
    def owner(self) -> RunId | None:
        """The `subagentRunId` of what it says; None: it is no sub-run."""
        return None if self.parent is None else self.id

    @property
    def speaker(self) -> str:
        """The agent that speaks in the step under way."""
        return self.step.agent or self.agent

    @property
    def asker(self) -> Asker:
        return self.request.asker

    @property
    def starter(self) -> SessionId | None:
        """The session that started it; None: Python did."""
        return self.request.asker.session

    @property
    def depth(self) -> int:
        return self.step.depth

    @property
    def invoked(self) -> bool:
        """Whether the step under way is the call of a `tool.invoke`."""
        button = self.parent is None and isinstance(self.request, InvokeRequested)
        return button and self.depth == 0

    @property
    def follow_up(self) -> bool | str:
        """What a `tool.invoke` wants after its call; a text is said as the user."""
        return self.request.follow_up if isinstance(self.request, InvokeRequested) else False

    @property
    def status(self) -> Status:
        return "waiting" if self.step.ended else "running"

    def count_round(self) -> None:
        """Remember the settled step: its results, and whether it only repeats the one before."""
        self.step.counted = True
        self.results = tuple(call.value() for call in self.step.calls)
        self.rounds.append(self.results)
        marks = [[c.name, _spelled(c.raw)] for c in self.step.calls]
        mark = digest(marks) if marks else ""
        self.repeats = self.repeats + 1 if mark == self.fingerprint else 1
        self.fingerprint = mark

    def count_usage(self, used: Mapping[str, Json]) -> None:
        """Add tokens to those of the same model."""
        mine = next((each for each in self.usage if _model(each) == _model(used)), None)
        if mine is None:
            self.usage.append(dict(used))
            return
        for key in used.keys() - {"provider", "model"}:
            mine[key] = mine.get(key, 0) + used[key]

    def facts(self, stop_condition: bool | None) -> StepFacts:
        """What the follow-up table is asked about.

        A call whose value was given to waiting code inside the step wants no follow-up, nor one
        that the agent's side carried out: its agent has a loop of its own and has already gone on.
        """
        return StepFacts(
            depth=self.depth,
            calls=tuple(_facts(call) for call in self.step.calls if not call.had_inside),
            finish_reason=self.step.finish_reason,
            invoked=self.invoked,
            invoke_follow_up=self.follow_up is not False,
            handed_over=self.step.handoff is not None,
            stop_condition=stop_condition,
            repeats=self.repeats,
        )

    def value(self, reason: str, code: str | None = None, message: str | None = None) -> RunValue:
        """The run that is over, as its callers see it."""
        return RunValue(
            run_id=self.id,
            reason=reason,
            depth=self.depth,
            text="".join(self.said),
            output=self.output,
            code=code,
            message=message,
            usage=tuple(dict(each) for each in self.usage),
        )

    def result(self, reason: str) -> Mapping[str, Json]:
        """`RUN_FINISHED.result`."""
        told = {"reason": reason, "depth": self.depth}
        return told | {"output": self.output} if self.has_output else told


def _model(usage: Mapping[str, Json]) -> tuple[Json, Json]:
    return usage.get("provider"), usage.get("model")


def _spelled(raw: str) -> str:
    """One text for all spellings of the same arguments; what is no object is as it was written."""
    args = parse_arguments(raw)
    return raw if isinstance(args, BadArguments) else canonical(args)


def _facts(call: Call) -> CallFacts:
    failed = call.final is None or call.final.code is not None
    return CallFacts(failed, call.spec is None or call.spec.tool.follow_up)
