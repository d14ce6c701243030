"""The runs under way: found by id, by call, and by whether they may still say something."""

import pytest
from tests.core.scenarios import a_call, a_run, settled

from handspan.core.live import Live
from handspan.core.run import Step


class Words:
    """Stands for an emission: that there is one is all that counts here."""


def tree():
    """A root with a sub-run, which has one of its own."""
    live = Live()
    root = a_run("root")
    sub = a_run("sub", parent=root)
    deep = a_run("deep", parent=sub)
    for run in (root, sub, deep):
        live.add(run)
    return live, root, sub, deep


def test_p8_nothing_is_under_way_in_the_beginning():
    live = Live()
    assert (live.root, list(live), len(live)) == (None, [], 0)
    assert live.get("root") is None


def test_every_run_is_in_its_place_until_it_has_ended():
    live, root, sub, deep = tree()
    assert live.root is root
    assert (list(live), len(live)) == ([root, sub, deep], 3)
    assert (root.subs, sub.subs, deep.subs) == ({"sub": sub}, {"deep": deep}, {})
    live.remove(deep)
    assert (list(live), sub.subs, live.root) == ([root, sub], {}, root)
    live.remove(sub)
    live.remove(root)
    assert (list(live), root.subs, live.root) == ([], {}, None)


def test_a_run_that_is_not_there_cannot_end_twice():
    live, _, _, deep = tree()
    live.remove(deep)
    with pytest.raises(KeyError):
        live.remove(deep)


def test_runs_may_end_while_they_are_looked_through():
    live, *_ = tree()
    for run in live:
        live.remove(run)
    assert len(live) == 0


def test_p14_all_are_forgotten_at_once_whatever_their_state():
    live, *_ = tree()
    live.clear()
    assert (live.root, list(live), live.get("root")) == (None, [], None)


def test_a_run_is_found_by_its_id_and_nothing_else_is():
    live, root, sub, _ = tree()
    assert (live.get("root"), live.get("sub")) == (root, sub)
    assert (live.get(None), live.get("nobody")) == (None, None)


def test_a_call_is_of_the_run_whose_step_made_it():
    live, root, sub, _ = tree()
    assert live.of(a_call(run="root")) is root
    assert live.of(a_call(run="root", owner="sub")) is sub
    with pytest.raises(KeyError):
        live.of(a_call(run="gone"))


# ---- who may still say something ----------------------------------------------------------------

HERE = {"run_id": "r1", "depth": 2}
OPEN, OVER = a_call(), settled(a_call("c2"))

WORDS = [
    ("its step is under way", {}, HERE, True, True),
    ("nothing is under way", None, HERE, False, False),
    ("another run", {}, HERE | {"run_id": "r2"}, False, False),
    ("a step that is over", {}, HERE | {"depth": 1}, False, False),
    ("a step that is to come", {}, HERE | {"depth": 3}, False, False),
    ("its step is not opened yet", {"emission": None}, HERE, False, False),
    ("it has ended, and nothing is open", {"ended": True}, HERE, False, False),
    ("it has ended, its calls are over", {"ended": True, "calls": [OVER]}, HERE, False, False),
    ("it has ended, a call is open", {"ended": True, "calls": [OVER, OPEN]}, HERE, False, True),
]


@pytest.mark.parametrize(
    ("step", "said", "speaking", "waiting"), [c[1:] for c in WORDS], ids=[c[0] for c in WORDS]
)
def test_p5_who_may_still_say_something(step, said, speaking, waiting):
    """The agent while its step speaks; a tool of the step as long as one is at work."""
    live = Live()
    run = a_run("r1")
    if step is not None:
        run.step = Step(**({"depth": 2, "emission": Words()} | step))
        live.add(run)
    assert live.speaking(**said) is (run if speaking else None)
    assert live.waiting(**said) is (run if waiting else None)
