"""Whole conversations with the keyword agent: a page, its tools at work, and what it says."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.agents.keyword_tools import BOARD, heard

from handspan import Bridge, CallResult, Policy
from handspan.agents.keyword import KeywordAgent
from handspan.shell.values import Failure
from handspan.testing import Page, World
from handspan_protocol.tools import to_wire

Json = Any


class Board:
    """The demo page's board, in Python."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str]] = {"To do": [], "Doing": [], "Done": []}
        self.theme = "light"

    def tools(self) -> dict[str, Callable[..., Json]]:
        return {
            "add_card": self.add,
            "move_card": self.move,
            "remove_card": self.remove,
            "list_cards": lambda args: self.columns,
            "set_theme": self.set_theme,
            "highlight": lambda args: f"You see {args['target']} now",
            "fill_form": lambda args: {"filled": args},
            "read_page": lambda args: self.columns,
            "clear_board": lambda args: None,
            "slow_task": lambda args: {"worked": args.get("seconds", 6)},
        }

    def add(self, args: Json) -> Json:
        self.columns[args.get("column", "To do")].append(args["title"])
        return {"added": args["title"]}

    def remove(self, args: Json) -> Json:
        for titles in self.columns.values():
            if args["title"] in titles:
                titles.remove(args["title"])
                return None
        raise ValueError(f'there is no card "{args["title"]}"')

    def move(self, args: Json) -> Json:
        self.remove(args)
        self.columns[args["column"]].append(args["title"])
        return True

    def set_theme(self, args: Json) -> Json:
        self.theme = args["theme"]
        return {"theme": self.theme}


@asynccontextmanager
async def visit(**more: Json) -> AsyncIterator[tuple[Page, Board]]:
    """A page with the board's tools before a bridge with the keyword agent."""
    bridge, board = Bridge(agents={"default": KeywordAgent(pause_s=0)}), Board()
    async with World(bridge) as world:
        page = world.new_page()
        handlers = board.tools()
        for tool in BOARD:
            page.tool(tool.name, to_wire(tool), handlers[tool.name])
        for name, handler in more.items():
            page.tool(name, {"description": name}, handler)
        page.context("board", "the cards", lambda: copy.deepcopy(board.columns))
        await page.connect()
        yield page, board


async def said(page: Page, text: str) -> list[str]:
    """What the agent says to a message: a text a step."""
    run = page.run(text)
    assert (await run.finished)["reason"] == "completed"
    messages = page.messages
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    return [m["content"] for m in messages[last:] if m["role"] == "assistant" and m.get("content")]


async def test_make_it_dark_is_announced_done_and_reported() -> None:
    async with visit() as (page, board):
        assert await said(page, "make it dark") == [
            "I'll set the theme to dark.",
            "Done: theme dark.",
        ]
        assert board.theme == "dark"


async def test_a_card_is_added_and_moved_in_one_message() -> None:
    async with visit() as (page, board):
        before, after = await said(page, "add milk to todo and move it to done")
        assert before == 'I\'ll add the card "milk" to To do and move the card "milk" to Done.'
        assert after == 'Done.\n- Add a card "milk": added milk.\n- Move a card "milk": done.'
        assert board.columns == {"To do": [], "Doing": [], "Done": ["milk"]}


async def test_it_is_remembered_from_one_run_to_the_next() -> None:
    async with visit() as (page, board):
        await said(page, "add Buy Milk to doing")
        await said(page, "make it dark")
        await said(page, "move it to done")
        assert board.columns["Done"] == ["Buy Milk"]
        await said(page, "delete buy milk")
        assert board.columns["Done"] == []


async def test_a_thing_is_addressed_by_a_part_of_its_title() -> None:
    async with visit() as (page, board):
        await said(page, 'add "Water the ferns" and "Buy tea"')
        await said(page, "move the ferns to done and tea to doing")
        assert board.columns == {"To do": [], "Doing": ["Buy tea"], "Done": ["Water the ferns"]}


async def test_a_question_is_answered_in_the_next_run() -> None:
    async with visit() as (page, board):
        assert await said(page, "add a card to doing") == ["I need a title to add a card."]
        await said(page, "Bread and butter")
        assert board.columns["Doing"] == ["Bread and butter"]


async def test_an_error_of_the_page_is_told_in_its_words() -> None:
    async with visit() as (page, _):
        assert (await said(page, "delete milk"))[-1] == (
            'Remove a card did not work: there is no card "milk".'
        )


async def test_a_partial_success_is_told_as_such() -> None:
    async with visit() as (page, board):
        assert (await said(page, "add tea and then delete coffee"))[-1] == (
            '1 of 2 worked.\n- Add a card "tea": added tea.\n'
            '- Remove a card "coffee" did not work: there is no card "coffee".'
        )
        assert board.columns["To do"] == ["tea"]


async def test_p13_a_tool_that_nobody_has_is_told_or_goes_to_the_wildcard() -> None:
    async with visit() as (page, _):
        assert (await said(page, "call make_coffee with cups 2"))[-1] == (
            "make_coffee is nothing that this page has."
        )
    seen: list[Json] = []
    async with visit(**{"*": seen.append}) as (page, _):
        assert (await said(page, "call make_coffee with cups 2"))[-1] == "Done."
        assert seen == [{"toolName": "make_coffee", "args": {"cups": 2}}]
        await said(page, "qwertz asdf")
        assert len(seen) == 1


@pytest.mark.parametrize(
    "text", ["run the slow task", "start the slow tool", "do something slow", "slow"]
)
async def test_p5_the_slow_task_starts_and_a_stop_ends_it(text: str) -> None:
    async with visit() as (page, _):
        page.auto = False
        run = page.run(text)
        call = await page.next_call("slow_task")
        assert await call.start() == "go"
        assert await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        page.auto = True
        assert (await said(page, "light"))[-1] == "Done: theme light."


async def test_a_button_with_a_follow_up_is_reported() -> None:
    async with visit() as (page, board):
        await page.open(page.thread_id)
        await page.run_tool("add_card", {"title": "tea"}, followUp=True)
        await page.until(lambda: "Done: added tea." in [m.get("content") for m in page.messages])
        await page.until(lambda: page.thread().run is None)
        assert board.columns["To do"] == ["tea"]
        await said(page, "move it to done")
        assert board.columns["Done"] == ["tea"]


async def test_text_comes_in_small_deltas_with_a_pause_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("handspan.agents.keyword.agent.anyio.sleep", note)
    step = await heard("hello " + "x" * 500)
    assert all(0 < len(delta) <= 30 for delta in step.deltas)
    assert pauses == [0] * len(step.deltas)
    pauses.clear()
    await heard("make it dark", agent=KeywordAgent())
    assert pauses == [0.02] * 6


async def test_p5_a_stop_ends_its_speech_at_once() -> None:
    step = KeywordAgent(pause_s=3_600)
    deltas: list[str] = []
    with anyio.move_on_after(5) as scope:
        async with anyio.create_task_group() as group:

            async def speak() -> None:
                await heard("hello", agent=step, deltas=deltas)

            group.start_soon(speak)
            while not deltas:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert len(deltas) == 1


async def test_a_message_in_parts_is_read_as_its_texts() -> None:
    async with visit() as (page, board):
        parts = [
            {"type": "text", "text": "add milk"},
            {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}},
            {"type": "text", "text": "to doing"},
        ]
        await page.run({"content": parts}).finished
        assert board.columns["Doing"] == ["milk"]


async def test_a_full_step_of_calls_stays_within_the_bridges_limit() -> None:
    async with visit() as (page, board):
        titles = ", ".join(f"thing {n}" for n in range(200))
        await page.run(f"add {titles}").finished
        assert 0 < len(board.columns["To do"]) <= Policy().calls_per_step


# ---- the wording of results ------------------------------------------------------------------


def ok(value: Json, name: str = "read_page") -> CallResult:
    return CallResult(outcome="ok", value=value, name=name, call_id="c1")


def failed(outcome: str, code: str, message: str = "it broke") -> CallResult:
    return CallResult(outcome=outcome, error=Failure(code, message), name="read_page", call_id="c1")


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ok(None), "Done."),
        (ok(True), "Done."),
        (ok({"ok": True}), "Done."),
        (ok({}), "Done."),
        (ok("All is well!"), "Done. All is well!"),
        (ok("all is well"), "Done: all is well."),
        (ok(False), "Done: no."),
        (ok(3.5), "Done: 3.5."),
        (ok([]), "Done: nothing."),
        (ok(["milk", "tea"]), "Done: milk, tea."),
        (ok({"moved": "milk", "from": "To do"}), "Done: moved milk, from To do."),
        (ok({"To do": ["milk", "tea"], "Done": []}), "Done. To do: milk, tea; Done: nothing."),
        (ok({"a": {"b": {"c": {"d": {"e": 1}}}}}), "Done: a: b: c: d: …"),
        (ok([{"type": "text", "text": "hi there"}]), "Done: hi there."),
        (ok(list(range(99))), "Done: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 87 more."),
        (failed("error", "handler_error"), "Read the page did not work: it broke."),
        (failed("denied", "denied"), "Read the page was not allowed."),
        (failed("denied", "approval_expired"), "Read the page was not approved in time."),
        (failed("error", "timeout"), "Read the page took too long and was stopped."),
        (failed("aborted", "aborted"), "Read the page was stopped."),
        (
            failed("unknown", "outcome_unknown"),
            "Read the page may or may not have been done: the page went away in the middle.",
        ),
        (failed("error", "handler_error", ""), "Read the page did not work."),
    ],
)
async def test_a_result_is_told_in_words(result: CallResult, told: str) -> None:
    assert (await heard("x", results=[result])).said == told


async def test_a_long_result_is_cut() -> None:
    said = (await heard("x", results=[ok("word " * 10_000)])).said
    assert len(said) < 500
    assert said.endswith("…")


async def test_when_nothing_worked_it_says_so() -> None:
    both = [failed("error", "timeout"), failed("denied", "denied")]
    assert (await heard("x", results=both)).said == (
        "None of that worked.\n- Read the page took too long and was stopped.\n"
        "- Read the page was not allowed."
    )
