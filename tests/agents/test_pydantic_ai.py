"""What only the adapter of pydantic-ai has: own tools, outputs, prompts, signatures, failures."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, BinaryContent, RunContext, UsageLimits
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

from handspan import Bridge, Run
from handspan.agents import PydanticAI
from handspan.testing import Page
from handspan.testing.story import RunFailed

Json = Any
Said = str | dict[int, Any]

PING = {"description": "answers", "readOnly": True}


class Model(FunctionModel):
    """Says one list of items each time it is asked, and keeps what it was shown."""

    def __init__(self, *turns: Sequence[Said] | Exception) -> None:
        super().__init__(stream_function=self._say, model_name="scripted")
        self.shown: list[list[m.ModelMessage]] = []
        self.infos: list[Any] = []
        self._turns = list(turns)

    async def _say(self, messages: list[m.ModelMessage], info: Any) -> AsyncIterator[Said]:
        self.shown.append(list(messages))
        self.infos.append(info)
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        for item in turn:
            yield item

    def requests(self, time: int) -> list[Any]:
        """The parts of requests that it was shown at that time."""
        return [p for each in self.shown[time] if each.kind == "request" for p in each.parts]


def call(name: str, args: str = "{}", id: str | None = None, at: int = 1) -> Said:
    return {at: DeltaToolCall(name=name, json_args=args, tool_call_id=id)}


@asynccontextmanager
async def at_work(agent: Any, tools: Json = None, **options: Any) -> AsyncIterator[Page]:
    bridge = Bridge(agents={"default": agent}, **options)
    try:
        async with Page(bridge, tools=tools or {}) as page:
            yield page
    finally:
        await bridge.close()


def events(page: Page, kind: str) -> list[Json]:
    return [event for event in page.events if event["type"] == kind]


async def test_the_agents_own_tools_are_shown_beside_the_pages() -> None:
    model = Model([call("price", '{"sku":"x"}'), call("ping", at=2)], ["Seven."])
    agent = Agent(model)

    @agent.tool_plain
    def price(sku: str) -> dict[str, int]:
        return {sku: 7}

    async with at_work(PydanticAI(agent), {"ping": (PING, lambda _: "pong")}) as page:
        done = await page.run("what is x?").finished
        assert done == {"reason": "completed", "depth": 0}
        names = [event["toolCallName"] for event in events(page, "TOOL_CALL_START")]
        assert names == ["price", "ping"]
        told = [event["content"] for event in events(page, "TOOL_CALL_RESULT")]
        assert told == ['{"x":7}', "pong"]
    assert [tool.name for tool in model.infos[0].function_tools] == ["ping", "price"]
    parts = [part for part in model.requests(1) if isinstance(part, m.ToolReturnPart)]
    assert [part.tool_name for part in parts] == ["price", "ping"]


async def test_what_the_agents_own_tool_said_is_in_the_next_runs_history() -> None:
    model = Model([call("price")], ["Seven."], ["Still seven."])
    agent = Agent(model)

    @agent.tool_plain
    def price() -> int:
        return 7

    async with at_work(PydanticAI(agent)) as page:
        await page.run("what is it?").finished
        await page.run("and now?").finished
    (part,) = (part for part in model.requests(2) if isinstance(part, m.ToolReturnPart))
    assert (part.tool_name, part.content) == ("price", "7")


async def test_p13_an_own_tool_is_no_business_of_the_pages_wildcard() -> None:
    model = Model([call("price")], ["Seven."])
    agent = Agent(model)

    @agent.tool_plain
    def price() -> int:
        return 7

    asked: list[Json] = []
    async with at_work(PydanticAI(agent), {"*": ({"description": "else"}, asked.append)}) as page:
        assert (await page.run("what is it?").finished)["depth"] == 0
        assert [event["content"] for event in events(page, "TOOL_CALL_RESULT")] == ["7"]
    assert asked == []


async def test_an_own_tool_stands_before_the_pages_of_the_same_name() -> None:
    model = Model([call("ping")], ["Done."])
    agent = Agent(model)

    @agent.tool_plain
    def ping() -> str:
        return "mine"

    asked: list[Json] = []
    async with at_work(PydanticAI(agent), {"ping": (PING, asked.append)}) as page:
        assert (await page.run("go").finished)["depth"] == 0
    assert asked == []
    assert model.requests(1)[-1].content == "mine"


async def test_p3_the_models_text_reaches_the_bridge_as_it_was_written() -> None:
    model = Model([call("ping", '{"n": 1, "n":')], [call("ping", '{"n": 10.0}')], ["Done."])
    seen: list[Json] = []
    async with at_work(PydanticAI(Agent(model)), {"ping": (PING, seen.append)}) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        args = [event["delta"] for event in events(page, "TOOL_CALL_ARGS")]
    assert args == ['{"n": 1, "n":', '{"n": 10.0}']
    assert seen == [{"n": 10.0}]
    assert "invalid_arguments" in model.requests(1)[-1].content


async def test_an_id_that_was_used_before_is_another_call() -> None:
    """In the same answer, in an earlier one, and in an earlier run; behaviour.md 3."""
    twice = [call("say", '{"n":1}', "x", 1), call("say", '{"n":2}', "x", 2)]
    model = Model(twice, [call("say", '{"n":3}', "x")], ["Done."], twice, ["Again."])
    said: list[Json] = []
    tools = {"say": (PING, lambda args: said.append(args["n"]) or f"said {args['n']}")}
    async with at_work(PydanticAI(Agent(model)), tools) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        assert (await page.run("again").finished)["reason"] == "completed"
    assert [sorted(said[:2]), said[2], sorted(said[3:])] == [[1, 2], 3, [1, 2]]
    parts = [part for each in model.shown[-1] for part in each.parts]
    asked = {each.tool_call_id: each.args for each in parts if isinstance(each, m.ToolCallPart)}
    told = {each.tool_call_id: each.content for each in parts if isinstance(each, m.ToolReturnPart)}
    assert len(asked) == 5
    assert {id: f"said {json.loads(args)['n']}" for id, args in asked.items()} == told


async def test_signatures_go_back_to_the_provider_unread() -> None:
    thought = {0: DeltaThinkingPart(content="Hm.")}
    signed = {0: DeltaThinkingPart(signature="c2ln")}
    model = Model([thought, signed, "Yes."], ["Still yes."])
    async with at_work(PydanticAI(Agent(model))) as page:
        await page.run("is it?").finished
        await page.run("sure?").finished
    response = model.shown[1][1]
    assert isinstance(response, m.ModelResponse)
    assert response.parts[0] == m.ThinkingPart("Hm.", signature="c2ln", provider_name="function")
    assert response.text == "Yes."


async def test_a_structured_output_is_the_runs_output() -> None:
    class Answer(BaseModel):
        colour: str

    model = Model([call("ping", at=1)], [call("final_result", '{"colour":"red"}')])
    agent = PydanticAI(Agent(model, output_type=Answer))
    async with at_work(agent, {"ping": (PING, lambda _: "pong")}) as page:
        done = await page.run("which?").finished
        assert done == {"reason": "completed", "depth": 0, "output": {"colour": "red"}}
        assert [event["toolCallName"] for event in events(page, "TOOL_CALL_START")] == ["ping"]


async def test_p13_a_name_nobody_has_is_the_bridges_beside_a_structured_output() -> None:
    model = Model([call("paint")], [call("final_result", '{"response":3}')])
    seen: list[Json] = []
    tools = {"*": ({"description": "all else"}, lambda args: seen.append(args))}
    async with at_work(PydanticAI(Agent(model, output_type=int)), tools) as page:
        assert (await page.run("paint").finished)["output"] == 3
    assert seen == [{"toolName": "paint", "args": {}}]
    assert model.infos[0].function_tools == []


async def test_system_prompts_and_the_pages_context_are_told_in_every_run() -> None:
    model = Model(["One."], ["Two."])
    agent = Agent(model, system_prompt="Be brief.", instructions="Be kind.")
    bridge = Bridge(agents={"default": PydanticAI(agent)})
    async with Page(bridge) as page:
        page.context("cart", "what is in it", ["x"])
        await page.run("1").finished
        await page.run("2").finished
    await bridge.close()
    for time in (0, 1):
        assert "Be kind." in model.infos[time].instructions
        assert 'cart (what is in it): ["x"]' in model.infos[time].instructions
        prompts = [p for p in model.requests(time) if isinstance(p, m.SystemPromptPart)]
        assert [prompt.content for prompt in prompts] == ["Be brief."]


async def test_deps_are_made_of_the_run() -> None:
    model = Model([call("who")], ["Done."])
    agent = Agent(model, deps_type=str)

    @agent.tool
    def who(ctx: RunContext[str]) -> str:
        return ctx.deps

    def deps(run: Run) -> str:
        return f"of {run.thread_id}"

    async with at_work(PydanticAI(agent, deps=deps)) as page:
        await page.run("who?").finished
        (result,) = events(page, "TOOL_CALL_RESULT")
        assert result["content"] == f"of {page.thread_id}"


async def test_p8_one_agent_serves_two_threads_at_once() -> None:
    def prompt(messages: list[m.ModelMessage]) -> str:
        return str(messages[0].parts[0].content)

    async def say(messages: list[m.ModelMessage], info: Any) -> AsyncIterator[Said]:
        if len(messages) == 1:
            yield call("ping")
        else:
            yield f"{prompt(messages)}: {messages[-1].parts[0].content} of {info.function_tools}"

    bridge = Bridge(agents={"default": PydanticAI(Agent(FunctionModel(stream_function=say)))})
    both = asyncio.Barrier(2)

    async def told(name: str) -> str:
        async def ping(_: Json) -> str:
            await both.wait()
            return f"pong to {name}"

        tools = {"ping": ({**PING, "description": name}, ping)}
        async with Page(bridge, tools=tools, threads=[name]) as page:
            await page.run(name).finished
            return "".join(e["delta"] for e in events(page, "TEXT_MESSAGE_CONTENT"))

    one, two = await asyncio.gather(told("one"), told("two"))
    await bridge.close()
    assert one.startswith("one: pong to one of")
    assert "description='one'" in one
    assert two.startswith("two: pong to two of")
    assert "description='two'" in two


async def test_p5_a_tool_that_raises_takes_the_pages_call_beside_it_with_it() -> None:
    model = Model([call("slow"), call("broken", at=2)], ["Again."])
    agent = Agent(model)
    held = asyncio.Event()

    @agent.tool_plain
    async def broken() -> None:
        await held.wait()
        raise OSError("disk")

    async with at_work(PydanticAI(agent), {"slow": (PING, None)}) as page:
        run = page.run("go")
        slow = await page.next_call("slow")
        held.set()
        with pytest.raises(RunFailed, match="agent_error"):
            await run.finished
        await page.until(slow.signal.is_set, "the call's cancel")
        assert (await page.run("again").finished)["reason"] == "completed"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (
            ModelHTTPError(401, "gpt-9", body={"error": "key sk-secret"}),
            r"gpt-9: the key was refused \(401\)",
        ),
        (UsageLimits, "provider_error: .*request_limit"),
    ],
)
async def test_p14_a_failure_is_one_line_without_secrets(problem: Any, line: str) -> None:
    limits = UsageLimits(request_limit=0) if problem is UsageLimits else None
    model = Model(problem) if limits is None else Model()
    async with at_work(PydanticAI(Agent(model), usage_limits=limits)) as page:
        with pytest.raises(RunFailed, match=line) as failed:
            await page.run("go").finished
        assert "sk-secret" not in str(failed.value)
        assert "\n" not in str(failed.value)


async def test_an_agent_without_a_model_says_what_is_missing() -> None:
    async with at_work(PydanticAI(Agent())) as page:
        with pytest.raises(RunFailed, match=r"agent_error: .*model"):
            await page.run("go").finished


async def test_an_own_tool_that_waits_for_approval_fails_the_step_and_says_so() -> None:
    from pydantic_ai import DeferredToolRequests

    agent = Agent(Model([call("pay")], ["So."]), output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def pay() -> None:
        raise ApprovalRequired

    async with at_work(PydanticAI(agent)) as page:
        with pytest.raises(RunFailed, match="approval of the page's tools is the bridge's"):
            await page.run("pay").finished
        assert (await page.run("so?").finished)["reason"] == "completed"


async def test_images_of_users_and_of_results_are_given_as_images() -> None:
    source = {"type": "data", "value": base64.b64encode(b"png").decode(), "mimeType": "image/png"}
    picture = {"type": "image", "source": source}
    model = Model([call("look")], ["A cat."], ["Still."])
    async with at_work(PydanticAI(Agent(model)), {"look": (PING, None)}) as page:
        asked = [{"type": "text", "text": "this?"}, picture]
        run = page.run({"id": "u1", "role": "user", "content": asked})
        await (await page.next_call()).give([{"type": "text", "text": "seen"}, picture])
        await run.finished
        await page.run("still?").finished
    image = BinaryContent(b"png", media_type="image/png")
    for time in (1, 2):
        user, result = model.requests(time)[:2]
        assert user.content == ["this?", image]
        assert result.content == ["seen", image]


async def test_a_history_that_ends_with_the_model_is_asked_on() -> None:
    model = Model(["One."], ["And two."])
    async with at_work(PydanticAI(Agent(model))) as page:
        await page.run("count").finished
        await page.run(None).finished
        assert "".join(e["delta"] for e in events(page, "TEXT_MESSAGE_CONTENT")) == "One.And two."
    assert len(model.shown) == 2


async def test_names_that_providers_refuse_are_mapped_there_and_back() -> None:
    model = Model([call("cart_add", id="c1")], ["Added."], ["Yes."])
    added: list[Json] = []
    async with at_work(PydanticAI(Agent(model)), {"cart.add": (PING, added.append)}) as page:
        await page.run("add it").finished
        await page.run("is it?").finished
        (start,) = events(page, "TOOL_CALL_START")
        assert start["toolCallName"] == "cart.add"
    assert added == [{}]
    assert [tool.name for tool in model.infos[0].function_tools] == ["cart_add"]
    assert [part.tool_name for part in model.requests(2) if part.part_kind == "tool-return"] == [
        "cart_add"
    ]


async def test_a_hook_of_the_library_may_change_arguments() -> None:
    from pydantic_ai.capabilities import AbstractCapability

    class Louder(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, args: Any, **_: Any) -> Any:
            args["volume"] = 11
            return args

    seen: list[Json] = []
    agent = Agent(Model([call("ping", '{"a":1}')], ["Done."]))
    louder = PydanticAI(agent, capabilities=[Louder()])
    async with at_work(louder, {"ping": (PING, seen.append)}) as page:
        await page.run("go").finished
    assert seen == [{"a": 1, "volume": 11}]


async def test_the_schema_is_the_librarys_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, "b"], "x-odd": True}}}
    model = Model(["Seen."])
    tools: dict[str, tuple[Json, Callable[[Json], Json]]] = {
        "pick": ({**PING, "parameters": schema}, lambda _: None)
    }
    async with at_work(PydanticAI(Agent(model)), tools) as page:
        await page.run("go").finished
    (tool,) = model.infos[0].function_tools
    assert tool.parameters_json_schema == schema
    assert tool.description == "answers"
