"""The generated schemas: fresh, valid, and of one mind with the codec."""

import json
import runpy
import sys

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator
from tests.protocol.vectors import PROTOCOL, cases

from handspan_protocol import generate
from handspan_protocol.codec import PAGE_TYPES, SERVER_TYPES

PAGE = json.loads((PROTOCOL / "schema" / "page.json").read_text(encoding="utf-8"))
SERVER = json.loads((PROTOCOL / "schema" / "server.json").read_text(encoding="utf-8"))
BETWEEN_FIELDS = ("/result", "/error", "/content", "/state")
"""Where a vector is bad by a rule that a schema of one field does not see."""


def test_the_schemas_are_not_stale():
    assert generate.stale() == []


def test_check_says_which_schema_is_stale(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(generate, "stale", lambda: ["page.json"])
    assert generate.main(["--check"]) == 1
    assert "page.json" in capsys.readouterr().err
    monkeypatch.undo()
    assert generate.stale(tmp_path) == ["page.json", "server.json"]
    assert generate.main(["--check"]) == 0
    assert generate.main(["--nonsense"]) == 2


def test_main_writes_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "FOLDER", tmp_path / "schema")
    assert generate.main([]) == 0
    assert generate.stale(tmp_path / "schema") == []


@pytest.mark.parametrize(("argument", "status"), [("--check", 0), ("--nonsense", 2)])
def test_the_command_ends_with_the_status_of_main(argument, status, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["generate", argument])
    monkeypatch.delitem(sys.modules, generate.__name__)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(generate.__name__, run_name="__main__")
    assert ended.value.code == status


@pytest.mark.parametrize("schema", [PAGE, SERVER], ids=["page", "server"])
def test_a_schema_is_one_and_names_no_python(schema):
    Draft202012Validator.check_schema(schema)
    assert "codec" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("schema", "types"), [(PAGE, PAGE_TYPES), (SERVER, SERVER_TYPES)], ids=["page", "server"]
)
def test_a_schema_has_every_frame(schema, types):
    names = [member["$ref"].rsplit("/", 1)[1] for member in schema["oneOf"]]
    assert {schema["$defs"][name]["properties"]["type"]["const"] for name in names} == types
    assert all("type" in schema["$defs"][name]["required"] for name in names)


@pytest.mark.parametrize(
    "case",
    [c for c in cases("page_frames.jsonl") if "frame" in c],
    ids=lambda case: case["name"],
)
def test_the_page_schema_agrees_with_the_codec(case):
    exactly_one = case["frame"].get("type") in ("tool.result", "state.update")
    if not case["ok"] and exactly_one and case["path"] in BETWEEN_FIELDS:
        pytest.skip("a rule between fields")
    assert jsonschema_rs.is_valid(PAGE, case["frame"]) is case["ok"]


@pytest.mark.parametrize("case", cases("server_frames.jsonl"), ids=lambda case: case["name"])
def test_the_server_schema_knows_every_frame(case):
    jsonschema_rs.validate(SERVER, case["frame"])
