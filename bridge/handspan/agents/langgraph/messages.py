"""The thread's history, and what came of calls, in LangChain's form; and what its messages say.

Pure. Owns the spelling alone; that the history is whole and in order is `handspan.model.history`'s.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from handspan.core.arguments import BadArguments, parse_arguments
from handspan.model import history as h
from handspan.model.names import Names

Json = Any
Block = dict[str, str]


def spelled(messages: Sequence[Any], names: Names, instructions: str = "") -> list[BaseMessage]:
    """The history (ag_ui.core messages) in LangChain's form, each with an id "history-N".

    All instructions stand in one system message in front, since some providers take no other.
    Thoughts are left out: a provider takes them only in its own form.
    """
    turns = h.turns(messages)
    told = [instructions, *(turn.text for turn in turns if isinstance(turn, h.SystemTurn))]
    system = "\n\n".join(text for text in told if text)
    made: list[BaseMessage] = [SystemMessage(system)] if system else []
    for turn in turns:
        made.extend(_turn(turn, names))
    for number, message in enumerate(made):
        message.id = f"history-{number}"  # known ids are not taken for news
    return made


def _turn(turn: h.Turn, names: Names) -> Iterator[BaseMessage]:
    match turn:
        case h.UserTurn(parts) if all(isinstance(part, h.Text) for part in parts):
            yield HumanMessage(h.text_of(parts))
        case h.UserTurn(parts):
            yield HumanMessage(content_blocks=[_block(part) for part in parts])
        case h.ModelTurn(text=text, calls=calls) if text or calls:
            yield AIMessage(text, tool_calls=[_call(call, names) for call in calls])
        case h.ResultsTurn(answers):
            yield from (_result(answer, names) for answer in answers)


def _call(call: h.Asked, names: Names) -> Any:
    """A call; arguments that are no object are {} (behaviour.md 2)."""
    said = parse_arguments(call.arguments)
    args = {} if isinstance(said, BadArguments) else said
    return {"type": "tool_call", "id": call.id, "name": names.theirs(call.name), "args": args}


def _result(answer: h.Answer, names: Names) -> ToolMessage:
    """A result of the past is told as text: a provider that takes no image there would refuse
    every request to come."""
    return ToolMessage(
        h.text_of(answer.parts),
        tool_call_id=answer.call_id,
        name=names.theirs(answer.name),
        status="error" if answer.failed else "success",
    )


def tool_content(parts: Iterable[h.Part]) -> str | list[Block]:
    """What a tool gives LangChain for these parts: a text, or content blocks where there are images
    or documents. What a tool message cannot hold is described.

    *Source:* langgraph.prebuilt.tool_node, TOOL_MESSAGE_BLOCK_TYPES.
    """
    shown = [part if _fits_a_tool(part) else h.Text(h.described(part)) for part in parts]
    if all(isinstance(part, h.Text) for part in shown):
        return h.text_of(shown)
    return [_block(part) for part in shown]


def _fits_a_tool(part: h.Part) -> bool:
    return isinstance(part, h.Text) or part.kind in ("image", "document")


def _block(part: h.Part) -> Any:
    """A part as a content block of LangChain's."""
    if isinstance(part, h.Text):
        return {"type": "text", "text": part.text}
    block: Block = {"type": "file" if part.kind == "document" else part.kind}
    block |= {"mime_type": part.mime_type} if part.mime_type else {}
    return block | ({"base64": part.data or ""} if part.url is None else {"url": part.url})


def said_in(message: AIMessage) -> Iterator[tuple[bool, str]]:
    """Text and thoughts of a message, in order: whether it is a thought, and the text."""
    if isinstance(message.content, str) and not message.additional_kwargs:
        yield from [(False, message.content)] if message.content else []
        return
    for block in message.content_blocks:
        if text := _reasoning_of(block):
            yield True, text
        elif block["type"] == "text" and block["text"]:
            yield False, block["text"]


def _reasoning_of(block: Any) -> str:
    if block["type"] == "non_standard":
        block = block["value"]
        return str(block.get("thinking") or "") if isinstance(block, dict) else ""
    return str(block.get("reasoning") or "") if block["type"] == "reasoning" else ""
