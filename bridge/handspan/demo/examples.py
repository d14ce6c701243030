"""What the smallest models are shown before the conversation: an exchange for each of the tools.

Told only what the tools are for, SmolLM2-135M chooses a right one for every fifth message; shown
these too, for four of five, and it knows when to say something instead. The order counts: what came
last is what it leans to. None of them is a message of the demo's own buttons.
*Source:* 35 messages, each asked alone, November 2026.
"""

from typing import Any, Final

EXAMPLES: Final[tuple[dict[str, Any], ...]] = (
    {"says": "What is the capital of Spain?", "answer": "Madrid."},
    {
        "says": "fill in the form for Bob with 2 seats",
        "call": "fill_form",
        "args": {"name": "Bob", "seats": 2},
    },
    {"says": "start the slow task", "call": "slow_task"},
    {"says": "read me the page", "call": "read_page"},
    {
        "says": "what is on the board?",
        "call": "list_cards",
        "result": {"To do": ["eggs"], "Doing": [], "Done": []},
        "answer": "There is eggs in To do.",
    },
    {"says": "empty the board", "call": "clear_board"},
    {"says": "point at eggs", "call": "highlight", "args": {"target": "eggs"}},
    {"says": "remove eggs", "call": "remove_card", "args": {"title": "eggs"}},
    {
        "says": "add eggs",
        "call": "add_card",
        "args": {"title": "eggs", "column": "To do"},
        "result": {"added": "eggs", "to": "To do"},
        "answer": "Done. I added eggs to To do.",
    },
    {
        "says": "move Cook dinner to done",
        "call": "move_card",
        "args": {"title": "Cook dinner", "column": "Done"},
    },
    {
        "says": "make it light",
        "call": "set_theme",
        "args": {"theme": "light"},
        "result": {"theme": "light"},
        "answer": "Done. The theme is light now.",
    },
    {"says": "hi there", "answer": "Hello!"},
)
"""Fields of `handspan.agents.local.Example`."""
