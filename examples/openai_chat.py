"""A model behind chat completions, OpenAI's or any server's, with hands in the demo page.

    pip install '.[openai]'
    OPENAI_API_KEY=... python examples/openai_chat.py
    BASE_URL=http://127.0.0.1:11434/v1 MODEL=llama3.2 python examples/openai_chat.py

A server of one's own (here Ollama) is given no key.
"""

import os

import serving

from handspan import Bridge
from handspan.agents import OpenAIChat

BASE_URL = os.environ.get("BASE_URL")
MODEL = os.environ.get("MODEL", "gpt-4o-mini")
HOW = "Help with the page that the user looks at. Be brief."


def main() -> None:
    model = OpenAIChat(MODEL, base_url=BASE_URL, instructions=HOW)
    serving.run(Bridge(agents={"default": model}))


if __name__ == "__main__":
    if not BASE_URL:
        serving.key("OPENAI_API_KEY")
    main()
