"""A library that is not there is one line, whichever way one comes in."""

import importlib
import sys

import pytest

from handspan.model.extras import ExtraMissing, extra
from handspan_protocol.errors import UsageError


@pytest.mark.parametrize(
    ("module", "library", "name"),
    [
        ("handspan.mcp", "httpx2", "mcp"),
        ("handspan.agents.langgraph", "langchain_core", "langgraph"),
        ("handspan.agents.autogen", "autogen_core", "autogen"),
        ("handspan.agents.local", "llama_cpp", "local"),
    ],
)
def test_a_module_whose_library_is_missing_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, library: str, name: str
) -> None:
    for loaded in [known for known in sys.modules if known.startswith(module)]:
        monkeypatch.delitem(sys.modules, loaded)
    for loaded in [known for known in sys.modules if known.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ExtraMissing, match=rf"needs {library}.*; its extra is {name}: pip install"):
        importlib.import_module(module)


def test_it_is_misuse_and_a_failed_import() -> None:
    with pytest.raises(UsageError) as said, extra("local", "LocalModel"):
        import no_such_library_of_models  # noqa: F401
    assert isinstance(said.value, ImportError)
    assert str(said.value) == (
        "LocalModel needs no_such_library_of_models, which is not installed;"
        " its extra is local: pip install 'PATH_TO_THE_CLONE[local]'"
    )


def test_a_module_of_handspans_own_that_is_missing_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extra("local", "LocalModel"):
        importlib.import_module("handspan.no_such_module")
