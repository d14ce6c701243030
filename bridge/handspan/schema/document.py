"""A schema as a document: every schema in it, what refers to what, and how large it really is.

Owns references. Only those that begin with `#` are taken: a pointer, an anchor, or the whole. What
would leave the document, by name, address or a foreign `$schema`, is refused before the library
sees it. The drawing of edges here is also what bounds the work: with it the expanded size is a
sum, and `effort` can foresee what an explanation would cost.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from handspan_protocol.errors import ToolCode

from .dialect import DEFAULT_DIALECT, Dialect, Key, Reach, dialect_named, subschemas
from .patterns import steps, unsupported
from .shape import STRING_UNIT_CHARS, SchemaError

REEVALUATED: Final = 3
"""How often what is applied to the same value, or searched for in it, is evaluated below an
`unevaluated...` keyword: for the verdict, and again to learn what was looked at. Nested, it
multiplies. *Source:* measured with jsonschema_rs 0.61, 2026: a factor of 2.8 a level."""

DEAR_WEIGHT: Final = 20
"""What `uniqueItems` and a pattern weigh beside a plain keyword. *Source:* measured as above: 80 to
500 ns against 3 to 40."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Edge:
    """One schema applies another, `times` times, to what `reach` and `key` say of its value."""

    target: int
    reach: Reach
    key: Key = None
    times: int = 1


@dataclass(slots=True)
class Node:
    """One schema of the document."""

    pointer: str
    resource: int
    """The schema that `#` means here: the root, or the nearest one around with an `$id`."""
    own_nodes: int = 0
    """Objects and arrays that are not in another schema below."""
    own_weight: int = 0
    """All values of that kind, dear keywords counted as many."""
    own_steps: int = 0
    """Of its own patterns."""
    edges: list[Edge] = field(default_factory=list)
    references: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Size:
    """A schema's size with references followed; a cycle counts once."""

    nodes: int
    weight: int
    steps: int


class Document:
    """The schemas of one text, known by their place in it. Read once, never changed."""

    def __init__(self, root: dict[str, Any] | bool) -> None:
        """Raises: SchemaError: a reference leaves or dangles, a pattern is beyond the engine."""
        self.dialect: Final = _dialect_of(root)
        self.nodes: Final[list[Node]] = []
        self._schemas: Final[list[dict[str, Any]]] = []
        self._index: Final[dict[int, int]] = {}
        self._anchors: Final[dict[tuple[int, str], int]] = {}
        self._dynamic: Final[dict[str, list[int]]] = {}
        self._unread: Final[deque[int]] = deque()
        if isinstance(root, dict):
            self._enter(root, "", None)
            self._read_all()

    def size(self) -> Size:
        """The document's expanded size."""
        return Size(
            self._sum([node.own_nodes for node in self.nodes]),
            self._sum([node.own_weight for node in self.nodes]),
            self._sum([node.own_steps for node in self.nodes]),
        )

    def _read_all(self) -> None:
        """Read every schema; then follow references, which may show more of them."""
        referring = 0
        while self._unread or referring < len(self.nodes):
            while self._unread:
                self._read(self._unread.popleft())
            self._follow(referring)
            referring += 1

    def _enter(self, schema: dict[str, Any], pointer: str, resource: int | None) -> int:
        """The index of `schema`, which is queued to be read when it is new."""
        known = self._index.get(id(schema))
        if known is not None:
            return known
        place = len(self.nodes)
        base = place if resource is None or self._has_id(schema) else resource
        self.nodes.append(Node(pointer, base))
        self._schemas.append(schema)
        self._index[id(schema)] = place
        self._unread.append(place)
        return place

    def _has_id(self, schema: dict[str, Any]) -> bool:
        own_id = schema.get(self.dialect.id_keyword)
        return isinstance(own_id, str) and not own_id.startswith("#")

    def _read(self, place: int) -> None:
        """Note a schema's anchors, references, patterns, own size, and the schemas below it."""
        schema, node = self._schemas[place], self.nodes[place]
        self._note_anchors(schema, place)
        if place and dialect_named(schema.get("$schema", self.dialect.uri)) != self.dialect:
            raise _remote(f"{node.pointer}/$schema: a part must not change the dialect")
        for keyword in _REFERENCES:
            if keyword in schema:
                node.references.append((keyword, _reference(schema[keyword], node, keyword)))
        patterns = list(_patterns(schema, node.pointer))
        node.own_steps = sum(map(_checked_steps, patterns))
        node.own_nodes, node.own_weight = _own_size(schema)
        node.own_weight += DEAR_WEIGHT * (len(patterns) + ("uniqueItems" in schema))
        again = REEVALUATED if _reevaluates(schema) else 1
        for keyword, reach, key, below in subschemas(schema):
            if not isinstance(below, dict):
                continue
            pointer = f"{node.pointer}/{keyword}" + ("" if key is None else f"/{key}")
            target = self._enter(below, pointer, node.resource)
            if reach is not Reach.NOWHERE:
                times = again if reach is Reach.HERE or keyword == "contains" else 1
                node.edges.append(Edge(target, reach, key, times))

    def _note_anchors(self, schema: dict[str, Any], place: int) -> None:
        resource = self.nodes[place].resource
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors.setdefault((resource, name), place)
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(name, []).append(place)
        own_id = schema.get(self.dialect.id_keyword)
        if isinstance(own_id, str) and own_id.startswith("#"):
            self._anchors.setdefault((resource, own_id[1:]), place)

    def _follow(self, place: int) -> None:
        """Draw an edge for each reference of a schema."""
        node = self.nodes[place]
        times = REEVALUATED if _reevaluates(self._schemas[place]) else 1
        for keyword, reference in node.references:
            for target in self._targets(node, keyword, reference):
                node.edges.append(Edge(target, Reach.HERE, times=times))

    def _targets(self, node: Node, keyword: str, reference: str) -> list[int]:
        fragment = unquote(reference[1:])
        if keyword == "$dynamicRef" and fragment in self._dynamic:
            return self._dynamic[fragment]
        if fragment == "":
            return [node.resource]
        if fragment.startswith("/"):
            target = self._pointed(node.resource, fragment)
            return [] if target is None else [target]
        anchored = self._anchors.get((node.resource, fragment))
        if anchored is None:
            raise _bad(f"{node.pointer}/{keyword}: nothing is named {reference:.200}")
        return [anchored]

    def _pointed(self, resource: int, fragment: str) -> int | None:
        """The schema at a pointer; None where a boolean stands."""
        found: Any = self._schemas[resource]
        for token in fragment.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            found = _step(found, key, fragment)
            if isinstance(found, dict) and id(found) in self._index:
                resource = self.nodes[self._index[id(found)]].resource
        if isinstance(found, bool):
            return None
        if not isinstance(found, dict):
            raise _bad(f"#{fragment:.200} is no schema")
        return self._enter(found, fragment, resource)

    def _sum(self, own: list[int]) -> int:
        """`own` of the root and of everything it applies, each as often as it is applied.

        Depth first without recursion: a node is summed when all below it are; one that is still
        open is above itself, and adds nothing.
        """
        done: dict[int, int] = {}
        opened: set[int] = set()
        stack = [0] if self.nodes else []
        while stack:
            place = stack[-1]
            edges = self.nodes[place].edges
            if place in done:
                stack.pop()
            elif place in opened:
                below = sum(edge.times * done.get(edge.target, 0) for edge in edges)
                done[stack.pop()] = own[place] + below
            else:
                opened.add(place)
                stack.extend(edge.target for edge in edges if edge.target not in opened)
        return done.get(0, 1)


def _bad(message: str) -> SchemaError:
    return SchemaError(ToolCode.BAD_SCHEMA, message)


def _remote(message: str) -> SchemaError:
    return SchemaError(ToolCode.SCHEMA_REMOTE_REF, message)


def _dialect_of(root: dict[str, Any] | bool) -> Dialect:
    if isinstance(root, bool) or "$schema" not in root:
        return DEFAULT_DIALECT
    dialect = dialect_named(root["$schema"])
    if dialect is None:
        raise _bad(f"/$schema: {root['$schema']!r:.200} is no draft that is known here")
    return dialect


def _reference(value: Any, node: Node, keyword: str) -> str:
    """A reference that stays in the document, always with its `#`."""
    if keyword == "$recursiveRef" and value != "#":
        raise _bad(f'{node.pointer}/{keyword}: must be "#"')
    if not isinstance(value, str):
        raise _bad(f"{node.pointer}/{keyword}: must be a string")
    if value and not value.startswith("#"):
        raise _remote(
            f"{node.pointer}/{keyword}: {value:.200} leaves the document; only #... is followed"
        )
    return value or "#"


def _step(found: Any, key: str, fragment: str) -> Any:
    if isinstance(found, dict) and key in found:
        return found[key]
    if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
        return found[int(key)]
    raise _bad(f"#{fragment:.200} points at nothing")


def _reevaluates(schema: dict[str, Any]) -> bool:
    return "unevaluatedProperties" in schema or "unevaluatedItems" in schema


def _own_size(schema: dict[str, Any]) -> tuple[int, int]:
    """Objects and arrays, and the weight, of what is in `schema` and in no schema below it."""
    below = {id(item) for *_, item in subschemas(schema) if isinstance(item, dict)}
    nodes, total = 0, 0
    pending: list[Any] = [schema]
    while pending:
        value = pending.pop()
        total += 1
        if isinstance(value, str):
            total += len(value) // STRING_UNIT_CHARS
        elif isinstance(value, (dict, list)):
            nodes += 1
            inside = value.values() if isinstance(value, dict) else value
            pending.extend(item for item in inside if id(item) not in below)
    return nodes, total


def _patterns(schema: dict[str, Any], pointer: str) -> Iterator[tuple[str, str]]:
    """Each pattern of a schema, with its place."""
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern, f"{pointer}/pattern"
    if isinstance(named := schema.get("patternProperties"), dict):
        for pattern in named:
            yield pattern, f"{pointer}/patternProperties"


def _checked_steps(found: tuple[str, str]) -> int:
    pattern, pointer = found
    if feature := unsupported(pattern):
        raise _bad(
            f"{pointer}: {pattern!r:.200} uses {feature}, which a linear-time engine cannot do"
        )
    return steps(pattern)
