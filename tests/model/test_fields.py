"""A request's fields as a library takes them, and a key where it is looked for."""

from typing import Any

import pytest

from handspan.model.fields import fitting
from handspan.model.keys import key_of
from handspan_protocol.errors import UsageError


def create(*, model: str, stream: bool, extra_body: Any = None) -> None:
    """As a library's."""


def test_what_a_library_knows_is_given_to_it_and_the_rest_goes_along() -> None:
    assert fitting(create, {"model": "m"}) == {"model": "m"}
    asked = {"model": "m", "top_k": 5, "extra_body": {"min_p": 0.1}}
    assert fitting(create, asked) == {"model": "m", "extra_body": {"min_p": 0.1, "top_k": 5}}


def test_a_key_is_given_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", " there ")
    assert key_of("X", "A_KEY", "given") == "given"
    assert key_of("X", "A_KEY", None) == "there"
    for nothing in ("", " "):
        monkeypatch.setenv("A_KEY", nothing)
        with pytest.raises(UsageError, match="X needs a key: set A_KEY"):
            key_of("X", "A_KEY", None)
