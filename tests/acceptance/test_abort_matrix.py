"""P5 at every place and every moment: one terminal event, and nothing of it goes on."""

import pytest
from tests.acceptance.abort_cells import CELLS, MOMENTS, PLACES
from tests.acceptance.abort_stage import stage


@pytest.mark.parametrize(("place", "moment"), CELLS)
async def test_an_abort_ends_the_run_and_what_is_at_work_and_leaves_the_thread_sound(
    place: str, moment: str
) -> None:
    """P1, P5, P6; behaviour 4."""
    async with stage(PLACES[place], MOMENTS[moment]) as set:
        await set.reach()
        await set.abort()
        await set.checked()
