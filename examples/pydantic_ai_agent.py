"""An agent of pydantic-ai with hands in the demo page, and one tool of its own.

    pip install '.[pydantic-ai]' 'pydantic-ai-slim[openai]'
    OPENAI_API_KEY=... python examples/pydantic_ai_agent.py

MODEL names another one, as pydantic-ai does: "openai:NAME", "anthropic:NAME", ...
"""

import os
import sys

import serving
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import infer_model

from handspan import Bridge
from handspan.agents import PydanticAI

agent = Agent(instructions="Help with the page that the user looks at. Be brief.")


@agent.tool_plain
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


def main() -> None:
    model = infer_model(os.environ.get("MODEL", "openai:gpt-4o-mini"))
    bridge = Bridge(agents={"default": PydanticAI(agent, model=model)})
    serving.run(bridge)


if __name__ == "__main__":
    try:
        main()
    except (UserError, ImportError) as missing:
        sys.exit(str(missing).splitlines()[0])
