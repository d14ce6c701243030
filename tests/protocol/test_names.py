"""Ids, codes, and what the package may not import: P13, architecture."""

import ast
from pathlib import Path

import pytest
from tests.protocol.vectors import PROTOCOL

import handspan_protocol
from handspan_protocol.errors import CallCode, CommandCode, Outcome, PeerError, outcome_of
from handspan_protocol.ids import is_error_code, is_id, is_tool_name

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


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("Az09_.:-", True), ("x" * 128, True), ("__proto__", True)]
    + [(bad, False) for bad in ("", "x" * 129, "a b", "a\n", "\n", "a/b", "\u00e9", "\u0663", "*")],
)
def test_p13_an_id_is_a_full_match(text, good):
    assert is_id(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("a.b", True), ("a_b", True), ("*", True), ("x" * 64, True), ("toString", True)]
    + [(bad, False) for bad in ("", "x" * 65, "**", "*a", "a:b", "a b", "a\n", "*\n", "\u0663")],
)
def test_p13_a_tool_name_is_a_full_match_or_the_wildcard(text, good):
    assert is_tool_name(text) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("not_there", True), ("404", True), ("x" * 64, True)]
    + [(bad, False) for bad in ("", "Bad", "a-b", "x" * 65, "a\n", "\u00e9")],
)
def test_a_page_error_code_is_a_full_match(text, good):
    assert is_error_code(text) is good


@pytest.mark.parametrize("code", [None, *CallCode])
def test_every_code_has_one_outcome(code):
    named = {
        None: Outcome.OK,
        CallCode.DENIED: Outcome.DENIED,
        CallCode.APPROVAL_EXPIRED: Outcome.DENIED,
        CallCode.ABORTED: Outcome.ABORTED,
        CallCode.ABORTED_BEFORE_START: Outcome.ABORTED,
        CallCode.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
    }
    assert outcome_of(code) is named.get(code, Outcome.ERROR)


def test_a_peer_error_carries_code_message_and_path():
    error = PeerError(CommandCode.BUSY, "a run is going on", "/threadId")
    assert (error.code, error.message, error.path, str(error)) == (
        "busy",
        "a run is going on",
        "/threadId",
        "a run is going on",
    )


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
