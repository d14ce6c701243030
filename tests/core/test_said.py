"""What an agent says is data like any other input; the table of all is in `test_inputs`."""

from dataclasses import fields, is_dataclass
from typing import get_args

import pytest

from handspan.core import inputs as i
from handspan.core import said

NAMES = [name for name in vars(said) if is_dataclass(getattr(said, name))]


@pytest.mark.parametrize("name", NAMES)
def test_p15_it_is_an_input_of_a_thread_and_names_the_run_it_is_said_in(name):
    kind = getattr(said, name)
    assert getattr(i, name) is kind
    assert kind in get_args(i.ThreadInput)
    assert fields(kind)[0].name == "run_id"
