"""AutoGen: an AssistantAgent, or a team, as an agent; its loop runs inside one step.

    AutoGen(lambda tools: AssistantAgent("helper", model_client, workbench=tools,
                                         model_client_stream=True, max_tool_iterations=10))
    AutoGen(AssistantAgent("helper", model_client, ...))     # copied for each run

AutoGen's agents remember, so each step gets a fresh one: from the function, or a copy of the
instance with an empty model context. It is given the thread's history; the thread is the memory.
The page's tools are a Workbench that tells what the page has now.

Three parts of an AssistantAgent are taken over for the run, since its events come too late and tell
too little (why a turn ended is in none of them): its model client is heard (`ear`: text as it
streams, thoughts, usage, a turn that was cut), its workbenches are one (`desk`: whatever happens in
a tool, its call gets a result), its model context gets the history. Any other agent is only
listened to.

*AutoGen's hang*: an AssistantAgent waits for ever when a tool call ends in an exception or is
cancelled, since the end of its queue of events is never put (autogen-agentchat 0.7.5,
`_process_model_result`). No exception leaves the desk, and whatever is at work hangs on the run's
CancellationToken.

    agent       the adapter: an agent made, taken over and run once a step
    ear         a model client, heard
    desk        all workbenches of an agent as one
    tools       the page's tools as a Workbench, and what comes of any tool's work
    stream      what an agent's stream tells beside
    messages    the history, in AutoGen's form
    step        what all of these know of the step under way

Deliberately does not know which model speaks. Above sits whoever invokes agents, below
`handspan.model` and the library; nothing here knows another adapter.
"""

from handspan.model.extras import extra

with extra("autogen", "AutoGen"):
    from .agent import AutoGen
    from .tools import PageTools

__all__ = ["AutoGen", "PageTools"]
