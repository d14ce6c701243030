"""Where ids come from: chance for a server, a counter for tests."""

import itertools
import secrets
from typing import Any, Final, Protocol

ID_BYTES: Final = 12
"""96 random bits: nobody guesses the thread of another. *Source:* behaviour.md 7."""

SECRET_BYTES: Final = 32
"""256 random bits. *Source:* protocol.md 2."""


class Ids(Protocol):
    """Fresh names; what `core.inputs.IdSource` is made from, a thread at a time."""

    def new(self, kind: str) -> str: ...

    def secret(self) -> str: ...


class RandomIds:
    """Ids that cannot be guessed."""

    def new(self, kind: str) -> str:
        return f"{kind}-{secrets.token_hex(ID_BYTES)}"

    def secret(self) -> str:
        return secrets.token_hex(SECRET_BYTES)


class CountedIds:
    """Ids that are the same in every run of a test."""

    def __init__(self) -> None:
        self._counts: dict[str, itertools.count[int]] = {}

    def new(self, kind: str) -> str:
        return f"{kind}-{next(self._counts.setdefault(kind, itertools.count(1)))}"

    def secret(self) -> str:
        return self.new("secret")


class SessionIds:
    """`core.inputs.IdSource` for a session, which claims no calls."""

    def __init__(self, ids: Ids) -> None:
        self.new = ids.new
        self.secret = ids.secret

    def claim_call(self, wish: str | None) -> Any:
        raise AssertionError("a session makes no calls")

    def adopt_call(self, call_id: Any) -> None:
        raise AssertionError("a session has no calls")
