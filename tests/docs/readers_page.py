"""A blank page with whatever the documentation's scripts speak of, and a bridge behind it.

Owns the bridge's agent and the page's HTML; a script is served beside it and imported. What the
script, or a promise of it that nobody waits for, throws is what `run` returns.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.stage import Stage

HTML = """<!doctype html>
<title>A reader's page</title>
<link rel="icon" href="icon.svg">
<form><input name="message" value="hello"> <button>Send</button></form>
<button id="stop">Stop</button>
<ul id="list"></ul>
<pre id="log"></pre>
"""

ICON = '<svg xmlns="http://www.w3.org/2000/svg"/>'

WHOLE = """async (name) => {
  const wrong = [];
  const note = ({ message, reason }) => wrong.push(String(message ?? reason?.stack ?? reason));
  addEventListener("error", note);
  addEventListener("unhandledrejection", note);
  const late = new Promise((_, reject) => setTimeout(reject, 8000, "not done within 8 s"));
  await Promise.race([import("/" + name), late]).catch((reason) => note({ reason }));
  await new Promise((next) => requestAnimationFrame(next));
  return wrong;
}"""


async def agent(run: Any) -> Any:
    """Says something; works until it is stopped when it is asked for the long thing."""
    said = run.messages[-1].content
    if said == "do the long thing":
        await asyncio.Event().wait()
    yield f"You said {said}."


class ReadersPage:
    """Runs scripts, each in a page of its own."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def run(self, name: str) -> list[str]:
        """Import a module of the folder; what went wrong."""
        context = self._stage.context()
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(str(self._stage.address))
        found = page.evaluate(WHOLE, name)
        context.close()
        self._stage._contexts.remove(context)
        return [*found, *wrong]


@contextmanager
def readers_page(browser: Any, folder: Path) -> Iterator[ReadersPage]:
    """The page's folder, served."""
    (folder / "index.html").write_text(HTML)
    (folder / "icon.svg").write_text(ICON)  # or the browser asks for another one, and complains
    with Stage(browser, agent, static=folder).up() as stage:
        yield ReadersPage(stage)
