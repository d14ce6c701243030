"""What an adapter is given to reach its provider: a key, an address, a client.

A key is given, or in the environment variable that the provider's own library reads. What cannot
work is refused where it is given, not when a page's first run fails. No message repeats an address:
it may have a password.
"""

import os
from typing import Any

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


def check_address(adapter: str, url: Any, name: str = "base_url") -> None:
    """Raises: UsageError: it is no URL that HTTP can ask."""
    if not str(url).lower().startswith(("http://", "https://")):
        raise UsageError(f"{adapter}: {name} must begin with http:// or https://")


def check_reach(adapter: str, kind: type, client: Any, base_url: Any, api_key: Any) -> None:
    """A client of the library's `kind`, or of its kin, or what one is made of.

    Raises:
        UsageError: it is neither, or both.
    """
    if base_url is not None:
        check_address(adapter, base_url)
    if client is None:
        return
    if not isinstance(client, kind.__base__ or kind):
        given = type(client).__name__
        raise UsageError(f"{adapter}: client must be an {kind.__name__}, not a {given}")
    if base_url is not None or api_key is not None:
        raise UsageError(f"{adapter}: a client has its own base_url and api_key; give only one")
