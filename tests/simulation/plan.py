"""What a seed stands for: the world, what its users do, and what befalls it.

Owns every draw that is made before time begins, so that a plan can be printed. Knows only names:
what an action does is said in `deeds`.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.simulation.kit import some_tools

from handspan import Policy

Json = Any

ACTS: Final = {
    "run": 6,
    "run_again": 1,
    "invoke": 3,
    "abort": 3,
    "abort_thread": 1,
    "state": 2,
    "retool": 1,
    "reopen": 1,
    "leave_thread": 0.5,
    "look_away": 0.5,
    "list": 0.3,
    "lie": 3,
    "intrude": 0.7,
}
"""What users do, and how often."""

FAULTS: Final = {
    "cut": 3,
    "cut_unnoticed": 2,
    "half_open": 2,
    "proxy": 1,
    "stall": 1.5,
    "slow": 1,
    "freeze": 2,
    "offline": 1.5,
    "reload": 2.5,
    "tab_crash": 1,
    "close_tab": 1,
    "duplicate": 2,
    "freeze_and_duplicate": 1.5,
    "hide": 1,
    "bye": 0.3,
    "ambush": 5,
}

CRASHES: Final = {"crash": 2, "restart": 1, "ambush_crash": 3}
"""What befalls a server that has a durable store."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done at a moment. `dice` is all the chance it has."""

    at: float
    name: str
    dice: int

    def __str__(self) -> str:
        return f"{self.at:8.3f} {self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One world."""

    seed: int
    policy: Policy
    durable: bool
    tabs: tuple[tuple[list[str], dict[str, Json]], ...]
    """Threads and tools of each."""
    latency: float
    buffer_bytes: int
    ends: float
    """When nothing is done to the world any more."""
    deeds: tuple[Deed, ...]


def plan_of(seed: int, *, durable: bool | None = None) -> Plan:
    rng = Random(f"plan/{seed}")
    ends = rng.choice((4.0, 10.0, 20.0, 40.0))
    lasting = rng.random() < 0.5 if durable is None else durable
    deeds = [Deed(rng.random() * ends * 0.5, "run", rng.getrandbits(32))]
    deeds += _some(rng, ACTS, rng.randrange(1, 7), ends)
    deeds += _some(rng, FAULTS, rng.choice((0, 1, 1, 2, 2, 3, 4, 5)), ends)
    if lasting:
        deeds += _some(rng, CRASHES, rng.choice((0, 1, 1, 1, 2)), ends)
    return Plan(
        seed=seed,
        policy=_policy(rng),
        durable=lasting,
        tabs=tuple(_tab(rng) for _ in range(rng.choice((1, 1, 2, 2, 2, 3)))),
        latency=rng.choice((0.001, 0.02, 0.02, 0.2)),
        buffer_bytes=rng.choice((64 * 1024, 64 * 1024, 2_000, 300)),
        ends=ends,
        deeds=tuple(sorted(deeds, key=lambda deed: deed.at)),
    )


def _some(rng: Random, weights: dict[str, float], count: int, ends: float) -> list[Deed]:
    names = rng.choices(list(weights), list(weights.values()), k=count)
    return [Deed(rng.random() * ends, name, rng.getrandbits(32)) for name in names]


def _tab(rng: Random) -> tuple[list[str], dict[str, Json]]:
    threads = rng.choice((["t1"], ["t1"], ["t1"], ["t2"], ["t1", "t2"]))
    return list(threads), some_tools(rng)


def _policy(rng: Random) -> Policy:
    return Policy(
        tool_timeout=rng.choice((3.0, 8.0, 20.0)),
        approval_timeout=rng.choice((2.0, 8.0)),
        page_grace=rng.choice((0.5, 3.0, 8.0)),
        resume_window=rng.choice((8.0, 20.0)),
        heartbeat=rng.choice((2.0, 5.0, 20.0)),
        send_timeout=rng.choice((1.0, 4.0)),
        hello_timeout=5.0,
        drain_grace=rng.choice((0.0, 2.0, 10.0)),
        max_depth=rng.choice((2, 4, 25)),
        on_error=rng.choice(("resume", "resume", "stop")),
        on_disconnect=rng.choice(("grace", "grace", "abort")),
        tool_execution=rng.choice(("ordered", "ordered", "parallel")),
        on_restart=rng.choice(("resume", "resume", "close")),
        log_events=rng.choice((50_000, 50_000, 20)),
    )
