"""Every scenario's world is watched while it runs, and judged when the test is over."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.builders import World, picture
from tests.core.page_fold import comparable
from tests.core.test_machine import replay_all
from tests.core.verifier import Orders, Stream, look

from handspan.core.policy import Policy


@pytest.fixture
def make() -> Iterator[Any]:
    """`make(**policy, agents=, server=, hooks=)`: a World that is judged at the end."""
    worlds = []

    def made(agents: Any = ("default",), server: Any = (), hooks: Any = (), **policy: Any) -> World:
        world = World(Policy(**policy), agents=agents, server=server, hooks=hooks)
        Orders(world)
        worlds.append(world)
        return world

    yield made
    for world in worlds:
        judge(world)


def judge(world: World) -> None:
    """P6 of every stream, P9 of every page, P15 of every machine, and nothing left or stuck."""
    for log in world.logs.values():
        stream = Stream()
        for event in log:
            stream.take(event)
    look(world)
    for tab in world.tabs:
        for name, fold in tab.folds.items():
            thread = world.threads.get(world.key(name))
            if tab.connection is not None and thread is not None:
                assert fold.shown() == comparable(picture(thread)), "P9"
    replay_all(world)
