"""The run of faults: its list of survivors, how it tells faults apart, and a short form of it."""

import ast
import importlib.util
import subprocess
import sys

import pytest
from tests.mutation import __main__ as mutation

LIST = mutation.EXPLAINED.read_text(encoding="utf-8")

needs_cosmic_ray = pytest.mark.skipif(
    importlib.util.find_spec("cosmic_ray") is None, reason="cosmic-ray is not installed"
)


def run(*arguments: str, timeout_s: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(
        command, cwd=mutation.ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


# ---- the list -----------------------------------------------------------------------------------


def test_every_survivor_that_is_explained_is_a_line_of_its_module():
    for module, before, after in mutation.explained(LIST):
        lines = [" ".join(line.split()) for line in mutation.file_of(module).open(encoding="utf-8")]
        assert before in lines, f"{module} has no line {before}"
        assert before != after


def test_every_line_of_the_list_is_read():
    entries = [line for line in LIST.splitlines() if line.startswith("*")]
    assert len(mutation.explained(LIST)) == len(entries) > 0


def test_an_explanation_needs_its_module_and_its_reason():
    text = (
        "## `call`\n* `a` → `b`: why\n* `a` → `c`:\n* `a|b` → ``: gone\n## `run`\n* `a` → `b`: so"
    )
    assert mutation.explained(text) == [("call", "a", "b"), ("call", "a|b", ""), ("run", "a", "b")]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", ("b", "B")),
        ("a\n  b\nc\n", "a\nc\n", ("b", "")),
        ("a\n  b(\n    1)\nc\n", "a\n  pass\nc\n", ("b( 1)", "pass")),
        ("a\na\n", "a\n", ("a", "")),
    ],
)
def test_a_fault_is_told_by_the_lines_it_changes(before, after, told):
    assert mutation.changed(before, after) == told


def test_annotations_are_no_code():
    spans = mutation.spans_of_annotations("a: int = 1\ndef f(b: str) -> None: ...\n")
    assert sorted(spans) == [((1, 3), (1, 6)), ((2, 9), (2, 12)), ((2, 17), (2, 21))]


def told_apart_by_identity(node: ast.expr) -> bool:
    """None, True, False, or a member of an enum by its name."""
    if isinstance(node, ast.Constant):
        return node.value in (None, True, False)
    return isinstance(node, ast.Attribute) and node.attr.isupper()


@pytest.mark.parametrize("module", mutation.DEFAULT)
def test_identity_is_asked_of_none_booleans_and_members_of_enums_only(module):
    for node in ast.walk(ast.parse(mutation.file_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            assert told_apart_by_identity(node.comparators[0]), ast.unparse(node)


# ---- the run ------------------------------------------------------------------------------------


@needs_cosmic_ray
def test_a_few_faults_are_found():
    done = run("follow_up", "--sample", "2", "--seed", "7", timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "follow_up: 2 faults, 2 found, 0 explained, 0 not\n"


@needs_cosmic_ray
@pytest.mark.parametrize("module", ["nobody", "../core/call"])
def test_a_module_that_is_not_there_is_said(module):
    done = run(module, timeout_s=60)
    assert (done.returncode, "no module" in done.stderr) == (2, True)


@pytest.mark.long
@needs_cosmic_ray
def test_no_fault_survives_unexplained():
    done = run(timeout_s=3_000)
    assert done.returncode == 0, done.stdout + done.stderr
