"""Every block that the documentation prints is run, or says why it is not.

Python runs in order, page by page, in a reader's folder (`kitchen`); scripts of pages run in a real
Chromium against the bridge that the page has made; commands and configurations are held to what
there is. What whole pages promise together is in `test_stories`.
"""

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.docs import shell_words
from tests.docs.kitchen import kitchen, python_blocks
from tests.docs.snippets import PAGES, ROOT, Snippet, snippets_of

from handspan import Policy

ALL = [snippet for page in PAGES for snippet in snippets_of(page)]
TESTED = ("python", "js", "html", "sh", "nginx", "ini", "text")
"""Languages that a test here knows what to do with."""


def blocks(*languages: str) -> list[Any]:
    found = (s for s in ALL if s.language in languages and "not run" not in s.marks)
    return [pytest.param(snippet, id=snippet.name) for snippet in found]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("snippet", [pytest.param(s, id=s.name) for s in ALL])
def test_the_block_is_of_a_kind_that_is_run(snippet: Snippet) -> None:
    if "not run" in snippet.marks:
        assert snippet.marks["not run"], f"{snippet.name} does not say why it is not run"
        pytest.skip(snippet.marks["not run"])
    assert snippet.language in TESTED, f"{snippet.name}: nobody runs {snippet.language!r}"
    if snippet.language == "html":
        assert snippet.file, f"{snippet.name}: name the file in the first line"
    if snippet.language == "text":
        assert "output" in snippet.marks, f"{snippet.name}: what prints this?"


def test_there_are_blocks_to_run() -> None:
    assert len(blocks("python")) > 15
    assert len(blocks("js")) > 15


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=name_of)
async def test_the_python_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    with kitchen(page, tmp_path) as reader:
        (tmp_path / "web").mkdir()
        for snippet in snippets_of(page):
            if snippet.language == "python" and "not run" not in snippet.marks:
                await reader.run(snippet)
            elif "output" in snippet.marks:
                assert reader.printed == snippet.text, snippet.name


@pytest.mark.parametrize("snippet", blocks("sh"))
def test_the_commands_are_commands(snippet: Snippet) -> None:
    page_text = snippet.page.read_text(encoding="utf-8")
    assert shell_words.problems_of(snippet.text, page_text) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "handspan serve app:bridge --statics web",
        "handspan fly",
        "handspan serve app:bridge --port many",
        "make coffee",
        "rm -rf web",
        "curl http://127.0.0.1:8765/nowhere",
        "cd web && pip install httpie",
        "pip install '/path/to/the/clone[openai,no-such-extra]'",
        "pip install --no-deps no-such-library",
    ],
)
def test_a_command_that_is_none_is_found(wrong: str) -> None:
    assert shell_words.problems_of(wrong, "") != []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_extras_that_are_named_in_a_line_are_there(page: Path) -> None:
    named = re.findall(r"/path/to/the/clone\[[^\]]*\]", page.read_text(encoding="utf-8"))
    assert [words for words in named if not shell_words.is_the_clone(words)] == []


@pytest.mark.parametrize("snippet", blocks("ini"))
def test_the_unit_starts_what_there_is(snippet: Snippet) -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(snippet.text)
    program, *rest = unit["Service"]["ExecStart"].split()
    assert program.endswith("/.venv/bin/handspan")
    assert shell_words.handspan_problem(["handspan", *rest]) == ""
    assert unit.getfloat("Service", "TimeoutStopSec") > Policy().drain_grace


@pytest.mark.parametrize("snippet", blocks("nginx"))
def test_the_proxy_is_more_patient_than_the_heartbeat(snippet: Snippet) -> None:
    for directive in ("proxy_read_timeout", "proxy_send_timeout"):
        told = re.search(rf"{directive}\s+(\d+)s;", snippet.text)
        assert told is not None, directive
        assert int(told[1]) > 3 * Policy().heartbeat
    assert re.search(r"proxy_http_version 1\.1;", snippet.text)
    assert re.search(r"proxy_set_header Host\s+\$host;", snippet.text)


@pytest.mark.parametrize("snippet", blocks("nginx"))
def test_nginx_takes_the_configuration(snippet: Snippet, tmp_path: Path) -> None:
    nginx, openssl = shutil.which("nginx"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("no nginx, or no openssl, on this machine; only its times were looked at")
    conf = nginx_conf(snippet.text, tmp_path, openssl)
    done = subprocess.run([nginx, "-t", "-c", conf], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def nginx_conf(block: str, folder: Path, openssl: str, **ports: int) -> Path:
    """The block as a whole configuration in a folder of its own, with a key made for it."""
    key, certificate = folder / "app.example.key", folder / "app.example.pem"
    subject = ("-subj", "/CN=app.example", "-days", "2", "-nodes", "-newkey", "rsa:2048")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run([openssl, "req", "-x509", *subject, *files], check=True, capture_output=True)
    block = block.replace("/etc/ssl", str(folder))
    block = block.replace("listen 443", f"listen 127.0.0.1:{ports.get('listen', 8443)}")
    block = block.replace("127.0.0.1:8765", f"127.0.0.1:{ports.get('bridge', 8765)}")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = [f"{kind}_temp_path {folder}/{kind};" for kind in kinds]
    head = [f"pid {folder}/pid;", f"error_log {folder}/error.log;", "events {}"]
    whole = "\n".join([*head, "http {", "access_log off;", *own, block, "}", ""])
    conf = folder / "nginx.conf"
    conf.write_text(whole)
    return conf


# ---- in a browser ----------------------------------------------------------------------------

STUBS = {
    "react": """
        export const useRef = (current) => ({ current });
        export const useState = (value) => [value, (next) => (window.seen = next)];
        export const useEffect = (effect) => void (window.undo ??= []).push(effect());
    """,
    "vue": """
        export const shallowRef = (value) => ({ value });
        export const onScopeDispose = (undo) => void (window.undo ??= []).push(undo);
    """,
    "svelte": "export const onDestroy = (undo) => void (window.undo ??= []).push(undo);",
}
"""As much of a framework as the pages use."""

IMPORT = 'import { connect } from "/client/handspan.js";\n'
BRIDGE = "const bridge = connect();\n"


def script_of(snippet: Snippet) -> str:
    """A block as a module: what it needs that it does not make, what it is given, and itself."""
    whole = snippet.goes_on or re.search(
        r"^import .*(handspan|bridge)\.js", snippet.text, re.MULTILINE
    )
    needs = "" if whole else IMPORT + ("" if "connect(" in snippet.text else BRIDGE)
    text = needs + snippet.marks.get("given", "") + "\n" + snippet.text
    return re.sub(rf'from "({"|".join(STUBS)})"', r'from "/stubs/\1.js"', text)


@pytest.mark.browser
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(s.language == "js" for s in snippets_of(p))], ids=name_of
)
def test_the_scripts_of_the_page_run(page: Path, browser: Any, tmp_path: Path) -> None:
    """Each in a page of its own, with the tools and the agent that the scripts speak of."""
    from tests.docs.readers_page import readers_page

    (tmp_path / "stubs").mkdir()
    for name, text in STUBS.items():
        (tmp_path / "stubs" / f"{name}.js").write_text(text)
    with readers_page(browser, tmp_path) as reader:
        for snippet in snippets_of(page):
            if snippet.language == "js" and "not run" not in snippet.marks:
                name = Path(snippet.file or "block.js").name
                before = (tmp_path / name).read_text() if snippet.goes_on else ""
                (tmp_path / name).write_text(before + script_of(snippet))
                assert reader.run(name) == [], snippet.name
