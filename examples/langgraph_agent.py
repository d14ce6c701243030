"""LangChain's agent, a LangGraph graph, with hands in the demo page and one tool of its own.

    pip install '.[langgraph]' langchain-openai
    OPENAI_API_KEY=... python examples/langgraph_agent.py

OPENAI_BASE_URL and MODEL name another server that speaks OpenAI's way, and its model.
"""

import os

import serving
from langchain.agents import create_agent

from handspan import Bridge
from handspan.agents.langgraph import LangGraph, PageTools


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


def main() -> None:
    model = "openai:" + os.environ.get("MODEL", "gpt-4o-mini")
    agent = LangGraph(create_agent(model, tools=[weather], middleware=[PageTools()]))
    bridge = Bridge(agents={"default": agent})
    serving.run(bridge)


if __name__ == "__main__":
    serving.key("OPENAI_API_KEY")
    main()
