"""What a library that is not there says: which extra brings it, in one line.

    with extra("mcp", "MCPTools"):
        import mcp

Owns the words. Deliberately knows no library and no adapter.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from handspan_protocol.errors import UsageError


class ExtraMissing(UsageError, ImportError):  # noqa: N818 (said as it is)
    """A library is not installed; the message names it, and the extra that brings it."""


@contextmanager
def extra(name: str, wanted_by: str) -> Iterator[None]:
    """Around imports of what the extra brings.

    Raises:
        ExtraMissing: a library is not there, and it is none of Handspan's own modules.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        library = missing.name or str(missing)
        if library.startswith("handspan"):
            raise
        raise ExtraMissing(
            f"{wanted_by} needs {library}, which is not installed;"
            f" its extra is {name}: pip install 'PATH_TO_THE_CLONE[{name}]'"
        ) from None
