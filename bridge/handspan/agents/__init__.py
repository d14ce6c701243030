"""Agents: strangers to each other, each a callable that answers a Run with items.

    from handspan.agents import OpenAIChat

Each adapter needs a library of its own, which comes with an extra (of the clone: `pip install
'PATH_TO_THE_CLONE[openai]'`) and is imported when the adapter is first asked for, not before.
"""

import importlib
from typing import Any, Final

from handspan.model.extras import extra

_ADAPTERS: Final = {
    "Anthropic": ("anthropic", "anthropic"),
    "AutoGen": ("autogen", "autogen"),
    "LangGraph": ("langgraph", "langgraph"),
    "LocalModel": ("local", "local"),
    "OpenAIAgents": ("openai_agents", "openai-agents"),
    "OpenAIChat": ("openai_chat", "openai"),
    "OpenAIResponses": ("openai_responses", "openai"),
    "PydanticAI": ("pydantic_ai", "pydantic-ai"),
    "RemoteAGUI": ("remote_agui", "agui"),
}
"""Where each is, and the extra that it needs."""

__all__ = [*_ADAPTERS]  # noqa: PLE0604 (names)


def __getattr__(name: str) -> Any:
    """An adapter, by name.

    Raises:
        ExtraMissing: its library is not installed; says how to.
    """
    if name not in _ADAPTERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, needed = _ADAPTERS[name]
    with extra(needed, name):
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
