"""The code that the documentation prints: where it stands, and what a reader would do with it.

Owns reading Markdown: fenced blocks with their language, place and marks. Deliberately runs
nothing; `kitchen` does. A mark is an HTML comment right above a block:

    <!-- continues -->        goes on where the Python block before it ended
    <!-- given: CODE -->      CODE stands before it; what a reader would have by now
    <!-- output -->           what the block before it prints
    <!-- not run: WHY -->     nothing here can run it

A block whose first line is a comment with a file's name (`# app.py`, `// web/page.js`,
`<!-- web/index.html -->`) is that file; with `, continued` it is added to its end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
CLIENT_README: Final = ROOT / "bridge" / "handspan" / "client" / "README.md"

PAGES: Final = (README, *sorted(DOCS.rglob("*.md")))
"""Every page whose blocks are a reader's business."""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_MARKS: Final = re.compile(r"((?:<!-- [^\n]*(?:\n(?!<!--)[^\n]+)*? -->\n+)*)\Z")
_MARK: Final = re.compile(
    r"<!-- (?P<name>continues|given|output|not run)(?:: (?P<value>.*?))? -->", re.DOTALL
)
_FILE: Final = re.compile(
    r"\A(?:#|//|<!--) (?P<name>[\w/.-]+\.\w+)(?P<more>, continued)?(?: -->)?\n"
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    file: str | None = None
    """The file that it is, or goes on with."""
    goes_on: bool = False
    """Whether it is added to the end of that file."""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets_of(page: Path) -> list[Snippet]:
    """The blocks of a page, in order."""
    return list(_read(page, page.read_text(encoding="utf-8")))


def files_of(page: Path) -> dict[str, str]:
    """The files that a page has a reader write, as they are at its end."""
    files: dict[str, str] = {}
    for snippet in snippets_of(page):
        if snippet.file is not None:
            before = files.get(snippet.file, "") if snippet.goes_on else ""
            files[snippet.file] = before + snippet.text
    return files


def _read(page: Path, text: str) -> Iterator[Snippet]:
    for found in _FENCE.finditer(text):
        above = _MARKS.search(text, 0, found.start())
        marks = {
            m["name"]: m["value"] or "" for m in _MARK.finditer(above.group() if above else "")
        }
        indent = found["indent"]
        body = re.sub(rf"^{indent}", "", found["text"], flags=re.MULTILINE)
        file = _FILE.match(body)
        yield Snippet(
            page=page,
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            text=body,
            marks=marks,
            file=file["name"] if file else None,
            goes_on=bool(file and file["more"]),
        )
