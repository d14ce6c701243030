"""RFC 6902 on a document that others hold too: a new document, all of the patch or none.

Owns what a patch may cost. The document is never copied whole: what a patch touches is copied on
the way to it, once, and the rest is shared, so a small patch of a large state is cheap. What it
*copies* is counted before it is done, since a dozen `copy` operations can double a document a dozen
times. The operations themselves are `jsonpatch`'s. *Source:* behaviour.md 6, P12.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonpatch
from jsonpointer import EndOfList, JsonPointer, JsonPointerException

from handspan_protocol.errors import CommandCode, PeerError, UsageError
from handspan_protocol.strict_json import size_within

Json = Any

OPERATIONS_MAX: Final = 1_000
"""Operations of one patch that a page or an agent may send; each costs some microseconds."""


def patched(document: Json, patch: Sequence[Json], copied_bytes: int | None = None) -> Json:
    """A new document with the patch applied; `document` is left as it is.

    `copied_bytes` bounds what its `copy` operations may write, and with it the operations; None for
    a patch that was checked before.

    Raises:
        UsageError: it is malformed, names a place that is not there, or a test failed.
        PeerError: `too_large`; nothing was done that grows.
    """
    if copied_bytes is not None and len(patch) > OPERATIONS_MAX:
        message = f"the patch has {len(patch)} operations, over {OPERATIONS_MAX}"
        raise PeerError(CommandCode.TOO_LARGE, message, "/patch")
    draft = _Draft(document, copied_bytes)
    try:
        for operation in patch:
            draft.apply(operation)
    except (jsonpatch.JsonPatchException, JsonPointerException) as problem:
        raise UsageError(f"the patch does not apply: {str(problem)[:200]}") from None
    except (TypeError, KeyError, IndexError, ValueError, AttributeError):
        raise UsageError("the patch is not a JSON patch for this document") from None
    return draft.root


class _Draft:
    """The document under way. A container is changed only when this draft has made it."""

    def __init__(self, document: Json, copied_bytes: int | None) -> None:
        self.root = document
        self._left = copied_bytes
        self._own: dict[int, Json] = {}
        """Containers this draft has made, by identity; held, so that an identity is not reused."""

    def apply(self, operation: Mapping[str, Json]) -> None:
        patch = jsonpatch.JsonPatch([operation])  # judges its shape
        if operation["op"] == "copy":
            self._copy(JsonPointer(operation["from"]), JsonPointer(operation["path"]).parts)
            return
        if operation["op"] != "test":
            self._make_own(JsonPointer(operation["path"]).parts[:-1])
        if operation["op"] == "move":
            self._make_own(JsonPointer(operation["from"]).parts[:-1])
        self.root = patch.apply(self.root, in_place=True)

    def _copy(self, source: JsonPointer, steps: Sequence[str]) -> None:
        """Put what stands at `source` at another place too; it is shared, and nobody's own."""
        value = source.resolve(self.root)
        if isinstance(value, EndOfList):
            raise UsageError("the patch copies what is not there")
        if self._left is not None:
            size = size_within(value)
            if size is None or size > self._left:
                message = "the patch copies more than a state may hold"
                raise PeerError(CommandCode.TOO_LARGE, message, "/patch")
            self._left -= size
        self._own.clear()
        self._make_own(steps[:-1])
        if steps:
            _put(JsonPointer.from_parts(steps[:-1]).resolve(self.root), steps[-1], value)
        else:
            self.root = value

    def _make_own(self, steps: Sequence[str]) -> None:
        """Copy what is not this draft's own on the way; a way that ends is left to `jsonpatch`."""
        self.root = here = self._owned(self.root)
        for step in steps:
            if isinstance(here, dict):
                if step not in here:
                    return
                here[step] = there = self._owned(here[step])
            elif isinstance(here, list):
                if not step.isdecimal() or int(step) >= len(here):
                    return
                here[int(step)] = there = self._owned(here[int(step)])
            else:
                return
            here = there

    def _owned(self, value: Json) -> Json:
        if id(value) in self._own or not isinstance(value, dict | list):
            return value
        made = value.copy()
        self._own[id(made)] = made
        return made


def _put(container: Json, key: str, value: Json) -> None:
    """As RFC 6902 adds: a member is set, an element goes before the index, "-" is the end."""
    if isinstance(container, dict):
        container[key] = value
        return
    if not isinstance(container, list):
        raise UsageError("the patch copies into what holds nothing")
    at = len(container) if key == "-" else int(key)
    if at > len(container) or (key != "-" and key != str(at)) or at < 0:
        raise UsageError("the patch copies to a place that is not there")
    container.insert(at, value)
