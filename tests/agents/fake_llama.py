"""A stand-in for llama-cpp-python: a model that goes on as a test wrote.

Its tokens are characters; only the two marks of ChatML are more. Whole turns are scripted, in the
form that the model would write them, and each completion goes on from where its prompt stands.
"""

import importlib
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Json = Any

START, END, BOS = 1, 2, 3
_MARKS = {START: "<|im_start|>", END: "<|im_end|>", BOS: ""}
_FIRST = 10
PATIENCE_S = 5


class Mind:
    """What the model says, what it was shown, and where it waits for the test."""

    def __init__(self, *turns: str) -> None:
        self.turns = deque(turns)
        self.shown: list[str] = []
        """The prompt of each turn, marks spelled out."""
        self.read: list[int] = []
        """How many tokens were known after each piece of a prompt."""
        self.made: dict[str, Json] = {}
        """How the model was loaded."""
        self.asked: list[dict[str, Json]] = []
        """The options of each completion."""
        self.marks = 0
        """Tokens of the newest prompt that are marks."""
        self.given_up = threading.Event()
        """A completion was left before its end."""
        self.resets = 0
        self.fails: Exception | None = None
        self._turn = ""
        self._hold: int | None = None
        self.held, self._go = threading.Event(), threading.Event()

    def hold(self, after: int = 0) -> None:
        """Wait in the next text, after so many pieces, until `go`."""
        self._hold = after
        self.held.clear()
        self._go.clear()

    def go(self) -> None:
        self._go.set()

    def pieces(self, text: str) -> Iterator[str]:
        """The text in pieces of three characters."""
        pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
        for number, piece in enumerate(pieces):
            self._wait(number)
            yield piece
        self._wait(len(pieces))

    def _wait(self, number: int) -> None:
        if self._hold == number:
            self._hold = None
            self.held.set()
            assert self._go.wait(PATIENCE_S)

    def goes_on(self, prompt: str, grammar: str | None) -> str:
        """What comes behind this prompt."""
        begun = prompt.rpartition("<|im_start|>assistant\n")[2]
        if not begun:
            self.shown.append(prompt)
            self._turn = self.turns.popleft()
        rest = self._turn[len(begun) :]
        if grammar is None:
            return rest
        if "value ::=" in grammar:
            return rest.partition("\n")[0]
        choice, colon, _ = rest.partition(":")
        return choice + colon


class LlamaGrammar:
    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def from_string(cls, text: str, verbose: bool = True) -> "LlamaGrammar":
        return cls(text)


def _llama(mind: Mind) -> type:
    class Llama:
        def __init__(self, path: str, **options: Json) -> None:
            with open(path, "rb") as file:
                if file.read(4) != b"GGUF":
                    raise ValueError(f"Failed to load model from file: {path}")
            mind.made = {"path": path, **options}
            self.eval_tokens: list[int] = []

        def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
            said = text.decode()
            marks = {mark: [token] for token, mark in _MARKS.items() if mark}
            tokens = (special and marks.get(said)) or [_FIRST + ord(char) for char in said]
            return [BOS] * add_bos + tokens

        def reset(self) -> None:
            mind.resets += 1
            self.eval_tokens = []

        def generate(self, tokens: list[int], temp: float) -> Iterator[int]:
            mind._wait(-1)
            self.eval_tokens = list(tokens)
            mind.read.append(len(tokens))
            yield 0

        def create_completion(
            self,
            prompt: list[int],
            *,
            stream: bool,
            grammar: LlamaGrammar | None,
            max_tokens: int,
            **options: Json,
        ) -> Iterator[Json]:
            if mind.fails is not None:
                error, mind.fails = mind.fails, None
                raise error
            assert stream
            mind.asked.append({"grammar": grammar and grammar.text, **options})
            mind.marks = sum(token in (START, END) for token in prompt)
            text = mind.goes_on(_text(prompt), grammar and grammar.text)
            self.eval_tokens = list(prompt)
            try:
                for number, piece in enumerate(mind.pieces(text)):
                    if number == max_tokens:
                        yield _chunk("", "length")
                        return
                    yield _chunk(piece, None)
                yield _chunk("", "stop")
            except GeneratorExit:
                mind.given_up.set()
                raise

    return Llama


def _chunk(text: str, reason: str | None) -> Json:
    return {"choices": [{"text": text, "finish_reason": reason}]}


def _text(tokens: list[int]) -> str:
    return "".join(_MARKS.get(token) or chr(token - _FIRST) for token in tokens if token != BOS)


@contextmanager
def installed(mind: Mind) -> Iterator[Any]:
    """`handspan.agents.local` over a model with this mind, as long as the context lasts."""
    module = ModuleType("llama_cpp")
    module.__dict__.update(Llama=_llama(mind), LlamaGrammar=LlamaGrammar)
    before = {name: sys.modules.pop(name) for name in _ours()}
    sys.modules["llama_cpp"] = module
    try:
        yield importlib.import_module("handspan.agents.local")
    finally:
        for name in _ours():
            del sys.modules[name]
        sys.modules.update(before)
        vars(sys.modules["handspan.agents"]).pop("local", None)


def _ours() -> list[str]:
    local = "handspan.agents.local"
    return [n for n in sys.modules if n in ("llama_cpp", local) or n.startswith(f"{local}.")]
