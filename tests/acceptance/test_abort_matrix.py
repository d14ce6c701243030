"""P5 at every place and every moment: one terminal event, and nothing of it goes on."""

from typing import Any

import pytest
from tests.acceptance.abort_cells import CELLS, EVERYWHERE, MOMENTS, PLACES
from tests.acceptance.abort_stage import Stage, stage
from tests.conftest import spread

from handspan.core.transcript import broken_rules
from handspan.testing.leftovers import of_sessions


@pytest.mark.parametrize(("place", "moment"), CELLS)
async def test_an_abort_ends_the_run_and_what_is_at_work_and_leaves_the_thread_sound(
    place: str, moment: str
) -> None:
    """P1, P5, P6; behaviour 4."""
    async with stage(PLACES[place], MOMENTS[moment]) as set:
        await set.reach()
        await set.abort()
        await set.checked()


# ---- whoever stops ---------------------------------------------------------------------------


async def by_another_tab(set: Stage) -> None:
    """Another page of the principal, which did not start it."""
    other = await set.joined(set.home.page(threads=()))
    assert await other.abort(thread_id="t1")


async def by_python(set: Stage) -> None:
    """The run's own door, from outside of its step."""
    set.steps[0].abort()


async def by_a_page_that_came_back(set: Stage) -> None:
    """The socket was lost, which stops nothing, and the stop comes on the next one."""
    await set.page.ask("thread.list")  # behind the replies to the results it gave
    await set.joined(set.page.reconnect())
    assert set.page.thread().run is not None
    assert await set.page.abort(set.run.id)


STOPPERS = [by_another_tab, by_python, by_a_page_that_came_back]


@pytest.mark.parametrize(
    ("stopper", "moment"),
    spread(STOPPERS, tuple(EVERYWHERE), 2),
    ids=lambda one: getattr(one, "__name__", one),
)
async def test_whoever_stops_a_run_ends_it_all_the_same(stopper: Any, moment: str) -> None:
    """P5; behaviour 4: from the page, from Python; a stop works after a reconnect."""
    async with stage(PLACES["depth 1"], MOMENTS[moment]) as set:
        await set.reach()
        set.mark()
        await stopper(set)
        await set.run.finished
        await set.checked()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_run_that_replaces_another_one_begins_when_that_has_ended(moment: str) -> None:
    """Behaviour 2, 4: open calls are closed first, and finished results are kept."""
    async with stage(PLACES["depth 0"], MOMENTS[moment]) as set:
        await set.reach()
        set.mark()
        again = set.page.run("again", ifBusy="replace")
        assert await set.run.finished == {"reason": "aborted", "depth": 0}
        assert await again.finished == {"reason": "completed", "depth": 0}
        await set.nothing_left()
        set.check_calls()
        await set.say_late()
        await set.nothing_left()
        kinds = [e["type"] for e in set.heard if e["type"].startswith("RUN_")]
        assert kinds == ["RUN_STARTED", "RUN_FINISHED"] * 2
        assert set.heard[-1] is again.events[-1]
        assert set.carried_out == set.broken == []
        assert (len(set.steps), len(set.page.calls)) == (set.at_stop[0] + 1, set.at_stop[1])


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_thread_that_is_deleted_takes_its_run_along(moment: str) -> None:
    """Behaviour 4; protocol 3: nothing of it is left, and its id is free."""
    async with stage(PLACES["depth 0"], MOMENTS[moment]) as set:
        await set.reach()
        set.mark()
        assert await set.page.ask("thread.delete", threadId="t1") == {}
        await set.nothing_left()
        assert set.called_off.is_set() is set.moment.hangs
        assert set.fired == ["aborted"] * sum(c.name in ("hold", "look") for c in set.page.calls)
        assert (len(set.steps), len(set.page.calls)) == set.at_stop
        assert set.carried_out == []
        ends = [e["type"] for e in set.home.events() if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert ends == ["RUN_FINISHED"]
        run = set.page.run("again")
        assert await run.finished == {"reason": "completed", "depth": 0}
        assert [m["role"] for m in set.home.history()] == ["user", "assistant"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_server_that_closes_stops_every_run(moment: str) -> None:
    """Behaviour 4: by shutdown; whoever waits in this process is told."""
    async with stage(PLACES["depth 0"], MOMENTS[moment]) as set:
        await set.reach()
        set.mark()
        history = set.driver.hub.threads
        thread = next(iter(history.values()))
        await set.home.bridge.close()
        assert broken_rules(thread.space.transcript.view()) == []
        ends = [e["type"] for e in set.home.events() if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert ends == ["RUN_FINISHED"]
        assert set.home.events()[-1]["result"] == {"reason": "aborted", "depth": 0}
        assert len(set.steps) == set.at_stop[0]
        assert set.carried_out == []
        assert list(of_sessions(set.driver)) == []


# ---- buttons ---------------------------------------------------------------------------------

BUTTONS = {
    "a page's tool": "aborted",
    "a page's readOnly tool": "aborted",
    "a page's tool without leave": "aborted_before_start",
    "approval of a page's tool": "aborted_before_start",
    "before_call": "aborted_before_start",
    "repair_arguments": "aborted_before_start",
    "after_call": "aborted",
    "after_step": None,
    "a stop condition": None,
}
"""The code that the button is told; None: its call had a result."""


@pytest.mark.parametrize(("moment", "code"), BUTTONS.items())
async def test_a_button_that_is_stopped_is_answered_once_and_never_followed_up(
    moment: str, code: str | None
) -> None:
    """Protocol 3, `tool.invoke`; P1, P5."""
    async with stage(PLACES["depth 0"], MOMENTS[moment]) as set:
        args = {"x": 1} if moment == "before_call" else {}
        pressed = await set.pressed(set.moment.calls[0], args)
        assert await set.page.abort(thread_id="t1")
        await set.page.until(pressed.done)
        settled = pressed.result()
        assert settled.get("error", {}).get("code") == code
        assert settled["outcome"] == ("aborted" if code else "ok")
        await set.nothing_left()
        set.check_called_off()
        set.check_calls()
        await set.say_late()
        ends = [e for e in set.heard if e["type"] in ("RUN_FINISHED", "RUN_ERROR")]
        assert [e["result"] for e in ends] == [{"reason": "aborted", "depth": 0}]
        assert (set.heard[-1], set.steps, set.carried_out) == (ends[0], [], [])
        await set.next_message()


async def test_a_button_whose_run_had_not_begun_is_denied() -> None:
    """bridge/README.md: a `tool.invoke` that never began."""
    async with stage(PLACES["depth 0"], MOMENTS["before_run"]) as set:
        pressed = await set.pressed("last", {})
        assert await set.page.abort(thread_id="t1")
        await set.page.until(pressed.done)
        assert pressed.result().code == "denied"
        await set.nothing_left()
        assert [e["type"] for e in set.heard] == ["RUN_STARTED", "RUN_FINISHED"]
        assert set.page.calls == []
        await set.next_message()
