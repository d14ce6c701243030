"""The benchmarks run, and lose nothing; no figure of theirs is asserted."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WAIT_S = 280
"""A bound against hanging, below pytest's own; they take some 40 s."""


@pytest.mark.parametrize(("name", "rows"), [("stream", 4 + 4), ("roundtrip", 4)])
def test_a_benchmark_in_its_short_form_tells_every_row(name: str, rows: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--short"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    heads = [line for line in told if set(line) <= set("| -")]
    assert len(told) - 2 * len(heads) == rows
