"""Each planted fault is noticed: what the checker cannot see it cannot promise.

In CI from a seed on where it is known to show; in the full form from the first.
"""

import pytest
from tests.simulation.faults import FAULTS, planted
from tests.simulation.run import failures, findings_of

SHOWS = {
    "no_record": 3,
    "unrecorded_start": 66,
    "early_reply": 79,
    "uncommitted_shown": 113,
    "forgotten_replies": 23,
    "any_attempt": 143,
    "any_session": 1,
    "applied_twice": 26,
    "go_twice": 245,
    "no_questions": 2,
    "any_secret": 8,
    "old_secrets": 80,
    "one_secret": 95,
    "all_repeatable": 84,
    "lost_cancel": 1,
    "no_withdrawal": 84,
    "out_of_order": 3,
    "deaf_abort": 0,
    "agent_goes_on": 114,
    "unknown_run": 26,
    "renumbered": 0,
    "event_lost": 6,
    "snapshot_ahead": 0,
}
"""A seed in which each shows. A change of the plan moves it: then
`python -m tests.simulation --seeds 1000 --fault NAME` finds another."""

AROUND = 40
"""So many seeds are tried from there on, before it counts as missed."""

EVERYWHERE = 1_000


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str, full_form: bool) -> None:
    """P1, P2, P5, P6, P7, P9, P10, P16."""
    first, count = (0, EVERYWHERE) if full_form else (SHOWS[name], AROUND)
    durable = FAULTS[name][1]
    assert any(
        failures((range(seed, seed + 1), name, durable)) for seed in range(first, first + count)
    )


@pytest.mark.parametrize("name", FAULTS)
def test_without_the_fault_nothing_is_wrong_there(name: str) -> None:
    """Or else it was not the fault that was noticed."""
    durable = FAULTS[name][1]
    assert findings_of(SHOWS[name], durable=durable) == []


def test_a_fault_is_planted_for_as_long_as_a_block_lasts() -> None:
    from handspan.core.session import Session

    before = Session.knows
    with planted("any_secret"):
        assert Session.knows is not before
    assert Session.knows is before
