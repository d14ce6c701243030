"""A key is where it is looked for."""

import pytest

from handspan.model.keys import key_of
from handspan_protocol.errors import UsageError


def test_a_key_is_given_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", " there ")
    assert key_of("X", "A_KEY", "given") == "given"
    assert key_of("X", "A_KEY", None) == "there"
    for nothing in ("", " "):
        monkeypatch.setenv("A_KEY", nothing)
        with pytest.raises(UsageError, match="X needs a key: set A_KEY"):
            key_of("X", "A_KEY", None)
