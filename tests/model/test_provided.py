"""Calls that a library carries out itself, as events."""

from types import SimpleNamespace

from handspan.model.provided import answered, called, is_the_pages


def test_a_call_is_shown_with_its_arguments_and_its_result() -> None:
    events = [*called("c1", "price", '{"sku":"a"}'), answered("c1", "3")]
    assert [event.model_dump(by_alias=True, exclude_none=True) for event in events] == [
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "price"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"sku":"a"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "c1-result",
            "toolCallId": "c1",
            "content": "3",
        },
    ]


def test_a_name_is_the_pages_as_long_as_the_page_has_it() -> None:
    tools = [SimpleNamespace(name="price")]
    run = SimpleNamespace(current_tools=lambda: tools)
    assert is_the_pages(run, "price")
    assert not is_the_pages(run, "pric")
    tools.clear()
    assert not is_the_pages(run, "price")
