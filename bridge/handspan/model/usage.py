"""Tokens as a provider counts them, and as a run takes them. Pure."""

from collections.abc import Mapping
from typing import Any, Final

Json = Any

MOST: Final = 2**53 - 1
"""As much as every reader of JSON can hold."""


def counts(told: Mapping[str, Json]) -> dict[str, int]:
    """Those that are counts: what is none (null, a text, less than nothing) fails no run."""
    return {name: n for name, n in told.items() if type(n) is int and 0 <= n <= MOST}


def part(usage: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """The details of this name, or none."""
    found = usage.get(name)
    return found if isinstance(found, Mapping) else {}
