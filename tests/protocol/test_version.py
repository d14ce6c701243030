"""The versions: the same on both ends, in the schemas and in the document."""

import json

import pytest
from tests.protocol.vectors import PROTOCOL

from handspan_protocol.version import PROTOCOL_VERSION, SUBPROTOCOL

PAGE = PROTOCOL.parent / "bridge" / "handspan" / "client" / "core" / "protocol.js"


def test_the_subprotocol_names_the_version():
    assert f"handspan.v{PROTOCOL_VERSION}" == SUBPROTOCOL


def test_the_pages_library_speaks_the_same_version():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert f"export const PROTOCOL = {PROTOCOL_VERSION};" in lines
    assert f'export const SUBPROTOCOL = "{SUBPROTOCOL}";' in lines


def test_the_readme_is_that_of_the_version():
    title = (PROTOCOL / "README.md").read_text(encoding="utf-8").split("\n", 1)[0]
    assert title == f"# The wire protocol, version {PROTOCOL_VERSION}"


@pytest.mark.parametrize("file", ["page.json", "server.json"])
def test_a_schema_is_that_of_the_version(file):
    title = json.loads((PROTOCOL / "schema" / file).read_text(encoding="utf-8"))["title"]
    assert title.startswith(f"Handspan protocol {PROTOCOL_VERSION}: ")
