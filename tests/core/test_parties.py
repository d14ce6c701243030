"""Who asks and who answers: plain data that cannot be changed, compared by what names it."""

from dataclasses import FrozenInstanceError

import pytest

from handspan.core.parties import ANONYMOUS, Asker, PageView, Principal, ThreadKey

PAGE = PageView(session="s", document="d")


def test_p8_a_principal_is_its_id_whatever_else_is_known_of_it():
    eva = Principal("eva", role="admin", name="Eva")
    assert (eva.id, eva.attributes) == ("eva", {"role": "admin", "name": "Eva"})
    assert eva == Principal("eva")
    assert {eva: 1}[Principal(id="eva", role="guest")] == 1
    assert eva != Principal("Eva", role="admin", name="Eva")
    assert Principal("anonymous") == ANONYMOUS
    assert ANONYMOUS.attributes == {}


def test_p8_a_thread_is_known_by_its_principal_and_its_id():
    assert ThreadKey("eva", "t") == ThreadKey(principal="eva", thread_id="t")
    assert len({ThreadKey("eva", "t"), ThreadKey("t", "eva"), ThreadKey("eva", "u")}) == 3
    unsorted = [ThreadKey("b", "1"), ThreadKey("a", "2"), ThreadKey("a", "1")]
    assert sorted(unsorted) == [("a", "1"), ("a", "2"), ("b", "1")]


def test_a_page_is_there_and_seen_and_has_nothing_until_it_says_otherwise():
    assert (PAGE.attached, PAGE.visible, PAGE.gone) == (True, True, False)
    assert (PAGE.tools, PAGE.revision, PAGE.context, PAGE.seen_at) == ({}, 0, (), 0.0)
    assert PAGE.tools is not PageView(session="s", document="d").tools


@pytest.mark.parametrize(
    ("party", "field"),
    [
        (ANONYMOUS, "id"),
        (ANONYMOUS, "attributes"),
        (Asker(None, "x"), "ticket"),
        (PAGE, "gone"),
    ],
)
def test_p15_no_party_can_be_changed(party, field):
    with pytest.raises(FrozenInstanceError):
        setattr(party, field, "other")


def test_a_key_cannot_be_changed():
    with pytest.raises(AttributeError):
        ThreadKey("eva", "t").principal = "adam"
