"""One model in one thread: turns are generated one after another, each until it is stopped.

Owns the llama.cpp model, which blocks and can do one thing at a time: so it lives in a thread of
its own, and who comes while it works waits. What a turn comes to goes back as chunks of chat
completions. Deliberately knows neither runs nor agents.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from llama_cpp import Llama, LlamaGrammar

from handspan.ports import AgentFailed

from .chatml import MESSAGE, NEXT, Example, Turn, beginning_of, begun, exchanges_of, head_of
from .grammar import of_arguments, one_of

Json = Any
Chunk = dict[str, Json]
Tool = Mapping[str, Json]
Stopped = Callable[[], bool]

PIECE: Final = 64
"""Tokens of a prompt that are read between two looks whether anybody still waits: below a second
on a slow processor."""

LEFT_OUT: Final = 8
"""Exchanges of a history too long that are left out together: what was read before stays useful
until the next eight have come."""

CALLS: Final = 8
"""Of one turn; a small model may find no end."""

CHOICE_TOKENS: Final = 80
"""More than any name of a tool has, whose characters are 64 at most."""

REPETITION: Final = 1.1
"""The price of a word that was said before; without one, small models say the same for ever. Only
for texts: a call repeats what the user said. *Source:* llama-cpp-python's chat formats."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How turns are generated."""

    context_tokens: int
    answer_tokens: int
    """Of one answer or one call at most."""
    temperature: float
    exchanges: int | None
    """Of a history, the newest that are told; None: all that there is room for."""
    examples: tuple[Example, ...]


class Engine:
    """A loaded model and its thread."""

    def __init__(self, llama: Llama, settings: Settings) -> None:
        self._llama = llama
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="handspan-local")

    def begin(self, request: Mapping[str, Json]) -> "Stream":
        """Have a turn generated when those before it are done; call it from the event loop."""
        return Stream(self._thread, lambda stopped: self._chunks(request, stopped))

    # ---- in the thread -----------------------------------------------------------------------

    def _chunks(self, request: Mapping[str, Json], stopped: Stopped) -> Iterator[Chunk]:
        try:
            yield from self._turn(request, stopped)
        except AgentFailed:
            raise
        except Exception:
            self._llama.reset()  # what it has read may be half of something
            raise

    def _turn(self, request: Mapping[str, Json], stopped: Stopped) -> Iterator[Chunk]:
        prompt = self._prompt(request)
        self._read(prompt, stopped)
        if stopped():
            return
        counts = Counts(len(prompt))
        tools = {tool["function"]["name"]: tool["function"] for tool in request.get("tools") or ()}
        if not tools:
            yield from self._text(prompt, counts, stopped)
            return
        named = {beginning_of(name): tool for name, tool in tools.items()}
        beginning = self._choose(prompt, [MESSAGE, *named], counts, stopped)
        if beginning in named:
            yield from self._calls(prompt, beginning, named, counts, stopped)
        elif not stopped():
            yield from self._text(prompt + self._plain(begun(MESSAGE)), counts, stopped)

    def _choose(
        self, prompt: list[int], choices: Iterable[str], counts: "Counts", stopped: Stopped
    ) -> str:
        """How the model goes on."""
        pieces = self._complete(prompt, one_of(choices), counts, stopped, max_tokens=CHOICE_TOKENS)
        return "".join(text for text, _ in pieces).strip()

    def _text(self, prompt: list[int], counts: "Counts", stopped: Stopped) -> Iterator[Chunk]:
        pieces = self._complete(prompt, None, counts, stopped, repeat_penalty=REPETITION)
        for text, reason in pieces:
            yield counts.chunk({"content": text} if text else {}, reason)

    def _calls(
        self,
        prompt: list[int],
        beginning: str,
        tools: Mapping[str, Tool],
        counts: "Counts",
        stopped: Stopped,
    ) -> Iterator[Chunk]:
        """One call after another, as long as the model begins one more."""
        more = ["", *(NEXT + each for each in tools)]
        prompt = prompt + self._plain(begun(beginning))
        for index in range(CALLS):
            said, reason = yield from self._call(index, prompt, tools[beginning], counts, stopped)
            if reason != "stop":  # it was cut, or nobody waits any more
                yield counts.chunk({}, reason)
                return
            beginning = self._choose(prompt + self._plain(said), more, counts, stopped)
            if beginning not in tools:
                break
            prompt = prompt + self._plain(said + NEXT + begun(beginning))
        yield counts.chunk({}, "tool_calls")

    def _call(
        self, index: int, prompt: list[int], tool: Tool, counts: "Counts", stopped: Stopped
    ) -> Generator[Chunk, None, tuple[str, str | None]]:
        """Returns the arguments, and why they end there."""
        texts: list[str] = []
        last: str | None = None
        yield counts.chunk(_fragment(index, name=tool["name"]))
        grammar = of_arguments(tool["parameters"])
        for text, reason in self._complete(prompt, grammar, counts, stopped):
            texts.append(text)
            last = reason
            yield counts.chunk(_fragment(index, arguments=text))
        return "".join(texts), last

    def _complete(
        self,
        prompt: list[int],
        grammar: str | None,
        counts: "Counts",
        stopped: Stopped,
        **options: Json,
    ) -> Iterator[tuple[str, str | None]]:
        """Texts as they come, the last one with the reason why there is no more."""
        asked = {"max_tokens": self._settings.answer_tokens, **options}
        chunks = self._llama.create_completion(
            prompt,
            stream=True,
            temperature=self._settings.temperature,
            grammar=LlamaGrammar.from_string(grammar, verbose=False) if grammar else None,
            **asked,
        )
        with contextlib.closing(chunks):
            for chunk in chunks:
                if stopped():
                    return
                choice = chunk["choices"][0]
                counts.output += 1 if choice["text"] else 0
                yield choice["text"], choice["finish_reason"]

    # ---- the prompt --------------------------------------------------------------------------

    def _read(self, prompt: list[int], stopped: Stopped) -> None:
        """Have the model read the prompt, a piece at a time, from where it differs from what it has
        read before."""
        pairs = zip(self._llama.eval_tokens, prompt, strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        for end in range(known + PIECE, len(prompt), PIECE):
            if stopped():
                return
            with contextlib.closing(self._llama.generate(prompt[:end], temp=0.0)) as tokens:
                next(tokens)

    def _prompt(self, request: Mapping[str, Json]) -> list[int]:
        """The tokens of a request: its head, and as much of its history as there is room for.

        Raises:
            AgentFailed: not even the newest exchange fits.
        """
        room = self._settings.context_tokens - self._settings.answer_tokens - CHOICE_TOKENS
        head = self._tokens(head_of(request, self._settings.examples), begins=True)
        opening = [*self._mark(_START), *self._plain("assistant\n")]
        told = exchanges_of(request)[-(self._settings.exchanges or 0) :]
        exchanges = [self._tokens(turns) for turns in told]
        for left_out in (*range(0, len(exchanges), LEFT_OUT), len(exchanges) - 1):
            tail = [token for exchange in exchanges[max(left_out, 0) :] for token in exchange]
            prompt = head + tail + opening
            if len(prompt) <= room:
                return prompt
        raise AgentFailed(
            f"the local model cannot read that much: {len(prompt)} tokens, and there is room for"
            f" {room}; shorten it, or give LocalModel a larger context_tokens"
        )

    def _tokens(self, turns: Iterable[Turn], begins: bool = False) -> list[int]:
        """What is said in a turn cannot end it: marks are marks only where they are set here."""
        tokens: list[int] = []
        for turn in turns:
            start = self._mark(_START, begins=begins and not tokens)
            said = self._plain(f"{turn.role}\n{turn.text}")
            tokens += [*start, *said, *self._mark(_END), *self._plain("\n")]
        return tokens

    def _mark(self, mark: str, begins: bool = False) -> list[int]:
        found: list[int] = self._llama.tokenize(mark.encode(), add_bos=begins, special=True)
        return found

    def _plain(self, text: str) -> list[int]:
        said: list[int] = self._llama.tokenize(text.encode(), add_bos=False, special=False)
        return said


_START, _END = "<|im_start|>", "<|im_end|>"


class Counts:
    """Tokens of one turn."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self.output = 0

    def chunk(self, delta: Json, reason: str | None = None) -> Chunk:
        """A chunk of chat completions; the last one tells the tokens too."""
        chunk: Chunk = {"choices": [{"delta": delta, "finish_reason": reason}]}
        if reason:
            chunk["usage"] = {"prompt_tokens": self._prompt, "completion_tokens": self.output}
        return chunk


def _fragment(index: int, *, name: str | None = None, arguments: str = "") -> Json:
    return {"tool_calls": [{"index": index, "function": {"name": name, "arguments": arguments}}]}


class Stream:
    """The chunks of one turn, for the loop that began it. Closed, it is nobody's at once: the
    thread gives it up at the next token, or never begins it."""

    def __init__(
        self, thread: ThreadPoolExecutor, chunks: Callable[[Stopped], Iterable[Chunk]]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._stopped = threading.Event()
        self._chunks = chunks
        self._job = thread.submit(self._work)

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        while True:
            said = await self._said.get()
            if said is None:
                return
            if isinstance(said, BaseException):
                raise said
            yield said

    def close(self) -> None:
        """Nobody waits for more."""
        self._stopped.set()
        self._job.cancel()

    def _work(self) -> None:
        try:
            for chunk in self._chunks(self._stopped.is_set):
                self._tell(chunk)
            self._tell(None)
        except BaseException as error:
            self._tell(error)

    def _tell(self, said: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is over, and nobody listens
            self._loop.call_soon_threadsafe(self._said.put_nowait, said)
