"""Tables as Markdown, so that a README can hold what was printed; a row as soon as it is there."""

import statistics
from collections.abc import AsyncIterator, Iterable


async def printed(head: list[str], rows: AsyncIterator[list[str]]) -> None:
    """One table."""
    print()
    _print_row(head)
    _print_row("---" for _ in head)
    async for row in rows:
        _print_row(row)


def _print_row(cells: Iterable[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def middle(ratios: list[float]) -> str:
    """The median, and between what it lies."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
