"""What agents do in a simulation: drawn from the seed, the run and the depth.

A step that is asked again after a crash may well say something else, as a model would.
Owns the scripts and their recording. Knows the Run that an agent is given, and nothing else.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from tests.simulation.kit import CALLABLE

from handspan import AgentFailed, Handoff

Json = Any


class Cast:
    """The agents of one life of the server."""

    def __init__(self, world: Any, life: Any) -> None:
        self._world = world
        self._life = life

    def agents(self) -> dict[str, Any]:
        return {"default": self._named("default"), "helper": self._named("helper")}

    def _named(self, name: str) -> Any:
        async def agent(run: Any) -> AsyncIterator[Any]:
            self._note(name, run)
            rng = Random(f"{self._world.seed}/{run.id}/{run.depth}/{self._life.number}")
            async for item in self._speak(run, rng):
                yield item

        return agent

    def _note(self, name: str, run: Any) -> None:
        what = {
            "agent": name,
            "life": self._life.number,
            "threadId": run.thread_id,
            "runId": run.id,
            "depth": run.depth,
            "parent": run.parent,
            "messages": run._step.messages,
        }
        if not self._life.dead:
            self._world.history.note("invoked", run.id, what)

    async def _speak(self, run: Any, rng: Random) -> AsyncIterator[Any]:
        await asyncio.sleep(rng.choice((0, 0, 0.05, 0.5, 2.0)) * rng.random())
        if rng.random() < 0.15:
            yield run.reasoning("hm")
        if rng.random() < 0.7:
            for word in range(rng.randrange(1, 4)):
                yield f"word {word} "
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.random() * 0.3)
        await self._act(run, rng)
        ended = rng.random()
        if ended < 0.04:
            raise AgentFailed("no more")
        if ended < 0.07:
            run.finish_reason = "length"
        if rng.random() < (0.9, 0.5, 0.3)[min(run.depth, 2)]:
            for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
                yield self._call(run, rng)
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.3)
        if 0.07 < ended < 0.10 and run.parent is None:
            yield Handoff("helper")
        if ended > 0.97:
            await asyncio.sleep(15.0)

    async def _act(self, run: Any, rng: Random) -> None:
        """What a step does by itself, before it calls."""
        chance = rng.random()
        if chance < 0.12:
            run.patch_state([{"op": "add", "path": f"/agent-{run.depth}", "value": run.id}])
        elif chance < 0.27:
            calls = [run.call_tool(rng.choice(CALLABLE), {"n": 1})]
            if chance < 0.16:
                calls.append(run.call_tool(rng.choice(CALLABLE), {"n": 2}))
            await asyncio.gather(*calls)
        elif chance < 0.33 and run.depth < 2:
            await run.delegate("helper", "do a part of it")
        elif 0.33 <= chance < 0.36:
            await self._lose_patience(run, rng)

    async def _lose_patience(self, run: Any, rng: Random) -> None:
        """Wait for a call no longer than a moment; it is stopped, unless it is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rng.random()):
                await run.call_tool(rng.choice(CALLABLE), {"n": 3})

    def _call(self, run: Any, rng: Random) -> Any:
        name = rng.choice(CALLABLE)
        wish = rng.choice((None, None, None, "call-1", f"call-{run.id}"))
        args: Json = {"n": rng.randrange(9)}
        if rng.random() < 0.05:
            args = rng.choice(("", '{"n": "one"}', "{", "[]"))
        return run.call(name, args, id=wish)
