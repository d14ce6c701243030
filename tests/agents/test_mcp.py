"""Tools of MCP servers as server tools: the mapping, the connection, and what becomes of both."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp.server import Server
from mcp.server.mcpserver import Context, MCPServer

from handspan import Bridge
from handspan.mcp import MCPTools
from handspan.shell.tools import server_tool
from handspan.shell.values import ToolError
from handspan.testing import Page
from handspan_protocol.errors import Unavailable, UsageError

Json = Any

PIXEL = "iVBORw0KGgo="
"""Stands for a picture's bytes."""


def things() -> MCPServer:
    """A server with a tool of each kind."""
    server = MCPServer("things", log_level="CRITICAL")

    @server.tool(annotations=types.ToolAnnotations(read_only_hint=True, title="Sum"))
    def add(a: int, b: int = 1) -> int:
        "Adds two numbers."
        return a + b

    @server.tool(annotations=types.ToolAnnotations(idempotent_hint=True))
    def person(name: str) -> dict[str, str]:
        return {"name": name}

    @server.tool(structured_output=False)
    def poem() -> list[str]:
        return ["roses", "violets"]

    @server.tool()
    def look() -> types.CallToolResult:
        picture = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
        return types.CallToolResult(content=[types.TextContent(type="text", text="a"), picture])

    @server.tool()
    def refuse() -> types.CallToolResult:
        words = types.TextContent(type="text", text="no such lamp")
        return types.CallToolResult(content=[words], is_error=True)

    return server


def names(bridge: Bridge) -> list[str]:
    return sorted(bridge._specs)


@asynccontextmanager
async def serving(*tools: Any) -> AsyncIterator[Bridge]:
    bridge = Bridge(tools=tools)
    async with bridge.running():
        yield bridge


async def call(bridge: Bridge, name: str, /, **args: Json) -> Any:
    """A call by an agent of the run."""
    given: list[Any] = []

    @bridge.agent("caller")
    async def caller(run: Any) -> None:
        given.append(await run.call_tool(name, args))

    done = await bridge.run("go", agent="caller")
    assert done.error is None
    return given[0]


# ---- the mapping ------------------------------------------------------------------------------


async def test_tools_are_there_while_the_bridge_serves_and_gone_with_it() -> None:
    bridge = Bridge(tools=[MCPTools(things())])
    assert names(bridge) == []
    for _ in range(2):
        async with bridge.running():
            assert names(bridge) == ["add", "look", "person", "poem", "refuse"]
        assert names(bridge) == []


async def test_a_tool_keeps_its_schema_its_words_and_what_it_says_of_itself() -> None:
    async with serving(MCPTools(things(), timeout=3, approval="always")) as bridge:
        add, person = bridge._specs["add"].tool, bridge._specs["person"].tool
    assert (add.description, add.title) == ("Adds two numbers.", "Sum")
    assert isinstance(add.parameters, dict)
    assert add.parameters["required"] == ["a"]
    assert (add.read_only, add.idempotent) == (True, False)
    assert (person.read_only, person.idempotent) == (False, True)
    assert (add.timeout_ms, add.approval) == (3000, "always")


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("add", {"a": 2}, {"result": 3}),
        ("person", {"name": "Zoë"}, {"name": "Zoë"}),
        ("poem", {}, "roses\nviolets"),
        (
            "look",
            {},
            [
                {"type": "text", "text": "a"},
                {
                    "type": "image",
                    "source": {"type": "data", "value": PIXEL, "mimeType": "image/png"},
                },
            ],
        ),
    ],
)
async def test_a_result_is_its_structure_its_text_or_its_parts(
    name: str, args: Json, value: Json
) -> None:
    async with serving(MCPTools(things())) as bridge:
        result = await call(bridge, name, **args)
    assert (result.outcome, result.value) == ("ok", value)


async def test_parts_stand_in_history_as_parts() -> None:
    async with serving(MCPTools(things())) as bridge:

        @bridge.agent
        async def agent(run: Any) -> AsyncIterator[Any]:
            if run.depth == 0:
                yield run.call("look")

        done = await bridge.run("go")
    told = next(message for message in done.messages if message.role == "tool")
    assert [part.type for part in told.content] == ["text", "image"]


async def test_p3_bad_arguments_never_reach_the_server() -> None:
    async with serving(MCPTools(things())) as bridge:
        result = await call(bridge, "add", a="two")
    assert result.error.code == "invalid_arguments"


async def test_a_tool_that_failed_is_an_error_in_its_own_words() -> None:
    async with serving(MCPTools(things())) as bridge:
        result = await call(bridge, "refuse")
    assert (result.outcome, result.error.message) == ("error", "no such lamp")


async def test_names_are_made_fit_and_two_that_become_one_are_told_apart() -> None:
    server = MCPServer("odd", log_level="CRITICAL")
    for name in ("käse", "k se", "x" * 70, "x" * 71):
        server.add_tool(lambda name=name: name, name=name, structured_output=False)
    async with serving(MCPTools(server, prefix="odd.")) as bridge:
        there = names(bridge)
        assert there == ["odd.k_se", "odd.k_se_2", "odd." + "x" * 58 + "_2", "odd." + "x" * 60]
        assert (await call(bridge, "odd.k_se_2")).value == "k se"


async def test_p14_a_name_that_is_taken_and_a_bad_schema_harm_no_other_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tools(_: Any, __: Any) -> types.ListToolsResult:
        schemas = {"add": {"type": "object"}, "bad": {"type": "object", "properties": {"a": 1}}}
        schemas |= {"far": {"type": "object", "$ref": "http://192.0.2.1/x"}, "good": schemas["add"]}
        return types.ListToolsResult(
            tools=[types.Tool(name=n, input_schema=s) for n, s in schemas.items()]
        )

    bridge = Bridge(tools=[MCPTools(Server("odd", on_list_tools=tools))])

    @bridge.tool
    def add() -> str:
        return "ours"

    with caplog.at_level(logging.WARNING):
        async with bridge.running():
            assert names(bridge) == ["add", "good"]
            assert (await call(bridge, "add")).value == "ours"
        assert names(bridge) == ["add"]
    assert [record.args[0] for record in caplog.records] == ["add", "bad", "far"]


# ---- changes and calls under way ---------------------------------------------------------------


class Told:
    """What a source says of its tools, as a bridge hears it."""

    def __init__(self, source: MCPTools) -> None:
        self._source = source
        self._news: asyncio.Queue[Any] = asyncio.Queue()
        self.tools: dict[str, Any] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Told"]:
        async with self._source.opened(self._news.put_nowait) as tools:
            self._take(tools)
            yield self

    async def change(self) -> None:
        """Wait for the next news."""
        async with asyncio.timeout(5):
            self._take(await self._news.get())

    async def call(self, name: str) -> Any:
        return await self.tools[name].function()

    async def patiently(self, name: str) -> Any:
        """The value of a call, tried until the server is there again; fails by the loop's clock."""
        async with asyncio.timeout(5):
            while True:
                try:
                    return await self.call(name)
                except ToolError:
                    await asyncio.sleep(0.01)

    def _take(self, tools: Any) -> None:
        self.tools = {tool.tool.name: tool for tool in tools}


async def check_changes(source: MCPTools) -> None:
    async with Told(source).opened() as told:
        assert "late" not in told.tools
        await told.call("grow")
        await told.change()
        assert await told.call("late") == "here"
        await told.call("shrink")
        await told.change()
        assert "late" not in told.tools


async def test_a_list_that_changed_is_read_again() -> None:
    await check_changes(MCPTools(growing()))


async def test_a_list_that_changed_is_read_again_of_a_program_of_before_2026(
    tmp_path: Path,
) -> None:
    await check_changes(MCPTools(old(tmp_path)))


async def test_a_list_that_changed_is_read_again_over_http() -> None:
    async with over_http(growing()) as url:
        await check_changes(MCPTools(url, headers={"x-key": "secret"}))


async def test_a_server_that_refuses_the_key_cannot_be_reached() -> None:
    async with over_http(growing()) as url:
        bridge = Bridge(tools=[MCPTools(url, headers={"x-key": "wrong-secret"})])
        with pytest.raises(Unavailable) as told:
            async with bridge.running():
                raise AssertionError("it serves")
    assert "secret" not in str(told.value)


async def test_p5_a_stop_cancels_the_call_at_the_server() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    server = MCPServer("slow", log_level="CRITICAL")

    @server.tool()
    async def slow() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with serving(MCPTools(server)) as bridge:

        @bridge.agent
        async def agent(run: Any) -> AsyncIterator[Any]:
            yield run.call("slow")

        async with Page(bridge) as page:
            run = page.run("go")
            async with asyncio.timeout(5):
                await begun.wait()
            await page.abort(run.id)
            assert (await run.finished)["reason"] == "aborted"
            async with asyncio.timeout(5):
                await ended.wait()


# ---- servers that are not there ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("http://user:secret@127.0.0.1:9/mcp?key=secret", "MCP server 127.0.0.1"),
        (["/no/such/server", "--key=secret"], "MCP server server"),
        ([sys.executable, "-c", "pass"], "MCP server python"),
    ],
    ids=["nobody listens", "no such command", "a command that ends"],
)
async def test_a_server_that_cannot_be_reached_is_told_in_a_line(server: Any, words: str) -> None:
    bridge = Bridge(tools=[MCPTools(things()), MCPTools(server)])
    with pytest.raises(Unavailable) as told:
        async with bridge.running():
            raise AssertionError("it serves")
    assert str(told.value).startswith(words)
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)
    assert names(bridge) == []


async def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    bridge = Bridge(tools=[MCPTools(silent, connect_s=0.05)])
    with pytest.raises(Unavailable, match="in time"):
        async with bridge.running():
            raise AssertionError("it serves")


async def test_a_server_that_dies_is_tried_again_and_its_calls_fail_until_then(
    tmp_path: Path,
) -> None:
    """Its process ends in the middle of a call; a new one is begun."""
    async with Told(MCPTools(old(tmp_path))).opened() as told:
        assert await told.call("mark") == "1"
        with pytest.raises(ToolError, match="MCP server"):
            await told.call("die")
        said = await told.patiently("mark")
    assert said == "2"


async def test_p14_a_server_that_dies_harms_no_other(tmp_path: Path) -> None:
    async with serving(MCPTools(old(tmp_path)), MCPTools(things())) as bridge:
        died = await call(bridge, "die")
        assert (died.outcome, died.error.code) == ("error", "handler_error")
        assert "die" in names(bridge)
        assert (await call(bridge, "add", a=1)).value == {"result": 2}


async def test_a_server_that_began_anew_is_found_again_over_http() -> None:
    """The same address, another process: what the old one knew is lost."""
    async with over_http(growing()) as url:
        port = int(url.split(":")[2].split("/")[0])
        source = Told(MCPTools(url, headers={"x-key": "secret"}))
        context = source.opened()
        told = await context.__aenter__()
    with pytest.raises(ToolError):
        await told.call("grow")
    async with over_http(growing(), port):
        assert await told.patiently("grow") == {"result": "grown"}
        await context.__aexit__(None, None, None)


class Shelf:
    """A source whose tools a test exchanges."""

    def __init__(self, *tools: Any) -> None:
        self.tools = tools
        self.changed: Any = None

    @asynccontextmanager
    async def opened(self, changed: Any, /) -> AsyncIterator[Any]:
        self.changed = changed
        yield self.tools


def plain(name: str, says: str = "ok") -> Any:
    async def tool() -> str:
        return says

    return server_tool(tool, name=name)


async def test_a_bridge_offers_what_its_source_has_now_and_nothing_else() -> None:
    source = Shelf(plain("a"), plain("b"))
    bridge = Bridge()
    bridge.add_tool(source)
    bridge.add_tool(plain("mine"))
    async with bridge.running():
        assert names(bridge) == ["a", "b", "mine"]
        source.changed([plain("b", "new"), plain("c"), plain("mine", "theirs")])
        assert names(bridge) == ["b", "c", "mine"]
        assert (await call(bridge, "b")).value == "new"
        assert (await call(bridge, "mine")).value == "ok"
        assert (await call(bridge, "a")).error.code == "unknown_tool"
    assert names(bridge) == ["mine"]


async def test_what_is_open_is_closed_when_another_source_cannot_be_had() -> None:
    closed = asyncio.Event()

    class Good(Shelf):
        @asynccontextmanager
        async def opened(self, changed: Any, /) -> AsyncIterator[Any]:
            try:
                yield [plain("a")]
            finally:
                closed.set()

    bridge = Bridge(tools=[Good(), MCPTools(["/no/such/server"])])
    with pytest.raises(Unavailable):
        async with bridge.running():
            raise AssertionError("it serves")
    assert closed.is_set()
    assert names(bridge) == []


async def test_a_source_comes_before_the_bridge_serves() -> None:
    async with serving() as bridge:
        with pytest.raises(UsageError, match="before"):
            bridge.add_tool(MCPTools(things()))


# ---- servers of which the list changes ---------------------------------------------------------


def growing() -> MCPServer:
    """Has one tool more when it is asked to; tells as servers do since 2026-07-28."""
    server = MCPServer("growing", log_level="CRITICAL")

    def late() -> str:
        return "here"

    @server.tool()
    async def grow(ctx: Context) -> str:
        server.add_tool(late, structured_output=False)
        await ctx.notify_tools_changed()
        return "grown"

    @server.tool()
    async def shrink(ctx: Context) -> str:
        server.remove_tool("late")
        await ctx.notify_tools_changed()
        return "shrunk"

    return server


@asynccontextmanager
async def over_http(server: MCPServer, port: int = 0) -> AsyncIterator[str]:
    """The server behind uvicorn; yields its URL. Requests without the key are refused."""
    uvicorn = pytest.importorskip("uvicorn")
    app = server.streamable_http_app()

    async def guarded(scope: Json, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"x-key", b"secret") not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        await app(scope, receive, send)

    config = uvicorn.Config(guarded, host="127.0.0.1", port=port, log_level="critical")
    config.load()
    running = uvicorn.Server(config)
    running.lifespan = config.lifespan_class(config)
    await running.lifespan.startup()
    await running.startup()
    serving = asyncio.create_task(running.main_loop())
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        running.should_exit = running.force_exit = True
        await serving
        await running.shutdown()


OLD = """
import json, os, sys

starts = sys.argv[1]
with open(starts, "a") as file:
    file.write("x")
names = ["grow", "shrink", "mark", "die"]


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def called(name):
    if name == "die":
        os._exit(1)
    if name == "grow":
        names.append("late")
    if name == "shrink":
        names.remove("late")
    if name in ("grow", "shrink"):
        say({"method": "notifications/tools/list_changed"})
    return str(len(open(starts).read())) if name == "mark" else "here"


def answer(method, params):
    if method == "initialize":
        server = {"name": "old", "version": "1"}
        can = {"tools": {"listChanged": True}}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "serverInfo": server, "capabilities": can}
    if method == "tools/list":
        return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": called(params["name"])}]}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params"))
        error = {"code": -32601, "message": "no such method"}
        say({"id": asked["id"], **({"result": result} if result else {"error": error})})
"""


def old(folder: Path) -> list[str]:
    """A program that speaks MCP as it was before 2026-07-28, and counts how often it began."""
    program = folder / "old.py"
    program.write_text(OLD)
    return [sys.executable, str(program), str(folder / "starts")]


@pytest.mark.parametrize("server", [[], (), "", "/a/path", "server.py", "127.0.0.1:8000/mcp"])
def test_what_is_no_server_is_refused_at_once(server: Any) -> None:
    with pytest.raises(UsageError, match="a command line is a list"):
        MCPTools(server)
