"""Values for property tests, and the comparison that tells them apart as JSON does."""

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = (
    st.integers() | st.integers(-(10**40), 10**40) | st.sampled_from([2**63, 2**64, -(2**63)])
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ATOMS = st.none() | st.booleans() | INTEGERS | FLOATS | TEXT
KEYS = TEXT | st.sampled_from(["__proto__", "constructor", ""])
JSON = st.recursive(
    ATOMS,
    lambda of: st.lists(of, max_size=4) | st.dictionaries(KEYS, of, max_size=4),
    max_leaves=12,
)
"""Whatever JSON can hold."""


def exactly(value: Any) -> Any:
    """A form in which True is not 1, and numbers are equal by value."""
    match value:
        case bool() | None | str():
            return (type(value).__name__, value)
        case int() | float():
            return ("number", value)
        case list() | tuple():
            return [exactly(item) for item in value]
        case dict():
            return {key: exactly(item) for key, item in value.items()}
    return value
