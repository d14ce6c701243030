"""The demo's agent: from words to whatever tools a page has; needs no key.

A first version, with a few sentences only.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import anyio

PAUSE_S = 0.02
"""Between deltas: fast enough to read along."""

_COLUMNS = {"todo": "To do", "to do": "To do", "doing": "Doing", "done": "Done"}


class KeywordAgent:
    """Reads the newest user message at depth 0, reports the results at the next depth."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        calls = [] if run.results else _wishes(_newest_text(run.messages))
        said = _report(run.results) if run.results else "On it. " if calls else "I can add a card."
        for word in re.findall(r"\S+\s*", said):
            yield word
            await anyio.sleep(self._pause_s)
        for name, args in calls:
            yield run.call(name, args)


def _wishes(text: str) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for part in re.split(r"\s*(?:,|;|\band\b|\bthen\b)\s*", text.strip(" .!?")):
        words = re.match(r"(?:please )?(add|move|remove) (.+?)(?: to (.+))?$", part, re.IGNORECASE)
        for theme in ("dark", "light"):
            if re.search(rf"\b{theme}\b", part):
                found.append(("set_theme", {"theme": theme}))
        if re.search(r"\bslow\b", part):
            found.append(("slow_task", {}))
        if words:
            args = {"title": words[2], "column": _COLUMNS.get((words[3] or "").lower())}
            if words[2] == "it" and found:
                args["title"] = found[-1][1].get("title")
            given = {key: value for key, value in args.items() if value}
            found.append((f"{words[1].lower()}_card", given))
    return found


def _newest_text(messages: list[Any]) -> str:
    for message in reversed(messages):
        if message.role == "user" and isinstance(message.content, str):
            return str(message.content)
    return ""


def _report(results: list[Any]) -> str:
    lines = [f"{r.value}." if r.ok else f"{r.name} failed: {r.error.message}." for r in results]
    return "Done. " + " ".join(lines)
