"""What it would cost to explain why a value does not fit, foreseen before it is tried.

The library gives a verdict in time linear in schema and value: it remembers what it has judged
behind a reference. Its list of errors does not remember: two branches of a union that lead back to
the same schema double it with each level of the value, and each error carries a copy of the value.
So the way an explanation would go is walked here first, in small numbers, and given up early.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from .dialect import Reach
from .document import Document, Edge
from .shape import STRING_UNIT_CHARS, weight

EXPLAIN_UNITS: Final = 50_000
"""Visits, each as dear as the schema's keywords times the value's size. Explaining takes at most
half a second at this many, a few ms as a rule. *Source:* measured with jsonschema_rs 0.61, 2026."""

EXPLAIN_WEIGHT: Final = 10_000
"""A larger value is not explained."""


def explainable(document: Document, value: Any) -> bool:
    """Whether listing the errors of `value` stays within EXPLAIN_UNITS."""
    if weight(value, EXPLAIN_WEIGHT) > EXPLAIN_WEIGHT:
        return False
    sizes = _sizes(value)
    spent = 0
    pending: list[tuple[int, Any, int]] = [(0, value, 1)] if document.nodes else []
    while pending:
        place, part, times = pending.pop()
        node = document.nodes[place]
        spent += times * node.own_weight * (1 + _size(part, sizes))
        if spent + len(pending) > EXPLAIN_UNITS:
            return False
        for edge in node.edges:
            reached = _reached(edge, part)
            pending.extend((edge.target, child, times * edge.times) for child in reached)
    return True


def _reached(edge: Edge, value: Any) -> Iterator[Any]:
    """The parts of `value` that the schema at the edge's end may be applied to."""
    match edge.reach:
        case Reach.HERE:
            yield value
        case Reach.PROPERTY if isinstance(value, dict) and edge.key in value:
            yield value[edge.key]
        case Reach.MEMBERS if isinstance(value, dict):
            yield from value.values()
        case Reach.ITEM if isinstance(value, list) and isinstance(edge.key, int):
            yield from value[edge.key : edge.key + 1]
        case Reach.ITEMS if isinstance(value, list):
            yield from value
        case _:
            pass


def _size(value: Any, sizes: dict[int, int]) -> int:
    if isinstance(value, str):
        return 1 + len(value) // STRING_UNIT_CHARS
    return sizes.get(id(value), 1)


def _sizes(value: Any) -> dict[int, int]:
    """The size of each object and array in `value`, by identity; what an error's copy costs."""
    containers: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for container in containers:  # grows: those further down stand further back
        containers.extend(item for item in _inside(container) if isinstance(item, (dict, list)))
    sizes: dict[int, int] = {}
    for container in reversed(containers):
        sizes[id(container)] = 1 + sum(_size(item, sizes) for item in _inside(container))
    return sizes


def _inside(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container
