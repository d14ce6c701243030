"""What only RemoteAGUI has: what is posted, odd answers, failures; a server that is not ours."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("httpx_sse")

from tests.contract.agents.wire import Call, Reply, serving, sse  # noqa: E402

from handspan import Bridge, Principal, Run, UsageError  # noqa: E402
from handspan.agents import RemoteAGUI  # noqa: E402
from handspan.testing import Page  # noqa: E402

Json = Any

END = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
TOOL = {"description": "looks", "readOnly": True}


def text(said: str, name: str = "m1") -> list[Json]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": said},
        {"type": "TEXT_MESSAGE_END", "messageId": name},
    ]


def call(name: str, call_id: str = "c1", args: str = "{}") -> list[Json]:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name},
        {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": args},
        {"type": "TOOL_CALL_END", "toolCallId": call_id},
    ]


def result(content: str, call_id: str = "c1") -> Json:
    return {
        "type": "TOOL_CALL_RESULT",
        "toolCallId": call_id,
        "messageId": f"{call_id}-r",
        "content": content,
    }


class Server:
    """Answers each request with the next of its replies; keeps what was posted."""

    def __init__(self, *replies: Reply | list[Json]) -> None:
        self.calls: list[Call] = []
        self._replies: Iterator[Reply | list[Json]] = iter(replies)

    def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        reply = next(self._replies)
        return reply if isinstance(reply, Reply) else Reply([sse(event) for event in reply])

    @asynccontextmanager
    async def at_work(self, options: Json = None, **page: Json) -> AsyncIterator[Page]:
        async with serving(self.answer) as url:
            bridge = Bridge(agents={"default": RemoteAGUI(f"{url}/agent", **(options or {}))})
            try:
                async with Page(bridge, **page) as opened:
                    yield opened
            finally:
                await bridge.close()

    async def failure(self, **options: Json) -> Any:
        """How a run on it fails."""
        async with serving(self.answer) as url:
            bridge = Bridge(agents={"default": RemoteAGUI(f"{url}/agent", **options)})
            done = await bridge.run("hi")
            await bridge.close()
        assert done.reason == "failed"
        assert "\n" not in done.error.message
        return done.error

    async def said(self, **options: Json) -> Any:
        """How a run on it ends well."""
        async with serving(self.answer) as url:
            bridge = Bridge(agents={"default": RemoteAGUI(f"{url}/agent", **options)})
            done = await bridge.run("hi")
            await bridge.close()
        assert done.error is None
        return done


# ---- what is posted ---------------------------------------------------------------------------


async def test_a_step_posts_all_that_ag_ui_has_a_field_for() -> None:
    server = Server([*text("Hello."), END])
    parameters = {"type": "object", "properties": {"at": {"type": "string"}}}
    tools = {"look": ({**TOOL, "parameters": parameters}, lambda _: "ok")}
    async with server.at_work(
        {"instructions": "Be kind."}, tools=tools, context={"cart": {"items": 2}, "page": "home"}
    ) as page:
        await page.set_state({"n": 1})
        await page.run("hi", forwardedProps={"mood": "good"}).finished
    body = server.calls[0].body
    run_id = body.pop("runId")
    user = body["messages"][1]
    assert run_id
    assert body == {
        "threadId": "t1",
        "protocolVersion": "1.0",
        "state": {"n": 1},
        "messages": [
            {"id": "instructions", "role": "system", "content": "Be kind."},
            {"id": user["id"], "role": "user", "content": "hi"},
        ],
        "tools": [{"name": "look", "description": "looks", "parameters": parameters}],
        "context": [
            {"description": "cart", "value": '{"items":2}'},
            {"description": "page", "value": "home"},
        ],
        "forwardedProps": {"mood": "good"},
    }


async def test_nothing_is_said_of_a_version_or_a_state_where_there_is_none() -> None:
    server = Server([*text("Hello."), END])
    await server.said(protocol_version=None)
    body = server.calls[0].body
    assert "protocolVersion" not in body
    assert (body["state"], body["forwardedProps"], body["tools"]) == ({}, {}, [])


async def test_opaque_thoughts_come_back_and_activities_do_not() -> None:
    first = [
        {"type": "REASONING_MESSAGE_START", "messageId": "r1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r1", "delta": "hmm"},
        {"type": "REASONING_MESSAGE_END", "messageId": "r1"},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "r1",
            "encryptedValue": "opaque",
        },
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "x", "content": {}},
        *call("fail"),
        END,
    ]
    server = Server(first, [*text("Done."), END])

    def fail(_: Json) -> Json:
        raise ValueError("no such lamp")

    async with server.at_work(tools={"fail": (TOOL, fail)}) as page:
        await page.run("hi").finished
    user, thought, asked, failed = server.calls[1].body["messages"]
    assert user["role"] == "user"
    assert thought["encryptedValue"] == "opaque"
    assert [each["id"] for each in asked["toolCalls"]] == ["c1"]
    assert (failed["toolCallId"], failed["error"]) == ("c1", "handler_error")
    assert "no such lamp" in failed["content"]
    assert all("metadata" not in message for message in server.calls[1].body["messages"])


async def test_p8_a_server_is_told_another_thread_for_each_principal_and_sub_run() -> None:
    server = Server(*[[*text("Hello."), END]] * 4)
    async with serving(server.answer) as url:
        bridge = Bridge(agents={"remote": RemoteAGUI(url)})

        @bridge.agent
        async def caller(run: Run) -> str:
            return (await run.delegate("remote", "hi")).text

        for principal in (Principal("ann"), Principal("bob"), Principal("ann")):
            await bridge.run("hi", thread_id="t1", agent="remote", principal=principal)
        await bridge.run("hi", thread_id="t1")
        await bridge.close()
    ann, bob, again, of_sub_run = (call.body["threadId"] for call in server.calls)
    assert ann == again
    assert len({ann, bob, of_sub_run, "t1"}) == 4
    assert "ann" not in ann


async def test_two_runs_at_once_on_one_adapter_are_strangers() -> None:
    both = asyncio.Event()
    posted: list[str] = []

    async def answer(call: Call) -> Reply:
        said = call.body["messages"][-1]["content"]
        posted.append(said)
        if len(posted) == 2:
            both.set()
        await both.wait()
        return Reply([sse(event) for event in [*text(f"You said {said}."), END]])

    async with serving(answer) as url:
        bridge = Bridge(agents={"default": RemoteAGUI(url)})
        one, two = await asyncio.gather(
            bridge.run("one", thread_id="t1"), bridge.run("two", thread_id="t2")
        )
        await bridge.close()
    assert (one.text, two.text) == ("You said one.", "You said two.")


async def test_a_model_request_hook_sees_and_changes_what_is_posted() -> None:
    server = Server([*text("Hello."), END])
    async with serving(server.answer) as url:
        bridge = Bridge(agents={"default": RemoteAGUI(url)})

        @bridge.hook("model_request")
        async def hook(request: Json, proceed: Any) -> Any:
            return await proceed({**request, "forwardedProps": {"by": "hook"}})

        await bridge.run("hi")
        await bridge.close()
    assert server.calls[0].body["forwardedProps"] == {"by": "hook"}


# ---- what is heard ----------------------------------------------------------------------------


async def test_state_of_the_server_reaches_the_page_and_goes_back() -> None:
    server = Server(
        [
            {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}},
            {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/n", "value": 2}]},
            *text("Counted."),
            END,
        ],
        [*text("Again.", "m2"), END],
    )
    async with server.at_work() as page:
        await page.run("count").finished
        await page.run("and now?").finished
    assert server.calls[1].body["state"] == {"n": 2}


async def test_a_tool_that_the_server_ran_itself_is_shown_and_not_asked_about_again() -> None:
    server = Server([*call("search"), result("found"), *text("I found it."), END], [END])
    done = await server.said()
    assert done.text == "I found it."
    assert len(server.calls) == 1


async def test_a_snapshot_that_alone_carries_text_and_calls_is_said() -> None:
    def answer(call: Call) -> Reply:
        sent = call.body["messages"]
        asked = {
            "id": "a1",
            "role": "assistant",
            "content": "One moment.",
            "toolCalls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        }
        done = {"id": "a2", "role": "assistant", "content": "I see."}
        history = [*sent, done] if len(sent) > 1 else [*sent, asked]
        return Reply([sse({"type": "MESSAGES_SNAPSHOT", "messages": history}), sse(END)])

    async with serving(answer) as url:
        bridge = Bridge(agents={"default": RemoteAGUI(url)})
        async with Page(bridge, tools={"look": (TOOL, lambda _: "a lamp")}) as page:
            assert (await page.run("hi").finished)["reason"] == "completed"
            roles = [(m["role"], m.get("content")) for m in page.messages]
        await bridge.close()
    assert roles == [
        ("user", "hi"),
        ("assistant", "One moment."),
        ("tool", "a lamp"),
        ("assistant", "I see."),
    ]


async def test_a_snapshot_of_what_was_streamed_is_not_said_twice() -> None:
    """Under other ids too: servers give messages new ones."""
    messages = [
        {"id": "other-1", "role": "user", "content": "hi"},
        {"id": "other-2", "role": "assistant", "content": "Hello."},
    ]
    server = Server([*text("Hello."), {"type": "MESSAGES_SNAPSHOT", "messages": messages}, END])
    assert (await server.said()).text == "Hello."


async def test_the_result_of_its_run_is_ours() -> None:
    server = Server([{**END, "result": {"answer": 42}}])
    assert (await server.said()).output == {"answer": 42}


async def test_text_in_any_line_ending_with_odd_separators_arrives_whole() -> None:
    said = "a\u2028b\u0085c\U0001f642"
    lines = [json.dumps(event, ensure_ascii=False) for event in [*text(said), END]]
    server = Server(Reply([f": hello\r\nevent: x\r\ndata: {line}\r\n\r\n" for line in lines]))
    assert (await server.said()).text == said


# ---- failures ---------------------------------------------------------------------------------


ODD: Json = {
    "a run that failed": (
        [*text("So"), {"type": "RUN_ERROR", "message": "the model\nis away", "code": "x"}],
        "the model is away",
    ),
    "an interrupt": (
        [
            {
                **END,
                "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "approve?"}]},
            }
        ],
        "approve?",
    ),
    "a cancelled run": ([{**END, "outcome": {"type": "cancelled"}}], "cancelled"),
    "no end": (text("Half"), "no RUN_FINISHED"),
    "nothing at all": ([], "no RUN_FINISHED"),
    "no JSON": (Reply(["data: {oops\n\n"]), "no JSON"),
    "NaN": (Reply(['data: {"type":"CUSTOM","name":"x","value":NaN}\n\n']), "no JSON"),
    "no object": (Reply(["data: [1]\n\n"]), "without a type"),
    "no type": (Reply(['data: {"kind":"x"}\n\n']), "without a type"),
    "no delta": ([{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}], "TEXT_MESSAGE_CONTENT"),
    "no messages": ([{"type": "MESSAGES_SNAPSHOT", "messages": "x"}], "MESSAGES_SNAPSHOT"),
    "junk": (Reply(["<html>no stream</html>"]), "no RUN_FINISHED"),
    "another content": (Reply(["<p>hi</p>"], headers={"content-type": "text/html"}), "text/html"),
    "a broken stream": (Reply([sse(text("x")[0])], breaks=True), "broke off"),
    "no key": (Reply(status=401), "401"),
    "a refusal": (Reply(['{"detail":"no such field"}'], status=422), "no such field"),
    "a fault": (Reply(["Traceback: secret"], status=500), "500"),
    "a redirect": (Reply(status=307, headers={"location": "/agent/"}), "elsewhere"),
}


@pytest.mark.parametrize("odd", ODD)
async def test_p14_an_odd_answer_fails_the_step_in_a_line_that_helps(odd: str) -> None:
    reply, words = ODD[odd]
    error = await Server(reply).failure()
    assert error.code == "provider_error"
    assert words in error.message
    assert "secret" not in error.message


async def test_p14_no_line_shows_a_key() -> None:
    error = {"type": "RUN_ERROR", "message": "bad key abcd-1234-efgh in Bearer abcd-1234-efgh"}
    told = await Server([error]).failure(headers={"Authorization": "Bearer abcd-1234-efgh"})
    assert "abcd" not in told.message


async def test_a_server_that_is_not_there_is_named_by_its_address() -> None:
    async with serving(lambda _: Reply()) as url:
        pass
    bridge = Bridge(agents={"default": RemoteAGUI(f"{url}/agent")})
    done = await bridge.run("hi")
    await bridge.close()
    assert "cannot be reached" in done.error.message
    assert url in done.error.message


async def test_a_fault_before_the_first_event_is_tried_again_only_when_asked_for() -> None:
    assert "503" in (await Server(Reply(status=503), [END]).failure()).message
    again = {"retry-after": "0"}
    server = Server(Reply(status=503, headers=again), [*text("Hello."), END])
    assert (await server.said(retries=1)).text == "Hello."


@pytest.mark.parametrize(
    ("said", "patience"),
    [
        ([], {"first_event_s": 0.05}),
        (text("Once"), {"between_events_s": 0.05}),
        (text("Once"), {"total_s": 0.05}),
    ],
    ids=["no first event", "no next event", "no end"],
)
async def test_a_server_that_says_nothing_more_fails_the_step(said: Json, patience: Json) -> None:
    """Its stream never ends; that the run does is the test."""
    server = Server(Reply([sse(event) for event in said], hangs=True))
    assert (await server.failure(**patience)).code == "provider_error"


async def test_what_was_visible_before_a_failure_stays_and_the_next_run_works() -> None:
    server = Server(Reply([sse(e) for e in text("Half")], breaks=True), [*text("Yes.", "m2"), END])
    async with serving(server.answer) as url:
        bridge = Bridge(agents={"default": RemoteAGUI(url)})
        await bridge.run("hi", thread_id="t1")
        done = await bridge.run("there?", thread_id="t1")
        await bridge.close()
    assert [message.content for message in done.messages] == ["hi", "Half", "there?", "Yes."]


# ---- a server that is not ours ----------------------------------------------------------------


@asynccontextmanager
async def pydantic_ai_server(model: Any, *tools: Any, **options: Json) -> AsyncIterator[str]:
    """pydantic-ai's own AG-UI adapter, over uvicorn."""
    ai = pytest.importorskip("pydantic_ai")
    ag_ui = pytest.importorskip("pydantic_ai.ui.ag_ui")
    uvicorn = pytest.importorskip("uvicorn")
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    agent = ai.Agent(model, tools=tools)

    async def post(request: Any) -> Any:
        return await ag_ui.AGUIAdapter.dispatch_request(request, agent=agent, **options)

    app = applications.Starlette(routes=[routing.Route("/", post, methods=["POST"])])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    server.config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    serving = asyncio.create_task(server.main_loop())
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        await serving
        await server.shutdown()


async def test_pydantic_ais_own_ag_ui_server_uses_the_pages_tools() -> None:
    function = pytest.importorskip("pydantic_ai.models.function")
    shown: list[Json] = []

    async def model(messages: Any, info: Any) -> AsyncIterator[Any]:
        shown.append([tool.name for tool in info.function_tools])
        parts = [part for message in messages for part in message.parts]
        results = [part for part in parts if part.part_kind == "tool-return"]
        if results:
            yield "It is "
            yield f"{results[-1].content} now."
        else:
            thought = function.DeltaThinkingPart(content="Dark is best.", signature="opaque")
            yield {0: thought}
            args = '{"theme":"dark"}'
            yield {1: function.DeltaToolCall(name="set_theme", json_args=args[:5])}
            yield {1: function.DeltaToolCall(json_args=args[5:])}

    seen: list[Json] = []
    parameters = {"type": "object", "properties": {"theme": {"type": "string"}}}
    tools = {"set_theme": ({**TOOL, "parameters": parameters}, lambda a: seen.append(a) or "dark")}
    streamed = function.FunctionModel(stream_function=model)
    async with pydantic_ai_server(streamed, include_usage=True) as url:
        bridge = Bridge(agents={"default": RemoteAGUI(url)})
        async with Page(bridge, tools=tools) as page:
            done = await page.run("make it dark").finished
            events = page.events
        await bridge.close()
    assert done == {"reason": "completed", "depth": 1}
    assert seen == [{"theme": "dark"}]
    assert shown == [["set_theme"], ["set_theme"]]
    kinds = {event["type"] for event in events}
    assert {"REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"} <= kinds
    said = [e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT"]
    assert "".join(said) == "It is dark now."
    assert events[-1]["usage"][0]["outputTokens"] > 0


def test_an_address_without_a_scheme_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="url must begin with http:// or https://"):
        RemoteAGUI("127.0.0.1:8000")
