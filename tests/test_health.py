"""The sizes that a reader feels, and what no file may say. *Source:* architecture.md."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
BRIDGE, PROTOCOL = ROOT / "bridge" / "handspan", ROOT / "protocol" / "handspan_protocol"

FUNCTION_LINES = 60
FILE_LINES = 400

SHORT_FUNCTIONS_IN = (BRIDGE / "core", PROTOCOL, BRIDGE / "schema")
SHORT_FILES_IN = (*SHORT_FUNCTIONS_IN, BRIDGE / "shell", BRIDGE / "client")

MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:" + "|".join(("work", "root")) + ")/")
"""A folder of the machine this was written on."""

_HOSTS = (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))
REGISTRY_HOST = re.compile(
    "|".join(
        re.escape(".".join(parts)) for parts in (*_HOSTS, ("yarnpkg", "com"), ("debian", "org"))
    )
)
"""Which registry a machine uses is its own business. Taken apart here, or this file would name
them."""


def files_in(*rooms: Path, suffixes: tuple[str, ...] = (".py", ".js")) -> list[Path]:
    found = (path for room in rooms for path in sorted(room.rglob("*")))
    return [path for path in found if path.suffix in suffixes and "node_modules" not in path.parts]


def functions_in(path: Path) -> Iterator[tuple[str, int, int]]:
    """Each function of a Python file: where it is, its lines, the lines of its body."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or node.lineno
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = end - body[0].lineno + 1 if body else 0
            yield (
                f"{path.relative_to(ROOT)}:{node.lineno} {node.name}",
                end - node.lineno + 1,
                length,
            )


def files_of_the_project() -> list[Path]:
    """What git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def places_of(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files_of_the_project():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(ROOT)
        found += [f"{name}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_no_function_of_the_core_and_the_protocol_is_longer_than_a_screen() -> None:
    paths = files_in(*SHORT_FUNCTIONS_IN, suffixes=(".py",))
    assert paths
    functions = [function for path in paths for function in functions_in(path)]
    assert [where for where, lines, _ in functions if lines > FUNCTION_LINES] == []


def test_no_file_of_the_inner_rooms_is_longer_than_four_hundred_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files_in(*SHORT_FILES_IN)}
    too_long = {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > FILE_LINES}
    assert too_long == {}


def test_the_usual_length_of_a_function_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    paths = files_in(BRIDGE, PROTOCOL, suffixes=(".py",))
    bodies = sorted(body for path in paths for _, _, body in functions_in(path))
    with capsys.disabled():
        print(
            f"\n{len(bodies)} functions: median {median(bodies):g} lines,"
            f" 95 % within {bodies[len(bodies) * 95 // 100]} (aims: 6 and 35)"
        )


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    assert places_of(MACHINE_PATH) == []


def test_no_file_names_the_host_of_a_registry() -> None:
    assert places_of(REGISTRY_HOST) == []
