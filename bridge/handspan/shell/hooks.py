"""Hooks: the application's own code, asked in turn, each deciding whether the next one is.

Owns who registered for what, and the waterfall: `hook(value, next)` in order of registration,
`await next(value)` goes on, and behind the last one stands the default. A hook is bad in three
ways, all the same: it raises, it answers what is no answer, it takes too long. Where the answer
matters (`must_answer`) that fails what was asked about, in a line that leaks nothing; elsewhere the
hook is passed over, as if it were not there. Deliberately does not know what is asked, nor what
becomes of the answers: that is `asking`.
*Source:* api.md, "Hooks"; behaviour.md 1 (P14), 6 (`hook_timeout`).
"""

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from handspan.ports import AgentFailed, Clock
from handspan_protocol.errors import RunCode, UsageError

from .asks import (
    Allow,
    Ask,
    BadArguments,
    Call,
    Deny,
    RunRequest,
    Step,
    StepOutcome,
    fresh,
)
from .crew import Crew
from .steps import called_off, goes_through, let_through
from .values import CallResult, RunResult

Next = Callable[[Any], Awaitable[Any]]
Hook = Callable[[Any, Next], Any]

SUGGEST: Final = "suggest"
"""What `Hooks.names` calls the function of `bridge.suggest`; no hook, so no waterfall."""

_LOG = logging.getLogger("handspan.hook")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One name: what its hooks get and pass on, what they may answer, what a bad one does."""

    value: type
    answers: tuple[type, ...]
    must_answer: bool = False
    in_time: bool = True

    def check(self, name: str, given: Any, kinds: tuple[type, ...], what: str) -> None:
        """Raises: UsageError: it is none of these."""
        if not isinstance(given, kinds):
            known = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
            raise UsageError(f"{name} {what} {type(given).__name__}, not {known}")


_KINDS: Final[Mapping[str, _Kind]] = {
    "before_run": _Kind(RunRequest, (RunRequest, Deny), must_answer=True),
    "before_step": _Kind(Step, (Step,), must_answer=True),
    "model_request": _Kind(Mapping, (object,), must_answer=True, in_time=False),
    "before_call": _Kind(Call, (Allow, Deny, Ask), must_answer=True),
    "repair_arguments": _Kind(BadArguments, (Mapping, type(None))),
    "after_call": _Kind(CallResult, (CallResult,)),
    "after_step": _Kind(StepOutcome, (StepOutcome,)),
    "after_run": _Kind(RunResult, (RunResult,)),
}

NAMES: Final = tuple(_KINDS)
"""Every hook there is."""


class HookFailed(AgentFailed):
    """A hook that must answer did not; the message may be shown, the log has the rest."""

    def __init__(self, message: str) -> None:
        super().__init__(message, RunCode.AGENT_ERROR)


class OutOfTime(Exception):  # noqa: N818 (what happened)
    """The hooks had `hook_timeout` and did not answer."""


class Hooks:
    """Who registered for what."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Any]] = {}

    @property
    def names(self) -> Collection[str]:
        """The names that somebody registered for, SUGGEST among them; live."""
        return self._hooks.keys()

    def add(self, name: str, hook: Hook) -> None:
        """Ask `hook` after those that are there.

        Raises:
            UsageError: there is no hook of this name, or this cannot be called.
        """
        self.check(name)
        if not callable(hook):
            raise UsageError(f"a {name} hook is called, and {type(hook).__name__} cannot be")
        self._hooks.setdefault(name, []).append(hook)

    def check(self, name: str) -> None:
        """Raises: UsageError: there is no hook of this name."""
        if not isinstance(name, str) or name not in _KINDS:
            raise UsageError(f"there is no hook {name!r}; there are: {', '.join(NAMES)}")

    def add_suggest(self, function: Callable[..., Any]) -> None:
        """Raises: UsageError: it cannot be called, or there is one already."""
        if not callable(function):
            raise UsageError(f"suggest wants a function, not {type(function).__name__}")
        if SUGGEST in self._hooks:
            raise UsageError("there is a suggest function already; there can be one")
        self._hooks[SUGGEST] = [function]

    def suggester(self) -> Callable[..., Any] | None:
        """The function of `bridge.suggest`."""
        return next(iter(self.of(SUGGEST)), None)

    def of(self, name: str) -> tuple[Any, ...]:
        """In order of registration."""
        return tuple(self._hooks.get(name, ()))


class Waterfall:
    """Asks the hooks of one bridge on one loop."""

    def __init__(self, hooks: Hooks, crew: Crew, clock: Clock, timeout: float) -> None:
        self._hooks = hooks
        self._crew = crew
        self._clock = clock
        self._timeout = timeout

    def wanted(self, name: str) -> bool:
        """Whether anybody registered for it."""
        return name in self._hooks.names

    async def ask(self, name: str, value: Any, default: Next) -> Any:
        """The answer of the hooks to `value`; behind the last of them stands `default`.

        Only a cancellation that was asked for passes through, and what `default` raises, where
        no hook stops it.

        Raises:
            HookFailed: hooks of this name must answer, and did not.
        """
        hooks, question = self._hooks.of(name), _Question(name, _KINDS[name], default)
        if not hooks:
            return await default(value)
        kept = value if question.kind.must_answer else fresh(value)
        try:
            if question.kind.in_time:
                return await self.in_time(lambda: question.fall(hooks, value))
            return await question.fall(hooks, value)
        except BaseException as error:
            if error is question.raised:
                raise
            let_through(error)
            mark = _log(name, error)
            if question.kind.must_answer:
                raise HookFailed(f"a {name} hook failed ({mark} in the server's log)") from None
        return await default(kept)

    async def in_time(self, fall: Callable[[], Awaitable[Any]]) -> Any:
        """The outcome of `fall`, in a task of its own: a hook that does not let itself be cancelled
        holds up nobody."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        task = ("asked", outcome)
        self._crew.start(task, _settle(outcome, fall))
        timer = self._clock.call_at(self._clock.now() + self._timeout, lambda: _too_late(outcome))
        try:
            answer, error = await outcome
        finally:
            timer.cancel()
            self._crew.call_off(task)
        if error is not None:
            raise error
        return answer


class _Question:
    """One value on its way through the hooks of one name."""

    def __init__(self, name: str, kind: _Kind, default: Next) -> None:
        self.name = name
        self.kind = kind
        self.raised: BaseException | None = None
        """What the default raised last: no hook's fault."""
        self._default = default

    async def fall(self, hooks: tuple[Hook, ...], value: Any) -> Any:
        """The answer of the first of these hooks, who may ask the others."""
        if not hooks:
            return await self._at_the_end(value)
        answers: list[Any] = []

        async def next_(passed_on: Any) -> Any:
            self.kind.check(self.name, passed_on, (self.kind.value,), "passed on")
            answers.append(await self.fall(hooks[1:], passed_on))
            return answers[-1]

        if self.kind.must_answer:
            return await self._answer(hooks[0], value, next_)
        kept = fresh(value)
        try:
            return await self._answer(hooks[0], value, next_)
        except BaseException as error:
            if called_off() or goes_through(error):
                raise
            _log(self.name, error)
        return answers[-1] if answers else await self.fall(hooks[1:], kept)

    async def _answer(self, hook: Hook, value: Any, next_: Next) -> Any:
        answer = hook(value, next_)
        if inspect.isawaitable(answer):
            answer = await answer
        kinds = self.kind.answers
        self.kind.check(self.name, answer, kinds, "answered")
        if answer is None and type(None) not in kinds:
            raise UsageError(f"{self.name} answered None; what `next` gives has to be returned")
        return answer

    async def _at_the_end(self, value: Any) -> Any:
        try:
            return await self._default(value)
        except BaseException as error:
            self.raised = error
            raise


async def as_it_is(value: Any) -> Any:
    """The default of what is only revised."""
    return value


async def _settle(outcome: "asyncio.Future[Any]", work: Callable[[], Awaitable[Any]]) -> None:
    """Exceptions go as values: a future cannot hold StopIteration, nor a cancellation."""
    answer, raised = None, None
    try:
        answer = await work()
    except BaseException as error:
        if goes_through(error):
            raise
        raised = error
    if not outcome.done():
        outcome.set_result((answer, raised))


def _too_late(outcome: "asyncio.Future[Any]") -> None:
    if not outcome.done():
        outcome.set_result((None, OutOfTime("no answer within Policy.hook_timeout")))


def _log(name: str, error: BaseException) -> str:
    """Tell the log, and give the mark that stands there."""
    mark = secrets.token_hex(4)
    if isinstance(error, UsageError | OutOfTime):
        _LOG.error("hook %s: %s (%s)", name, error, mark)
    else:
        _LOG.error("hook %s failed (%s)", name, mark, exc_info=error)
    return mark
