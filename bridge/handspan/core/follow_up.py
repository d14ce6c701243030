"""Whether a run goes on after a step: one pure function over one table.

Asked only when the step has ended and nothing of it is open: count decides, never time (P2). The
rows are tried in order, those that apply to the step, and the first that holds decides. A step that
handed over is not asked about its calls, nor is the call of a button whose follow-up is wanted.
bridge/README.md draws the table. *Source:* behaviour.md 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from handspan_protocol.errors import StopReason

from .policy import Policy

WHOLE_FINISH_REASONS: Final = frozenset({None, "stop", "tool_calls"})
"""What a model may end a turn with without having been cut off."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    failed: bool
    follow_up: bool
    """What its tool says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What is known of the step that has just settled, and of its run."""

    depth: int
    aborted: bool = False
    calls: tuple[CallFacts, ...] = ()
    finish_reason: str | None = None
    invoked: bool = False
    """Step 0 of a `tool.invoke`."""
    invoke_follow_up: bool = False
    handed_over: bool = False
    stop_condition: bool | None = None
    """The driver's verdict on `Policy.stop_when`; None: not asked yet."""
    repeats: int = 1
    """How many rounds in a row, this one included, made the same calls."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on at depth + 1."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The stop conditions must be evaluated first."""


@dataclass(frozen=True, slots=True)
class Stop:
    reason: StopReason


Verdict = Continue | Judge | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: the run stops, for `reason`, when it holds."""

    when: str
    """In words, for people."""
    reason: StopReason
    holds: Callable[[StepFacts, Policy], bool | None]
    """None: not known yet, the stop conditions must be evaluated first."""
    of_handover: bool = True
    """Whether a step that handed over is asked."""
    of_button: bool = True
    """Whether the call of a `tool.invoke` is asked."""

    def applies(self, step: StepFacts) -> bool:
        return (self.of_handover or not step.handed_over) and (self.of_button or not step.invoked)


def should_continue(step: StepFacts, policy: Policy) -> Verdict:
    """Go on or stop, and why. Total: what no row stops goes on."""
    for row in ROWS:
        holds = row.applies(step) and row.holds(step, policy)
        if holds is None:
            return Judge()
        if holds:
            return Stop(row.reason)
    return Continue()


def wants_follow_up(call: CallFacts, policy: Policy) -> bool:
    """A tool with followUp false never wants one; a failure does unless on_error says stop."""
    if not call.follow_up:
        return False
    return not call.failed or policy.on_error == "resume"


def _aborted(step: StepFacts, policy: Policy) -> bool:
    return step.aborted


def is_whole(finish_reason: str | None) -> bool:
    """Whether the model ended its turn by itself; the calls of one that was cut off do not run."""
    return finish_reason in WHOLE_FINISH_REASONS


def _truncated(step: StepFacts, policy: Policy) -> bool:
    return not is_whole(step.finish_reason)


def _invoked(step: StepFacts, policy: Policy) -> bool:
    wanted = step.invoke_follow_up and not any(call.failed for call in step.calls)
    return step.invoked and not wanted


def _no_calls(step: StepFacts, policy: Policy) -> bool:
    return not step.calls


def _nobody_wants(step: StepFacts, policy: Policy) -> bool:
    return not any(wants_follow_up(call, policy) for call in step.calls)


def _stop_condition(step: StepFacts, policy: Policy) -> bool | None:
    return step.stop_condition if policy.stop_when else False


def _max_depth(step: StepFacts, policy: Policy) -> bool:
    return step.depth + 1 > policy.max_depth


def _repeating(step: StepFacts, policy: Policy) -> bool:
    return bool(step.calls) and step.repeats >= policy.max_repeats


ROWS: Final[tuple[Row, ...]] = (
    Row(when="the run is aborted", reason=StopReason.ABORTED, holds=_aborted),
    Row(when="the model was cut off", reason=StopReason.TRUNCATED, holds=_truncated),
    Row(
        when="a button's call, which failed or wants no follow-up",
        reason=StopReason.NO_FOLLOW_UP,
        holds=_invoked,
    ),
    Row(
        when="the step made no calls",
        reason=StopReason.COMPLETED,
        holds=_no_calls,
        of_handover=False,
        of_button=False,
    ),
    Row(
        when="no call of the step wants a follow-up",
        reason=StopReason.NO_FOLLOW_UP,
        holds=_nobody_wants,
        of_handover=False,
        of_button=False,
    ),
    Row(
        when="a stop condition holds",
        reason=StopReason.STOP_CONDITION,
        holds=_stop_condition,
        of_handover=False,
    ),
    Row(
        when="the next depth is over max_depth",
        reason=StopReason.MAX_DEPTH,
        holds=_max_depth,
    ),
    Row(
        when="the same calls came max_repeats rounds in a row",
        reason=StopReason.REPEATING,
        holds=_repeating,
    ),
)
"""The table, in order."""
