"""From the words of a clause to the arguments of one tool.

Owns the order in which values are looked for, from what is certain (a choice, an address, a key) to
what is left over. It invents nothing: what is not said stays away. Below sit `sheet` and those who
fill it in; above sits `matching`.
"""

from dataclasses import dataclass
from typing import Any

from .choices import Choices
from .memory import Names
from .numbers import Numbers
from .params import Param
from .sheet import Sheet
from .skill import Skill
from .switches import Switches
from .texts import Texts
from .tokens import Clause

Json = Any


@dataclass(frozen=True, slots=True)
class Filled:
    """What a clause tells a tool."""

    args: tuple[dict[str, Json], ...]
    """Of each call; more than one when several things were named."""
    missing: tuple[Param, ...]
    problems: tuple[str, ...]
    """What was said and cannot be."""
    evidence: float
    """How much it speaks for the tool."""
    taken: frozenset[int]
    """The words that became values."""
    has_choice: bool
    of_many: bool
    """Whether it was said of all, where one has to be named."""
    is_nonsense: bool
    """Whether the text that is left over cannot be one: "put it back"."""


def filled(skill: Skill, clause: Clause, names: Names) -> Filled:
    """What this clause tells this tool."""
    sheet = Sheet(skill, clause, names)
    numbers, texts = Numbers(sheet), Texts(sheet)
    Choices(sheet).look()
    texts.look_for_addresses()
    numbers.look_beside_keys()
    Switches(sheet).look()
    texts.look_after_keys()
    texts.look_for_lists()
    numbers.look_for_loose()
    args = tuple(_in_order(skill, each) for each in texts.with_leftover())
    return Filled(
        args,
        tuple(param for param in skill.params if param.required and param.name not in args[0]),
        tuple(sheet.problems),
        sheet.evidence,
        frozenset(sheet.taken),
        sheet.has_choice,
        sheet.of_many,
        sheet.is_nonsense,
    )


def _in_order(skill: Skill, args: dict[str, Json]) -> dict[str, Json]:
    return {param.name: args[param.name] for param in skill.params if param.name in args}
