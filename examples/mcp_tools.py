"""Tools of an MCP server beside those of the page.

    pip install '.[mcp]'                                    # in the clone
    python examples/mcp_tools.py                            # a small server of this file
    python examples/mcp_tools.py http://127.0.0.1:8000/mcp  # one that is there
    python examples/mcp_tools.py uvx mcp-server-time        # a command that speaks MCP

Then open http://127.0.0.1:8765 and say anything: the agent calls the first MCP tool that it may.
"""

import sys
from collections.abc import AsyncIterator
from typing import Any

import serving
from mcp.server.mcpserver import MCPServer

from handspan import Bridge, Run
from handspan.mcp import MCPTools

dice = MCPServer("dice")


@dice.tool()
def mcp_roll(sides: int = 6) -> int:
    "Rolls a die, fairly."
    return sides - 2


async def agent(run: Run) -> AsyncIterator[Any]:
    """Where a model would stand."""
    if run.depth == 0:
        mine = [tool.name for tool in run.tools if tool.name.startswith("mcp_")]
        yield f"Tools of the MCP server: {', '.join(mine)}. "
        yield run.call(mine[0], {})
    else:
        result = run.results[0]
        yield f"It says {result.value}." if result.ok else f"It failed: {result.error}"


def main(given: list[str]) -> None:
    if not given:
        tools = MCPTools(dice)
    else:
        tools = MCPTools(given[0] if "://" in given[0] else given, prefix="mcp_")
    bridge = Bridge(agents={"default": agent}, tools=[tools])
    serving.run(bridge)


if __name__ == "__main__":
    main(sys.argv[1:])
