"""Agents of the OpenAI Agents SDK with hands in the demo page: one greets, and hands off to one
that knows the weather.

    pip install '.[openai-agents]'
    OPENAI_API_KEY=... python examples/openai_agents_agent.py

OPENAI_BASE_URL and MODEL name another server that speaks the Responses API, and its model.
"""

import os

import serving

from agents import Agent, function_tool
from handspan import Bridge
from handspan.agents import OpenAIAgents

MODEL = os.environ.get("MODEL", "gpt-4o-mini")


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


forecaster = Agent(
    name="forecaster", model=MODEL, instructions="Tell the weather.", tools=[weather]
)
helper = Agent(
    name="helper",
    model=MODEL,
    instructions="Help with the page that the user looks at. The weather is the forecaster's.",
    handoffs=[forecaster],
)


def main() -> None:
    bridge = Bridge(agents={"default": OpenAIAgents(helper)})
    serving.run(bridge)


if __name__ == "__main__":
    serving.key("OPENAI_API_KEY")
    main()
