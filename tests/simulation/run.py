"""A seed, from its plan to the verdict; and what happened, for people."""

import gc
from collections.abc import Iterator

import orjson
from tests.simulation.checker import Checker
from tests.simulation.faults import planted
from tests.simulation.history import History, Record
from tests.simulation.plan import Plan, plan_of
from tests.simulation.world import World

__all__ = ["failures", "findings_of", "simulate", "told"]

LINE_CHARS = 400


def simulate(seed: int, *, durable: bool | None = None) -> tuple[Plan, History, list[str]]:
    """Play one world to its end, and judge it."""
    plan = plan_of(seed, durable=durable)
    world = World(plan)
    history = world.play()
    return plan, history, Checker(plan.policy).judge(history)


def findings_of(seed: int, *, durable: bool | None = None) -> list[str]:
    """What is wrong with this seed; a simulation that breaks down is wrong too."""
    try:
        return simulate(seed, durable=durable)[2]
    except Exception as error:
        return [f"the simulation broke down: {error!r}"]


def failures(chunk: tuple[range, str | None, bool | None]) -> list[tuple[int, str]]:
    """Of these seeds, with this fault planted, in these worlds: those that fail, and why."""
    gc.set_threshold(200_000, 10, 10)  # a world is gone with its seed: a fifth of the time saved
    seeds, fault, durable = chunk
    with planted(fault):
        found = [(seed, findings_of(seed, durable=durable)) for seed in seeds]
    return [(seed, findings[0]) for seed, findings in found if findings]


def told(plan: Plan, history: History) -> Iterator[str]:
    """One line for each thing that happened."""
    yield f"seed {plan.seed}, {'durable' if plan.durable else 'volatile'}, ends at {plan.ends}"
    yield f"latency {plan.latency}, buffer {plan.buffer_bytes}; {plan.policy}"
    for threads, tools in plan.tabs:
        yield f"a tab with {threads} and {list(tools)}"
    for record in history.records:
        line = _line(record)
        if line is not None:
            yield line[:LINE_CHARS]


def _line(record: Record) -> str | None:
    if record.kind == "said" or record.kind == "rest":
        return None
    what = record.what
    if record.kind == "invoked":
        what = {key: value for key, value in what.items() if key != "messages"}
    if record.kind == "event":
        what = what[1]
    if isinstance(what, dict):
        what = {key: value for key, value in what.items() if key not in _DULL}
        what = orjson.dumps(what, default=str).decode()
    return f"{record.at:9.4f} {record.kind:8} {record.who:12} {what if what is not None else ''}"


_DULL = frozenset({"tools", "limits", "client", "protocol", "agents", "rawArgs"})
