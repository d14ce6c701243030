"""Is each inner module wholly covered by its own test file? `python -m tests.mirrors [module ...]`

The mirror of `protocol/handspan_protocol/codec.py` is `tests/protocol/test_codec.py`, that of
`bridge/handspan/core/call.py` is `tests/core/test_call.py`. Each mirror runs alone, in a process of
its own under branch coverage, and must reach every line and every branch of its module; what other
test files reach does not count. One row a module; the exit status is 0 when all are whole, 1 when
one is not, 2 when there is no such module.

    --room protocol|core    the modules of one room only
    --jobs N                mirrors at once, 2 if not said

A pragma in the code excuses nothing: all that is excused stands in EXCUSED, with its reason.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from coverage import Coverage
from coverage.exceptions import NoDataError

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = {
    "protocol": (ROOT / "protocol" / "handspan_protocol", ROOT / "tests" / "protocol"),
    "core": (ROOT / "bridge" / "handspan" / "core", ROOT / "tests" / "core"),
}
"""Where a room's modules are, and where their mirrors."""

EXCUSED: Final = {
    r"^if TYPE_CHECKING:": "read by type checkers, never run",
    r"^class \w+\(Protocol\):": "says what others have; its bodies are never run",
    r"(case (_ as )?\w+|else):\n\s*assert_never\(": "the type checker lets nothing come here",
    r"^\s*raise AssertionError\(f?\"invariant: ": "comes only when a stated invariant is broken",
}
"""Patterns of what no test can reach, and why; one that ends in a colon takes its block along."""

MIRROR_S: Final = 300
"""Seconds after which a mirror hangs; the slowest takes some 20."""

OUTPUT_CHARS: Final = 4_000
"""How much of a failed run is shown: its end."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A module and the test file that must reach all of it."""

    module: Path
    mirror: Path

    @property
    def name(self) -> str:
        return f"{self.module.parent.name}.{self.module.stem}"


@dataclass(frozen=True, slots=True)
class Row:
    """What one mirror reached; `missing` is empty when that is everything."""

    lines: str
    branches: str
    missing: str
    output: str = ""


# ---- which ----------------------------------------------------------------------------------


def mirrored(room: str) -> list[Mirrored]:
    """The modules of a room with their mirrors, whether these are there or not."""
    code, tests = ROOMS[room]
    return [
        Mirrored(module, tests / f"test_{module.stem.strip('_')}.py")
        for module in sorted(code.glob("*.py"))
    ]


def only_imports(module: Path) -> bool:
    """Whether there is nothing in a module but its docstring, imports and `__all__`."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    return all(
        isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in body
    )


def chosen(rooms: Sequence[str], names: Sequence[str]) -> list[Mirrored]:
    """The modules that were asked for; no names: all of the rooms.

    Raises:
        LookupError: no module has one of the names.
    """
    known = [each for room in rooms for each in mirrored(room)]
    if unknown := set(names) - {each.module.stem for each in known}:
        raise LookupError(f"no module {', '.join(sorted(unknown))} in {' and '.join(rooms)}")
    return [each for each in known if not names or each.module.stem in names]


# ---- running one -----------------------------------------------------------------------------


def run_alone(each: Mirrored, data: Path) -> subprocess.CompletedProcess[str]:
    """Run one mirror under branch coverage of its module; what it reached is in `data`."""
    coverage = ["coverage", "run", f"--rcfile={os.devnull}", "--branch"]
    coverage += [f"--data-file={data}", f"--include={each.module}"]
    pytest = ["pytest", "-q", "-p", "no:cacheprovider", str(each.mirror)]
    command = [sys.executable, "-m", *coverage, "-m", *pytest]
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=MIRROR_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no end within {MIRROR_S} s")


def reached(each: Mirrored, data: Path) -> dict[str, Any] | None:
    """What coverage says of the module; None: it was not even imported."""
    coverage = Coverage(data_file=str(data), config_file=False)
    coverage.set_option("report:exclude_lines", list(EXCUSED))
    coverage.set_option("report:partial_branches", [])
    report = data.with_suffix(".json")
    try:
        coverage.load()
        coverage.json_report(morfs=[str(each.module)], outfile=str(report))
    except NoDataError:
        return None
    (of_the_module,) = json.loads(report.read_text(encoding="utf-8"))["files"].values()
    return dict(of_the_module)


def row_of(each: Mirrored, run: subprocess.CompletedProcess[str], data: Path) -> Row:
    """What one run of a mirror comes to."""
    output = (run.stdout + run.stderr)[-OUTPUT_CHARS:]
    if run.returncode:
        return Row("-", "-", "its tests fail", output)
    found = reached(each, data)
    if found is None:
        return Row("-", "-", "its tests do not import it", output)
    total = found["summary"]
    return Row(
        f"{total['covered_lines']}/{total['num_statements']}",
        f"{total['covered_branches']}/{total['num_branches']}",
        missing(found["missing_lines"], found["missing_branches"]),
    )


def missing(lines: Sequence[int], branches: Sequence[Sequence[int]]) -> str:
    """The lines that nothing reached, in ranges, then the branches beside them, as from->to."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    told = [f"{first}-{last}" if first < last else f"{first}" for first, last in spans]
    told += [
        f"{start}->{end if end > 0 else 'exit'}"
        for start, end in branches
        if start not in lines and end not in lines
    ]
    return ", ".join(told)


# ---- all of them -----------------------------------------------------------------------------


def rows(all_of_them: Sequence[Mirrored], jobs: int) -> Iterator[tuple[Mirrored, Row]]:
    """Each module with what its mirror reached, in order, as they come."""
    runnable = [each for each in all_of_them if each.mirror.exists()]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        data = {each: Path(folder) / each.name for each in runnable}
        runs = {each: pool.submit(partial(run_alone, each, data[each])) for each in runnable}
        for each in all_of_them:
            if each in runs:
                yield each, row_of(each, runs[each].result(), data[each])
            elif each.module.stem == "__init__" and only_imports(each.module):
                yield each, Row("skipped: only imports", "", "")
            else:
                yield each, Row("-", "-", "has no mirror")


def tell(all_of_them: Sequence[Mirrored], jobs: int) -> bool:
    """Print the table; whether every module is whole."""
    widths = [max(len(str(text)) for text in column) for column in (
        ["module", *(each.name for each in all_of_them)],
        ["mirror", *(each.mirror.relative_to(ROOT) for each in all_of_them)],
    )]  # fmt: skip

    def show(name: str, mirror: str, row: Row) -> None:
        texts = (name.ljust(widths[0]), mirror.ljust(widths[1]))
        line = (*texts, row.lines.ljust(9), row.branches.ljust(9), row.missing)
        print("  ".join(line).rstrip(), flush=True)

    show("module", "mirror", Row("lines", "branches", "missing"))
    lacking = outputs = ""
    for each, row in rows(all_of_them, jobs):
        show(each.name, str(each.mirror.relative_to(ROOT)), row)
        lacking += f" {each.name}" if row.missing else ""
        outputs += f"\n---- {each.mirror.name}\n{row.output}" if row.output else ""
    print(f"{outputs}\nnot whole:{lacking}" if lacking else "\nall are whole")
    return not lacking


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 all are whole, 1 one is not, 2 there is no such module."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.mirrors", description=__doc__, formatter_class=as_written
    )
    parser.add_argument("module", nargs="*")
    parser.add_argument("--room", choices=list(ROOMS))
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    try:
        all_of_them = chosen([asked.room] if asked.room else list(ROOMS), asked.module)
    except LookupError as unknown:
        parser.error(str(unknown))
    return 0 if tell(all_of_them, asked.jobs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
