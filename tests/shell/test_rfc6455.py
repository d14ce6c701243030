"""Our port, judged by the cases of the Autobahn suite (`kosoku`) as an echo of texts (RFC 6455).

Most of it is websockets' doing; what it shows is that our own way in and out of the library (writes
past it, a close under a deadline, texts only) breaks nothing. `make long` plays all of it.
"""

import re
import sys
from typing import Any

import pytest
from tests.conftest import FULL_FORM

from handspan.core.policy import Policy
from handspan.shell.clock import LoopClock
from handspan.shell.socket import Socket
from handspan.shell.websocket import serve

kosoku = pytest.importorskip("kosoku")

SHORT = {
    "cases": ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"],
    "exclude_cases": ["6.4.*"],
}
"""Without long waits, large messages and compression."""

EXPECTED = {
    r"1\.2\..*|9\.[2468]\..*": "a binary message: text frames only, close 1003 (protocol.md)",
    r"7\.1\.5": "a close between fragments: websockets answers a protocol error, not the close",
    r"9\.3\.[12]": "a text in 16,000 fragments and more: websockets takes 1,024 at most",
    r"1[23]\..*": "compression: off, and not offered",
}
"""Cases that do not pass, each with its reason; what is here and passes is a mistake too."""


class Echo:
    """A gate that says again what it hears."""

    def connected(self, socket: Socket) -> None:
        socket.welcomed = True

    async def received(self, socket: Socket, text: str) -> None:
        socket.writer.control(text.encode())

    def disconnected(self, socket: Socket) -> None: ...

    def draining(self) -> bool:
        return False

    def metrics(self) -> str:
        return ""


async def judged() -> list[Any]:
    """The result of each case."""
    many = 10**6
    policy = Policy(frame_bytes=32 * 2**20, frames_per_second=many, frames_burst=many)
    where = {"host": "127.0.0.1", "port": 0}
    async with serve(Echo(), policy=policy, clock=LoopClock(), **where) as listener:
        url = f"ws://127.0.0.1:{listener.port}"
        try:
            chosen = {} if FULL_FORM else SHORT
            return list(await kosoku.run_fuzzingclient(url, concurrency=4, **chosen))
        except kosoku.FailureError as some_failed:
            return list(some_failed.results)


@pytest.mark.skipif(sys.platform == "win32", reason="kosoku is not tried there")
async def test_every_case_passes_but_those_that_are_expected_not_to() -> None:
    results = await judged()
    assert len(results) > (500 if FULL_FORM else 200)
    reasons = {r.case_id: _why(r.case_id) for r in results}
    failed = [r.case_id for r in results if not r.passed]
    assert [case for case in failed if reasons[case] is None] == []
    assert [r.case_id for r in results if r.passed and reasons[r.case_id] is not None] == []


def _why(case: str) -> str | None:
    return next((why for known, why in EXPECTED.items() if re.fullmatch(known, case)), None)
