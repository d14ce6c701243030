"""A history as turns: valid whatever came (P1; C048, C056 to C058)."""

from itertools import zip_longest
from typing import Any

from ag_ui.core import Message
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from handspan.model.history import (
    NO_RESULT,
    Answer,
    Asked,
    Media,
    ModelTurn,
    ResultsTurn,
    SystemTurn,
    Text,
    Thought,
    UserTurn,
    described,
    text_of,
    turns,
)

Json = Any
MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def told(*messages: Json) -> list[Any]:
    named = [{"id": f"m{n}", **message} for n, message in enumerate(messages)]
    return turns(MESSAGES.validate_python(named))


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


def model(content: str | None = None, *calls: str, **more: Json) -> Json:
    function = {"arguments": "{}"}
    asked = [
        {"id": c, "type": "function", "function": {**function, "name": f"t{c}"}} for c in calls
    ]
    said = {"role": "assistant", "content": content, **more}
    return {**said, "toolCalls": asked} if asked else said


def result(call: str, content: Json = "ok", **more: Json) -> Json:
    return {"role": "tool", "toolCallId": call, "content": content, **more}


def answer(call: str, *parts: Any, failed: bool = False) -> Answer:
    return Answer(call, f"t{call}", parts, failed)


def asked(call: str) -> Asked:
    return Asked(call, f"t{call}", "{}")


def test_a_history_in_order_stays_as_it_is() -> None:
    failed = {"metadata": {"handspan": {"outcome": "error", "code": "timeout"}}}
    history = told(
        user("hi"),
        {"role": "reasoning", "content": "hm", "encryptedValue": "sealed"},
        model("Yes. ", "1", "2"),
        result("1"),
        result("2", "late", **failed),
        model("Done."),
    )
    assert history == [
        UserTurn((Text("hi"),)),
        ModelTurn((Thought("m1", "hm", "sealed"),), "Yes. ", (asked("1"), asked("2"))),
        ResultsTurn((answer("1", Text("ok")), answer("2", Text("late"), failed=True))),
        ModelTurn(text="Done."),
    ]


def test_results_come_right_behind_their_calls_in_their_order() -> None:
    history = told(model(None, "1", "2"), result("2"), user("and?"), result("1"))
    assert history[1] == ResultsTurn((answer("1", Text("ok")), answer("2", Text("ok"))))
    assert history[2] == UserTurn((Text("and?"),))


def test_p1_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_left_out() -> None:
    history = told(model(None, "1"), user("and?"), result("9"))
    assert history[1] == ResultsTurn((answer("1", Text(NO_RESULT), failed=True),))
    assert history[2:] == [UserTurn((Text("and?"),))]


def test_c058_what_is_empty_is_left_out() -> None:
    assert told(user(""), user("  "), model(""), model("\n"), user([])) == []
    assert told(model(" ", "1"), result("1", "")) == [
        ModelTurn(calls=(asked("1"),)),
        ResultsTurn((answer("1"),)),
    ]


def test_thoughts_after_which_nothing_was_said_stand_alone() -> None:
    thought = {"role": "reasoning", "content": "hm"}
    alone = ModelTurn(thoughts=(Thought("m0", "hm"),))
    assert told(thought, user("go on")) == [alone, UserTurn((Text("go on"),))]
    assert told(thought) == [alone]


def test_activities_are_not_for_a_model_and_instructions_are() -> None:
    activity = {"role": "activity", "activityType": "x", "content": {}}
    system = {"role": "system", "content": "be kind"}
    assert told(activity, system, {"role": "developer", "content": ""}) == [SystemTurn("be kind")]


def test_parts_are_texts_or_media() -> None:
    data = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": data},
        {"type": "document", "source": {"type": "url", "value": "https://x.test/a.pdf"}},
        {"type": "audio", "source": {"type": "file", "value": "f1", "provider": "openai"}},
        {"type": "text", "text": ""},
    ]
    image, document = (
        Media("image", "image/png", "aGk="),
        Media("document", url="https://x.test/a.pdf"),
    )
    file = Text("[audio: a file of openai]")
    assert told(user(parts)) == [UserTurn((Text("look"), image, document, file))]
    assert described(image) == "[image/png, 2 bytes]"
    assert described(document) == "[document at https://x.test/a.pdf]"
    assert text_of([Text("a"), image]) == "a\n[image/png, 2 bytes]"


IDS = st.sampled_from("1234")
CALLS = st.lists(IDS, max_size=2, unique=True)
ANY = st.one_of(
    st.builds(user, st.sampled_from(["", "hi"])),
    st.builds(lambda text, calls: model(text, *calls), st.sampled_from(["", "so"]), CALLS),
    st.builds(result, IDS),
    st.just({"role": "reasoning", "content": "hm"}),
)


@given(st.lists(ANY, max_size=12))
def test_p1_whatever_came_each_call_is_answered_at_once_in_order(messages: list[Json]) -> None:
    history = told(*messages)
    for turn, after in zip_longest(history, history[1:]):
        calls = [call.id for call in turn.calls] if isinstance(turn, ModelTurn) else []
        if calls:
            assert isinstance(after, ResultsTurn)
            assert [each.call_id for each in after.answers] == calls
        elif isinstance(turn, ModelTurn):
            assert turn.text or turn.thoughts
        assert not isinstance(after, ResultsTurn) or calls
