"""The door to the frames: it leads to all of them, and to nothing that is not on the wire."""

from dataclasses import is_dataclass
from types import ModuleType
from typing import get_args

import pytest

from handspan_protocol import frames, page_frames, parts, server_frames


@pytest.mark.parametrize("module", [parts, page_frames, server_frames])
def test_every_frame_and_part_is_behind_the_door(module):
    described = {
        name
        for name, kind in vars(module).items()
        if is_dataclass(kind) and kind.__module__ == module.__name__
    }
    assert described
    assert described <= set(frames.__all__)


@pytest.mark.parametrize("union", ["PageFrame", "Command", "Notice", "ServerFrame"])
def test_every_member_of_a_union_is_behind_the_door(union):
    members = get_args(getattr(frames, union))
    assert members
    assert all(getattr(frames, member.__name__) is member for member in members)


def test_what_is_behind_the_door_is_what_the_modules_have():
    homes = [vars(module) for module in (parts, page_frames, server_frames)]
    for name in frames.__all__:
        assert any(home.get(name) is getattr(frames, name) for home in homes), name


def test_everything_imported_is_exported():
    names = {
        name
        for name, value in vars(frames).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert names == set(frames.__all__)
