"""Every adapter that can be tested here, found by its `*_subject.py`.

One whose library is not installed is skipped, by its reason; HANDSPAN_REQUIRE="models" wants all.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import REQUIRED

from handspan import UsageError


def _subjects() -> Iterator[Any]:
    for file in sorted(Path(__file__).parent.glob("*_subject.py")):
        try:
            module = importlib.import_module(f"tests.contract.agents.{file.stem}")
        except (ImportError, UsageError) as missing:
            if "models" in REQUIRED:
                raise
            why = pytest.mark.skip(reason=str(missing))
            yield pytest.param(None, id=file.stem.removesuffix("_subject"), marks=why)
            continue
        for subject in module.SUBJECTS:
            yield pytest.param(subject, id=subject.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every scenario over every subject."""
    if "subject" in metafunc.fixturenames:
        metafunc.parametrize("subject", list(_subjects()))
