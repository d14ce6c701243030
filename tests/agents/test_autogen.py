"""What AutoGen has beside the contract: its hang, own tools, teams, handoffs, both cancels."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("autogen_agentchat")

from ag_ui.core import Message
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import CancellationToken
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool, StaticStreamWorkbench, StaticWorkbench
from pydantic import TypeAdapter
from tests.contract.agents.autogen_subject import ScriptedClient, assistant
from tests.contract.agents.stage import Ask, Result, Said, Script, Turn, UserText

from handspan import Bridge
from handspan.agents.autogen import AutoGen
from handspan.agents.autogen.messages import spelled
from handspan.model.names import Names
from handspan.testing import Page
from handspan_protocol.errors import UsageError

Json = Any

LONG = "I look first. " * 90
"""More deltas than are taken at once."""

READ = {"description": "reads", "readOnly": True, "parameters": {"type": "object"}}


@asynccontextmanager
async def page_of(agent: Any, tools: Json = None) -> AsyncIterator[Page]:
    bridge = Bridge(agents={"default": agent})
    try:
        async with Page(bridge, tools=tools or {}) as page:
            yield page
    finally:
        await bridge.close()


def bench(*functions: Any, kind: Any = StaticStreamWorkbench) -> Any:
    """A workbench of one's own."""
    return kind([FunctionTool(function, description="own") for function in functions])


def made(script: Script, *functions: Any, **more: Any) -> AutoGen:
    """An assistant with these tools of its own and the page's."""
    own = [bench(*functions)] if functions else []
    return AutoGen(lambda tools: assistant(script, workbench=[*own, tools], **more))


def texts(page: Page) -> list[str]:
    """Of each message."""
    said: dict[str, str] = {}
    for event in page.events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            said[event["messageId"]] = said.get(event["messageId"], "") + event["delta"]
    return list(said.values())


def of(page: Page, kind: str) -> list[Json]:
    return [event for event in page.events if event["type"] == kind]


async def failed(run: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 (what it says is in RUN_ERROR)
        await run.finished


async def nothing_left(before: set[Any]) -> None:
    """No task is at work that was not there before."""
    async with asyncio.timeout(5):
        while asyncio.all_tasks() - before - {asyncio.current_task()}:
            await asyncio.sleep(0)


# ---- the hang ----------------------------------------------------------------------------------


def raises() -> str:
    raise ValueError("no such lamp")


async def cancels() -> str:
    raise asyncio.CancelledError


async def leaves() -> str:
    raise GeneratorExit


@pytest.mark.parametrize("kind", [StaticStreamWorkbench, StaticWorkbench])
@pytest.mark.parametrize("broken", [raises, cancels, leaves])
async def test_a_tool_that_leaves_by_any_door_hangs_nobody(broken: Any, kind: Any) -> None:
    script = Script(Turn(calls=(Ask(broken.__name__), Ask("t"))), Turn(text="Sorry."))
    agent = AutoGen(lambda tools: assistant(script, workbench=[bench(broken, kind=kind), tools]))
    async with page_of(agent, {"t": (READ, lambda _: "fine")}) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
    first, second = script.asked[1].history[-2:]
    assert isinstance(first, Result)
    assert first.text
    assert second == Result("t", "fine")


async def test_a_workbench_that_cannot_list_its_tools_fails_the_run_and_hangs_nobody() -> None:
    class Broken(StaticWorkbench):
        async def list_tools(self) -> Any:
            raise ConnectionError("gone")

    script = Script(Turn(text="never"))
    async with page_of(
        AutoGen(lambda tools: assistant(script, workbench=[Broken([]), tools]))
    ) as page:
        await failed(page.run("go"))
    assert script.asked == []


async def test_a_workbench_that_cannot_list_its_tools_for_a_call_hangs_nobody() -> None:
    class Forgetful(StaticWorkbench):
        listed = 0

        async def list_tools(self) -> Any:
            self.listed += 1
            if self.listed == 2:
                raise ConnectionError("gone")
            return await super().list_tools()

    own = bench(price, kind=Forgetful)
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}), Ask("t"))), Turn(text="Three."))
    agent = AutoGen(lambda tools: assistant(script, workbench=[own, tools]))
    async with page_of(agent, {"t": (READ, lambda _: "fine")}) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
    told = script.asked[1].history[-2:]
    assert told == (Result("price", "a costs 3"), Result("t", "fine"))


@pytest.mark.parametrize("team", [False, True])
async def test_p5_a_stop_while_a_pages_tool_runs_leaves_no_task(team: bool) -> None:
    script = Script(Turn(calls=(Ask("slow"),)), Turn(text="Here."))

    def make(tools: Any) -> Any:
        agent = assistant(script, workbench=tools)
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make), {"slow": (READ, None)}) as page:
        before = asyncio.all_tasks()
        run = page.run("go")
        call = await page.next_call("slow")
        assert await page.abort(run.id)
        assert (await run.finished)["reason"] == "aborted"
        await page.until(call.signal.is_set, "the tool's cancel")
        await nothing_left(before)
    assert len(script.asked) == 1


@pytest.mark.parametrize("team", [False, True])
async def test_p5_a_stop_while_an_own_tool_runs_ends_it_and_leaves_no_task(team: bool) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    script = Script(Turn(calls=(Ask("slow"),)))

    def make(tools: Any) -> Any:
        agent = assistant(script, workbench=[bench(slow), tools])
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make)) as page:
        before = asyncio.all_tasks()
        run = page.run("go")
        async with asyncio.timeout(5):
            await begun.wait()
        assert await page.abort(run.id)
        assert (await run.finished)["reason"] == "aborted"
        await nothing_left(before)
    assert ended.is_set()


@pytest.mark.parametrize("team", [False, True])
async def test_p5_a_stop_while_the_model_hangs_leaves_no_task(team: bool) -> None:
    script = Script(Turn(text="Once", hangs=True))

    def make(tools: Any) -> Any:
        agent = assistant(script, workbench=tools)
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make)) as page:
        before = asyncio.all_tasks()
        run = page.run("go")
        await page.until(lambda: texts(page) == ["Once"], "the text")
        assert await page.abort(run.id)
        await run.finished
        await nothing_left(before)
    assert script.stopped.is_set()


async def test_a_call_whose_token_is_cancelled_is_stopped_at_the_page_and_has_a_result() -> None:
    called = asyncio.Event()
    results: list[Any] = []

    class Impatient(BaseChatAgent):
        """Gives its call up."""

        produced_message_types = (TextMessage,)

        def __init__(self, tools: Any) -> None:
            super().__init__("impatient", "gives up")
            self.tools = tools

        async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
            token = CancellationToken()
            work = asyncio.create_task(self.tools.call_tool("slow", {}, token))
            await called.wait()
            token.cancel()
            results.append(await work)
            return Response(chat_message=TextMessage(content="Given up.", source=self.name))

        async def on_reset(self, cancellation_token: Any) -> None: ...

    async with page_of(AutoGen(Impatient), {"slow": (READ, None)}) as page:
        run = page.run("go")
        call = await page.next_call("slow")
        called.set()
        assert (await run.finished)["reason"] == "completed"
        await page.until(call.signal.is_set, "the tool's cancel")
        assert texts(page) == ["Given up."]
    assert results[0].is_error
    assert "cancelled" in results[0].to_text()


# ---- own tools ---------------------------------------------------------------------------------


async def price(sku: str) -> str:
    return f"{sku} costs 3"


async def test_a_tool_of_the_agents_own_is_shown_with_its_result() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    async with page_of(made(script, price)) as page:
        await page.run("price?").finished
        call = of(page, "TOOL_CALL_START")[0]
        assert call["toolCallName"] == "price"
        assert of(page, "TOOL_CALL_ARGS")[0]["delta"] == '{"sku":"a"}'
        result = of(page, "TOOL_CALL_RESULT")[0]
        assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "a costs 3")
    assert script.asked[1].history[-1] == Result("price", "a costs 3")


async def test_a_tool_of_the_agents_own_asks_for_no_other_step() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    async with page_of(made(script, price)) as page:
        assert await page.run("price?").finished == {"reason": "completed", "depth": 0}
    assert len(script.asked) == 2


async def test_p2_a_tool_that_both_have_is_the_agents_and_shown_to_the_model_once() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    seen: list[Json] = []
    agent = AutoGen(lambda tools: assistant(script, workbench=[tools, bench(price)]))
    async with page_of(agent, {"price": (READ, seen.append)}) as page:
        assert (await page.run("price?").finished)["depth"] == 0
    assert seen == []
    assert script.asked[0].tools == ("price",)
    assert script.asked[1].history[-1] == Result("price", "a costs 3")


async def test_an_agent_that_was_not_given_the_pages_tools_has_none() -> None:
    script = Script(Turn(calls=(Ask("t"),)), Turn(text="I cannot."))
    seen: list[Json] = []
    async with page_of(AutoGen(lambda tools: assistant(script)), {"t": (READ, seen.append)}) as p:
        await p.run("go").finished
    assert seen == []
    assert script.asked[0].tools == ()


@pytest.mark.parametrize("team", [False, True])
async def test_a_call_stands_behind_the_text_that_was_said_before_it(team: bool) -> None:
    script = Script(Turn(text=LONG, calls=(Ask("look"),)), Turn(text="Blue."))

    def make(tools: Any) -> Any:
        agent = AssistantAgent(
            "a",
            ScriptedClient(script, hasty=True),
            workbench=tools,
            model_client_stream=True,
            max_tool_iterations=2,
        )
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make), {"look": (READ, lambda _: "blue")}) as page:
        await page.run("look").finished
        assert texts(page) == [LONG, "Blue."]
        order = [e["type"] for e in page.events if e["type"].startswith(("TEXT_", "TOOL_"))]
    calls = [at for at, kind in enumerate(order) if kind == "TOOL_CALL_START"]
    assert order[calls[0] - 1] == "TEXT_MESSAGE_END"


# ---- arguments and names -----------------------------------------------------------------------


@pytest.mark.parametrize("raw", ['{"theme": "dar', '["dark"]', "3"])
async def test_p3_arguments_that_are_no_object_never_reach_the_page(raw: str) -> None:
    script = Script(Turn(calls=(Ask("t", raw),)), Turn(text="Sorry."))
    seen: list[Json] = []
    async with page_of(made(script), {"t": (READ, seen.append)}) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        assert texts(page) == ["Sorry."]
    assert seen == []


async def test_p13_names_that_autogens_clients_refuse_are_spelled_and_read_back() -> None:
    script = Script(Turn(calls=(Ask("cart_add_2"),)), Turn(text="Added."), Turn(text="Again."))
    seen: list[str] = []
    tools = {
        "cart_add": (READ, lambda _: seen.append("cart_add")),
        "cart.add": (READ, lambda _: seen.append("cart.add")),
    }
    async with page_of(made(script), tools) as page:
        await page.run("add").finished
        await page.run("again").finished
    assert script.asked[0].tools == ("cart_add", "cart_add_2")
    assert seen == ["cart.add"]
    assert Said("", ("cart_add_2",)) in script.asked[2].history


async def test_p11_the_model_is_shown_the_schema_that_the_page_registered() -> None:
    schema = {"type": "object", "properties": {"theme": {"enum": ["dark"]}}, "required": ["theme"]}
    client = ScriptedClient(Script(Turn(text="ok")))
    agent = AutoGen(lambda tools: AssistantAgent("a", client, workbench=tools))
    async with page_of(agent, {"t": ({**READ, "parameters": schema}, None)}) as page:
        await page.run("go").finished
    assert client.schemas[0][0]["parameters"] == schema


async def test_an_image_that_a_page_gives_is_described_since_autogen_has_only_text() -> None:
    script = Script(Turn(calls=(Ask("shoot"),)), Turn(text="A cat."))
    image = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    async with page_of(made(script), {"shoot": (READ, None)}) as page:
        run = page.run("go")
        call = await page.next_call("shoot")
        await call.give([{"type": "text", "text": "here"}, image])
        await run.finished
    assert script.asked[1].history[-1] == Result("shoot", "here\n[image/png, 3 bytes]")


# ---- what an agent may be ----------------------------------------------------------------------


async def test_p8_an_instance_is_copied_for_each_run_and_remembers_nothing() -> None:
    script = Script(Turn(text="one"), Turn(text="two"))
    agent = assistant(script)
    async with page_of(AutoGen(agent)) as page:
        await page.run("a").finished
        await page.run("b").finished
    assert script.asked[1].history == (UserText("a"), Said("one"), UserText("b"))
    assert await agent.model_context.get_messages() == []


async def test_p8_one_adapter_serves_two_threads_at_once() -> None:
    script = Script(*(Turn(calls=(Ask("which"),)) for _ in "ab"))
    bridge = Bridge(agents={"default": AutoGen(assistant(script))})
    which = {"which": (READ, None)}
    async with Page(bridge, tools=which) as one, Page(bridge, tools=which, threads=["t2"]) as two:
        runs = [one.run("a"), two.run("b")]
        calls = [await one.next_call("which"), await two.next_call("which")]
        await calls[1].answer("two")
        await runs[1].finished
        await calls[0].answer("one")
        await runs[0].finished
    await bridge.close()
    told = {asked.history[0]: asked.history[-1] for asked in script.asked[2:]}
    assert told == {UserText("a"): Result("which", "one"), UserText("b"): Result("which", "two")}


def test_an_instance_that_keeps_what_it_heard_is_refused_at_once() -> None:
    team = RoundRobinGroupChat([assistant(Script())])
    with pytest.raises(UsageError, match="lambda tools"):
        AutoGen(team)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        AutoGen(None)  # type: ignore[arg-type]


async def test_a_function_that_gives_no_agent_fails_the_run_and_says_so() -> None:
    async with page_of(AutoGen(lambda tools: "agent")) as page:
        await failed(page.run("go"))
        message = of(page, "RUN_ERROR")[0]["message"]
    assert message == "an agent or a team was expected, not a str"


class Echo(BaseChatAgent):
    """An agent that is no AssistantAgent: says what it was told."""

    produced_message_types = (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        told = " | ".join(f"{m.source}: {m.to_text()}" for m in messages)
        return Response(chat_message=TextMessage(content=told, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


async def test_an_agent_without_a_model_context_is_asked_the_whole_history() -> None:
    async with page_of(AutoGen(lambda tools: Echo("echo", "echoes"))) as page:
        await page.run("a").finished
        await page.run("b").finished
        assert texts(page) == ["user: a", "user: a | echo: user: a | user: b"]


async def test_a_client_that_does_not_stream_is_said_as_a_whole() -> None:
    script = Script(Turn(thought="hm", text="One. "), Turn(text="Two."))

    def make(tools: Any) -> Any:
        return AssistantAgent("a", ScriptedClient(script), workbench=tools)

    async with page_of(AutoGen(make)) as page:
        await page.run("go").finished
        assert texts(page) == ["One. "]
        assert of(page, "REASONING_MESSAGE_CONTENT")[0]["delta"] == "hm"


async def test_an_agent_of_one_iteration_ends_with_the_summary_of_its_calls() -> None:
    script = Script(Turn(calls=(Ask("t"),)))

    def make(tools: Any) -> Any:
        return AssistantAgent("a", ScriptedClient(script), workbench=tools)

    async with page_of(AutoGen(make), {"t": (READ, lambda _: "found it")}) as page:
        await page.run("go").finished
        assert texts(page) == ["found it"]
    assert len(script.asked) == 1


async def test_instructions_stand_behind_the_agents_own() -> None:
    client = ScriptedClient(Script(Turn(text="ok")))
    agent = AutoGen(
        lambda tools: AssistantAgent("a", client, system_message="Own."), instructions="Ours."
    )
    async with page_of(agent) as page:
        await page.run("go").finished
    shown = [m.content for m in client.shown[0]]
    assert shown == ["Own.", "Ours.", "go"]
    assert [type(m) for m in client.shown[0][:2]] == [SystemMessage, SystemMessage]


# ---- teams -------------------------------------------------------------------------------------


async def test_a_handoff_is_shown_as_an_activity_and_each_speaks_under_its_name() -> None:
    front, back = Script(Turn(calls=(Ask("transfer_to_back"),))), Script(Turn(text="At work."))

    def make(tools: Any) -> Any:
        one = AssistantAgent("front", ScriptedClient(front), handoffs=["back"])
        two = AssistantAgent("back", ScriptedClient(back), model_client_stream=True)
        return Swarm([one, two], termination_condition=MaxMessageTermination(3))

    async with page_of(AutoGen(make)) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        shown = of(page, "ACTIVITY_SNAPSHOT")
        assert [(e["activityType"], e["content"]) for e in shown] == [
            ("handoff", {"from": "front", "to": "back"})
        ]
        assert texts(page) == ["At work."]
        assert of(page, "TEXT_MESSAGE_START")[0]["name"] == "back"
        assert of(page, "TOOL_CALL_START") == []


async def test_a_handoff_out_of_the_agent_ends_the_run() -> None:
    script = Script(Turn(calls=(Ask("transfer_to_user"),)))

    def make(tools: Any) -> Any:
        agent = assistant(script, workbench=tools, handoffs=["user"])
        return Swarm([agent], termination_condition=HandoffTermination("user"))

    async with page_of(AutoGen(make), {"t": (READ, None)}) as page:
        assert (await page.run("go").finished)["reason"] == "completed"
        assert of(page, "ACTIVITY_SNAPSHOT")[0]["content"] == {"from": "helper", "to": "user"}
    assert script.asked[0].tools == ("t", "transfer_to_user")


async def test_each_member_of_a_team_has_the_history_and_the_newest_message_once() -> None:
    scripts = Script(Turn(text="1a"), Turn(text="2a")), Script(Turn(text="1b"), Turn(text="2b"))

    def make(tools: Any) -> Any:
        agents = [
            AssistantAgent(name, ScriptedClient(script), model_client_stream=True)
            for name, script in zip("ab", scripts, strict=True)
        ]
        return RoundRobinGroupChat([*agents], max_turns=2)

    async with page_of(AutoGen(make)) as page:
        await page.run("one").finished
        await page.run("two").finished
        assert texts(page) == ["1a", "1b", "2a", "2b"]
    first = (UserText("one"), Said("1a1b"), UserText("two"))
    assert scripts[0].asked[1].history == first
    assert scripts[1].asked[1].history == (*first, UserText("2a"))


async def test_a_team_in_a_team_is_heard_and_a_selectors_choice_is_only_counted() -> None:
    choice = Script(Turn(text="inner", tokens=(9, 1)))
    script = Script(Turn(text="Chosen.", tokens=(1, 1)))

    def make(tools: Any) -> Any:
        other = AssistantAgent("other", ScriptedClient(Script()), description="other")
        inner = RoundRobinGroupChat(
            [AssistantAgent("a", ScriptedClient(script), model_client_stream=True)],
            name="inner",
            description="inner",
            max_turns=1,
        )
        return SelectorGroupChat([inner, other], ScriptedClient(choice), max_turns=1)

    async with page_of(AutoGen(make)) as page:
        await page.run("go").finished
        assert texts(page) == ["Chosen."]
        usage = of(page, "RUN_FINISHED")[0]["usage"]
    assert (usage[0]["inputTokens"], usage[0]["outputTokens"]) == (10, 2)


class RefusedError(Exception):
    status_code = 401


class Refusing(ScriptedClient):
    """A client whose provider refuses."""

    async def create_stream(self, messages: Any, **options: Any) -> Any:
        raise RefusedError("Incorrect API key provided: sk-123")
        yield


@pytest.mark.parametrize("team", [False, True])
async def test_a_provider_that_refuses_is_told_in_one_line_without_its_body(team: bool) -> None:
    def make(tools: Any) -> Any:
        agent = AssistantAgent("a", Refusing(Script()), model_client_stream=True)
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make)) as page:
        await failed(page.run("go"))
        event = of(page, "RUN_ERROR")[0]
    assert event["code"] == "provider_error"
    assert event["message"] == "the model's provider answered 401 (RefusedError)"


class APIConnectionError(Exception):
    """The name that providers' libraries share."""


class Unreachable(ScriptedClient):
    """A client whose provider is not there; what it raises is wrapped."""

    async def create_stream(self, messages: Any, **options: Any) -> Any:
        try:
            raise APIConnectionError("key sk-12345678")
        except APIConnectionError as error:
            raise ValueError("the client failed") from error
        yield


@pytest.mark.parametrize("team", [False, True])
async def test_a_provider_that_is_not_there_is_told_in_one_line(team: bool) -> None:
    def make(tools: Any) -> Any:
        agent = AssistantAgent("a", Unreachable(Script()), model_client_stream=True)
        return RoundRobinGroupChat([agent], max_turns=1) if team else agent

    async with page_of(AutoGen(make)) as page:
        await failed(page.run("go"))
        event = of(page, "RUN_ERROR")[0]
    assert event["code"] == "provider_error"
    assert event["message"] == "the model's provider: it cannot be reached (APIConnectionError)"


# ---- pure parts --------------------------------------------------------------------------------


def test_a_history_is_spelled_without_the_message_that_is_the_task() -> None:
    image = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    call = {"id": "c1", "type": "function", "function": {"name": "a.b", "arguments": ""}}
    history = TypeAdapter(list[Message]).validate_python(
        [
            {"id": "0", "role": "system", "content": "be brief"},
            {"id": "1", "role": "user", "content": [{"type": "text", "text": "see"}, image]},
            {"id": "2", "role": "assistant", "content": "ok", "toolCalls": [call]},
            {"id": "3", "role": "tool", "content": "no", "toolCallId": "c1", "error": "no"},
            {"id": "4", "role": "user", "content": "and now?"},
        ]
    )
    system, user, said, results = spelled(history, "helper", Names(()))
    assert isinstance(system, SystemMessage)
    assert isinstance(user, UserMessage)
    assert user.content == ["see", "[image/png, 3 bytes]"]
    assert isinstance(said, AssistantMessage)
    assert said.thought == "ok"
    assert [(c.name, c.arguments) for c in said.content] == [("a_b", "{}")]  # type: ignore[union-attr]
    assert isinstance(results, FunctionExecutionResultMessage)
    assert (results.content[0].call_id, results.content[0].is_error) == ("c1", True)
