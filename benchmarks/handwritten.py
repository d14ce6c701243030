"""The reference: `websockets` and `orjson` by hand, for these jobs and nothing else.

One event a message, each encoded for its page, each sent with `await`. It keeps no history, checks
no arguments, survives no reconnect, and has no limits: what is left is what the wire costs. A call
shows the same events to the page that Handspan shows of it (start, arguments, end, result).

A page says `{"type": "start", "work": "stream 2000"}`, and answers calls as a page of Handspan's
does.
"""

import asyncio
import contextlib
import itertools
from typing import Any

import orjson
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from benchmarks.work import DELTA, Clocked, Work


class Conversation:
    """One page and its one run at a time."""

    def __init__(self, socket: ServerConnection, clocked: Clocked) -> None:
        self._socket = socket
        self._clocked = clocked
        self._ids = itertools.count()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._run: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        async for text in self._socket:
            frame = orjson.loads(text)
            match frame["type"]:
                case "start":
                    self._run = asyncio.create_task(self._work(Work.of(frame["work"])))
                case "tool.started":
                    await self._reply(frame["id"], {"status": "go"})
                case "tool.result":
                    await self._reply(frame["id"], {"status": "accepted"})
                    self._answers.pop(frame["callId"]).set_result(frame["result"])

    async def _work(self, work: Work) -> None:
        await self._say({"type": "RUN_STARTED"})
        if work.kind == "stream":
            await self._stream(work)
        else:
            for n in range(work.count):
                with self._clocked.trip():
                    await self._call(work.tool, {"n": n})
        await self._say({"type": "RUN_FINISHED"})

    async def _stream(self, work: Work) -> None:
        message = f"m{next(self._ids)}"
        await self._say({"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"})
        for _ in range(work.count):
            delta = {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": DELTA}
            await self._say(delta)
            if work.paced:
                await asyncio.sleep(0)
        await self._say({"type": "TEXT_MESSAGE_END", "messageId": message})

    async def _call(self, name: str, args: dict[str, Any]) -> Any:
        call = f"c{next(self._ids)}"
        raw = orjson.dumps(args).decode()
        answer = self._answers[call] = asyncio.get_running_loop().create_future()
        await self._say({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": name})
        await self._say({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": raw})
        await self._say({"type": "TOOL_CALL_END", "toolCallId": call})
        await self._say({"type": "tool.call", "callId": call, "name": name, "args": args})
        value = await answer
        content = orjson.dumps(value).decode()
        await self._say({"type": "TOOL_CALL_RESULT", "toolCallId": call, "content": content})
        return value

    async def _reply(self, command: str, result: Any) -> None:
        await self._say({"type": "reply", "id": command, "result": result})

    async def _say(self, event: dict[str, Any]) -> None:
        await self._socket.send(orjson.dumps(event), text=True)


async def run(clocked: Clocked, serving: Any) -> None:
    """Listen, tell `serving` the port, and serve until it returns."""

    async def page(socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await Conversation(socket, clocked).serve()

    async with serve(page, "127.0.0.1", 0, compression=None, backlog=1024) as server:
        await serving(server.sockets[0].getsockname()[1])
