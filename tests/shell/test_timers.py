"""One timer a machine, set anew only when its deadline has changed."""

from handspan.shell.timers import Timers
from handspan.testing.clock import ManualClock


class Counting(ManualClock):
    """A clock that counts the timers it was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def call_at(self, when, callback):
        self.asked += 1
        return super().call_at(when, callback)


def timers():
    clock, due = Counting(), []
    return clock, due, Timers(clock, due.append)


async def test_a_machine_is_told_when_its_deadline_has_come_and_is_known_no_longer():
    clock, due, plans = timers()
    plans.keep("a", 5.0)
    plans.keep("b", 3.0)
    assert plans.names == ["a", "b"]
    await clock.advance(4)
    assert (due, "b" in plans, "a" in plans) == (["b"], False, True)
    await clock.advance(4)
    assert (due, plans.names) == (["b", "a"], [])


async def test_the_same_deadline_again_costs_no_timer_and_another_takes_its_place():
    clock, due, plans = timers()
    for _ in range(3):
        plans.keep("a", 5.0)
    assert clock.asked == 1
    plans.keep("a", 7.0)
    await clock.advance(6)
    assert (due, clock.asked) == ([], 2)
    await clock.advance(6)
    assert due == ["a"]


async def test_no_deadline_calls_the_plan_off():
    clock, due, plans = timers()
    plans.keep("a", None)
    plans.keep("a", 5.0)
    plans.keep("a", None)
    plans.keep("a", None)
    await clock.advance(6)
    assert (due, plans.names, clock.waiting) == ([], [], [])


async def test_all_are_called_off_at_once():
    clock, due, plans = timers()
    for name in "abc":
        plans.keep(name, 5.0)
    plans.cancel_all()
    assert (plans.names, clock.waiting) == ([], [])
    await clock.advance(6)
    assert due == []


async def test_a_machine_may_plan_anew_while_it_is_told():
    clock = ManualClock()
    due = []

    def tell(name):
        due.append(clock.now())
        if len(due) < 3:
            plans.keep(name, clock.now() + 1)

    plans = Timers(clock, tell)
    plans.keep("a", 1.0)
    await clock.advance(9)
    assert due == [1.0, 2.0, 3.0]
