"""What every adapter must do, whichever model or library stands behind it.

The page sees the same, and the model is shown the same, whether its loop is ours (a step for each
time it is asked) or its own (all of it in one step).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.contract.agents.stage import Ask, Result, Said, Script, Subject, Turn, UserText

from handspan import Bridge
from handspan.testing import Page

Json = Any

THEME = {
    "type": "object",
    "properties": {"theme": {"type": "string", "enum": ["light", "dark"]}},
    "required": ["theme"],
}


def tool(**more: Json) -> dict[str, Json]:
    """A tool's definition; it may start at once."""
    return {"description": "sets the theme", "parameters": THEME, "readOnly": True, **more}


@asynccontextmanager
async def at_work(subject: Subject, script: Script, tools: Json = None) -> AsyncIterator[Page]:
    """A page of a bridge whose agent is the subject."""
    async with subject.open(script) as agent:
        bridge = Bridge(agents={"default": agent})
        try:
            async with Page(bridge, tools=tools or {}) as page:
                yield page
        finally:
            await bridge.close()


def texts(page: Page, kind: str = "TEXT_MESSAGE_CONTENT") -> str:
    return "".join(event["delta"] for event in page.events if event["type"] == kind)


def results(page: Page) -> list[Json]:
    return [event for event in page.events if event["type"] == "TOOL_CALL_RESULT"]


def finished(page: Page) -> Json:
    return next(event for event in reversed(page.events) if event["type"] == "RUN_FINISHED")


async def test_a_text_is_streamed_and_ends_the_run(subject: Subject) -> None:
    script = Script(Turn(text="Hello, Zoë 🙂. How are you?"))
    async with at_work(subject, script) as page:
        done = await page.run("hi").finished
        assert done == {"reason": "completed", "depth": 0}
        assert texts(page) == "Hello, Zoë 🙂. How are you?"
        assert sum(e["type"] == "TEXT_MESSAGE_CONTENT" for e in page.events) > 1
    assert [(asked.tools, asked.history) for asked in script.asked] == [((), (UserText("hi"),))]


async def test_tokens_are_counted_in_the_end_of_the_run(subject: Subject) -> None:
    if not subject.counts:
        pytest.skip(f"{subject.name} does not tell")
    calls = (Ask("set_theme", {"theme": "dark"}),)
    script = Script(Turn(calls=calls, tokens=(10, 2)), Turn(text="Done.", tokens=(20, 3)))
    async with at_work(subject, script, {"set_theme": (tool(), lambda _: "ok")}) as page:
        await page.run("dark").finished
        usage = finished(page)["usage"]
    assert sum(each["inputTokens"] for each in usage) == 30
    assert sum(each["outputTokens"] for each in usage) == 5


async def test_one_call_is_carried_out_and_its_result_shown(subject: Subject) -> None:
    script = Script(
        Turn(text="One moment. ", calls=(Ask("set_theme", {"theme": "dark"}),)),
        Turn(text="Done."),
    )
    seen: list[Json] = []
    async with at_work(
        subject, script, {"set_theme": (tool(), lambda args: seen.append(args) or {"set": True})}
    ) as page:
        done = await page.run("make it dark").finished
        assert done["reason"] == "completed"
        assert done["depth"] == (0 if subject.loops else 1)
        assert texts(page) == "One moment. Done."
    assert seen == [{"theme": "dark"}]
    assert [asked.tools for asked in script.asked] == [("set_theme",)] * 2
    user, said, result = script.asked[1].history
    assert user == UserText("make it dark")
    assert said == Said("One moment. ", ("set_theme",))
    assert isinstance(result, Result)
    assert result.name == "set_theme"
    assert '"set"' in result.text


async def test_parallel_calls_have_their_results_in_call_order(subject: Subject) -> None:
    """P1: the second answers first."""
    calls = tuple(Ask("wait_for", {"n": n}) for n in (1, 2, 3))
    script = Script(Turn(calls=calls), Turn(text="All there."))
    doors = {n: asyncio.Event() for n in (1, 2, 3)}
    doors[3].set()

    async def wait_for(args: Json) -> Json:
        await doors[args["n"]].wait()
        doors[max(1, args["n"] - 1)].set()
        return f"result {args['n']}"

    definition = {"description": "waits", "readOnly": True, "parameters": {"type": "object"}}
    async with at_work(subject, script, {"wait_for": (definition, wait_for)}) as page:
        done = await page.run("go").finished
        assert done["reason"] == "completed"
        assert [r["content"] for r in results(page)] == ["result 1", "result 2", "result 3"]
    told = [each for each in script.asked[1].history if isinstance(each, Result)]
    assert [each.text for each in told] == ["result 1", "result 2", "result 3"]


async def test_a_failed_call_is_told_and_the_model_corrects_itself(subject: Subject) -> None:
    script = Script(
        Turn(calls=(Ask("set_theme", {"theme": "pink"}),)),
        Turn(calls=(Ask("set_theme", {"theme": "dark"}),)),
        Turn(calls=(Ask("fails"),)),
        Turn(text="Sorry."),
    )
    seen: list[Json] = []

    def fails(_: Json) -> Json:
        raise ValueError("no such lamp")

    tools = {
        "set_theme": (tool(), lambda args: seen.append(args)),
        "fails": (tool(parameters=None), fails),
    }
    async with at_work(subject, script, tools) as page:
        done = await page.run("go").finished
        assert done["reason"] == "completed"
        assert texts(page) == "Sorry."
    assert seen == [{"theme": "dark"}]
    first, _, third = (a.history[-1] for a in script.asked[1:])
    assert isinstance(first, Result)
    assert "/theme" in first.text
    assert isinstance(third, Result)
    assert "no such lamp" in third.text


async def test_p5_a_stop_while_it_streams_closes_the_models_stream(subject: Subject) -> None:
    script = Script(Turn(text="Once upon a time", hangs=True), Turn(text="Yes."))
    async with at_work(subject, script) as page:
        run = page.run("tell me a story")
        await page.until(lambda: texts(page) == "Once upon a time", "the text")
        run_id = run.id
        assert await page.abort(run_id)
        assert (await run.finished)["reason"] == "aborted"
        async with asyncio.timeout(5):
            await script.stopped.wait()
        assert (await page.run("still there?").finished)["reason"] == "completed"
    assert script.asked[1].history[-1] == UserText("still there?")


async def test_p5_a_stop_while_a_tool_runs_ends_it_and_the_next_run_works(subject: Subject) -> None:
    script = Script(Turn(calls=(Ask("slow"),)), Turn(text="Here."))
    async with at_work(subject, script, {"slow": (tool(parameters=None), None)}) as page:
        run = page.run("go")
        call = await page.next_call("slow")
        assert await page.abort(run.id)
        assert (await run.finished)["reason"] == "aborted"
        await page.until(call.signal.is_set, "the tool's cancel")
        assert (await page.run("still there?").finished)["reason"] == "completed"
        assert texts(page) == "Here."
    assert len(script.asked) == 2
    told = script.asked[1].history
    assert told[-1] == UserText("still there?")
    calls = [name for each in told if isinstance(each, Said) for name in each.calls]
    assert calls == [each.name for each in told if isinstance(each, Result)]


async def test_thoughts_are_shown_as_reasoning(subject: Subject) -> None:
    if not subject.thinks:
        pytest.skip(f"{subject.name} has no thoughts")
    script = Script(
        Turn(thought="Dark is best.", calls=(Ask("set_theme", {"theme": "dark"}),)),
        Turn(thought="It worked.", text="Done."),
    )
    async with at_work(subject, script, {"set_theme": (tool(), lambda _: "ok")}) as page:
        assert (await page.run("dark").finished)["reason"] == "completed"
        assert texts(page, "REASONING_MESSAGE_CONTENT") == "Dark is best.It worked."
        assert texts(page) == "Done."


async def test_an_unknown_tool_is_an_error_to_the_model(subject: Subject) -> None:
    script = Script(Turn(calls=(Ask("paint", {"x": 1}),)), Turn(text="I cannot paint."))
    async with at_work(subject, script, {"set_theme": (tool(), lambda _: "ok")}) as page:
        assert (await page.run("paint").finished)["reason"] == "completed"
        assert texts(page) == "I cannot paint."
    result = script.asked[1].history[-1]
    assert isinstance(result, Result)
    assert result.name == "paint"


async def test_p13_a_wildcard_takes_what_nobody_has_and_is_never_shown(subject: Subject) -> None:
    script = Script(Turn(calls=(Ask("paint", {"x": 1}),)), Turn(text="Painted."))
    seen: list[Json] = []
    tools = {
        "*": ({"description": "all else"}, lambda args: seen.append(args) or "took it"),
        "set_theme": (tool(), lambda _: "ok"),
    }
    async with at_work(subject, script, tools) as page:
        assert (await page.run("paint").finished)["reason"] == "completed"
    assert seen == [{"toolName": "paint", "args": {"x": 1}}]
    assert all("*" not in asked.tools for asked in script.asked)
    result = script.asked[1].history[-1]
    assert isinstance(result, Result)
    assert "took it" in result.text


@pytest.mark.parametrize("raw", ["", "{}"])
async def test_p3_empty_arguments_are_an_empty_object(subject: Subject, raw: str) -> None:
    script = Script(Turn(calls=(Ask("ping", raw),)), Turn(text="Pong."))
    seen: list[Json] = []
    tools = {"ping": (tool(parameters=None), lambda args: seen.append(args))}
    async with at_work(subject, script, tools) as page:
        assert (await page.run("ping").finished)["reason"] == "completed"
    assert seen == [{}]


async def test_a_tool_that_a_handler_registers_is_there_for_the_next_turn(subject: Subject) -> None:
    script = Script(
        Turn(calls=(Ask("open_menu"),)), Turn(calls=(Ask("choose"),)), Turn(text="Chosen.")
    )
    seen: list[str] = []
    async with at_work(subject, script, {}) as page:

        def open_menu(_: Json) -> Json:
            page.tool("choose", tool(parameters=None), lambda _: seen.append("chosen"))
            page.remove_tool("open_menu")
            return "open"

        page.tool("open_menu", tool(parameters=None), open_menu)
        assert (await page.run("choose").finished)["reason"] == "completed"
    assert seen == ["chosen"]
    assert [asked.tools for asked in script.asked] == [("open_menu",), ("choose",), ("choose",)]


async def test_a_turn_that_was_cut_runs_nothing(subject: Subject) -> None:
    script = Script(Turn(text="Well", calls=(Ask("set_theme", {"theme": "dark"}),), cut=True))
    seen: list[Json] = []
    async with at_work(subject, script, {"set_theme": (tool(), seen.append)}) as page:
        assert (await page.run("dark").finished)["reason"] == "truncated"
        assert texts(page) == "Well"
    assert seen == []
    assert len(script.asked) == 1


async def test_a_long_history_is_shown_whole_and_in_order(subject: Subject) -> None:
    turns: list[Turn] = []
    for n in range(6):
        turns += [
            Turn(text=f"t{n} ", calls=(Ask("set_theme", {"theme": "dark"}),)),
            Turn(text=f"d{n}"),
        ]
    script = Script(*turns, Turn(text="The end."))
    async with at_work(subject, script, {"set_theme": (tool(), lambda _: "ok")}) as page:
        for n in range(6):
            await page.run(f"u{n}").finished
        await page.run("and now?").finished
    told = script.asked[-1].history
    wanted: list[UserText | Said | Result] = []
    for n in range(6):
        wanted += [UserText(f"u{n}"), Said(f"t{n} ", ("set_theme",)), Result("set_theme", "ok")]
        wanted += [Said(f"d{n}")]
    assert told == (*wanted, UserText("and now?"))
