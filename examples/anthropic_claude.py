"""Anthropic's models with hands in the demo page.

    pip install '.[anthropic]'
    ANTHROPIC_API_KEY=... python examples/anthropic_claude.py

MODEL names another one.
"""

import os

import serving

from handspan import Bridge
from handspan.agents import Anthropic

MODEL = os.environ.get("MODEL", "claude-haiku-4-5")
HOW = "Help with the page that the user looks at. Be brief."


def main() -> None:
    serving.run(Bridge(agents={"default": Anthropic(MODEL, instructions=HOW)}))


if __name__ == "__main__":
    serving.key("ANTHROPIC_API_KEY")
    main()
