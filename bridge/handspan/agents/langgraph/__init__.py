"""LangGraph: a compiled graph with a `messages` state as an agent; its loop runs inside one step.

    LangGraph(create_agent(model, tools=[...], middleware=[PageTools()]))       # langchain.agents
    LangGraph(create_react_agent(lambda *_: with_page_tools(model), PageToolNode()))
    LangGraph(graph)         # your own nodes: page_tools(), with_page_tools(model), PageToolNode()

The graph is given the thread's history each time: the thread is the memory, and a checkpointer of
the graph's own is left out. Page tools are LangChain tools of the moment: whoever asks for them
gets those that the page has now. They reach the run through the graph's own config
(`configurable["handspan"]`), so one graph serves many threads at once.

What models say is heard by a callback handler, not read from the graph's stream: so it is known
before the graph goes on, and a call is never made ahead of the text before it. The stream is read
for what no model said: messages that nodes write themselves, custom data, updates.

    agent       the adapter: one graph run a step
    tools       the page's tools in a graph's hands: for nodes, as middleware, as a tool node
    ears        what models say, and what the graph's own tools do
    stream      what the graph's stream tells beside
    messages    the history and contents, in LangChain's form
    step        what all of these know of the step under way

Deliberately does not know which model speaks. Above sits whoever invokes agents, below
`handspan.model` and the library; nothing here knows another adapter.
"""

from handspan.model.extras import extra

with extra("langgraph", "LangGraph"):
    from .agent import LangGraph
    from .tools import PageToolNode, PageTools, page_tools, with_page_tools

__all__ = ["LangGraph", "PageToolNode", "PageTools", "page_tools", "with_page_tools"]
