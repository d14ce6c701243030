"""A text frame is, byte for byte, what the websockets library would have written."""

import pytest
from websockets.frames import Frame, Opcode

from handspan.shell.framing import text_frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000, 3_000_000])
def test_a_frame_of_any_size_is_the_librarys_own(size: int) -> None:
    payload = b"x" * size
    assert text_frame(payload) == Frame(Opcode.TEXT, payload).serialize(mask=False)
