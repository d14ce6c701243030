"""From the core's values to what hooks are asked, and from their answers to what the core is told.

Owns the reading of what users hand back: strict, in words that may be shown. Pure; deliberately
asks nobody. Above sits `asking`, which does.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from handspan.core import inputs as i
from handspan.core.answer import Answer
from handspan.core.arguments import Problem
from handspan.core.context import check_context
from handspan_protocol.codec import encode, parse_json
from handspan_protocol.content import copy_json, equal_json, page_error_message, scrub
from handspan_protocol.errors import CallCode, PeerError, UsageError, outcome_of
from handspan_protocol.frames import ContextItem
from handspan_protocol.limits import ERROR_MESSAGE_CHARS
from handspan_protocol.messages import read_parts, read_user_message

from .asks import Allow, Ask, Deny, RunRequest
from .values import CallResult, Failure, call_result

if TYPE_CHECKING:
    from ag_ui.core import UserMessage

    from handspan.core import effects as e

Json = Any
Request = i.RunRequested | i.InvokeRequested

SUGGESTIONS_MAX: Final = 20
"""Items of one run's suggestions. A page shows a handful; more is a mistake, and goes to everybody
on the thread with every snapshot."""

SUGGESTION_CHARS: Final = 1_000
"""Of one suggestion: a sentence to click on, with room to spare."""


def user_message(given: Any) -> Mapping[str, Json] | None:
    """A user's message as the core has it: from text, parts, a mapping or an ag_ui.core message.

    Raises:
        UsageError: it is none.
    """
    if given is None:
        return None
    if hasattr(given, "model_dump"):
        given = given.model_dump(by_alias=True, exclude_none=True)
    try:
        return read_user_message(
            parse_json(encode(dict(given) if isinstance(given, Mapping) else given))
        )
    except PeerError as problem:
        raise UsageError(f"message: {problem.message}") from None


def check_agent(hook: str, name: Any, agents: Collection[str]) -> None:
    """Raises: UsageError: no agent has this name."""
    if not isinstance(name, str) or name not in agents:
        raise UsageError(f"{hook}: there is no agent {str(name)[:64]!r}")


# ---- before_run ------------------------------------------------------------------------------


def run_request(thread_id: str, request: Request) -> RunRequest:
    """What `before_run` is asked about."""
    if isinstance(request, i.InvokeRequested):
        return RunRequest(thread_id, "default", None, [], request.principal)
    context = [replace(item, value=copy_json(item.value)) for item in request.context]
    agent = request.agent or "default"
    return RunRequest(thread_id, agent, _shown(request.message), context, request.principal)


def _shown(message: Mapping[str, Json] | None) -> "str | UserMessage | None":
    if message is None:
        return None
    if isinstance(message["content"], str):
        return message["content"]
    from ag_ui.core import UserMessage

    return UserMessage.model_validate(copy_json({"id": "", **message}))


def read_request(
    said: RunRequest, asked: Request, agents: Collection[str], context_bytes: int
) -> Request:
    """The request as the hooks want it to run.

    Raises:
        UsageError: no such agent, no message, no context.
    """
    if isinstance(asked, i.InvokeRequested):
        return asked
    check_agent("before_run", said.agent, agents)
    message = _message(said.message, asked.message)
    context = _context(said.context, context_bytes)
    agent = asked.agent if said.agent == (asked.agent or "default") else said.agent
    return replace(asked, agent=agent, message=message, context=context)


def _message(said: Any, asked: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
    """Another text is the same message with another text."""
    if isinstance(said, str):
        return {**(asked or {"role": "user"}), "content": scrub(said)}
    return user_message(said)


def _context(said: Any, most_bytes: int) -> tuple[ContextItem, ...]:
    items: dict[str, ContextItem] = {}
    for given in said if isinstance(said, list | tuple) else [said]:
        item = _item(given)
        items[item.name] = item
    try:
        check_context(items.values(), most_bytes)
    except PeerError as problem:
        raise UsageError(f"before_run: {problem.message}") from None
    return tuple(items.values())


def _item(given: Any) -> ContextItem:
    """One item, or the mapping that stands for it."""
    name: Any = None
    description: Any = None
    value: Any = None
    if isinstance(given, ContextItem):
        name, description, value = given.name, given.description, given.value
    elif isinstance(given, Mapping):
        name, description, value = (given.get(k) for k in ("name", "description", "value"))
        description = "" if description is None else description
    if not (isinstance(name, str) and name and isinstance(description, str)):
        raise UsageError("before_run: a context item has a name, a description and a value")
    encode(value)
    return ContextItem(name=name, description=description, value=copy_json(value))


# ---- before_call, repair_arguments, after_call ------------------------------------------------


def reason_of(said: Deny | Ask) -> str | None:
    """The reason as it may be shown, no longer than an error; what is no text is none."""
    reason = said.reason
    return scrub(reason)[:ERROR_MESSAGE_CHARS] or None if isinstance(reason, str) else None


def verdict(call_id: Any, said: Allow | Deny | Ask) -> i.CallJudged:
    """What `before_call` answered."""
    match said:
        case Deny():
            return i.CallJudged(call_id, "deny", reason_of(said))
        case Ask():
            return i.CallJudged(call_id, "ask", reason_of(said))
    return i.CallJudged(call_id, "allow")


def problems(effect: "e.RepairArguments") -> list[Problem]:
    """What is wrong with the arguments; a text that is no JSON is one problem, of the whole."""
    return list(effect.bad.problems) or [Problem("", effect.bad.message)]


def repaired(said: Mapping[str, Json] | None) -> dict[str, Json] | None:
    """What `repair_arguments` answered.

    Raises:
        UsageError: nothing that JSON can hold.
    """
    if said is None:
        return None
    given = dict(said)
    encode(given)
    return copy_json(given)  # type: ignore[no-any-return]  # of a dict


def revised(said: CallResult, asked: "e.CallValue") -> Answer | None:
    """What `after_call` answered; None: the call's result stays what it is.

    An error that is there counts, then the value; `outcome` follows from them.

    Raises:
        UsageError: nothing that JSON can hold, or an error that is none.
    """
    before = call_result(asked)
    if said.error is not None:
        return None if said.error == before.error else _failure(said.error, asked)
    encode(said.value)
    if before.error is None and equal_json(said.value, before.value):
        return None
    value = copy_json(said.value)
    parts = _parts(value) if asked.content is not None else None
    return Answer(value=value) if parts is None else Answer(content=parts)


def _failure(error: Any, asked: "e.CallValue") -> Answer:
    if not (isinstance(error, Failure) and isinstance(error.code, str)):
        raise UsageError("after_call: an error is a Failure(code, message)")
    message = page_error_message(str(error.message))
    if error.code not in _CALL_CODES:
        return Answer(error_code=error.code, error_message=message)
    code = CallCode(error.code)
    if error.code == asked.code and outcome_of(code) != asked.outcome:  # a page's own code
        return Answer(error_code=error.code, error_message=message)
    return Answer(code=code, error_message=message)


_CALL_CODES: Final = frozenset(CallCode)


def _parts(value: Any) -> tuple[Json, ...] | None:
    """Parts stay parts, where the answer still is some."""
    if not isinstance(value, list):
        return None
    try:
        return tuple(read_parts(value)) or None
    except PeerError:
        return None


# ---- suggest ---------------------------------------------------------------------------------


def suggestions(said: Any) -> tuple[str, ...]:
    """What may be shown of what a suggest function returned: its texts, so many, so long.

    Raises:
        UsageError: it is no list.
    """
    if not isinstance(said, list | tuple):
        raise UsageError(f"suggest returns a list of texts, not {type(said).__name__}")
    texts = [scrub(item)[:SUGGESTION_CHARS] for item in said if isinstance(item, str) and item]
    return tuple(texts[:SUGGESTIONS_MAX])
