"""The demo's page in Python, for tests of the demo's agents."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.agents.keyword_tools import BOARD

from handspan.demo import demo_bridge
from handspan.testing import Page, World
from handspan_protocol.tools import to_wire

Json = Any

SET_GOAL = {
    "description": "Set the goal",
    "parameters": {
        "type": "object",
        "properties": {"goal": {"type": "string"}},
        "required": ["goal"],
    },
    "agent": "planner",
}


class Board:
    """The demo page's board, in Python."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str]] = {
            "To do": ["Water the ferns", "Buy tea"],
            "Doing": ["Paint the fence"],
            "Done": ["Sharpen pencils"],
        }
        self.goal = ""

    def tools(self) -> dict[str, Callable[..., Json]]:
        own = {"add_card": self.add, "move_card": self.move, "remove_card": self.remove}
        plain = {tool.name: (lambda args: args) for tool in BOARD}
        return {**plain, **own, "clear_board": self.clear, "set_goal": self.set_goal}

    def add(self, args: Json) -> Json:
        self.columns[args.get("column", "To do")].append(args["title"])
        return {"added": args["title"]}

    def remove(self, args: Json) -> Json:
        for titles in self.columns.values():
            if args["title"] in titles:
                titles.remove(args["title"])
                return {"removed": args["title"]}
        raise ValueError(f'there is no card "{args["title"]}"')

    def move(self, args: Json) -> Json:
        self.remove(args)
        self.columns[args["column"]].append(args["title"])
        return {"moved": args["title"], "to": args["column"]}

    def clear(self, args: Json) -> Json:
        for titles in self.columns.values():
            titles.clear()
        return {"cleared": True}

    def set_goal(self, args: Json) -> Json:
        self.goal = args["goal"]
        return {"goal": self.goal}


@asynccontextmanager
async def visit(without: tuple[str, ...] = ()) -> AsyncIterator[tuple[Page, Board]]:
    """A page before the demo's bridge, with all of its tools but these."""
    board = Board()
    async with World(demo_bridge(pause_s=0)) as world:
        page = world.new_page()
        handlers = board.tools()
        definitions = {tool.name: to_wire(tool) for tool in BOARD} | {"set_goal": SET_GOAL}
        for name, definition in definitions.items():
            if name not in without:
                page.tool(name, definition, handlers[name])
        page.context("board", "the cards", lambda: copy.deepcopy(board.columns))
        await page.connect()
        yield page, board


async def said(page: Page, text: str) -> list[str]:
    """What the agents say to a message: a text a step."""
    assert (await page.run(text).finished)["reason"] == "completed"
    messages = page.messages
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    return [m["content"] for m in messages[last:] if m["role"] == "assistant" and m.get("content")]


async def suggested(page: Page, text: str) -> list[str]:
    """What is suggested when this has been said and done."""
    await page.run(text).finished
    await page.until(lambda: page.thread().suggestions or None)
    return list(page.thread().suggestions)
