"""A thread as it was before the process began anew, and how its runs go on from there.

Owns both halves: `load` makes the thread's parts from entries, and changes nothing else; `take_up`
moves what was under way, once it is known which pages may come back. What is kept is the last
settled step and the calls behind it (`keeping`), so:

| what was under way | goes on |
|---|---|
| a hook on the run's begin | is asked again |
| a step that was being said, without calls | is asked again; what it had said leaves the history |
| one that had made calls from inside | ends there: calls that are out are waited for, the next \
step sees what they came to |
| one that had begun sub-runs | nobody waits for them any more: the run is closed |
| a call that waits for a hook | is judged again |
| a call at a page | stays there: the page comes back with its journal, or counts as gone |
| a call of a server tool | again where it may be repeated, else `outcome_unknown` |

Every clock begins anew. *Source:* behaviour.md 3; issue 5 for the steps.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from handspan_protocol.errors import CallCode, RunCode
from handspan_protocol.ids import CallId, RunId, SessionId

from . import inputs as i
from .arguments import Compile, ToolSpec
from .call import Call, CallEvent, CallState, refusal
from .entries import Entry, read
from .homes import Homes
from .images import (
    is_whole,
    read_call,
    read_context,
    read_page_tool,
    read_request,
    read_run,
)
from .reports import show_results
from .run import Run, Step
from .runs import Runs
from .session_inputs import PageExpected
from .space import Space

Json = Any

_RESTARTED: Final = "the server was restarted before the run was over"
_LOST: Final = (
    "the server was restarted while the tool was at work; it may or may not have been carried out,"
    " so check before calling it again"
)
_CUT: Final = "the server was restarted before this call was carried out; it was not"
_SUB_LOST: Final = "the server was restarted while this call was under way"

RESTARTS_MAX: Final = 3
"""Times that one step is at work when its process ends; it must not end processes for ever."""


# ---- from entries ----------------------------------------------------------------------------


def load(space: Space, runs: Runs, entries: Iterable[Entry], compile_schema: Compile) -> None:
    """Make the thread what it was; nothing moves yet."""
    parts: dict[str, dict[str, Json]] = defaultdict(dict)
    for entry in entries:
        parts[entry.part][entry.name] = read(entry.body)
    _load_history(space, runs, parts)
    calls = runs.desk.calls
    for name, image in parts["call"].items():
        call_id = CallId(name)
        calls[call_id] = read_call(call_id, image, lambda tool: _find(tool, space, compile_schema))
        space.ids.adopt_call(call_id)
    _load_runs(runs, parts["run"], parts["request"])


def _load_history(space: Space, runs: Runs, parts: Mapping[str, Mapping[str, Json]]) -> None:
    space.transcript.restore(m for m in parts["message"].values() if m is not None)
    if "" in parts["state"]:
        space.transcript.state = parts["state"][""]
    about = parts["about"].get("", {})
    runs.endings.last_run = read(about.get("lastRun", "null"))
    runs.desk.approvals.allowed.update(about.get("allowed", ()))
    space.state_changed_between = about.get("stateChanged", False)
    runs.live.used.update(RunId(name) for name in parts["used"])


def _find(tool: Json, space: Space, compile_schema: Compile) -> ToolSpec | None:
    if "server" in tool:
        spec = space.server.get(tool["server"])
        return None if spec is None else replace(spec, digest=tool["digest"])
    return read_page_tool(tool, compile_schema)


def _load_runs(
    runs: Runs, images: Mapping[str, Mapping[str, Json]], requests: Mapping[str, Json]
) -> None:
    for name, image in sorted(images.items(), key=lambda item: item[1]["place"]):
        asked = requests[name]
        request = read_request(RunId(name), asked)
        if "depth" in image:
            run = read_run(request, image, runs.desk.calls)
            run.unheard = not is_whole(asked)
            run.context_began = read_context(asked["began"])
            _load_run(runs, run)
        else:
            runs.queue.append(request)
            if not is_whole(asked):
                runs.unheard.add(RunId(name))


def _load_run(runs: Runs, run: Run) -> None:
    """The run under way, as it was; of its calls only those of its step may be open."""
    if isinstance(run.request, i.RunRequested):
        run.context, run.forwarded_props = run.request.context, run.request.forwarded_props
    run.said = _said(runs.space, run)
    run.said_chars = sum(map(len, run.said))
    for call in run.step.calls:
        call.result_shown = runs.space.transcript.has_result(call.id)
    runs.desk.open_calls.update({call.id: call for call in run.step.calls if call.open})
    runs.live.add(run)


def _said(space: Space, run: Run) -> list[str]:
    """The texts of the agent behind the run's begin."""
    messages = space.transcript.messages
    ids = [message["id"] for message in messages]
    first = ids.index(run.since) + 1 if run.since in ids else 0
    own = [m for m in messages[first:] if m["role"] == "assistant" and "subagentRunId" not in m]
    return [m["content"] for m in own if isinstance(m.get("content"), str)]


# ---- going on --------------------------------------------------------------------------------


def take_up(space: Space, runs: Runs, homes: Homes, event: i.Restored) -> None:
    """Go on with what was under way; pages that may come back are on the thread again."""
    wanted = _sessions(runs) | event.readers
    space.readers |= event.readers
    for page in event.pages:
        if page.session in wanted:
            space.pages[page.session] = page
            space.tell(page.session, PageExpected(space.key))
    _tell_askers(space, runs)
    run = runs.run
    if run is None:
        runs.next_request()
        return
    run.restarts += _may_be_to_blame(run)
    space.record("run_resumed", runId=run.id)
    _end_calls_of_subruns(space, runs, run)
    for call in [call for call in run.step.calls if call.open]:
        _take_up_call(space, runs, homes, call)
    for call in [call for call in run.step.calls if not call.open and not _was_told(call)]:
        runs.desk.show(call)
    _take_up_run(space, runs, run)


def _may_be_to_blame(run: Run) -> bool:
    """Whether something of the run was at work in the process that ended; a page's work is not."""
    at_work = any(call.out and call.holder is None for call in run.step.calls)
    return at_work or not run.step.ended


def _sessions(runs: Runs) -> set[SessionId | None]:
    """Those that started what is under way or waits, or hold a call."""
    requests = [*([runs.run.request] if runs.run else []), *runs.queue]
    holders = {call.holder for call in runs.desk.open_calls.values()}
    return holders | {request.asker.session for request in requests}


def _was_told(call: Call) -> bool:
    """Whether everybody was told that it has settled; a hook may have been at work on it."""
    return call.last is not None and call.last["state"] == "settled"


def _tell_askers(space: Space, runs: Runs) -> None:
    """The sessions that asked count their runs again."""
    if runs.run is not None:
        runs.count(runs.run.request, running=1, queued=0)
    for request in runs.queue:
        runs.count(request, running=0, queued=1)


def _end_calls_of_subruns(space: Space, runs: Runs, run: Run) -> None:
    """What sub-runs had called is not waited for; each call still has its result (P1)."""
    of_subruns = [call for call in runs.desk.calls_of(run) if call.owner is not None]
    for call in of_subruns:
        if call.open:
            call.settle(refusal(CallEvent.ABORTED, CallCode.ABORTED, _SUB_LOST))
            call.approval = call.hook = None
        call.result_shown = space.transcript.has_result(call.id)
        show_results(space, [call])


def _take_up_call(space: Space, runs: Runs, homes: Homes, call: Call) -> None:
    """Its clock begins anew; where it was out it stays, if there is anybody to come back."""
    policy = space.policy
    if call.approval is not None:
        expires_at = space.now + policy.approval_timeout
        call.approval = replace(call.approval, expires_at=expires_at)
    if call.state in (CallState.QUEUED, CallState.WAITING_APPROVAL) and _is_another(space, call):
        homes.without_tool(call)
        return
    away = call.holder is not None and (call.holder not in space.pages or call.spec is None)
    if away or call.homeless_until is not None:
        homes.left_behind(call)
    elif call.out and call.holder is None:
        _repeat_or_lose(space, runs, homes, call)
    elif call.out and call.spec is not None:
        call.deadline = space.now + policy.timeout_of(call.spec.tool.timeout_ms)
        runs.desk.tell_holder(call)


def _is_another(space: Space, call: Call) -> bool:
    """Whether the server's tool that this call is for is gone, or another one than it was."""
    if call.spec is None:
        return True
    now = space.server.get(call.spec.name)
    return now is not None and call.holder is None and now.digest != call.spec.digest


def _repeat_or_lose(space: Space, runs: Runs, homes: Homes, call: Call) -> None:
    """A server tool was at work in the process that is no more."""
    if call.repeatable:
        call.move(CallEvent.LOST)
        call.deadline = None
        if _is_another(space, call):
            homes.without_tool(call)
    else:
        _lose_for_good(runs, call)


def _lose_for_good(runs: Runs, call: Call) -> None:
    """It had started, and must not start twice: nobody can say what came of it."""
    lost = refusal(CallEvent.LOST_FOR_GOOD, CallCode.OUTCOME_UNKNOWN, _LOST)
    runs.desk.settle(call, lost)


def _take_up_run(space: Space, runs: Runs, run: Run) -> None:
    step = run.step
    hopeless = step.delegated or run.unheard or run.restarts > RESTARTS_MAX
    if hopeless or space.policy.on_restart == "close":
        _close(runs, run)
    elif not run.announced:
        runs.begin_again(run)
    elif not step.ended and not step.calls:
        space.transcript.cut_behind(step.base)
        run.step = Step(depth=step.depth)
        runs.start_step(run)
    else:
        _take_up_step(runs, run)


def _close(runs: Runs, run: Run) -> None:
    """It goes no further; of what had started nobody can say whether it was carried out."""
    for call in run.step.calls:
        if call.state is CallState.STARTED and not call.repeatable:
            _lose_for_good(runs, call)
    runs.endings.fail(run, RunCode.INTERNAL, _RESTARTED)


def _take_up_step(runs: Runs, run: Run) -> None:
    """Its calls are seen through; one that was not complete, or not carried out, is not."""
    step = run.step
    whole, step.ended = step.ended, True
    runs.hear_step(run)
    for call in [call for call in step.calls if call.open]:
        if not whole and not call.out:
            runs.desk.cut(call, _CUT)
        elif call.state is CallState.PROPOSED:
            runs.proposals.propose(call)
