"""The application's own code at work: the hooks and the suggest function, as the core orders.

Owns the tasks in which they are asked, and what the core is told whatever they do: every question
has an answer, unless it was called off. What is shown to them and read from them is `answers`'; in
which order they are asked is `hooks`'. Above sits `driver`.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core.parties import ThreadKey
from handspan.core.policy import Policy, StopCondition
from handspan.core.thread import Thread
from handspan_protocol.content import copy_json
from handspan_protocol.errors import RunCode, UsageError
from handspan_protocol.ids import CallId, RunId

from . import answers
from .asks import Allow, Ask, BadArguments, Call, Deny, StepOutcome
from .hooks import HookFailed, Hooks, as_it_is
from .run import shown
from .socket import where
from .steps import goes_through, invoke
from .values import RunResult, call_result, run_result
from .workers import Home, Workers

_LOG = logging.getLogger("handspan.hook")

_DENIED: Final = "the run was denied"
"""Where a before_run hook gave no reason."""

Work = Callable[[], Awaitable[i.ThreadInput]]


class Asking:
    """Asks on behalf of the threads of one driver."""

    def __init__(
        self, home: Home, workers: Workers, policy: Policy, hooks: Hooks, agents: Collection[str]
    ) -> None:
        self._home = home
        self._workers = workers
        self._policy = policy
        self._hooks = hooks
        self._agents = agents
        self._ask = workers.waterfall.ask

    def stop(self, thread: Thread, effect: e.StopHook) -> None:
        """Nobody wants the answer any more."""
        self._workers.crew.call_off(("hook", thread.space.key, effect.subject))

    # ---- questions ---------------------------------------------------------------------------

    def judge_run(self, thread: Thread, effect: e.JudgeRun) -> None:
        """`before_run`."""
        failed = _not_run(effect.run_id, "a before_run hook failed")

        async def work() -> i.RunJudged:
            asked = answers.run_request(thread.thread_id, effect.request)
            try:
                said = await self._ask("before_run", asked, as_it_is)
                if isinstance(said, Deny):
                    message = answers.reason_of(said) or _DENIED
                    return i.RunJudged(run_id=effect.run_id, code=RunCode.DENIED, message=message)
                most = self._policy.context_bytes
                request = answers.read_request(said, effect.request, self._agents, most)
            except HookFailed as failure:
                return _not_run(effect.run_id, failure.message)
            except UsageError as mistake:
                _LOG.error("%s", mistake)
                return _not_run(effect.run_id, str(mistake))
            return i.RunJudged(run_id=effect.run_id, request=request)

        self._start(thread, effect.run_id, work, failed)

    def judge_call(self, thread: Thread, effect: e.JudgeCall) -> None:
        """`before_call`; the default is what the tool itself wishes."""

        async def default(_: Call) -> Allow | Ask:
            return Ask() if effect.asks else Allow()

        async def work() -> i.CallJudged:
            run = self._workers.run_of(thread, effect.run_id, effect.depth)
            args, tool = copy_json(effect.args), shown(effect.spec.tool)
            asked = Call(effect.call_id, effect.name, args, tool, run)
            try:
                said = await self._ask("before_call", asked, default)
            except HookFailed as failure:
                return i.CallJudged(effect.call_id, "deny", failure.message)
            return answers.verdict(effect.call_id, said)

        failed = i.CallJudged(effect.call_id, "deny", "a before_call hook failed")
        self._start(thread, effect.call_id, work, failed)

    def repair(self, thread: Thread, effect: e.RepairArguments) -> None:
        """`repair_arguments`."""

        async def default(_: BadArguments) -> None:
            return None

        async def work() -> i.ArgumentsRepaired:
            run = self._workers.run_of(thread, effect.run_id, effect.depth)
            errors, tool = answers.problems(effect), shown(effect.spec.tool)
            asked = BadArguments(effect.name, effect.raw, errors, tool, run)
            said = await self._ask("repair_arguments", asked, default)
            return i.ArgumentsRepaired(effect.call_id, answers.repaired(said))

        self._start(thread, effect.call_id, work, i.ArgumentsRepaired(effect.call_id, None))

    def revise(self, thread: Thread, effect: e.ReviseResult) -> None:
        """`after_call`."""
        call_id = effect.value.call_id

        async def work() -> i.ResultRevised:
            asked = call_result(effect.value, effect.run_id)
            said = await self._ask("after_call", asked, as_it_is)
            return i.ResultRevised(call_id, answers.revised(said, effect.value))

        self._start(thread, call_id, work, i.ResultRevised(call_id, None))

    def review_step(self, thread: Thread, effect: e.ReviewStep) -> None:
        """`after_step`; what it answers is for the hooks before it only."""
        through = i.StepReviewed(effect.run_id, effect.depth)

        async def work() -> i.StepReviewed:
            run = self._workers.run_of(thread, effect.run_id, effect.depth)
            calls = [call_result(value, effect.run_id) for value in effect.calls]
            asked = StepOutcome(run, effect.depth, calls, effect.finish_reason)
            await self._ask("after_step", asked, as_it_is)
            return through

        self._start(thread, effect.run_id, work, through)

    def judge_stops(self, thread: Thread, effect: e.JudgeStops) -> None:
        """`Policy.stop_when`: one that raises, or takes too long, does not count."""

        async def work() -> i.StopsJudged:
            steps = [[call_result(value) for value in step] for step in effect.steps]
            stop = False
            for condition in self._policy.stop_when:
                stop = await self._holds(condition, steps) or stop
            return i.StopsJudged(effect.run_id, effect.depth, stop)

        failed = i.StopsJudged(effect.run_id, effect.depth, False)
        self._start(thread, effect.run_id, work, failed)

    async def _holds(self, condition: StopCondition, steps: Any) -> bool:
        async def verdict() -> bool:
            said = condition(steps)
            return bool(await said if inspect.isawaitable(said) else said)

        try:
            return bool(await self._workers.waterfall.in_time(verdict))
        except BaseException as error:
            if goes_through(error):
                raise
            _LOG.error("a stop condition failed and does not count: %s", where(error))
            return False

    def _start(
        self, thread: Thread, subject: CallId | RunId, work: Work, failed: i.ThreadInput
    ) -> None:
        """Tell the thread what `work` finds; `failed`, when it cannot be read."""
        key = thread.space.key
        self._workers.crew.start(("hook", key, subject), self._told(key, work, failed))

    async def _told(self, key: ThreadKey, work: Work, failed: i.ThreadInput) -> None:
        try:
            said = await work()
        except UsageError as mistake:
            _LOG.error("a hook's answer is passed over: %s", mistake)
            said = failed
        except Exception as error:
            _LOG.error("a hook's answer is passed over: %s", where(error))
            said = failed
        self._home.tell_thread(key, said)

    # ---- after a run -------------------------------------------------------------------------

    def run_over(self, thread: Thread, effect: e.RunOver) -> None:
        """`after_run`, and whoever waits for the run in this process; nobody else waits."""
        self._workers.forget(thread, effect.value.run_id)
        ticket = effect.asker.ticket if effect.asker.session is None else None
        if "after_run" in self._hooks.names:
            messages = thread.space.transcript.shown_to(None)
            name = ("after_run", thread.space.key, effect.value.run_id)
            self._workers.crew.start(name, self._review_run(ticket, effect.value, messages))
        elif ticket is not None:
            over = effect.value, thread.space.transcript.shown_to(None)
            self._home.waiters.settle("run", ticket, over)

    async def _review_run(
        self, ticket: str | None, value: e.RunValue, messages: Sequence[Any]
    ) -> None:
        told: RunResult | tuple[Any, Any] = (value, messages)
        try:
            told = await self._ask("after_run", run_result(value, messages), as_it_is)
        finally:
            if ticket is not None:
                self._home.waiters.settle("run", ticket, told)

    def subrun_over(self, thread: Thread, effect: e.GiveResult) -> None:
        """Wake the step that waits for this sub-run."""
        self._workers.forget(thread, effect.value.run_id)
        self._home.waiters.settle("result", effect.ticket, (effect.value, effect.messages))

    # ---- suggestions -------------------------------------------------------------------------

    def suggest(self, thread: Thread, effect: e.Suggest) -> None:
        """Ask what the user might say next; nobody waits for it."""
        key = thread.space.key
        name = ("suggest", key, effect.value.run_id)
        self._workers.crew.start(name, self._suggest(key, effect))

    async def _suggest(self, key: ThreadKey, effect: e.Suggest) -> None:
        try:
            said = await invoke(self._hooks.suggester(), run_result(effect.value, effect.messages))
            items = answers.suggestions(said)
        except UsageError as mistake:
            _LOG.error("%s", mistake)
        except BaseException as error:
            if goes_through(error):
                raise
            _LOG.error("the suggest function failed", exc_info=error)
        else:
            self._home.tell_thread(key, i.SuggestionsMade(effect.value.run_id, items))

    def stop_suggesting(self, thread: Thread, effect: e.StopSuggesting) -> None:
        """The conversation has gone on."""
        self._workers.crew.call_off(("suggest", thread.space.key, effect.run_id))


def _not_run(run_id: RunId, message: str) -> i.RunJudged:
    return i.RunJudged(run_id=run_id, code=RunCode.AGENT_ERROR, message=message)
