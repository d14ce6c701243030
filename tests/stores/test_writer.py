"""The writer: group commit, the order of acknowledgements, trouble and its end."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.stage import WAIT_S, SQLiteStage

from handspan.core.entries import Drop, Put
from handspan.core.parties import ThreadKey
from handspan.stores.sqlite import writer
from handspan_protocol.ids import ThreadId

T1, T2 = ThreadKey("ann", ThreadId("t1")), ThreadKey("ann", ThreadId("t2"))
FULL = "database or disk is full"


def message(name: object, key: ThreadKey = T1, body: bytes = b"{}") -> Put:
    return Put(key, "message", str(name), body)


class Failing(SQLiteStage):
    """A stage on which operations fail with `failure`, from the `first`-th of an attempt on."""

    failure: Exception | None = None
    first = 1
    failed: threading.Semaphore

    def __init__(self, folder: Path, **options: Any) -> None:
        self.failed = threading.Semaphore(0)
        self.statements: list[str] = []
        super().__init__(folder, **options)
        self.since = self.operations

    def operate(self, n: int) -> None:
        super().operate(n)
        if self.failure is not None and n - self.since >= self.first:
            self.since = n
            self.failed.release()
            raise self.failure

    def fail(self, failure: Exception | None, first: int = 1) -> None:
        self.since, self.first, self.failure = self.operations, first, failure

    def await_failures(self, count: int) -> None:
        for _ in range(count):
            assert self.failed.acquire(timeout=WAIT_S)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Failing]:
    monkeypatch.setattr(writer, "RETRY_S", (0.001, 0.002))
    made = Failing(tmp_path)
    yield made
    made.failure = None
    made.leave()


def count_commits(stage: SQLiteStage) -> list[str]:
    """The commits from now on; with the writer held, or at rest."""
    seen: list[str] = []
    assert stage.store._writer is not None
    connection = stage.store._writer._execute.connection
    connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    return seen


# ---- group commit ----------------------------------------------------------------------------


def test_all_that_waits_is_committed_together_and_acknowledged_in_order(stage: Failing) -> None:
    """P16: a busy disk makes larger transactions, and no longer queue."""
    commits = count_commits(stage)
    with stage.hold():
        stage.write(message(0), name=0)
        assert stage.at_gate.wait(WAIT_S)
        for n in range(1, 500):
            stage.write(message(n), name=n)
    stage.settle()
    assert stage.called == list(range(500))
    assert len(commits) <= 3
    assert len(stage.store.thread(T1)) == 500


def test_no_acknowledgement_comes_from_within_a_write_or_the_writer(stage: Failing) -> None:
    """They come where `soon` brings them."""
    here: list[int] = []
    stage.store.write((message(1),), lambda: here.append(threading.get_ident()))
    stage.settle()
    assert here == [threading.get_ident()]


def test_a_done_that_raises_keeps_nobody_from_the_others(
    stage: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """P14"""

    def raises() -> None:
        raise RuntimeError("of the application")

    with stage.hold():
        stage.write(message(1), name=1)
        stage.store.write((message(2),), raises)
        stage.write(message(3), name=3)
    stage.settle()
    assert stage.called == [1, 3]
    assert "what waited for a write failed" in caplog.text


# ---- trouble ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6])
def test_a_write_that_fails_anywhere_is_tried_again_and_never_half_there(
    stage: Failing, first: int
) -> None:
    """P16: at the beginning, at each statement, at the commit."""
    stage.write(message("before"), name=0)
    stage.settle()
    with stage.hold():
        stage.fail(sqlite3.OperationalError(FULL), first)
        stage.write(message("a"), message("b", T2), name=1)
        stage.write(Drop(T1, "message", "before"), name=2)
        stage.write(message("c"), name=3)
    stage.await_failures(3)
    found = stage.crash()
    assert [entry.name for entry in found.store.thread(T1)] == ["before"]
    assert list(found.store.thread(T2)) == []
    found.leave()
    assert stage.called == [0]
    assert stage.store.troubled == FULL
    assert [entry.name for entry in stage.store.thread(T1)] == ["a", "c"]
    stage.write(message("d"), name=4)
    stage.fail(None)
    stage.settle()
    assert stage.called == [0, 1, 2, 3, 4]
    assert stage.store.troubled is None
    assert [entry.name for entry in stage.store.thread(T1)] == ["a", "c", "d"]


def test_trouble_is_logged_when_it_begins_changes_and_is_over(
    stage: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "handspan.store")
    stage.fail(sqlite3.OperationalError(FULL))
    stage.write(message("a"))
    stage.await_failures(5)
    stage.fail(sqlite3.OperationalError("disk I/O\nerror"))
    stage.await_failures(5)
    stage.fail(None)
    stage.settle()
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{stage.path} cannot be written, trying again: {FULL}",
        f"{stage.path} cannot be written, trying again: disk I/O error",
        f"{stage.path} can be written again",
    ]


def test_a_full_database_is_trouble_until_there_is_room(stage: Failing) -> None:
    stage.write(message("small"), name=1)
    stage.settle()
    assert stage.store._writer is not None
    connection = stage.store._writer._execute.connection
    connection.execute("PRAGMA max_page_count = 30")
    stage.write(message("large", body=bytes(500_000)), name=2)
    stage.write(message("behind"), name=3)
    while stage.store.troubled is None:
        stage.gate.wait(0.001)
    assert "full" in stage.store.troubled
    assert stage.called == [1]
    assert [entry.name for entry in stage.store.thread(T1)] == ["small", "large", "behind"]
    connection.execute("PRAGMA max_page_count = 3000")
    stage.settle()
    assert stage.called == [1, 2, 3]


def test_another_programs_transaction_is_waited_for(
    stage: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's shell has the file; what is written meanwhile is kept when they are done."""
    assert stage.store._writer is not None
    stage.store._writer._execute.connection.execute("PRAGMA busy_timeout = 1")
    shell = sqlite3.connect(stage.path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    stage.write(message("a"), name=1)
    while stage.store.troubled is None:
        stage.gate.wait(0.001)
    assert "locked" in stage.store.troubled
    shell.execute("ROLLBACK")
    shell.close()
    stage.settle()
    assert stage.called == [1]


def test_a_commit_that_came_about_though_it_failed_is_not_made_twice(stage: Failing) -> None:
    """What is committed is told by the file, not by what SQLite said of it."""
    stage.write(message("a"), message("b"), name=0)
    stage.settle()
    assert stage.store._writer is not None
    execute = stage.store._writer._execute
    commits = iter([sqlite3.OperationalError("disk I/O error")])

    class Lying:
        """Commits, and says that it could not."""

        connection = execute.connection

        def __call__(self, sql: str, *parameters: object) -> sqlite3.Cursor:
            cursor = execute(sql, *parameters)
            if sql == "COMMIT" and (failure := next(commits, None)):
                raise failure
            return cursor

    stage.store._writer._execute = Lying()  # type: ignore[assignment]
    with stage.hold():
        stage.write(Drop(T1, "message", "a"), message("a"), message("c"), name=1)
    stage.settle()
    assert stage.called == [0, 1]
    assert [entry.name for entry in stage.store.thread(T1)] == ["b", "a", "c"]


# ---- the end ---------------------------------------------------------------------------------


async def test_a_store_in_trouble_is_closed_all_the_same(
    stage: Failing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What it could not keep was never acknowledged (P16), and is told to be lost."""
    monkeypatch.setattr(writer, "CLOSE_S", 0.01)
    stage.fail(sqlite3.OperationalError(FULL))
    stage.write(message("a"), name=1)
    stage.await_failures(1)
    async with asyncio.timeout(WAIT_S):
        await stage.store.close()
    assert stage.called == []
    assert f"is closed, and 1 writes are lost: {FULL}" in caplog.text
    stage.fail(None)
    stage.store.open(stage.calls.put)
    assert list(stage.store.thread(T1)) == []


async def test_closing_cuts_the_pause_short_and_tries_once_more(
    stage: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", (3600.0, 3600.0))
    stage.store.open(asyncio.get_running_loop().call_soon_threadsafe)
    stage.fail(sqlite3.OperationalError(FULL))
    stage.write(message("a"), name=1)
    await asyncio.to_thread(stage.await_failures, 1)
    stage.fail(None)
    async with asyncio.timeout(WAIT_S):
        await stage.store.close()
    assert stage.called == [1]


def test_p16_closing_between_a_failure_and_its_pause_tries_once_more(
    stage: Failing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, seconds in (("RETRY_S", (3600.0, 3600.0)), ("CLOSE_S", 3600.0)):
        monkeypatch.setattr(writer, name, seconds)
    at_work, ended = stage.store._writer, threading.Event()
    assert at_work is not None
    tell = at_work._in_trouble

    def close_in_trouble(trouble: str | None) -> None:
        tell(trouble)
        if trouble is not None:
            stage.fail(None)
            at_work.end(ended.set)

    monkeypatch.setattr(at_work, "_in_trouble", close_in_trouble)
    stage.fail(sqlite3.OperationalError(FULL))
    stage.write(message("a"), name=1)
    assert ended.wait(WAIT_S)
    assert "lost" not in caplog.text


async def test_a_disk_that_hangs_does_not_hang_the_process(
    stage: Failing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("handspan.stores.sqlite.store.LEAVE_S", 0.01)
    with stage.hold():
        stage.write(message("a"), name=1)
        await asyncio.to_thread(stage.at_gate.wait, WAIT_S)
        assert stage.store._writer is not None
        left = stage.store._writer
        async with asyncio.timeout(WAIT_S):
            await stage.store.close()
        assert "hangs, and is left behind" in caplog.text
        assert stage.called == []
    left.join(WAIT_S)


async def test_the_loop_is_not_blocked_while_a_store_closes(stage: Failing) -> None:
    with stage.hold():
        stage.write(message("a"))
        closing = asyncio.create_task(stage.store.close())
        await asyncio.to_thread(stage.at_gate.wait, WAIT_S)
        assert not closing.done()
    async with asyncio.timeout(WAIT_S):
        await closing
    assert not any(stage.path.with_name(stage.path.name + end).exists() for end in ("-wal", "-shm"))
