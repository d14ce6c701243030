"""What LangGraph has beside the contract: nodes of one's own, own tools, interrupts, both ways to
cancel."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from ag_ui.core import Message, StateSnapshotEvent
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import TypeAdapter
from tests.contract.agents.langgraph_subject import ScriptedChat, by_hand
from tests.contract.agents.stage import Ask, Result, Script, Turn, UserText

from handspan import Bridge
from handspan.agents.langgraph import LangGraph, PageTools, page_tools, with_page_tools
from handspan.agents.langgraph.messages import spelled
from handspan.agents.langgraph.stream import decoded
from handspan.model.names import Names
from handspan.testing import Page
from handspan_protocol.errors import UsageError

Json = Any

LONG = "I look first. " * 90
"""More deltas than are taken at once."""

READ = {"description": "reads", "readOnly": True, "parameters": {"type": "object"}}
THEME = {
    "type": "object",
    "properties": {"theme": {"enum": ["light", "dark"]}},
    "required": ["theme"],
}


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


@asynccontextmanager
async def page_of(agent: Any, tools: Json = None) -> AsyncIterator[Page]:
    bridge = Bridge(agents={"default": agent})
    try:
        async with Page(bridge, tools=tools or {}) as page:
            yield page
    finally:
        await bridge.close()


def agent_of(script: Script, *own: Any, **more: Any) -> LangGraph:
    """LangChain's agent, with tools of its own."""
    model = ScriptedChat(script=script)
    return LangGraph(create_agent(model, tools=[*own], middleware=[PageTools()], **more))


def one_node(node: Any) -> Any:
    """A graph of one node."""
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile()


def kinds(page: Page, *wanted: str) -> list[str]:
    return [event["type"] for event in page.events if event["type"] in wanted]


def texts(page: Page) -> list[str]:
    """Of each message."""
    said: dict[str, str] = {}
    for event in page.events:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            said[event["messageId"]] = said.get(event["messageId"], "") + event["delta"]
    return list(said.values())


def failure(page: Page) -> Json:
    return next(event for event in page.events if event["type"] == "RUN_ERROR")


async def failed(run: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 (what it says is in RUN_ERROR)
        await run.finished


# ---- the graph's own tools ---------------------------------------------------------------------


@tool
def price(sku: str) -> str:
    """The price of an article."""
    return f"{sku} costs 3"


async def test_a_tool_of_the_graphs_own_is_shown_with_its_result() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    async with page_of(agent_of(script, price)) as page:
        await page.run("price?").finished
        call = next(e for e in page.events if e["type"] == "TOOL_CALL_START")
        args = next(e for e in page.events if e["type"] == "TOOL_CALL_ARGS")
        result = next(e for e in page.events if e["type"] == "TOOL_CALL_RESULT")
    assert (call["toolCallName"], args["delta"]) == ("price", '{"sku":"a"}')
    assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "a costs 3")
    assert script.asked[1].history[-1] == Result("price", "a costs 3")


async def test_a_tool_of_the_graphs_own_asks_for_no_other_step() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    async with page_of(agent_of(script, price)) as page:
        assert await page.run("price?").finished == {"reason": "completed", "depth": 0}
    assert len(script.asked) == 2


async def test_p2_a_tool_of_the_graphs_own_is_not_given_to_a_wildcard() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    seen: list[Json] = []
    async with page_of(agent_of(script, price), {"*": ({"description": "all"}, seen.append)}) as p:
        await p.run("price?").finished
    assert seen == []


async def test_p2_a_tool_that_both_have_is_the_graphs_and_shown_to_the_model_once() -> None:
    script = Script(Turn(calls=(Ask("price", {"sku": "a"}),)), Turn(text="Three."))
    seen: list[Json] = []
    async with page_of(agent_of(script, price), {"price": (READ, seen.append)}) as page:
        assert (await page.run("price?").finished)["depth"] == 0
    assert seen == []
    assert script.asked[0].tools == ("price",)
    assert script.asked[1].history[-1] == Result("price", "a costs 3")


async def test_a_tool_of_the_graphs_own_that_fails_leaks_nothing() -> None:
    @tool
    def broken() -> str:
        """Fails."""
        raise ValueError("the key is sk-123")

    script = Script(Turn(calls=(Ask("broken"),)))
    async with page_of(agent_of(script, broken)) as page:
        await failed(page.run("go"))
        assert "sk-123" not in str(page.events)
        assert kinds(page, "TOOL_CALL_START", "TOOL_CALL_RESULT", "RUN_ERROR") == [
            "TOOL_CALL_START",
            "TOOL_CALL_RESULT",
            "RUN_ERROR",
        ]


# ---- arguments and names -----------------------------------------------------------------------


@pytest.mark.parametrize("raw", ['{"theme": "dar', '["dark"]', '{"theme":"dark"} {}'])
async def test_p3_arguments_that_langchain_would_guess_at_are_refused(raw: str) -> None:
    script = Script(Turn(calls=(Ask("set_theme", raw),)), Turn(text="Sorry."))
    seen: list[Json] = []
    definition = {**READ, "parameters": THEME}
    async with page_of(agent_of(script), {"set_theme": (definition, seen.append)}) as page:
        assert (await page.run("dark").finished)["reason"] == "completed"
        assert texts(page) == ["Sorry."]
    assert seen == []
    result = script.asked[1].history[-1]
    assert isinstance(result, Result)
    assert "invalid_arguments" in result.text


async def test_p3_a_page_has_the_digits_that_the_model_wrote() -> None:
    script = Script(Turn(calls=(Ask("keep", '{"n": 12345678901234567890123}'),)), Turn(text="Kept"))
    async with page_of(agent_of(script), {"keep": (READ, None)}) as page:
        run = page.run("go")
        call = await page.next_call("keep")
        assert "12345678901234567890123" in call.raw_args
        await page.abort(run.id)


async def test_p13_names_that_providers_refuse_are_spelled_and_read_back() -> None:
    script = Script(Turn(calls=(Ask("cart_add_2"),)), Turn(text="Added."), Turn(text="Again."))
    seen: list[str] = []
    tools = {
        "cart_add": (READ, lambda _: seen.append("cart_add")),
        "cart.add": (READ, lambda _: seen.append("cart.add")),
    }
    async with page_of(agent_of(script), tools) as page:
        await page.run("add").finished
        await page.run("again").finished
    assert script.asked[0].tools == ("cart_add", "cart_add_2")
    assert seen == ["cart.add"]


async def test_p11_the_model_is_shown_the_schema_that_the_page_registered() -> None:
    script, shown = Script(Turn(text="ok")), list[Json]()

    async def node(state: State) -> dict[str, Any]:
        model = with_page_tools(ScriptedChat(script=script))
        shown.extend(model.schemas)
        return {"messages": [await model.ainvoke(state["messages"])]}

    async with page_of(
        LangGraph(one_node(node)), {"t": ({**READ, "parameters": THEME}, None)}
    ) as p:
        await p.run("go").finished
    assert [schema["parameters"] for schema in shown] == [THEME]


async def test_an_image_that_a_page_gives_is_an_image_to_the_model_in_the_loop() -> None:
    model = Recording(script=Script(Turn(calls=(Ask("shoot"),)), Turn(text="A cat.")))
    agent = LangGraph(create_agent(model, tools=[], middleware=[PageTools()]))
    async with page_of(agent, {"shoot": (READ, None)}) as page:
        run = page.run("go")
        call = await page.next_call("shoot")
        await call.give([{"type": "text", "text": "here"}, IMAGE, SOUND])
        await run.finished
    assert model.shown[1][-1].content == [
        {"type": "text", "text": "here"},
        {"type": "image", "mime_type": "image/png", "base64": "AAAA"},
        {"type": "text", "text": "[audio/wav, 3 bytes]"},
    ]


IMAGE = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
SOUND = {"type": "audio", "source": {"type": "data", "value": "AAAA", "mimeType": "audio/wav"}}


class Recording(ScriptedChat):
    """Keeps what it was shown."""

    shown: list[Any] = []

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return super().bind_tools(tools, **more).model_copy(update={"shown": self.shown})

    async def _astream(self, messages: list[BaseMessage], **more: Any) -> AsyncIterator[Any]:
        self.shown.append(messages)
        async for chunk in super()._astream(messages, **more):
            yield chunk


# ---- nodes of one's own ------------------------------------------------------------------------


async def test_a_call_inside_the_node_that_asked_the_model_stands_behind_its_text() -> None:
    model = ScriptedChat(script=Script(Turn(text=LONG)), hasty=True)

    async def node(state: State) -> dict[str, Any]:
        said = await with_page_tools(model).ainvoke(state["messages"])
        found = await page_tools()[0].ainvoke({})
        return {"messages": [said, AIMessage(f"It is {found}.")]}

    async with page_of(LangGraph(one_node(node)), {"look": (READ, lambda _: "blue")}) as page:
        await page.run("look").finished
        assert texts(page) == [LONG, "It is blue."]
        order = kinds(page, "TEXT_MESSAGE_END", "TOOL_CALL_START", "TEXT_MESSAGE_START")
    assert order == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
    ]


async def test_a_sync_node_calls_the_page_from_its_thread() -> None:
    def node(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(page_tools()[0].invoke({"n": 1}))]}

    async with page_of(LangGraph(one_node(node)), {"t": (READ, lambda args: str(args))}) as page:
        await page.run("go").finished
        assert texts(page) == ["{'n': 1}"]


async def test_two_models_that_speak_at_once_do_not_speak_in_one_message() -> None:
    left, right = Script(Turn(text="left " * 9)), Script(Turn(text="right " * 9))
    async with page_of(LangGraph(parallel(left, right))) as page:
        await page.run("go").finished
        assert sorted(texts(page)) == ["left " * 9, "right " * 9]


def parallel(*scripts: Script) -> Any:
    graph = StateGraph(State)
    for number, script in enumerate(scripts):
        graph.add_node(str(number), asking(ScriptedChat(script=script)))
        graph.add_edge(START, str(number))
    return graph.compile()


def asking(model: Any) -> Any:
    async def node(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return node


async def test_a_subgraph_is_heard_and_has_the_pages_tools() -> None:
    script = Script(Turn(text="Inside. ", calls=(Ask("t"),)), Turn(text="Done."))
    inner = by_hand(ScriptedChat(script=script))
    async with page_of(LangGraph(one_node(inner)), {"t": (READ, lambda _: "ok")}) as page:
        await page.run("go").finished
        assert texts(page) == ["Inside. ", "Done."]


async def test_a_model_that_is_tagged_nostream_is_counted_and_not_said() -> None:
    script = Script(Turn(text="secret plan", tokens=(3, 4)))

    async def node(state: State) -> dict[str, Any]:
        await ScriptedChat(script=script, tags=["nostream"]).ainvoke(state["messages"])
        return {"messages": [AIMessage("Planned.")]}

    async with page_of(LangGraph(one_node(node))) as page:
        await page.run("go").finished
        assert texts(page) == ["Planned."]
        usage = page.events[-1]["usage"]
    assert (usage[0]["inputTokens"], usage[0]["outputTokens"]) == (3, 4)


async def test_what_a_node_writes_to_its_stream_is_a_custom_event_or_the_event_itself() -> None:
    def node(state: State) -> dict[str, Any]:
        write = get_stream_writer()
        write({"half": 0.5})
        write(StateSnapshotEvent(snapshot={"x": 1}))
        return {}

    async with page_of(LangGraph(one_node(node))) as page:
        await page.run("go").finished
        custom = [e for e in page.events if e["type"] == "CUSTOM" and e["name"] == "langgraph"]
        assert [event["value"] for event in custom] == [{"half": 0.5}]
        assert kinds(page, "STATE_SNAPSHOT") == ["STATE_SNAPSHOT"]


# ---- what a graph may be -----------------------------------------------------------------------


async def test_a_function_makes_a_graph_for_each_step() -> None:
    script, made = Script(Turn(text="one"), Turn(text="two")), list[str]()

    async def make(run: Any) -> Any:
        made.append(run.messages[-1].content)
        return by_hand(ScriptedChat(script=script))

    async with page_of(LangGraph(make)) as page:
        await page.run("a").finished
        await page.run("b").finished
    assert made == ["a", "b"]


@pytest.mark.parametrize("graph", [StateGraph(State), None, "graph"])
def test_what_is_no_graph_is_refused_at_once(graph: Any) -> None:
    with pytest.raises(UsageError, match="compile"):
        LangGraph(graph)


async def test_a_function_that_gives_no_graph_fails_the_run_and_says_so() -> None:
    async with page_of(LangGraph(lambda run: StateGraph(State))) as page:
        await failed(page.run("go"))
        assert failure(page)["message"] == "a compiled graph was expected, not a StateGraph"


async def test_the_thread_is_the_memory_and_a_checkpointer_is_left_out() -> None:
    script, saver = Script(Turn(text="one"), Turn(text="two")), InMemorySaver()
    async with page_of(agent_of(script, checkpointer=saver)) as page:
        await page.run("a").finished
        await page.run("b").finished
    assert len(script.asked[1].history) == 3
    assert list(saver.list(None)) == []


async def test_p8_one_adapter_serves_two_threads_at_once() -> None:
    script = Script(*(Turn(calls=(Ask("which"),)) for _ in "ab"))
    agent = LangGraph(by_hand(ScriptedChat(script=script)))
    bridge = Bridge(agents={"default": agent})
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


async def test_a_structured_response_is_the_runs_output() -> None:
    def node(state: State) -> dict[str, Any]:
        return {"structured_response": {"n": 1}}

    class Wide(State):
        structured_response: Any

    graph = StateGraph(Wide)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    async with page_of(LangGraph(graph.compile())) as page:
        assert (await page.run("go").finished)["output"] == {"n": 1}


async def test_inputs_context_and_config_reach_the_graph() -> None:
    seen: list[Any] = []

    class Wide(State):
        user: str

    def node(state: Wide, runtime: Runtime[str], config: RunnableConfig) -> dict[str, Any]:
        seen.extend([state["user"], runtime.context, config["configurable"]["flavour"]])
        return {}

    graph = StateGraph(Wide, context_schema=str)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    agent = LangGraph(
        graph.compile(),
        inputs=lambda run: {"user": run.principal.id},
        context=lambda run: run.thread_id,
        config={"configurable": {"flavour": "salt"}},
    )
    async with page_of(agent) as page:
        await page.run("go").finished
    assert seen == ["anonymous", "t1", "salt"]


async def test_what_the_graph_was_configured_with_stands() -> None:
    heard: list[str] = []

    class Tracer(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **more: Any) -> None:
            heard.append(more["tags"][0])

    script = Script(Turn(text="ok"))
    graph = by_hand(ScriptedChat(script=script)).with_config(callbacks=[Tracer()])
    async with page_of(LangGraph(graph, config={"tags": ["mine"]})) as page:
        await page.run("go").finished
        assert texts(page) == ["ok"]
    assert len(heard) == 1


# ---- ends --------------------------------------------------------------------------------------


async def test_an_interrupt_fails_the_run_and_says_why() -> None:
    def node(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("may I?"))]}

    async with page_of(LangGraph(one_node(node))) as page:
        await failed(page.run("go"))
        assert "interrupted" in failure(page)["message"]


async def test_a_graph_that_runs_in_circles_fails_by_its_own_limit() -> None:
    script = Script(*(Turn(calls=(Ask("t"),)) for _ in range(9)))
    graph = by_hand(ScriptedChat(script=script))
    agent = LangGraph(graph, config={"recursion_limit": 4})
    async with page_of(agent, {"t": (READ, lambda _: "ok")}) as page:
        await failed(page.run("go"))
        assert "recursion_limit" in failure(page)["message"]


async def test_a_provider_that_refuses_is_told_in_one_line_without_its_body() -> None:
    class RefusedError(Exception):
        status_code = 401

    async def node(state: State) -> dict[str, Any]:
        raise RefusedError("Incorrect API key provided: sk-123")

    async with page_of(LangGraph(one_node(node))) as page:
        await failed(page.run("go"))
        event = failure(page)
    assert event["code"] == "provider_error"
    assert event["message"] == "the model's provider answered 401 (RefusedError)"


async def test_a_provider_that_is_not_there_is_told_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class APIConnectionError(Exception):
        pass

    async def node(state: State) -> dict[str, Any]:
        try:
            raise APIConnectionError("key sk-12345678")
        except APIConnectionError as error:
            raise ValueError("the chain failed") from error

    async with page_of(LangGraph(one_node(node))) as page:
        await failed(page.run("go"))
        event = failure(page)
    assert event["code"] == "provider_error"
    assert event["message"] == ("the model's provider: it cannot be reached (APIConnectionError)")
    assert "Traceback" not in caplog.text


async def test_p5_a_stop_ends_the_graphs_own_tool_and_leaves_no_task() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes long."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    script = Script(Turn(calls=(Ask("slow"),)))
    async with page_of(agent_of(script, slow)) as page:
        before = asyncio.all_tasks()
        run = page.run("go")
        async with asyncio.timeout(5):
            await begun.wait()
            assert await page.abort(run.id)
            assert (await run.finished)["reason"] == "aborted"
            await ended.wait()
            while asyncio.all_tasks() - before - {asyncio.current_task()}:
                await asyncio.sleep(0)


async def test_a_tool_that_the_graph_gives_up_is_stopped_at_the_page() -> None:
    called = asyncio.Event()

    async def node(state: State) -> dict[str, Any]:
        work = asyncio.ensure_future(page_tools()[0].ainvoke({}))
        await called.wait()
        work.cancel()
        await asyncio.wait([work])
        return {"messages": [AIMessage("Given up.")]}

    async with page_of(LangGraph(one_node(node)), {"t": (READ, None)}) as page:
        run = page.run("go")
        call = await page.next_call("t")
        called.set()
        await page.until(call.signal.is_set, "the tool's cancel")
        assert (await run.finished)["reason"] == "completed"
        assert texts(page) == ["Given up."]


# ---- pure parts --------------------------------------------------------------------------------


async def test_outside_of_a_bridge_there_are_no_page_tools() -> None:
    assert page_tools() == []
    seen: list[Any] = []
    graph = one_node(lambda state: seen.append(page_tools()) or {})
    await graph.ainvoke({"messages": [HumanMessage("hi")]})
    assert seen == [[]]


def test_a_history_is_spelled_with_its_instructions_in_front() -> None:
    image = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    call = {"id": "c1", "type": "function", "function": {"name": "a.b", "arguments": "nonsense"}}
    history = TypeAdapter(list[Message]).validate_python(
        [
            {"id": "1", "role": "user", "content": [{"type": "text", "text": "see"}, image]},
            {"id": "2", "role": "assistant", "content": "ok", "toolCalls": [call]},
            {"id": "3", "role": "tool", "content": "no", "toolCallId": "c1", "error": "no"},
            {"id": "4", "role": "system", "content": "be brief"},
        ]
    )
    system, user, said, result = spelled(history, Names(()), "be kind")
    assert isinstance(system, SystemMessage)
    assert system.text == "be kind\n\nbe brief"
    assert user.content_blocks[1] == {
        "type": "image",
        "mime_type": "image/png",
        "base64": "AAAA",
    }
    assert isinstance(said, AIMessage)
    assert [(c["name"], c["args"]) for c in said.tool_calls] == [("a_b", {})]
    assert isinstance(result, ToolMessage)
    assert (result.status, result.tool_call_id) == ("error", "c1")


def test_what_is_no_json_is_told_as_text() -> None:
    assert decoded(HumanMessage("hi", id="1"))["content"] == "hi"
    assert decoded({1, 2}) == "{1, 2}"
    assert decoded([1]) == [1]
