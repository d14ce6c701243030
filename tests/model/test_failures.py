"""What went wrong, in one line that helps and leaks nothing (P14)."""

from types import SimpleNamespace
from typing import Any

import pytest

from handspan.model.failures import can_be_tried_again, refusal, retry_after, told


class Refused(Exception):  # noqa: N818 (as they call it)
    """As providers' libraries raise it."""

    def __init__(self, status: int, message: str = "", **headers: str) -> None:
        super().__init__(f"Error code: {status}")
        self.status_code = status
        self.body = {"error": {"message": message}}
        self.response = type("Response", (), {"headers": headers})


class APIConnectionError(Exception):
    """The name that they share."""

    request = SimpleNamespace(url=SimpleNamespace(scheme="http", netloc=b"127.0.0.1:1"))


LINES: list[tuple[Exception, str]] = [
    (Refused(401, "Incorrect API key provided: sk-abcdef123456"), "the key was refused (401)"),
    (Refused(404, "The model `x` does not exist"), "there is no such model, or no such address"),
    (Refused(400, "bad\nschema"), "the request was refused (400): bad schema"),
    (Refused(418, "I am a teapot"), "the request failed (418): I am a teapot"),
    (APIConnectionError(), "cannot be reached at http://127.0.0.1:1 "),
    (TimeoutError(), "did not answer in time"),
    (ValueError("what it said"), "what it said"),
    (ValueError(), "ValueError"),
]


@pytest.mark.parametrize(("error", "part"), LINES, ids=lambda each: type(each).__name__)
def test_it_says_what_can_be_done(error: Exception, part: str) -> None:
    line = told("OpenAI", error)
    assert line.startswith("OpenAI: ")
    assert part in line
    assert "\n" not in line
    assert len(line) < 400


@pytest.mark.parametrize(
    "words",
    [
        "key sk-proj-abcdefgh123 is bad",
        "key sk-ant-api03-xyzxyzxyz is bad",
        "header Bearer abc.def.ghi is bad",
        "my-own-secret is bad",
        "http://me:my-own-secret@host/x is bad",
    ],
)
def test_p14_no_line_has_a_key(words: str) -> None:
    line = told("X", Refused(400, words), ["my-own-secret"])
    assert "bad" in line
    for secret in ("abcdefgh123", "xyzxyz", "abc.def", "my-own-secret", "me:"):
        assert secret not in line


def test_long_words_are_cut() -> None:
    assert len(told("X", Refused(500, "a" * 10_000))) < 400


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "500"}, 0.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_pause_that_is_asked_for(headers: Any, seconds: float | None) -> None:
    assert retry_after(Refused(429, **headers)) == seconds


def test_an_error_that_comes_as_the_first_event_says_its_kind() -> None:
    error = Refused(200)
    error.body = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert can_be_tried_again(error)
    error.body = {"error": {"type": "invalid_request_error"}}
    assert not can_be_tried_again(error)


def test_a_refusal_is_told_by_its_status_alone() -> None:
    assert refusal(Refused(401, "the key sk-123")) == (
        "the model's provider answered 401 (Refused)"
    )
    assert refusal(ValueError("sk-123")) is None


def test_what_wraps_a_providers_error_is_a_providers_too() -> None:
    assert refusal(wrapped(Refused(529))) == "the model's provider answered 529 (Refused)"
    line = "the model's provider: it cannot be reached at http://127.0.0.1:1 (APIConnectionError)"
    assert refusal(wrapped(wrapped(APIConnectionError("key sk-12345678")))) == line


def test_connections_that_fail_are_a_providers_and_broken_code_is_not() -> None:
    assert refusal(ConnectionRefusedError("me:secret@host")) == (
        "the model's provider: it cannot be reached (ConnectionRefusedError)"
    )
    assert refusal(wrapped(FileNotFoundError("/etc/x"))) is None


def test_a_status_may_stand_in_the_response_alone() -> None:
    error = ValueError("Client error '403' for url 'https://x?key=sk-12345678'")
    error.response = SimpleNamespace(status_code=403, headers={})  # type: ignore[attr-defined]
    assert refusal(error) == "the model's provider answered 403 (ValueError)"


def test_an_error_that_was_dealt_with_is_forgotten_and_a_circle_has_an_end() -> None:
    dealt_with = KeyError("x")
    dealt_with.__context__, dealt_with.__suppress_context__ = Refused(500), True
    assert refusal(dealt_with) is None
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert refusal(one) is None


def wrapped(error: Exception) -> Exception:
    """As a library wraps what its own code did not expect."""
    try:
        try:
            raise error
        except Exception:
            raise RuntimeError("the model failed")  # noqa: B904 (that is how they do it)
    except RuntimeError as outer:
        return outer
