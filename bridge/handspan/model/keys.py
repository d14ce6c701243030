"""The key that a provider wants: given, or from the environment variable its own library reads."""

import os

from handspan_protocol.errors import UsageError


def key_of(adapter: str, variable: str, given: str | None) -> str:
    """The key.

    Raises:
        UsageError: there is none; says where to put it.
    """
    key = given or os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"{adapter} needs a key: set {variable}, or give api_key=")
    return key
