"""The agent that plans: an errand becomes three cards under To do, and a goal above the board.

Owns the plans, a table; no model is asked. It tells the page who speaks, by an activity that stays
in the conversation, and has a tool of its own: `set_goal`, which the page offers to nobody else.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from ag_ui.core import ActivitySnapshotEvent

from .errand import WHAT, Errand, errand_in
from .words import board_in, spoken

SPEAKER: Final = "speaker"
"""The type of the activity that says who speaks from here on: {"name": ...}."""

NAME: Final = "Planner"

_KNOWN: Final[tuple[tuple[str, tuple[str, str, str]], ...]] = (
    ("party birthday celebration", ("Invite the guests", "Bake a cake", "Choose the music")),
    ("picnic", ("Choose a meadow", "Pack the basket", "Bring a blanket")),
    (
        "trip journey travel holiday holidays vacation weekend",
        ("Choose where to go", "Book the train", "Pack the bags"),
    ),
    ("garden balcony", ("Choose the seeds", "Dig the bed", "Water the seedlings")),
    ("dinner supper lunch meal", ("Choose the recipe", "Buy what is missing", "Set the table")),
    ("move moving", ("Collect boxes", "Pack room by room", "Tell people the new address")),
    (
        "launch release website app",
        ("Write down what it is for", "Build the smallest version", "Show it to a friend"),
    ),
)
_ANY: Final = ("Collect what you need {}", "Choose a day {}", "Take the first small step {}")
"""For what is not in the table; {} is what the plan is for."""

_LEADING: Final = re.compile(r"\A(?:(?:a|an|the|my|our|some|to)\s+)+", re.I)
_YOURS: Final = re.compile(r"\b(?:my|our)\b", re.I)
_FIRST: Final = "To do"

Calls = list[tuple[str, dict[str, str]]]


class Planner:
    """Says what it will do, adds the cards, and says where to begin."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        said, calls = _told(run.results), Calls()
        if not run.results:
            yield _speaks(run.id)
            errand = errand_in(run.messages) or Errand("")
            said, calls = _proposed(
                errand, {tool.name for tool in run.tools}, board_in(run.context)
            )
        async for word in spoken(said, self._pause_s):
            yield word
        for name, args in calls:
            yield run.call(name, args)


def steps_for(topic: str) -> tuple[str, ...]:
    """The titles of the three cards, in the order in which to take them."""
    words = set(re.findall(r"\w+", topic.lower()))
    known = next((steps for keys, steps in _KNOWN if words & set(keys.split())), None)
    return known or tuple(step.format(_for(topic)) for step in _ANY)


def goal_of(topic: str) -> str:
    """The topic as a heading: "a party" is "Party"."""
    bare = _LEADING.sub("", topic)
    return bare[:1].upper() + bare[1:]


def _speaks(run_id: str) -> ActivitySnapshotEvent:
    return ActivitySnapshotEvent(
        message_id=f"{run_id}-{SPEAKER}", activity_type=SPEAKER, content={"name": NAME}
    )


def _for(topic: str) -> str:
    return topic if topic.lower().startswith("to ") else f"for {topic}"


def _proposed(errand: Errand, tools: set[str], board: dict[str, list[str]]) -> tuple[str, Calls]:
    """What to say and to call for an errand, on a page with these tools and this board."""
    if not errand.topic:
        return f'For example "plan a party". {WHAT}', []
    steps = steps_for(errand.topic)
    intro = f"Three steps {_YOURS.sub('your', _for(errand.topic))}"
    if "add_card" not in tools:
        return f"{intro}: {', '.join(steps)}. I see no board to put them on.", []
    there = {title.lower() for titles in board.values() for title in titles}
    new = [step for step in steps if step.lower() not in there]
    had = [step for step in steps if step not in new]
    said = [f"{intro}.", *_already(had, new)]
    if errand.rest:
        said.append(f"I only plan: for the rest, say {_quoted(errand.rest)} again.")
    return " ".join(said), _calls(goal_of(errand.topic), new, tools)


def _already(had: Sequence[str], new: Sequence[str]) -> list[str]:
    """What to say of the cards that are there."""
    if not new:
        return [f"They are on the board already: begin with {_quoted(had[0])}."]
    return [f"You have {' and '.join(map(_quoted, had))} already."] if had else []


def _calls(goal: str, titles: Sequence[str], tools: set[str]) -> Calls:
    cards: Calls = [("add_card", {"title": title, "column": _FIRST}) for title in titles]
    return [("set_goal", {"goal": goal}), *cards] if cards and "set_goal" in tools else cards


def _told(results: Sequence[Any]) -> str:
    """What came of the calls."""
    added = [each.value for each in results if each.ok and each.name == "add_card"]
    titles = [value["added"] for value in added if isinstance(value, dict) and "added" in value]
    said = [f"That is the plan. Begin with {_quoted(titles[0])}."] if titles else []
    failed = [each.error.message for each in results if each.error is not None]
    said += [f"That did not work: {message}." for message in failed]
    return " ".join(said) or "That is the plan."


def _quoted(text: str) -> str:
    return f'"{text}"'
