"""Tables as Markdown, so that a README can hold what was printed."""

import statistics


def printed(head: list[str], rows: list[list[str]]) -> None:
    """One table, its columns aligned."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    print()
    for row in (head, ["-" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("| " + " | ".join(cells) + " |")


def middle(ratios: list[float]) -> str:
    """The median, and between what it lies."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
