"""How a driver begins and how it ends: what a store has is taken up, what runs is let end.

Owns the order of both. *Source:* behaviour.md 6, "At shutdown"; P16.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.parties import Asker, PageView, ThreadKey
from handspan.core.session_keeping import KnownTools
from handspan_protocol.codec import frame_bytes
from handspan_protocol.errors import CloseCode
from handspan_protocol.frames import Goaway
from handspan_protocol.ids import SessionId

from .socket import where

if TYPE_CHECKING:
    from .driver import Driver

_LOG = logging.getLogger("handspan.store")


def restore(driver: "Driver") -> None:
    """Be what the store has: sessions wait for their pages, runs go on.

    Raises:
        Unavailable: the store cannot be had.
    """
    driver.store.open(driver.loop.call_soon_threadsafe)
    if not driver.ledger.on:
        return
    known: KnownTools = {}
    for session_id, entries in driver.store.sessions().items():
        _try(f"session {session_id}", partial(driver.restore_session, session_id, entries, known))
    unfinished = driver.store.unfinished()
    pages: dict[str, list[PageView]] = defaultdict(list)
    readers: dict[ThreadKey, set[SessionId]] = defaultdict(set)
    for session in driver.hub.sessions.values():
        pages[session.principal.id].append(session.view())
        for thread_id in session.had_open:
            readers[session.key(thread_id)].add(session.id)
    found = [key for key in unfinished if driver.hub.reach(key, create=False) is not None]
    for key in found:
        restored = i.Restored(tuple(pages[key.principal]), frozenset(readers[key]))
        driver.tell_thread(key, restored)


def _try(what: str, load: Callable[[], None]) -> None:
    """One entry that somebody else has spoiled must not keep everybody from coming back."""
    try:
        load()
    except Exception as error:
        _LOG.error("%s cannot be taken up: %s", what, where(error))


async def drain(driver: "Driver") -> None:
    """Refuse new runs and wait, at most `drain_grace`, until none is left; then say goodbye."""
    driver.is_draining = True
    for session_id in list(driver.hub.sessions):
        driver.tell_session(session_id, s.Draining())
    when = driver.clock.now() + driver.policy.drain_grace
    handle = driver.clock.call_at(when, driver.quiet.set)
    if driver.hub.active:
        driver.quiet.clear()
        await driver.quiet.wait()
    if driver.clock.now() < when:  # what the last run said is shown when it is kept
        driver.quiet.clear()
        driver.ledger.after(driver.quiet.set)
        await driver.quiet.wait()
    handle.cancel()
    goaway = frame_bytes(Goaway(reconnect_after_ms=1_000, reason="restart"))
    for socket in list(driver.outlets.sockets.values()):
        socket.writer.flush()  # the runs' last events stand before it
        socket.writer.control(goaway)
        socket.close(CloseCode.RESTART, "restart")


async def close(driver: "Driver") -> None:
    """Let nothing be at work any more; what still comes is not heard.

    What is left is aborted, unless a store keeps it: then the next process takes it up, or closes
    it.
    """
    driver.is_draining = True
    if not driver.ledger.on:
        _abort_all(driver)
    for socket in list(driver.outlets.sockets.values()):
        socket.close(CloseCode.RESTART, "restart")
    driver.stop_listening()
    driver.ledger.shut()
    await driver.workers.crew.finished("after_run")
    await driver.workers.crew.close()
    driver.waiters.cancel_all()
    await driver.store.close()


def _abort_all(driver: "Driver") -> None:
    for key in list(driver.hub.active):
        thread = driver.hub.threads[key]
        while thread.run is not None or thread.runs.queue:
            run_id = thread.run.id if thread.run else thread.runs.queue[0].run_id
            driver.tell_thread(key, i.AbortRequested(Asker(None, ""), run_id))
