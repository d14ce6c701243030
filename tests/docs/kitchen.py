"""A reader's folder: the files that a page has them write, and its Python blocks at work.

Owns the folder, `sys.path` and the modules that were imported from it; all of it goes with the
context. Above sit the tests; below sits `snippets`, which reads.
"""

import asyncio
import contextlib
import importlib
import inspect
import io
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docs.snippets import Snippet, snippets_of

from handspan import Bridge

READERS = frozenset({"app", "block", "chat", "test_app"})
"""The names that the documentation gives to a reader's modules."""

WAIT_S = 20
"""A bound against hanging, for one block."""


class Kitchen:
    """One reader, one page, one folder."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.names: dict[str, Any] = {}
        """What the newest Python block has made."""
        self.printed = ""
        """What it printed."""

    @property
    def bridge(self) -> Bridge | None:
        """The bridge of the newest Python block, if it has one."""
        found = self.names.get("bridge")
        return found if isinstance(found, Bridge) else None

    def write(self, name: str, text: str, *, more: bool = False) -> Path:
        """Write one file of the reader's, or add to it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if more else ""
        path.write_text(before + text, encoding="utf-8")
        return path

    async def run(self, snippet: Snippet) -> None:
        """Carry out a Python block, then what it defines to be run: tests, and `main`."""
        if snippet.file is not None:
            self.write(snippet.file, snippet.text, more=snippet.goes_on)
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as out:
            before = dict(self.names) if "continues" in snippet.marks else {}
            self.names = self._module(snippet, before).__dict__
            for name, made in list(self.names.items()):
                fresh = inspect.isfunction(made) and before.get(name) is not made
                if fresh and (name.startswith("test_") or name == "main"):
                    await _call(made)
        self.printed = out.getvalue()

    def _module(self, snippet: Snippet, before: dict[str, Any]) -> types.ModuleType:
        name = Path(snippet.file or "block.py").stem
        assert name in READERS, f"{snippet.name}: name {name} in kitchen.READERS"
        module = types.ModuleType(name)
        module.__dict__.update(before, __name__=name, __file__=snippet.name)
        sys.modules[name] = module
        given = snippet.marks.get("given", "") + "\n"
        exec(compile(given, snippet.name, "exec"), module.__dict__)
        shift = "\n" * snippet.line  # so that a traceback names the line of the page
        exec(compile(shift + snippet.text, str(snippet.page), "exec"), module.__dict__)
        return module


async def _call(function: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        made = function()
        if inspect.isawaitable(made):
            await made


@contextmanager
def kitchen(page: Path, folder: Path) -> Iterator[Kitchen]:
    """A reader's folder, importable while the context lasts."""
    before = dict(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield Kitchen(page, folder)
    finally:
        sys.path.remove(str(folder))
        for name in READERS & sys.modules.keys():
            del sys.modules[name]
        sys.modules.update({name: before[name] for name in READERS & before.keys()})


def python_blocks(page: Path) -> list[Snippet]:
    """The Python blocks of a page that can run, in order."""
    return [s for s in snippets_of(page) if s.language == "python" and "not run" not in s.marks]
