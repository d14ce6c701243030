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
