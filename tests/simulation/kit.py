"""The tools that pages of a simulation may have, and how their handlers behave."""

from random import Random
from typing import Any, Final

Json = Any

_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def _tool(name: str, **more: Json) -> dict[str, Json]:
    return {"name": name, "description": f"The tool {name}", "parameters": _SCHEMA, **more}


TOOLS: Final[dict[str, dict[str, Json]]] = {
    tool["name"]: tool
    for tool in (
        _tool("plain"),
        _tool("other"),
        _tool("idem", idempotent=True),
        _tool("read", readOnly=True),
        _tool("par", parallel=True),
        _tool("hang"),
        _tool("ihang", idempotent=True, timeoutMs=4_000),
        _tool("fail"),
        _tool("ifail", idempotent=True),
        _tool("ask", approval="always"),
        _tool("iask", approval="always", idempotent=True),
        _tool("last", followUp=False),
        _tool("off", available=False),
        {"name": "*", "description": "whatever is asked for"},
    )
}

CHANGED: Final[dict[str, dict[str, Json]]] = {
    name: {**tool, "description": tool["description"] + ", changed"} for name, tool in TOOLS.items()
}
"""The same tools after a new release of the page."""

SERVER_TOOL: Final = "serve"
CALLABLE: Final = (*(name for name in TOOLS if name != "*"), SERVER_TOOL, "unheard_of")
"""What an agent may call."""

HANGING: Final = frozenset({"hang", "ihang"})
FAILING: Final = frozenset({"fail", "ifail"})


def starts_at_once(tool: dict[str, Json]) -> bool:
    return bool(tool.get("readOnly") or tool.get("idempotent"))


def overlaps(tool: dict[str, Json]) -> bool:
    return bool(tool.get("readOnly") or tool.get("parallel"))


def some_tools(rng: Random) -> dict[str, dict[str, Json]]:
    """What one page registers."""
    names = [name for name in TOOLS if rng.random() < (0.25 if name == "*" else 0.5)]
    return {name: TOOLS[name] for name in names}


def handler_time(rng: Random, name: str) -> float | None:
    """Seconds that a handler takes; None: it never ends."""
    if name in HANGING:
        return None
    return rng.choice((0.0, 0.01, 0.3, 0.3, 1.0, 1.0, 4.0)) * (0.5 + rng.random())
