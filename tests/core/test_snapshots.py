"""A snapshot and the later events are all events, wherever the cut is (P9)."""

from copy import deepcopy

import pytest
from ag_ui.core import ContentPart
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.core.builders import World, picture, spec, tool
from tests.core.page_fold import PageFold, comparable
from tests.core.tales import Tale, moves
from tests.core.test_machine import replay_all

from handspan.core.merging import merged
from handspan_protocol import frames as f
from handspan_protocol.codec import events_bytes, parse_json

PARTS = TypeAdapter(list[ContentPart]).validate_python([{"type": "text", "text": "done"}])


def eventful(world):
    """One of everything; yields after each input."""
    tab = world.tab(
        "a", tools=[tool("t"), tool("look", readOnly=True), tool("ask", approval="always")]
    )
    run = tab.run({"role": "user", "id": "u1", "content": [{"type": "text", "text": "hi"}]})
    yield
    world.think(run, "hm ")
    yield
    world.think(run, "so")
    yield
    world.text(run, "Hel")
    yield
    world.text(run, "lo")
    yield
    world.event(run, "TOOL_CALL_START", toolCallId="c1", toolCallName="t")
    yield
    world.event(run, "TOOL_CALL_ARGS", toolCallId="c1", delta='{"x"')
    yield
    world.event(run, "TOOL_CALL_ARGS", toolCallId="c1", delta=":1}")
    yield
    world.event(run, "ACTIVITY_SNAPSHOT", messageId="p", activityType="plan", content={"n": 0})
    yield
    patch = [{"op": "replace", "path": "/n", "value": 1}]
    world.event(run, "ACTIVITY_DELTA", messageId="p", activityType="plan", patch=patch)
    yield
    world.event(run, "STATE_SNAPSHOT", snapshot={"a": 1})
    yield
    world.event(run, "STATE_DELTA", delta=[{"op": "add", "path": "/b", "value": [1]}])
    yield
    for name in ("look", "ask"):
        world.call(run, name)
        yield
    world.end(run)
    yield
    tab.result(tab.call("look"), {"seen": True})
    yield
    tab.started(tab.call("t"))
    yield
    tab.progress(tab.call("t"), 1, total=2, message="half")
    yield
    tab.result(tab.call("t"), content=PARTS)
    yield
    tab.approve(tab.questions[0], False)
    yield
    world.text(run, "and again")
    yield
    world.fail(run)
    yield
    tab.ask(f.StateUpdate, thread_id="t1", state=[1])
    yield
    run = tab.run("another way", after="u1")
    yield
    world.event(run, "TEXT_MESSAGE_START", messageId="m", role="assistant", name="me")
    yield
    world.event(run, "TEXT_MESSAGE_END", messageId="m")
    yield
    world.call(run, "t")
    world.end(run)
    yield
    tab.abort(run)
    yield


def all_of(world):
    thread = world.thread("t1")
    fold = PageFold()
    for event in world.events("t1"):
        fold.apply(deepcopy(event))
    assert fold.shown() == comparable(picture(thread))
    return fold.shown()


def test_p9_the_fold_of_all_events_is_the_thread_at_every_moment(make):
    world = make()
    for _ in eventful(world):
        all_of(world)


def test_p9_a_snapshot_at_every_cut_and_the_later_events_are_all_events(make):
    """C086, C087."""
    world = make()
    folds: list[tuple[int, PageFold]] = []
    for _ in eventful(world):
        thread = world.thread("t1")
        folds.append((thread.head, PageFold.of_snapshot(picture(thread))))
    final = all_of(world)
    for offset, fold in folds:
        for event in world.events("t1")[offset:]:
            fold.apply(deepcopy(event))
        assert fold.shown() == final


STEPS = len(list(eventful(World())))


@pytest.mark.parametrize("cut", range(0, STEPS, 2))
def test_p9_a_page_that_was_away_for_a_while_knows_what_the_others_know(make, cut):
    """Missed events come once, in order."""
    world = make()
    page = world.tab("away")
    for number, _ in enumerate(eventful(world)):
        if number == cut:
            page.drop()
        if number == min(cut + 3, STEPS - 1):
            page.back()
    assert page.folds["t1"].shown() == all_of(world)


# ---- whatever happens on a thread ---------------------------------------------------------------


@given(moves, st.sampled_from((1, 300, 2_000, 64 * 1024)))
def test_p9_whatever_happened_a_snapshot_at_any_moment_and_the_rest_are_the_whole(told, room):
    """From the JSON text of snapshots and frames, and with merged deltas."""
    tale = Tale()
    snapshots: dict[int, bytes] = {}

    def look() -> None:
        snapshots[tale.thread.head] = tale.thread.snapshot("nobody")

    tale.happens(told, look)
    whole = comparable(picture(tale.thread))
    plain = PageFold()
    for event in tale.log:
        plain.apply(parse_json(event))
    assert plain.shown() == whole
    for cut, snapshot in snapshots.items():
        shown = parse_json(snapshot)
        assert shown["offset"] == cut
        fold = PageFold.of_snapshot(shown)
        for frame in frames_from(tale, cut, room):
            for event in frame["events"]:
                fold.apply(event)
        assert fold.shown() == whole


def frames_from(tale, offset, room):
    """What a page that lags is sent from there on."""
    log = tale.log
    while offset < len(log):
        events, count = merged(log[offset:], room)
        offset += count
        yield parse_json(events_bytes("t1", tale.thread.epoch, offset, events))


def test_a_snapshot_says_whose_the_calls_are_and_what_was_last_told_of_them(make):
    world = make(server=[spec("srv")])
    tab, other = world.tab("a", tools=[tool("t")]), world.tab("b")
    run = tab.run()
    world.call(run, "t", {"x": 1})
    world.call(run, "srv")
    world.end(run)
    mine = {c["name"]: c for c in picture(world.thread("t1"), tab.id)["calls"]}
    theirs = {c["name"]: c for c in picture(world.thread("t1"), other.id)["calls"]}
    assert [mine[n]["yours"] for n in ("t", "srv")] == [True, False]
    assert [theirs[n]["yours"] for n in ("t", "srv")] == [False, False]
    assert (mine["t"]["args"], mine["t"]["attempt"]) == ({"x": 1}, 1)
    assert mine["t"]["last"]["state"] == "dispatched"
    assert picture(world.thread("t1"))["run"] == {"runId": run, "depth": 0, "status": "waiting"}
    world.abort()


def test_state_changed_between_runs_is_said_again_when_the_next_one_starts(make):
    world = make()
    tab = world.tab()
    tab.ask(f.StateUpdate, thread_id="t1", patch=({"op": "add", "path": "/x", "value": 1},))
    run = tab.run()
    assert world.kinds() == ["STATE_DELTA", "RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED"]
    assert world.steps(run)[0].state == {"x": 1}
    world.end(run)
    again = tab.run()
    assert world.kinds()[-2:] == ["RUN_STARTED", "STEP_STARTED"]
    world.end(again)


@pytest.mark.parametrize(
    "patch",
    [
        ({"op": "remove", "path": "/zz"},),
        ({"op": "add", "path": "/a", "value": 1}, {"op": "test", "path": "/a", "value": 2}),
        ({"op": "what", "path": "/a"},),
        ({},),
    ],
)
def test_a_state_patch_that_fails_is_told_and_changes_nothing(make, patch):
    world = make()
    tab = world.tab()
    assert tab.ask(f.StateUpdate, thread_id="t1", patch=patch) == "invalid_frame"
    assert world.events() == []
    world.end(tab.run())


def test_p15_the_recorded_inputs_on_fresh_machines_give_equal_effects_and_bytes(make):
    """Also done at the end of every scenario that uses `make`, and of every example."""
    world = make()
    for _ in eventful(world):
        pass
    assert len(world.histories) > 1
    replay_all(world)
