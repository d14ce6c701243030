"""A turn's calls, put together from the fragments of a model's stream.

Providers cut a call anywhere, and say to which one a fragment belongs in ways that do not agree:
by an id, sent once or with every fragment; by an index, or none; with the name first, late, or
again and again. So each fragment is given to a call by the first of these that decides:

| the fragment has | it belongs to |
|---|---|
| an id that is new | another call; or the one at its place that has none yet |
| an id that is known | that call; of two that share it, the one of its index |
| an index | the newest call there |
| neither | the newest call |

Without an id, a name where the newest call there has all its arguments, or another name, begins
another call. Two ids are always two calls, also with one index.

What comes out are AG-UI events: a call's start as soon as its name is known, its text, and its end
when the provider says so or the turn has ended: arguments are final only then. Pure.
*Source:* issue 6; cases C001, C006, C007, C019, C053.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import ToolCallArgsEvent, ToolCallEndEvent, ToolCallStartEvent

from handspan_protocol.codec import encode

Json = Any
Event = ToolCallStartEvent | ToolCallArgsEvent | ToolCallEndEvent
Index = int | str | None


@dataclass(slots=True)
class _Call:
    key: str
    """What the events call it: the provider's id, or something that is no id."""
    index: Index
    id: str | None
    name: str = ""
    text: list[str] = field(default_factory=list)
    announced: bool = False
    ended: bool = False
    next_named: bool = False
    """Its name came once more, bare, when its arguments were whole."""

    @property
    def is_whole(self) -> bool:
        """Whether its text is a JSON object, to which nothing can be added."""
        try:
            return isinstance(json.loads("".join(self.text)), dict)
        except ValueError:
            return False


class Assembler:
    """The calls of one turn, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def feed(
        self, *, index: Index = None, call_id: Any = None, name: Any = None, arguments: Json = None
    ) -> Iterator[Event]:
        """Take one fragment; `arguments` may be a text, an object, or nothing."""
        text = _text(arguments)
        call = self._find(index, _name(call_id) or None, _name(name), text)
        if not call.ended:
            call.name = call.name or _name(name)
            yield from self._say(call, text)

    def end_at(self, index: Index) -> Iterator[Event]:
        """The provider says that the call at this index, if there is one, is whole."""
        call = self._at(index)
        if call is not None and not call.ended:
            yield from self._end(call)

    def has_text_at(self, index: Index) -> bool:
        """Whether arguments of the call at this index have come."""
        call = self._at(index)
        return call is not None and bool(call.text)

    def end(self) -> Iterator[Event]:
        """The turn has ended, and so has every call."""
        for call in self._calls:
            if not call.ended:
                yield from self._end(call)

    # ---- whose it is -------------------------------------------------------------------------

    def _find(self, index: Index, call_id: str | None, name: str, text: str) -> _Call:
        if call_id is None:
            return self._without_id(index, name, text)
        mine = [call for call in self._calls if call.id == call_id]
        if mine:
            return self._of_id(mine, index, name)
        call = self._at(index)
        if call is not None and call.id is None and not (name and call.name):
            call.id = call_id
            return call
        return self._begin(index, call_id)

    def _of_id(self, mine: list[_Call], index: Index, name: str) -> _Call:
        same = [call for call in mine if index is None or call.index in (index, None)]
        if same or not name:
            return (same or mine)[-1]
        return self._begin(index, mine[0].id)

    def _without_id(self, index: Index, name: str, text: str) -> _Call:
        call = self._at(index)
        if call is None and not name and self._calls:
            call = self._calls[-1]
        if call is None or self._begins_another(call, name, text):
            return self._begin(index, None)
        return call

    def _begins_another(self, call: _Call, name: str, text: str) -> bool:
        """Whether what came without an id is no more of this call."""
        if call.next_named and text:
            return True
        if not name or not call.name:
            return False
        if name != call.name:
            return True
        call.next_named = not text and bool(call.text) and call.is_whole
        return bool(text) and call.is_whole

    def _at(self, index: Index) -> _Call | None:
        """The newest call at this index; without one, the newest of all."""
        for call in reversed(self._calls):
            if index is None or call.index == index:
                return call
        return None

    def _begin(self, index: Index, call_id: str | None) -> _Call:
        before = self._calls[-1] if self._calls else None
        free = call_id is not None and all(call.key != call_id for call in self._calls)
        call = _Call(call_id if call_id and free else f"#{len(self._calls)}", index, call_id)
        if before is not None and before.next_named:
            before.next_named, call.name = False, before.name
        self._calls.append(call)
        return call

    # ---- what is said of it ------------------------------------------------------------------

    def _say(self, call: _Call, text: str) -> Iterator[Event]:
        if text:
            call.text.append(text)
        if not call.name:
            return
        if not call.announced:
            yield from self._announce(call)
        elif text:
            yield ToolCallArgsEvent(tool_call_id=call.key, delta=text)

    def _announce(self, call: _Call) -> Iterator[Event]:
        call.announced = True
        yield ToolCallStartEvent(tool_call_id=call.key, tool_call_name=call.name)
        if call.text:
            yield ToolCallArgsEvent(tool_call_id=call.key, delta="".join(call.text))

    def _end(self, call: _Call) -> Iterator[Event]:
        """A call that never got a name is one of a tool that nobody has; an empty one is none."""
        call.ended = True
        if not (call.announced or call.text or call.id):
            return
        if not call.announced:
            yield from self._announce(call)
        yield ToolCallEndEvent(tool_call_id=call.key)


def _name(name: Any) -> str:
    return name if isinstance(name, str) else ""


def _text(arguments: Json) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return encode(dict(arguments) if isinstance(arguments, Mapping) else arguments).decode()
