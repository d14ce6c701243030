"""axe-core on a page of the demo."""

import json
from pathlib import Path

from playwright.sync_api import Page
from tests.conftest import skip_or_fail

AXE = Path(__file__).parents[1] / "client" / "node_modules" / "axe-core" / "axe.min.js"


def faults(page: Page) -> list[str]:
    """What axe-core finds, a line a rule, with the elements; however small."""
    told = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{it['impact']}: {it['id']}: {json.dumps([node['target'] for node in it['nodes']])}"
        for it in told
    ]


def load_axe(page: Page) -> None:
    """Past the page's Content-Security-Policy, which lets in no script but its own."""
    if not AXE.exists():
        skip_or_fail("node", "npm package not installed: axe-core")
    page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
