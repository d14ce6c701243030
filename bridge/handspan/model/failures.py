"""What went wrong with a provider, in one line that helps and leaks nothing.

Libraries of providers raise much the same: an error with `status_code` and the response's headers,
or one that wraps what the network said. They are told apart by that, not by their types, which
belong to the libraries. *Source:* issue 6; behaviour.md 1 (P14).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Json = Any

MOST_CHARS: Final = 300
"""Of the provider's own words."""

_AGAIN: Final = frozenset([408, 409, 425, 429, 500, 502, 503, 504, 529])
"""Statuses after which trying again can help. *Source:* the providers' documentation."""

_FOR_GOOD: Final = frozenset(["insufficient_quota", "billing_hard_limit_reached"])
"""429 with one of these stays so."""

_AGAIN_KINDS: Final = frozenset(
    ["overloaded_error", "rate_limit_error", "api_error", "timeout_error"]
)
"""Errors that come as the first event of a stream, under status 200. *Source:* Anthropic's docs."""


_NETWORK: Final = frozenset(
    ["APIConnectionError", "TransportError", "ConnectionError", "ClientConnectionError"]
)
"""Of the providers' own libraries, httpx, Python and requests, aiohttp."""


class ProviderFailed(Exception):  # noqa: N818 (what the provider says)
    """The stream itself told of a failure; says so in the provider's words."""


class Unreadable(Exception):  # noqa: N818 (what came)
    """What came is nothing of the provider's API; says what it is, in a line."""


_SECRET: Final = re.compile(r"\b(?:sk|pk|rk|key|gsk|xai|AIza)[-_][\w*.\-]{6,}|Bearer\s+\S+", re.I)
_IN_URL: Final = re.compile(r"(\w+://)[^/\s@]*@")


def can_be_tried_again(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    status = _status(error)
    if status is not None:
        if _code(error) in _FOR_GOOD:
            return False
        return status in _AGAIN or _kind(error) in _AGAIN_KINDS
    return isinstance(error, TimeoutError | OSError) or _is_of_the_network(error)


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name) or "none") * unit)
        except ValueError:
            continue
    return None


def told(
    provider: str, error: BaseException, secrets: Iterable[str] = (), *, broke_off: bool = False
) -> str:
    """One line for a page and a log: what went wrong, and what can be done.

    `broke_off`: in the middle of an answer.
    """
    status = _status(error)
    if status in (401, 403):
        return f"{provider}: the key was refused ({status}); check it"
    if status is None:
        words = _unreached(error, broke_off)
    else:
        words = f"{_ADVICE.get(status, 'the request failed')} ({status}): {_words(error)}"
    return f"{provider}: {_without(words, secrets)}"[: MOST_CHARS + 60]


def refusal(error: BaseException) -> str | None:
    """One line for an error of a provider that has no name here, and whose words may be anything;
    None: it is none of a provider's. Libraries wrap what went wrong: the first in the chain that
    has a status, or is of the network, counts."""
    for each in _chain(error):
        status = _status(each)
        if status is not None:
            return f"the model's provider answered {status} ({type(each).__name__})"
        if _is_of_the_network(each):
            return f"the model's provider: {_without(_unreached(each, broke_off=False), ())}"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


_ADVICE: Final[Mapping[int, str]] = {
    400: "the request was refused",
    404: "there is no such model, or no such address",
    413: "the request is too large",
    429: "too many requests, or no quota left",
    529: "it is overloaded",
}


def _unreached(error: BaseException, broke_off: bool) -> str:
    """Where no status came: a time-out, the network, or words of an error in the stream."""
    if isinstance(error, TimeoutError):
        return str(error) or "it did not answer in time"
    if type(error).__name__ == "APITimeoutError":
        return "it did not answer in time"
    if not (isinstance(error, OSError) or _is_of_the_network(error)):
        return _words(error)
    if broke_off:
        return f"its answer broke off ({type(error.__cause__ or error).__name__})"
    return f"it cannot be reached{_where(error)} ({type(error.__cause__ or error).__name__})"


def _where(error: BaseException) -> str:
    try:
        url = error.request.url  # type: ignore[attr-defined]
        return f" at {url.scheme}://{url.netloc.decode()}"
    except (AttributeError, RuntimeError):  # httpx raises the latter where it knows of no request
        return ""


def _is_of_the_network(error: BaseException) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & _NETWORK)


def _words(error: BaseException) -> str:
    said = _part(error, "message") or str(error) or type(error).__name__
    return " ".join(str(said).split())[:MOST_CHARS]


def _status(error: BaseException) -> int | None:
    """The error's own, or that of the response which it is about."""
    for told in (error, getattr(error, "response", None)):
        status = getattr(told, "status_code", None)
        if isinstance(status, int):
            return status
    return None


def _code(error: BaseException) -> Json:
    return getattr(error, "code", None) or _part(error, "code")


def _kind(error: BaseException) -> Json:
    return getattr(error, "type", None) or _part(error, "type")


def _part(error: BaseException, name: str) -> Json:
    """A field of the error's body, which may stand one level down."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner.get(name) if isinstance(inner, Mapping) else None


def _without(words: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            words = words.replace(secret, "***")
    return _IN_URL.sub(r"\1", _SECRET.sub("***", words))
