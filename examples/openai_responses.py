"""OpenAI's models, over the Responses API, with hands in the demo page.

    pip install '.[openai]'
    OPENAI_API_KEY=... python examples/openai_responses.py

MODEL names another one.
"""

import os

import serving

from handspan import Bridge
from handspan.agents import OpenAIResponses

MODEL = os.environ.get("MODEL", "gpt-4o-mini")
HOW = "Help with the page that the user looks at. Be brief."


def main() -> None:
    serving.run(Bridge(agents={"default": OpenAIResponses(MODEL, instructions=HOW)}))


if __name__ == "__main__":
    serving.key("OPENAI_API_KEY")
    main()
