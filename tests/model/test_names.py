"""Names and ids as a provider takes them, and back (C031)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.model.names import Names, call_id_of

GOOD = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OWN = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)


def test_a_name_that_is_good_stays() -> None:
    names = Names(["a_b", "a-b", "constructor"])
    assert [names.theirs(n) for n in ("a_b", "a-b", "constructor")] == ["a_b", "a-b", "constructor"]


def test_a_dot_and_an_underscore_stay_two_tools_whatever_their_order() -> None:
    for own in (["a.b", "a_b"], ["a_b", "a.b"], ["a.b", "a_b", "a_b_2"]):
        names = Names(own)
        theirs = {names.theirs(name) for name in own}
        assert len(theirs) == len(own)
        assert names.theirs("a_b") == "a_b"
        assert names.own(names.theirs("a.b")) == "a.b"


@given(st.lists(OWN, unique=True, max_size=12))
def test_every_name_comes_back(own: list[str]) -> None:
    names = Names(own)
    theirs = [names.theirs(name) for name in own]
    assert all(GOOD.fullmatch(name) for name in theirs)
    assert [names.own(name) for name in theirs] == own


@pytest.mark.parametrize(("name", "sent"), [("gone.tool", "gone_tool"), ("", "_"), ("<b>", "_b_")])
def test_a_tool_that_is_no_more_is_sent_under_a_name_that_is_taken(name: str, sent: str) -> None:
    assert Names([]).theirs(name) == sent


def test_a_name_that_is_nobodys_passes_as_it_is() -> None:
    assert Names(["a.b"]).own("no.such") == "no.such"


@given(st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True), st.sampled_from([40, 64]))
def test_an_id_is_taken_by_the_provider_and_stays_the_same(own: str, most: int) -> None:
    sent = call_id_of(own, most)
    assert len(sent) <= most
    assert re.fullmatch("[a-zA-Z0-9_-]+", sent)
    assert sent == call_id_of(own, most)
    if len(own) <= most and not re.search("[.:]", own):
        assert sent == own


def test_ids_that_must_change_stay_apart() -> None:
    assert len({call_id_of(own) for own in ("a.b", "a:b", "a_b", "a" * 65, "a" * 66)}) == 5
