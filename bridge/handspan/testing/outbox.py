"""A document's commands: their ids, their answers, and what to send again after a reconnect.

Owns the promise that a command is sent until it has its one reply. Deliberately does not know what
a command says. *Source:* protocol.md 3.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from handspan_protocol.errors import HandspanError

from .story import Refused

__all__ = ["Lost", "Outbox"]

Json = Any


class Lost(HandspanError):  # noqa: N818 - what happened
    """There will be no reply: the document or its session is gone."""


class Outbox:
    """Numbers commands and pairs them with replies."""

    def __init__(self, send: Callable[[Mapping[str, Json]], None]) -> None:
        self.waiting: dict[str, Mapping[str, Json]] = {}
        """Commands without a reply, in the order they were sent."""
        self._send = send
        self._count = 0
        self._answers: dict[str, asyncio.Future[Any]] = {}

    def post(self, frame: Mapping[str, Json]) -> "asyncio.Future[Any]":
        """Send a command; the future gets its result, or the HandspanError that answered it.

        The error is the future's result, so that an answer nobody wants makes no noise.
        """
        self._count += 1
        command = str(self._count)
        whole = {"id": command, **frame}
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting[whole["id"]] = whole
        self._answers[whole["id"]] = answer
        self._send(whole)
        return answer

    def take(self, reply: Mapping[str, Json]) -> None:
        """One `reply` frame; one for an id that waits no more is passed over."""
        self.waiting.pop(reply["id"], None)
        answer = self._answers.pop(reply["id"], None)
        if answer is None or answer.done():
            return
        error = reply.get("error")
        if error is None:
            answer.set_result(reply.get("result"))
        else:
            answer.set_result(Refused(error["code"], error["message"], error.get("path")))

    def send_again(self) -> None:
        """After a reconnect: what had no reply."""
        for frame in list(self.waiting.values()):
            self._send(frame)

    def lose(self, why: str) -> None:
        """Nothing of it will be answered."""
        self.waiting.clear()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(Lost(why))
        self._answers.clear()
