"""The secrets of a session: at most two are good, and none of them is kept (P9)."""

import pytest

from handspan.core.keys import Secrets

ALL = ["one", "two", "three", "four"]

ROTATIONS = [
    ("the first", [("one", None)], ["one"]),
    ("the presented one stays beside the new one", [("one", None), ("two", "one")], ["one", "two"]),
    (
        "a welcome was lost: the old one is presented again",
        [("one", None), ("two", "one"), ("three", "one")],
        ["one", "three"],
    ),
    (
        "the new one is used: the old one goes",
        [("one", None), ("two", "one"), ("three", "two")],
        ["two", "three"],
    ),
    ("nothing was presented: all others are void", [("one", None), ("two", None)], ["two"]),
]


@pytest.mark.parametrize(
    ("rotations", "good"), [c[1:] for c in ROTATIONS], ids=[c[0] for c in ROTATIONS]
)
def test_p9_the_new_secret_and_the_presented_one_are_good_and_no_other(rotations, good):
    secrets = Secrets()
    for fresh, presented in rotations:
        secrets.rotate(fresh, presented)
    assert [one for one in ALL if secrets.good(one)] == good


@pytest.mark.parametrize("guess", ["", "one ", "ONE", "on", "onee", "\ud800", "ö" * 10_000])
def test_p9_what_is_not_the_secret_to_the_letter_is_not_good(guess):
    secrets = Secrets()
    assert not secrets.good(guess)
    secrets.rotate("one", None)
    assert not secrets.good(guess)


def test_p9_only_hashes_are_kept():
    secrets = Secrets()
    secrets.rotate("the new secret", "the old secret")
    kept = b"".join(secrets.hashes)
    assert len(kept) == 2 * 32
    assert b"secret" not in kept
