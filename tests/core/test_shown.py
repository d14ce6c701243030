"""What an agent is shown is what was there when its step began, however late it looks."""

import pytest

from handspan.core.shown import Shown
from handspan.core.transcript import Transcript


def history(count: int = 3) -> Transcript:
    made = Transcript()
    for n in range(count):
        made.append({"id": f"m{n}", "role": "user", "content": str(n)})
    return made


def ids(shown) -> list[str]:
    return [message["id"] for message in shown]


def say(transcript: Transcript, message: str, **more: str) -> None:
    for kind in ("START", "CONTENT", "END"):
        event = {"type": f"TEXT_MESSAGE_{kind}", "messageId": message, "delta": "x", **more}
        transcript.apply(event)


def test_what_comes_later_is_not_seen_though_nobody_has_looked_yet():
    transcript = history()
    shown = transcript.shown_to(None)
    say(transcript, "later")
    assert ids(shown) == ["m0", "m1", "m2"]
    assert ids(transcript.shown_to(None)) == ["m0", "m1", "m2", "later"]


def test_a_history_that_is_replaced_or_cut_is_another():
    transcript = history()
    before = transcript.shown_to(None)
    transcript.cut_behind("m0")
    say(transcript, "new")
    assert ids(before) == ["m0", "m1", "m2"]
    assert ids(transcript.shown_to(None)) == ["m0", "new"]


def test_results_of_calls_that_are_made_later_come_behind_their_own_messages():
    transcript = history(1)
    shown = transcript.shown_to(None)
    transcript.apply({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "t"})
    transcript.apply({"type": "TOOL_CALL_END", "toolCallId": "c"})
    result = {"type": "TOOL_CALL_RESULT", "messageId": "r", "toolCallId": "c", "content": "ok"}
    transcript.apply(result)
    assert ids(shown) == ["m0"]


def test_p8_messages_of_sub_runs_are_theirs_alone():
    transcript = history(1)
    say(transcript, "sub", subagentRunId="r2")
    say(transcript, "own")
    assert ids(transcript.shown_to(None)) == ["m0", "own"]
    assert ids(transcript.shown_to("r2")) == ["sub"]


def test_it_is_read_like_a_tuple():
    messages = [{"id": "a"}, {"id": "b"}]
    shown = Shown(messages, 2)
    assert (len(shown), shown[-1], shown[:1]) == (2, {"id": "b"}, ({"id": "a"},))
    assert shown == tuple(messages)
    assert shown == Shown(list(messages), 2)
    assert shown != Shown(messages, 1)
    assert shown != messages
    assert repr(shown) == repr(tuple(messages))
    with pytest.raises(TypeError):
        hash(shown)
