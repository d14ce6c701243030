"""A real server that is restarted under many pages: P2, P9, P16. The times are not asserted; the
figures of the full form are in tests/README.md.
"""

import asyncio
from pathlib import Path

import pytest
from tests.acceptance.processes import needs_fork
from tests.conftest import FULL_FORM
from tests.restart_load import restarted

pytestmark = needs_fork

PAGES = 200 if FULL_FORM else 15


@pytest.mark.parametrize("how", ["kill", "term"])
def test_every_page_is_back_in_its_run_and_nothing_is_lost_or_doubled(
    tmp_path: Path, how: str
) -> None:
    if how == "term" and not FULL_FORM:
        pytest.skip("full form only: make long")
    told = asyncio.run(restarted(tmp_path, pages=PAGES, how=how))
    assert (told.resumed, told.completed) == (PAGES, PAGES), told
    assert (told.doubled, told.broken) == (0, 0), told
