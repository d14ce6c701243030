"""The demo's modules use the library as its types say."""

import subprocess
from pathlib import Path

import pytest
from tests.conftest import skip_or_fail

ROOT = Path(__file__).parents[2]
TSC = ROOT / "tests" / "client" / "node_modules" / "typescript" / "bin" / "tsc"

MODULE_LINES = 250
"""What a reader who learns from a module can hold."""


@pytest.mark.node
def test_the_types_of_the_demo_hold() -> None:
    if not TSC.exists():
        skip_or_fail("node", "npm package not installed: typescript")
    command = ["node", str(TSC), "-p", "web-demo"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout


def test_no_module_of_the_demo_is_longer_than_a_reader_can_hold() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in files("*.js", "*.css")}
    assert lengths
    assert {name: n for name, n in lengths.items() if n > MODULE_LINES} == {}


def test_no_module_of_the_demo_makes_elements_out_of_text() -> None:
    doors = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "setHTML")
    found = [
        (path.name, door) for path in files("*.js") for door in doors if door in path.read_text()
    ]
    assert found == []


def files(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted((ROOT / "web-demo").glob(pattern))]
