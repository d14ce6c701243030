"""Recorded streams, through the providers' own libraries, cut at every byte (P3, P4; C127).

The bytes go in below the library, as its HTTP client would get them from the network.
"""

import importlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FULL_FORM

from handspan.core.arguments import BadArguments, parse_arguments
from handspan.model.thinking import opened

Json = Any
HERE = Path(__file__).parent / "recorded"
NAMES = sorted(file.stem for file in HERE.glob("*.sse"))
ADAPTERS = {
    "chat": ("openai", "OpenAIChat", "chat"),
    "responses": ("openai", "OpenAIResponses", "openai-responses"),
    "anthropic": ("anthropic", "Anthropic", "anthropic"),
}


class Run:
    """As much of a Run as an adapter asks for."""

    id, depth, instructions, context = "run-1", 0, "", ()
    messages: list[Any] = []
    tools: list[Any] = []
    finish_reason: str | None = None

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}

    async def model_request(self, request: Mapping[str, Json], send: Any) -> Any:
        return await send(request)

    def count_usage(self, *, provider: str, model: str, **tokens: int) -> None:
        self.usage = tokens


class Player:
    """An HTTP client that answers every request with the same pieces of a body."""

    def __init__(self, http: Any) -> None:
        self.pieces: list[bytes] = []
        self.http = http

    def respond(self, request: Any) -> Any:
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return self.http.Response(200, headers=headers, content=self.body(), request=request)

    async def body(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def adapter(kind: str) -> tuple[Any, Player]:
    library, name, _ = ADAPTERS[kind]
    module = pytest.importorskip(library)
    make = module.AsyncOpenAI if library == "openai" else module.AsyncAnthropic
    http = importlib.import_module(_transport(library))
    player = Player(http)
    under = http.AsyncClient(transport=http.MockTransport(player.respond))
    client = make(api_key="key", base_url="http://test/v1", http_client=under)
    return getattr(importlib.import_module("handspan.agents"), name)("m", client=client), player


def _transport(library: str) -> str:
    """The HTTP library under it, which it names in its base class."""
    base = importlib.import_module(f"{library}._base_client").AsyncHttpxClientWrapper.__mro__
    return next(kind.__module__.split(".")[0] for kind in base if kind.__name__ == "AsyncClient")


async def told(agent: Any, kind: str) -> dict[str, Json]:
    """What came out of one step, in the words of the recorded files."""
    run = Run()
    out: dict[str, Json] = {"text": "", "thoughts": "", "calls": [], "kept": None}
    calls: dict[str, list[str]] = {}
    async for item in agent(run):
        match getattr(item, "type", None):
            case None:
                out["text"] += item
            case "REASONING_MESSAGE_CONTENT":
                out["thoughts"] += item.delta
            case "REASONING_ENCRYPTED_VALUE":
                out["kept"] = opened(ADAPTERS[kind][2], item.encrypted_value)
            case "TOOL_CALL_START":
                calls[item.tool_call_id] = [item.tool_call_name, ""]
            case "TOOL_CALL_ARGS":
                calls[item.tool_call_id][1] += item.delta
    out |= {"calls": list(calls.values()), "finish": run.finish_reason, "usage": run.usage}
    return {"adapter": kind, "thoughts": "", **{k: v for k, v in out.items() if v is not None}}


@pytest.mark.parametrize("name", NAMES)
async def test_every_cut_of_a_stream_gives_the_same_calls_and_text(name: str) -> None:
    body = (HERE / f"{name}.sse").read_bytes()
    wanted = {"thoughts": "", **json.loads((HERE / f"{name}.json").read_text())}
    agent, player = adapter(wanted["adapter"])
    odd = [at for at in range(1, len(body)) if body[at] & 0xC0 == 0x80]
    cuts = range(1, len(body)) if FULL_FORM else sorted({*range(1, len(body), 41), *odd[::3]})
    for pieces in (
        [body],
        [body[at : at + 1] for at in range(len(body))],
        *([body[:at], body[at:]] for at in cuts),
    ):
        player.pieces = pieces
        assert await told(agent, wanted["adapter"]) == wanted, [len(piece) for piece in pieces][:2]
    for _, text in wanted["calls"]:
        assert not isinstance(parse_arguments(text), BadArguments)


@pytest.mark.parametrize("name", NAMES)
async def test_a_stream_that_ends_before_its_end_was_cut_off(name: str) -> None:
    """The connection is closed in good order in the middle: nothing of it may run (P3)."""
    body = (HERE / f"{name}.sse").read_bytes()
    wanted = json.loads((HERE / f"{name}.json").read_text())
    agent, player = adapter(wanted["adapter"])
    marks = (b'"finish_reason":"', b'"stop_reason":"', b"event: response.completed")
    end = min(body.index(mark) for mark in marks if mark in body)
    start = body.rindex(b"\n\n", 0, end) + 2
    player.pieces = [body[:start]]
    assert (await told(agent, wanted["adapter"]))["finish"] == "unknown"
