"""LangChain's agent, a LangGraph graph, with hands in the demo page and one tool of its own.

    pip install 'handspan[langgraph]' langchain-openai
    OPENAI_API_KEY=... python examples/langgraph_agent.py

OPENAI_BASE_URL and MODEL name another server that speaks OpenAI's way, and its model.
"""

import asyncio
import os
import sys
from pathlib import Path

from langchain.agents import create_agent

from handspan import Bridge
from handspan.agents.langgraph import LangGraph, PageTools

PAGE = Path(__file__).parents[1] / "web-demo"


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


async def main(port: int = 8765) -> None:
    model = "openai:" + os.environ.get("MODEL", "gpt-4o-mini")
    agent = LangGraph(create_agent(model, tools=[weather], middleware=[PageTools()]))
    bridge = Bridge(agents={"default": agent})
    async with bridge.running(port=port, static=PAGE) as address:
        sys.stdout.write(f"{address}\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("OPENAI_API_KEY is not set")
    asyncio.run(main())
