"""Random lives of three pages under virtual time: whatever happens, the promises hold. P1-P9, P12.

Each life is made from a number, so one that breaks a promise can be lived again.
"""

import random
from collections import Counter
from typing import Any

import pytest
from tests.acceptance.house import House, still_house
from tests.conftest import FULL_FORM

from handspan import Policy
from handspan.testing import Page, call
from handspan.testing.calls import PageCall

TOOLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "look": {"readOnly": True},
    "again": {"idempotent": True},
    "side": {"parallel": True},
    "pay": {"approval": "always"},
    "last": {"followUp": False},
}
LIVES = 400 if FULL_FORM else 14


class Life:
    """Pages that do at random what pages do, and what came of it."""

    def __init__(self, seed: int, home: House) -> None:
        self.dice = random.Random(seed)
        self.home = home
        self.pages: list[Page] = []
        self.ran: Counter[tuple[str, int]] = Counter()
        """How often a handler was begun for (call, attempt)."""
        self.began: dict[str, set[int]] = {}
        """Attempts of each call whose handler was begun."""
        self.kinds: dict[str, str] = {}

    async def begin(self) -> None:
        for n in range(3):
            threads = ("t1", "t2") if n < 2 else ("t1",)
            has = {name: (d, self.handler) for name, d in TOOLS.items() if self.dice.random() < 0.8}
            self.pages.append(await self.home.world.page(threads=threads, tools=has))
            if self.dice.random() < 0.5:
                self.pages[-1].on_approval(lambda request: self.dice.random() < 0.7)

    async def handler(self, args: Any, held: PageCall) -> Any:
        self.ran[held.call_id, held.attempt] += 1
        self.began.setdefault(held.call_id, set()).add(held.attempt)
        self.kinds[held.call_id] = held.name
        if self.dice.random() < 0.5:
            held.progress(self.dice.random())
        if self.dice.random() < 0.6:
            await self.home.world.sleep(self.dice.choice([0.1, 1, 20, 70]))
        if self.dice.random() < 0.15:
            raise ValueError("it did not work")
        return args

    async def step(self) -> None:
        page = self.dice.choice(self.pages)
        common = [self.run, self.cut, self.back, self.wait]
        rare = [self.press, self.abort, self.reload, self.vanish, self.say_state, self.wait]
        move = self.dice.choice([*common, *common, *rare])
        await move(page)
        await self.home.world.settle()

    async def run(self, page: Page) -> None:
        if_busy = self.dice.choice(["reject", "queue", "replace"])
        page.run("go", thread_id=self.dice.choice(["t1", "t2"]), ifBusy=if_busy)

    async def press(self, page: Page) -> None:
        follow = self.dice.choice([False, True, "and now?"])
        named = {"threadId": "t1", "name": self.dice.choice([*TOOLS, "nope"]), "followUp": follow}
        page.document.post({"type": "tool.invoke", **named})

    async def abort(self, page: Page) -> None:
        page.document.post({"type": "run.abort", "threadId": self.dice.choice(["t1", "t2"])})

    async def cut(self, page: Page) -> None:
        page.cut()

    async def vanish(self, page: Page) -> None:
        page.vanish()

    async def back(self, page: Page) -> None:
        if not page.is_open:
            await page.reconnect()

    async def reload(self, page: Page) -> None:
        await page.reload()

    async def say_state(self, page: Page) -> None:
        page.document.post({"type": "state.update", "threadId": "t1", "state": self.dice.random()})

    async def wait(self, page: Page) -> None:
        await self.home.world.advance(self.dice.choice([0.05, 1, 15, 35, 130]))

    async def end(self) -> None:
        """Everybody comes back, and time goes on until nothing is left to wait for."""
        for page in self.pages:
            await page.reconnect()
        for _ in range(20):
            await self.home.world.advance(1_000.0)

    def check(self) -> None:
        """P2, and that every page ends up with the same messages."""
        assert [twice for twice, count in self.ran.items() if count > 1] == []
        for call_id, attempts in self.began.items():
            if self.kinds[call_id] in ("plain", "side", "pay", "last"):
                assert len(attempts) == 1, f"{call_id} was begun in attempts {attempts}"
        for page in self.pages:
            for thread_id in page.wanted:
                assert page.thread(thread_id).messages == self.home.history(thread_id)
                assert page.thread(thread_id).run is None


def speak(dice: random.Random) -> Any:
    def step(run: Any) -> list[Any]:
        said: list[Any] = [f"step {run.depth} "]
        for _ in range(dice.choice([0, 0, 1, 1, 2, 3])):
            name = dice.choice([*TOOLS, "nope"])
            said.append(call(name, dice.choice([{}, {"n": dice.random()}, "{", None])))
        return said

    return step


@pytest.mark.parametrize("seed", range(LIVES))
async def test_whatever_pages_do_the_promises_hold(seed: int) -> None:
    script = [speak(random.Random(seed))] * 12
    policy = Policy(max_depth=6, calls_per_step=2 + seed % 5, frames_burst=100_000)
    async with still_house(*script, policy=policy) as home:
        life = Life(seed, home)
        await life.begin()
        for _ in range(40):
            await life.step()
        await life.end()
        life.check()


async def test_a_life_is_the_same_when_it_is_lived_again() -> None:
    """P15: the same inputs, the same effects."""

    async def lived() -> list[Any]:
        async with still_house(*[speak(random.Random(7))] * 12) as home:
            life = Life(7, home)
            await life.begin()
            for _ in range(40):
                await life.step()
            await life.end()
            return [page.frames for page in life.pages]

    assert await lived() == await lived()
