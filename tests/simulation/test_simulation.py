"""Seeds: worlds of pages, sockets, agents and faults, each held against the promises.

P1, P2, P5, P6, P7, P9, P10 and P16; see README.md. `python -m tests.simulation --seeds N` for more.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.history import History
from tests.simulation.run import failures, simulate

ROOT = Path(__file__).parents[2]

SEEDS = 200
"""In CI; some ten seconds."""

LONG_SEEDS = 5_000


def test_every_promise_is_kept_in_every_seed(full_form: bool) -> None:
    """P1, P2, P5, P6, P7, P9, P10, P16: whatever befalls pages, sockets and the server."""
    failed = failures((range(LONG_SEEDS if full_form else SEEDS), None, None))
    lines = [f"python -m tests.simulation --seed {seed}    # {why}" for seed, why in failed]
    assert not failed, "\n".join(lines)


def test_the_seeds_are_worlds_worth_having() -> None:
    """What is held against the promises must happen: calls run, lines die, servers come back."""
    kinds: dict[str, int] = {}
    for seed in range(40):
        _, history, _ = simulate(seed)
        for record in history.records:
            name = record.what if record.kind == "life" else record.kind
            name = f"heard {record.what['type']}" if record.kind == "heard" else name
            kinds[name] = kinds.get(name, 0) + 1
    rare = {
        kind: kinds.get(kind, 0)
        for kind in (
            *("begin", "end", "invoked", "lost", "crashes", "ends", "fault", "act"),
            *("heard snapshot", "heard tool.call", "heard tool.cancel", "heard approval.request"),
        )
        if kinds.get(kind, 0) < 2
    }
    assert not rare


def test_a_seed_is_the_same_world_in_every_process() -> None:
    """A failing seed is worth nothing if it does not fail again: the order of sets is another."""
    here = [_digest(simulate(seed)[1]) for seed in range(8)]
    assert here == [_digest(simulate(seed)[1]) for seed in range(8)]
    program = (
        "from tests.simulation.test_simulation import _digest, simulate\n"
        "print([_digest(simulate(seed)[1]) for seed in range(8)])"
    )
    told = _python("-c", program)
    assert told.stdout.strip() == str(here), told.stderr


def test_the_command_prints_a_line_that_reproduces_and_fails() -> None:
    good = _python("-m", "tests.simulation", "--seeds", "3", "--jobs", "1")
    assert (good.returncode, good.stdout.startswith("3 seeds from 0, 0 failed")) == (0, True)
    bad = _python(
        *("-m", "tests.simulation", "--seeds", "20", "--jobs", "1", "--fault", "snapshot_ahead")
    )
    assert bad.returncode == 1
    line = bad.stdout.splitlines()[0]
    assert line.startswith("python -m tests.simulation --seed ")
    again = _python(*line.partition("#")[0].split()[1:])
    assert again.returncode == 1
    assert "FAILED" in again.stdout


def _digest(history: History) -> str:
    """Of all that happened but what is different by design: the log's marks of failed agents."""
    told = "\n".join(f"{r.at:.6f} {r.kind} {r.who}" for r in history.records)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(ROOT / name) for name in (".", "bridge", "protocol"))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.long
def test_the_planted_faults_are_found_in_a_thousand_seeds() -> None:
    """See test_faults for the short form."""
    from tests.simulation.faults import FAULTS

    missed = [
        name
        for name, (_, durable) in FAULTS.items()
        if not any(failures((range(at, at + 20), name, durable)) for at in range(0, 1_000, 20))
    ]
    assert missed == []
