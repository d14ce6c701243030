"""The agent: reads a message at depth 0, calls the page's tools, tells the results at the next.

Owns the speaking: its text in small deltas, fast enough to read along. What a message means is
`understanding`'s, how it is said is `speech`'s; both are pure, and run in a thread.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
import anyio.to_thread

from handspan.core.arguments import SchemaRefusal
from handspan.schema import CompiledSchema, SchemaRoom
from handspan_protocol.tools import Tool

from . import speech
from .memory import Names, arguments_of, names_in
from .mood import takes_back
from .skill import Skill, skills_of
from .tokens import Clause, words_of
from .understanding import LOOKED_AT_CHARS, Plan, Understanding, Wish

Json = Any

PAUSE_S: Final = 0.02
"""After each delta; a word each makes 50 words a second, faster than anybody reads."""

_DELTA: Final = re.compile(r"\s*\S{1,24}\s*|\s+")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a step begins with, as it was then."""

    tools: Sequence[Tool]
    messages: Sequence[Any]
    context: Sequence[Any]
    results: Sequence[Any]


class KeywordAgent:
    """Matches the words of a message with the tools that a page has; needs no key.

    It keeps nothing between steps: what "it" is, it reads in the run's messages.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._schemas = SchemaRoom()

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        heard = Heard(tuple(run.tools), tuple(run.messages), tuple(run.context), tuple(run.results))
        said, wishes = await anyio.to_thread.run_sync(self._answer, heard, abandon_on_cancel=True)
        for delta in _DELTA.findall(said):
            yield delta
            await anyio.sleep(self._pause_s)
        for wish in wishes:
            yield run.call(wish.name, wish.args)

    def _answer(self, heard: Heard) -> tuple[str, Sequence[Wish]]:
        """What to say and to call; in a thread, so that no socket waits for the thinking."""
        skills = skills_of(heard.tools)
        if heard.results:
            return _reported(heard, skills), ()
        names = names_in(heard.context, heard.messages, skills)
        plan = self._understood(heard.messages, skills, names)
        return speech.announcement(plan, skills, names), plan.wishes

    def _understood(self, messages: Sequence[Any], skills: Sequence[Skill], names: Names) -> Plan:
        said = newest_texts(messages)
        judge = Judging(self._schemas).problems
        plan = Understanding(skills, names, judge).of(said[0] if said else "")
        if plan.is_empty and not plan.is_greeting and len(said) > 1 and not _declines(said[0]):
            answer = Understanding(skills, names, judge).of(f"{said[1]} {said[0]}")
            if answer.wishes and not answer.unknown and _asked_back(messages):
                return answer
        return plan


class Judging:
    """What a tool's schema says of arguments; compiles each schema once for a message."""

    def __init__(self, schemas: SchemaRoom) -> None:
        self._schemas = schemas
        self._judges: dict[str, CompiledSchema | SchemaRefusal] = {}

    def problems(self, skill: Skill, args: Mapping[str, Json]) -> Sequence[str]:
        if skill.name not in self._judges:
            self._judges[skill.name] = self._schemas.compile(skill.tool.parameters)
        judge = self._judges[skill.name]
        if isinstance(judge, SchemaRefusal):
            return ()
        return [_worded(each.pointer, each.message) for each in judge.problems(dict(args))]


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


def _reported(run: Heard, skills: Sequence[Skill]) -> str:
    by_name = {skill.name: skill for skill in skills}
    calls = (call for m in run.messages for call in getattr(m, "tool_calls", None) or ())
    wanted = {result.call_id for result in run.results}
    args = {call.id: arguments_of(call) for call in calls if call.id in wanted}
    return speech.report(run.results, by_name, args)
