"""Writes the JSON Schema of the frames: `python -m handspan_protocol.generate [--check]`.

`page.json` says what a page may send, `server.json` what it may receive, for readers in other
languages. Made from `frames`, so it cannot differ from what the codec accepts; what a schema of
one frame cannot say (exactly one of `result`, `content`, `error`) stands in `protocol/README.md`.
A test fails when the files are stale.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from .codec import page_frame, server_frame

FOLDER: Final = Path(__file__).parents[1] / "schema"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema_texts() -> dict[str, str]:
    """The text of each schema file, by its name."""
    return {
        "page.json": _text(page_frame(), "What a page may send"),
        "server.json": _text(server_frame(), "What a page may receive"),
    }


def _text(adapter: TypeAdapter[Any], title: str) -> str:
    schema = adapter.json_schema(by_alias=True)
    _mend(schema)
    named = {"$schema": _DIALECT, "title": f"Handspan protocol 1: {title}", **schema}
    return json.dumps(named, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _mend(node: Any) -> None:
    """Leaves what a reader in another language needs: no Python names, docstrings, OpenAPI words.

    `type`, which tells the members of a union apart, must be there.
    """
    if isinstance(node, list):
        for item in node:
            _mend(item)
    if not isinstance(node, dict):
        return
    node.pop("discriminator", None)
    for word in ("title", "description", "default"):
        if not isinstance(node.get(word), dict):  # a field of that name has a schema
            node.pop(word, None)
    kind = node.get("properties", {}).get("type")
    if isinstance(kind, dict) and "const" in kind:
        node["required"] = sorted({"type", *node.get("required", ())})
    for item in list(node.values()):
        _mend(item)


def stale(folder: Path = FOLDER) -> list[str]:
    """The names of the files that are missing or differ from what the frames say now."""
    return [name for name, text in schema_texts().items() if _read(folder / name) != text]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: Sequence[str]) -> int:
    """Writes the files, or with `--check` says which are stale; the exit status."""
    if list(arguments) == ["--check"]:
        old = stale()
        if old:
            sys.stderr.write(f"stale: {', '.join(old)}; run python -m handspan_protocol.generate\n")
        return 1 if old else 0
    if arguments:
        sys.stderr.write("usage: python -m handspan_protocol.generate [--check]\n")
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
