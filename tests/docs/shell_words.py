"""What a shell block may say, and whether it is true: commands, options, targets.

Nothing is run. A command that is not known here is an error: whoever prints a new one says what
can be checked of it.
"""

import contextlib
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import typer

from handspan.cli import app

ROOT: Final = Path(__file__).parents[2]
ROUTES: Final = ("/livez", "/readyz", "/metrics")


def problems_of(text: str, page_text: str) -> list[str]:
    """What is wrong with the commands of a block; `page_text` is the whole page around it."""
    found = []
    for line in text.splitlines():
        for words in _commands(line):
            check = _CHECKS.get(words[0])
            said = check(words, page_text) if check else f"no test knows {words[0]!r}"
            if said:
                found.append(f"{line.strip()}: {said}")
    return found


def handspan_problem(words: list[str], _: str = "") -> str:
    """Whether `handspan` would take these words."""
    group: Any = typer.main.get_command(app)
    while len(words) > 2 and hasattr(group.commands.get(words[1]), "commands"):
        if words[2] not in group.commands[words[1]].commands:
            break  # the group is a command of its own
        group, words = group.commands[words[1]], words[1:]
    if words[1] not in group.commands:
        return "no such command"
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("web").mkdir()
        try:
            group.commands[words[1]].make_context(words[1], list(words[2:]))
        except Exception as problem:
            return str(problem) or type(problem).__name__
    return ""


def _commands(line: str) -> list[list[str]]:
    parts = shlex.split(line, comments=True)
    commands: list[list[str]] = [[]]
    for part in parts:
        if part == "&&":
            commands.append([])
        else:
            commands[-1].append(part)
    return [command for command in commands if command]


def _make(words: list[str], _: str) -> str:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return "" if set(words[1:]) <= set(targets) else "no such target"


def _pip(words: list[str], _: str) -> str:
    known = ("pytest", "pytest-asyncio", "fastapi", "uvicorn", "griffelib", "requests")
    beside = words[2:] == ["--no-deps", "openai-agents"]
    ours = beside or all(word in known or is_the_clone(word) for word in words[2:])
    return "" if words[1] == "install" and ours else "installs something that no test has"


def is_the_clone(word: str) -> bool:
    """Handspan from a clone, with extras that there are."""
    said = re.fullmatch(r"/path/to/the/clone(?:\[([\w,-]+)\])?", word)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {*said[1].split(",")} if said and said[1] else set()
    return said is not None and named <= project["optional-dependencies"].keys()


def _python(words: list[str], _: str) -> str:
    return "" if words[1:] == ["-m", "venv", ".venv"] else "not a virtual environment"


def _curl(words: list[str], page_text: str) -> str:
    path = re.sub(r"^http://127\.0\.0\.1:\d+|\?.*$", "", words[-1])
    route = path.rpartition("/")[0] or path
    there = path in ROUTES or f'("{route}/' in page_text
    return "" if there else f"no route {path}"


def _sqlite3(words: list[str], _: str) -> str:
    backup = len(words) == 3 and re.fullmatch(r"\.backup \S+\.db", words[2])
    return "" if backup and words[1].endswith(".db") else "not a backup"


def _served(words: list[str], page_text: str) -> str:
    module, _, name = words[1].partition(":")
    there = f"# {module}.py\n" in page_text and f"\n{name} = " in page_text
    return "" if there else f"the page has no {words[1]}"


_CHECKS: Final[Mapping[str, Callable[[list[str], str], str]]] = {
    "handspan": handspan_problem,
    "make": _make,
    "pip": _pip,
    "python3": _python,
    "curl": _curl,
    "uvicorn": _served,
    "sqlite3": _sqlite3,
    "pytest": lambda words, _: "" if words[1:] == ["-o", "asyncio_mode=auto"] else "other options",
    "mkdir": lambda words, _: "",
    "cd": lambda words, _: "",
    ".": lambda words, _: "" if words[1:] == [".venv/bin/activate"] else "nothing to source",
}
