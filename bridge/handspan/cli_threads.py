"""`handspan threads`: what a store keeps, for the eye and for programs; and letting go of it.

Looking changes nothing and works beside a server that has the store; deleting needs it for itself.
What is printed came from pages and models, so nothing of it reaches the terminal as a control
character. Knows nothing of bridges and sockets.
"""

import asyncio
import io
import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any, Final

import typer

from handspan.core.entries import Drop, Entry
from handspan.core.parties import ANONYMOUS, ThreadKey
from handspan.ports import KeptThread
from handspan.shell.clock import utc_text
from handspan.stores import store_of
from handspan.stores.sqlite import SQLiteStore
from handspan.stores.sqlite.reading import Reading
from handspan_protocol.errors import Unavailable, UsageError
from handspan_protocol.ids import ThreadId

Json = Any

threads = typer.Typer(no_args_is_help=False, invoke_without_command=True)

StoreUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The store, as in sqlite:///threads.db; needed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Whose = Annotated[str, typer.Option(help="Whose thread it is.")]
ThreadIds = Annotated[list[str], typer.Argument(metavar="THREAD_ID...")]


@threads.callback()
def list_threads(
    context: typer.Context,
    store: StoreUrl = None,
    principal: Annotated[str | None, typer.Option(help="Only this one's threads.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the threads that a store keeps, newest first."""
    if context.invoked_subcommand is not None:
        return
    with closing(_read(_store(context, store))) as reading, reading.moment():
        kept = reading.threads(principal)
        messages, runs = reading.message_counts(), reading.runs()
    newest_first = sorted(kept.values(), key=lambda thread: (-thread.updated_at, thread.key))
    rows = [_row(t, messages.get(t.key, 0), open_run=t.key in runs) for t in newest_first]
    _say(json.dumps(rows, indent=2) if as_json else _table(rows))


@threads.command()
def show(
    context: typer.Context,
    thread_id: Annotated[str, typer.Argument(metavar="THREAD_ID")],
    store: StoreUrl = None,
    principal: Whose = ANONYMOUS.id,
    as_json: AsJson = False,
) -> None:
    """Print the messages of a thread: who, the text, calls and their results."""
    key = ThreadKey(principal, ThreadId(thread_id))
    with closing(_read(_store(context, store))) as reading, reading.moment():
        kept = reading.listed(key).get(key)
        entries = [Entry(*name, body) for name, body in reading.thread(key).items()]
    if kept is None:
        raise UsageError(_unknown([key]))
    kept_messages = [_json(entry.body) for entry in entries if entry.part == "message"]
    messages = [message for message in kept_messages if message is not None]
    if as_json:
        runs = any(entry.part == "run" for entry in entries)
        row = _row(kept, len(messages), open_run=runs)
        _say(json.dumps({**row, "messages": messages}, indent=2))
    else:
        _say("\n\n".join(_block(message) for message in messages) or "no messages")


@threads.command()
def delete(
    context: typer.Context,
    thread_ids: ThreadIds,
    store: StoreUrl = None,
    principal: Whose = ANONYMOUS.id,
) -> None:
    """Delete threads: all that are named, or none."""
    keys = [ThreadKey(principal, ThreadId(thread_id)) for thread_id in thread_ids]
    asyncio.run(_delete(_store(context, store), keys))


# ---- the store -------------------------------------------------------------------------------


def _store(context: typer.Context, url: str | None) -> SQLiteStore:
    """The store that is named, before the command or behind it; there must be a file."""
    url = url or (context.parent.params.get("store") if context.parent else None)
    if url is None:
        raise UsageError("say which store: --store sqlite:///threads.db")
    store = store_of(url)
    if not isinstance(store, SQLiteStore):
        raise UsageError(f"store {url!r} keeps nothing; say --store sqlite:///threads.db")
    if not store.path.is_file():
        raise Unavailable(f"there is no file {store.path}")
    return store


def _read(store: SQLiteStore) -> Reading:
    return Reading.of_any(store.path)


async def _delete(store: SQLiteStore, keys: Sequence[ThreadKey]) -> None:
    kept = asyncio.Event()
    store.open(asyncio.get_running_loop().call_soon_threadsafe)
    try:
        there = {thread.key for thread in store.threads()}
        if unknown := [key for key in keys if key not in there]:
            raise UsageError(_unknown(unknown))
        store.write([Drop(key) for key in keys], kept.set)
    finally:
        await store.close()
    if not kept.is_set():
        raise Unavailable(f"{store.path} cannot be written; nothing was deleted")


def _unknown(keys: Sequence[ThreadKey]) -> str:
    named = ", ".join(repr(str(key.thread_id)) for key in keys)
    return f"there is no thread {named} of {keys[0].principal!r}"


# ---- as it is shown --------------------------------------------------------------------------


def _row(thread: KeptThread, messages: int, *, open_run: bool) -> dict[str, Json]:
    about = _json(thread.about)
    title = about.get("title") if isinstance(about, dict) else None
    return {
        "threadId": thread.key.thread_id,
        "principal": thread.key.principal,
        "updatedAt": utc_text(thread.updated_at),
        "messages": messages,
        "openRun": open_run,
        "title": title,
    }


COLUMNS: Final = ("THREAD", "PRINCIPAL", "UPDATED", "MESSAGES", "RUN", "TITLE")


def _table(rows: Sequence[Mapping[str, Json]]) -> str:
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _cells(row: Mapping[str, Json]) -> tuple[str, ...]:
    return (
        plain(row["threadId"]),
        plain(row["principal"]),
        row["updatedAt"][:19].replace("T", " "),
        str(row["messages"]),
        "open" if row["openRun"] else "",
        plain(str(row["title"] or "")),
    )


def _block(message: Json) -> str:
    """One message: who, and below, what it says, calls and answers."""
    if not isinstance(message, dict):
        return _indented(_text(message))
    lines = list(_said(message))
    return "\n".join([_who(message), *map(_indented, lines)])


def _who(message: Mapping[str, Json]) -> str:
    role = plain(str(message.get("role", "?")))
    answers = message.get("toolCallId")
    return f"{role}, to {plain(str(answers))}" if answers else role


def _said(message: Mapping[str, Json]) -> Iterator[str]:
    if message.get("content") not in (None, ""):
        yield _text(message["content"])
    for call in message.get("toolCalls") or ():
        function = call.get("function") or {}
        name, arguments = function.get("name", "?"), function.get("arguments", "")
        yield plain(f"-> {name} {arguments}  ({call.get('id', '?')})", lines=True)
    if message.get("error"):
        yield plain(f"error: {_text(message['error'])}", lines=True)


def _text(content: Json) -> str:
    """Text as it is; of parts their texts; anything else as JSON."""
    if isinstance(content, str):
        return plain(content, lines=True)
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return json.dumps(content)


def _part(part: Json) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return plain(part["text"], lines=True)
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{plain(str(kind))}]" if kind else json.dumps(part)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _json(body: bytes) -> Json:
    """What an entry says; its text, should it be no JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


# ---- a terminal ------------------------------------------------------------------------------

_ODD: Final = {"Cc", "Cs", "Zl", "Zp"}
_TURNING: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What makes a terminal show a text in another order."""


def plain(text: str, *, lines: bool = False) -> str:
    """The text without what a terminal obeys; `lines` leaves line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_plain(c, lines=lines) else repr(c)[1:-1] for c in text)


def _is_plain(character: str, *, lines: bool) -> bool:
    if character in "\n\t":
        return lines
    return unicodedata.category(character) not in _ODD and character not in _TURNING


def _say(text: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    typer.echo(text)
