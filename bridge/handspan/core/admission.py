"""Whether a request may become a run: the refusals of `run.start` and `tool.invoke`.

Owns the order of the checks and their codes; changes nothing, so that a refused request leaves no
trace. *Source:* protocol.md 3.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from handspan_protocol.errors import CommandCode, PeerError

from .arguments import ToolSpec
from .inputs import InvokeRequested, RunRequested
from .registry import resolve
from .space import Space

Request = RunRequested | InvokeRequested


@dataclass(frozen=True, slots=True)
class Roster:
    """What the server itself brings: its agents' names and its tools; live, never copied."""

    agents: Collection[str]
    tools: Mapping[str, ToolSpec]
    hooks: Collection[str] = ()
    """The hooks that somebody registered, "suggest" among them; the others are not asked."""


def why_not(request: Request, space: Space, roster: Roster) -> PeerError | None:
    """The error that the request is answered with; None: it may run now."""
    if isinstance(request, InvokeRequested):
        return _why_no_invoke(request, space, roster)
    return _why_no_run(request, space, roster)


def _why_no_run(request: RunRequested, space: Space, roster: Roster) -> PeerError | None:
    agent = request.agent or "default"
    if agent not in roster.agents:
        return PeerError(CommandCode.UNKNOWN_AGENT, f"there is no agent {agent[:64]!r}")
    if space.transcript.size_bytes > space.policy.history_bytes:
        return PeerError(CommandCode.TOO_LARGE, "the thread's history is full")
    if request.after is not None and not space.transcript.has(request.after):
        return PeerError(CommandCode.INVALID_FRAME, "there is no such message", "/after")
    return None


def _why_no_invoke(request: InvokeRequested, space: Space, roster: Roster) -> PeerError | None:
    session = request.asker.session
    found = resolve(request.name, None, session, space.serving(session), roster.tools)
    if found is None:
        return PeerError(CommandCode.UNKNOWN_TOOL, f"nobody has {request.name[:64]!r}")
    if found.page is None and session is not None and not found.spec.invoke:
        return PeerError(CommandCode.FORBIDDEN, "this tool may not be invoked by a page")
    if request.follow_up is not False and "default" not in roster.agents:
        return PeerError(CommandCode.UNKNOWN_AGENT, "there is no agent to follow up")
    return None
