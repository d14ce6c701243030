"""A machine is total: what breaks inside one input ends that run, and nothing else (P14).

There is no known way to break it, so these tests break a part by hand.
"""

import pytest

from handspan.core import inputs as i
from handspan.core.admission import Roster
from handspan.core.effects import Broke, Reply, RunOver, StartStep, ThreadEffect
from handspan.core.parties import Asker, ThreadKey
from handspan.core.policy import Policy
from handspan.core.thread import Thread
from handspan.shell.ids import CountedIds
from handspan_protocol.ids import CallId, RunId, ThreadId


class Ids(CountedIds):
    def claim_call(self, wish: str | None) -> CallId:
        return CallId(wish or self.new("c"))


def thread() -> Thread:
    key = ThreadKey("p", ThreadId("t"))
    return Thread(key, Policy(), Ids(), Roster(("default",), {}))


def start(of: Thread, run_id: str) -> list[ThreadEffect]:
    request = i.RunRequested(
        asker=Asker(None, run_id),
        run_id=RunId(run_id),
        message={"role": "user", "content": "hi"},
    )
    return of.handle(request, 0.0)


def one(effects: list[ThreadEffect], kind: type) -> ThreadEffect:
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def breaks(*_: object, **__: object) -> None:
    raise RuntimeError("an invariant")


def test_p14_a_part_that_breaks_fails_the_run_and_frees_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = thread()
    start(broken, "r1")
    with monkeypatch.context() as patch:
        patch.setattr("handspan.core.emission.Emission.text", breaks)
        effects = broken.handle(i.TextSaid(RunId("r1"), 0, ("x",)), 1.0)
    assert isinstance(one(effects, Broke).error, RuntimeError)
    over = one(effects, RunOver)
    assert (over.value.reason, over.value.code) == ("failed", "internal")
    assert broken.run is None
    one(start(broken, "r2"), StartStep)


def test_p14_what_cannot_even_be_failed_is_dropped_and_the_thread_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = thread()
    start(broken, "r1")
    broken.handle(i.CallSaid(run_id=RunId("r1"), depth=0, name="nobody", raw="{}"), 0.5)
    with monkeypatch.context() as patch:
        patch.setattr("handspan.core.space.Space.emit", breaks)
        effects = broken.handle(i.TextSaid(RunId("r1"), 0, ("x",)), 1.0)
    one(effects, Broke)
    assert one(effects, RunOver).value.code == "internal"
    assert broken.run is None
    assert broken.desk.open_calls == {}
    assert broken.next_deadline() is None
    one(start(broken, "r2"), StartStep)


def test_p14_a_command_that_breaks_is_answered_internal(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = thread()
    with monkeypatch.context() as patch:
        patch.setattr("handspan.core.space.Space.emit", breaks)
        effects = broken.handle(i.StateGiven(Asker(None, "a"), None, {"n": 1}), 1.0)
    reply = one(effects, Reply)
    assert reply.error is not None
    assert reply.error.code == "internal"
    one(start(broken, "r1"), StartStep)
