"""Running agents: whatever kind of callable one is, its items become inputs of its thread.

Owns the iteration, its fairness (an agent that never waits still lets others have the loop), and
what an exception becomes: the model's pages are told a generic line with an id, the log has the
rest. Above sits `driver`; the agent's view of it all is `run.Run`.
"""

import asyncio
import functools
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import anyio
import anyio.to_thread

from handspan.core import inputs as i
from handspan.ports import AgentFailed
from handspan_protocol.errors import RunCode, UsageError

from .run import Run

ITEMS_IN_A_ROW: Final = 16
"""Items taken before the loop gets its turn, when the agent itself never waits."""

_LOG = logging.getLogger("handspan.agent")


async def speak(agent: Any, run: Run) -> i.StepEnded | i.StepFailed:
    """Run one step; returns how it ended, by whatever door the agent leaves (P14).

    Only a cancellation that was asked for goes through, whatever the agent makes of it (C065).
    """
    try:
        await _speak(agent, run)
        return run.ended()
    except AgentFailed as failure:
        return run.failed(failure.code, failure.message)
    except UsageError as mistake:
        _LOG.error("agent %s: %s", run.agent, mistake)
        return run.failed(RunCode.AGENT_ERROR, str(mistake))
    except BaseException as error:
        let_through(error)
        mark = secrets.token_hex(4)
        _LOG.exception("agent %s failed at depth %d (%s)", run.agent, run.depth, mark)
        return run.failed(RunCode.AGENT_ERROR, f"the agent failed ({mark} in the server's log)")


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that may block in a worker thread; left behind when the caller is cancelled.

    What it raises is carried over as a value: a future cannot hold StopIteration, and throws
    GeneratorExit into the whole task instead of to its waiter.
    """
    value, error = await anyio.to_thread.run_sync(_outcome, function, args, abandon_on_cancel=True)
    if error is not None:
        raise error
    return value


def _outcome(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Any, BaseException | None]:
    try:
        return function(*args), None
    except StopIteration as error:
        return None, RuntimeError(f"StopIteration: {error}")
    except BaseException as error:
        return None, error


def goes_through(error: BaseException) -> bool:
    """Whether this ends the task, not the step: somebody cancelled it, or the user pressed Ctrl-C.

    A CancelledError that nobody asked for is a failure like any other, and so is `sys.exit()`.
    """
    if isinstance(error, asyncio.CancelledError):
        return called_off()
    return isinstance(error, KeyboardInterrupt)


def let_through(error: BaseException) -> None:
    """Raise what ends the task and not the step; what is said at the door is nobody's failure."""
    if goes_through(error):
        raise error
    if called_off():
        raise asyncio.CancelledError from None


def called_off() -> bool:
    """Whether somebody asked for this task's end; what it raises then is nobody's failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _speak(agent: Any, run: Run) -> None:
    said = await invoke(agent, run)
    if hasattr(said, "__aiter__"):
        await _take_all(said, run)
    elif isinstance(said, Iterator):
        await _take_all(_in_thread(said), run)
    else:
        run.take(said)


async def invoke(function: Any, value: Any) -> Any:
    """Call an agent, or what is like one; a plain function lives in a worker thread, since it may
    block."""
    if is_async(function):
        said = function(value)
    else:
        said = await in_thread(function, value)
    return await said if isinstance(said, Awaitable) else said


async def _take_all(items: AsyncIterator[Any], run: Run) -> None:
    try:
        count = 0
        async for item in items:
            run.take(item)
            count += 1
            if count % ITEMS_IN_A_ROW == 0:
                await asyncio.sleep(0)
    finally:
        aclose = getattr(items, "aclose", None)
        if aclose is not None:
            await aclose()


async def _in_thread(items: Iterator[Any]) -> AsyncIterator[Any]:
    end = object()
    while True:
        item = await in_thread(next, items, end)
        if item is end:
            return
        yield item


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it cannot block: an async function or generator, bound, partial or object."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(type(function), "__call__", None))  # noqa: B004 (its code, not whether)
    return any(inspect.iscoroutinefunction(c) or inspect.isasyncgenfunction(c) for c in candidates)
