"""Reads the shared cases of `protocol/vectors`, one JSON object a line."""

import json
from pathlib import Path
from typing import Any

import pytest

PROTOCOL = Path(__file__).parents[2] / "protocol"


def cases(file: str) -> list[dict[str, Any]]:
    text = (PROTOCOL / "vectors" / file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def each(file: str) -> pytest.MarkDecorator:
    """Runs a test once a case, under the case's name."""
    return pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in cases(file)])
