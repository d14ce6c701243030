"""Protocol 1 and 2: a thread's stream, from wherever it is opened. P6, P9."""

import asyncio
from typing import Any

import pytest
from ag_ui.core import CustomEvent, RunStartedEvent, StepStartedEvent, TextMessageContentEvent
from tests.acceptance.house import Gate, House, house, still_house, streamed
from tests.acceptance.rules import broken_stream

from handspan import Policy
from handspan.core.transcript import Transcript
from handspan.testing import RunFailed, ScriptedAgent, call

SCRIPT: list[Any] = [
    [
        lambda run: run.reasoning("Thinking "),
        lambda run: run.reasoning("hard."),
        "I will ",
        "look. ",
        *streamed("c1", "t", '{"n"', ":1", "}"),
        "And ",
        *streamed("c2", "t", '{"n":', "2}"),
    ],
    ["Then ", *streamed("c3", "t", '{"n":3}')],
    ["All ", "done."],
]
TOOLS = {"t": ({"readOnly": True}, lambda args: {"got": args["n"]})}


class OneByOne:
    """A scripted agent that lets everybody see each item before the next."""

    def __init__(self, script: list[Any]) -> None:
        self.script = script

    async def __call__(self, run: Any) -> Any:
        for item in self.script[run.depth] if run.depth < len(self.script) else []:
            yield item(run) if callable(item) else item
            await asyncio.sleep(0.001)


def folded(events: list[Any]) -> tuple[Any, ...]:
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript.view()


async def finished(home: House) -> Any:
    """A thread with one run of more than 40 events behind it; the page that has it all."""
    page = await home.page(tools=TOOLS)
    assert (await page.run("go").finished)["reason"] == "completed"
    assert len(page.events) > 40
    return page


# ---- opening ---------------------------------------------------------------------------------


async def test_a_thread_opens_with_a_snapshot_that_has_every_field() -> None:
    async with house("hi") as home:
        socket = await home.raw()
        await socket.hello(threads=[{"threadId": "t1"}])
        snapshot = await socket.expect(type="snapshot")
        assert snapshot["threadId"] == "t1"
        assert isinstance(snapshot["epoch"], str)
        assert snapshot["offset"] == 0
        assert snapshot["messages"] == []
        assert snapshot["run"] is None
        assert snapshot["lastRun"] is None
        assert snapshot["calls"] == []
        assert snapshot["suggestions"] == []
        assert set(snapshot["open"]) == {"messages", "reasoning", "calls", "steps", "subagents"}
        assert not any(snapshot["open"].values())


async def test_the_first_events_follow_the_snapshot_with_nothing_between_or_twice() -> None:
    async with house(agent=OneByOne(SCRIPT)) as home:
        socket = await home.greeted(threads=[{"threadId": "t1"}], tools=[])
        snapshot = await socket.expect(type="snapshot")
        await socket.run_to_end("t1", "go")
        at = snapshot["offset"]
        for frame in socket.seen:
            if frame["type"] == "events":
                assert frame["epoch"] == snapshot["epoch"]
                assert frame["offset"] == at + len(frame["events"])
                at = frame["offset"]
        events = [e for f in socket.seen if f["type"] == "events" for e in f["events"]]
        assert events == home.events()


async def test_a_thread_without_an_id_is_made_by_the_server() -> None:
    async with house() as home:
        socket = await home.greeted()
        first = (await socket.ask("thread.open"))["result"]["threadId"]
        assert (await socket.expect(type="snapshot"))["threadId"] == first
        second = (await socket.ask("thread.open"))["result"]["threadId"]
        assert first != second


async def test_the_reply_to_thread_open_comes_before_its_stream() -> None:
    async with house() as home:
        socket = await home.greeted()
        await socket.send(type="thread.open", id="o", threadId="t1")
        assert (await socket.receive())["type"] == "reply"
        assert (await socket.receive())["type"] == "snapshot"


@pytest.mark.parametrize("offset", [0, 5])
async def test_a_thread_that_is_open_already_has_its_cursor_set_anew(offset: int) -> None:
    async with house(*SCRIPT) as home:
        page = await finished(home)
        story = page.thread()
        socket = await home.greeted(threads=[{"threadId": "t1"}])
        whole = await socket.expect(type="snapshot")
        await socket.ask("thread.open", threadId="t1", epoch=whole["epoch"], offset=offset)
        events = await socket.events_until("RUN_FINISHED")
        assert events == story.events[offset:]
        await socket.ask("thread.open", threadId="t1")
        again = await socket.expect(type="snapshot")
        assert again["messages"] == whole["messages"] == page.messages


@pytest.mark.parametrize(
    "cursor", [{"epoch": "another", "offset": 3}, {"offset": 3}, {"epoch": ""}]
)
async def test_another_epoch_or_half_a_cursor_gets_a_snapshot(cursor: dict[str, Any]) -> None:
    async with house(*SCRIPT) as home:
        page = await finished(home)
        socket = await home.greeted()
        await socket.ask("thread.open", threadId="t1", **cursor)
        assert (await socket.expect(type="snapshot"))["messages"] == page.messages


async def test_an_offset_beyond_the_head_gets_a_snapshot() -> None:
    async with house(*SCRIPT) as home:
        page = await finished(home)
        epoch = page.thread().epoch
        socket = await home.greeted()
        await socket.ask("thread.open", threadId="t1", epoch=epoch, offset=10_000)
        assert (await socket.expect(type="snapshot"))["offset"] == page.thread().offset


async def test_a_cursor_that_the_ring_no_longer_reaches_gets_a_snapshot() -> None:
    async with house(*SCRIPT, policy=Policy(log_events=10)) as home:
        page = await home.page(tools=TOOLS)
        await page.run("go").finished
        epoch, head = page.thread().epoch, page.thread().offset
        socket = await home.greeted()
        await socket.ask("thread.open", threadId="t1", epoch=epoch, offset=2)
        snapshot = await socket.expect(type="snapshot")
        assert snapshot["offset"] == head
        assert snapshot["messages"] == page.messages
        await socket.ask("thread.open", threadId="t1", epoch=epoch, offset=head - 10)
        assert len(await socket.events_until("RUN_FINISHED")) == 10


async def test_a_thread_that_was_closed_tells_nothing_more_but_its_calls_still_come() -> None:
    gate = Gate()

    async def agent(run: Any) -> Any:
        if run.depth == 0:
            await gate.wait()
            yield run.call("t", {"n": 1})

    async with house(agent=agent) as home:
        page = await home.page(tools=TOOLS)
        run = page.run("go")
        await run.accepted
        await page.until(lambda: page.thread().run)
        await page.close_thread("t1")
        heard = len(page.events)
        gate.open()
        await page.until(lambda: page.calls)
        other = await home.page(threads=("t1",))
        await other.until(lambda: other.thread().last_run)
        assert [m["content"] for m in other.messages if m["role"] == "tool"] == ['{"got":1}']
        assert len(page.events) == heard


async def test_threads_are_listed_newest_state_and_can_be_deleted() -> None:
    async with house("hi") as home:
        page = await home.page()
        await page.run("first words").finished
        await page.run("x", thread_id="t2").finished
        listed = {t["threadId"]: t for t in (await page.ask("thread.list"))["threads"]}
        assert set(listed) == {"t1", "t2"}
        assert all(t["updatedAt"] for t in listed.values())
        assert await page.ask("thread.delete", threadId="t2") == {}
        assert [t["threadId"] for t in (await page.ask("thread.list"))["threads"]] == ["t1"]
        again = await home.page(threads=("t2",))
        await again.until(lambda: again.thread().snapshots)
        assert again.messages == []


# ---- catching up -----------------------------------------------------------------------------


async def test_events_after_every_cursor_complete_what_came_before_it() -> None:
    """C086: for every cut of a run of more than 40 events."""
    async with house(*SCRIPT) as home:
        page = await finished(home)
        story = page.thread()
        socket = await home.greeted()
        for cut in range(len(story.events)):
            await socket.ask("thread.open", threadId="t1", epoch=story.epoch, offset=cut)
            rest = await socket.events_until("RUN_FINISHED")
            assert story.events[:cut] + rest == story.events
        assert list(folded(story.events)) == story.messages == home.history()


async def test_a_page_cut_after_every_frame_of_a_live_run_ends_up_like_one_undisturbed() -> None:
    """C086, P9: what is assembled over a cut equals what an undisturbed page assembles."""
    async with house(agent=OneByOne(SCRIPT)) as home:
        calm = await home.page(threads=("calm",), tools=TOOLS)
        await calm.run("go").finished
        shapes = []
        for cut in range(1, 30):
            thread = f"cut-{cut}"
            page = await home.page(threads=(thread,), tools=TOOLS)
            run = page.run("go")
            await page.until(lambda page=page, cut=cut: _frames(page) >= cut or _over(page))
            page.cut()
            assert (await page.reconnect())["resumed"] is True
            await run.finished
            await page.until(lambda page=page: _over(page))
            assert page.messages == home.history(thread)
            assert page.events == home.events(thread)
            assert page.thread().snapshots == 1
            shapes.append(_shape(page.messages))
            await page.leave()
        assert shapes == [_shape(calm.messages)] * len(shapes)


async def test_a_snapshot_taken_at_every_event_and_what_follows_equal_the_whole() -> None:
    """P9: state(snapshot) + later events == state(all events); never an orphan delta."""
    late: list[Any] = []

    class Watched(OneByOne):
        async def __call__(self, run: Any) -> Any:
            async for item in super().__call__(run):
                yield item
                socket = await home.page(threads=("t1",))
                await socket.expect(type="snapshot")
                late.append(socket)

    async with house(agent=Watched(SCRIPT)) as home:
        page = await home.page(tools=TOOLS)
        await page.run("go").finished
        assert len(late) > 14
        for other in late:
            await other.until(lambda other=other: other.thread().run is None)
            assert other.messages == page.messages == home.history()
            assert other.thread().snapshots == 1


async def test_a_snapshot_in_the_middle_of_a_run_says_what_is_open() -> None:
    gate = Gate()

    async def agent(run: Any) -> Any:
        yield "I am "
        await gate.wait()
        yield "here"

    async with house(agent=agent) as home:
        page = await home.page()
        run = page.run("go")
        await gate.reached.wait()
        socket = await home.greeted(threads=[{"threadId": "t1"}])
        snapshot = await socket.expect(type="snapshot")
        assert snapshot["run"] == {"runId": run.id, "depth": 0, "status": "running"}
        assert snapshot["open"]["messages"] == [snapshot["messages"][-1]["id"]]
        assert snapshot["open"]["steps"] == ["step-0"]
        assert snapshot["messages"][-1]["content"] == "I am "
        gate.open()
        await run.finished
        await socket.ask("thread.open", threadId="t1")
        over = await socket.expect(type="snapshot")
        assert over["run"] is None
        assert over["lastRun"]["runId"] == run.id
        assert over["lastRun"]["outcome"] == {"type": "success"}
        assert over["lastRun"]["result"]["reason"] == "completed"


async def test_a_snapshot_shows_the_calls_of_the_run_and_whose_they_are() -> None:
    async with house([call("ask", {"q": 1})]) as home:
        page = await home.page(tools={"ask": None})
        run = page.run("go")
        asked = await page.next_call()
        snapshots = []
        for session in (page, await home.page(threads=("t1",))):
            await session.ask("thread.open", threadId="t1")
            await session.until(lambda session=session: session.thread().snapshots)
            snapshots.append([f for f in session.frames if f["type"] == "snapshot"][-1])
        mine, others = ([*s["calls"]] for s in snapshots)
        assert [(c["callId"], c["name"], c["args"], c["attempt"]) for c in mine] == [
            (asked.call_id, "ask", {"q": 1}, 1)
        ]
        assert mine[0]["yours"] is True
        assert others[0]["yours"] is False
        assert mine[0]["last"]["state"] == "dispatched"
        assert snapshots[0]["run"]["status"] == "waiting"
        await asked.start()
        await asked.answer(1)
        await run.finished


# ---- a page that lags ------------------------------------------------------------------------

LONG: list[Any] = [
    [
        *(lambda run, n=n: run.reasoning(f"{n}? ") for n in range(2_000)),
        *(f"word {n} " for n in range(3_000)),
        *streamed("c1", "t", '{"n":[0', *(f",{n}" for n in range(2_000)), "]}"),
    ],
    "done",
]


async def test_a_page_that_read_nothing_for_a_while_gets_larger_events_and_the_same() -> None:
    """Protocol 1: adjacent deltas of one id may be merged for it, and nothing else."""
    async with still_house(*LONG) as home:
        quick = await home.world.page(threads=("t1",), tools=TOOLS)
        slow = await home.world.page(threads=("t1",))
        slow.stop_reading()
        await quick.run("go").finished
        assert quick.events == home.events()
        slow.go_on_reading()
        await slow.until(lambda: slow.thread().last_run)
        assert slow.messages == quick.messages == home.history()
        assert slow.thread().offset == quick.thread().offset
        assert slow.thread().snapshots == 1
        assert broken_stream(slow.events) == []
        assert len(slow.events) * 4 < len(quick.events)
        assert _in_one(slow.events) == _in_one(quick.events)


async def test_a_page_that_lags_and_loses_its_socket_goes_on_from_where_it_was() -> None:
    """P9: the offset of a frame with merged deltas is behind the last of them."""
    async with still_house(*LONG) as home:
        quick = await home.world.page(threads=("t1",), tools=TOOLS)
        slow = await home.world.page(threads=("t1",))
        slow.stop_reading()
        await quick.run("go").finished
        cuts: list[int] = []
        while not slow.thread().last_run:
            seen = _frames(slow)
            await slow.reconnect()
            await slow.until(lambda seen=seen: _frames(slow) > seen)
            cuts.append(slow.thread().offset)
        assert 0 < cuts[0] < cuts[-1] == quick.thread().offset
        assert slow.messages == home.history()
        assert slow.thread().snapshots == 1
        assert _in_one(slow.events) == _in_one(quick.events)


# ---- what is in it ---------------------------------------------------------------------------


async def test_a_run_is_one_ag_ui_run_with_a_step_for_each_depth() -> None:
    """P6, protocol 1."""
    async with house(*SCRIPT) as home:
        page = await finished(home)
        kinds = [e["type"] for e in page.events]
        assert kinds.count("RUN_STARTED") == kinds.count("RUN_FINISHED") == 1
        steps = [e["stepName"] for e in page.events if e["type"] == "STEP_STARTED"]
        assert steps == ["step-0", "step-1", "step-2"]
        assert kinds[-1] == "RUN_FINISHED"
        last = page.events[-1]
        assert last["outcome"] == {"type": "success"}
        assert last["result"] == {"reason": "completed", "depth": 2}


async def test_the_new_user_message_travels_in_run_started() -> None:
    async with house("hi") as home:
        page = await home.page()
        run = page.run("make it dark")
        await run.finished
        given = run.events[0]["input"]
        assert given["threadId"] == "t1"
        assert given["runId"] == run.id
        assert [(m["role"], m["content"]) for m in given["messages"]] == [("user", "make it dark")]


@pytest.mark.parametrize("chunk", [1, 3, 1_000])
async def test_however_a_text_is_cut_the_message_is_the_same(chunk: int) -> None:
    text = 'Grüße, \U0001f600 and \\ud83d " 漢字'
    agent = ScriptedAgent([[text, call("t", {"n": 1, "s": text})], "x"], chunk=chunk)
    async with house(agent=agent) as home:
        page = await home.page(tools={"t": lambda args: args["s"]})
        await page.run("go").finished
        assert page.messages[1]["content"] == text
        assert page.messages[2]["content"] == text
        assert page.calls[0].args == {"n": 1, "s": text}


async def test_text_and_calls_keep_the_order_they_were_said_in_live_and_after_a_reload() -> None:
    """C137."""
    script = ["one ", *streamed("a", "t", '{"n":1}'), "two ", *streamed("b", "t", '{"n":2}')]
    async with house(script, "end") as home:
        page = await home.page(tools=TOOLS)
        await page.run("go").finished
        order = [
            e.get("delta") or e.get("toolCallId")
            for e in page.events
            if e["type"] in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_START")
        ]
        assert order == ["one ", "a", "two ", "b", "end"]
        ends = [
            e["type"] for e in page.events if e["type"].startswith("T") and "ARGS" not in e["type"]
        ]
        assert ends.index("TEXT_MESSAGE_END") < ends.index("TOOL_CALL_START")
        said = [
            (m["role"], m.get("content"), [c["id"] for c in m.get("toolCalls", ())])
            for m in page.messages
        ]
        assert said == [
            ("user", "go", []),
            ("assistant", "one ", ["a"]),
            ("tool", '{"got":1}', []),
            ("assistant", "two ", ["b"]),
            ("tool", '{"got":2}', []),
            ("assistant", "end", []),
        ]
        before = page.messages
        await page.reload()
        await page.until(lambda: page.thread().snapshots)
        assert page.messages == before


async def test_what_an_agent_may_not_say_is_dropped_and_the_rest_stands() -> None:
    """Protocol 1: RUN_* and STEP_* of an agent are dropped, custom events go through."""
    async with house(
        [
            RunStartedEvent(thread_id="x", run_id="y"),
            StepStartedEvent(step_name="mine"),
            CustomEvent(name="shop.cart", value={"items": 2}),
            "ok",
        ]
    ) as home:
        page = await home.page()
        await page.run("go").finished
        custom = [e for e in page.events if e["type"] == "CUSTOM"]
        assert [(e["name"], e["value"]) for e in custom] == [("shop.cart", {"items": 2})]
        assert [e["runId"] for e in page.events if e["type"] == "RUN_STARTED"] == [
            page.events[0]["runId"]
        ]


async def test_an_event_out_of_order_fails_the_step_and_the_stream_stays_valid() -> None:
    """P6: Rule of protocol 1; the valid stream is checked at the end of every test."""
    async with house(["kept", TextMessageContentEvent(message_id="nobody", delta="x")]) as home:
        page = await home.page()
        with pytest.raises(RunFailed) as failed:
            await page.run("go").finished
        assert failed.value.code == "agent_error"
        assert page.messages[-1]["content"] == "kept"


async def test_an_answer_too_long_for_one_frame_arrives_whole() -> None:
    text = "0123456789" * 20_000
    async with house(text) as home:
        page = await home.page()
        await page.run("go").finished
        assert page.thread().text == text


def _frames(page: Any) -> int:
    return sum(frame["type"] == "events" for frame in page.frames)


def _in_one(events: list[Any]) -> list[Any]:
    """The events with all adjacent deltas of one thing in one."""
    out: list[Any] = []
    for event in events:
        around = {key: value for key, value in event.items() if key != "delta"}
        last = out[-1] if out else {}
        if "delta" in event and around == {k: v for k, v in last.items() if k != "delta"}:
            out[-1] = {**last, "delta": last["delta"] + event["delta"]}
        else:
            out.append(event)
    return out


def _over(page: Any) -> bool:
    return page.thread().last_run is not None


def _shape(messages: list[Any]) -> list[Any]:
    """A history without the ids, which differ from run to run."""
    return [(m["role"], m.get("content"), len(m.get("toolCalls", ()))) for m in messages]
