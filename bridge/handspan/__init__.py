"""Handspan gives an AI agent hands in a web page.

    from handspan import Bridge

    bridge = Bridge()

    @bridge.agent
    async def assistant(run):
        if run.depth == 0:
            yield run.call("set_theme", {"theme": "dark"})
        else:
            yield f"Done: {run.results[0].value}"

`bridge/README.md` is the map of the house; `handspan.testing` has what tests need.
"""

from handspan.core.parties import Principal
from handspan.core.policy import Policy
from handspan.ports import AgentFailed, Request
from handspan.server import Bridge
from handspan.shell.asks import (
    Allow,
    Ask,
    BadArguments,
    Call,
    Deny,
    RunRequest,
    Step,
    StepOutcome,
)
from handspan.shell.run import Run
from handspan.shell.stops import step_count, tool_called
from handspan.shell.tools import ServerTool, server_tool
from handspan.shell.values import CallResult, Failure, Handoff, RunResult, ToolError
from handspan_protocol.errors import HandspanError, PeerError, Unavailable, UsageError

__version__ = "0.1.0"

__all__ = [
    "AgentFailed",
    "Allow",
    "Ask",
    "BadArguments",
    "Bridge",
    "Call",
    "CallResult",
    "Deny",
    "Failure",
    "Handoff",
    "HandspanError",
    "PeerError",
    "Policy",
    "Principal",
    "Request",
    "Run",
    "RunRequest",
    "RunResult",
    "ServerTool",
    "Step",
    "StepOutcome",
    "ToolError",
    "Unavailable",
    "UsageError",
    "__version__",
    "server_tool",
    "step_count",
    "tool_called",
]
