"""`handspan demo --model`: every form of its words, and the line for what is missing."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.agents.demo_page import Board
from tests.agents.fake_llama import Mind, installed
from tests.agents.keyword_tools import BOARD

from handspan import cli
from handspan.demo import demo_bridge
from handspan.demo.examples import EXAMPLES
from handspan.demo.models import Choice, agent_of, choice_of, first_model_of, ollama_at
from handspan.schema import CompiledSchema, SchemaRoom
from handspan.testing import Page
from handspan_protocol.errors import UsageError
from handspan_protocol.tools import parameters_of, to_wire

Json = Any


# ---- the words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ("local", Choice("local")),
        ("local:/models/m.gguf", Choice("local", "/models/m.gguf")),
        ("openai:gpt-5-mini", Choice("openai", "gpt-5-mini")),
        ("openai:ft:gpt:me", Choice("openai", "ft:gpt:me")),
        ("anthropic:claude-x", Choice("anthropic", "claude-x")),
        ("ollama:llama3.2:1b", Choice("ollama", "llama3.2:1b")),
        ("http://127.0.0.1:8080/v1", Choice("server", "", "http://127.0.0.1:8080/v1")),
        ("http://[::1]:8080/v1/", Choice("server", "", "http://[::1]:8080/v1")),
        ("https://models.example/v1#a/b", Choice("server", "a/b", "https://models.example/v1")),
    ],
)
def test_every_form_of_the_words_is_read(words: str, choice: Choice) -> None:
    assert choice_of(words) == choice


@pytest.mark.parametrize(
    "words",
    ["", "openai", "openai:", "ollama:", "gpt-5", "http://", "http://h:port/v1", "ftp://h/v1"],
)
def test_other_words_are_told_the_forms(words: str) -> None:
    with pytest.raises(UsageError, match=r"is no model; say local, openai:NAME, "):
        choice_of(words)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        (":8000", "http://127.0.0.1:8000"),
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        ("https://box:1/", "https://box:1"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("[::]", "http://127.0.0.1:11434"),
    ],
)
def test_ollama_is_where_its_variable_says(host: str, url: str) -> None:
    assert ollama_at(host) == url


# ---- the agents -------------------------------------------------------------------------------


def test_a_provider_is_asked_with_the_key_of_its_variable() -> None:
    pytest.importorskip("openai")
    made = agent_of("openai:m", {"OPENAI_API_KEY": " k1 "})
    assert (type(made).__name__, made.model, made._client.api_key) == ("OpenAIResponses", "m", "k1")
    assert "board of cards" in made.instructions


def test_the_other_provider_too() -> None:
    pytest.importorskip("anthropic")
    made = agent_of("anthropic:m", {"ANTHROPIC_API_KEY": "k2"})
    assert (type(made).__name__, made.model, made._client.api_key) == ("Anthropic", "m", "k2")


def test_ollama_needs_no_key_and_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "a-secret")
    made = agent_of("ollama:m", {"OLLAMA_HOST": "box:1"})
    assert (made.model, str(made._client.base_url)) == ("m", "http://box:1/v1/")
    assert made._client.api_key != "a-secret"


def test_a_server_is_asked_which_model_it_has() -> None:
    pytest.importorskip("openai")
    with answering(json.dumps({"data": [{"id": "first"}, {"id": "second"}]})) as url:
        assert agent_of(url, {}).model == "first"
        assert agent_of(f"{url}#third", {}).model == "third"


@pytest.mark.parametrize(
    "said",
    ["no json", "{}", '{"data":[]}', "[]", "3", '{"data":[{"id":null}]}', "[" * 100_000],
    ids=range(7),
)
def test_a_server_that_does_not_say_is_a_line(said: str) -> None:
    with answering(said) as url, pytest.raises(UsageError, match=r"does not say .*#NAME"):
        first_model_of(url)


def test_a_server_that_refuses_or_is_not_there_is_a_line() -> None:
    refused = pytest.raises(UsageError, match=r"no model server answers at http://.*: Not Found")
    with answering("", status=404) as url, refused:
        first_model_of(url)
    with pytest.raises(UsageError, match=r"no model server answers at http://.*: \["):
        first_model_of(url)


@contextmanager
def answering(said: str, status: int = 200) -> Iterator[str]:
    """A server that says this of its models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/v1/models"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join(5)


# ---- what is missing --------------------------------------------------------------------------


@pytest.fixture
def told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """What `handspan demo --model` says when it cannot begin; one line, and status 2."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    def said(words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["handspan", "demo", "--port", "0", "--model", words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        assert line.startswith("handspan: ")
        return line

    return said


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("openai:m", "--model openai:m needs a key: set OPENAI_API_KEY"),
        ("anthropic:m", "--model anthropic:m needs a key: set ANTHROPIC_API_KEY"),
        ("gpt-5", "'gpt-5' is no model; say local, openai:NAME, "),
        ("local:/no/such.gguf", "there is no file /no/such.gguf"),
    ],
)
def test_what_is_missing_is_one_line(told: Callable[[str], str], words: str, line: str) -> None:
    with installed(Mind()):
        assert line in told(words)


@pytest.mark.parametrize(
    ("words", "library", "modules", "extra"),
    [
        ("openai:m", "openai", ("openai_responses",), "openai"),
        ("anthropic:m", "anthropic", ("anthropic",), "anthropic"),
        ("ollama:m", "openai", ("openai_chat",), "openai"),
        ("http://127.0.0.1:1/v1", "openai", ("openai_chat",), "openai"),
        ("local", "llama_cpp", ("local",), "local"),
        ("local:m.gguf", "llama_cpp", ("local",), "local"),
    ],
)
def test_an_extra_that_is_missing_is_one_line(
    told: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    library: str,
    modules: tuple[str, ...],
    extra: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setitem(sys.modules, library, None)
    for module in modules:
        monkeypatch.delitem(sys.modules, f"handspan.agents.{module}", raising=False)
    line = told(words)
    assert f"needs {library}, which is not installed; its extra is {extra}: pip install" in line
    assert f"'PATH_TO_THE_CLONE[{extra}]'" in line


@pytest.mark.parametrize(
    ("words", "library"), [("openai:m", "openai"), ("anthropic:m", "anthropic")]
)
def test_a_key_and_an_extra_that_are_missing_are_told_together(
    told: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, words: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("openai_responses", "anthropic"):
        monkeypatch.delitem(sys.modules, f"handspan.agents.{module}", raising=False)
    line = told(words)
    assert f"its extra is {library}" in line
    assert f"needs a key: set {library.upper()}_API_KEY" in line


# ---- the demo ---------------------------------------------------------------------------------


def test_the_examples_fit_the_tools_of_the_page() -> None:
    tools = {tool.name: tool for tool in BOARD if tool.name != "*"}
    called = {example["call"]: example for example in EXAMPLES if "call" in example}
    assert called.keys() == tools.keys()
    for name, example in called.items():
        schema = SchemaRoom().compile(parameters_of(tools[name]))
        assert isinstance(schema, CompiledSchema)
        assert schema.problems(example.get("args", {})) == ()


async def test_the_model_speaks_in_the_demo_and_what_to_say_next_stays(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    mind = Mind('functions.set_theme:\n{"theme": "dark"}', "message:\nIt is dark.")
    with installed(mind):
        bridge = demo_bridge(model=agent_of(f"local:{file}", {}))
        async with Page(bridge) as page:
            for tool in BOARD:
                page.tool(tool.name, to_wire(tool), Board().tools().get(tool.name, dict))
            await page.run("make it dark").finished
            await page.until(lambda: page.thread().suggestions or None)
            assert page.thread().text == "It is dark."
            assert "make it light" in page.thread().suggestions
        await bridge.close()
