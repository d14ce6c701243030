"""What a message wants planned: an errand, read off its words.

Deliberately knows neither who hands it over nor how a plan is made.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from .words import before_user, said_by_agent, said_by_user

WHAT: Final = "What shall I plan?"
"""What the planner asks when that is missing; the answer is an errand too."""

TOPIC_CHARS: Final = 40
"""With the words that a plan puts around it, it is still a card's title."""

_READ_CHARS: Final = 400
"""Of a message."""

_POLITE: Final = (
    r"(?:(?:please|kindly|now|ok|okay|hey|hi|hello|and|then),? )*"
    r"(?:(?:can|could|will|would) you )?(?:please )?"
)
_ASKED: Final = (
    r"(?:(?:help me|let's|let us|i want to|i'd like to)(?: to)? )?plan"
    r"|(?:ask|let|have|get|tell) (?:the |a |your )?planner(?: to)?(?: plan)?"
    r"|(?:make|write|draw up)(?: me)? a plan"
)
_WISH: Final = re.compile(rf"{_POLITE}(?:{_ASKED})(?: for| of)?\b[ :,]*(.*)", re.I)
_ANSWER: Final = re.compile(r"(?:(?:a|an|the|my|our|some|to|for) .*|\w+[.!]?)", re.I)
_NO: Final = re.compile(r"(?:no|nope|nothing|nevermind|stop|cancel|thanks)\b", re.I)
_END: Final = re.compile(
    r"[.,;:!?]+|\s+(?:and\s+)?then\b|\s+and\s+(?=(?:make|add|move|remove|clear|set|run|call)\b)",
    re.I,
)
_PLEASANTRY: Final = re.compile(r"(?:please|thanks|thank you)?", re.I)


@dataclass(frozen=True, slots=True)
class Errand:
    """What is to be planned, as the user calls it: "a party"; "" when they have not said.

    `rest` is what else they asked for.
    """

    topic: str
    rest: str = ""


def errand_in(messages: Sequence[Any]) -> Errand | None:
    """The errand of the newest message; None when it is about something else."""
    text = " ".join(said_by_user(messages)[:_READ_CHARS].split())
    if wish := _WISH.fullmatch(text):
        return _errand(wish[1])
    asked = said_by_agent(before_user(messages)).endswith(WHAT)
    answers = asked and _ANSWER.fullmatch(text) and not _NO.match(text)
    return _errand(text.removeprefix("for ")) if answers else None


def _errand(text: str) -> Errand:
    end = _END.search(text)
    topic, rest = (text[: end.start()], text[end.end() :]) if end else (text, "")
    rest = rest.strip(" .,;:!?")
    return Errand(_cut(topic.strip(" \"'")), "" if _PLEASANTRY.fullmatch(rest) else rest)


def _cut(topic: str) -> str:
    """At a word's end, where there is one."""
    if len(topic) <= TOPIC_CHARS:
        return topic
    return topic[: TOPIC_CHARS + 1].rsplit(" ", 1)[0][:TOPIC_CHARS]
