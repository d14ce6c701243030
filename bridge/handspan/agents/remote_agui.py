"""An agent that lives behind any AG-UI server: a POST for each step, its events as they stream in.

    RemoteAGUI("https://agents.example/agui", headers={"Authorization": "Bearer ..."})

A server ends its run where a tool of the page is wanted (RUN_FINISHED, and a call without a
TOOL_CALL_RESULT). That is our recursion: the step ends, the page answers, and the next step posts
again, with the history as it then is. Owns what is posted, the stream, and what its events mean
here (`Ear`). The thread is the memory; what the server remembers beside goes by the threadId.
*Source:* AG-UI 1.0, RunAgentInput and the events; issue 6.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final
from uuid import uuid4

import httpx
from ag_ui.core import PROTOCOL_VERSION, BaseEvent, EventType, TokenUsage
from ag_ui.core import Event as AnyEvent
from httpx_sse import EventSource
from pydantic import TypeAdapter, ValidationError

from handspan.core.parties import ANONYMOUS
from handspan.model.failures import told
from handspan.model.history import NO_RESULT
from handspan.model.keys import check_address
from handspan.model.patience import Patience, Provider
from handspan.ports import AgentFailed
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.errors import PeerError

__all__ = ["RemoteAGUI"]

Json = Any
Event = Mapping[str, Json]

NAME: Final = "the remote agent"
"""What its failures call it; its address is of no interest to a page."""

WORDS_BYTES: Final = 8192
"""As much of a refusal's body is read as words about it may take."""

SECRET_CHARS: Final = 8
"""A header's value of fewer characters is no secret; taking it out of a line would garble it."""


USUAL: Final = Patience()


class RemoteAGUI:
    """An agent behind an AG-UI server (HTTP POST, server-sent events).

    `headers` go with every request; no line of an error shows their values. `client`: an
    httpx.AsyncClient of yours, with its own proxies and connections; without one each step has a
    connection of its own. `instructions`: a system message before the history. `first_event_s`,
    `between_events_s`, `total_s`: seconds that the answer of a step may take. `retries`: how often
    a request that failed before its first event is sent again; the server may have acted on it.
    `protocol_version`: what the request says it speaks; None says nothing, for servers that refuse
    fields which they do not know.

    Raises:
        UsageError: `url` has no scheme.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
        instructions: str = "",
        first_event_s: float = USUAL.first_event_s,
        between_events_s: float = USUAL.between_events_s,
        total_s: float = USUAL.total_s,
        retries: int = 0,
        protocol_version: str | None = PROTOCOL_VERSION,
    ) -> None:
        check_address("RemoteAGUI", url, "url")
        self.url = url
        self.instructions = instructions
        self._headers = dict(headers or {})
        self._client = client
        self._version = protocol_version
        self._secrets = _secrets(self._headers)
        patience = Patience(
            first_event_s=first_event_s,
            between_events_s=between_events_s,
            total_s=total_s,
            retries=retries,
        )
        self._provider = Provider(NAME, self._secrets, patience)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        request = request_of(run, self.instructions, self._version)
        ear = Ear(run, request)
        events: Any = self._provider.events(run, request, self._send)
        async with aclosing(events):
            try:
                async for event in events:
                    for item in ear.hear(event):
                        yield item
                ear.check_end()
            except Unfit as problem:
                raise AgentFailed(told(NAME, problem, self._secrets)) from None

    async def _send(self, request: Mapping[str, Json]) -> "_Stream":
        client = self._client = self._client or httpx.AsyncClient(limits=_NONE_KEPT)
        asked = client.build_request(
            "POST",
            self.url,
            content=encode(dict(request)),
            headers={**_HEADERS, **self._headers},
            timeout=httpx.Timeout(None),
        )
        response = await client.send(asked, stream=True)
        if not response.is_success:
            raise await _refusal(response)
        return _Stream(response)


_HEADERS: Final = {"Content-Type": "application/json", "Accept": "text/event-stream"}

_NONE_KEPT: Final = httpx.Limits(max_keepalive_connections=0)
"""A stream is left at its last event, and its connection with it; and so nothing is bound to one
event loop."""


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of headers, and of each its last word: "Bearer" is none."""
    found = [part for value in headers.values() for part in (value, value.rpartition(" ")[2])]
    return [part for part in found if len(part) >= SECRET_CHARS]


# ---- what is posted ----------------------------------------------------------------------------


def request_of(run: Any, instructions: str = "", version: str | None = None) -> dict[str, Json]:
    """The RunAgentInput of a step, with a runId of its own: servers refuse one that came before."""
    request = {
        "threadId": thread_of(run),
        "runId": str(uuid4()),
        "state": {} if run.state is None else run.state,
        "messages": [*_system(instructions, run.instructions), *_messages(run.messages)],
        "tools": [_tool(tool) for tool in run.current_tools()],
        "context": [_context(item) for item in run.context],
        "forwardedProps": {} if run.forwarded_props is None else run.forwarded_props,
    }
    return request if version is None else {**request, "protocolVersion": version}


def thread_of(run: Any) -> str:
    """The threadId, under which a server may remember things: another one for each principal (P8),
    and for each sub-run, which has a history of its own."""
    thread = str(run.thread_id)
    if run.principal.id != ANONYMOUS.id:
        mark = hashlib.sha256(run.principal.id.encode()).hexdigest()
        thread = f"{mark[:16]}-{thread}"
    return thread if run.parent is None else f"{thread}-{run.id}"


def _system(*texts: str) -> Iterator[Json]:
    said = "\n\n".join(text for text in texts if text)
    if said:
        yield {"id": "instructions", "role": "system", "content": said}


def _messages(messages: Sequence[Any]) -> Iterator[Json]:
    """The history; every call with its one result right behind it (P1), whatever hooks left."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        if message.role in ("activity", "tool"):
            continue
        yield _message(message)
        for call in getattr(message, "tool_calls", None) or ():
            given = results.get(call.id)
            yield _lost(call.id) if given is None else _message(given)


def _message(message: Any) -> Json:
    """As AG-UI has it; what the bridge notes at a result is told in AG-UI's own field."""
    plain = message.model_dump(mode="json", by_alias=True, exclude_none=True)
    metadata = plain.pop("metadata", {})
    noted = metadata.pop("handspan", {})
    if metadata:
        plain["metadata"] = metadata
    if plain["role"] == "tool" and noted.get("outcome", "ok") != "ok":
        plain.setdefault("error", noted.get("code") or noted["outcome"])
    return plain


def _lost(call_id: str) -> Json:
    result = {"id": f"{call_id}-result", "role": "tool", "toolCallId": call_id}
    return result | {"content": NO_RESULT, "error": "outcome_unknown"}


def _tool(tool: Any) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _context(item: Any) -> Json:
    """AG-UI's context has no name, and a text as its value."""
    described = f"{item.name}: {item.description}" if item.description else item.name
    value = item.value if isinstance(item.value, str) else encode(item.value).decode()
    return {"description": described, "value": value}


# ---- the stream --------------------------------------------------------------------------------


class Unfit(Exception):  # noqa: N818 (what the answer is)
    """What came is no answer of an AG-UI server; says why in a line."""


class Refused(Unfit):
    """The request was answered with another status than success."""

    def __init__(self, status_code: int, body: Json, words: str) -> None:
        super().__init__(words)
        self.status_code = status_code
        self.body = body


class _Stream:
    """The events of an answer, up to the run's last one, as JSON objects."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        response.encoding = "utf-8"  # whatever its header says. *Source:* HTML, 9.2.6

    async def __aiter__(self) -> AsyncIterator[Event]:
        kind = self._response.headers.get("content-type", "").partition(";")[0].strip()
        if kind.lower() != "text/event-stream":
            raise Unfit(f"it answers with {kind or 'no content type'}, not with a stream of events")
        try:
            async with aclosing(EventSource(self._response).aiter_sse()) as sent:
                async for each in sent:
                    if not each.data:
                        continue
                    event = _event(each.data)
                    yield event
                    if event["type"] in _LAST:
                        return
        except httpx.TransportError as broken:
            raise Unfit("its stream broke off in the middle") from broken

    async def aclose(self) -> None:
        """Drop the connection; also while somebody reads."""
        await self._response.aclose()


_LAST: Final = ("RUN_FINISHED", "RUN_ERROR")


def _event(text: str) -> Event:
    try:
        event = parse_json(text)
    except PeerError as problem:
        raise Unfit(f"it sent an event that is no JSON: {problem.message}") from None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise Unfit("it sent an event without a type")
    return event


async def _refusal(response: httpx.Response) -> Refused:
    """What is raised for a status that is no success; the connection is given up."""
    body = b""
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) >= WORDS_BYTES:
                break
    finally:
        await response.aclose()
    if response.is_redirect:
        return Refused(response.status_code, None, "it is elsewhere; give that address")
    try:
        said = parse_json(body)
    except PeerError:
        said = None
    return Refused(response.status_code, _worded(said), response.reason_phrase)


def _worded(said: Json) -> Json:
    """FastAPI's `detail` is a message too."""
    if isinstance(said, dict) and isinstance(said.get("detail"), str):
        return {"message": said["detail"]}
    return said


# ---- what is heard -----------------------------------------------------------------------------


class Ear:
    """Makes the events of one answer items of its step.

    Notes what was said, so that a MESSAGES_SNAPSHOT, which the thread does not take, is read only
    where it is the sole carrier of something.
    """

    def __init__(self, run: Any, request: Mapping[str, Json]) -> None:
        self._run = run
        self._request = request
        self._snapshot: Sequence[Json] = ()
        self._said: set[str] = set()
        """The families of events that came: "TEXT", "TOOL", "REASONING", ..."""
        self._open_calls: set[str] = set()
        self._finished = False
        self._begun = {"thinking": 0, "thought": 0}
        """Spans and messages of reasoning that had to be given ids."""

    def hear(self, event: Event) -> Iterator[BaseEvent]:
        """The items that an event is to the step; none for one that is unknown.

        Raises:
            Unfit: it is not what AG-UI says, or it ends the run otherwise than well.
        """
        kind = event["type"]
        if kind in _PASSED:
            yield self._pass(event)
        elif kind in _THINKING:
            yield self._pass(self._modern(event))
        elif kind in _OWN:
            yield from _OWN[kind](self, event)

    def check_end(self) -> None:
        """Raises: Unfit: the stream ended before its run did."""
        if not self._finished:
            raise Unfit("its stream ended before its run did (no RUN_FINISHED)")

    def _pass(self, event: Event) -> BaseEvent:
        kind = event["type"]
        self._said.add(kind.partition("_")[0])
        if kind == "TOOL_CALL_START":
            self._open_calls.add(str(event.get("toolCallId")))
        elif kind in ("TOOL_CALL_END", "TOOL_CALL_RESULT"):
            self._open_calls.discard(str(event.get("toolCallId")))
        return _made(event)

    def _modern(self, event: Event) -> Event:
        """An event of AG-UI before 1.0, with the ids that it lacks."""
        kind = _THINKING[event["type"]]
        level = "thought" if "MESSAGE" in kind else "thinking"
        self._begun[level] += kind.endswith("_START")
        said = {"type": kind, "messageId": f"{self._request['runId']}-{level}-{self._begun[level]}"}
        if kind == "REASONING_MESSAGE_START":
            said["role"] = "reasoning"
        return {**event, **said}

    # ---- the frame of its run ------------------------------------------------------------------

    def _take_snapshot(self, event: Event) -> Iterator[BaseEvent]:
        messages = event.get("messages")
        if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
            raise Unfit("it sent a MESSAGES_SNAPSHOT without messages")
        self._snapshot = messages
        return iter(())

    def _take_error(self, event: Event) -> Iterator[BaseEvent]:
        self._count(event)
        raise Unfit(str(event.get("message") or "it failed and does not say why"))

    def _take_end(self, event: Event) -> Iterator[BaseEvent]:
        self._count(event)
        outcome = event.get("outcome") or {}
        how = outcome.get("type") if isinstance(outcome, dict) else None
        if how == "interrupt":
            raise Unfit(f"it waits for an answer that pages cannot give{_wanted(outcome)}")
        if how == "cancelled":
            raise Unfit("its run was cancelled on its own side")
        self._finished = True
        if event.get("result") is not None:
            self._run.output = event["result"]
        if self._open_calls:
            self._run.finish_reason = "unknown"  # P3: a call is final only at its end event
        yield from self._only_in_snapshot()

    def _count(self, event: Event) -> None:
        usage = event.get("usage")
        for each in usage if isinstance(usage, list) else ():
            try:
                counted = TokenUsage.model_validate(each)
            except ValidationError:
                continue
            self._run.count_usage(**{name: getattr(counted, name) for name in _COUNTED})

    # ---- what only a snapshot tells ------------------------------------------------------------

    def _only_in_snapshot(self) -> Iterator[BaseEvent]:
        said = frozenset(self._said)
        for message in self._new_messages():
            for event in _spoken(message):
                if event["type"].partition("_")[0] not in said:
                    yield _made(event)

    def _new_messages(self) -> Iterable[Json]:
        """What stands in the snapshot behind the history that was sent."""
        sent = self._request["messages"]
        ids = {message.get("id") for message in sent}
        answered = {message.get("toolCallId") for message in sent} - {None}
        start = 0
        for place, message in enumerate(self._snapshot, 1):
            old = message.get("id") in ids or message.get("toolCallId") in answered
            if old or message.get("role") == "user":
                start = place
        return self._snapshot[start:]


_ANY: Final[TypeAdapter[Any]] = TypeAdapter(AnyEvent)

_COUNTED: Final = tuple(TokenUsage.model_fields)

_FRAME: Final = ("RUN_", "STEP_", "SUBAGENT_", "MESSAGES_")
"""The thread has these of its own. *Source:* protocol.md 1."""

_PASSED: Final = frozenset(kind.value for kind in EventType if not kind.value.startswith(_FRAME))

_THINKING: Final[Mapping[str, str]] = {
    "THINKING_START": "REASONING_START",
    "THINKING_TEXT_MESSAGE_START": "REASONING_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT": "REASONING_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END": "REASONING_MESSAGE_END",
    "THINKING_END": "REASONING_END",
}
"""*Source:* AG-UI 0.1.10; gone in 1.0."""

_OWN: Final[Mapping[str, Callable[[Ear, Event], Iterator[BaseEvent]]]] = {
    "MESSAGES_SNAPSHOT": Ear._take_snapshot,
    "RUN_ERROR": Ear._take_error,
    "RUN_FINISHED": Ear._take_end,
}


def _made(event: Event) -> BaseEvent:
    """The event as ag_ui's own.

    Raises:
        Unfit: it lacks what its kind must have.
    """
    if not isinstance(event.get("timestamp"), int):
        event = {key: value for key, value in event.items() if key != "timestamp"}
    try:
        made: BaseEvent = _ANY.validate_python(event)
    except ValidationError as problem:
        first = problem.errors()[0]
        place = "/".join(str(part) for part in first["loc"][1:])
        raise Unfit(f"its {event['type']} is none: {place}: {first['msg']}") from None
    return made


def _wanted(outcome: Mapping[str, Json]) -> str:
    """What an interrupt asks for, in its own words."""
    for asked in outcome.get("interrupts") or ():
        if isinstance(asked, dict) and (words := asked.get("message") or asked.get("reason")):
            return f": {words}"
    return ""


def _spoken(message: Json) -> Iterator[dict[str, Json]]:
    """The events that would have said a message."""
    said, name = message.get("content"), {"messageId": message.get("id")}
    match message.get("role"):
        case "assistant":
            if isinstance(said, str) and said:
                yield {"type": "TEXT_MESSAGE_START", **name, "role": "assistant"}
                yield {"type": "TEXT_MESSAGE_CONTENT", **name, "delta": said}
                yield {"type": "TEXT_MESSAGE_END", **name}
            for call in message.get("toolCalls") or ():
                yield from _called(call)
        case "reasoning":
            yield {"type": "REASONING_MESSAGE_START", **name, "role": "reasoning"}
            yield {"type": "REASONING_MESSAGE_CONTENT", **name, "delta": said or ""}
            yield {"type": "REASONING_MESSAGE_END", **name}
        case "tool":
            call = {"toolCallId": message.get("toolCallId"), "content": said}
            yield {"type": "TOOL_CALL_RESULT", **name, **call}


def _called(call: Json) -> Iterator[dict[str, Json]]:
    name, function = {"toolCallId": call.get("id")}, call.get("function") or {}
    yield {"type": "TOOL_CALL_START", **name, "toolCallName": function.get("name")}
    yield {"type": "TOOL_CALL_ARGS", **name, "delta": function.get("arguments") or ""}
    yield {"type": "TOOL_CALL_END", **name}
