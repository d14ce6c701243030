"""RFC 6902 under bounds, with jsonpatch as the second opinion on every document and patch."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.patching import OPERATIONS_MAX, patched
from handspan_protocol.errors import PeerError, UsageError

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
