"""What a user may call a store."""

from pathlib import Path

import pytest

from handspan import Bridge
from handspan.stores import store_of
from handspan.stores.memory import MemoryStore
from handspan.stores.sqlite import SQLiteStore
from handspan_protocol.errors import UsageError


def test_memory_keeps_nothing() -> None:
    assert isinstance(store_of("memory"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///threads.db", "threads.db"),
        ("sqlite:///data/my threads%20.db", "data/my threads%20.db"),
        ("sqlite:///./a#b.db", "a#b.db"),
    ],
)
def test_three_slashes_are_of_this_folder(
    url: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_of(url)
    assert isinstance(store, SQLiteStore)
    assert store.path == tmp_path / path
    assert list(tmp_path.iterdir()) == [], "nothing is made before it is opened"


def test_four_slashes_are_of_the_root(tmp_path: Path) -> None:
    store = store_of(f"sqlite:///{tmp_path}/threads.db?max_age=60")
    assert isinstance(store, SQLiteStore)
    assert store.path == tmp_path / "threads.db"


def test_what_follows_the_question_mark_are_its_options() -> None:
    store = store_of("sqlite:///x.db?synchronous=normal&max_age=86400.5&max_bytes=1000")
    assert isinstance(store, SQLiteStore)
    assert (store._synchronous, store._max_age, store._max_bytes) == ("NORMAL", 86400.5, 1000)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgres://x", "'memory', 'sqlite:///file.db', or a Store of yours"),
        ("", "is not known"),
        ("Memory", "is not known"),
        ("x.db", "is not known"),
        ("sqlite:x.db", "say sqlite:///relative.db"),
        ("sqlite://x.db", "say sqlite:///relative.db"),
        ("sqlite://", "say sqlite:///relative.db"),
        ("sqlite:///", "names no file"),
        ("sqlite:///?max_age=1", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///file::memory:?cache=shared", "names no file"),
        ("sqlite:///x.db?mode=memory", "no option 'mode'; there are synchronous, max_age"),
        ("sqlite:///x.db?max_age=soon", "max_age cannot be 'soon'"),
        ("sqlite:///x.db?max_age=", "max_age cannot be ''"),
        ("sqlite:///x.db?max_age=nan", "max_age"),
        ("sqlite:///x.db?max_bytes=1e6", "max_bytes cannot be '1e6'"),
        ("sqlite:///x.db?max_bytes=0", "max_bytes"),
        ("sqlite:///x.db?synchronous=OFF", "synchronous"),
        ("sqlite:///x.db?max_age=1&max_age=2", "max_age is given twice"),
    ],
)
def test_a_name_that_is_none_says_what_would_be_one(url: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        Bridge(store=url)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
