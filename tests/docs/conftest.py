"""The documentation's tests share the browser with those of the library."""

from tests.browser.conftest import browser

__all__ = ["browser"]
