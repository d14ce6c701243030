"""Every setting, frame, code, option, method and hook stands in the reference, and nothing else."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.docs.snippets import DOCS, ROOT

import handspan
from handspan import Bridge, Policy, Run, testing
from handspan.core.policy import _TOLD
from handspan.server import SessionLook, ThreadLook
from handspan.shell import hooks
from handspan.shell.tools import _OPTIONS
from handspan_protocol import errors
from handspan_protocol.codec import PAGE_TYPES, SERVER_TYPES

REFERENCE = DOCS / "reference"
CLIENT = ROOT / "bridge" / "handspan" / "client"

QUOTED = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"\w+")
ROW = re.compile(r"^\| `(?P<name>\w+)` \|(?P<rest>.*)\|$", re.MULTILINE)


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """From a heading to the next one of its level."""
    level = heading.partition(" ")[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"no {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, flags=re.MULTILINE)[0]


def words_in_code(text: str) -> set[str]:
    """Every word that stands in backticks."""
    return {word for quoted in QUOTED.findall(text) for word in WORD.findall(quoted)}


# ---- settings --------------------------------------------------------------------------------

SETTINGS = page("settings.md")
SETTING_ROWS = {m["name"]: m["rest"].split("|") for m in ROW.finditer(SETTINGS)}
SECONDS = ("timeout", "timeout_max", "grace", "window", "heartbeat", "idle")


def in_words(field: Any) -> str:
    """A default as the reference writes it."""
    default = field.default
    if default in (None, ()):
        return "none"
    if isinstance(default, str):
        return f'"{default}"'
    if field.name.endswith(SECONDS):
        return f"{default:,.0f} s"
    if field.name.endswith("bytes"):
        mega = default % 1024**2 == 0
        return f"{default // 1024**2} MiB" if mega else f"{default // 1024} KiB"
    return f"{default:,}"


@pytest.mark.parametrize("field", fields(Policy), ids=lambda field: field.name)
def test_the_setting_stands_there_with_its_default(field: Any) -> None:
    default, what, *told = SETTING_ROWS[field.name]
    assert default.strip() == in_words(field)
    assert what.strip()
    assert (told[:1] == [" yes "]) == (field.name in _TOLD)


def test_no_setting_stands_there_that_there_is_not() -> None:
    assert SETTING_ROWS.keys() == {field.name for field in fields(Policy)}


# ---- codes -----------------------------------------------------------------------------------

CODES = page("codes.md")
CODE_SECTIONS = [
    ("## Of a call", errors.CallCode),
    ("## Of a run that has ended", errors.StopReason),
    ("## Of a run that has failed", errors.RunCode),
    ("## Of a command", errors.CommandCode),
    ("## Of a tool that was refused", errors.ToolCode),
]


@pytest.mark.parametrize(("heading", "kind"), CODE_SECTIONS, ids=lambda given: str(given))
def test_the_section_has_a_row_for_each_code_and_no_other(heading: str, kind: Any) -> None:
    rows = {m["name"] for m in ROW.finditer(section(CODES, heading))}
    assert rows == {str(code) for code in kind}


def test_the_outcome_of_a_call_code_is_the_right_one() -> None:
    rows = {m["name"]: m["rest"] for m in ROW.finditer(section(CODES, "## Of a call"))}
    told = {name: rest.split("|")[0].strip() for name, rest in rows.items()}
    assert told == {str(code): str(errors.outcome_of(code)) for code in errors.CallCode}


def test_the_codes_of_the_wire_stand_there() -> None:
    rows = {m["name"] for m in ROW.finditer(section(CODES, "## On the wire only"))}
    kinds = (errors.CallStatus, errors.CancelReason, errors.ResumeRefusal)
    assert rows == {str(code) for kind in kinds for code in kind}


def test_every_outcome_stands_there() -> None:
    assert {str(outcome) for outcome in errors.Outcome} <= words_in_code(CODES)


def test_every_close_code_stands_there_with_what_the_page_does() -> None:
    rows = dict(re.findall(r"^\| (\d{4}) \|.*\| ([^|]+) \|$", CODES, re.MULTILINE))
    assert rows.keys() == {str(int(code)) for code in errors.CloseCode}
    for code, then in rows.items():
        for_good = code in ("3000", "3003") or code >= "4500"
        assert (then == "never") == for_good, code


# ---- what the code itself tells --------------------------------------------------------------


@pytest.fixture(scope="module")
def generate() -> Any:
    sys.path.insert(0, str(DOCS))  # as for a script of that folder
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(DOCS))
    return module


def test_what_is_generated_is_fresh(generate: Any) -> None:
    assert generate.stale() == [], "run python docs/generate.py"


def test_every_frame_stands_there(generate: Any) -> None:
    told = set(re.findall(r"^### `([\w.]+)`$", page("frames.md"), re.MULTILINE))
    assert told == PAGE_TYPES | SERVER_TYPES


def test_every_command_and_option_stands_there(generate: Any) -> None:
    import typer

    told = page("cli.md")
    commands = dict(generate.commands_of(typer.main.get_command(generate.app)))
    assert {"serve", "threads", "threads show", "threads delete"} <= commands.keys()
    for name, command in commands.items():
        options = {o for p in command.params for o in p.opts if o.startswith("--")} - {"--help"}
        headings = re.findall(rf"^## `handspan {name}(?: [^a-z].*)?`$", told, re.M)
        assert len(headings) == 1, name
        here = section(told, re.search(rf"^## `handspan {name}(?: [^a-z].*)?`$", told, re.M)[0])
        assert {o for o in options if f"`{o}" not in here} == set(), name


# ---- Python ----------------------------------------------------------------------------------

PYTHON = page("python.md")


def public(kind: Any) -> set[str]:
    """What a user may touch of a class: methods, properties, fields, and what `__init__` sets."""
    named = {name for name in vars(kind) if not name.startswith("_")}
    if is_dataclass(kind):
        named |= {field.name for field in fields(kind)}
    elif "__init__" in vars(kind):
        named |= set(re.findall(r"self\.([a-z]\w*)\s*[:=]", inspect.getsource(kind.__init__)))
    return named


def parameters(function: Any) -> set[str]:
    names = inspect.signature(function).parameters
    return {n for n in names if n not in ("self", "given", "options", "function")}


INSIDE = {"take", "ended", "failed", "for_tool"}
"""Of a Run, for the shell that drives it."""


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("## Bridge", public(Bridge)),
        ("## Bridge", parameters(Bridge.__init__)),
        ("## Bridge", parameters(Bridge.serve) | parameters(Bridge.running)),
        ("## Bridge", parameters(Bridge.run) | parameters(Bridge.call_tool)),
        ("## Bridge", public(ThreadLook) | public(SessionLook)),
        ("## Run", public(Run) - INSIDE),
        ("## Run", parameters(Run.call) | parameters(Run.custom) | parameters(Run.patch_state)),
        ("## Results", public(handspan.CallResult) | public(handspan.RunResult)),
        ("## Results", public(handspan.Failure)),
        ("## Server tools", _OPTIONS),
        ("## Principal and Request", public(handspan.Request) | {"id", "attributes"}),
        ("## handspan.testing", set(testing.__all__)),
        ("## handspan.testing", parameters(testing.Page.__init__)),
        ("## handspan.testing", parameters(testing.ScriptedAgent.__init__)),
    ],
)
def test_what_a_user_may_touch_stands_there(heading: str, names: Iterable[str]) -> None:
    assert set(names) - words_in_code(section(PYTHON, heading)) == set()


def test_every_export_stands_there() -> None:
    assert set(handspan.__all__) - words_in_code(PYTHON) == set()


def test_every_hook_has_its_row() -> None:
    """What calls user code, on both sides; read off the code as far as its names tell."""
    asked = {name for name in inspect.signature(Bridge).parameters if name.startswith("auth")}
    asked |= {name for name in ("observe",) if hasattr(Bridge, name)}
    asked |= {name for name in ("hook", "suggest") if hasattr(Bridge, name)}
    asked |= {f.name for f in fields(Policy) if f.name == "stop_when"}
    face = (CLIENT / "handspan.js").read_text(encoding="utf-8")
    asked |= set(re.findall(r"@property \{.*\} (on[A-Z]\w+)", face)) | {
        "subscribe",
        "token",
        "settle",
    }
    assert len(asked) == 11, asked
    asked |= set(hooks.NAMES)
    table = re.findall(r"^\| (`[^|]*)\|", page("hooks.md"), re.MULTILINE)
    assert asked <= {word for cell in table for word in words_in_code(cell)}


@pytest.mark.parametrize(
    "kind",
    [
        handspan.RunRequest,
        handspan.Step,
        handspan.Call,
        handspan.BadArguments,
        handspan.StepOutcome,
    ],
)
def test_every_field_of_what_a_hook_is_asked_stands_there(kind: Any) -> None:
    told = words_in_code(section(page("hooks.md"), f"### {kind.__name__}"))
    assert {field.name for field in fields(kind)} - told == set()


def test_what_is_absent_is_named_and_really_absent() -> None:
    """The list of what is not there yet must shrink when something comes."""
    told = words_in_code(section(page("hooks.md"), "## Not there yet"))
    assert {"buses", "asgi"} <= told
    assert {"hook", "suggest", "delegate", "store", "model_request"} & told == set()
    for absent in ("buses", "interop", "shell/asgi.py"):
        assert not (ROOT / "bridge" / "handspan" / absent).exists()


# ---- JavaScript ------------------------------------------------------------------------------

JAVASCRIPT = page("javascript.md")

TYPEDEF = re.compile(r"@typedef \{[^\n]*?\} (\w+)(.*?)(?=@typedef|\*/)", re.DOTALL)
PROPERTY = re.compile(r"@property \{(?:[^{}]|\{[^{}]*\})*\}\s+\[?(\w+)")


def typedef(file: str, name: str) -> set[str]:
    """The properties of a JSDoc typedef of the client."""
    for found, body in TYPEDEF.findall((CLIENT / file).read_text(encoding="utf-8")):
        if found == name:
            return set(PROPERTY.findall(body))
    raise AssertionError(f"{file} has no typedef {name}")


TYPEDEFS = [
    ("## connect", "shell/host.js", "Options", 7),
    ("## The bridge", "handspan.js", "BridgeExtras", 6),
    ("## A conversation", "shell/conversation.js", "Conversation", 10),
    ("## A conversation", "shell/conversation.js", "RunOptions", 5),
    ("## A conversation", "shell/conversation.js", "InvokeOptions", 3),
    ("## A run", "shell/run.js", "RunExtras", 3),
    ("## A run", "shell/run.js", "RunEnd", 3),
    ("## What a button gets", "shell/conversation.js", "Invoked", 5),
    ("## A view", "shell/conversation.js", "View", 8),
    ("## A view", "core/reducer.js", "Call", 9),
    ("## A view", "core/reducer.js", "LastRun", 4),
    ("## A view", "core/reducer.js", "ThreadState", 9),
    ("## A tool's definition", "shell/tools.js", "ToolOptions", 14),
    ("## A handler", "shell/tools.js", "CallInfo", 8),
    ("## An approval", "shell/approvals.js", "ApprovalRequest", 8),
    ("## An approval", "shell/approvals.js", "ApprovalAnswer", 4),
]


@pytest.mark.parametrize(("heading", "file", "name", "least"), TYPEDEFS)
def test_what_a_page_may_use_stands_there(heading: str, file: str, name: str, least: int) -> None:
    found = typedef(file, name)
    assert len(found) >= least, f"the test reads too little of {name}: {sorted(found)}"
    assert found - words_in_code(section(JAVASCRIPT, heading)) == set()


def test_every_export_of_the_library_stands_there() -> None:
    text = (CLIENT / "handspan.js").read_text(encoding="utf-8")
    exports = set(re.findall(r"^export function (\w+)", text, re.MULTILINE))
    exports |= set(re.findall(r"^export \{ (\w+) \}", text, re.MULTILINE))
    assert {"connect", "content", "HandspanError"} == exports
    assert exports <= words_in_code(JAVASCRIPT)


def test_every_promise_stands_there_once() -> None:
    text = (REFERENCE / "promises.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (P\d+) \|", text, re.MULTILINE) == [f"P{n}" for n in range(1, 17)]


def test_the_reference_has_no_page_without_a_test() -> None:
    known = {"settings.md", "codes.md", "frames.md", "cli.md", "python.md", "javascript.md"}
    assert {path.name for path in REFERENCE.iterdir()} == known | {"hooks.md", "promises.md"}
    assert Path(DOCS / "generate.py").is_file()
