"""What a model is called with: at every moment a history that a provider would take.

Cases C042, C048, C049, C057, C058, C061, C102, C134, C159, C160, C162; P1. What the bodies of
requests look like is the adapters' business: here is what they are given.
"""

from typing import Any

import pytest
from ag_ui.core import (
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallResultEvent,
)
from tests.acceptance.house import (
    House,
    house,
    more_args,
    start_call,
    still_house,
    streamed,
)

from handspan import Policy
from handspan.core.transcript import broken_rules
from handspan.testing import Pause, call

Shape = list[tuple[str, Any]]


def shape(messages: list[Any]) -> Shape:
    """Of each message its role, and whose call it answers, or the calls it makes, or its text."""
    return [
        (m.role, m.tool_call_id if m.role == "tool" else [c.id for c in calls(m)] or m.content)
        for m in messages
    ]


def calls(message: Any) -> list[Any]:
    return getattr(message, "tool_calls", None) or []


def is_valid(run: Any) -> bool:
    """P1 of what this step was given."""
    told = [m.model_dump(mode="json", by_alias=True, exclude_none=True) for m in run.messages]
    return broken_rules(told) == []


# ---- contents --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", {}, [], 0, False])
async def test_every_result_has_a_content_and_a_message_of_calls_alone_has_the_field(
    value: Any,
) -> None:
    """C057: present in all, whatever the handler returned."""
    async with house([call("t", {"n": 1}), call("t", {"n": 2})], "ok") as home:
        page = await home.page(tools={"t": lambda args: value})
        await page.run("go").finished
        _user, asking, *results = home.steps[1].messages
        assert (asking.role, asking.content, len(asking.tool_calls)) == ("assistant", None, 2)
        assert [(m.role, type(m.content)) for m in results] == [("tool", str)] * 2
        assert all("content" in message for message in home.results())


def said(*deltas: str) -> list[Any]:
    """A text as a provider streams it."""
    return [
        TextMessageStartEvent(message_id="m1"),
        *(TextMessageContentEvent(message_id="m1", delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id="m1"),
    ]


@pytest.mark.parametrize("nothing", [[""], ["", ""], said()], ids=["str", "strs", "events"])
async def test_a_text_that_says_nothing_leaves_no_text(nothing: list[Any]) -> None:
    """C058: before a call, and alone; an empty result is one result, an empty text."""
    async with house([*nothing, *streamed("c1", "t", "{}")], nothing, "end") as home:
        page = await home.page(tools={"t": lambda args: ""})
        await page.run("go").finished
        await page.run("again").finished
        for step in home.steps:
            texts = [m.content for m in step.messages if m.role == "assistant"]
            assert "" not in texts
        assert home.results()[0]["content"] == ""
        assert len(home.results()) == 2


PARTS = [
    {"type": "text", "text": "see"},
    {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
]


async def test_parts_reach_the_agent_as_parts_and_what_looks_like_them_as_json() -> None:
    """C134: an image is never a long text; a list is never an image."""
    async with house([call("shot"), call("data"), call("list")], "ok") as home:
        page = await home.page(
            tools={"shot": None, "data": lambda args: PARTS, "list": lambda args: [1, 2]}
        )
        run = page.run("go")
        held = await page.next_call("shot")
        await held.start()
        assert await held.give(PARTS) == "applied"
        await run.finished
        shot, data, plain = (m.content for m in home.steps[1].messages if m.role == "tool")
        assert [part.type for part in shot] == ["text", "image"]
        assert shot[1].source.value == "AAAA"
        assert data.startswith('[{"type":"text"')
        assert plain == "[1,2]"
        assert [r.value for r in home.steps[1].results] == [PARTS, PARTS, [1, 2]]


# ---- whose history it is ---------------------------------------------------------------------


async def test_a_page_cannot_take_a_result_out_of_the_history() -> None:
    """C061: there is no frame that says a history; one that tries says a message, and no more."""
    async with house([call("t")], "ok") as home:
        page = await home.page(tools={"t": lambda args: "the result"})
        await page.run("go").finished
        without = [m for m in page.messages if m["role"] != "tool"]
        forged = {"messages": without, "history": without}
        await page.run("and now?", **forged).finished
        await page.reconnect(**forged)
        await page.run("and now?", **forged).finished
        for step in home.steps[1:]:
            assert "the result" in [m.content for m in step.messages]
            assert is_valid(step)


async def test_no_pages_and_no_tools_means_an_empty_list() -> None:
    """C159: what an adapter must see to leave out what providers refuse beside no tools."""
    async with still_house("one", "two") as home:
        page = await home.world.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        await page.bye()
        assert (await home.bridge.run("go", thread_id="t1")).reason == "completed"
        await home.world.settle()
        assert [[t.name for t in step.tools] for step in home.steps] == [["t"], []]


# ---- results directly after their calls ------------------------------------------------------


async def test_results_stand_together_behind_their_turn_and_before_any_text() -> None:
    """C160: also of calls that nobody has, that are bad, that are over the limit, and skipped."""

    def first(run: Any) -> list[Any]:
        made = ["So: ", *streamed("ok", "t", "{}"), *streamed("nobody", "zzz", "{}")]
        return [*made, *streamed("bad", "t", "{"), *streamed("over", "t", "{}"), "that is all"]

    async with house(first, "done", policy=Policy(calls_per_step=3)) as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        assert all(is_valid(step) for step in home.steps)
        ids = ["ok", "nobody", "bad", "over"]
        assert shape(home.steps[1].messages) == [
            ("user", "go"),
            ("assistant", ids),
            *(("tool", call_id) for call_id in ids),
            ("assistant", "that is all"),
        ]
        assert home.codes() == [None, "unknown_tool", "invalid_arguments", "limit"]


async def test_a_text_of_the_user_comes_behind_all_results_of_the_turn_that_it_ended() -> None:
    """C048, C160: one was answered, one was cut off, one never had its turn."""
    step = [*streamed("a", "look", "{}"), *streamed("b", "t", "{}"), *streamed("c", "t", "{}")]

    async with house(lambda run: step if len(run.messages) == 1 else ["ok"]) as home:
        page = await home.page(tools={"look": ({"readOnly": True}, lambda args: 1), "t": None})
        run = page.run("go")
        held = await page.next_call("t")
        await held.start()
        await page.until(lambda: [c.state for c in page.calls if c.name == "look"] == ["done"])
        await page.ask("thread.list")
        await page.run("never mind", ifBusy="replace").finished
        assert (await run.finished)["reason"] == "aborted"
        last = home.steps[-1]
        assert is_valid(last)
        assert shape(last.messages)[1:] == [
            ("assistant", ["a", "b", "c"]),
            ("tool", "a"),
            ("tool", "b"),
            ("tool", "c"),
            ("user", "never mind"),
        ]
        assert home.codes() == [None, "aborted", "aborted_before_start"]
        before = home.history()
        assert await held.answer("too late") == "aborted"
        assert home.history() == before


async def test_a_placeholder_of_the_agent_is_no_answer_to_a_pages_call() -> None:
    """C042: the page is asked once, and its own answer is the only one there is."""
    placeholder = ToolCallResultEvent(
        message_id="m9", tool_call_id="c1", content="forwarded to the client"
    )
    async with house([*streamed("c1", "t", "{}"), placeholder], "ok") as home:
        page = await home.page(tools={"t": lambda args: "the page's"})
        await page.run("go").finished
        assert len(page.calls) == 1
        assert [m["content"] for m in home.results()] == ["the page's"]
        told = [e["content"] for e in home.events(kind="TOOL_CALL_RESULT")]
        assert told == ["the page's"]
        assert [r.value for r in home.steps[1].results] == ["the page's"]


# ---- stopped at any point --------------------------------------------------------------------

NEVER = Pause(3_600.0)
"""An hour; each test stops it at once."""
TWO = [*streamed("a", "t", "{}"), *streamed("b", "t", "{}")]
POINTS: dict[str, tuple[list[Any], list[str | None]]] = {
    "in the arguments": (
        [start_call("a", "t"), more_args("a", '{"x'), NEVER],
        ["aborted_before_start"],
    ),
    "before the dispatch": ([*TWO, NEVER], ["aborted_before_start"] * 2),
    "while the page works": (TWO, ["aborted", "aborted_before_start"]),
    "between two results": (TWO, [None, "aborted"]),
}


def kinds(page: Any) -> list[str]:
    return [event["type"] for event in page.events]


@pytest.mark.parametrize("point", POINTS)
async def test_a_history_can_be_sent_on_wherever_the_run_was_stopped(point: str) -> None:
    """C049: each call has one result behind its message; the next message is answered."""
    said, codes = POINTS[point]
    async with house(lambda run: said if len(run.messages) == 1 else ["hello"]) as home:
        page = await home.page(tools={"t": None})
        run = page.run("go")
        if NEVER in said:
            await page.until(lambda: kinds(page).count("TOOL_CALL_ARGS") == len(codes))
        else:
            held = await page.next_call()
            await held.start()
            if point == "between two results":
                await held.answer(1)
                await (await page.next_call()).start()
        assert await page.abort()
        await run.finished
        assert home.codes() == codes
        assert (await page.run("hi").finished)["reason"] == "completed"
        assert is_valid(home.steps[-1])
        assert [m.role for m in home.steps[-1].messages][-1] == "user"
        assert page.messages[-1]["content"] == "hello"


async def test_what_is_new_in_a_follow_up_has_the_calls_with_their_results() -> None:
    """C162: an adapter that sends only what its provider has not seen sends both together."""
    news: list[Shape] = []
    had: dict[str, int] = {}

    def stateful(run: Any) -> list[Any]:
        news.append(shape(run.messages[had.get(run.id, 0) :]))
        had[run.id] = len(run.messages)
        assert [r.call_id for r in run.results] == [
            name for role, name in news[-1] if role == "tool"
        ]
        rounds = {0: ["a", "b"], 1: ["c"]}
        return [event for name in rounds.get(run.depth, ()) for event in streamed(name, "t", "{}")]

    async with house(stateful, stateful, stateful) as home:
        page = await home.page(tools={"t": lambda args: 1})
        await page.run("go").finished
        assert news == [
            [("user", "go")],
            [("assistant", ["a", "b"]), ("tool", "a"), ("tool", "b")],
            [("assistant", ["c"]), ("tool", "c")],
        ]


# ---- a question that was denied, or left -----------------------------------------------------


async def asked(home: House) -> tuple[Any, Any, Any]:
    """A page whose call waits for a human."""
    page = await home.page(tools={"pay": ({"approval": "always"}, lambda args: "paid")})
    run = page.run("go")
    return page, run, await page.expect(type="approval.request")


async def test_a_denied_call_is_told_once_and_the_talk_goes_on() -> None:
    """C102."""
    async with house([call("pay")], "pity") as home:
        page, run, request = await asked(home)
        await page.approve(request, False)
        await run.finished
        home.agent.script = ["fine"]  # type: ignore[union-attr]
        await page.run("thanks").finished
        assert home.codes() == ["denied"]
        assert all(is_valid(step) for step in home.steps)
        roles = [m.role for m in home.steps[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_question_that_is_left_open_is_closed_by_the_next_message() -> None:
    """C102: its call is called off before it has begun, and a late yes changes nothing."""
    async with house(lambda run: [call("pay")] if len(run.messages) == 1 else ["ok"]) as home:
        page, _run, request = await asked(home)
        await page.run("something else", ifBusy="replace").finished
        assert home.codes() == ["aborted_before_start"]
        assert all(is_valid(step) for step in home.steps)
        assert await page.approve(request) == "late"
        await page.run("more").finished
        assert (page.calls, len(home.results())) == ([], 1)
