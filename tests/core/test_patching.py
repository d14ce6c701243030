"""RFC 6902 under bounds, with jsonpatch as the second opinion on every document and patch."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.patching import OPERATIONS_MAX, patched
from handspan_protocol.errors import CommandCode, PeerError, UsageError

KEYS = st.sampled_from(["a", "b", "0", "1", "01", "-", "", "x/y", "__proto__"])
VALUES = st.recursive(
    st.integers(0, 3) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(KEYS, max_size=3).map(
    lambda keys: "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "copy", "test"]),
        "path": PATHS,
        "from": PATHS,
        "value": VALUES,
    }
)


def outcome(apply: Any, document: Any, patch: Any) -> str:
    """What came of it, with types told apart; every failure is one word."""
    try:
        return repr(apply(document, patch))
    except Exception:
        return "refused"


@given(VALUES, st.lists(OPERATIONS, max_size=6))
def test_a_patch_does_what_jsonpatch_does_and_leaves_the_document_alone(
    document: Any, patch: list[Any]
) -> None:
    before = copy.deepcopy((document, patch))
    wanted = outcome(jsonpatch.apply_patch, copy.deepcopy(document), copy.deepcopy(patch))
    assert outcome(lambda d, p: patched(d, p, 10**6), document, patch) == wanted
    assert (document, patch) == before


def test_p12_what_is_not_touched_is_shared_and_what_was_copied_is_not_changed_with_its_source() -> (
    None
):
    document = {"a": {"n": [1]}, "b": {"n": [2]}}
    after = patched(
        document,
        [
            {"op": "copy", "from": "/a", "path": "/c"},
            {"op": "add", "path": "/c/n/-", "value": 9},
            {"op": "add", "path": "/a/n/-", "value": 8},
        ],
    )
    assert after == {"a": {"n": [1, 8]}, "b": {"n": [2]}, "c": {"n": [1, 9]}}
    assert after["b"] is document["b"]
    assert document == {"a": {"n": [1]}, "b": {"n": [2]}}


def test_p12_copies_are_counted_before_they_are_made() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * OPERATIONS_MAX
    with pytest.raises(PeerError, match="copies more"):
        patched({"a": ["x"]}, doubling, 100_000)


def test_p12_operations_are_counted() -> None:
    assert OPERATIONS_MAX == 1_000
    one = {"op": "test", "path": "", "value": {}}
    assert patched({}, [one] * OPERATIONS_MAX, 10) == {}
    with pytest.raises(PeerError, match="operations"):
        patched({}, [one] * (OPERATIONS_MAX + 1), 10)


@pytest.mark.parametrize(
    "patch",
    [[1], [{}], [{"op": "add"}], [{"op": "dance", "path": ""}], [{"op": "copy", "path": "/a"}]],
)
def test_what_is_no_patch_is_refused(patch: list[Any]) -> None:
    with pytest.raises(UsageError):
        patched({"a": 1}, patch, 10)


COPIES = [
    ("a member", {"a": 1}, "/a", "/b", {"a": 1, "b": 1}),
    ("over a member", {"a": 1, "b": 2}, "/a", "/b", {"a": 1, "b": 1}),
    ("before an element", [1, 2], "/1", "/0", [2, 1, 2]),
    ("at the end, by its index", [1, 2], "/0", "/2", [1, 2, 1]),
    ("at the end, by the dash", [1, 2], "/0", "/-", [1, 2, 1]),
    ("to the root", {"a": [1]}, "/a", "", [1]),
    ("the root into itself", {"a": 1}, "", "/b", {"a": 1, "b": {"a": 1}}),
    ("into what another holds", {"a": {"x": [1]}}, "/a/x", "/a/y", {"a": {"x": [1], "y": [1]}}),
    ("under a name that needs escapes", {"a": 1}, "/a", "/x~1y", {"a": 1, "x/y": 1}),
]


@pytest.mark.parametrize(
    ("document", "source", "place", "after"), [c[1:] for c in COPIES], ids=[c[0] for c in COPIES]
)
def test_a_copy_is_added_where_it_says(document: Any, source: str, place: str, after: Any) -> None:
    before = copy.deepcopy(document)
    patch = [{"op": "copy", "from": source, "path": place}]
    assert patched(document, patch, 1_000) == after == patched(document, patch)
    assert document == before


NO_PLACES = [
    ("a number holds nothing", {"a": 1}, "/a/b"),
    ("a text holds nothing", {"a": "text"}, "/a/0"),
    ("nothing holds nothing", {"a": None}, "/a/b"),
    ("beyond the end", {"a": [1]}, "/a/2"),
    ("before the beginning", {"a": [1]}, "/a/-1"),
    ("with a zero before it", {"a": [1]}, "/a/01"),
    ("with an underscore", {"a": [1] * 11}, "/a/1_0"),
    ("with a space", {"a": [1]}, "/a/ 0"),
    ("in another script", {"a": [1]}, "/a/\u0661"),
    ("no index", {"a": [1]}, "/a/x"),
    ("in what is not there", {"a": 1}, "/b/c"),
    ("behind the end", {"a": [1]}, "/a/-/b"),
]


@pytest.mark.parametrize(
    ("document", "place"), [c[1:] for c in NO_PLACES], ids=[c[0] for c in NO_PLACES]
)
def test_a_copy_to_a_place_that_is_none_is_refused(document: Any, place: str) -> None:
    before = copy.deepcopy(document)
    with pytest.raises(UsageError):
        patched(document, [{"op": "copy", "from": "/a", "path": place}], 1_000)
    assert document == before


@pytest.mark.parametrize(("most", "fits"), [(8, True), (7, False)])
def test_p12_what_is_copied_counts_with_the_bytes_of_its_json(most: int, fits: bool) -> None:
    patch = [{"op": "copy", "from": "/a", "path": place} for place in ("/b", "/c")]
    document = {"a": "xy"}
    if fits:
        assert patched(document, patch, most) == {"a": "xy", "b": "xy", "c": "xy"}
        return
    with pytest.raises(PeerError) as refused:
        patched(document, patch, most)
    assert (refused.value.code, refused.value.path) == (CommandCode.TOO_LARGE, "/patch")


def test_p12_what_nests_too_deep_is_not_copied() -> None:
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(PeerError, match="copies more"):
        patched({"a": deep}, [{"op": "copy", "from": "/a", "path": "/b"}], 10**6)


def test_p12_a_patch_that_was_checked_before_is_not_bounded_again() -> None:
    one = {"op": "copy", "from": "/a", "path": "/b"}
    assert patched({"a": "x" * 100}, [one] * (OPERATIONS_MAX + 1))["b"] == "x" * 100


def test_p12_what_lies_beside_the_way_of_a_patch_is_shared_and_the_way_is_copied_once() -> None:
    document = {"way": {"deep": [{"n": 1}, {"n": 2}], "beside": [1]}, "other": {}}
    after = patched(
        document,
        [
            {"op": "replace", "path": "/way/deep/0/n", "value": 5},
            {"op": "move", "from": "/way/deep/0/n", "path": "/way/deep/0/m"},
        ],
    )
    assert after["way"]["deep"] == [{"m": 5}, {"n": 2}]
    assert after["way"]["deep"][1] is document["way"]["deep"][1]
    assert after["way"]["beside"] is document["way"]["beside"]
    assert after["other"] is document["other"]
    assert document["way"]["deep"][0] == {"n": 1}


def test_p12_what_a_patch_made_its_own_is_nobodys_own_once_it_is_copied() -> None:
    after = patched(
        {"a": {"n": [1]}},
        [
            {"op": "add", "path": "/a/n/-", "value": 2},
            {"op": "copy", "from": "/a", "path": "/c"},
            {"op": "add", "path": "/a/n/-", "value": 3},
            {"op": "add", "path": "/c/n/-", "value": 4},
        ],
    )
    assert after == {"a": {"n": [1, 2, 3]}, "c": {"n": [1, 2, 4]}}


BEHIND_THE_END = {"op": "copy", "from": "/a/-", "path": "/b"}
"""RFC 6901: "-" names the element after the last, which is not there."""


@pytest.mark.parametrize(
    "most",
    [
        1_000,
        None,
    ],
)
def test_p4_what_stands_behind_the_end_of_a_list_cannot_be_copied(most: int | None) -> None:
    with pytest.raises(UsageError):
        patched({"a": [1]}, [BEHIND_THE_END], most)
