"""Ids of calls that come again: each call has the arguments that the model wrote for it (P3)."""

from typing import Any

import pytest

pytest.importorskip("langgraph")
pytest.importorskip("langchain")

from langchain_core.messages import AIMessage

from handspan.agents.langgraph.step import Step
from handspan.model.history import Asked

Json = Any


def call(call_id: str, n: int) -> Json:
    return {"type": "tool_call", "id": call_id, "name": "go", "args": {"n": n}}


def step() -> Step:
    made = Step.__new__(Step)
    made.asked = {}
    return made


def test_p3_an_id_that_comes_twice_in_a_turn_tells_no_arguments() -> None:
    one, two, at = call("x", 1), call("x", 2), step()
    at.note(AIMessage("", tool_calls=[one, two]), [Asked("x", "go", '{"n":1}')])
    assert [at.arguments_of(each) for each in (one, two)] == [{"n": 1}, {"n": 2}]


def test_p3_an_id_of_an_earlier_turn_tells_nothing_of_a_later_one() -> None:
    first, later, at = call("x", 1), call("x", 2), step()
    at.note(AIMessage("", tool_calls=[first]), [Asked("x", "go", '{"n":1}')])
    assert at.arguments_of(first) == '{"n":1}'
    at.note(AIMessage("", tool_calls=[later]), [])
    assert at.arguments_of(later) == {"n": 2}
