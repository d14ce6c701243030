"""`handspan threads`: looking beside a server, deleting without one, a terminal left in peace."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.stage import WAIT_S, SQLiteStage

from handspan import cli
from handspan.cli_threads import plain
from handspan.core.entries import Put
from handspan.core.parties import ThreadKey
from handspan.stores.sqlite import place
from handspan_protocol.ids import SessionId, ThreadId

Command = Callable[..., subprocess.CompletedProcess[str]]

URL = "sqlite:///threads.db"
NASTY = "\x1b]0;owned\x07\x9b31m\u202e\ud800\r\x00"
"""What a terminal would obey, and what it cannot print."""


def key(thread_id: str, principal: str = "anonymous") -> ThreadKey:
    return ThreadKey(principal, ThreadId(thread_id))


def message(thread: ThreadKey, name: str, **fields: Any) -> Put:
    return Put(thread, "message", name, json.dumps({"id": name, **fields}).encode())


TALK = (
    {"role": "user", "content": "make it dark\nand quiet"},
    {
        "role": "assistant",
        "content": "Making it dark.",
        "toolCalls": [
            {"id": "c1", "function": {"name": "set_theme", "arguments": '{"theme": "dark"}'}}
        ],
    },
    {"role": "tool", "toolCallId": "c1", "content": '{"ok":true}'},
    {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]},
)

SHOWN = """\
user
  make it dark
  and quiet

assistant
  Making it dark.
  -> set_theme {"theme": "dark"}  (c1)

tool, to c1
  {"ok":true}

user
  see
  [image]
"""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[SQLiteStage]:
    """A store with two threads of everybody's and one of ann's, as a server has it."""
    stage = SQLiteStage(tmp_path)
    stage.write(*(message(key("t1"), f"m{n}", **fields) for n, fields in enumerate(TALK)))
    stage.write(
        Put(key("t1"), "about", "", b'{"title":"Dark"}'), Put(key("t1"), "run", "r1", b"{}")
    )
    stage.clock.now += 60
    stage.write(message(key("t2"), "m", role="user", content=NASTY))
    stage.write(Put(key("t2"), "about", "", json.dumps({"title": NASTY}).encode()))
    stage.clock.now += 60
    stage.write(Put(key("t1", "ann"), "about", "", b'{"title":null}'))
    stage.write(Put(SessionId("s1"), "self", "", b"{}"))
    stage.settle()
    yield stage
    stage.leave()


@pytest.fixture
def closed(serving: SQLiteStage) -> Path:
    serving.leave()
    return serving.folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`handspan` in this process, which is quicker than one of its own."""

    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["handspan", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(left.value.code or 0), out, err)

    return run


def lines_of(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


def test_threads_are_listed_newest_first_beside_a_server(
    command: Command, serving: SQLiteStage
) -> None:
    rows = lines_of(command("threads", "--store", URL, cwd=serving.folder))
    assert rows == [
        ["THREAD", "PRINCIPAL", "UPDATED", "MESSAGES", "RUN", "TITLE"],
        ["t1", "ann", "1970-01-01", "00:18:40", "0"],
        ["t2", "anonymous", "1970-01-01", "00:17:40", "1", plain(NASTY)],
        ["t1", "anonymous", "1970-01-01", "00:16:40", "4", "open", "Dark"],
    ]


def test_a_list_may_be_of_one_principal_and_in_json(command: Command, closed: Path) -> None:
    done = command("threads", "--store", URL, "--json", "--principal", "anonymous", cwd=closed)
    t2, t1 = json.loads(done.stdout)
    assert t2["title"] == NASTY
    assert t1 == {
        "threadId": "t1",
        "principal": "anonymous",
        "updatedAt": "1970-01-01T00:16:40.000Z",
        "messages": 4,
        "openRun": True,
        "title": "Dark",
    }
    empty = command("threads", "--store", URL, "--json", "--principal", "nobody", cwd=closed)
    assert json.loads(empty.stdout) == []


@pytest.mark.parametrize(
    "words",
    [("show", "t1", "--store", URL), ("--store", URL, "show", "t1")],
    ids=["after", "before"],
)
def test_a_thread_is_shown_as_it_reads(
    command: Command, closed: Path, words: tuple[str, ...]
) -> None:
    done = command("threads", *words, cwd=closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == SHOWN


def test_a_thread_is_shown_in_json_with_all_of_its_messages(command: Command, closed: Path) -> None:
    done = command("threads", "show", "t1", "--store", URL, "--json", cwd=closed)
    told = json.loads(done.stdout)
    assert [m["role"] for m in told["messages"]] == ["user", "assistant", "tool", "user"]
    assert (told["threadId"], told["openRun"]) == ("t1", True)


def test_another_principals_thread_is_asked_for_by_name(command: Command, closed: Path) -> None:
    """P8"""
    done = command("threads", "show", "t1", "--principal", "ann", "--store", URL, cwd=closed)
    assert (done.returncode, done.stdout) == (0, "no messages\n")


@pytest.mark.parametrize("words", [(), ("show", "t2")])
def test_nothing_that_a_page_said_is_obeyed_by_the_terminal(
    closed: Path, words: tuple[str, ...]
) -> None:
    """P14"""
    done = subprocess.run(
        [sys.executable, "-m", "handspan", "threads", *words, "--store", URL],
        cwd=closed,
        capture_output=True,
        timeout=4 * WAIT_S,
        check=True,
    )
    text = done.stdout.decode("utf-8")
    assert "owned" in text
    assert not any(c in text for c in NASTY if not c.isalnum() and c not in "];")
    assert r"\x1b]0;owned\x07\x9b31m\u202e\ud800\r\x00" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("é\U0001f600\u200d", "é\U0001f600\u200d"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x7f\x85\u2028\u2066", r"\x7f\x85\u2028\u2066"),
    ],
)
def test_plain_text_stays_as_it_is(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain("a\nb\t\x1b", lines=True) == "a\nb\t\\x1b"


@pytest.mark.parametrize("beside", ["-wal", None])
def test_looking_changes_nothing(
    command: Command, serving: SQLiteStage, beside: str | None
) -> None:
    """Neither what a server has open nor what it left when it was killed."""
    folder = serving.folder
    if beside is None:
        serving.leave()
    before = {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")}
    command("threads", "--store", URL, cwd=folder)
    after = {p.name: p.read_bytes() for p in folder.iterdir() if p.name in before}
    assert after == before


def test_deleting_is_for_whoever_has_the_store(command: Command, serving: SQLiteStage) -> None:
    if place.fcntl is None:
        pytest.skip("nothing to lock with on this system")
    done = command("threads", "delete", "t1", "--store", URL, cwd=serving.folder)
    assert done.returncode == 2
    assert done.stderr == f"handspan: {serving.path} is in use by another process\n"
    assert len(serving.store.threads()) == 3


def test_threads_are_deleted_together_or_not_at_all(command: Command, closed: Path) -> None:
    def left() -> list[list[str]]:
        return [row[:2] for row in lines_of(command("threads", "--store", URL, cwd=closed))[1:]]

    done = command("threads", "delete", "t1", "t3", "t4", "--store", URL, cwd=closed)
    assert done.returncode == 2
    assert done.stderr == "handspan: there is no thread 't3', 't4' of 'anonymous'\n"
    assert len(left()) == 3
    done = command("threads", "delete", "t1", "t2", "--store", URL, cwd=closed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert left() == [["t1", "ann"]]
    stage = SQLiteStage(closed)
    assert stage.store.sessions().keys() == {"s1"}
    stage.leave()


@pytest.mark.parametrize("words", [(), ("show", "t1"), ("delete", "t1")])
@pytest.mark.parametrize(
    ("store", "why"),
    [
        (("--store", "sqlite:///none.db"), "there is no file"),
        (("--store", "memory"), "keeps nothing"),
        (("--store", "sqlite:///threads.db?x=1"), "no option 'x'"),
        (("--store", "sqlite:///notes.txt"), "is not a database of SQLite"),
        ((), "say which store"),
    ],
)
def test_a_store_that_is_none_is_one_line_and_status_2(
    command: Command, tmp_path: Path, words: tuple[str, ...], store: tuple[str, ...], why: str
) -> None:
    (tmp_path / "notes.txt").write_text("just text " * 100)
    (tmp_path / "threads.db").touch()
    done = command("threads", *words, *store, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert why in done.stderr
    made = {path.name for path in tmp_path.iterdir()} - {"notes.txt", "threads.db"}
    assert made <= {"notes.txt-lock"}, "nothing is made by looking"


def test_a_thread_that_is_not_there_is_one_line(command: Command, closed: Path) -> None:
    done = command("threads", "show", "t9", "--store", URL, cwd=closed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "handspan: there is no thread 't9' of 'anonymous'\n"


def test_a_reader_that_has_enough_is_no_error(closed: Path) -> None:
    """`handspan threads | head -1`"""
    with subprocess.Popen(
        [sys.executable, "-m", "handspan", "threads", "--store", URL],
        cwd=closed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(4 * WAIT_S) == 1
