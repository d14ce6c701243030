"""A model client of AutoGen's, heard: what it says is told before its agent has it.

Owns the turn: text and thoughts as they stream, tokens, a turn that was cut, instructions of the
run. Deliberately carries nothing out: it only tells the `desk` which names the model has called.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final

from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, SystemMessage

from handspan.model.think_tags import Part, ThinkTags
from handspan.model.voice import Turn

from .desk import Desk, Unlisted
from .step import Step, relayed

Messages = Sequence[LLMMessage]

_CUTS: Final = ("length", "content_filter")
"""Of `autogen_core.models.FinishReasons`: ends that are none; `run.finish_reason` has the same."""


class _Cut(Exception):  # noqa: N818 (it is the turn that was cut)
    """The model's turn is not whole; the agent must not go on with it."""


class Ear(ChatCompletionClient):
    """Another client, heard for one run."""

    def __init__(
        self,
        client: ChatCompletionClient,
        step: Step,
        desk: Desk | None = None,
        *,
        name: str | None = None,
        speaks: bool = True,
    ) -> None:
        """`name`: who speaks, where there are several. Not `speaks`: it is only counted."""
        self._client = client
        self._step = step
        self._desk = desk
        self._name = name
        self._speaks = speaks

    async def create(self, messages: Messages, **options: Any) -> CreateResult:
        work = self._client.create(self._instructed(messages), **self._shaped(options))
        turn = Turn(self._step.voice, self._name)
        try:
            result: CreateResult = await self._step.linked(work, options.get("cancellation_token"))
            self._finish(turn, result, thought=False)
        except Exception as error:
            self._step.voice.problem = error
            raise
        finally:
            turn.end()
        return result

    async def create_stream(
        self, messages: Messages, **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        stream = self._client.create_stream(self._instructed(messages), **self._shaped(options))
        turn, tags = Turn(self._step.voice, self._name), ThinkTags()
        try:
            async with aclosing(self._read(stream, options.get("cancellation_token"))) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, CreateResult):
                        self._say(turn, tags.rest())
                        self._finish(turn, chunk, thought=tags.seen)
                    else:
                        self._say(turn, tags.split(chunk))
                    yield chunk
        except Exception as error:
            self._step.voice.problem = error
            raise
        finally:
            turn.end()

    # ---- the request -------------------------------------------------------------------------

    def _shaped(self, options: dict[str, Any]) -> dict[str, Any]:
        """A request begins: nothing is expected of tools any more."""
        if self._desk is None:
            return options
        self._desk.expected = ()
        tools = [t for t in options.get("tools", ()) if not isinstance(t, Unlisted)]
        return {**options, "tools": tools}

    def _instructed(self, messages: Messages) -> Messages:
        """What the run is told stands behind the agent's own instructions."""
        if not self._step.instructions:
            return messages
        told = SystemMessage(content=self._step.instructions)
        others = (n for n, m in enumerate(messages) if not isinstance(m, SystemMessage))
        own = next(others, len(messages))
        return [*messages[:own], told, *messages[own:]]

    # ---- the turn ----------------------------------------------------------------------------

    def _read(self, stream: Any, token: CancellationToken | None) -> AsyncGenerator[Any, None]:
        """The stream, closed at once when the run or the token is cancelled, whatever its client
        makes of tokens."""
        read: asyncio.Queue[Any] = asyncio.Queue()

        async def reads() -> None:
            async with aclosing(stream):
                async for chunk in stream:
                    read.put_nowait(chunk)

        return relayed(read, self._step.linked(reads(), token))

    def _say(self, turn: Turn, parts: Iterable[Part]) -> None:
        for is_thought, text in parts:
            if self._speaks:
                (turn.think if is_thought else turn.say)(text)

    def _finish(self, turn: Turn, result: CreateResult, *, thought: bool) -> None:
        """What the end of a turn tells. A text beside calls is a thought to AutoGen: what was
        streamed already is not said again. `thought`: thoughts were streamed.

        Raises:
            _Cut: the turn was cut.
        """
        self._step.run.count_usage(
            input_tokens=result.usage.prompt_tokens, output_tokens=result.usage.completion_tokens
        )
        if not self._speaks:
            return
        if result.thought and not thought and result.thought.strip() != turn.text.strip():
            turn.think(result.thought)
        if isinstance(result.content, str):
            turn.say("" if turn.text else result.content)
        elif self._desk is not None:
            self._desk.expected = _made_whole(result.content)
        if result.finish_reason in _CUTS:
            self._step.voice.cut = result.finish_reason
            raise _Cut(result.finish_reason)

    # ---- as the client itself ----------------------------------------------------------------

    async def close(self) -> None:
        await self._client.close()

    def actual_usage(self) -> Any:
        return self._client.actual_usage()

    def total_usage(self) -> Any:
        return self._client.total_usage()

    def count_tokens(self, messages: Messages, **options: Any) -> int:
        return self._client.count_tokens(messages, **options)

    def remaining_tokens(self, messages: Messages, **options: Any) -> int:
        return self._client.remaining_tokens(messages, **options)

    @property
    def capabilities(self) -> Any:
        return self._client.capabilities

    @property
    def model_info(self) -> Any:
        return self._client.model_info

    def __getattr__(self, name: str) -> Any:
        """What a client may have beside the interface."""
        return getattr(self._client, name)


def _made_whole(calls: Sequence[FunctionCall]) -> tuple[str, ...]:
    """Their names; arguments that are empty are an empty object, which AutoGen does not know."""
    for call in calls:
        if not call.arguments.strip():
            call.arguments = "{}"
    return tuple(call.name for call in calls)
