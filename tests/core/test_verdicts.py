"""A verdict holds for the definition that was judged, and for no other (P10)."""

from typing import Any

from tests.core.builders import tool

from handspan.core import effects as e


def test_p10_what_a_hook_had_a_human_approve_is_not_carried_out_in_another_definition(
    make: Any,
) -> None:
    """As it is where the tool itself wishes to be approved: `unavailable`, call it again."""
    world = make(hooks=["before_call"])
    tab = world.tab("a", tools=[tool("first"), tool("t")])
    run = world.start()
    for name in ("first", "t"):
        world.call(run, name)
    world.end(run)
    first, second = world.of(e.JudgeCall)
    world.judged(first.call_id, "allow")
    world.judged(second.call_id, "ask")
    assert tab.approve(tab.questions[0]) == "applied"
    tab.tools(tool("first"), tool("t", title="another one"))
    tab.result(tab.call("first"))
    assert tab.names == ["first"]
    assert world.outcomes() == ["ok", "unavailable"]
