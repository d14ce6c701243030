"""What tests of agents, tools and bridges need.

    from handspan import Bridge
    from handspan.testing import Page, ScriptedAgent, World, call

    agent = ScriptedAgent([[call("set_theme", {"theme": "dark"})], "Done."])
    bridge = Bridge(agents={"default": agent})

    async with Page(bridge, tools={"set_theme": lambda args: args["theme"]}) as page:
        done = await page.run("make it dark").finished
        assert done == {"reason": "completed", "depth": 1}

`ScriptedAgent` says what it was told to say. `Page` is a page in Python, over memory or
(`Page.dial(address.ws)`) a real socket. `World` has a bridge and its pages under virtual time, so
that a test of a 30 s grace takes none.
"""

from handspan.agents.scripted import Pause, ScriptedAgent, ScriptedCall, call
from handspan.shell.ids import CountedIds

from .calls import PageCall
from .clock import ManualClock, settle
from .outbox import Lost
from .page import Page, SocketClosed
from .story import PageRun, Refused, RunFailed, Story
from .world import World

__all__ = [
    "CountedIds",
    "Lost",
    "ManualClock",
    "Page",
    "PageCall",
    "PageRun",
    "Pause",
    "Refused",
    "RunFailed",
    "ScriptedAgent",
    "ScriptedCall",
    "SocketClosed",
    "Story",
    "World",
    "call",
    "settle",
]
