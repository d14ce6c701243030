"""The package as a whole: what it exports, and what it may not import (architecture)."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.protocol.vectors import PROTOCOL

import handspan_protocol

FORBIDDEN = {
    "asyncio",
    "anyio",
    "websockets",
    "socket",
    "time",
    "datetime",
    "random",
    "secrets",
    "uuid",
    "os",
    "logging",
    "sqlite3",
    "jsonschema",
    "handspan",
}
MODULES = sorted((PROTOCOL / "handspan_protocol").glob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_the_contract_is_pure(module: Path):
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    }
    assert not imported & FORBIDDEN


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_the_contract_stays_readable(module: Path):
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert all((f.end_lineno or 0) - f.lineno < 60 for f in functions)


def test_everything_public_is_exported_once():
    assert len(set(handspan_protocol.__all__)) == len(handspan_protocol.__all__)
    assert all(hasattr(handspan_protocol, name) for name in handspan_protocol.__all__)


def test_everything_that_the_package_imports_is_exported():
    names = {name for name, value in vars(handspan_protocol).items() if not own_matter(name, value)}
    assert names == set(handspan_protocol.__all__)


def own_matter(name, value):
    return name.startswith("_") or isinstance(value, ModuleType)


@pytest.mark.parametrize("module", ["codec", "content", "frames"])
def test_a_module_exports_what_it_has_and_nothing_twice(module):
    there = import_module(f"handspan_protocol.{module}")
    assert len(set(there.__all__)) == len(there.__all__)
    assert all(hasattr(there, name) for name in there.__all__)
