"""The file: who may have it, what it must be, its versions and its size."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.stores.stage import WAIT_S, SQLiteStage

from handspan.core.entries import Drop, Entry, Put
from handspan.core.parties import ThreadKey
from handspan.stores.sqlite import SQLiteStore, place, schema
from handspan_protocol.errors import Unavailable, UsageError
from handspan_protocol.ids import ThreadId

T1, T2 = ThreadKey("ann", ThreadId("t1")), ThreadKey("ann", ThreadId("t2"))


def nowhere(call: Callable[[], None]) -> None:
    """A loop that calls nobody."""


def kept(path: Path, *names: str) -> None:
    """A file with these messages of T1, closed well."""
    stage = SQLiteStage(path.parent, path.name)
    stage.write(*(Put(T1, "message", name, b"{}") for name in names))
    stage.settle()
    stage.leave()


def refusal(path: Path) -> str:
    """Why it cannot be opened; nothing is left open."""
    store = SQLiteStore(path)
    with pytest.raises(Unavailable) as refused:
        store.open(nowhere)
    with pytest.raises(UsageError):
        store.threads()
    said = str(refused.value)
    assert "\n" not in said
    return said


# ---- the place -------------------------------------------------------------------------------


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} is a folder, not a file"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "threads.db"
    assert refusal(path) == f"there is no folder {tmp_path / 'no'} for threads.db"
    assert not path.parent.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_written_is_told(tmp_path: Path, what: str) -> None:
    path = tmp_path / "threads.db"
    kept(path, "a")
    closed = path if what == "file" else tmp_path
    closed.chmod(0o500)
    try:
        assert "ermission" in refusal(path)
    finally:
        closed.chmod(0o700)


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but longer than the header of one " * 20)
    assert refusal(text) == f"{text} is not a database of SQLite"
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = other.read_bytes()
    assert refusal(other) == f"{other} is a database of something else"
    assert other.read_bytes() == before


@pytest.mark.parametrize("harm", ["cut", "scribbled"])
def test_a_damaged_file_is_told_at_once(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "threads.db"
    kept(path, *map(str, range(500)))
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] if harm == "cut" else whole[:half] + os.urandom(half))
    assert "is damaged" in refusal(path)


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    (tmp_path / "threads.db").touch()
    kept(tmp_path / "threads.db", "a")


def test_a_path_of_any_characters_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a ?mode=memory&x=%41#b é.db"
    kept(path, "a")
    assert path.exists()
    assert len(list(tmp_path.iterdir())) == 2, "the file, and its lock"


def test_conversations_are_nobody_elses_business(tmp_path: Path) -> None:
    stage = SQLiteStage(tmp_path)
    stage.write(Put(T1, "message", "a", b"{}"))
    stage.settle()
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    stage.leave()
    assert {"threads.db", "threads.db-wal"} < modes.keys()
    assert set(modes.values()) == {0o600}


def test_the_path_is_of_the_folder_that_it_was_named_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("threads.db")
    monkeypatch.chdir(tmp_path / "other")
    assert store.path == tmp_path / "threads.db"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"synchronous": "OFF"}, "synchronous"),
        ({"synchronous": "FULL; DROP TABLE threads"}, "synchronous"),
        ({"max_age": 0}, "max_age"),
        ({"max_age": float("nan")}, "max_age"),
        ({"max_bytes": -1}, "max_bytes"),
    ],
)
def test_a_value_that_cannot_be_one_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        SQLiteStore("x.db", **options)


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1)])
def test_a_commit_is_as_safe_as_was_asked(tmp_path: Path, synchronous: str, level: int) -> None:
    stage = SQLiteStage(tmp_path, synchronous=synchronous)
    assert stage.store._writer is not None
    connection = stage.store._writer._execute.connection
    found = [connection.execute(f"PRAGMA {p}").fetchone() for p in ("synchronous", "journal_mode")]
    stage.leave()
    assert found == [(level,), ("wal",)]


# ---- one process at a time -------------------------------------------------------------------

locks = pytest.mark.skipif(place.fcntl is None, reason="nothing to lock with on this system")


@locks
def test_one_process_has_it_at_a_time(tmp_path: Path) -> None:
    stage = SQLiteStage(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to(stage.path)
    for path in (stage.path, link):
        assert refusal(path) == f"{stage.path} is in use by another process"
    stage.write(Put(T1, "message", "a", b"{}"))
    stage.settle()
    stage.leave()
    kept(stage.path, "b")


def _hold(path: Path, held: Any) -> None:
    SQLiteStore(path).open(nowhere)
    held.set()
    multiprocessing.Event().wait()


@locks
def test_a_process_that_was_killed_has_it_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    forks = multiprocessing.get_context("fork")
    opened = forks.Event()
    child = forks.Process(target=_hold, args=(path, opened))
    child.start()
    assert opened.wait(WAIT_S)
    assert "in use" in refusal(path)
    child.kill()
    child.join(WAIT_S)
    kept(path, "a")


def test_a_process_that_ends_without_closing_keeps_what_was_written(tmp_path: Path) -> None:
    """`asyncio.run(bridge.run(...))` closes nothing."""
    path = tmp_path / "threads.db"
    lines = [
        "import sys",
        "from handspan.core.entries import Put",
        "from handspan.core.parties import ThreadKey",
        "from handspan.stores.sqlite import SQLiteStore",
        "store = SQLiteStore(sys.argv[1])",
        "store.open(lambda call: call())",
        "for n in range(1000):",
        "    store.write([Put(ThreadKey('ann', 't1'), 'message', str(n), b'{}')], lambda: None)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), path],
        timeout=4 * WAIT_S,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    stage = SQLiteStage(tmp_path)
    assert len(stage.store.thread(T1)) == 1000
    stage.leave()


# ---- versions --------------------------------------------------------------------------------


def test_a_file_of_an_older_version_is_brought_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path / "threads.db", "a", "b")
    newer = (
        *schema.MIGRATIONS,
        ("ALTER TABLE threads ADD COLUMN pinned INTEGER", "UPDATE threads SET pinned = 7"),
        ("CREATE TABLE more (x)",),
    )
    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    stage = SQLiteStage(tmp_path)
    assert [entry.name for entry in stage.store.thread(T1)] == ["a", "b"]
    stage.write(Put(T1, "message", "c", b"{}"))
    stage.settle()
    stage.leave()
    connection = sqlite3.connect(stage.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
    assert connection.execute("SELECT pinned FROM threads").fetchall() == [(7,)]
    assert connection.execute("SELECT * FROM more").fetchall() == []
    connection.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "threads.db"
    kept(path, "a")
    with monkeypatch.context() as newer:
        step = ("CREATE TABLE more (x)", "INSERT INTO nowhere VALUES (1)")
        newer.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
        assert "nowhere" in refusal(path)
    stage = SQLiteStage(tmp_path)
    assert list(stage.store.thread(T1)) == [Entry("message", "a", b"{}")]
    stage.leave()


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    kept(path, "a")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "was written by a newer Handspan (its version is 99" in refusal(path)


# ---- size ------------------------------------------------------------------------------------


def filled(folder: Path, threads: int, **limits: Any) -> SQLiteStage:
    """A store of threads of some 50 KB each; the n-th was written at n."""
    stage = SQLiteStage(folder, **limits)
    for n in range(threads):
        stage.clock.now = float(n)
        key = ThreadKey("ann", ThreadId(f"t{n}"))
        stage.write(*(Put(key, "message", str(m), bytes(1_000)) for m in range(50)))
    stage.settle()
    return stage


def ids(stage: SQLiteStage) -> list[str]:
    return [thread.key.thread_id for thread in reversed(stage.store.threads())]


def pages(stage: SQLiteStage) -> int:
    """How many there are; the newest ones are in the log beside the file."""
    connection = sqlite3.connect(stage.path)
    found = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.close()
    return int(found)


def sweep(stage: SQLiteStage, *keep: str) -> None:
    stage.store.sweep([ThreadKey("ann", ThreadId(name)) for name in keep])
    stage.settle()
    stage.settle()  # behind the trimming


def test_a_sweep_lets_go_of_the_oldest_until_the_file_is_small_enough(tmp_path: Path) -> None:
    stage = filled(tmp_path, 40, max_bytes=1_000_000)
    assert pages(stage) > 500
    sweeps = 0
    while stage.store._reading.used_bytes() > 1_000_000:
        sweep(stage, "t0")
        sweeps += 1
    assert 1 < sweeps < 8
    left = ids(stage)
    assert left[0] == "t0"
    assert left[1:] == [f"t{n}" for n in range(40 - len(left) + 1, 40)]
    assert 13 <= len(left) <= 15
    assert stage.path.stat().st_size <= 1_000_000
    sweep(stage)
    assert ids(stage) == left, "it is small enough now"
    stage.leave()


def test_nothing_is_let_go_that_is_to_be_kept_however_large(tmp_path: Path) -> None:
    stage = filled(tmp_path, 5, max_bytes=1_000)
    sweep(stage, *(f"t{n}" for n in range(5)))
    assert len(ids(stage)) == 5
    stage.leave()


def test_what_is_being_written_is_not_let_go(tmp_path: Path) -> None:
    stage = filled(tmp_path, 3, max_bytes=1_000)
    with stage.hold():
        stage.write(Drop(ThreadKey("ann", ThreadId("t0")), "message", "0"))
        stage.store.sweep([])
        assert ids(stage) == ["t0"]
        stage.store.sweep([])
        assert ids(stage) == ["t0"], "what the first one frees is not counted twice"
    stage.settle()
    stage.leave()


def test_one_sweep_is_bounded_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.stores.sqlite.store.SWEPT_AT_ONCE", 2)
    stage = filled(tmp_path, 5, max_age=1)
    stage.clock.now = 100.0
    for left in (3, 1, 0):
        sweep(stage)
        assert len(ids(stage)) == left
    stage.leave()


def test_a_file_that_cannot_be_read_is_told_and_swept_another_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = filled(tmp_path, 1, max_age=1)
    assert stage.store._reading is not None
    stage.store._reading.close()
    with pytest.raises(Unavailable):
        stage.store.threads()
    stage.store.sweep([])
    assert "nothing is swept" in caplog.text
    stage.leave()


def test_what_was_dropped_makes_the_file_smaller_with_the_next_sweep(tmp_path: Path) -> None:
    stage = filled(tmp_path, 20)
    assert pages(stage) > 250
    stage.write(*(Drop(ThreadKey("ann", ThreadId(f"t{n}"))) for n in range(19)))
    stage.settle()
    sweep(stage)
    assert stage.path.stat().st_size < 50 * 4096
    assert ids(stage) == ["t19"]
    stage.leave()
