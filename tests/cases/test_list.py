"""That the table of README.md is true: each case has its tests, each test exists and carries it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = 97
"""How many there are; a row that is lost is missed."""

ROW = re.compile(r"^\| (C\d{3}) \| ([^|]+) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
NUMBER = re.compile(r"\bC[01]\d\d\b")
TITLE = re.compile(r"^\s*test\(\s*([\"'`])(.*?)\1", re.MULTILINE)

ROWS = {
    number: (re.findall(r"`([^`]+)`", tests), why.strip())
    for number, _, tests, why in ROW.findall((TESTS / "cases" / "README.md").read_text("utf-8"))
}


@cache
def functions(path: str) -> dict[str, str]:
    """The tests of a Python file by name, each with its source and decorators."""
    source = (TESTS / path).read_text("utf-8")
    lines = source.splitlines()
    return {
        node.name: "\n".join(lines[_first_line(node) - 1 : node.end_lineno])
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min(node.lineno, *(one.lineno for one in node.decorator_list or [node]))


@cache
def titles(path: str) -> list[str]:
    """The titles of the tests of a JavaScript file."""
    return [title for _, title in TITLE.findall((TESTS / path).read_text("utf-8"))]


def carries(number: str, test: str) -> bool:
    """Whether this test is there and has the number."""
    path, _, name = test.partition("::")
    if path.endswith(".js"):
        return any(number in title for title in titles(path))
    source = functions(path)[name]
    return number in source or f"_{number.lower()}_" in name


def test_every_case_has_one_row_in_order() -> None:
    assert len(ROWS) == CASES
    assert list(ROWS) == sorted(ROWS)
    text = (TESTS / "cases" / "README.md").read_text("utf-8")
    assert len(re.findall(r"^\| C", text, re.MULTILINE)) == CASES


@pytest.mark.parametrize("number", ROWS)
def test_every_case_has_tests_that_carry_it_or_a_reason(number: str) -> None:
    tests, why = ROWS[number]
    assert tests or why
    for test in tests:
        assert carries(number, test), test


def test_every_number_that_a_test_carries_is_one_of_the_cases() -> None:
    found = {
        number
        for pattern in ("*.py", "client/*.test.js")
        for path in TESTS.rglob(pattern)
        if "node_modules" not in path.parts and path != Path(__file__)
        for number in NUMBER.findall(path.read_text("utf-8"))
    }
    assert found - ROWS.keys() == set()


def test_every_test_of_this_folder_carries_a_case_that_the_table_gives_it() -> None:
    """Nothing is here by accident, and nothing is forgotten in the table."""
    listed = {test for tests, _ in ROWS.values() for test in tests}
    here = {
        f"cases/{path.name}::{name}"
        for path in (TESTS / "cases").glob("test_*.py")
        if path != Path(__file__)
        for name in functions(f"cases/{path.name}")
    }
    assert here - listed == set()
