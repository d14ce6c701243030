"""A model's library as small as it can be: it calls one tool, then says what came of it.

For how-to/model.md. The pieces come as such libraries send them: the name once, the arguments cut
anywhere. What it was asked is kept in `client.asked`.
"""

from collections.abc import AsyncIterator
from types import SimpleNamespace as Piece
from typing import Any

ARGUMENTS = ('{"the', 'me":"da', 'rk"}')


class Completions:
    """`client.chat.completions`, and the client itself."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.chat = Piece(completions=self)

    async def create(self, **asked: Any) -> AsyncIterator[Any]:
        self.asked.append(asked)
        results = [m for m in asked["messages"] if m["role"] == "tool"]
        return _said(results[-1]["content"]) if results else _called()


async def _called() -> AsyncIterator[Any]:
    yield _chunk(content="One moment. ")
    function = Piece(name="set_theme", arguments="")
    yield _chunk(tool_calls=[Piece(index=0, id="call_1", function=function)])
    for text in ARGUMENTS:
        piece = Piece(index=0, id=None, function=Piece(name=None, arguments=text))
        yield _chunk(tool_calls=[piece])
    yield _chunk(finish_reason="tool_calls")
    yield Piece(choices=[])


async def _said(result: str) -> AsyncIterator[Any]:
    yield _chunk(content=f"Done: {result}")
    yield _chunk(finish_reason="stop")


def _chunk(content: Any = None, tool_calls: Any = None, finish_reason: Any = None) -> Any:
    delta = Piece(content=content, tool_calls=tool_calls)
    return Piece(choices=[Piece(delta=delta, finish_reason=finish_reason)])


client = Completions()
