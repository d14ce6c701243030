"""The fold rules written down once more, as short as they can be said, to judge the vectors by.

The Python transcript and the page's reducer are written for speed; this one is written to be read.
It looks everything up from the beginning each time. *Source:* `protocol/README.md`, "The fold".
"""

from copy import deepcopy
from typing import Any

import jsonpatch

Message = dict[str, Any]


def fold(events: list[dict[str, Any]]) -> tuple[list[Message], Any]:
    """The messages and the state that a thread's events add up to."""
    messages: list[Message] = []
    state: Any = {}
    for event in deepcopy(events):
        match event["type"]:
            case "STATE_SNAPSHOT":
                state = event["snapshot"]
            case "STATE_DELTA":
                state = patched(state, event["delta"])
            case "MESSAGES_SNAPSHOT":
                messages = event["messages"]
            case _:
                fold_message(messages, event)
    return messages, state


def patched(value: Any, patch: Any) -> Any:
    try:
        return jsonpatch.apply_patch(value, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        return value


def find(messages: list[Message], message_id: str) -> Message | None:
    return next((message for message in messages if message["id"] == message_id), None)


def calls(message: Message) -> list[dict[str, Any]]:
    return message.get("toolCalls", [])


def find_call(messages: list[Message], call_id: str) -> dict[str, Any] | None:
    return next((c for m in messages for c in calls(m) if c["id"] == call_id), None)


def fold_message(messages: list[Message], event: dict[str, Any]) -> None:
    sub = {"subagentRunId": event["subagentRunId"]} if "subagentRunId" in event else {}
    match event["type"]:
        case "RUN_STARTED":
            messages.extend(event.get("input", {}).get("messages", []))
        case "TEXT_MESSAGE_START":
            role = event.get("role", "assistant")
            messages.append({"id": event["messageId"], "role": role, "content": "", **sub})
        case "REASONING_MESSAGE_START":
            messages.append({"id": event["messageId"], "role": "reasoning", "content": "", **sub})
        case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
            if (message := find(messages, event["messageId"])) is not None:
                message["content"] += event["delta"]
        case "TEXT_MESSAGE_END":
            message = find(messages, event["messageId"])
            empty = message is not None and message["role"] == "assistant"
            if empty and not message["content"] and not calls(message):
                messages.remove(message)
        case "TOOL_CALL_START":
            start_call(messages, event, sub)
        case "TOOL_CALL_ARGS":
            if (call := find_call(messages, event["toolCallId"])) is not None:
                call["function"]["arguments"] += event["delta"]
        case "TOOL_CALL_RESULT":
            insert_result(messages, event, sub)
        case "REASONING_ENCRYPTED_VALUE":
            look = find if event["subtype"] == "message" else find_call
            if (target := look(messages, event["entityId"])) is not None:
                target["encryptedValue"] = event["encryptedValue"]
        case "ACTIVITY_SNAPSHOT":
            show_activity(messages, event, sub)
        case "ACTIVITY_DELTA":
            if (message := find(messages, event["messageId"])) is not None:
                message["content"] = patched(message["content"], event["patch"])


def start_call(messages: list[Message], event: dict[str, Any], sub: dict[str, Any]) -> None:
    home_id = event.get("parentMessageId", event["toolCallId"])
    home = find(messages, home_id)
    if home is None:
        home = {"id": home_id, "role": "assistant", **sub}
        messages.append(home)
    function = {"name": event["toolCallName"], "arguments": ""}
    call = {"id": event["toolCallId"], "type": "function", "function": function}
    home.setdefault("toolCalls", []).append(call)


def insert_result(messages: list[Message], event: dict[str, Any], sub: dict[str, Any]) -> None:
    result = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
    result |= {"content": event["content"], **sub}
    if "metadata" in event:
        result["metadata"] = event["metadata"]
    for at, message in enumerate(messages):
        if any(call["id"] == event["toolCallId"] for call in calls(message)):
            at += 1
            while at < len(messages) and messages[at]["role"] == "tool":
                at += 1
            messages.insert(at, result)
            return
    messages.append(result)


def show_activity(messages: list[Message], event: dict[str, Any], sub: dict[str, Any]) -> None:
    shown = {"id": event["messageId"], "role": "activity"}
    shown |= {"activityType": event["activityType"], "content": event["content"], **sub}
    old = find(messages, event["messageId"])
    if old is None:
        messages.append(shown)
    elif event.get("replace") is not False:
        messages[messages.index(old)] = shown
