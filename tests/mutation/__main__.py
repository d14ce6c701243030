"""Does a test fail when the code is wrong? `python -m tests.mutation [module ...]`

Makes small faults in modules of the core, one at a time, and runs the mirror of the module on each:
`tests/core/test_call.py` alone must find every fault in `call.py`. A fault that no test finds has
survived; README.md beside this file explains those that change no behaviour. The exit status is 0
when every survivor is explained and every explanation is needed, 1 when not, 2 when it cannot run.

    --sample N    only N faults of each module, chosen by --seed; a short look
    --seed N      which ones; 0 if not said
    --jobs N      at once, 2 if not said

Call, follow_up and run are asked about where none is named. The faults are those of cosmic-ray
(`pip install cosmic-ray`) and of `operators`; its own runner, which writes each fault into the file
and starts Python anew, is not used: here each fault is made in memory, in a fork of a process that
has imported whatever does not depend on it. Nothing of the project is written to.
"""

import argparse
import ast
import importlib
import os
import random
import re
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
EXPLAINED: Final = Path(__file__).with_name("README.md")
DEFAULT: Final = ("call", "follow_up", "run")
WARM: Final = ("pytest", "hypothesis.stateful", "handspan_protocol.codec", "handspan.schema")
"""What the mirrors need and no fault is in; imported once."""

MIRROR_S: Final = 60
"""Processor time after which a faulty module hangs, in seconds; the slowest mirror takes 5."""
MEMORY_BYTES: Final = 4 << 30
"""What a faulty module may take; one that asks for more fails as any other."""

QUICKLY: Final = (
    *("-x", "--assert=plain", "-o", "addopts=--import-mode=importlib"),
    *("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:terminal"),
)
"""Nobody reads what pytest says: only whether a test failed."""

NO_FAULTS: Final = frozenset(
    {"ReplaceComparisonOperator_Is_Eq", "ReplaceComparisonOperator_IsNot_NotEq"}
)
"""Operators that change nothing here: `is` is asked of None, booleans and members of enums only,
and these equal nothing but themselves."""

PASSED, FAILED_TESTS, INTERRUPTED, USAGE = 0, 1, 2, 4
"""pytest's exit codes: the last two are a test file, or a conftest, that cannot be imported."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault; `before` and `after` are the lines it changes."""

    module: str
    operator: str
    line: int
    before: str
    after: str
    code: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.module, self.before, self.after

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} [{self.operator}] `{self.before}` → `{self.after}`"


def file_of(module: str) -> Path:
    return ROOT / "bridge" / "handspan" / "core" / f"{module}.py"


def mirror_of(module: str) -> Path:
    return ROOT / "tests" / "core" / f"test_{module}.py"


# ---- the faults ------------------------------------------------------------------------------


def operators() -> Iterator[tuple[str, Any]]:
    """Every operator that needs no arguments and may make a fault, by its name."""
    importlib.import_module("parso")  # cosmic-ray imports it in an order that it does not bear
    plugins = importlib.import_module("cosmic_ray.plugins")
    for name in plugins.operator_names():
        kind = plugins.get_operator(name)
        if not kind.arguments() and name.split("/")[1] not in NO_FAULTS:
            yield name.split("/")[1], kind()
    for own in importlib.import_module("tests.mutation.operators").OWN:
        yield type(own).__name__, own


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator can strike: its nth chance in a module."""

    module: str
    name: str
    operator: Any
    occurrence: int
    line: int


def places_of(module: str) -> list[Place]:
    """Every place, in a fixed order; those in annotations, which nothing reads, are left out."""
    made = list(operators())  # it imports what the next line needs
    syntax = importlib.import_module("cosmic_ray.ast")
    source = file_of(module).read_text(encoding="utf-8")
    nodes = list(syntax.ast_nodes(syntax.get_ast(source)))
    silent = spans_of_annotations(source)
    return [
        Place(module, name, operator, occurrence, start[0])
        for name, operator in made
        for occurrence, (start, _) in enumerate(
            at for node in nodes for at in operator.mutation_positions(node)
        )
        if not any(first <= start < last for first, last in silent)
    ]


def mutants_at(places: Sequence[Place]) -> list[Mutant]:
    """The fault of each place; of those that make the same text, one."""
    mutating = importlib.import_module("cosmic_ray.mutating")
    found: dict[str, Mutant] = {}
    for at in places:
        source = file_of(at.module).read_text(encoding="utf-8")
        code = mutating.mutate_code(source, at.operator, at.occurrence)
        if code is not None and code != source:
            before, after = changed(source, code)
            found.setdefault(code, Mutant(at.module, at.name, at.line, before, after, code))
    return list(found.values())


def spans_of_annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types are said: (line, column) of begin and end."""
    nodes: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            nodes.append(node.returns)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in nodes
        if node is not None
    ]


def changed(source: str, code: str) -> tuple[str, str]:
    """The lines that differ, before and after, without their indentation."""
    old, new = source.splitlines(), code.splitlines()
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new))
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1

    def told(lines: list[str]) -> str:
        return " ".join(" ".join(lines[first : len(lines) - last]).split())

    return told(old), told(new)


# ---- running one -----------------------------------------------------------------------------


class Faulty(MetaPathFinder, Loader):
    """Imports one module from a text instead of its file."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return ModuleSpec(fullname, self, origin=str(self._path))

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def warm_up() -> None:
    """Import all that is needed, then forget what a fault could be seen in."""
    sys.path[:0] = [str(ROOT), str(ROOT / "bridge"), str(ROOT / "protocol")]
    hollow = ModuleType("handspan")  # the whole server is not needed
    hollow.__path__ = [str(ROOT / "bridge" / "handspan")]
    sys.modules["handspan"] = hollow
    for name in WARM:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.startswith("handspan.")]:
        del sys.modules[name]


def in_child(module: str, code: str) -> int:
    """In a fork: the exit code of the mirror, run on this text of the module."""
    resource.setrlimit(resource.RLIMIT_CPU, (MIRROR_S, MIRROR_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    path = file_of(module)
    try:
        compiled = compile(code, str(path), "exec")
    except SyntaxError:
        return INTERRUPTED
    sys.meta_path.insert(0, Faulty(f"handspan.core.{module}", path, compiled))
    pytest = importlib.import_module("pytest")
    return int(pytest.main([*QUICKLY, f"--rootdir={ROOT}", str(mirror_of(module))]))


def fork(module: str, code: str) -> int:
    """The process that runs the mirror on this text."""
    process = os.fork()
    if process == 0:
        status = INTERRUPTED
        try:
            status = in_child(module, code)
        finally:
            os._exit(status)
    return process


def verdicts(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant with whether it survived, as they come."""
    waiting = list(reversed(mutants))
    running: dict[int, Mutant] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            one = waiting.pop()
            running[fork(one.module, one.code)] = one
        process, status = os.wait()
        one = running.pop(process)
        code = os.waitstatus_to_exitcode(status)
        if code > 0 and code not in (FAILED_TESTS, INTERRUPTED, USAGE):
            raise RuntimeError(f"pytest ended with {code} on {one}")
        yield one, code == PASSED


# ---- what is explained -----------------------------------------------------------------------

_ROOM = re.compile(r"^## `(\w+)`$")
_ENTRY = re.compile(r"^\* `(.+?)` → `(.*?)`: \S")


def explained(text: str) -> list[tuple[str, str, str]]:
    """(module, before, after) of every explained survivor in README.md."""
    found, module = [], ""
    for line in text.splitlines():
        if room := _ROOM.match(line):
            module = room[1]
        elif entry := _ENTRY.match(line):
            found.append((module, entry[1], entry[2]))
    return found


# ---- all of them -----------------------------------------------------------------------------


def healthy(module: str) -> bool:
    """Whether the mirror passes on the module as it is; without that, nothing is proven."""
    _, status = os.waitpid(fork(module, file_of(module).read_text(encoding="utf-8")), 0)
    return os.waitstatus_to_exitcode(status) == PASSED


def judge(module: str, known: set[tuple[str, str, str]], asked: argparse.Namespace) -> bool:
    """Run one module's faults and print what came of it; whether nothing is left to explain."""
    places = places_of(module)
    if asked.sample:
        chosen = random.Random(asked.seed)
        places = chosen.sample(places, min(asked.sample, len(places)))
    mutants = mutants_at(places)
    survivors, new = [], []
    for one, survived in verdicts(mutants, asked.jobs):
        if survived:
            survivors.append(one)
        if survived and one.key not in known:
            new.append(one)
            print(f"  survived: {one}", flush=True)
    needed = {one.key for one in survivors}
    stale = [] if asked.sample else [key for key in known if key[0] == module and key not in needed]
    for _, before, after in stale:
        print(f"  explained, but no survivor: `{before}` → `{after}`")
    killed = len(mutants) - len(survivors)
    told = f"{len(mutants)} faults, {killed} found, {len(survivors) - len(new)} explained"
    print(f"{module}: {told}, {len(new)} not", flush=True)
    return not new and not stale


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 nothing is unexplained, 1 something is, 2 it could not be run."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=as_written
    )
    parser.add_argument("module", nargs="*", default=list(DEFAULT))
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    for module in asked.module:
        if not file_of(module).exists() or not mirror_of(module).exists():
            parser.error(f"no module {module} with a mirror in the core")
    if importlib.util.find_spec("cosmic_ray") is None:
        parser.error("cosmic-ray is not installed: pip install cosmic-ray")
    warm_up()
    if sick := [module for module in asked.module if not healthy(module)]:
        parser.error(f"the mirror fails on the module as it is: {', '.join(sick)}")
    known = set(explained(EXPLAINED.read_text(encoding="utf-8")))
    good = [judge(module, known, asked) for module in asked.module]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
