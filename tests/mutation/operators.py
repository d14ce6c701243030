"""Small faults that cosmic-ray does not make by itself: what is left out, and what is lost.

Each is an Operator of cosmic-ray: it says where in a tree it could strike, and strikes once.
"""

from collections.abc import Iterator
from typing import Any

from cosmic_ray.operators.operator import Operator
from parso.python.tree import Keyword, Name, String
from parso.tree import NodeOrLeaf

Position = tuple[tuple[int, int], tuple[int, int]]

KEPT = frozenset({"import_name", "import_from", "return_stmt", "pass_stmt", "global_stmt"})
"""Statements that are not left out: a return has an operator of its own."""


class _AtOnePlace(Operator):  # type: ignore[misc]
    """One fault a node."""

    def strikes(self, node: NodeOrLeaf) -> bool:
        raise NotImplementedError

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        if self.strikes(node):
            yield node.start_pos, node.end_pos

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return ()


class LeaveOutStatement(_AtOnePlace):
    """A statement of a function becomes `pass`."""

    def strikes(self, node: NodeOrLeaf) -> bool:
        line = node.parent
        return (
            line is not None
            and line.type == "simple_stmt"
            and line.children[0] is node
            and _function_of(node) is not None
            and node.type not in KEPT
            and not isinstance(node, String | Keyword)
        )

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        return Keyword("pass", node.start_pos, _prefix(node))


class ReturnNone(_AtOnePlace):
    """What a function gives is lost."""

    def strikes(self, node: NodeOrLeaf) -> bool:
        before = node.get_previous_sibling() if node.parent is not None else None
        return (
            node.parent is not None
            and node.parent.type == "return_stmt"
            and before is not None
            and node.get_code().strip() != "None"
        )

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        return Keyword("None", node.start_pos, " ")


class ReplaceText(_AtOnePlace):
    """A text inside a function is another one; docstrings are not what a function does."""

    def strikes(self, node: NodeOrLeaf) -> bool:
        says = node.parent is not None and node.parent.type == "simple_stmt"
        return isinstance(node, String) and not says and _function_of(node) is not None

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        return Name('"another text"', node.start_pos, _prefix(node))


def _function_of(node: NodeOrLeaf) -> NodeOrLeaf | None:
    return node.search_ancestor("funcdef")


def _prefix(node: NodeOrLeaf) -> str:
    return str(node.get_first_leaf().prefix)


OWN = (LeaveOutStatement(), ReturnNone(), ReplaceText())
