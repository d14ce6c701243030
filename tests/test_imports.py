"""What `import handspan` brings along: nothing of a model's, and nothing that is not needed yet."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

MODELS = {
    *("openai", "anthropic", "pydantic_ai", "agents", "langgraph", "langchain_core", "langchain"),
    *("autogen_core", "autogen_agentchat", "mcp", "llama_cpp", "httpx", "httpx2", "httpx_sse"),
}

LATER = {"ag_ui", "websockets", "handspan.shell.driver", "handspan.core.thread", "jsonschema"}
"""What takes half of the time of an import, and is needed when a bridge is at work."""


def brought_along(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    path = [str(ROOT / "bridge"), str(ROOT / "protocol")]
    whole = f"import sys; sys.path[:0] = {path!r}; {code}"
    run = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    names = json.loads(run.stdout)
    return {*names, *(name.split(".")[0] for name in names)}


def test_the_library_brings_no_library_of_a_model() -> None:
    assert brought_along("import handspan, handspan.testing, handspan.agents") & MODELS == set()


def test_an_import_waits_for_nothing_that_is_not_needed_yet() -> None:
    assert brought_along("import handspan") & LATER == set()
