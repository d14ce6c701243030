"""Whatever happens to a tab, at whatever moment of a call: the run ends, the call comes out as
behaviour 3 says, and what must not run twice has not (P1, P2, P9).

A cell is a fault, a moment and a tool; the tables say how the call comes out and how often a
handler was started, in all documents together. The short form takes an eighth of the cells, other
ones for each fault.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.browser.faults import MOMENTS, Moment, Troubles, moment
from tests.browser.patience import until
from tests.conftest import FULL_FORM

from handspan import Policy

pytestmark = pytest.mark.browser

Outcome = tuple[str, int]
"""The code of the call, "ok" when it has none; how many handlers were started."""

OK: Outcome = ("ok", 1)
AGAIN: Outcome = ("ok", 2)
UNKNOWN: Outcome = ("outcome_unknown", 1)
NEVER: Outcome = ("asks for no leave", 0)
"""No cell: there is no such moment."""

TOOLS = ("once", "repeat")
"""Asks for leave, and starts once; idempotent: starts at once, and again if need be."""

LIVES: dict[str, tuple[Outcome, Outcome]] = {
    **dict.fromkeys(MOMENTS, (OK, OK)),
    "dispatched, no leave": (OK, NEVER),
}
"""The document lives on, with its session: nothing is lost and nothing runs again."""

RELOADED: dict[str, tuple[Outcome, Outcome]] = {
    "waiting_approval": (OK, OK),
    "queued behind another": (OK, OK),
    "queued, page away": (OK, OK),
    "dispatched, not received": (OK, OK),
    "dispatched, no leave": (OK, NEVER),
    "started": (UNKNOWN, AGAIN),
    "done, result not taken": (OK, OK),
    "settled": (OK, OK),
}
"""Another document in the session: it gets what had not started, or may start again, and it has the
results that its predecessor could not tell."""

CLOSED: dict[str, tuple[Outcome, Outcome]] = {
    "waiting_approval": (("approval_expired", 0), ("approval_expired", 0)),
    "queued behind another": (("no_client", 0), ("no_client", 0)),
    "queued, page away": (("no_client", 0), ("no_client", 0)),
    "dispatched, not received": (("page_gone", 0), ("page_gone", 0)),
    "dispatched, no leave": (("page_gone", 0), NEVER),
    "started": (UNKNOWN, ("page_gone", 1)),
    "done, result not taken": (UNKNOWN, ("page_gone", 1)),
    "settled": (OK, OK),
}
"""Nobody is there any more, and nobody comes."""


# ---- the faults ------------------------------------------------------------------------------


def reload(it: Moment) -> None:
    it.reload()
    it.stage.call(it.stage.proxy.refuse, False)
    until(it.page, "the session goes on", "welcomes[0]?.resumed && hellos.at(-1).reload")


def reload_half_open(it: Moment) -> None:
    """The server still believes in the old document's socket, and would wait for it."""
    it.stage.call(it.stage.proxy.stall)
    reload(it)


def duplicate(it: Moment) -> None:
    """The copy asks for the session; while its owner has a line it is refused."""
    other = it.duplicate()
    it.stage.call(it.stage.proxy.refuse, False)
    for page in it.pages:
        until(page, "both are connected", "bridge.status === 'open'")
    asked, told = other.evaluate("() => [hellos[0], welcomes[0]]")
    assert asked["session"], "the storage was copied"
    assert asked["reload"] is False, "and has no mark"
    if it.when != "queued, page away":
        assert told["reason"] == "session_in_use"


def close(it: Moment) -> None:
    it.close()


def go_elsewhere(it: Moment) -> None:
    it.page.goto("about:blank")
    it.pages.clear()


def vanish(it: Moment) -> None:
    """As a machine that loses its power: the server hears no close, and has to notice by itself."""
    it.stage.call(it.stage.proxy.stall)
    it.close()


def cut(it: Moment) -> None:
    it.lose()
    it.stage.call(it.stage.proxy.cut)


def offline(it: Moment) -> None:
    it.lose()
    it.stage.call(it.stage.proxy.refuse)
    it.here.context.set_offline(True)
    it.stage.call(it.stage.proxy.cut)
    until(it.page, "the line is down", "bridge.status === 'reconnecting'")
    it.here.context.set_offline(False)


def half_open(it: Moment) -> None:
    """Nothing comes or goes any more, and nobody says so: the page has to notice by itself."""
    it.lose()
    before = it.stage.proxy.opened
    it.stage.call(it.stage.proxy.stall)
    it.stage.call(it.stage.proxy.refuse, False)
    until(it.page, "the page has another socket", "welcomes.length > 1")
    assert it.stage.proxy.opened > before


def restart(it: Moment) -> None:
    """Another server, which has what the one that died had kept."""
    it.lose()
    it.here.restart()


def restart_reload(it: Moment) -> None:
    it.here.restart()
    reload(it)


FAULTS: dict[str, tuple[Callable[[Moment], Any], dict[str, tuple[Outcome, Outcome]]]] = {
    "reload": (reload, RELOADED),
    "reload, line half-open": (reload_half_open, RELOADED),
    "duplicate": (duplicate, LIVES),
    "close": (close, CLOSED),
    "go elsewhere": (go_elsewhere, CLOSED),
    "vanish": (vanish, CLOSED),
    "cut": (cut, LIVES),
    "offline": (offline, LIVES),
    "half-open": (half_open, LIVES),
    "restart": (restart, LIVES),
    "restart and reload": (restart_reload, RELOADED),
}

LONG = Policy()
SHORT = Policy(page_grace=1, approval_timeout=1.5)

POLICIES = {
    "close": SHORT,
    "go elsewhere": SHORT,
    "vanish": Policy(page_grace=1, approval_timeout=1.5, heartbeat=0.3),
    "half-open": Policy(heartbeat=0.4),
}
"""Where nothing is waited for, the times are long: then a test that had to wait would fail."""


# ---- the cells -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def troubles(browser: Any) -> Iterator[Callable[[str], Troubles]]:
    """The server for a fault; one for all with the same policy."""
    with ExitStack() as stack:
        made: dict[Policy, Troubles] = {}

        def of(fault: str) -> Troubles:
            policy = POLICIES.get(fault, LONG)
            if policy not in made:
                made[policy] = Troubles(stack, browser, policy)
            return made[policy]

        yield of


def cells() -> Iterator[Any]:
    for f, (fault, (_, table)) in enumerate(FAULTS.items()):
        for m, when in enumerate(MOMENTS):
            for t, tool in enumerate(TOOLS):
                there_is = table[when][t] != NEVER
                if there_is and (FULL_FORM or (f + m + 4 * t) % 8 == 0):
                    yield pytest.param(fault, when, tool, id=f"{fault}-{when}-{tool}")


@pytest.mark.parametrize(("fault", "when", "tool"), tuple(cells()))
def test_p2_a_run_ends_well_whatever_happens_to_its_tab(
    troubles: Callable[[str], Troubles], fault: str, when: str, tool: str
) -> None:
    happen, table = FAULTS[fault]
    thread = re.sub("[^a-z]+", "-", f"{fault}-{when}-{tool}")
    with moment(troubles(fault), thread, when, tool) as it:
        happen(it)
        it.go_on()
        assert it.end() == table[when][TOOLS.index(tool)]
