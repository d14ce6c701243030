"""What of a thread must be kept: the entries that differ from those that were last written.

Owns what was written of one thread, and so what need not be written again. Whatever changed is
found by looking, not by remembering to say so: an open call, the run and the state are compared
with what stands in the store. Only messages, which are many, are told by their transcript when
they are touched, and calls that are over are not looked at again. Tokens are not kept: a message
is written when it is whole, and until then its place is, so that those behind it stay behind it.

Facts (`effects.Fact`) say when to write, and which runs and calls to look at besides; see `entries`
for the parts. Above sits whoever carries out `Record`; `revival` is the way back.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from handspan_protocol.codec import encode
from handspan_protocol.ids import CallId, RunId

from .admission import Request
from .effects import Fact
from .entries import Change, Drop, Entry, Put, as_text
from .images import call_image, request_image, run_image
from .runs import Runs
from .space import Space
from .transcript import Touched

Json = Any

TITLE_CHARS = 80
"""A title is the beginning of the first user text; a list shows one line of it."""

PLACE = b"null"
"""In place of a message that is not whole yet: what is put again stays where it was."""

_NOTHING = Touched()


class Keeping:
    """What is kept of one thread."""

    __slots__ = (
        "_about",
        "_asked",
        "_calls",
        "_open",
        "_places",
        "_runs",
        "_space",
        "_state",
        "_title",
        "_written",
    )

    def __init__(self, space: Space, runs: Runs, entries: Iterable[Entry] = ()) -> None:
        self._space = space
        self._runs = runs
        self._written: dict[tuple[str, str], bytes] = {}
        """Of what changes: what stands in the store."""
        self._calls: dict[CallId, None] = {}
        """Calls that stand in the store, in the order they were made."""
        self._open: set[CallId] = set()
        """Those of them that are not over."""
        self._asked: dict[RunId, tuple[Request, object] | None] = {}
        """Requests that stand in the store, as they were written."""
        self._places: set[str] = set()
        """Messages of which nothing but their place stands in the store."""
        self._state: Json = None
        self._about: tuple[Any, ...] = ()
        self._title: str | None = None
        for entry in entries:
            self._note(entry)
        if self._written:
            self._state = space.transcript.state
        space.transcript.touched = Touched()
        space.transcript.touched.names = dict.fromkeys(self._places)

    def _note(self, entry: Entry) -> None:
        if entry.part == "call":
            self._calls[CallId(entry.name)] = None
            self._open.add(CallId(entry.name))
        if entry.part in ("call", "run", "about", "state"):
            self._written[entry.part, entry.name] = entry.body
        elif entry.part == "request":
            self._asked[RunId(entry.name)] = None
        elif entry.part == "message" and entry.body == PLACE:
            self._places.add(entry.name)

    def changes(self, facts: Iterable[Fact]) -> list[Change]:
        """What is to be written now; it counts as written.

        What cannot be written down raises, and leaves no hole: the next time everything is written.
        """
        told = [fact.data for fact in facts]
        try:
            return [
                *self._of_messages(),
                *self._of_state(),
                *self._of_calls({CallId(data["callId"]) for data in told if "callId" in data}),
                *self._of_runs({RunId(data["runId"]) for data in told if "runId" in data}),
                *self._of_about(),
            ]
        except Exception:
            self._begin_anew()
            raise

    def _begin_anew(self) -> None:
        """Know nothing of what stands in the store but the names of runs and calls."""
        self._written.clear()
        self._state, self._about = None, ()
        self._open.update(self._calls)
        self._asked = dict.fromkeys(self._asked)
        self._space.transcript.touched = Touched(everything=True)

    # ---- messages and state ------------------------------------------------------------------

    def _of_messages(self) -> Iterator[Change]:
        transcript, key = self._space.transcript, self._space.key
        touched = transcript.touched or _NOTHING
        still = transcript.touched = Touched()
        names = touched.names
        if touched.everything:
            yield Drop(key, "message")
            self._places.clear()
            names = {message["id"]: None for message in transcript.messages}
        for name in names:
            message = transcript.get(name)
            if message is None:
                self._places.discard(name)
                yield Drop(key, "message", name)
                continue
            whole = transcript.whole_part(message)
            if whole is not message:
                still.names[name] = None
            if whole is not None:
                self._places.discard(name)
                yield Put(key, "message", name, encode(whole))
            elif name not in self._places:
                self._places.add(name)
                yield Put(key, "message", name, PLACE)

    def _of_state(self) -> Iterator[Change]:
        state = self._space.transcript.state
        if state is not self._state:
            self._state = state
            yield from self._put("state", "", encode(state))

    # ---- calls -------------------------------------------------------------------------------

    def _of_calls(self, told: set[CallId]) -> Iterator[Change]:
        known = self._runs.desk.calls
        look = told | self._open | self._runs.desk.open_calls.keys()
        for name in _in_order(look, known):
            call = known.get(name)
            if call is None or not call.ended:  # it is forgotten, or still being said
                continue
            yield from self._put("call", name, encode(call_image(call)))
            self._calls[name] = None
            if call.over:
                self._open.discard(name)
                self._written.pop(("call", name), None)
            else:
                self._open.add(name)
        if len(self._calls) > len(known):
            yield from self._forgotten()

    def _forgotten(self) -> Iterator[Change]:
        for name in [name for name in self._calls if name not in self._runs.desk.calls]:
            del self._calls[name]
            self._open.discard(name)
            self._written.pop(("call", name), None)
            yield Drop(self._space.key, "call", name)

    # ---- runs --------------------------------------------------------------------------------

    def _of_runs(self, told: set[RunId]) -> Iterator[Change]:
        key, open_runs = self._space.key, self._unfinished()
        for name in told - self._asked.keys() - open_runs.keys():  # over within one input
            yield Put(key, "used", name, b"true")
        for place, (name, request) in enumerate(open_runs.items()):
            yield from self._of_request(name, request)
            run = self._runs.run
            image = run_image(run) if run is not None and run.id == name else {}
            yield from self._put("run", name, encode({"place": place, **image}))
        for name in [name for name in self._asked if name not in open_runs]:
            del self._asked[name]
            self._written.pop(("run", name), None)
            yield Drop(key, "request", name)
            yield Drop(key, "run", name)

    def _unfinished(self) -> dict[RunId, Request]:
        """The run under way, and those that wait behind it."""
        run = self._runs.run
        requests = [*([run.request] if run is not None else []), *self._runs.queue]
        return {RunId(request.run_id or ""): request for request in requests}

    def _of_request(self, name: RunId, request: Request) -> Iterator[Change]:
        run = self._runs.run
        began = run.context_began if run is not None and run.id == name else ()
        kept = self._asked.get(name)
        if kept is None or kept[0] is not request or kept[1] is not began:
            self._asked[name] = (request, began)
            yield Put(self._space.key, "request", name, encode(request_image(request, began)))
            yield Put(self._space.key, "used", name, b"true")

    # ---- the rest ----------------------------------------------------------------------------

    def _of_about(self) -> Iterator[Change]:
        space, runs = self._space, self._runs
        allowed = runs.desk.approvals.allowed
        about = (runs.endings.last_run, allowed, space.state_changed_between)
        title = self._title = self._title or title_of(space.transcript.messages)
        if (title, *about) != self._about:
            self._about = (title, runs.endings.last_run, set(allowed), about[2])
            told = {"title": title, "lastRun": as_text(about[0]), "allowed": sorted(allowed)}
            yield from self._put("about", "", encode({**told, "stateChanged": about[2]}))

    def _put(self, part: str, name: str, body: bytes) -> Iterator[Change]:
        if self._written.get((part, name)) != body:
            self._written[part, name] = body
            yield Put(self._space.key, part, name, body)


def _in_order(names: set[CallId], known: Iterable[CallId]) -> Iterable[CallId]:
    """These calls in the order they were made, which is the order they are taken up in."""
    return names if len(names) < 2 else [name for name in known if name in names]


def title_of(messages: Iterable[dict[str, Json]]) -> str | None:
    """The beginning of the first user text."""
    for message in messages:
        if message["role"] == "user" and isinstance(message["content"], str):
            return str(message["content"])[:TITLE_CHARS]
    return None
