"""How the demo's agents speak, and how they read: a word at a time, and the newest message."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import anyio

PAUSE_S: Final = 0.02
"""After each word; 50 a second are faster than anybody reads."""

_WORD: Final = re.compile(r"\s*\S+\s*")


async def spoken(text: str, pause_s: float) -> AsyncIterator[str]:
    """The text in deltas, a word each."""
    for word in _WORD.findall(text):
        yield word
        await anyio.sleep(pause_s)


def said_by_user(messages: Sequence[Any]) -> str:
    """What the user said last, if it is a text; else nothing."""
    return next(_texts(messages, "user"), "")


def said_by_agent(messages: Sequence[Any]) -> str:
    """What an agent said last, if it is a text; else nothing."""
    return next(_texts(messages, "assistant"), "")


def before_user(messages: Sequence[Any]) -> Sequence[Any]:
    """The history before the newest message of the user."""
    newest = (n for n in reversed(range(len(messages))) if messages[n].role == "user")
    return messages[: next(newest, 0)]


def _texts(messages: Sequence[Any], role: str) -> Iterator[str]:
    for message in reversed(messages):
        if message.role == role:
            yield message.content if isinstance(message.content, str) else ""


def board_in(context: Sequence[Any]) -> dict[str, list[str]]:
    """The titles of the cards by column, as the page tells them; nothing if it does not."""
    told = next((item.value for item in context if item.name == "board"), None)
    if not isinstance(told, dict):
        return {}
    return {
        column: [title for title in titles if isinstance(title, str)]
        for column, titles in told.items()
        if isinstance(titles, list)
    }
