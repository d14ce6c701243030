"""What the README prints runs as printed."""

import re
import types
from pathlib import Path
from typing import Any

import pytest

import handspan
from handspan.testing import Page

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None, f"no {language} block in the README"
    return found.group(1)


async def test_the_server_of_the_readme_runs_as_printed() -> None:
    module = types.ModuleType("app")
    exec(compile(block("python"), "app.py", "exec"), module.__dict__)
    bridge: handspan.Bridge = module.__dict__["bridge"]
    themes: list[str] = []

    def set_theme(args: dict[str, Any], _: Any) -> dict[str, Any]:
        themes.append(args["theme"])
        return {"theme": args["theme"]}

    tools = {"set_theme": ({"description": "Set the page's theme"}, set_theme)}
    async with Page(bridge, tools=tools) as page:
        end = await page.run("make it dark").finished
    assert themes == ["dark"]
    assert end["reason"] == "completed"


@pytest.mark.browser
def test_the_page_of_the_readme_runs_as_printed(browser: Any, tmp_path: Path) -> None:
    from tests.browser.stage import Stage

    module = types.ModuleType("app")
    exec(compile(block("python"), "app.py", "exec"), module.__dict__)
    with Stage(browser, module.__dict__["assistant"]).up() as here:
        page = here.page(more="&bare")
        printed = re.search(r"<script type=\"module\">(.*)</script>", block("html"), re.DOTALL)
        assert printed is not None
        code = printed.group(1).replace("127.0.0.1:8765", f"127.0.0.1:{here.address.port}")
        imports = re.sub(
            r"import \{ (.*?) \} from (\".*?\");", r"const { \1 } = await import(\2);", code
        )
        page.evaluate(f"async () => {{ {imports} }}")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
