"""The page's tools as a Workbench of AutoGen's, and what comes of any tool's work.

Owns that a call always has a result: an exception that left a tool would hang its agent. Names are
spelled as AutoGen's clients take them, and read back. Deliberately does not check arguments: the
bridge does.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import TextResultContent, ToolResult, ToolSchema, Workbench

from handspan.model.history import text_of
from handspan.model.names import Names
from handspan_protocol.codec import encode
from handspan_protocol.content import error_text

from .step import Step


class PageTools(Workbench):
    """The page's tools, as they are now, and the bridge's; for one run, and made by AutoGen.

    A result is text: AutoGen has no other for a model, so an image is described. A call that failed
    is a result too, `is_error`, with the text that says so.
    """

    component_provider_override = "handspan.agents.autogen.PageTools"

    def __init__(self, step: Any) -> None:
        self._step: Step = step

    async def list_tools(self) -> list[ToolSchema]:
        """With the schemas that the page registered."""
        tools = self._step.run.current_tools()
        names = self._step.names = Names(tool.name for tool in tools)
        return [
            ToolSchema(
                name=names.theirs(tool.name),
                description=tool.description,
                parameters=tool.parameters,
            )
            for tool in tools
        ]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Have the run carry out the call. Never raises for one that fails or is cancelled."""
        return await outcome(self._step, name, self._called(name, arguments), cancellation_token)

    async def _called(self, name: str, arguments: Any) -> ToolResult:
        if not isinstance(arguments, Mapping | None):
            arguments = encode(arguments).decode()  # the bridge says what is wrong with it
        answer = await self._step.voice.call(self._step.names.own(name), arguments)
        return result(name, text_of(answer.parts), is_error=answer.failed)

    async def start(self) -> None:
        """There is nothing to start, nor to stop, and nothing is kept."""

    async def stop(self) -> None: ...

    async def reset(self) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


def result(name: str, text: str, *, is_error: bool) -> ToolResult:
    """A result that is text."""
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=is_error)


async def outcome(
    step: Step,
    name: str,
    work: Coroutine[Any, Any, ToolResult],
    token: CancellationToken | None,
) -> ToolResult:
    """What comes of a tool's work, by whatever door it leaves; only what cancels the caller goes
    through. The work ends with the run, or with this token."""
    try:
        done: ToolResult = await step.linked(_without_exit(work), token)
        return done
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        told = error_text("aborted", "the call was cancelled")
    except Exception as error:
        told = error_text("handler_error", f"{type(error).__name__}: {error}")
    return result(name, told, is_error=True)


async def _without_exit(work: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """The work; a tool that leaves by `sys.exit` or the like has failed, and the loop lives."""
    try:
        return await work
    except (Exception, KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise RuntimeError(f"the tool left by {type(error).__name__}") from error
