"""What only the adapter of the OpenAI Agents SDK has: hand-offs, own tools, tracing, guardrails."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("agents")

import httpx
import openai
from agents.tracing import set_trace_processors
from agents.tracing.processor_interface import TracingProcessor
from openai.types import responses as r
from pydantic import BaseModel
from tests.contract.agents.openai_agents_subject import Scripted, ended
from tests.contract.agents.stage import Ask, Result, Said, Script, Turn, UserText

from agents import Agent, GuardrailFunctionOutput, RunConfig, function_tool, handoff
from agents import input_guardrail as guardrail
from handspan import Bridge
from handspan.agents import OpenAIAgents
from handspan.testing import Page
from handspan.testing.story import RunFailed

Json = Any

PING = {"description": "answers", "readOnly": True}
PONG = {"ping": (PING, lambda _: "pong")}


class Model(Scripted):
    """Plays turns, and keeps what it was given; a turn may be an exception, or events."""

    def __init__(self, *turns: Turn | Exception | list[Any]) -> None:
        self.script = Script(*(turn for turn in turns if isinstance(turn, Turn)))
        super().__init__(self.script)
        self.given: list[tuple[Any, ...]] = []
        self._turns = list(turns)

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        self.given.append(given)
        turn = self._turns.pop(0)
        if isinstance(turn, Turn):
            async for event in super().stream_response(*given, **more):
                yield event
        for event in turn if isinstance(turn, list) else ():
            if isinstance(event, Exception):
                raise event
            yield event
        if isinstance(turn, Exception):
            raise turn

    def tools(self, time: int) -> list[str]:
        """The names of what it was offered at that time."""
        return [tool.name for tool in self.given[time][3]]


@asynccontextmanager
async def at_work(agent: Any, tools: Json = None) -> AsyncIterator[Page]:
    bridge = Bridge(agents={"default": agent})
    try:
        async with Page(bridge, tools=tools or {}) as page:
            yield page
    finally:
        await bridge.close()


def events(page: Page, kind: str) -> list[Json]:
    return [event for event in page.events if event["type"] == kind]


def texts(page: Page) -> str:
    return "".join(event["delta"] for event in events(page, "TEXT_MESSAGE_CONTENT"))


# ---- the agents' own tools -----------------------------------------------------------------------


async def test_the_agents_own_tools_are_shown_beside_the_pages() -> None:
    @function_tool
    def price(sku: str) -> int:
        return 7

    model = Model(Turn(calls=(Ask("price", {"sku": "x"}), Ask("ping"))), Turn(text="Seven."))
    agent = OpenAIAgents(Agent(name="a", model=model, tools=[price]))
    async with at_work(agent, PONG) as page:
        done = await page.run("what is x?").finished
        assert done == {"reason": "completed", "depth": 0}
        calls = {e["toolCallName"]: e["toolCallId"] for e in events(page, "TOOL_CALL_START")}
        told = {e["toolCallId"]: e["content"] for e in events(page, "TOOL_CALL_RESULT")}
        assert {name: told[call] for name, call in calls.items()} == {"price": "7", "ping": "pong"}
    results = [each for each in model.script.asked[1].history if isinstance(each, Result)]
    assert results == [Result("price", "7"), Result("ping", "pong")]
    assert model.tools(0) == ["price", "ping"]


async def test_p1_results_of_own_tools_stand_before_what_is_said_next() -> None:
    @function_tool
    def price() -> int:
        return 7

    model = Model(Turn(text="Well. ", calls=(Ask("price"),)), Turn(text="Seven."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model, tools=[price]))) as page:
        await page.run("what is it?").finished
        roles = [message["role"] for message in page.messages]
        assert roles == ["user", "assistant", "tool", "assistant"]
        assert [m.get("content") for m in page.messages[1:]] == ["Well. ", "7", "Seven."]


async def test_a_call_of_an_own_tool_that_was_cut_is_not_carried_out() -> None:
    begun: list[str] = []

    @function_tool
    def price() -> None:
        begun.append("price")

    model = Model(Turn(calls=(Ask("price"),), cut=True))
    async with at_work(OpenAIAgents(Agent(name="a", model=model, tools=[price]))) as page:
        assert (await page.run("what is it?").finished)["reason"] == "truncated"
        (result,) = events(page, "TOOL_CALL_RESULT")
        assert "truncated_turn" in result["content"]
    assert begun == []


async def test_p13_an_own_tool_is_no_business_of_the_pages_wildcard() -> None:
    @function_tool
    def price() -> int:
        return 7

    asked: list[Json] = []
    model = Model(Turn(calls=(Ask("price"),)), Turn(text="Seven."))
    agent = OpenAIAgents(Agent(name="a", model=model, tools=[price]))
    async with at_work(agent, {"*": ({"description": "else"}, asked.append)}) as page:
        assert (await page.run("what is it?").finished)["depth"] == 0
        assert [event["content"] for event in events(page, "TOOL_CALL_RESULT")] == ["7"]
    assert asked == []


async def test_an_own_tool_stands_before_the_pages_of_the_same_name() -> None:
    @function_tool
    def ping() -> str:
        return "mine"

    asked: list[Json] = []
    model = Model(Turn(calls=(Ask("ping"),)), Turn(text="Done."))
    agent = OpenAIAgents(Agent(name="a", model=model, tools=[ping]))
    async with at_work(agent, {"ping": (PING, asked.append)}) as page:
        assert (await page.run("go").finished)["depth"] == 0
    assert asked == []
    assert model.script.asked[1].history[-1] == Result("ping", "mine")


async def test_an_own_tool_that_waits_for_approval_fails_the_step_and_says_so() -> None:
    @function_tool(needs_approval=True)
    def pay() -> None: ...

    model = Model(Turn(calls=(Ask("pay"),)), Turn(text="So."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model, tools=[pay]))) as page:
        with pytest.raises(RunFailed, match="approval of the page's tools is the bridge's"):
            await page.run("pay").finished
        assert (await page.run("so?").finished)["reason"] == "completed"


async def test_an_id_that_comes_again_in_a_later_answer_is_another_call() -> None:
    """Many servers count anew in each answer; behaviour.md 3."""

    @function_tool
    def price(sku: str) -> str:
        return sku.upper()

    def asks(sku: str) -> Turn:
        return Turn(calls=(Ask("price", {"sku": sku}, id="call_0"), Ask("ping", id="call_1")))

    model = Model(asks("a"), asks("b"), Turn(text="Done."), asks("c"), Turn(text="Again."))
    pings = iter(range(9))
    tools = {"ping": (PING, lambda _: str(next(pings)))}
    async with at_work(OpenAIAgents(Agent(name="a", model=model, tools=[price])), tools) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        assert (await page.run("again").finished)["reason"] == "completed"
        assert texts(page) == "Done.Again."
        told = [event["content"] for event in events(page, "TOOL_CALL_RESULT")]
    assert sorted(told) == ["0", "1", "2", "A", "B", "C"]
    put = model.given[-1][1]
    asked = [item["call_id"] for item in put if item.get("type") == "function_call"]
    outputs = {
        item["call_id"]: item["output"]
        for item in put
        if item.get("type") == "function_call_output"
    }
    assert len(set(asked)) == 6
    assert [outputs[each] for each in asked] == ["A", "0", "B", "1", "C", "2"]


async def test_two_calls_of_one_id_in_one_answer_are_two_calls() -> None:
    calls = (Ask("say", {"n": 1}, id="x"), Ask("say", {"n": 2}, id="x"), Ask("say", {"n": 3}))
    model = Model(Turn(calls=calls), Turn(text="Done."))
    said: list[Json] = []
    tools = {"say": (PING, lambda args: said.append(args["n"]))}
    async with at_work(OpenAIAgents(Agent(name="a", model=model)), tools) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
    assert sorted(said) == [1, 2, 3]


# ---- hand-offs -----------------------------------------------------------------------------------


async def test_a_handoff_is_shown_and_the_next_agent_has_the_pages_tools() -> None:
    billing = Agent(
        name="billing", model=Model(Turn(calls=(Ask("ping", id="b1"),)), Turn(text="Paid."))
    )
    front = Agent(
        name="front", model=Model(Turn(calls=(Ask("transfer_to_billing"),))), handoffs=[billing]
    )
    async with at_work(OpenAIAgents(front), PONG) as page:
        done = await page.run("the bill").finished
        assert done == {"reason": "completed", "depth": 0}
        (shown,) = events(page, "ACTIVITY_SNAPSHOT")
        assert shown["activityType"] == "handoff"
        assert shown["content"] == {"from": "front", "to": "billing"}
        assert [event["toolCallName"] for event in events(page, "TOOL_CALL_START")] == ["ping"]
        assert texts(page) == "Paid."
    assert billing.model.tools(0) == ["ping"]


async def test_agents_that_hand_over_to_each_other_come_back() -> None:
    turns = Turn(calls=(Ask("transfer_to_two"),)), Turn(text="Back again.")
    one = Agent(name="one", model=Model(*turns))
    there: list[str] = []
    two = Agent(
        name="two", model=Model(Turn(calls=(Ask("transfer_to_one", id="b1"),))), handoffs=[one]
    )
    one.handoffs = [handoff(two, on_handoff=lambda _: there.append("two"))]
    async with at_work(OpenAIAgents(one), PONG) as page:
        await page.run("go").finished
        content = [event["content"] for event in events(page, "ACTIVITY_SNAPSHOT")]
        assert content == [{"from": "one", "to": "two"}, {"from": "two", "to": "one"}]
        assert texts(page) == "Back again."
    assert there == ["two"]
    assert one.model.tools(1) == ["ping"]


async def test_the_agents_given_are_never_changed() -> None:
    billing = Agent(name="billing", model=Model())
    front = Agent(name="front", model=Model(Turn(text="Hi.")), handoffs=[billing])
    before = (dict(vars(front)), dict(vars(billing)))
    async with at_work(OpenAIAgents(front), PONG) as page:
        await page.run("hi").finished
    assert (vars(front), vars(billing)) == before
    assert front.handoffs == [billing]


async def test_instructions_and_the_pages_context_are_told_to_every_agent() -> None:
    billing = Agent(name="billing", instructions="Be exact.", model=Model(Turn(text="Paid.")))
    front = Agent(
        name="front", model=Model(Turn(calls=(Ask("transfer_to_billing"),))), handoffs=[billing]
    )
    async with at_work(OpenAIAgents(front)) as page:
        page.context("cart", "what is in it", ["x"])
        await page.run("hi").finished
    assert 'cart (what is in it): ["x"]' in front.model.given[0][0]
    assert billing.model.given[0][0].startswith("Be exact.\n\n")
    assert 'cart (what is in it): ["x"]' in billing.model.given[0][0]


# ---- outputs, thoughts, media --------------------------------------------------------------------


class Answer(BaseModel):
    colour: str


async def test_a_structured_output_is_the_runs_output() -> None:
    model = Model(Turn(calls=(Ask("paint"),)), Turn(text='{"colour":"red"}'))
    agent = Agent(name="a", model=model, output_type=Answer)
    seen: list[Json] = []
    tools = {"*": ({"description": "all else"}, lambda args: seen.append(args))}
    async with at_work(OpenAIAgents(agent), tools) as page:
        done = await page.run("which?").finished
        assert done == {"reason": "completed", "depth": 0, "output": {"colour": "red"}}
    assert seen == [{"toolName": "paint", "args": {}}]


async def test_a_tools_result_that_is_the_final_output_is_the_runs() -> None:
    @function_tool
    def total() -> str:
        return "42"

    model = Model(Turn(text="Adding. ", calls=(Ask("total"),)))
    agent = Agent(name="a", model=model, tools=[total], tool_use_behavior="stop_on_first_tool")
    async with at_work(OpenAIAgents(agent)) as page:
        assert (await page.run("add").finished)["output"] == "42"
        assert texts(page) == "Adding. "


async def test_encrypted_thoughts_go_back_to_the_provider_unread() -> None:
    thought = r.ResponseReasoningItem(
        id="rs_1", summary=[], type="reasoning", encrypted_content="c2VjcmV0"
    )
    item = r.ResponseOutputItemDoneEvent(
        type="response.output_item.done", item=thought, output_index=0, sequence_number=0
    )
    model = Model([item, ended(Turn(text="Yes."), "r1")], Turn(text="Still."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model))) as page:
        await page.run("is it?").finished
        await page.run("sure?").finished
        assert "c2VjcmV0" not in str(events(page, "REASONING_MESSAGE_CONTENT"))
    told = [item for item in model.given[1][1] if item.get("type") == "reasoning"]
    assert told == [
        {"id": "rs_1", "summary": [], "type": "reasoning", "encrypted_content": "c2VjcmV0"}
    ]


async def test_images_of_users_and_of_results_are_given_as_images() -> None:
    source = {"type": "data", "value": base64.b64encode(b"png").decode(), "mimeType": "image/png"}
    picture = {"type": "image", "source": source}
    model = Model(Turn(calls=(Ask("look"),)), Turn(text="A cat."), Turn(text="Still."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model)), {"look": (PING, None)}) as page:
        asked = [{"type": "text", "text": "this?"}, picture]
        run = page.run({"id": "u1", "role": "user", "content": asked})
        await (await page.next_call()).give([{"type": "text", "text": "seen"}, picture])
        await run.finished
        await page.run("still?").finished
    for time in (1, 2):
        items = model.given[time][1]
        (result,) = (item for item in items if item.get("type") == "function_call_output")
        for content in (items[0]["content"], result["output"]):
            assert [part["type"] for part in content] == ["input_text", "input_image"]
            assert content[1]["image_url"] == "data:image/png;base64,cG5n"


async def test_names_that_providers_refuse_are_mapped_there_and_back() -> None:
    model = Model(Turn(calls=(Ask("cart_add"),)), Turn(text="Added."), Turn(text="Yes."))
    added: list[Json] = []
    agent = OpenAIAgents(Agent(name="a", model=model))
    async with at_work(agent, {"cart.add": (PING, added.append)}) as page:
        await page.run("add it").finished
        await page.run("is it?").finished
        (start,) = events(page, "TOOL_CALL_START")
        assert start["toolCallName"] == "cart.add"
    assert added == [{}]
    assert model.tools(0) == ["cart_add"]
    assert Said("", ("cart_add",)) in model.script.asked[2].history


async def test_the_schema_is_the_librarys_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, "b"], "x-odd": True}}}
    model = Model(Turn(text="Seen."))
    tools = {"pick": ({**PING, "parameters": schema}, lambda _: None)}
    async with at_work(OpenAIAgents(Agent(name="a", model=model)), tools) as page:
        await page.run("go").finished
    (tool,) = model.given[0][3]
    assert (tool.params_json_schema, tool.description) == (schema, "answers")
    assert tool.strict_json_schema is False


# ---- many at once, and ends ----------------------------------------------------------------------


class Echo(Model):
    """Calls `ping`, and then says whose pong it was."""

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        items, (tool,) = given[1], given[3]
        first = len(items) == 1
        said = f"{items[0]['content']}: {items[-1].get('output')} of {tool.description}"
        script = Script(Turn(calls=(Ask("ping"),)) if first else Turn(text=said))
        async for event in Scripted(script).stream_response(*given, **more):
            yield event


async def test_p8_one_agent_serves_two_threads_at_once() -> None:
    bridge = Bridge(agents={"default": OpenAIAgents(Agent(name="a", model=Echo()))})
    both = asyncio.Barrier(2)

    async def told(name: str) -> str:
        async def ping(_: Json) -> str:
            await both.wait()
            return f"pong to {name}"

        tools = {"ping": ({**PING, "description": f"{name}'s"}, ping)}
        async with Page(bridge, tools=tools, threads=[name]) as page:
            await page.run(name).finished
            return texts(page)

    said = await asyncio.gather(told("one"), told("two"))
    await bridge.close()
    assert said == ["one: pong to one of one's", "two: pong to two of two's"]


async def test_p5_an_abort_ends_an_own_tool_and_leaves_no_task_behind() -> None:
    begun, ended_ = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended_.set()

    model = Model(Turn(calls=(Ask("slow"),)), Turn(text="Here."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model, tools=[slow]))) as page:
        tasks = asyncio.all_tasks()
        run = page.run("go")
        await asyncio.wait_for(begun.wait(), 5)
        assert await page.abort(run.id)
        assert (await run.finished)["reason"] == "aborted"
        await asyncio.wait_for(ended_.wait(), 5)
        left = {task for task in asyncio.all_tasks() - tasks if not task.done()}
        if left:
            await asyncio.wait(left, timeout=5)
        assert not {task for task in left if not task.done()}
        assert (await page.run("still there?").finished)["reason"] == "completed"


async def test_p5_a_tool_that_raises_takes_the_pages_call_beside_it_with_it() -> None:
    held = asyncio.Event()

    @function_tool(failure_error_function=None)
    async def broken() -> None:
        await held.wait()
        raise OSError("disk")

    model = Model(Turn(calls=(Ask("slow"), Ask("broken"))), Turn(text="Again."))
    agent = OpenAIAgents(Agent(name="a", model=model, tools=[broken]))
    async with at_work(agent, {"slow": (PING, None)}) as page:
        run = page.run("go")
        slow = await page.next_call("slow")
        held.set()
        with pytest.raises(RunFailed):
            await run.finished
        await page.until(slow.signal.is_set, "the call's cancel")
        assert (await page.run("again").finished)["reason"] == "completed"


# ---- failures ------------------------------------------------------------------------------------


def refused() -> Exception:
    request = httpx.Request("POST", "https://api.example/v1/responses")
    body = {"error": {"message": "Incorrect API key provided: sk-secret-1234"}}
    return openai.AuthenticationError(
        "401", response=httpx.Response(401, request=request), body=body
    )


async def test_p14_a_failure_is_one_line_without_secrets_and_what_was_said_is_kept() -> None:
    text = r.ResponseTextDeltaEvent(
        type="response.output_text.delta",
        delta="Well, ",
        item_id="m",
        output_index=0,
        content_index=0,
        logprobs=[],
        sequence_number=0,
    )
    model = Model([text, refused()])
    async with at_work(OpenAIAgents(Agent(name="a", model=model))) as page:
        with pytest.raises(RunFailed, match=r"provider_error: .*key was refused") as failed:
            await page.run("go").finished
        assert "sk-secret" not in str(failed.value)
        assert texts(page) == "Well, "


async def test_a_loop_that_never_ends_is_ended_and_told() -> None:
    model = Model(*[Turn(calls=(Ask("ping"),)) for _ in range(3)])
    async with at_work(OpenAIAgents(Agent(name="a", model=model), max_turns=2), PONG) as page:
        with pytest.raises(RunFailed, match=r"Max turns \(2\)"):
            await page.run("go").finished


async def test_a_guardrail_denies_the_run() -> None:
    @guardrail
    async def no_sums(context: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    model = Model(Turn(text="4"))
    async with at_work(
        OpenAIAgents(Agent(name="a", model=model, input_guardrails=[no_sums]))
    ) as page:
        with pytest.raises(RunFailed, match="denied: a guardrail stopped the agent: no_sums"):
            await page.run("2+2").finished


# ---- tracing -------------------------------------------------------------------------------------


class Heard(TracingProcessor):
    """Keeps every trace and span."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.told.append(trace)

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None:
        self.told.append(span)

    def on_span_end(self, span: Any) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    set_trace_processors([heard])
    yield heard
    set_trace_processors([])


@pytest.mark.parametrize("tracing", [False, True])
async def test_nothing_is_traced_unless_asked_for(heard: Heard, tracing: bool) -> None:
    @function_tool
    async def inner() -> str:
        return "x"

    expert = Agent(name="expert", model=Model(Turn(calls=(Ask("inner"),)), Turn(text="Yes.")))
    expert.tools = [inner]
    front = Agent(name="front", model=Model(Turn(calls=(Ask("ask"),)), Turn(text="Done.")))
    front.tools = [expert.as_tool("ask", "asks an expert")]
    front.model.get_response = expert.model.get_response = None
    agent = OpenAIAgents(front, tracing=tracing, run_config=RunConfig(workflow_name="w"))
    async with at_work(agent, PONG) as page:
        await page.run("go").finished
        assert texts(page) == "Done."
    assert bool(heard.told) is tracing


async def test_an_empty_thread_has_nothing_to_answer() -> None:
    async with at_work(OpenAIAgents(Agent(name="a", model=Model()))) as page:
        with pytest.raises(RunFailed, match="nothing to answer"):
            await page.run(None).finished


async def test_a_history_that_ends_with_the_model_is_asked_on() -> None:
    model = Model(Turn(text="One."), Turn(text="And two."))
    async with at_work(OpenAIAgents(Agent(name="a", model=model))) as page:
        await page.run("count").finished
        await page.run(None).finished
        assert texts(page) == "One.And two."
    assert model.script.asked[1].history == (UserText("count"), Said("One."))
