"""Which model speaks in the demo: from the words of `--model` to an agent.

    local                     SmolLM2-135M in this process, no key; local:FILE.gguf: another one
    openai:NAME               OPENAI_API_KEY
    anthropic:NAME            ANTHROPIC_API_KEY
    ollama:NAME               OLLAMA_HOST, or this machine
    http://host:port/v1#NAME  any server of chat completions; without #NAME the first it has

Owns these words, and what the models are told of the board. The adapters, and with them the
libraries they need, are imported when they are asked for.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, Literal
from urllib.parse import urldefrag, urlsplit

from handspan import agents
from handspan_protocol.errors import UsageError

from .examples import EXAMPLES

INSTRUCTIONS: Final = (
    "You help on a web page with a board of cards in three columns: To do, Doing and Done."
    " Do what the user asks with the tools of the page, whatever they are, and say in one short"
    " sentence what came of it. Without a tool for it, answer in words."
)

FORMS: Final = "local, openai:NAME, anthropic:NAME, ollama:NAME or http://HOST:PORT/v1#NAME"

OLLAMA_PORT: Final = 11434
"""Where Ollama listens when OLLAMA_HOST names no port."""

ASK_S: Final = 5.0
"""What a server gets to say which models it has."""

PROVIDERS: Final = {
    "openai": ("OpenAIResponses", "OPENAI_API_KEY"),
    "anthropic": ("Anthropic", "ANTHROPIC_API_KEY"),
}
"""The adapter of each, and the variable that its key is in."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the words say; `name` is of the model, or of a file; "": whatever there is."""

    kind: Literal["local", "openai", "anthropic", "ollama", "server"]
    name: str = ""
    url: str = ""


def choice_of(words: str) -> Choice:
    """What is asked for.

    Raises:
        UsageError: the words are none of these.
    """
    kind, _, name = words.partition(":")
    match kind:
        case "local":
            return Choice("local", name)
        case "openai" | "anthropic" | "ollama" if name:
            return Choice(kind, name)
        case "http" | "https" if _is_address(words) and words.isprintable():
            url, name = urldefrag(words)
            return Choice("server", name, url.rstrip("/"))
    raise UsageError(f"{words!r} is no model; say {FORMS}")


def agent_of(words: str, environ: Mapping[str, str] = os.environ) -> Any:
    """The agent that is this model.

    Raises:
        UsageError: in one line, what is missing: a key, an extra, a server.
    """
    choice = choice_of(words)
    return _MAKERS[choice.kind](choice, environ)


def _local(choice: Choice, environ: Mapping[str, str]) -> Any:
    """The weights that come along are too small for instructions: they go by examples."""
    if choice.name:
        return agents.LocalModel(choice.name, instructions=INSTRUCTIONS)
    model = agents.LocalModel
    from handspan.agents.local import Example

    return model(examples=[Example(**each) for each in EXAMPLES], context=False, exchanges=1)


def _provider(choice: Choice, environ: Mapping[str, str]) -> Any:
    """What is missing, a library or a key or both, is told at once."""
    adapter, variable = PROVIDERS[choice.kind]
    missing, made = [], None
    try:
        made = getattr(agents, adapter)
    except UsageError as said:
        missing.append(str(said))
    key = environ.get(variable, "").strip()
    if not key:
        missing.append(f"--model {choice.kind}:{choice.name} needs a key: set {variable}")
    if made is None or missing:
        raise UsageError("; ".join(missing))
    return made(choice.name, api_key=key, instructions=INSTRUCTIONS)


def _ollama(choice: Choice, environ: Mapping[str, str]) -> Any:
    url = f"{ollama_at(environ.get('OLLAMA_HOST', ''))}/v1"
    return agents.OpenAIChat(choice.name, base_url=url, instructions=INSTRUCTIONS)


def _server(choice: Choice, environ: Mapping[str, str]) -> Any:
    adapter = agents.OpenAIChat  # first, since without it nobody need ask
    name = choice.name or first_model_of(choice.url)
    return adapter(name, base_url=choice.url, instructions=INSTRUCTIONS)


_MAKERS: Final[Mapping[str, Callable[[Choice, Mapping[str, str]], Any]]] = {
    "local": _local,
    "openai": _provider,
    "anthropic": _provider,
    "ollama": _ollama,
    "server": _server,
}


# ---- parts -----------------------------------------------------------------------------------


def _is_address(words: str) -> bool:
    try:
        parts = urlsplit(words)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def ollama_at(host: str) -> str:
    """Where Ollama is, by the words of OLLAMA_HOST: `host`, `host:port`, `:port` or a URL.

    An address to listen on at all interfaces is reached at this machine's own.

    Raises:
        UsageError: the words are no address.
    """
    url = host.strip() if "://" in host else f"http://{host.strip()}"
    try:
        parts = urlsplit(url)
        name, port = parts.hostname or "", parts.port or OLLAMA_PORT
    except ValueError:
        raise UsageError(f"OLLAMA_HOST={host!r} is no address") from None
    name = "127.0.0.1" if name in ("", "0.0.0.0", "::") else name  # noqa: S104 (not to listen)
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}:{port}"


def first_model_of(url: str) -> str:
    """The first model that a server of chat completions has.

    Raises:
        UsageError: it cannot be asked, or has none.
    """
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=ASK_S) as answer:  # noqa: S310
            found = json.load(answer)["data"][0]["id"]
    except (OSError, HTTPException) as problem:
        why = getattr(problem, "reason", None) or problem
        raise UsageError(f"no model server answers at {url}: {why}") from None
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        found = None
    if not (isinstance(found, str) and found):
        raise UsageError(f"{url} does not say which models it has; say {url}#NAME")
    return found
