"""Tokens as providers count them, and what is no count."""

from handspan.model.usage import counts, part


def test_only_counts_are_counted() -> None:
    told = {"a": 3, "b": -1, "c": True, "d": "4", "e": None, "f": 1.5, "g": 10**30, "h": 0}
    assert counts(told) == {"a": 3, "h": 0}


def test_details_that_are_no_object_are_none() -> None:
    assert part({"details": {"n": 1}}, "details") == {"n": 1}
    assert part({"details": "n"}, "details") == {}
    assert part({}, "details") == {}
