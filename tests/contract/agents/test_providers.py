"""What the adapters of providers share beyond the scenarios: failures, retries, keys, names, media.

Over real HTTP to a server of ours, each in its provider's wire format.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai
from tests.contract.agents import anthropic_subject, chat_subject, responses_subject
from tests.contract.agents.stage import Ask, Turn
from tests.contract.agents.wire import Call, Reply, serving, sse

from handspan import Bridge, UsageError
from handspan.agents import Anthropic, OpenAIChat, OpenAIResponses
from handspan.model.patience import Patience
from handspan.testing import Page, RunFailed

Json = Any
SECRET = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Provider:
    """An adapter, the path under which it finds its server, and the stream of a turn."""

    make: Any
    path: str
    stream: Callable[[Turn], list[str]]
    env: str
    history: str
    """Where the history stands in a request."""

    def __str__(self) -> str:
        return str(self.make.__name__)

    def agent(self, url: str, **options: Any) -> Any:
        return self.make("some-model", base_url=url + self.path, api_key=SECRET, **options)


PROVIDERS = [
    Provider(
        OpenAIChat,
        "/v1",
        lambda turn: list(chat_subject.Chat(chat_subject.openai)._stream(turn)),
        "OPENAI_API_KEY",
        "messages",
    ),
    Provider(
        OpenAIResponses,
        "/v1",
        lambda turn: list(responses_subject._stream(turn)),
        "OPENAI_API_KEY",
        "input",
    ),
    Provider(
        Anthropic,
        "",
        lambda turn: [sse(e, e["type"]) for e in anthropic_subject.events(turn)],
        "ANTHROPIC_API_KEY",
        "messages",
    ),
]

every = pytest.mark.parametrize("provider", PROVIDERS, ids=str)


@asynccontextmanager
async def at_work(
    provider: Provider, *replies: Reply | Turn, tools: Json = None, **options: Any
) -> AsyncIterator[tuple[Page, list[Json]]]:
    """A page, and the bodies of the requests that its runs made; they get these replies."""
    left, bodies = list(replies), list[Json]()

    def answer(call: Call) -> Reply:
        bodies.append(call.body)
        said = left.pop(0)
        return said if isinstance(said, Reply) else Reply(provider.stream(said))

    async with serving(answer) as url:
        agent = provider.agent(url, **options)
        bridge = Bridge(agents={"default": agent})
        async with Page(bridge, tools=tools or {}) as page:
            yield page, bodies
        await bridge.close()
        await agent._client.close()


def refused(status: int, message: str, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "x", "code": None}, "type": "error"}
    return Reply([json.dumps(body)], status=status, headers=headers)


@every
async def test_a_request_that_fails_for_a_moment_is_tried_again(provider: Provider) -> None:
    busy = refused(503, "busy", **{"retry-after-ms": "1"})
    slow_down = refused(429, "slow down", **{"retry-after-ms": "1"})
    async with at_work(provider, busy, slow_down, Turn(text="Here.")) as (page, bodies):
        assert (await page.run("hi").finished)["reason"] == "completed"
        assert page.thread().text == "Here."
    assert len(bodies) == 3
    assert bodies[0] == bodies[2]


@every
@pytest.mark.parametrize(
    ("reply", "part"),
    [
        (refused(401, f"Incorrect API key provided: {SECRET}"), "the key was refused (401)"),
        (refused(404, "no model `some-model`"), "no model `some-model`"),
        (refused(400, f"bad header {SECRET}"), "the request was refused (400)"),
        (Reply(["event: message_start\ndata: {junk\n\n"]), ""),
    ],
    ids=["401", "404", "400", "junk"],
)
async def test_p14_a_failure_is_one_line_that_helps_and_has_no_key(
    provider: Provider, reply: Reply, part: str
) -> None:
    async with at_work(provider, reply, patience=Patience(retries=0)) as (page, _):
        with pytest.raises(RunFailed) as failed:
            await page.run("hi").finished
        assert failed.value.code == "provider_error"
        assert part in failed.value.message
        assert "\n" not in failed.value.message
        assert "0123456789" not in json.dumps(page.frames)


@every
async def test_a_server_that_is_not_there_is_named(provider: Provider) -> None:
    agent = provider.agent("http://127.0.0.1:9", patience=Patience(retries=0))
    bridge = Bridge(agents={"default": agent})
    async with Page(bridge) as page:
        with pytest.raises(
            RunFailed, match=r"cannot be reached at http://127\.0\.0\.1:9"
        ) as failed:
            await page.run("hi").finished
        assert failed.value.code == "provider_error"
    await bridge.close()


@every
async def test_what_was_said_before_the_connection_broke_stays_and_nothing_runs(
    provider: Provider,
) -> None:
    turn = Turn(text="Well. ", calls=(Ask("go", {"n": 1}),))
    texts = provider.stream(turn)
    broken = Reply(texts[: len(texts) - 4], breaks=True)
    seen: list[Json] = []
    tools = {"go": ({"readOnly": True}, seen.append)}
    async with at_work(provider, broken, Turn(text="Again."), tools=tools) as (page, bodies):
        with pytest.raises(RunFailed) as failed:
            await page.run("hi").finished
        assert failed.value.code == "provider_error"
        assert (await page.run("still there?").finished)["reason"] == "completed"
        assert page.thread().text == "Well. Again."
    assert seen == []
    assert len(bodies) == 2


@every
async def test_silence_has_an_end(provider: Provider) -> None:
    silent, stuck = (
        Reply([], hangs=True),
        Reply(provider.stream(Turn(text="We", hangs=True)), hangs=True),
    )
    patience = Patience(first_event_s=0.2, between_events_s=0.2, total_s=5, retries=0)
    async with at_work(provider, silent, stuck, patience=patience) as (page, _):
        with pytest.raises(RunFailed, match="said nothing in time"):
            await page.run("hi").finished
        with pytest.raises(RunFailed, match="stopped in the middle"):
            await page.run("hi").finished
        assert page.thread().text == "We"


@every
def test_a_missing_key_says_where_to_put_it(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(provider.env, raising=False)
    with pytest.raises(UsageError, match=provider.env):
        provider.make("some-model")
    monkeypatch.setenv(provider.env, "from-the-environment")
    assert provider.make("some-model")._client.api_key == "from-the-environment"


@every
def test_what_cannot_work_is_refused_where_it_is_given(provider: Provider) -> None:
    library = anthropic.AsyncAnthropic if provider.make is Anthropic else openai.AsyncOpenAI
    sync = anthropic.Anthropic if provider.make is Anthropic else openai.OpenAI
    mistakes: list[tuple[Json, str]] = [
        (
            {"base_url": "me:secret@127.0.0.1/v1", "api_key": SECRET},
            "base_url must begin with http",
        ),
        ({"client": sync(api_key=SECRET)}, "client must be an Async"),
        ({"client": library(api_key=SECRET), "api_key": SECRET}, "a client has its own"),
        ({"client": library(api_key=SECRET), "base_url": "http://x"}, "a client has its own"),
        ({"api_key": SECRET, "patience": 30}, "patience must be"),
    ]
    for options, line in mistakes:
        with pytest.raises(UsageError, match=line) as refused:
            provider.make("some-model", **options)
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)
        assert SECRET not in str(refused.value)


@every
async def test_c031_names_that_a_provider_refuses_are_mapped_and_come_back(
    provider: Provider,
) -> None:
    calls = (Ask("a_b"), Ask("a_b_2"))
    seen: list[str] = []
    tools = {
        "a.b": ({"readOnly": True}, lambda _: seen.append("dot")),
        "a_b": ({"readOnly": True}, lambda _: seen.append("underscore")),
    }
    turns = (Turn(calls=calls), Turn(text="Done."))
    async with at_work(provider, *turns, tools=tools) as (page, bodies):
        assert (await page.run("hi").finished)["reason"] == "completed"
        started = [e["toolCallName"] for e in page.events if e["type"] == "TOOL_CALL_START"]
    assert sorted(seen) == ["dot", "underscore"]
    assert started == ["a_b", "a.b"]
    assert '"a.b"' not in json.dumps([{**b, "tools": None} for b in bodies])


@every
async def test_c159_without_tools_nothing_is_said_of_them(provider: Provider) -> None:
    about_tools = {"tool_choice": {"type": "auto"}}
    if provider.make is not Anthropic:
        about_tools |= {"parallel_tool_calls": False}
    options = {**about_tools, "temperature": 0.5}
    tools = {"go": ({"readOnly": True}, lambda _: "ok")}
    turns = (Turn(text="One."), Turn(text="Two."))
    async with at_work(provider, *turns, tools=tools, options=options) as (page, bodies):
        await page.run("hi").finished
        page.remove_tool("go")
        await page.run("hi").finished
    assert {"tools", *about_tools} <= bodies[0].keys()
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & bodies[1].keys()
    assert bodies[1]["temperature"] == 0.5


@every
async def test_c029_schemas_are_narrowed_on_a_copy_and_the_check_keeps_every_keyword(
    provider: Provider,
) -> None:
    parameters = {
        "oneOf": [
            {"properties": {"n": {"type": "integer", "exclusiveMinimum": 0}}, "required": ["n"]},
            {"properties": {"s": {"type": "string"}}, "required": ["s"]},
        ]
    }
    turns = (
        Turn(calls=(Ask("go", {"n": 0}), Ask("go", {"n": 1}), Ask("go", {"n": 1, "s": "x"}))),
        Turn(text="Done."),
    )
    seen: list[Json] = []
    tools = {"go": ({"readOnly": True, "parameters": parameters}, seen.append)}
    async with at_work(provider, *turns, tools=tools) as (page, bodies):
        await page.run("hi").finished
    tool = bodies[0]["tools"][0]
    shown = tool.get("input_schema") or (tool.get("function") or tool)["parameters"]
    assert shown["type"] == "object"
    assert shown["properties"].keys() == {"n", "s"}
    assert "oneOf" not in shown
    assert seen == [{"n": 1}]


@every
async def test_images_of_the_user_and_of_results_go_where_the_provider_takes_them(
    provider: Provider,
) -> None:
    image = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    turns = (Turn(calls=(Ask("look"),)), Turn(text="A cat."))
    tools = {"look": ({"readOnly": True}, None)}
    async with at_work(provider, *turns, tools=tools) as (page, bodies):
        content = [{"type": "text", "text": "look"}, image]
        run = page.run({"role": "user", "content": content})
        call = await page.next_call("look")
        named = {"callId": call.call_id, "attempt": call.attempt}
        await page.ask("tool.result", **named, content=[image])
        await run.finished
    user, *_, result = bodies[1][provider.history]
    assert "aGk=" in json.dumps(user)
    told = json.dumps(result)
    assert ("aGk=" in told) is (provider.make is not OpenAIChat)
    assert ("[image/png, 2 bytes]" in told) is (provider.make is OpenAIChat)


@every
async def test_thoughts_go_back_to_their_provider_as_they_came_and_to_no_other(
    provider: Provider,
) -> None:
    turns = (Turn(thought="Hm.", calls=(Ask("go"),)), Turn(text="Done."), Turn(text="Hello."))
    tools = {"go": ({"readOnly": True}, lambda _: "ok")}
    async with at_work(provider, *turns, tools=tools) as (page, bodies):
        await page.run("hi").finished
        messages = page.messages
    kept = {
        OpenAIChat: '"reasoning_content": "Hm."',
        OpenAIResponses: '"encrypted_content": "sealed"',
        Anthropic: f'"signature": "{anthropic_subject.SIGNATURE}"',
    }[provider.make]
    assert kept in json.dumps(bodies[1])
    for other in PROVIDERS:
        if other is provider:
            continue
        assert "Hm." not in json.dumps(await _with_history(other, messages))


async def _with_history(provider: Provider, messages: Json) -> Json:
    """What another provider is sent of this history."""
    from handspan.shell.values import messages_of

    bodies: list[Json] = []

    def answer(call: Call) -> Reply:
        bodies.append(call.body)
        return Reply(provider.stream(Turn(text="Yes.")))

    async with serving(answer) as url:
        agent = provider.agent(url)
        bridge = Bridge(agents={"default": agent})

        @bridge.hook("before_step")
        async def put(step: Any, next: Any) -> Any:
            step.messages = messages_of([*messages, *step.messages])
            return await next(step)

        assert (await bridge.run("hi")).reason == "completed"
        await bridge.close()
        await agent._client.close()
    return bodies


@every
async def test_a_hook_may_answer_in_the_providers_stead(provider: Provider) -> None:
    agent = provider.agent("http://127.0.0.1:9")
    bridge = Bridge(agents={"default": agent})
    asked: list[Json] = []

    @bridge.hook("model_request")
    async def answer(request: Any, next: Any) -> Any:
        asked.append(request)
        texts = provider.stream(Turn(text="From the cache."))
        datas = [text.split("data: ")[1].strip() for text in texts]
        return [json.loads(data) for data in datas if data != "[DONE]"]

    assert (await bridge.run("hi")).text == "From the cache."
    assert asked[0]["model"] == "some-model"
    await bridge.close()


@every
async def test_the_context_of_the_page_and_instructions_come_before_the_history(
    provider: Provider,
) -> None:
    async with at_work(provider, Turn(text="Hello."), instructions="Be kind.") as (page, bodies):
        page.context("cart", "what is in the cart", {"items": 3})
        await page.run("hi").finished
    body = bodies[0]
    told = body.get("system") or body.get("instructions") or body["messages"][0]["content"]
    assert told.startswith("Be kind.\n\n")
    assert 'cart (what is in the cart): {"items":3}' in told
