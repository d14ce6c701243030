"""Tools for the keyword agent's tests, and one step of it without a bridge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import AssistantMessage, FunctionCall, Message, ToolCall, UserMessage

from handspan import CallResult
from handspan.agents.keyword import KeywordAgent
from handspan_protocol.frames import ContextItem
from handspan_protocol.tools import Tool

Json = Any
TEXT = {"type": "string"}
YES_OR_NO = {"type": "boolean"}


def takes(*required: str, **properties: Json) -> dict[str, Json]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def whole(low: int | None = None, high: int | None = None) -> dict[str, Json]:
    """The schema of an integer in a range."""
    bounds = {"minimum": low, "maximum": high}
    return {"type": "integer", **{key: value for key, value in bounds.items() if value is not None}}


def one_of(*choices: Json) -> dict[str, Json]:
    return {"enum": list(choices)}


def tool(name: str, description: str, parameters: Json = None, title: str | None = None) -> Tool:
    return Tool(name=name, title=title, description=description, parameters=parameters)


COLUMN = one_of("To do", "Doing", "Done")

BOARD = (
    tool(
        "add_card",
        "Add a card to a column of the board",
        takes("title", title=TEXT, column={**COLUMN, "default": "To do"}),
        "Add a card",
    ),
    tool(
        "move_card",
        "Move a card to another column",
        takes("title", "column", title=TEXT, column=COLUMN),
        "Move a card",
    ),
    tool(
        "remove_card", "Remove a card from the board", takes("title", title=TEXT), "Remove a card"
    ),
    tool("list_cards", "What cards are on the board", takes(column=COLUMN), "List the cards"),
    tool(
        "set_theme",
        "Set the page's theme, light or dark",
        takes("theme", theme=one_of("light", "dark")),
        "Set the theme",
    ),
    tool(
        "highlight",
        "Point at a card or a column so that the user sees it",
        takes("target", target=TEXT),
        "Highlight",
    ),
    tool(
        "fill_form",
        "Fill in the contact form (name, email, seats, newsletter) without sending it",
        {
            **takes(name=TEXT, email=TEXT, seats=whole(1, 8), newsletter=YES_OR_NO),
            "minProperties": 1,
        },
        "Fill in the form",
    ),
    tool("read_page", "Read what the page shows", None, "Read the page"),
    tool("clear_board", "Remove every card from the board", None, "Clear the board"),
    tool(
        "slow_task",
        "Work slowly for some seconds and report progress",
        takes(seconds={**whole(1, 60), "default": 6}),
        "Slow task",
    ),
)
"""The demo page's tools."""

CARDS = {
    "To do": ["Water the ferns", "Buy tea", "bread"],
    "Doing": ["milk", "Paint the fence"],
    "Done": ["eggs"],
}

OTHERS = (
    tool(
        "search_products",
        "Search the products of the shop",
        takes("query", query=TEXT, max_price={"type": "number"}, in_stock=YES_OR_NO),
    ),
    tool(
        "add_to_cart", "Add an article to the cart", takes("sku", sku=TEXT, quantity=whole(1, None))
    ),
    tool("show_cart", "What is in the cart"),
    tool("checkout", "Pay for what is in the cart"),
    tool("apply_coupon", "Apply a coupon code to the order", takes("code", code=TEXT)),
    tool(
        "set_lamp",
        "Switch the lamp and set its brightness and color",
        takes(
            on=YES_OR_NO,
            brightness=whole(0, 100),
            color=one_of("red", "green", "blue", "warm white"),
        ),
    ),
    tool(
        "drawChart",
        "Draw a chart of some values",
        takes(
            "kind",
            "values",
            kind=one_of("bar", "line", "pie"),
            values={"type": "array", "items": {"type": "number"}},
            title=TEXT,
        ),
        "Draw a chart",
    ),
    tool(
        "rename_file",
        "Rename a file",
        takes("old_name", "new_name", old_name=TEXT, new_name=TEXT),
    ),
    tool("send_message", "Send a message to somebody", takes("to", "text", to=TEXT, text=TEXT)),
    tool(
        "goToPage",
        "Go to a page of the app",
        takes("page", page=one_of("home", "settings", "user profile")),
    ),
    tool("tag_photo", "Tag the photo", takes("tags", tags={"type": "array", "items": TEXT})),
    tool(
        "set_volume",
        "Set the volume",
        takes("level", level={"type": "number", "minimum": 0, "maximum": 11}),
    ),
    tool("make_coffee", "Brew coffee", takes(cups=whole(1, 6), milk=YES_OR_NO)),
    tool("get_weather", "The weather in a city", takes("city", city=TEXT)),
)
"""Tools of quite another page."""


@dataclass
class Step:
    """One step as an agent sees it; keeps what it said."""

    tools: Sequence[Tool]
    messages: Sequence[Message]
    context: Sequence[ContextItem] = ()
    results: Sequence[CallResult] = ()
    calls: list[tuple[str, Json]] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)

    def call(self, name: str, args: Json = None) -> tuple[str, Json]:
        return name, args

    @property
    def said(self) -> str:
        return "".join(self.deltas)


async def heard(
    said: Any,
    tools: Sequence[Tool] = BOARD,
    things: Json = None,
    before: Sequence[Message] = (),
    results: Sequence[CallResult] = (),
    agent: KeywordAgent | None = None,
    deltas: list[str] | None = None,
) -> Step:
    """A step of the agent that has heard this message on a page that shows these things."""
    context = [ContextItem(name="shown", value=things)]
    step = Step(tools, [*before, UserMessage(id="u", content=said)], context, results)
    step.deltas = step.deltas if deltas is None else deltas
    async for item in (agent or KeywordAgent(pause_s=0))(step):
        if isinstance(item, str):
            step.deltas.append(item)
        else:
            step.calls.append((item[0], dict(item[1])))
    return step


def asked_before(text: str) -> UserMessage:
    return UserMessage(id="u0", content=text)


def called_before(*calls: tuple[str, Mapping[str, Json]], said: str = "") -> AssistantMessage:
    """An earlier message of the agent, with its calls."""
    made = [
        ToolCall(id=f"c{n}", function=FunctionCall(name=name, arguments=json.dumps(args)))
        for n, (name, args) in enumerate(calls)
    ]
    return AssistantMessage(id="a0", content=said or None, tool_calls=made or None)
