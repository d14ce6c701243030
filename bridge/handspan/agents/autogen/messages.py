"""The thread's history in AutoGen's form: as a model context, and as the task an agent is asked.

Pure. Owns the spelling alone; that the history is whole and in order is `handspan.model.history`'s.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from handspan.model import history as h
from handspan.model.names import Names


def task_of(messages: Sequence[Any], name: str, *, whole: bool) -> list[BaseChatMessage] | None:
    """What an agent of this name is asked: the user's message at the history's end, or with `whole`
    all that was said. None: nothing."""
    turns = h.turns(messages)
    asked = turns if whole else [turn for turn in turns[-1:] if isinstance(turn, h.UserTurn)]
    said = [turn for turn in asked if isinstance(turn, h.UserTurn | h.ModelTurn)]
    return [_chat_message(turn, name) for turn in said] or None


def _chat_message(turn: h.UserTurn | h.ModelTurn, name: str) -> BaseChatMessage:
    if isinstance(turn, h.ModelTurn):
        return TextMessage(content=turn.text, source=name)
    content = _content(turn)
    if isinstance(content, str):
        return TextMessage(content=content, source="user")
    return MultiModalMessage(content=content, source="user")


def spelled(messages: Sequence[Any], name: str, names: Names) -> list[LLMMessage]:
    """The history (ag_ui.core messages) as the model context of an agent of this name, without the
    user's message at its end. Thoughts are left out: they are a model's own."""
    turns = h.turns(messages)
    if turns and isinstance(turns[-1], h.UserTurn):
        turns.pop()
    return [message for turn in turns for message in _turn(turn, name, names)]


def _turn(turn: h.Turn, name: str, names: Names) -> Iterator[LLMMessage]:
    match turn:
        case h.SystemTurn(text):
            yield SystemMessage(content=text)
        case h.UserTurn():
            yield UserMessage(content=_content(turn), source="user")
        case h.ModelTurn(calls=()):
            yield from [AssistantMessage(content=turn.text, source=name)] if turn.text else []
        case h.ModelTurn():
            yield _asked(turn, name, names)
        case h.ResultsTurn(answers):
            results = [_answered(answer, names) for answer in answers]
            yield FunctionExecutionResultMessage(content=results)


def _asked(turn: h.ModelTurn, name: str, names: Names) -> AssistantMessage:
    """Calls; the text beside them is a thought to AutoGen, which its clients send as text."""
    calls = [
        FunctionCall(id=call.id, name=names.theirs(call.name), arguments=call.arguments or "{}")
        for call in turn.calls
    ]
    return AssistantMessage(content=calls, thought=turn.text or None, source=name)


def _answered(answer: h.Answer, names: Names) -> FunctionExecutionResult:
    return FunctionExecutionResult(
        content=h.text_of(answer.parts),
        name=names.theirs(answer.name),
        call_id=answer.call_id,
        is_error=answer.failed,
    )


def _content(turn: h.UserTurn) -> str | list[str | Image]:
    if all(isinstance(part, h.Text) for part in turn.parts):
        return h.text_of(turn.parts)
    return [_image(part) or h.described(part) for part in turn.parts]


def _image(part: h.Part) -> Image | None:
    """An image that AutoGen can hold; None: it is none, or elsewhere, or broken."""
    if not isinstance(part, h.Media) or part.kind != "image" or part.data is None:
        return None
    try:
        return Image.from_base64(part.data)
    except Exception:
        return None
