"""What the README prints runs as printed: its commands, its server, its page."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.snippets import README, files_of, snippets_of
from tests.shell.test_cli import Server

WAIT_MS = 10_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reader's folder with the README's three files."""
    for name, text in files_of(README).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_server_and_the_page_are_of_twenty_lines() -> None:
    files = files_of(README)
    assert sorted(files) == ["app.py", "web/index.html", "web/page.js"]
    assert len(files["app.py"].splitlines()) <= 20
    script = files["web/page.js"].splitlines()
    assert len([line for line in script if line]) <= 20


def serving() -> list[str]:
    """The arguments of the command that the README ends with."""
    shell = "".join(s.text for s in snippets_of(README) if s.language == "sh")
    found = re.search(r"^handspan (serve .*)$", shell, re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.mark.browser
def test_the_readers_own_page_works_as_printed(browser: Any, folder: Path) -> None:
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    wrong: list[str] = []
    with Server(*serving(), cwd=folder) as server:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(server.address)
        page.get_by_role("button", name="Ask").click()
        page.get_by_text("assistant: Done: {'theme': 'dark'}").wait_for()
        assert page.evaluate("document.documentElement.style.colorScheme") == "dark"
        page.locator("input").fill("make it light")
        page.get_by_role("button", name="Ask").click()
        page.get_by_text("assistant: Done: {'theme': 'light'}").wait_for()
        assert page.evaluate("document.documentElement.style.colorScheme") == "light"
    context.close()
    assert wrong == []


@pytest.mark.browser
def test_the_readers_agent_is_told_when_the_page_has_no_such_tool(
    browser: Any, folder: Path
) -> None:
    script = folder / "web" / "page.js"
    script.write_text(script.read_text().replace('"set_theme"', '"set_them"'))
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    with Server(*serving(), cwd=folder) as server:
        page = context.new_page()
        page.goto(server.address)
        page.get_by_role("button", name="Ask").click()
        page.get_by_text("the tools are: set_them").wait_for()
    context.close()
