"""The parts of the docs that the code itself can tell: frames, command line, the two tables.

    python docs/generate.py            write them
    python docs/generate.py --check    status 1 when a file is not what would be written

Owns reference/frames.md and reference/cli.md, and the diagrams in bridge/README.md. The sentence
about each frame stands here; one that has none cannot be written, and a test says so.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from diagrams import drawn

from handspan.cli import app
from handspan_protocol.generate import schema_texts

ROOT: Final = Path(__file__).parents[1]
REFERENCE: Final = ROOT / "docs" / "reference"

Json = Any
Schema = Mapping[str, Json]

AG_UI_KINDS: Final = {"text", "image", "audio", "video", "document", "data", "url", "file"}
"""Types of AG-UI's content parts and their sources, which are no frames."""

METAVARS: Final = {"static": "DIR", "allow_host": "HOST", "store": "URL"}
"""What an option takes, where its own name does not say it."""

NOTE: Final = "<!-- Written by docs/generate.py; edit that. -->\n\n"

FRAMES_HEAD: Final = """# Frames

Every frame and its fields. What they mean together, in which order they come, and every rule, is in
the [wire protocol](../../protocol/README.md). You need this only to write a client of your own; the
same as JSON Schema is printed by `handspan schema`. The fields of a tool are
[there](../../protocol/README.md#a-tool), too.

One WebSocket, subprotocol `handspan.v1`, text frames, one JSON object each. An optional field that
is absent and one that is null mean the same. *any* is any JSON value.
"""

CLI_HEAD: Final = """# Command line

`python -m handspan` is the same as `handspan`. A bad argument, or a module that cannot be loaded,
is one line that says why, and exit status 2; a port that cannot be had, 1. SIGTERM and Ctrl-C
drain; a second one leaves at once.
"""

PAGE_FRAMES: Final = {
    "hello": "The first frame of every connection: who this page is, and all that it has.",
    "tools.update": "Tools were registered or taken back. `set` replaces all of them.",
    "context.update": "What the page says of itself has changed. `set` replaces all of it.",
    "thread.open": "Send me this thread from here on; without an id, make one.",
    "thread.close": "Send me this thread no more.",
    "thread.list": "Which threads are there of mine?",
    "thread.delete": "Forget this thread.",
    "run.start": "Ask the agent. Answered at once.",
    "run.abort": "Stop this run, or whatever runs on this thread.",
    "tool.invoke": "Carry out a tool, as a button does. Answered when the call has settled.",
    "tool.started": "May I start this call? Only the status `go` says yes.",
    "tool.progress": "How far a call is. Not answered.",
    "tool.result": "What a call came to: exactly one of `result`, `content` and `error`.",
    "approval.answer": "What the human said.",
    "state.update": "Change the thread's state: exactly one of `patch` and `state`.",
    "visibility": "Whether the page is seen. Not answered.",
    "pong": "The answer to a ping.",
    "bye": "The page ends its session on purpose. Not answered.",
}

SERVER_FRAMES: Final = {
    "welcome": "The answer to hello.",
    "snapshot": "A whole thread, at one place in its log.",
    "events": "What happened on a thread: AG-UI events, as they are.",
    "reply": "The one answer to a command: exactly one of `result` and `error`.",
    "tool.call": "Carry this out.",
    "tool.cancel": "Nobody wants this call's result any more.",
    "approval.request": "Ask the human.",
    "ping": "Are you there?",
    "goaway": "The server stops; come back after a while.",
    "error": "What went wrong and answers no command.",
}


# ---- frames ----------------------------------------------------------------------------------


def frames() -> str:
    """reference/frames.md."""
    schemas = {name: json.loads(text) for name, text in schema_texts().items()}
    parts: dict[str, Schema] = {}
    for schema in schemas.values():
        parts |= schema["$defs"]
    return "\n".join(
        [
            NOTE + FRAMES_HEAD,
            "## From a page\n",
            *_section(schemas["page.json"]["$defs"], PAGE_FRAMES),
            "## From the server\n",
            *_section(schemas["server.json"]["$defs"], SERVER_FRAMES),
            "## Parts of frames\n",
            *_parts(parts),
        ]
    )


def _section(definitions: Mapping[str, Schema], told: Mapping[str, str]) -> Iterator[str]:
    """The frames in the order in which they are told; all of them, and no others."""
    by_type = {type_of(d): d for d in definitions.values() if type_of(d)}
    if missing := by_type.keys() ^ told.keys():
        raise SystemExit(f"docs/generate.py has no sentence, or no frame: {sorted(missing)}")
    for name, sentence in told.items():
        yield f"### `{name}`\n"
        yield f"{sentence}\n"
        yield from _fields(by_type[name])


def _parts(definitions: Mapping[str, Schema]) -> Iterator[str]:
    for name, definition in sorted(definitions.items()):
        if type_of(definition) is None and not _is_ag_ui(name):
            yield f"### {name}\n"
            yield from _fields(definition)
    yield "Content parts (`TextPart`, `ImagePart`, ...) are those of AG-UI.\n"


def _is_ag_ui(name: str) -> bool:
    return name.endswith(("Part", "Source"))


def type_of(definition: Schema) -> str | None:
    """The `type` of a frame; None for a part of one."""
    kind = definition.get("properties", {}).get("type", {}).get("const")
    return None if kind is None or kind in AG_UI_KINDS else str(kind)


def _fields(definition: Schema) -> Iterator[str]:
    fields = {n: f for n, f in definition["properties"].items() if n != "type"}
    if not fields:
        yield "No fields.\n"
        return
    required = definition.get("required", ())
    yield "| field | type | |"
    yield "|---|---|---|"
    for name in sorted(fields, key=lambda n: (n not in required, n != "id", n)):
        yield f"| `{name}` | {_type(fields[name])} |{'' if name in required else ' optional'} |"
    yield ""


def _type(schema: Schema) -> str:
    """A type in words."""
    if not schema:
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return name if _is_ag_ui(name) else f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(s) for s in schema[several] if s.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema["type"])


# ---- command line ----------------------------------------------------------------------------


def cli() -> str:
    """reference/cli.md."""
    group: Any = typer.main.get_command(app)
    lines = [NOTE + CLI_HEAD, "## `handspan`\n", *_options(group)]
    for name, command in commands_of(group):
        arguments = "".join(f" {p.metavar}" for p in command.params if _is_argument(p))
        lines += [f"## `handspan {name}{arguments}`\n", f"{command.help}\n", *_options(command)]
    return "\n".join(lines)


def commands_of(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Each command with its words, and those below it."""
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{above}{name} ")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _options(command: Any) -> list[str]:
    rows = [_option(p) for p in command.params if not _is_argument(p) and p.name != "help"]
    return ["| option | what | default |", "|---|---|---|", *rows, ""] if rows else []


def _option(parameter: Any) -> str:
    default = parameter.default
    shown = f" `{default}`" if isinstance(default, str | int) and not parameter.is_flag else ""
    metavar = (
        "" if parameter.is_flag else f" {METAVARS.get(parameter.name, parameter.name.upper())}"
    )
    return f"| `{parameter.opts[0]}{metavar}` | {parameter.help} |{shown} |"


# ---- writing ---------------------------------------------------------------------------------


def texts() -> dict[Path, str]:
    """Of each file what it says."""
    map_of_the_house = ROOT / "bridge" / "README.md"
    return {
        REFERENCE / "frames.md": frames(),
        REFERENCE / "cli.md": cli(),
        map_of_the_house: drawn(map_of_the_house.read_text(encoding="utf-8")),
    }


def stale() -> list[str]:
    """The files that are not what would be written."""
    return [
        path.relative_to(ROOT).as_posix()
        for path, text in texts().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    """The command."""
    if "--check" in sys.argv[1:]:
        sys.exit(f"stale, run python docs/generate.py: {stale()}" if stale() else 0)
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
