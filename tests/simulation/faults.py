"""Faults planted in the product, each of which the checker must notice."""

from collections.abc import Iterator
from contextlib import contextmanager

FAULTS: dict[str, object] = {}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The product with this fault in it."""
    yield
