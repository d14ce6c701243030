"""The agent: reads a message at depth 0, calls the page's tools, tells the results at the next.

Owns the speaking: its text in small deltas, fast enough to read along. What a message means is
`understanding`'s, how it is said is `speech`'s; both are pure.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import anyio

from handspan.core.arguments import SchemaRefusal
from handspan.schema import SchemaRoom

from . import speech
from .memory import Names, arguments_of, names_in
from .mood import takes_back
from .skill import Skill, skills_of
from .tokens import Clause, words_of
from .understanding import LOOKED_AT_CHARS, Plan, Understanding

Json = Any

PAUSE_S: Final = 0.02
"""After each delta; a word each makes 50 words a second, faster than anybody reads."""

_DELTA: Final = re.compile(r"\s*\S{1,24}\s*|\s+")


class KeywordAgent:
    """Matches the words of a message with the tools that a page has; needs no key.

    It keeps nothing between steps: what "it" is, it reads in the run's messages.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._schemas = SchemaRoom()

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        skills = skills_of(run.tools)
        if run.results:
            async for delta in self._spoken(_reported(run, skills)):
                yield delta
            return
        names = names_in(run.context, run.messages, skills)
        plan = self._understood(run.messages, skills, names)
        async for delta in self._spoken(speech.announcement(plan, skills, names)):
            yield delta
        for wish in plan.wishes:
            yield run.call(wish.name, wish.args)

    def _understood(self, messages: Sequence[Any], skills: Sequence[Skill], names: Names) -> Plan:
        said = newest_texts(messages)
        plan = Understanding(skills, names, self._problems).of(said[0] if said else "")
        if plan.is_empty and not plan.is_greeting and len(said) > 1 and not _declines(said[0]):
            answer = Understanding(skills, names, self._problems).of(f"{said[1]} {said[0]}")
            if answer.wishes and not answer.unknown and _asked_back(messages):
                return answer
        return plan

    def _problems(self, skill: Skill, args: Mapping[str, Json]) -> Sequence[str]:
        compiled = self._schemas.compile(skill.tool.parameters)
        if isinstance(compiled, SchemaRefusal):
            return ()
        return [_worded(each.pointer, each.message) for each in compiled.problems(dict(args))]

    async def _spoken(self, text: str) -> AsyncIterator[str]:
        for delta in _DELTA.findall(text):
            yield delta
            await anyio.sleep(self._pause_s)


def newest_texts(messages: Sequence[Any]) -> list[str]:
    """What the user said, the newest first: this message and the one before."""
    said = (m.content for m in reversed(messages) if getattr(m, "role", "") == "user")
    return [_text(content)[: 2 * LOOKED_AT_CHARS] for content, _ in zip(said, "12", strict=False)]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(getattr(part, "text", "")) for part in parts if _is_text(part))


def _is_text(part: Any) -> bool:
    return getattr(part, "type", "") == "text"


def _asked_back(messages: Sequence[Any]) -> bool:
    """Whether the agent's last word was a question for what was missing."""
    for message in reversed(messages):
        if getattr(message, "role", "") == "assistant":
            content = message.content
            asked = isinstance(content, str) and content.startswith("I need ")
            return asked and not message.tool_calls
    return False


def _declines(text: str) -> bool:
    """Whether an answer is none: "no", "never mind"."""
    return takes_back(Clause(text, words_of(text)))


def _worded(pointer: str, message: str) -> str:
    return f"{pointer.lstrip('/').replace('/', ' ')}: {message}" if pointer else message


def _reported(run: Any, skills: Sequence[Skill]) -> str:
    by_name = {skill.name: skill for skill in skills}
    calls = (call for m in run.messages for call in getattr(m, "tool_calls", None) or ())
    wanted = {result.call_id for result in run.results}
    args = {call.id: arguments_of(call) for call in calls if call.id in wanted}
    return speech.report(run.results, by_name, args)
