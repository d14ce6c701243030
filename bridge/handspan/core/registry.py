"""Who has which tool, and who answers a call (protocol.md 6, P13).

Owns the order in which a name is looked up, exact names before the wildcard everywhere, and what
a step's agent is shown. Looking never changes anything (P11). Deliberately does not know calls,
runs, or how a page is reached.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from handspan_protocol.ids import WILDCARD, SessionId

from .arguments import ToolSpec
from .parties import PageView


@dataclass(frozen=True, slots=True)
class Found:
    """Who answers: a page, or (page None) the server."""

    spec: ToolSpec
    page: PageView | None

    @property
    def session(self) -> SessionId | None:
        return self.page.session if self.page else None


def resolve(
    name: str,
    agent: str | None,
    starter: SessionId | None,
    pages: Iterable[PageView],
    server: Mapping[str, ToolSpec],
) -> Found | None:
    """Who answers a call of `name` made for `agent` (None: by a button) in a run of `starter`.

    *Source:* protocol.md 6, steps 1 to 6; None is step 6.
    """
    ranked = rank(starter, pages)
    if name != WILDCARD:
        exact = _of_server(server.get(name), agent) or _of_pages(name, agent, ranked)
        if exact is not None:
            return exact
    return _of_pages(WILDCARD, agent, ranked) or _of_server(server.get(WILDCARD), agent)


def offered(
    agent: str,
    starter: SessionId | None,
    pages: Iterable[PageView],
    server: Mapping[str, ToolSpec],
) -> tuple[ToolSpec, ...]:
    """The tools that a model may be shown: of each name the one that would answer."""
    seen: dict[str, ToolSpec] = {}
    for tools in (server, *(page.tools for page in rank(starter, pages))):
        for name, spec in tools.items():
            if name != WILDCARD and _serves(spec, agent):
                seen.setdefault(name, spec)
    return tuple(seen.values())


def is_withheld(name: str, pages: Iterable[PageView], server: Mapping[str, ToolSpec]) -> bool:
    """Whether somebody has a tool of this name, but does not offer it now."""
    holders = (server, *(page.tools for page in pages))
    return any(name in tools and not tools[name].tool.available for tools in holders)


def rank(starter: SessionId | None, pages: Iterable[PageView]) -> list[PageView]:
    """The starting page first, then attached ones, then by when they were last visible."""
    return sorted(
        pages,
        key=lambda p: (p.session != starter, not p.attached, not p.visible, -p.seen_at),
    )


def _of_server(spec: ToolSpec | None, agent: str | None) -> Found | None:
    return Found(spec, None) if spec is not None and _serves(spec, agent) else None


def _of_pages(name: str, agent: str | None, ranked: list[PageView]) -> Found | None:
    for page in ranked:
        spec = page.tools.get(name)
        if spec is not None and _serves(spec, agent):
            return Found(spec, page)
    return None


def _serves(spec: ToolSpec, agent: str | None) -> bool:
    """Whether the tool is offered and in the agent's scope; a button (None) has every scope."""
    return spec.tool.available and (agent is None or spec.tool.agent in (None, agent))


NOBODY_NAMES: Final = 20
"""How many tool names the error for an unknown one lists."""


def unknown_tool(name: str, known: Iterable[ToolSpec]) -> str:
    """The words for a model that called what nobody has; they name the tools there are."""
    names = sorted(spec.name for spec in known)
    there = ", ".join(names[:NOBODY_NAMES]) + (", ..." if len(names) > NOBODY_NAMES else "")
    return f"there is no tool {name[:64]!r}; the tools are: {there or 'none'}"
