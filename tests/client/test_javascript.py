"""The page's library under its own tools: node's test runner, the type checker, the bundler.

Each JavaScript file is one test here, so that a failure and a skip have a name.
"""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / "bridge" / "handspan" / "client"
MODULES = HERE / "node_modules"

BUNDLE_BYTES = 8_000
"""8 kB minified and gzipped: a page should not feel its agent's hands. *Source:* the project's
promise to those who load it."""

LAZY_BYTES = {"tab.js": 1_000, "overlay.js": 1_500}
"""What is loaded besides: before the first socket, and once a page subscribes."""

RUN_SECONDS = 120
"""For one tool; a bound against hanging, not a measure."""

NEEDED = tuple(json.loads((HERE / "package.json").read_text())["devDependencies"])


def need(*packages: str) -> None:
    """Skip, or fail where node is required, when one of the npm packages is not installed."""
    missing = [name for name in packages if not (MODULES / name / "package.json").exists()]
    if missing:
        reason = f"npm package not installed: {', '.join(missing)}"
        if "node" in os.environ.get("HANDSPAN_REQUIRE", "").split():
            pytest.fail(f"{reason}, and HANDSPAN_REQUIRE asks for node", pytrace=False)
        pytest.skip(reason)


def run(*command: str | Path) -> bytes:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=RUN_SECONDS, check=False)
    told = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, told
    return done.stdout


@pytest.mark.node
@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.test.js")))
def test_node_passes(name: str) -> None:
    text = (HERE / name).read_text()
    need(*(package for package in NEEDED if package in text))
    run("node", "--test", HERE / name)


@pytest.mark.node
def test_the_types_of_the_client_hold() -> None:
    need("typescript")
    run("node", MODULES / "typescript" / "bin" / "tsc", "-p", CLIENT, "--noEmit")


@pytest.mark.node
def test_the_bundled_client_stays_small(tmp_path: Path) -> None:
    need("esbuild")
    run(
        MODULES / ".bin" / "esbuild",
        CLIENT / "handspan.js",
        *("--bundle", "--minify", "--format=esm"),
        *("--splitting", "--chunk-names=[name]", f"--outdir={tmp_path}"),
    )
    sizes = {file.name: len(gzip.compress(file.read_bytes(), 9)) for file in tmp_path.iterdir()}
    budgets = {"handspan.js": BUNDLE_BYTES, **LAZY_BYTES}
    assert sizes.keys() == budgets.keys()
    assert all(size <= budgets[name] for name, size in sizes.items()), sizes
