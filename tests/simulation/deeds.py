"""What users do and what befalls their tabs, lines and server: one function a name of `plan`.

Each finds somebody it can be done to, by its own dice; nobody: it is not done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.history import Record
from tests.simulation.kit import CALLABLE, CHANGED, TOOLS
from tests.simulation.page import Document
from tests.simulation.plan import Deed
from tests.simulation.tab import Tab

if TYPE_CHECKING:
    from .lines import Line
    from .world import World

Json = Any


@dataclass(frozen=True, slots=True)
class Doing:
    """One deed under way."""

    world: "World"
    rng: Random

    def later(self, most: float, work: Callable[[], Any]) -> None:
        self.world.later(self.rng.random() * most, work)

    def tab(self) -> Tab | None:
        tabs = [tab for tab in self.world.tabs if tab.document is not None]
        return self.rng.choice(tabs) if tabs else None

    def page(self) -> Document | None:
        """A document whose scripts run."""
        pages = [page for page in self.world.pages() if not page.tab.frozen]
        return self.rng.choice(pages) if pages else None

    def line(self) -> "Line | None":
        lines = self.world.network.open_lines()
        return self.rng.choice(lines) if lines else None

    def thread(self, page: Document) -> str:
        return self.rng.choice(list(page.threads) or ["t1"])


def do(world: "World", deed: Deed) -> None:
    """Carry it out, and note it."""
    kind = "act" if deed.name in _ACTS else "fault"
    world.history.note(kind, deed.name, None)
    _DEEDS[deed.name](Doing(world, Random(deed.dice)))


# ---- users -------------------------------------------------------------------------------------


def _run(doing: Doing) -> None:
    page = doing.page()
    if page is None:
        return
    rng, world = doing.rng, doing.world
    world.runs += 1
    frame: Json = {"type": "run.start", "threadId": doing.thread(page)}
    if rng.random() < 0.8:
        frame["runId"] = f"r{world.runs}"
    if rng.random() < 0.9:
        frame["message"] = f"question {world.runs}"
    if rng.random() < 0.5:
        frame["ifBusy"] = rng.choice(("queue", "replace"))
    page.command(frame)


def _run_again(doing: Doing) -> None:
    """A run id that was used before, or may have been."""
    page = doing.page()
    if page is not None:
        run_id = doing.rng.choice([*page.runs, "r1"])
        thread = doing.thread(page)
        page.command({"type": "run.start", "threadId": thread, "runId": run_id, "message": "x"})


def _invoke(doing: Doing) -> None:
    page = doing.page()
    if page is None:
        return
    rng, world = doing.rng, doing.world
    world.runs += 1
    frame = {
        "type": "tool.invoke",
        "threadId": doing.thread(page),
        "runId": f"r{world.runs}",
        "name": rng.choice(CALLABLE),
        "args": {"n": rng.randrange(5)},
        "followUp": rng.choice((False, True, "and now?")),
    }
    if rng.random() < 0.4:
        frame["ifBusy"] = "queue"
    page.command(frame)


def _abort(doing: Doing) -> None:
    page = doing.page()
    if page is not None and page.runs:
        page.command({"type": "run.abort", "runId": doing.rng.choice(page.runs[-2:])})


def _abort_thread(doing: Doing) -> None:
    page = doing.page()
    if page is not None:
        page.command({"type": "run.abort", "threadId": doing.thread(page)})


def _state(doing: Doing) -> None:
    page = doing.page()
    if page is not None:
        doing.world.states += 1
        patch = [{"op": "add", "path": f"/page-{doing.world.states}", "value": page.name}]
        page.command({"type": "state.update", "threadId": doing.thread(page), "patch": patch})


def _retool(doing: Doing) -> None:
    """The page's tools change."""
    page = doing.page()
    if page is None:
        return
    name = doing.rng.choice(list(TOOLS))
    tools = page.tab.tools
    if name not in tools:
        tools[name] = TOOLS[name]
    elif doing.rng.random() < 0.5 and tools[name] is TOOLS[name]:
        tools[name] = CHANGED[name]
    else:
        del tools[name]
    page.flush_tools()


def _reopen(doing: Doing) -> None:
    """Opened anew, without its cursor: a snapshot."""
    page = doing.page()
    if page is not None:
        thread_id = doing.rng.choice(("t1", "t1", "t2"))
        page.open_thread(thread_id)


def _leave_thread(doing: Doing) -> None:
    page = doing.page()
    if page is not None and page.threads:
        thread_id = doing.thread(page)
        page.close_thread(thread_id)


def _look_away(doing: Doing) -> None:
    page = doing.page()
    if page is not None:
        page.look(visible=doing.rng.random() < 0.3)


def _list(doing: Doing) -> None:
    page = doing.page()
    if page is not None:
        page.command({"type": "thread.list"})


def _lie(doing: Doing) -> None:
    """A page says of a call what is not so: of another's, of another attempt, a second time.

    Now, or soon after the next call was sent to somebody.
    """
    if doing.rng.random() < 0.5:
        _lie_now(doing)
    else:
        delay = doing.rng.random() * 8 * doing.world.plan.latency
        _wait_for(doing, "heard", _MOMENTS[0][1], delay, lambda _: _lie_now(doing))


def _lie_now(doing: Doing) -> None:
    page = doing.page()
    if page is not None and page.seen_calls:
        _tell_lie(doing, page)


def _tell_lie(doing: Doing, page: Document) -> None:
    rng = doing.rng
    call_id = rng.choice(list(page.seen_calls)[-3:])
    attempt = max(1, page.seen_calls[call_id] + rng.choice((-1, 0, 0, 1, 1)))
    kind = "tool.started" if rng.random() < 0.4 else "tool.result"
    entry = page.journal.get(call_id)
    own = entry is not None and entry.attempt == attempt
    if own and entry is not None and (kind == "tool.result" or entry.state == "received"):
        return  # of its own call under way: that would be the truth
    frame: Json = {"type": kind, "callId": call_id, "attempt": attempt}
    if kind == "tool.result":
        frame["result"] = {"by": f"liar {page.name}", "callId": call_id, "attempt": attempt}
        page.lied.add(call_id)
    page.command(frame)


def _intrude(doing: Doing) -> None:
    """Somebody presents a tab's session with a secret that is wrong, or no longer good."""
    tab = doing.tab()
    if tab is None or not tab.secrets:
        return
    known = dict(doing.rng.choice(tab.secrets))
    if doing.rng.random() < 0.6:
        known["secret"] = "guessed"
    world = doing.world
    world.strangers += 1
    stranger = Tab(world, f"stranger-{world.strangers}", threads=[], tools={})
    stranger.storage["session"] = known
    stranger.load()
    world.tabs.append(stranger)
    world.later(3.0 + world.plan.latency * 20, lambda: world.close(stranger))


# ---- what befalls lines ------------------------------------------------------------------------


def _cut(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        line.cut(doing.rng.random() * 0.1, doing.rng.random() * 0.1)


def _cut_unnoticed(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        rng = doing.rng
        page_after = rng.choice((None, 0.0, rng.random() * 5))
        line.cut(page_after, rng.choice((None, 0.0, rng.random() * 5)))


def _half_open(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        up = doing.rng.random() < 0.5
        line.vanish(up=up, down=not up)


def _proxy(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        line.closed_between(doing.rng.choice((1001, 1006, 1011, 1012, 1013, 4408, 4429)))


def _stall(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        line.stall(doing.rng.choice((0.5, 2.0, 8.0)))


def _slow(doing: Doing) -> None:
    line = doing.line()
    if line is not None:
        line.slow(doing.rng.random() * 4)


# ---- what befalls tabs -------------------------------------------------------------------------


def _freeze(doing: Doing) -> None:
    tab = doing.tab()
    if tab is not None:
        tab.freeze()
        doing.world.later(doing.rng.choice((0.5, 3.0, 10.0)), tab.thaw)


def _offline(doing: Doing) -> None:
    tab = doing.tab()
    if tab is None:
        return
    tab.online = False
    for line in doing.world.network.open_lines():
        if line.tab is tab:
            line.cut(doing.rng.choice((None, 0.0, 1.0)), None)
    doing.world.later(doing.rng.choice((0.5, 3.0, 12.0)), lambda: _online(tab))


def _online(tab: Tab) -> None:
    tab.online = True
    page = tab.document
    if page is not None:
        tab.task(page, lambda: page.wake("waiting"))


def _reload(doing: Doing) -> None:
    tab = doing.tab()
    if tab is not None:
        tab.unload(politely=True)
        doing.world.later(doing.rng.choice((0.0, 0.1, 1.0)), lambda: doing.world.load(tab))


def _tab_crash(doing: Doing) -> None:
    """The renderer dies; its socket perhaps without a word."""
    tab = doing.tab()
    if tab is None:
        return
    for line in doing.world.network.open_lines():
        if line.tab is tab and doing.rng.random() < 0.5:
            line.cut(None, doing.rng.choice((None, 0.1)))
    tab.unload(politely=False)
    doing.world.later(doing.rng.choice((0.1, 3.0)), lambda: doing.world.load(tab))


def _close_tab(doing: Doing) -> None:
    tab = doing.tab()
    if tab is not None:
        doing.world.close(tab)


def _duplicate(doing: Doing) -> None:
    tab = doing.tab()
    if tab is not None:
        doing.world.open_copy(tab)


def _freeze_and_duplicate(doing: Doing) -> None:
    """A tab that is stuck, so its user duplicates it; then it goes on."""
    tab = doing.tab()
    if tab is not None:
        tab.freeze()
        doing.later(1.5, lambda: doing.world.open_copy(tab))
        doing.world.later(doing.rng.choice((2.5, 4.0, 9.0)), tab.thaw)


def _hide(doing: Doing) -> None:
    """Left for another page, then back: the browser kept it."""
    tab = doing.tab()
    if tab is None or tab.document is None or tab.frozen:
        return
    page = tab.document
    page.hide()
    tab.freeze()

    def show() -> None:
        tab.thaw()
        tab.task(page, page.show)

    doing.world.later(doing.rng.choice((0.3, 3.0, 12.0)), show)


def _bye(doing: Doing) -> None:
    page = doing.page()
    if page is not None:
        page.bye()


# ---- at the worst moment -----------------------------------------------------------------------


def _ambush(doing: Doing) -> None:
    """Something befalls a page just when something of it is on its way."""
    misfortune = doing.rng.choice(_MISFORTUNES)
    _lie_in_wait(doing, lambda record: misfortune(doing, record))


def _ambush_crash(doing: Doing) -> None:
    down = doing.rng.choice((0.05, 0.5, 5.0))
    _lie_in_wait(doing, lambda _: doing.world.crash(down))


def _lie_in_wait(doing: Doing, strike: Callable[[Record], None]) -> None:
    latency = doing.world.plan.latency
    kind, sign, _ = doing.rng.choices(_MOMENTS, [weight for *_, weight in _MOMENTS])[0]
    delay = doing.rng.choice((0.0, 0.0005, 0.005, latency, 3 * latency))
    _wait_for(doing, kind, sign, delay, strike)


def _wait_for(
    doing: Doing,
    kind: str,
    sign: Callable[[Json], bool],
    delay: float,
    strike: Callable[[Record], None],
) -> None:
    """Strike a while after the next record of this kind, unless nothing is to happen any more."""
    world = doing.world

    def watch(record: Record) -> None:
        if record.kind == kind and sign(record.what) and watch in world.history.watchers:
            world.history.watchers.remove(watch)
            if world.loop.virtual_now < world.plan.ends:
                world.later(delay, lambda: strike(record))

    world.history.watchers.append(watch)


def _tab_of(doing: Doing, record: Record) -> Tab | None:
    name = record.who.partition(".")[0]
    return next((tab for tab in doing.world.tabs if tab.name == name and tab.document), None)


def _line_dies(doing: Doing, record: Record) -> None:
    for line in doing.world.network.open_lines():
        if line.name == record.who:
            line.cut(doing.rng.choice((None, 0.0, 0.2)), doing.rng.choice((None, 0.0, 0.2)))


def _tab_dies(doing: Doing, record: Record) -> None:
    tab = _tab_of(doing, record)
    if tab is not None:
        tab.unload(politely=doing.rng.random() < 0.5)
        doing.world.later(doing.rng.choice((0.0, 0.3, 3.0)), lambda: doing.world.load(tab))


def _tab_freezes(doing: Doing, record: Record) -> None:
    tab = _tab_of(doing, record)
    if tab is not None:
        tab.freeze()
        doing.world.later(doing.rng.choice((0.5, 3.0, 10.0)), tab.thaw)
        if doing.rng.random() < 0.5:
            doing.later(1.0, lambda: doing.world.open_copy(tab))


def _user_stops(doing: Doing, _: Record) -> None:
    _abort(doing)


_MISFORTUNES: Final = (_line_dies, _line_dies, _tab_dies, _tab_freezes, _user_stops)

_MOMENTS: Final[tuple[tuple[str, Callable[[Json], bool], int], ...]] = (
    ("sent", lambda frame: frame["type"] == "tool.call", 2),
    ("sent", lambda frame: frame.get("result") == {"status": "go"}, 4),
    ("sent", lambda frame: frame.get("result") == {"status": "applied"}, 2),
    ("sent", lambda frame: frame["type"] == "welcome", 1),
    ("sent", lambda frame: frame["type"] == "approval.request", 1),
    ("took", lambda frame: frame["type"] == "tool.started", 2),
    ("took", lambda frame: frame["type"] == "tool.result", 1),
    ("took", lambda frame: frame["type"] in ("run.start", "tool.invoke"), 1),
    ("took", lambda frame: frame["type"] in ("state.update", "approval.answer", "run.abort"), 1),
    ("begin", lambda _: True, 2),
)
"""When things go wrong that seldom do."""


# ---- what befalls the server -------------------------------------------------------------------


def _crash(doing: Doing) -> None:
    doing.world.crash(doing.rng.choice((0.05, 0.5, 5.0)))


def _restart(doing: Doing) -> None:
    doing.world.restart(doing.rng.choice((0.05, 0.5, 5.0)))


_ACTS: Final[dict[str, Callable[[Doing], None]]] = {
    "run": _run,
    "run_again": _run_again,
    "invoke": _invoke,
    "abort": _abort,
    "abort_thread": _abort_thread,
    "state": _state,
    "retool": _retool,
    "reopen": _reopen,
    "leave_thread": _leave_thread,
    "look_away": _look_away,
    "list": _list,
    "lie": _lie,
    "intrude": _intrude,
}

_DEEDS: Final[dict[str, Callable[[Doing], None]]] = {
    **_ACTS,
    "cut": _cut,
    "cut_unnoticed": _cut_unnoticed,
    "half_open": _half_open,
    "proxy": _proxy,
    "stall": _stall,
    "slow": _slow,
    "freeze": _freeze,
    "offline": _offline,
    "reload": _reload,
    "tab_crash": _tab_crash,
    "close_tab": _close_tab,
    "duplicate": _duplicate,
    "freeze_and_duplicate": _freeze_and_duplicate,
    "hide": _hide,
    "bye": _bye,
    "ambush": _ambush,
    "ambush_crash": _ambush_crash,
    "crash": _crash,
    "restart": _restart,
}
