"""What a model may write at a place, as a grammar in llama.cpp's notation (GBNF).

Written here and not by llama-cpp-python's `from_json_schema`: a schema comes from a page, and that
function makes grammars of some (a quote in an enum, a large maxLength) which end the process. What
comes out of here is a grammar whatever the schema says. It keeps to the shape alone: names and
kinds of fields, and lists of values; bounds, patterns and the like are the bridge's to check.

Pure. *Source:* llama-cpp-python 0.3.36, tried.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from handspan.model.narrow import plain

Json = Any
Schema = Mapping[str, Json]

DEEP: Final = 4
"""Objects and lists inside each other; what is further down may be anything."""

FIELDS: Final = 32
"""Of an object; one with more may have any. The grammar grows with their square."""

VALUES: Final = 200
"""Of a list of values; a longer one is not held to."""

_JSON: Final = r"""
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{}" | "{" string ": " value (", " string ": " value)* "}"
array ::= "[]" | "[" value (", " value)* "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" hex hex hex hex)
hex ::= [0-9a-fA-F]
number ::= integer ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
integer ::= "-"? ("0" | [1-9] [0-9]*)
boolean ::= "true" | "false"
"""
"""JSON, spaced as Python does."""


def one_of(texts: Iterable[str]) -> str:
    """The grammar of a choice."""
    return f"root ::= {' | '.join(map(_literal, texts))}\n"


def of_arguments(schema: Schema) -> str:
    """The grammar of a call's arguments, for a tool with these parameters."""
    return _Rules().grammar(plain(schema))


class _Rules:
    """The rules of one grammar, as they come up."""

    def __init__(self) -> None:
        self._rules: list[str] = []

    def grammar(self, schema: Schema) -> str:
        root = self._object(schema, DEEP)
        return "\n".join([f"root ::= {root}", *self._rules]) + _JSON

    def _of(self, schema: Json, deep: int) -> str:
        """The rule's name, or what stands for it, of any schema."""
        if not isinstance(schema, Mapping) or deep == 0:
            return "value"
        values, kinds = schema.get("enum"), schema.get("anyOf")
        if values is not None:
            return self._values(values)
        if kinds:
            return self._named(" | ".join(self._of(kind, deep - 1) for kind in kinds))
        found = self._kind(schema, deep)
        return self._named(f'{found} | "null"') if schema.get("nullable") else found

    def _kind(self, schema: Schema, deep: int) -> str:
        match schema.get("type"):
            case "object":
                return self._object(schema, deep)
            case "array":
                return self._array(schema, deep)
            case "string" | "number" | "integer" | "boolean" as simple:
                return str(simple)
            case "null":
                return '"null"'
        return "value"

    def _values(self, values: Sequence[Json]) -> str:
        if not 0 < len(values) <= VALUES:
            return "value"
        texts = (json.dumps(value, ensure_ascii=False) for value in values)
        return self._named(" | ".join(map(_literal, texts)))

    def _array(self, schema: Schema, deep: int) -> str:
        item = self._of(schema.get("items"), deep - 1)
        return self._named(f'"[]" | "[" {item} (", " {item})* "]"')

    def _object(self, schema: Schema, deep: int) -> str:
        """The fields that are required, then any of the others, each in the schema's order."""
        fields = schema.get("properties") or {}
        if not fields:
            return '"{}"' if deep == DEEP else "object"
        if len(fields) > FIELDS:
            return "object"
        required = [name for name in fields if name in (schema.get("required") or ())]
        pairs = {name: self._pair(name, each, deep) for name, each in fields.items()}
        first = [pairs.pop(name) for name in required]
        return self._named(_braces(first, list(pairs.values())))

    def _pair(self, name: str, schema: Json, deep: int) -> str:
        key = _literal(json.dumps(name, ensure_ascii=False) + ": ")
        return self._named(f"{key} {self._of(schema, deep - 1)}")

    def _named(self, body: str) -> str:
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name} ::= {body}")
        return name


def _braces(first: Sequence[str], others: Sequence[str]) -> str:
    """An object with all of the first pairs and any of the others."""
    if first:
        needed = ' ", " '.join(first)
        return f'"{{" {needed} {_any_after(others)} "}}"'
    starts = (
        f"{pair} {_any_after(others[number + 1 :])}".rstrip() for number, pair in enumerate(others)
    )
    return f'"{{}}" | "{{" ({" | ".join(starts)}) "}}"'


def _any_after(pairs: Iterable[str]) -> str:
    return " ".join(f'(", " {pair})?' for pair in pairs)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_visible, escaped)) + '"'


def _visible(char: str) -> str:
    return char if char.isprintable() else f"\\U{ord(char):08X}"
