"""Stop conditions: predicates over the steps of a run, for `Policy(stop_when=[...])`.

Each gets the steps so far, a list of CallResults for each, and says whether the run may stop. They
are asked only when the run would go on. *Source:* behaviour.md 2.
"""

from collections.abc import Callable, Sequence

from .values import CallResult

Steps = Sequence[Sequence[CallResult]]
StopCondition = Callable[[Steps], bool]


def step_count(most: int) -> StopCondition:
    """Stop when that many steps have been made."""
    return lambda steps: len(steps) >= most


def tool_called(*names: str) -> StopCondition:
    """Stop when the newest step called one of these tools."""
    return lambda steps: bool(steps) and any(call.name in names for call in steps[-1])
