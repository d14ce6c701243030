"""The secrets with which a session may be resumed; only their hashes are kept.

Each resume makes a new one: the presented one and the new one are then good, all others void, and
the presented one goes when the new one is used, since a welcome can get lost.
*Source:* protocol.md 2.
"""

import hashlib
import hmac


class Secrets:
    """The good secrets of one session: at most two."""

    __slots__ = ("hashes",)

    def __init__(self) -> None:
        self.hashes: tuple[bytes, ...] = ()
        """SHA-256 of each, the newest first."""

    def good(self, secret: str) -> bool:
        """Whether this is one of them; in constant time."""
        presented = _hash(secret)
        return sum(hmac.compare_digest(presented, good) for good in self.hashes) > 0

    def rotate(self, fresh: str, presented: str | None) -> None:
        """From now on `fresh` is good, and what was `presented`."""
        self.hashes = (_hash(fresh), *(() if presented is None else (_hash(presented),)))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
