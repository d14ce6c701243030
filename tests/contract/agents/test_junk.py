"""What providers send that no documentation has: it ends in a line that says so, and runs nothing
that was not asked for.

The events are put in the provider's stead by a `model_request` hook, except where HTTP matters.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from tests.contract.agents.stage import Ask, Turn
from tests.contract.agents.test_providers import PROVIDERS, Provider, at_work, every
from tests.contract.agents.wire import Reply

from handspan import Bridge
from handspan.agents import Anthropic, OpenAIChat, OpenAIResponses
from handspan.testing import Page, RunFailed

Json = Any
ARGS = '{"n":1}'
JUNK: tuple[Json, ...] = (None, 5, True, "x", [], [None], [1], {"a": 1})
OF = {provider.make: provider for provider in PROVIDERS}


def events_of(provider: Provider, turn: Turn) -> list[Json]:
    datas = [text.split("data: ", 1)[1].strip() for text in provider.stream(turn)]
    return [json.loads(data) for data in datas if data != "[DONE]"]


@asynccontextmanager
async def hearing(provider: Provider, *answers: Json) -> AsyncIterator[tuple[Page, list[Json]]]:
    """A page with the tool `go`, and the arguments of its calls; then the model says "Over."."""
    left, ran = list(answers), list[Json]()
    agent = provider.agent("http://127.0.0.1:9")
    bridge = Bridge(agents={"default": agent})

    @bridge.hook("model_request")
    async def answer(request: Any, next: Any) -> Any:
        return left.pop(0) if left else events_of(provider, Turn(text="Over."))

    def go(args: Json) -> str:
        ran.append(args)
        return "ok"

    async with Page(bridge, tools={"go": ({"readOnly": True}, go)}) as page:
        yield page, ran
    await bridge.close()
    await agent._client.close()


async def outcome(page: Page) -> str:
    try:
        return str((await page.run("hi").finished)["reason"])
    except RunFailed as failed:
        return f"{failed.code}: {failed.message}"


def broken(events: list[Json]) -> Iterator[list[Json]]:
    """The stream with junk at one place, a place after the other: an event, or a field of one."""
    number = 0
    for place, event in enumerate(events):
        for key in (None, *event):
            junk = JUNK[number % len(JUNK)]
            number += 1
            yield [*events[:place], junk if key is None else {**event, key: junk}]


@every
async def test_p14_junk_anywhere_never_fails_as_a_fault_of_ours(provider: Provider) -> None:
    turn = Turn(thought="Hm.", text="Well.", calls=(Ask("go", {"n": 1}),))
    streams = list(broken(events_of(provider, turn)))[::5]
    for stream in streams:
        async with hearing(provider, stream) as (page, ran):
            assert not (await outcome(page)).startswith("agent_error"), stream[-1]
            assert len(ran) <= 1
            assert await outcome(page) == "completed"


@every
@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (Reply(["<html>log in</html>"], headers={"content-type": "text/html"}), "text/html"),
        (Reply(["{}"], headers={"content-type": "application/json"}), "application/json"),
        (Reply([]), "it answered with nothing"),
    ],
    ids=["html", "json", "nothing"],
)
async def test_an_answer_without_events_is_a_failure(
    provider: Provider, reply: Reply, line: str
) -> None:
    async with at_work(provider, reply) as (page, _):
        with pytest.raises(RunFailed, match=line) as failed:
            await page.run("hi").finished
        assert failed.value.code == "provider_error"


async def played(make: Any, *events: Json) -> tuple[str, list[Json], Page]:
    async with hearing(OF[make], list(events)) as (page, ran):
        return await outcome(page), ran, page


# ---- the Responses API -------------------------------------------------------------------------

DONE = {"type": "response.completed", "response": {"status": "completed"}}


def call(kind: str, index: int, arguments: str) -> Json:
    item = {"type": "function_call", "call_id": "c", "name": "go", "arguments": arguments}
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": item}


async def test_p2_a_call_whose_end_has_another_place_runs_once() -> None:
    begun, whole = call("added", 0, ""), call("done", 1, ARGS)
    said = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ARGS}
    assert (await played(OpenAIResponses, begun, said, whole, DONE))[:2] == (
        "completed",
        [{"n": 1}],
    )


async def test_p3_arguments_that_only_their_end_has_are_the_arguments() -> None:
    whole = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": ARGS}
    assert (await played(OpenAIResponses, call("added", 0, ""), whole, DONE))[1] == [{"n": 1}]


async def test_a_response_that_failed_says_why() -> None:
    error = {"code": "server_error", "message": "Sorry, sk-test-0123456789abcdef."}
    told = {"type": "response.failed", "response": {"error": error}}
    said = await played(OpenAIResponses, told)
    assert said[0] == "provider_error: OpenAI: Sorry, ***."


async def test_a_response_that_says_it_is_incomplete_was_cut() -> None:
    over = {"type": "response.completed", "response": {"status": "incomplete"}}
    assert (await played(OpenAIResponses, call("done", 0, ARGS), over))[:2] == ("truncated", [])


NAMED = {"item_id": "m", "output_index": 0, "content_index": 0}
SAID = {"type": "response.output_text.delta", "delta": "Well.", **NAMED}
SAID_WHOLE = {"type": "response.output_text.done", "text": "Well.", **NAMED}
MESSAGE = {
    "type": "message",
    "id": "m",
    "content": [{"type": "output_text", "text": "Well."}],
}
MESSAGE_DONE = {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE}


def whole(*output: Json) -> Json:
    return {
        "type": "response.completed",
        "response": {"status": "completed", "output": list(output)},
    }


def wanted(call_id: str, n: int = 1) -> Json:
    return {**call("done", 0, f'{{"n":{n}}}')["item"], "call_id": call_id}


def texts(page: Page) -> list[str]:
    """What the model said, in order; the last is "Over." where calls were carried out."""
    said = [each for each in page.messages if each["role"] == "assistant"]
    return [each["content"] for each in said if each.get("content")]


@pytest.mark.parametrize(
    "told",
    [
        [whole(MESSAGE)],
        [SAID_WHOLE, DONE],
        [MESSAGE_DONE, DONE],
        [SAID, SAID_WHOLE, MESSAGE_DONE, whole(MESSAGE)],
        [SAID_WHOLE, MESSAGE_DONE, whole(MESSAGE)],
        [MESSAGE_DONE, whole({**MESSAGE, "id": "another"})],
        [SAID, whole({"type": "reasoning"}, {**MESSAGE, "id": "another"})],
        [{**SAID, "item_id": None, "output_index": None}, MESSAGE_DONE, whole(MESSAGE)],
        [whole({**MESSAGE, "content": [{"type": "refusal", "refusal": "Well."}]})],
        [whole(None, 5, {"type": "message", "content": 7}, MESSAGE)],
    ],
)
async def test_a_text_is_said_once_wherever_it_stands(told: Json) -> None:
    reason, _, page = await played(OpenAIResponses, *told)
    assert (reason, texts(page)) == ("completed", ["Well."])


async def test_a_message_that_only_the_whole_response_has_is_said_behind_the_others() -> None:
    other = {**MESSAGE, "id": "n", "content": [{"type": "output_text", "text": " And so."}]}
    _, _, page = await played(OpenAIResponses, SAID, whole(MESSAGE, other))
    assert "".join(texts(page)) == "Well. And so."


@pytest.mark.parametrize(
    "told",
    [
        [whole(wanted("c"), wanted("d", 2))],
        [whole(wanted("c"), wanted("c", 2))],
        [call("done", 0, ARGS), whole(wanted("c"), wanted("d", 2))],
        [call("done", 1, ARGS), whole(wanted("c"), {"type": "reasoning"}, wanted("d", 2))],
        [call("added", 0, ""), whole(wanted("c"), wanted("d", 2))],
    ],
)
async def test_p2_a_call_runs_once_wherever_it_stands(told: Json) -> None:
    reason, ran, page = await played(OpenAIResponses, *told)
    assert (reason, ran, texts(page)) == ("completed", [{"n": 1}, {"n": 2}], ["Over."])


async def test_a_call_of_a_whole_response_that_is_incomplete_was_cut() -> None:
    over = whole(MESSAGE, wanted("c"))
    over["response"]["status"] = "incomplete"
    reason, ran, page = await played(OpenAIResponses, over)
    assert (reason, ran, texts(page)) == ("truncated", [], ["Well."])


# ---- chat completions --------------------------------------------------------------------------


def chunk(delta: Json, finish: str | None = None, index: int = 0) -> Json:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


async def test_a_turn_that_was_cut_stays_so() -> None:
    function = {"name": "go", "arguments": ARGS}
    asked = chunk({"tool_calls": [{"index": 0, "id": "a", "function": function}]})
    ends = chunk({}, "length"), chunk({}, "stop")
    assert (await played(OpenAIChat, asked, *ends))[:2] == ("truncated", [])


async def test_of_several_answers_one_is_said() -> None:
    a, b = chunk({"content": "A"}), chunk({"content": "B"}, index=1)
    page = (await played(OpenAIChat, a, b, b, a, chunk({}, "stop", 1), chunk({}, "stop")))[2]
    assert page.thread().text == "AA"


async def test_a_text_that_is_told_again_as_a_whole_is_said_once() -> None:
    again = {"index": 0, "delta": {}, "message": {"content": "A"}, "finish_reason": "stop"}
    page = (await played(OpenAIChat, chunk({"content": "A"}), {"choices": [again]}))[2]
    assert page.thread().text == "A"


async def test_counts_that_are_none_fail_no_run() -> None:
    usage = {"prompt_tokens": -3, "completion_tokens": True, "total_tokens": 10**30}
    odd = {"choices": [], "usage": usage | {"prompt_tokens_details": "none"}}
    assert (await played(OpenAIChat, chunk({"content": "A"}, "stop"), odd))[0] == "completed"


# ---- Anthropic ---------------------------------------------------------------------------------


def block(index: int, kind: Json, *deltas: Json) -> list[Json]:
    begin = {"type": "content_block_start", "index": index, "content_block": kind}
    said = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [begin, *said, {"type": "content_block_stop", "index": index}]


STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


async def test_thoughts_without_a_signature_are_not_sent_back() -> None:
    thought = block(0, {"type": "thinking", "thinking": "Hm.", "signature": ""})
    stream = [*thought, *block(1, {"type": "text", "text": "Well."}), STOP]
    async with hearing(OF[Anthropic], stream) as (page, _):
        assert await outcome(page) == "completed"
        assert [m["role"] for m in page.messages] == ["user", "reasoning", "assistant"]
        assert "encryptedValue" not in page.messages[1]


async def test_a_tool_of_the_providers_own_is_no_call() -> None:
    kind = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    said = block(0, kind, {"type": "input_json_delta", "partial_json": '{"query":"x"}'})
    result, ran, page = await played(Anthropic, *said, STOP)
    assert (result, ran) == ("completed", [])
    assert not [m for m in page.messages if m.get("toolCalls")]
