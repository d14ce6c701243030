"""The demo's handoff: which messages are the planner's, and what it does with them."""

from typing import Any

import pytest
from ag_ui.core import AssistantMessage, UserMessage
from tests.agents.demo_page import said, visit
from tests.agents.keyword_tools import heard

from handspan.demo.errand import TOPIC_CHARS, WHAT, Errand, errand_in
from handspan.demo.planner import goal_of, steps_for

ERRANDS: list[tuple[str, Errand | None]] = [
    ("plan a party", Errand("a party")),
    ("Plan a party!", Errand("a party")),
    ("please plan my trip to Rome", Errand("my trip to Rome")),
    ("can you plan a picnic, please?", Errand("a picnic")),
    ("ask the planner to plan a party", Errand("a party")),
    ("let the planner plan dinner", Errand("dinner")),
    ("get the planner to plan for a move", Errand("a move")),
    ("help me plan a garden", Errand("a garden")),
    ("make a plan for the launch", Errand("the launch")),
    ("I'd like to plan our holiday", Errand("our holiday")),
    ("plan to paint the fence", Errand("to paint the fence")),
    ('plan "a party"', Errand("a party")),
    ("plan", Errand("")),
    ("ask the planner", Errand("")),
    ("plan a party and make it dark", Errand("a party", "make it dark")),
    ("plan a party, then clear the board", Errand("a party", "then clear the board")),
    ("plan a party and a picnic", Errand("a party and a picnic")),
    ("plan a party. Thanks!", Errand("a party")),
    ("plan " + "very " * 20 + "long", Errand(("very " * 8).strip())),
    ("plan " + "x" * 90, Errand("x" * TOPIC_CHARS)),
    ("don't plan a party", None),
    ("add plan a party to todo", None),
    ("planning is hard", None),
    ("what is the plan?", None),
    ("planet", None),
    ("make it dark", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "errand"), ERRANDS)
def test_an_errand_is_read_off_an_order_to_plan_and_nothing_else(
    text: str, errand: Errand | None
) -> None:
    assert errand_in([UserMessage(id="u", content=text)]) == errand


ANSWERS: list[tuple[str, Errand | None]] = [
    ("a party", Errand("a party")),
    ("picnic", Errand("picnic")),
    ("for our trip", Errand("our trip")),
    ("nothing", None),
    ("no thanks", None),
    ("make it dark", None),
]


@pytest.mark.parametrize(("text", "errand"), ANSWERS)
def test_what_the_planner_asked_for_may_be_answered_in_a_word(
    text: str, errand: Errand | None
) -> None:
    asked = AssistantMessage(id="a", content=f"For example this. {WHAT}")
    assert errand_in([asked, UserMessage(id="u", content=text)]) == errand


def test_a_message_that_is_no_text_is_no_errand() -> None:
    parts: Any = [{"type": "text", "text": "plan a party"}]
    assert errand_in([UserMessage(id="u", content=parts)]) is None
    assert errand_in([]) is None


@pytest.mark.parametrize("topic", ["a party", "my thesis", "to paint the fence", "x" * TOPIC_CHARS])
def test_a_plan_has_three_steps_that_are_titles_of_cards(topic: str) -> None:
    steps = steps_for(topic)
    assert len({step.lower() for step in steps}) == 3
    assert all(0 < len(step) <= 80 for step in steps)


def test_what_the_table_does_not_know_is_planned_in_the_users_words() -> None:
    assert steps_for("my thesis") == (
        "Collect what you need for my thesis",
        "Choose a day for my thesis",
        "Take the first small step for my thesis",
    )
    assert steps_for("to paint the fence")[1] == "Choose a day to paint the fence"


@pytest.mark.parametrize(
    ("topic", "goal"),
    [("a party", "Party"), ("my trip to Rome", "Trip to Rome"), ("to paint it", "Paint it")],
)
def test_a_goal_is_a_heading(topic: str, goal: str) -> None:
    assert goal_of(topic) == goal


async def test_the_front_hands_over_and_the_planner_answers_at_the_next_depth() -> None:
    """With the page's tools, the one that is its own among them."""
    async with visit() as (page, board):
        run = page.run("plan a party")
        assert await run.finished == {"reason": "completed", "depth": 2}
        assert board.columns["To do"][2:] == [
            "Invite the guests",
            "Bake a cake",
            "Choose the music",
        ]
        assert board.goal == "Party"
        roles = [(m["role"], m.get("content")) for m in page.messages if m["role"] != "tool"]
        assert roles == [
            ("user", "plan a party"),
            ("assistant", "That is one for the planner."),
            ("activity", {"name": "Planner"}),
            ("assistant", "Three steps for a party."),
            ("assistant", 'That is the plan. Begin with "Invite the guests".'),
        ]
        assert page.thread().faults == []


async def test_the_planners_own_tool_is_offered_to_nobody_else() -> None:
    async with visit() as (page, board):
        await said(page, "set the goal to World peace")
        assert board.goal == ""
        assert "set_goal" not in str(page.messages)


async def test_what_is_on_the_board_is_not_added_again() -> None:
    async with visit() as (page, board):
        await said(page, "plan a party")
        await said(page, "remove Bake a cake")
        assert (await said(page, "plan a party"))[1:] == [
            'Three steps for a party. You have "Invite the guests" and "Choose the music" already.',
            'That is the plan. Begin with "Bake a cake".',
        ]
        assert (await said(page, "plan a party"))[1:] == [
            "Three steps for a party. They are on the board already:"
            ' begin with "Invite the guests".'
        ]
        assert board.columns["To do"].count("Invite the guests") == 1


async def test_a_plan_without_a_topic_is_asked_for_and_the_answer_goes_to_the_planner() -> None:
    async with visit() as (page, board):
        assert (await said(page, "ask the planner"))[1] == f'For example "plan a party". {WHAT}'
        assert (await said(page, "a picnic"))[:2] == [
            "That is one for the planner.",
            "Three steps for a picnic.",
        ]
        assert board.goal == "Picnic"


async def test_the_rest_of_a_message_is_given_back() -> None:
    async with visit() as (page, _):
        answer = (await said(page, "plan our trip and make it dark"))[1]
        assert (
            answer
            == 'Three steps for your trip. I only plan: for the rest, say "make it dark" again.'
        )


async def test_a_page_without_a_board_is_told_the_plan() -> None:
    async with visit(without=("add_card", "set_goal")) as (page, _):
        assert (await said(page, "plan a picnic"))[1:] == [
            "Three steps for a picnic: Choose a meadow, Pack the basket, Bring a blanket."
            " I see no board to put them on."
        ]


async def test_a_page_without_a_goal_gets_the_cards() -> None:
    async with visit(without=("set_goal",)) as (page, board):
        await said(page, "plan a picnic")
        assert len(board.columns["To do"]) == 5


async def test_what_the_page_refused_is_told_in_its_words() -> None:
    async with visit() as (page, board):
        board.columns.pop("To do")
        assert (await said(page, "plan a picnic"))[-1].startswith("That did not work: ")


async def test_whatever_is_no_errand_is_the_keyword_agents() -> None:
    direct = await heard("hello")
    async with visit() as (page, _):
        assert len(await said(page, "make it dark")) == 2
        assert (await said(page, "hello"))[0].split("\n")[0] == direct.said.split("\n")[0]
