"""What a visitor might say next: up to three short messages that fit what has just happened.

Owns the choice, a list of ideas in order of aptness; no model is asked. Each is a message that the
demo's agents understand, on the board as it is, with the tools that the page has.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from .errand import WHAT
from .words import board_in, said_by_agent, said_by_user

SHOWN: Final = 3
"""More would be a menu, and no suggestion."""

RUNS_KEPT: Final = 256
"""Runs whose last look at the page is kept: those that do not complete are never asked for."""

TITLE_CHARS: Final = 32
"""Of a card that is named: longer ones make a button of two lines."""

_NEXT: Final = {"To do": "doing", "Doing": "done"}
_ERRANDS: Final = ("plan a picnic", "plan a party", "plan a trip")

Called = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Look:
    """The page as the newest step of a run saw it."""

    tools: frozenset[str] = frozenset()
    board: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def column_of(self, title: str) -> str:
        return next((column for column, titles in self.board if title in titles), "")

    @property
    def titles(self) -> list[str]:
        return [title for _, titles in self.board for title in titles]


class Seen:
    """What the steps of the newest runs saw of their pages."""

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}

    def keep(self, run: Any) -> None:
        """Keep what this step saw, in place of what the run's steps before it did."""
        board = tuple((column, tuple(titles)) for column, titles in board_in(run.context).items())
        self._looks.pop(run.id, None)
        self._looks[run.id] = Look(frozenset(tool.name for tool in run.tools), board)
        if len(self._looks) > RUNS_KEPT:
            del self._looks[next(iter(self._looks))]

    def take(self, run_id: str) -> Look:
        """The last look of a run, once."""
        return self._looks.pop(run_id, Look())


def next_messages(messages: Sequence[Any], look: Look) -> list[str]:
    """What one might say after this history, on a page that looks like this."""
    said = _plain(said_by_user(messages))
    fresh = (text for text in dict.fromkeys(_ideas(messages, look)) if _plain(text) != said)
    return list(islice(fresh, SHOWN))


def _ideas(messages: Sequence[Any], look: Look) -> Iterator[str]:
    """The aptest first."""
    if said_by_agent(messages).endswith(WHAT):
        yield from _ERRANDS
        return
    calls = _calls_of_run(messages)
    yield from _onward(_touched(calls, look), look)
    yield from _other_theme(calls, look)
    if "add_card" in look.tools:
        yield from _for_a_board(calls, look)
    if "slow_task" in look.tools and not look.titles:
        yield "run the slow task"


def _onward(titles: Sequence[str], look: Look) -> Iterator[str]:
    """The first of these cards a column further."""
    for title in titles:
        further = _NEXT.get(look.column_of(title))
        if further and "move_card" in look.tools and _can_be_named(title):
            yield f"move {_named(title)} to {further}"
            return


def _other_theme(calls: Sequence[Called], look: Look) -> Iterator[str]:
    themes = [args.get("theme") for name, args in calls if name == "set_theme"]
    if themes and "set_theme" in look.tools:
        yield f"make it {'light' if themes[-1] == 'dark' else 'dark'}"


def _for_a_board(calls: Sequence[Called], look: Look) -> Iterator[str]:
    names = {name for name, _ in calls}
    errands = _ERRANDS if "set_goal" not in names else ()
    if not look.titles:
        yield from (*errands[:1], "add tea to todo")
        return
    touched = _touched(calls, look)
    yield from errands[:1] if not touched else ()
    yield from ("list the cards",) if "list_cards" in look.tools - names else ()
    yield from ("clear the board",) if "clear_board" in look.tools - names else ()
    yield from _onward([title for title in look.titles if title not in touched], look)
    yield from errands[:1]


def _touched(calls: Sequence[Called], look: Look) -> list[str]:
    """The cards that the calls named and that are on the board."""
    asked = [str(args.get("title") or args.get("target") or "").lower() for _, args in calls]
    return list(dict.fromkeys(t for a in asked if a for t in look.titles if a in t.lower()))


def _calls_of_run(messages: Sequence[Any]) -> list[Called]:
    """The calls since the user said something, in order."""
    since = next((n for n, m in enumerate(reversed(messages)) if m.role == "user"), len(messages))
    newest = messages[len(messages) - since :]
    calls = [call for m in newest if m.role == "assistant" for call in m.tool_calls or ()]
    return [(call.function.name, _arguments(call.function.arguments)) for call in calls]


def _arguments(text: str) -> dict[str, Any]:
    try:
        args = json.loads(text)
    except ValueError:
        return {}
    return args if isinstance(args, dict) else {}


def _can_be_named(title: str) -> bool:
    return len(title) <= TITLE_CHARS and '"' not in title


def _named(title: str) -> str:
    return title if title.isalnum() else f'"{title}"'


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".!?")
