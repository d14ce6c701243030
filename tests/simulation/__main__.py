"""`python -m tests.simulation`: many seeds, or one with all that happened in it.

    --seeds N [--from S] [--jobs J]   that many; prints a line for each that fails
    --seed S                          one, readable
    --fault NAME                      with a fault planted in the product; `list` names them
    --volatile, --durable             only worlds without, or with, a store that outlives crashes

The exit status is 1 when a seed failed, and the line that was printed for it reproduces it.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.simulation.faults import FAULTS, planted
from tests.simulation.run import failures, simulate, told

CHUNK = 50
"""Seeds that a process takes at a time."""


def main() -> int:
    options = _options()
    if options.fault == "list":
        print("\n".join(FAULTS))
        return 0
    if options.fault not in (None, *FAULTS):
        print(f"there is no fault {options.fault!r}; there are: {', '.join(FAULTS)}")
        return 2
    if options.seed is not None:
        return _one(options)
    started, failed = time.monotonic(), 0
    for seed, finding in _many(options):
        failed += 1
        print(f"{_command(options, seed)}    # {finding[:300]}", flush=True)
    rate = (time.monotonic() - started) / max(options.seeds, 1) * 1000
    print(f"{options.seeds} seeds from {options.first}, {failed} failed, {rate:.1f} ms a seed")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--fault")
    parser.add_argument("--volatile", dest="durable", action="store_false", default=None)
    parser.add_argument("--durable", dest="durable", action="store_true", default=None)
    return parser.parse_args()


def _command(options: argparse.Namespace, seed: int) -> str:
    fault = f" --fault {options.fault}" if options.fault else ""
    store = {None: "", True: " --durable", False: " --volatile"}[options.durable]
    return f"python -m tests.simulation --seed {seed}{fault}{store}"


def _one(options: argparse.Namespace) -> int:
    with planted(options.fault):
        plan, history, findings = simulate(options.seed, durable=options.durable)
    for line in told(plan, history):
        print(line)
    for finding in dict.fromkeys(findings):
        print(f"FAILED {finding}")
    if not findings:
        print("nothing is wrong")
    return 1 if findings else 0


def _many(options: argparse.Namespace) -> Iterator[tuple[int, str]]:
    ends = options.first + options.seeds
    chunks = [
        (range(at, min(at + CHUNK, ends)), options.fault, options.durable)
        for at in range(options.first, ends, CHUNK)
    ]
    if options.jobs <= 1:
        for chunk in chunks:
            yield from failures(chunk)
        return
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for found in pool.imap_unordered(failures, chunks):
            yield from found


if __name__ == "__main__":
    sys.exit(main())
