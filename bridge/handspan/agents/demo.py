"""The demo's agent: plain rules from words to the demo page's tools; needs no key.

It is honest about what it is: what no rule understands is answered with what it can do.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import anyio

PAUSE_S = 0.02
"""Between deltas: fast enough to read along."""

_HELP = (
    "I understand: make it dark (or light), add milk, remove milk, list, slow, and beep"
    " (which no tool of the page has, so its * tool gets it)."
)


class DemoAgent:
    """Reads the newest user message at depth 0, reports the results at the next depth."""

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        if run.depth > 0:
            async for delta in _spoken(_report(run.results)):
                yield delta
            return
        calls = wishes(_newest_text(run.messages))
        said = "On it. " if calls else _HELP
        async for delta in _spoken(said):
            yield delta
        for name, args in calls:
            yield run.call(name, args)


def wishes(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text asks for, in the order of its parts ("add milk and make it dark")."""
    parts = re.split(r"\s*(?:,|;|\band\b|\bthen\b)\s*", text.strip(), flags=re.IGNORECASE)
    return [call for part in parts if (call := _wish(part)) is not None]


def _wish(part: str) -> tuple[str, dict[str, Any]] | None:
    low = part.lower().strip(" .!")
    for theme in ("dark", "light"):
        if re.search(rf"\b{theme}\b", low):
            return "set_theme", {"theme": theme}
    for verb, tool in (("add", "add_item"), ("remove", "remove_item")):
        found = re.search(rf"\b{verb}\s+(.+)", part.strip(" .!"), re.IGNORECASE)
        if found:
            return tool, {"title": found.group(1).strip().strip("\"'")}
    for word, tool in (("list", "list_items"), ("slow", "slow_task"), ("beep", "beep")):
        if re.search(rf"\b{word}\b", low):
            return tool, {}
    return None


def _newest_text(messages: list[Any]) -> str:
    for message in reversed(messages):
        if message.role == "user":
            content = message.content
            return content if isinstance(content, str) else _joined(content)
    return ""


def _joined(parts: list[Any]) -> str:
    return " ".join(part.text for part in parts if getattr(part, "type", "") == "text")


def _report(results: list[Any]) -> str:
    lines = [
        f"{r.name}: {r.value!r}." if r.ok else f"{r.name} failed: {r.error.message}."
        for r in results
    ]
    return "Done. " + " ".join(lines)


async def _spoken(text: str) -> AsyncIterator[str]:
    for word in re.findall(r"\S+\s*", text):
        yield word
        await anyio.sleep(PAUSE_S)
