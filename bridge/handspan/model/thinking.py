"""A model's thoughts as AG-UI events, with what its provider wants back unread.

A block of thoughts becomes one reasoning message. The provider's signature (or its encrypted
thoughts) goes along as AG-UI's `encryptedValue`: a text that names the adapter it is for, so that
no other sends it to a provider who cannot read it. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ag_ui.core import (
    BaseEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
)

from handspan_protocol.codec import encode

Json = Any


class Thinking:
    """The thoughts of one turn; one block is open at a time. `name` is the turn's own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._blocks = 0
        self._open: str | None = None
        self._newest: str | None = None

    def say(self, delta: str) -> Iterator[BaseEvent]:
        """A delta of the block that is open, or of another."""
        if not delta:
            return
        yield from self.begin()
        yield ReasoningMessageContentEvent(message_id=self._open or "", delta=delta)

    def end(self, opaque: str | None = None) -> Iterator[BaseEvent]:
        """The block is over; with `opaque` there is one, even if it had no words."""
        if opaque is not None:
            yield from self.begin()
        if self._open is None:
            return
        block, self._open = self._open, None
        yield ReasoningMessageEndEvent(message_id=block)
        yield ReasoningEndEvent(message_id=f"{block}-span")
        if opaque is not None:
            yield from self.seal(opaque)

    def seal(self, opaque: str) -> Iterator[BaseEvent]:
        """What the provider wants back with the newest block, which may be over."""
        if self._newest is None:
            yield from self.begin()
        yield ReasoningEncryptedValueEvent(
            subtype="message", entity_id=self._newest or "", encrypted_value=opaque
        )

    def begin(self) -> Iterator[BaseEvent]:
        """Open a block, if none is open; it may stay without words."""
        if self._open is not None:
            return
        self._open = self._newest = f"{self._name}-{self._blocks}"
        self._blocks += 1
        yield ReasoningStartEvent(message_id=f"{self._open}-span")
        yield ReasoningMessageStartEvent(message_id=self._open, role="reasoning")


def sealed(adapter: str, value: Json) -> str:
    """A text for `value` that only this adapter opens."""
    return encode({"for": adapter, "value": value}).decode()


def opened(adapter: str, opaque: str | None) -> Json:
    """What this adapter sealed; None: it is another's, or nothing."""
    try:
        said = json.loads(opaque or "")
    except ValueError:
        return None
    mine = isinstance(said, Mapping) and said.get("for") == adapter
    return said.get("value") if mine else None
