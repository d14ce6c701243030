"""Every frame, field, code and close code stands in protocol/README.md."""

import re
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum

import pytest
from pydantic.alias_generators import to_camel
from tests.protocol.vectors import PROTOCOL

from handspan_protocol import errors, frames
from handspan_protocol.codec import PAGE_TYPES, SERVER_TYPES
from handspan_protocol.ids import ERROR_CODE_PATTERN, ID_PATTERN, TOOL_NAME_PATTERN
from handspan_protocol.limits import DESCRIPTION_CHARS, ERROR_MESSAGE_CHARS, NESTING_MAX
from handspan_protocol.strict_json import ENCODED_NESTING_MAX, INTEGER_DIGITS
from handspan_protocol.tools import Tool
from handspan_protocol.version import SUBPROTOCOL

README = (PROTOCOL / "README.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", README))
IN_JSON = set(re.findall(r'"(\w+)":', README))

FRAMES = [c for name in frames.__all__ if is_dataclass(c := getattr(frames, name))]
FIELDS = sorted({to_camel(f.name) for c in [*FRAMES, Tool] for f in fields(c)})
CODES = sorted(
    {
        str(code)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
        for code in kind
    }
)
CLOSE_CODES = [
    int(code)
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
    for code in kind
]


def test_there_is_something_to_look_for():
    assert len(FRAMES) > 35
    assert len(FIELDS) > 60
    assert len(CODES) > 50
    assert len(CLOSE_CODES) > 15


@pytest.mark.parametrize("frame", sorted(PAGE_TYPES | SERVER_TYPES))
def test_the_readme_names_the_frame(frame):
    assert frame in QUOTED


@pytest.mark.parametrize("field", FIELDS)
def test_the_readme_names_the_field(field):
    assert field in QUOTED | IN_JSON


@pytest.mark.parametrize("code", CODES)
def test_the_readme_names_the_code(code):
    assert code in QUOTED


@pytest.mark.parametrize("code", CLOSE_CODES)
def test_the_readme_has_a_row_for_the_close_code(code):
    assert f"\n| {code} | " in README


def test_the_readme_has_no_close_code_that_the_code_has_not():
    assert {int(n) for n in re.findall(r"\n\| (\d{4}) \| ", README)} == set(CLOSE_CODES)


@pytest.mark.parametrize("outcome", list(errors.Outcome))
def test_the_readme_lists_the_codes_of_each_outcome(outcome):
    codes = README[README.index("\n## Codes\n") :]
    (row,) = re.findall(rf"\n\| `{outcome}` \| (.*) \|", codes)
    listed = set(re.findall(r"`([^`]+)`", row))
    assert listed == {str(c) for c in errors.CallCode if errors.outcome_of(c) is outcome}


@pytest.mark.parametrize(
    "pattern", [ID_PATTERN, TOOL_NAME_PATTERN, ERROR_CODE_PATTERN, SUBPROTOCOL]
)
def test_the_readme_names_the_pattern(pattern):
    assert pattern in QUOTED


@pytest.mark.parametrize(
    "number",
    [NESTING_MAX, ENCODED_NESTING_MAX, INTEGER_DIGITS, DESCRIPTION_CHARS, ERROR_MESSAGE_CHARS],
)
def test_the_readme_names_the_limit(number):
    assert re.search(rf"\b{number:,}\b", README)
