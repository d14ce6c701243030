"""Where schemas are compiled, once per text.

Owns the order of the gates, the memory of what was compiled or refused, and the codes of refusals.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

import jsonschema_rs

from handspan.core.arguments import SchemaRefusal
from handspan_protocol.errors import ToolCode

from .document import Document, Size
from .patterns import PATTERN_BYTES, PATTERN_STEPS
from .shape import Bounds, SchemaError, canonical_text, check_shape, without_stand_ins
from .validator import CompiledSchema, reason

REMEMBERED: Final = 1_024
"""Texts; a page that reloads registers the same schemas again."""

REMEMBERED_CHARS: Final = 4 * 1024 * 1024
"""Of all those texts; a compiled schema takes several times its text."""


class SchemaRoom:
    """Compiles schemas under fixed bounds, and remembers. May be used from several threads."""

    def __init__(
        self,
        *,
        schema_bytes: int = 65_536,
        schema_depth: int = 64,
        schema_nodes: int = 2_000,
        schema_expanded_nodes: int = 10_000,
    ) -> None:
        self._bounds: Final = Bounds(
            schema_bytes, schema_depth, schema_nodes, schema_expanded_nodes
        )
        self._known: Final[OrderedDict[str, CompiledSchema | SchemaRefusal]] = OrderedDict()
        self._known_chars = 0
        self._lock: Final = Lock()

    def compile(self, schema: Mapping[str, Any] | bool | None, /) -> CompiledSchema | SchemaRefusal:
        """The judge of a schema (None: of anything), or why it is refused. Never raises."""
        try:
            given = {} if schema is None else schema
            check_shape(given, self._bounds)
            text = canonical_text(given, self._bounds)
        except SchemaError as problem:
            return _refusal(problem)
        known = self._recall(text)
        if known is None:
            known = self._compiled(text)
            self._remember(text, known)
        return known

    def _compiled(self, text: str) -> CompiledSchema | SchemaRefusal:
        try:
            root = _root(text)
            document = Document(root)
            size = document.size()
            self._check_expanded(size)
            return CompiledSchema(_judge(root, document), document, size)
        except SchemaError as problem:
            return _refusal(problem)

    def _check_expanded(self, size: Size) -> None:
        allowed = self._bounds.schema_expanded_nodes
        if size.nodes > allowed:
            raise SchemaError(
                ToolCode.SCHEMA_TOO_LARGE,
                f"the schema has more than {allowed} nodes with references followed",
            )
        if size.steps > PATTERN_STEPS:
            raise SchemaError(
                ToolCode.SCHEMA_TOO_LARGE,
                f"the patterns repeat more than {PATTERN_STEPS} steps in all",
            )

    def _recall(self, text: str) -> CompiledSchema | SchemaRefusal | None:
        with self._lock:
            known = self._known.get(text)
            if known is not None:
                self._known.move_to_end(text)
            return known

    def _remember(self, text: str, known: CompiledSchema | SchemaRefusal) -> None:
        with self._lock:
            if text not in self._known:
                self._known_chars += len(text)
            self._known[text] = known
            while len(self._known) > REMEMBERED or self._known_chars > REMEMBERED_CHARS:
                oldest, _ = self._known.popitem(last=False)
                self._known_chars -= len(oldest)


def _root(text: str) -> dict[str, Any] | bool:
    root = json.loads(text)
    if not isinstance(root, (dict, bool)):
        raise SchemaError(ToolCode.BAD_SCHEMA, "a schema is an object or a boolean")
    return root


def _judge(root: dict[str, Any] | bool, document: Document) -> jsonschema_rs.Validator:
    """The library's validator: offline, on the linear-time engine, `format` not judged.

    Raises: SchemaError: whatever the library has against the schema.
    """
    if isinstance(root, dict):
        root = {**root, "$schema": document.dialect.uri}
    try:
        return jsonschema_rs.validator_for(
            root,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
        )
    except jsonschema_rs.ValidationError as problem:
        raise SchemaError(ToolCode.BAD_SCHEMA, reason(problem)) from problem
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise SchemaError(ToolCode.BAD_SCHEMA, f"the schema is none: {problem}") from problem


def _refusal(problem: SchemaError) -> SchemaRefusal:
    return SchemaRefusal(problem.code, without_stand_ins(problem.message))
