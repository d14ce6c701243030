"""What a page says of itself: in order, by name, bounded together (P12)."""

import pytest

from handspan.core.context import ContextSet, check_context
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.frames import ContextItem


def item(name, value=None, description=""):
    return ContextItem(name=name, description=description, value=value)


def holding(*names, most=1_000):
    context = ContextSet(most)
    context.replace([item(name) for name in names])
    return context


CHANGES = [
    ("what is added stands at the end", "ab", "c", "", "abc"),
    ("what is removed is gone", "abc", "", "b", "ac"),
    ("a name that is not there is removed in vain", "ab", "", "z", "ab"),
    ("remove comes first, and the added one at the end", "ab", "a", "a", "ba"),
    ("one that was there keeps its place", "ab", "a", "", "ab"),
    ("nothing changes nothing", "ab", "", "", "ab"),
]


@pytest.mark.parametrize(
    ("before", "add", "remove", "after"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_a_change_removes_first_and_then_adds(before, add, remove, after):
    context = holding(*before)
    context.change([item(name, "new") for name in add], remove)
    assert context.items == tuple(item(name, "new" if name in add else None) for name in after)


def test_a_set_begins_empty_and_a_replacement_is_all_of_it():
    context = ContextSet(1_000)
    assert context.items == ()
    context.replace([item("a"), item("b")])
    context.replace([item("c", 1), item("d", 2), item("c", 3)])
    assert context.items == (item("c", 3), item("d", 2))


MOST = len('[["a","bb",[1]]]')


@pytest.mark.parametrize(
    ("one", "fits"),
    [
        (item("a", [1], "bb"), True),
        (item("aa", [1], "bb"), False),
        (item("a", [1], "bbb"), False),
        (item("a", [12], "bb"), False),
        (item("a", [1], "é"), True),
        (item("a", [1], "éb"), False),
    ],
)
def test_p12_the_name_the_description_and_the_value_count_in_bytes(one, fits):
    if fits:
        check_context([one], MOST)
        return
    with pytest.raises(PeerError, match=f"over {MOST}") as refused:
        check_context([one], MOST)
    assert (refused.value.code, refused.value.path) == (CommandCode.TOO_LARGE, "/context")


def test_p12_the_items_are_bounded_together():
    check_context([item("a"), item("b")], 100)
    with pytest.raises(PeerError):
        check_context([item(f"name{n}") for n in range(10)], 100)


LARGE = item("x", "y" * 1_000)


@pytest.mark.parametrize(
    "change",
    [
        lambda context: context.replace([item("b"), LARGE]),
        lambda context: context.change([LARGE], []),
        lambda context: context.change([LARGE], ["a"]),
    ],
)
def test_p12_a_change_that_does_not_fit_changes_nothing(change):
    context = holding("a", "b", most=100)
    with pytest.raises(PeerError):
        change(context)
    assert context.items == (item("a"), item("b"))


def test_what_was_handed_out_is_not_changed_later():
    context = holding("a")
    handed = context.items
    context.change([item("b")], ["a"])
    assert handed == (item("a"),)
