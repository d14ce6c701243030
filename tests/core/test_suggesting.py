"""Whose suggestions are wanted: those of the newest run, until another begins."""

import pytest
from tests.core.scenarios import a_space, logged

from handspan.core.effects import RunValue, StopSuggesting, Suggest
from handspan.core.inputs import SuggestionsMade
from handspan.core.suggesting import Suggesting
from handspan_protocol.ids import RunId

R1 = RunId("r1")
VALUE = RunValue(run_id=R1, reason="completed", depth=0, text="hi")


def thinking():
    space = a_space()
    space.transcript.append({"id": "u", "role": "user", "content": "hi"})
    space.transcript.append({"id": "s", "role": "user", "content": "x", "subagentRunId": "sub"})
    suggesting = Suggesting(space, {"suggest"})
    suggesting.begin(VALUE)
    return space, suggesting


def test_who_thinks_is_shown_the_run_and_its_own_messages():
    space, suggesting = thinking()
    shown = ({"id": "u", "role": "user", "content": "hi"},)
    assert space.effects == [Suggest(VALUE, shown)]
    assert suggesting.of == R1


def test_nobody_is_asked_where_nobody_registered():
    space = a_space()
    suggesting = Suggesting(space, {"before_run"})
    suggesting.begin(VALUE)
    suggesting.stop()
    assert (space.effects, suggesting.of) == ([], None)


def test_what_was_thought_of_is_told_to_everybody_once():
    space, suggesting = thinking()
    suggesting.made(SuggestionsMade(R1, ("more", "less")))
    suggesting.made(SuggestionsMade(R1, ("again",)))
    assert space.suggestions == ("more", "less")
    value = {"runId": "r1", "items": ["more", "less"]}
    assert logged(space) == [{"type": "CUSTOM", "name": "handspan.suggestions", "value": value}]


@pytest.mark.parametrize("late", [R1, RunId("another")])
def test_p5_what_comes_when_nobody_wants_it_any_more_says_nothing(late):
    space, suggesting = thinking()
    suggesting.stop()
    suggesting.stop()
    assert space.effects[1:] == [StopSuggesting(R1)]
    suggesting.made(SuggestionsMade(late, ("late",)))
    assert (space.suggestions, logged(space)) == ((), [])


def test_suggestions_of_another_run_are_not_those_that_are_waited_for():
    space, suggesting = thinking()
    suggesting.made(SuggestionsMade(RunId("another"), ("late",)))
    assert (suggesting.of, space.suggestions) == (R1, ())
