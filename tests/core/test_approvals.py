"""A human is asked: bound to call, name and arguments, used once, closed when in doubt (P10)."""

import pytest
from tests.core.builders import spec, takes, tool

from handspan.core import effects as e

ASK = tool("ask", approval="always")


def asked(make, *more, server=(), **policy):
    world = make(server=server, **policy)
    tab = world.tab("a", tools=[ASK, *more])
    run = tab.run()
    world.call(run, "ask", {"x": 1})
    world.end(run)
    return world, tab, run


def test_a_call_waits_for_the_human_and_then_runs_once(make):
    """C103."""
    world, tab, run = asked(make)
    (question,) = tab.questions
    assert (question.name, question.args, question.expires_ms) == ("ask", {"x": 1}, 600_000)
    assert tab.calls == []
    assert tab.approve(question) == "applied"
    assert tab.result(tab.call("ask"), "done") == "applied"
    assert len(world.steps(run)) == 2
    assert [k for k in world.kinds() if k.startswith("call")] == [
        "call waiting_approval",
        "call dispatched",
        "call settled",
    ]


def test_p2_the_first_answer_decides_and_the_second_is_told(make):
    """C101."""
    world, tab, _ = asked(make)
    other = world.tab("b")
    (question,) = tab.questions
    assert other.questions[0].digest == question.digest
    assert tab.approve(question) == "applied"
    assert tab.approve(question) == "duplicate"
    assert other.approve(question, False) == "late"
    assert other.approve(question, digest="another") == "late"
    assert len(tab.calls) == 1
    tab.result(tab.calls[0])
    assert other.approve(question, False) == "late"


def test_a_denied_call_is_told_to_the_model_once(make):
    """C102."""
    world, tab, run = asked(make)
    assert tab.approve(tab.questions[0], False, reason="not today") == "applied"
    assert (world.outcomes(), tab.calls) == (["denied"], [])
    assert "not today" in world.results()[0]
    assert len(world.steps(run)) == 2


def test_a_question_that_nobody_answers_expires(make):
    world, tab, _ = asked(make, approval_timeout=10)
    world.wait(10)
    assert world.outcomes() == ["approval_expired"]
    assert tab.approve(tab.questions[0]) == "late"


def test_the_clock_of_the_call_stands_while_a_human_is_asked(make):
    world, tab, _ = asked(make)
    world.wait(500)
    tab.approve(tab.questions[0])
    world.wait(59)
    assert world.outcomes() == []
    world.wait(2)
    assert world.outcomes() == ["timeout"]


def test_p3_edited_arguments_are_checked_again(make):
    world = make()
    tab = world.tab(tools=[tool("ask", approval="always", parameters=takes("x", x="integer"))])
    run = tab.run()
    for raw in ('{"x":1}', '{"x":2}'):
        world.call(run, "ask", raw)
    world.end(run)
    first, second = tab.questions
    tab.approve(first, args={"x": 10})
    assert tab.calls[0].args == {"x": 10}
    tab.approve(second, args={"x": "20"})
    tab.result(tab.calls[0])
    assert world.outcomes() == ["ok", "invalid_arguments"]


def test_p3_edited_arguments_are_what_another_page_is_given(make):
    """The page that has the tool goes away between the answer and the dispatch."""
    world = make()
    fields = {"approval": "always", "parameters": takes("x", x="integer")}
    one = world.tab("a", tools=[tool("t"), tool("ask", **fields)])
    two = world.tab("b", tools=[tool("ask", **fields)])
    run = one.run()
    world.call(run, "t")
    world.call(run, "ask", '{"x":1}')
    world.end(run)
    one.approve(one.questions[0], args={"x": 5})
    one.tools(tool("t"))
    assert two.call("ask").args == {"x": 5}


def test_three_questions_at_once_are_answered_in_any_order(make):
    """C107, C106."""
    world = make()
    tab = world.tab(tools=[tool("ask", approval="always", readOnly=True)])
    run = tab.run()
    for n in range(3):
        world.call(run, "ask", {"n": n})
    world.end(run)
    assert len({question.digest for question in tab.questions}) == 3
    for question in reversed(tab.questions):
        tab.approve(question)
    assert [call.args["n"] for call in tab.calls] == [2, 1, 0]
    for call in tab.calls:
        tab.result(call, call.args["n"])
    assert world.results() == ["0", "1", "2"]


def test_a_changed_definition_closes_the_question_and_asks_anew(make):
    """C151."""
    _world, tab, _ = asked(make)
    (old,) = tab.questions
    tab.tools(tool("ask", approval="always", title="another"))
    new = tab.questions[-1]
    assert new.digest != old.digest
    assert tab.approve(old) == "late"
    assert tab.approve(new) == "applied"


def test_a_tool_that_goes_while_a_human_is_asked_settles_the_call(make):
    world, tab, _ = asked(make)
    tab.tools()
    assert world.outcomes() == ["unavailable"]
    assert tab.approve(tab.questions[0]) == "late"


def test_remember_covers_this_definition_in_this_thread(make):
    """C105."""
    world, tab, run = asked(make)
    tab.approve(tab.questions[0], remember=True)
    tab.result(tab.calls[0])
    world.call(run, "ask", {"x": 2})
    world.end(run)
    assert (len(tab.questions), len(tab.calls)) == (1, 2)
    tab.tools(tool("ask", approval="always", title="another"))
    tab.result(tab.calls[1])
    world.call(run, "ask", {"x": 3})
    world.end(run)
    assert (len(tab.questions), len(tab.calls)) == (2, 2)


@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({}, False),
        ({"approval": "never"}, False),
        ({"approval": "always"}, True),
        ({"consequential": True}, True),
        ({"consequential": True, "approval": "never"}, False),
    ],
)
def test_a_tool_says_whether_a_human_is_asked(make, fields, asks):
    world = make()
    tab = world.tab(tools=[tool("t", **fields)])
    run = tab.run()
    world.call(run, "t")
    world.end(run)
    assert (len(tab.questions), len(tab.calls)) == ((1, 0) if asks else (0, 1))


def test_a_server_tool_may_be_asked_for_too(make):
    world = make(server=[spec("srv", approval="always")])
    tab = world.tab()
    run = tab.run()
    world.call(run, "srv")
    world.end(run)
    assert world.of(e.StartTool) == []
    tab.approve(tab.questions[0])
    assert len(world.of(e.StartTool)) == 1


def test_p7_nobody_answers_for_a_call_that_was_not_asked_about(make):
    world = make()
    tab = world.tab(tools=[tool("t"), ASK])
    run = tab.run()
    world.call(run, "t")
    world.call(run, "ask")
    world.end(run)
    (question,) = tab.questions
    assert tab.approve(question, call_id=tab.call("t").call_id) == "unknown_call"
    assert tab.approve(question, call_id="nobody") == "unknown_call"


def test_a_page_that_comes_later_is_asked_once(make):
    """protocol.md 2: every open question is sent again, and once is enough."""
    world, tab, _ = asked(make)
    late = world.tab("b")
    assert len(late.questions) == 1
    assert late.questions[0].digest == tab.questions[0].digest


def test_a_page_that_comes_back_is_asked_again(make):
    world, tab, _ = asked(make)
    tab.drop()
    world.wait(5)
    tab.back()
    assert len(tab.questions) == 2
    assert tab.questions[1].expires_ms == 595_000
    tab.approve(tab.questions[1])
    assert tab.names == ["ask"]


@pytest.mark.parametrize("leaves", ["bye", "drop", "close"])
def test_a_call_whose_page_left_while_a_human_was_asked_does_not_hang(make, leaves):
    world = make()
    asker, tab = world.tab("a"), world.tab("b", tools=[ASK])
    run = asker.run()
    world.call(run, "ask")
    world.end(run)
    if leaves == "close":
        tab.close("t1")
    else:
        getattr(tab, leaves)()
    world.wait(40)
    asker.approve(asker.questions[0])
    world.wait(31)
    assert world.outcomes() == ["no_client"]
    assert len(world.steps(run)) == 2


def test_a_call_whose_page_left_while_a_human_was_asked_goes_to_another(make):
    world = make()
    asker, tab, other = world.tab("a"), world.tab("b", tools=[ASK]), world.tab("c", tools=[ASK])
    run = asker.run()
    world.call(run, "ask")
    world.end(run)
    tab.bye()
    other.bye()
    third = world.tab("d", tools=[ASK])
    asker.approve(asker.questions[0])
    assert third.names == ["ask"]


def test_calls_behind_one_that_waits_for_a_human_keep_their_order(make):
    world = make()
    tab = world.tab(tools=[ASK, tool("t")])
    run = tab.run()
    world.call(run, "ask")
    world.call(run, "t")
    world.end(run)
    assert tab.calls == []
    tab.approve(tab.questions[0])
    assert tab.names == ["ask"]
    tab.result(tab.calls[0])
    assert tab.names == ["ask", "t"]


def test_a_page_that_comes_later_is_asked_about_what_is_open_and_nothing_else(make):
    """protocol.md 2: a call that no human must look at is no question."""
    world = make()
    tab = world.tab(tools=[ASK, tool("t")])
    run = tab.run()
    world.call(run, "t")
    world.call(run, "ask")
    world.end(run)
    late = world.tab("b")
    assert [question.name for question in late.questions] == ["ask"]
