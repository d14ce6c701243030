"""What a bridge still holds of work that should be over.

Owns the list of places to look in; a new map in the shell or the core that outlives a call or a run
has its line here. Deliberately changes nothing. Above sits `world`.
"""

from collections.abc import Iterator

from handspan.shell.driver import Driver
from handspan.shell.workers import Workers

__all__ = ["of_sessions", "of_work"]


def of_work(driver: Driver) -> Iterator[str]:
    """What must be gone as soon as no run is under way, whoever is still connected."""
    for key in sorted(driver.hub.active):
        yield f"thread {key.thread_id} counts as active"
    for key, thread in driver.hub.threads.items():
        if thread.run is not None:
            yield f"run {thread.run.id} on thread {key.thread_id} is under way"
        for request in thread.runs.queue:
            yield f"run {request.run_id} on thread {key.thread_id} waits"
        for call_id in thread.desk.open_calls:
            yield f"call {call_id} on thread {key.thread_id} is open"
        if thread.next_deadline() is not None:
            yield f"thread {key.thread_id} waits for time"
    for session in driver.hub.sessions.values():
        for call_id in session.holding.calls:
            yield f"session {session.id} holds call {call_id}"
        if session.running or session.queued:
            yield f"session {session.id} counts a run"
    if len(driver.waiters):
        yield f"{len(driver.waiters)} callers in this process wait"
    yield from _of_workers(driver.workers)


def _of_workers(workers: Workers) -> Iterator[str]:
    if len(workers.crew):
        yield f"{len(workers.crew)} tasks of agents, tools, hooks or conditions are at work"
    if workers._runs:
        yield f"steps are at work: {sorted(workers._runs)}"
    if workers._lent:
        yield f"server tools are at work: {sorted(workers._lent)}"
    if workers._newest:
        yield f"steps of runs are remembered: {sorted(workers._newest)}"


def of_sessions(driver: Driver) -> Iterator[str]:
    """What must be gone when the bridge has closed."""
    yield from of_work(driver)
    for name in driver.timers.names:
        yield f"a deadline of {name} is planned"
    if driver._queue:
        yield f"{len(driver._queue)} inputs were never handled"
