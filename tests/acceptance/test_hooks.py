"""Hooks through a real bridge: api.md, "Hooks"; behaviour 2 and 3. With them P1, P5, P6, P10, P14.

What each hook may be asked and answer is in tests/shell/test_asking.py, how they are asked in turn
in tests/shell/test_hooks.py; here is what becomes of it on threads, in pages and in histories.
"""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.acceptance.house import Gate, House, house, object_of, still_house

from handspan import Allow, Ask, CallResult, Deny, Failure, Policy, Principal, Run
from handspan.testing import RunFailed, call

HOOK_TIMEOUT_S = Policy().hook_timeout


def kinds(home: House) -> list[str]:
    return [event["type"] for event in home.events()]


async def fails(value: Any, next: Any) -> Any:
    raise ValueError("secret")


async def hangs(value: Any, next: Any) -> Any:
    await asyncio.Event().wait()


# ---- before_run ------------------------------------------------------------------------------


async def test_what_before_run_makes_of_the_message_is_what_everybody_has() -> None:
    async with house("ok") as home:

        @home.bridge.hook("before_run")
        async def polite(request: Any, next: Any) -> Any:
            request.message = f"{request.message}, please"
            return await next(request)

        page = await home.page()
        await page.run({"id": "m1", "content": "tea"}).finished
        assert page.messages[0] == {"id": "m1", "role": "user", "content": "tea, please"}
        [started] = home.events(kind="RUN_STARTED")
        assert started["input"]["messages"] == [page.messages[0]]
        assert home.steps[0].messages[0].content == "tea, please"


async def test_before_run_chooses_the_agent_and_adds_context() -> None:
    seen: list[Run] = []

    async def billing(run: Run) -> str:
        seen.append(run)
        return "which invoice?"

    async with house("never", agents={"billing": billing}) as home:

        @home.bridge.hook("before_run")
        async def route(request: Any, next: Any) -> Any:
            request.agent = "billing"
            request.context.append({"name": "plan", "description": "", "value": "free"})
            return await next(request)

        page = await home.page()
        await page.run("my invoice").finished
        assert home.steps == []
        assert (seen[0].agent, [(c.name, c.value) for c in seen[0].context]) == (
            "billing",
            [("plan", "free")],
        )


async def test_a_run_that_is_denied_begins_and_ends_and_the_next_one_works() -> None:
    """Behaviour 2: RUN_STARTED, RUN_ERROR code `denied`."""
    async with house("ok") as home:

        @home.bridge.hook("before_run")
        async def guard(request: Any, next: Any) -> Any:
            return Deny("not this") if request.message == "bad" else await next(request)

        page = await home.page()
        with pytest.raises(RunFailed) as failed:
            await page.run("bad").finished
        assert (failed.value.code, failed.value.message) == ("denied", "not this")
        assert kinds(home) == ["RUN_STARTED", "RUN_ERROR"]
        assert home.steps == []
        assert (await page.run("good").finished)["reason"] == "completed"


async def test_a_denied_run_from_python_is_a_result() -> None:
    async with house("ok") as home:
        home.bridge.hook("before_run")(lambda request, next: Deny())
        result = await home.bridge.run("hi", thread_id="t1")
        assert (result.reason, result.error.code) == ("failed", "denied")


async def test_a_button_that_is_denied_is_answered() -> None:
    async with house("ok") as home:
        home.bridge.hook("before_run")(lambda request, next: Deny("no buttons"))
        result = await home.bridge.call_tool("t1", "t", {})
        assert result.error.code == "unknown_tool"  # what cannot run is not asked about

        @home.bridge.tool
        async def t() -> int:
            "A tool."
            raise AssertionError("carried out")

        result = await home.bridge.call_tool("t1", "t", {})
        assert (result.outcome, result.error.code) == ("error", "denied")


@pytest.mark.parametrize("name", ["before_run", "before_step"])
async def test_a_hook_that_raises_fails_the_run_and_leaks_nothing(name: str) -> None:
    """P14."""
    async with house("ok") as home:
        home.bridge.hook(name)(fails)
        page = await home.page()
        with pytest.raises(RunFailed) as failed:
            await page.run("hi").finished
        assert failed.value.code == "agent_error"
        assert "secret" not in failed.value.message
        assert home.steps == []


@pytest.mark.parametrize("name", ["before_run", "before_step"])
async def test_a_hook_that_never_answers_fails_the_run_in_time(name: str) -> None:
    """P12: `hook_timeout`."""
    async with still_house("ok") as home:
        home.bridge.hook(name)(hangs)
        page = await home.world.page()
        run = page.run("hi")
        await home.world.advance(HOOK_TIMEOUT_S - 0.1)
        assert not run.is_over
        await home.world.advance(0.1)
        with pytest.raises(RunFailed) as failed:
            await run.finished
        assert failed.value.code == "agent_error"
        await home.world.advance(5)


@pytest.mark.parametrize("name", ["before_run", "before_step", "after_step"])
async def test_a_stop_does_not_wait_for_a_hook(name: str) -> None:
    """P5, P6: one terminal event, promptly; the hook is cancelled."""
    async with still_house("ok") as home:
        left = asyncio.Event()

        @home.bridge.hook(name)
        async def slow(value: Any, next: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

        page = await home.world.page()
        run = page.run("hi")
        await home.world.settle()
        await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        await home.world.settle()
        assert left.is_set()
        assert [k for k in kinds(home) if k in ("RUN_FINISHED", "RUN_ERROR")] == ["RUN_FINISHED"]


async def test_a_thread_is_busy_while_before_run_is_asked() -> None:
    gate = Gate()
    async with still_house("said") as home:

        @home.bridge.hook("before_run")
        async def slow(request: Any, next: Any) -> Any:
            await gate.wait()
            return await next(request)

        page = await home.world.page()
        first = page.run("a")
        second = page.run("b", ifBusy="queue")
        await home.world.settle()
        result = await home.bridge.run("c", thread_id="t1")
        assert result.error.code == "busy"
        gate.open()
        await first.finished
        await second.finished
        texts = [m["content"] for m in page.messages]
        assert texts == ["a", "said", "b", "said"]


# ---- before_step -----------------------------------------------------------------------------


async def test_what_before_step_puts_in_is_for_that_step_only() -> None:
    async with house([call("t")], "done") as home:

        @home.bridge.hook("before_step")
        async def remember(step: Any, next: Any) -> Any:
            step.instructions = f"depth {step.run.depth}"
            step.messages = [{"id": "s", "role": "system", "content": "memory"}, *step.messages]
            return await next(step)

        page = await home.page(tools={"t": lambda args: 1})
        await page.run("hi").finished
        first, second = home.steps
        assert (first.instructions, second.instructions) == ("depth 0", "depth 1")
        assert [m.role for m in first.messages] == ["system", "user"]
        assert [m.role for m in second.messages] == ["system", "user", "assistant", "tool"]
        assert [m["role"] for m in page.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_tool_that_was_taken_away_is_not_shown_and_cannot_be_called() -> None:
    async with house([call("erase"), call("keep")], "done") as home:

        @home.bridge.hook("before_step")
        async def narrow(step: Any, next: Any) -> Any:
            step.tools = [tool for tool in step.tools if tool.name != "erase"]
            return await next(step)

        page = await home.page(tools={"erase": lambda args: 1, "keep": lambda args: 2})
        await page.run("hi").finished
        assert [tool.name for tool in home.steps[0].tools] == ["keep"]
        assert home.codes() == ["unavailable", None]
        assert [made.name for made in page.calls] == ["keep"]


async def test_another_agent_may_speak_for_one_step() -> None:
    seen: list[tuple[str, int]] = []

    async def expert(run: Run) -> Any:
        seen.append((run.agent, run.depth))
        yield run.call("t")

    async with house("one", "two", agents={"expert": expert}) as home:

        @home.bridge.hook("before_step")
        async def swap(step: Any, next: Any) -> Any:
            step.agent = "expert" if step.run.depth == 0 else step.agent
            return await next(step)

        page = await home.page(tools={"t": ({"agent": "expert"}, lambda args: 1)})
        await page.run("hi").finished
        assert seen == [("expert", 0)]
        assert home.codes() == [None]
        assert [run.agent for run in home.steps] == ["default"]


# ---- model_request ---------------------------------------------------------------------------


async def test_model_request_stands_between_an_adapter_and_its_model() -> None:
    sent: list[Any] = []

    async def send(request: Any) -> Any:
        sent.append(request)

        async def stream() -> Any:
            yield "hel"
            yield "lo"

        return stream()

    async def adapter(run: Run) -> Any:
        async for text in await run.model_request({"model": "m"}, send):
            yield text

    async with house(agent=adapter) as home:

        @home.bridge.hook("model_request")
        async def loud(request: Any, next: Any) -> Any:
            async for text in await next({**request, "temperature": 0}):
                yield text.upper()

        page = await home.page()
        await page.run("hi").finished
        assert sent == [{"model": "m", "temperature": 0}]
        assert page.thread().text == "HELLO"


# ---- before_call -----------------------------------------------------------------------------


async def test_a_guard_lets_some_calls_through_and_not_others() -> None:
    """P1, P10: a denied call has its result in its place, and its handler does not run."""
    async with house([call("pay", {"n": n}) for n in (1, 2, 3)], "done") as home:

        @home.bridge.hook("before_call")
        async def guard(asked: Any, next: Any) -> Any:
            return Deny("too much") if asked.args["n"] == 2 else await next(asked)

        page = await home.page(tools={"pay": lambda args: args["n"]})
        await page.run("hi").finished
        assert home.codes() == [None, "denied", None]
        assert [made.args["n"] for made in page.calls] == [1, 3]
        assert [r.outcome for r in home.steps[1].results] == ["ok", "denied", "ok"]
        assert home.steps[1].results[1].error == Failure("denied", "too much")


@pytest.mark.parametrize(
    ("approval", "verdict", "is_asked", "reason"),
    [
        ("always", None, True, None),
        ("always", Allow(), False, None),
        ("never", None, False, None),
        ("never", Ask("sure?"), True, "sure?"),
        ("always", Ask("sure?"), True, "sure?"),
    ],
)
async def test_the_hook_has_the_last_word_on_whether_a_human_is_asked(
    approval: str, verdict: Any, is_asked: bool, reason: str | None
) -> None:
    """P10. `Allow()` without `next` overrides the tool's own wish."""
    async with house([call("pay")], "done") as home:

        @home.bridge.hook("before_call")
        async def guard(asked: Any, next: Any) -> Any:
            return await next(asked) if verdict is None else verdict

        page = await home.page(tools={"pay": ({"approval": approval}, lambda args: 1)})
        page.on_approval(lambda request: True)
        await page.run("hi").finished
        requests = [f for f in page.frames if f["type"] == "approval.request"]
        assert [r.get("reason") for r in requests] == ([reason] if is_asked else [])
        assert home.codes() == [None]


@pytest.mark.parametrize("name", ["before_call"])
async def test_a_guard_that_fails_denies(name: str) -> None:
    """P10: closed when in doubt; P14."""
    async with house([call("pay")], "done") as home:
        home.bridge.hook(name)(fails)
        page = await home.page(tools={"pay": lambda args: 1})
        await page.run("hi").finished
        assert home.codes() == ["denied"]
        assert page.calls == []
        assert "secret" not in json.dumps(home.history())


async def test_a_guard_that_never_answers_denies_in_time() -> None:
    async with still_house([call("pay")], "done") as home:
        home.bridge.hook("before_call")(hangs)
        page = await home.world.page(tools={"pay": lambda args: 1})
        run = page.run("hi")
        await home.world.advance(HOOK_TIMEOUT_S)
        await run.finished
        assert home.codes() == ["denied"]
        await home.world.advance(5)


async def test_a_call_that_is_being_judged_is_stopped_at_once() -> None:
    """P5; a verdict on a settled call is dropped (behaviour 3)."""
    gate = Gate()
    async with still_house([call("pay")], "done") as home:

        @home.bridge.hook("before_call")
        async def slow(asked: Any, next: Any) -> Any:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                return Allow()
            return await next(asked)

        page = await home.world.page(tools={"pay": lambda args: 1})
        run = page.run("hi")
        await gate.reached.wait()
        await page.abort()
        assert (await run.finished)["reason"] == "aborted"
        await home.world.settle()
        assert home.codes() == ["aborted_before_start"]
        assert page.calls == []


async def test_calls_made_inside_a_step_are_judged_too() -> None:
    async def agent(run: Run) -> str:
        result = await run.call_tool("pay", {"n": 1})
        return result.error.message

    async with house(agent=agent) as home:
        home.bridge.hook("before_call")(lambda asked, next: Deny("no"))
        page = await home.page(tools={"pay": lambda args: 1})
        await page.run("hi").finished
        assert page.thread().text == "no"


async def test_a_button_is_judged_too() -> None:
    async with house() as home:
        home.bridge.hook("before_call")(lambda asked, next: Deny(f"not {asked.run.principal.id}"))
        page = await home.page(tools={"pay": lambda args: 1})
        told = await page.run_tool("pay")
        assert (told["outcome"], told["error"]["message"]) == ("denied", "not anonymous")


# ---- repair_arguments ------------------------------------------------------------------------

TAGS = {"parameters": object_of(tags={"type": "array", "items": {"type": "string"}})}


@pytest.mark.parametrize(
    ("raw", "repair", "code"),
    [
        ('{"tags": "[\\"a\\"]"}', {"tags": ["a"]}, None),
        ("not JSON at all", {"tags": ["a"]}, None),
        ("[]", {"tags": ["a"]}, None),
        ('{"tags": 1}', {"tags": 2}, "invalid_arguments"),
        ('{"tags": 1}', None, "invalid_arguments"),
    ],
)
async def test_what_a_hook_repairs_is_checked_again(raw: str, repair: Any, code: Any) -> None:
    """P3: the handler gets what fits the schema, or does not run."""
    async with house([call("tag", raw)], "done") as home:
        home.bridge.hook("repair_arguments")(lambda bad, next: repair)
        page = await home.page(tools={"tag": (TAGS, lambda args: args)})
        await page.run("hi").finished
        assert home.codes() == [code]
        assert [made.args for made in page.calls] == ([] if code else [repair])
        [asking] = [m for m in home.history() if m.get("toolCalls")]
        assert asking["toolCalls"][0]["function"]["arguments"] == raw  # kept as the model wrote it


async def test_a_repair_that_fails_leaves_the_error_to_the_model() -> None:
    async with house([call("tag", "{}")], "done") as home:
        home.bridge.hook("repair_arguments")(fails)
        page = await home.page(tools={"tag": (TAGS, lambda args: args)})
        await page.run("hi").finished
        assert home.codes() == ["invalid_arguments"]


async def test_repaired_arguments_are_judged_by_the_guard() -> None:
    async with house([call("tag", "{}")], "done") as home:
        home.bridge.hook("repair_arguments")(lambda bad, next: {"tags": ["evil"]})

        @home.bridge.hook("before_call")
        async def guard(asked: Any, next: Any) -> Any:
            return Deny() if "evil" in asked.args["tags"] else await next(asked)

        page = await home.page(tools={"tag": (TAGS, lambda args: args)})
        await page.run("hi").finished
        assert home.codes() == ["denied"]


# ---- after_call ------------------------------------------------------------------------------


async def test_what_after_call_answers_is_what_the_model_and_every_page_see() -> None:
    async with house([call("card")], "done") as home:

        @home.bridge.hook("after_call")
        async def redact(result: CallResult, next: Any) -> Any:
            return await next(replace(result, value="****"))

        page = await home.page(tools={"card": lambda args: "4711"})
        other = await home.page(threads=["t1"])
        await page.run("hi").finished
        await other.until(lambda: other.thread().last_run)
        assert [r.value for r in home.steps[1].results] == ["****"]
        assert home.steps[1].messages[-1].content == "****"
        for seen in (home.history(), home.events(), page.messages, other.events):
            assert "4711" not in json.dumps(seen)


async def test_after_call_may_make_an_error_of_a_value_and_a_value_of_an_error() -> None:
    async with house([call("good"), call("bad")], "done") as home:

        @home.bridge.hook("after_call")
        async def swap(result: CallResult, next: Any) -> Any:
            if result.ok:
                return await next(replace(result, error=Failure("stale", "ask again")))
            return await next(replace(result, error=None, value="never mind"))

        def bad(args: Any) -> Any:
            raise ValueError("no")

        page = await home.page(tools={"good": lambda args: 1, "bad": bad})
        await page.run("hi").finished
        first, second = home.steps[1].results
        assert (first.outcome, first.error) == ("error", Failure("stale", "ask again"))
        assert (second.outcome, second.value, second.error) == ("ok", "never mind", None)


async def test_the_page_that_answered_does_not_wait_for_the_hook() -> None:
    """P7: `applied` comes at once; the run goes on when the hook is through."""
    gate = Gate()
    async with house([call("t")], "done") as home:

        @home.bridge.hook("after_call")
        async def slow(result: CallResult, next: Any) -> Any:
            await gate.wait()
            return await next(result)

        page = await home.page(tools={"t": None})
        run = page.run("hi")
        made = await page.next_call("t")
        assert await made.answer(1) == "applied"
        await gate.reached.wait()
        assert home.results() == []
        gate.open()
        assert (await run.finished)["depth"] == 1


async def test_an_after_call_hook_that_fails_changes_nothing_and_another_still_redacts() -> None:
    """P14."""
    async with house([call("card")], "done") as home:
        home.bridge.hook("after_call")(fails)
        home.bridge.hook("after_call")(lambda result, next: next(replace(result, value="****")))
        page = await home.page(tools={"card": lambda args: "4711"})
        await page.run("hi").finished
        assert [r.value for r in home.steps[1].results] == ["****"]


async def test_results_stand_in_call_order_whichever_hook_is_through_first() -> None:
    """P1."""
    gate = Gate()
    async with house([call("slow"), call("fast")], "done") as home:

        @home.bridge.hook("after_call")
        async def hold(result: CallResult, next: Any) -> Any:
            if result.name == "slow":
                await gate.wait()
            else:
                gate.open()
            return await next(result)

        reads = ({"readOnly": True}, lambda args: 1)
        page = await home.page(tools={"slow": reads, "fast": reads})
        await page.run("hi").finished
        assert [r.name for r in home.steps[1].results] == ["slow", "fast"]


# ---- after_step, after_run -------------------------------------------------------------------


async def test_after_step_is_told_of_every_step_before_the_run_goes_on() -> None:
    seen: list[Any] = []
    async with house([call("t")], "done") as home:

        @home.bridge.hook("after_step")
        async def look(outcome: Any, next: Any) -> Any:
            seen.append((outcome.depth, [c.value for c in outcome.calls], len(home.steps)))
            return await next(outcome)

        page = await home.page(tools={"t": lambda args: 7})
        await page.run("hi").finished
        assert seen == [(0, [7], 1), (1, [], 2)]


@pytest.mark.parametrize("name", ["after_call", "after_step", "after_run"])
async def test_a_hook_that_looks_and_fails_harms_nothing(name: str) -> None:
    """P14."""
    async with house([call("t")], "done") as home:
        home.bridge.hook(name)(fails)
        page = await home.page(tools={"t": lambda args: 7})
        assert await page.run("hi").finished == {"reason": "completed", "depth": 1}
        assert (await home.bridge.run("again", thread_id="t1")).reason in ("completed", "failed")


async def test_nobody_but_who_asked_in_python_waits_for_after_run() -> None:
    gate, kept = Gate(), []
    async with still_house("said") as home:

        @home.bridge.hook("after_run")
        async def slow(result: Any, next: Any) -> Any:
            kept.append((result.reason, result.text))
            await gate.wait()
            return await next(replace(result, output="kept"))

        page = await home.world.page()
        await page.run("a").finished
        asking = asyncio.ensure_future(home.bridge.run("b", thread_id="t1"))
        await home.world.settle()
        assert page.thread().last_run["result"]["reason"] == "completed"
        assert len(page.messages) == 4
        assert not asking.done()
        gate.open()
        assert (await asking).output == "kept"
        assert kept == [("completed", "said")] * 2


async def test_after_run_hears_of_runs_that_failed_or_were_stopped() -> None:
    ends: list[Any] = []
    gate = Gate()

    async def agent(run: Run) -> str:
        if run.messages[-1].content == "fail":
            raise ValueError
        await gate.wait()
        return ""

    async with still_house(agent=agent) as home:

        @home.bridge.hook("after_run")
        async def look(result: Any, next: Any) -> Any:
            ends.append((result.reason, result.error and result.error.code))
            return await next(result)

        page = await home.world.page()
        with pytest.raises(RunFailed):
            await page.run("fail").finished
        page.run("stop")
        await gate.reached.wait()
        await page.abort()
        await home.world.settle()
        assert ends == [("failed", "agent_error"), ("aborted", None)]


# ---- together --------------------------------------------------------------------------------


async def test_all_hooks_of_one_run_are_asked_in_this_order() -> None:
    said: list[str] = []
    names = ["before_run", "before_step", "before_call", "after_call", "after_step", "after_run"]
    async with still_house([call("t")], "done") as home:
        for name in names:

            def note(value: Any, next: Any, name: str = name) -> Any:
                said.append(name)
                return next(value)

            home.bridge.hook(name)(note)
        page = await home.world.page(tools={"t": lambda args: 1})
        await page.run("hi").finished
        await home.world.settle()
        assert said == [
            "before_run",
            "before_step",
            "before_call",
            "after_call",
            "after_step",
            "before_step",
            "after_step",
            "after_run",
        ]


async def test_hooks_of_two_users_do_not_meet() -> None:
    """P8: the same ids on both sides; the one that is stopped takes nobody along."""
    gates = {"ann": Gate(), "bob": Gate()}

    def who(token: str | None, request: Any) -> Principal:
        return Principal(token or "")

    async with still_house([call("t", id="call_0")], "done", authenticate=who) as home:

        @home.bridge.hook("before_call")
        async def slow(asked: Any, next: Any) -> Any:
            await gates[asked.run.principal.id].wait()
            return await next(asked)

        ann = await home.world.page(token="ann", tools={"t": lambda args: 1})
        bob = await home.world.page(token="bob", tools={"t": lambda args: 2}, threads=["t2"])
        first, second = ann.run("hi", run_id="mine"), bob.run("hi", run_id="mine")
        await home.world.settle()
        await ann.abort()
        assert (await first.finished)["reason"] == "aborted"
        gates["bob"].open()
        await second.finished
        assert [m["content"] for m in bob.messages if m["role"] == "tool"] == ["2"]
