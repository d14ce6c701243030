"""AutoGen's assistant with hands in the demo page.

    pip install '.[autogen]' 'autogen-ext[openai]'
    OPENAI_API_KEY=... python examples/autogen_agent.py

OPENAI_BASE_URL names another server that speaks OpenAI's way; AutoGen wants to know its models by
name (else give the client a `model_info`).
"""

import os

import serving
from autogen_agentchat.agents import AssistantAgent

from handspan import Bridge
from handspan.agents.autogen import AutoGen


def main() -> None:
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
    serving.run(bridge)


if __name__ == "__main__":
    serving.key("OPENAI_API_KEY")
    main()
