"""What every test may ask for, and what is skipped where a machine lacks it.

    @pytest.mark.browser    needs a Chromium and playwright; `chromium_path` says where it is
    @pytest.mark.node       needs node
    @pytest.mark.long       runs in the full form only, `make long`

What is skipped is listed by name with its reason. HANDSPAN_REQUIRE="browser node models" turns
those skips into failures (models: a library that an adapter needs): CI sets it. HANDSPAN_LONG=1 is
the full form; `full_form` tells a test.
HANDSPAN_CHROMIUM names a browser to use instead of the one that is found.
"""

import importlib.util
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

FULL_FORM = os.environ.get("HANDSPAN_LONG", "") not in ("", "0")
REQUIRED = frozenset(os.environ.get("HANDSPAN_REQUIRE", "").split())

CHROMIUM_NAMES = (
    "chromium-headless-shell",
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
"""The shell first: it draws the same pages, without a browser's window around each, which takes
half of the time. *Source:* all of tests/browser, measured 2026-11-30: 135 against 261 CPU s."""

CHROMIUM_MAC = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)

SLOW = [HealthCheck.too_slow]
"""A machine may be busy with something else; that is no fault of the strategy."""

settings.register_profile(
    "short",
    max_examples=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=SLOW,
)
settings.register_profile(
    "long", max_examples=2_000, deadline=None, print_blob=True, suppress_health_check=SLOW
)
settings.load_profile("long" if FULL_FORM else "short")


Row = TypeVar("Row")
Column = TypeVar("Column")


def spread(rows: Sequence[Row], columns: Sequence[Column], every: int) -> list[tuple[Row, Column]]:
    """The cells of a table: all of them in the full form, else one in `every`.

    Each row and each column has its share of them.
    """
    assert every <= min(len(rows), len(columns)), "a row or a column would have none"
    return [
        (row, column)
        for down, row in enumerate(rows)
        for across, column in enumerate(columns)
        if FULL_FORM or (down + across) % every == 0
    ]


@cache
def find_chromium() -> str | None:
    """The path of the machine's own Chromium or Chrome."""
    named = os.environ.get("HANDSPAN_CHROMIUM")
    if named:
        return named
    on_path = (shutil.which(name) for name in CHROMIUM_NAMES)
    on_a_mac = (str(path) for path in CHROMIUM_MAC if path.exists())
    return next((path for path in (*on_path, *on_a_mac) if path), None)


def lacking(need: str) -> str | None:
    """Why this machine cannot run a test with that marker; None when it can."""
    if need == "browser":
        if importlib.util.find_spec("playwright") is None:
            return "playwright is not installed"
        return None if find_chromium() else "no Chromium on this machine"
    if need == "node":
        return None if shutil.which("node") else "no node on this machine"
    return None if FULL_FORM else "full form only: make long"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: playwright's sync API keeps a loop running, in which no other may run."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in ("browser", "node", "long"):
        if item.get_closest_marker(need) is not None and (reason := lacking(need)):
            skip_or_fail(need, reason)


def skip_or_fail(need: str, reason: str) -> None:
    """Skip the test under way for `reason`; fail it where `need` is required."""
    if need in REQUIRED:
        pytest.fail(f"{reason}, and HANDSPAN_REQUIRE asks for {need}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Where Chromium is; for playwright's `launch(executable_path=...)`."""
    path = find_chromium()
    assert path is not None, "ask for it under the marker `browser`"
    return path


@pytest.fixture(scope="session")
def full_form() -> bool:
    """Whether this is `make long`."""
    return FULL_FORM
