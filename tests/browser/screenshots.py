"""Makes the pictures of the demo page in `docs/images`: `python -m tests.browser.screenshots`.

Not a test: whoever changes the page's looks runs it, looks at them, and commits them.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.conftest import FLAGS
from tests.browser.visit import demo
from tests.conftest import find_chromium

from handspan.demo import demo_bridge

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"

SCREENS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}

SAID = ("call make_coffee with cups 2", "plan a party")


def take(browser: Any, address: str, screen: str, theme: str) -> None:
    """One picture, after a small conversation."""
    context = browser.new_context(
        **SCREENS[screen], color_scheme=theme, reduced_motion="reduce", locale="en"
    )
    page = context.new_page()
    page.goto(address)
    page.locator("body[data-status=open]").wait_for()
    log = page.get_by_role("log")
    for count, text in enumerate(SAID, 1):
        page.get_by_role("textbox", name="Message").fill(text)
        page.get_by_role("button", name="Send").click()
        log.get_by_text("completed").nth(count - 1).wait_for()
    page.get_by_role("list", name="Suggestions").get_by_role("button").first.wait_for()
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.screenshot(path=IMAGES / f"demo-{screen}-{theme}.png")
    context.close()


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        with demo(browser, demo_bridge(pause_s=0)) as here:
            for screen in SCREENS:
                for theme in ("light", "dark"):
                    take(browser, str(here.address), screen, theme)
        browser.close()


if __name__ == "__main__":
    main()
