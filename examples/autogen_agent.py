"""AutoGen's assistant with hands in the demo page.

    pip install 'handspan[autogen]' 'autogen-ext[openai]'
    OPENAI_API_KEY=... python examples/autogen_agent.py

OPENAI_BASE_URL names another server that speaks OpenAI's way; AutoGen wants to know its models by
name (else give the client a `model_info`).
"""

import asyncio
import os
import sys
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent

from handspan import Bridge
from handspan.agents.autogen import AutoGen

PAGE = Path(__file__).parents[1] / "web-demo"


async def main(port: int = 8765) -> None:
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(
        model=os.environ.get("MODEL", "gpt-4o-mini"), stream_options={"include_usage": True}
    )
    agent = AutoGen(
        lambda tools: AssistantAgent(
            "helper", client, workbench=tools, model_client_stream=True, max_tool_iterations=10
        )
    )
    bridge = Bridge(agents={"default": agent})
    async with bridge.running(port=port, static=PAGE) as address:
        sys.stdout.write(f"{address}\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("OPENAI_API_KEY is not set")
    asyncio.run(main())
