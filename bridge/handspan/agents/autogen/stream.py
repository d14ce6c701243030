"""What an agent's stream tells that its model did not: handoffs, summaries, outputs, other agents.

Deliberately leaves alone what is heard already: an agent whose model has an `ear` says nothing new
in its messages.
"""

import uuid
from contextlib import aclosing
from typing import Any

from ag_ui.core import ActivitySnapshotEvent
from autogen_agentchat.base import TaskResult, Team
from autogen_agentchat.messages import (
    BaseChatMessage,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    StructuredMessage,
    ThoughtEvent,
    ToolCallSummaryMessage,
)

from handspan.model.voice import Turn

from .messages import task_of
from .step import Step


async def listen(agent: Any, step: Step) -> None:
    """Run the agent, or team, on the thread's newest user message, and say what nobody heard yet.

    An agent that has no model context is asked the whole history.

    Raises:
        Exception: the agent did.
    """
    is_team = isinstance(agent, Team)
    name = "assistant" if is_team else agent.name
    whole = not is_team and not hasattr(agent, "model_context")
    stream = agent.run_stream(
        task=task_of(step.run.messages, name, whole=whole),
        cancellation_token=step.token,
        output_task_messages=False,
    )
    listener = _Listener(step, named=is_team)
    async with aclosing(stream):
        async for message in stream:
            if not isinstance(message, TaskResult):
                listener.hear(message)


class _Listener:
    """Says what an agent's messages tell."""

    def __init__(self, step: Step, *, named: bool) -> None:
        """`named`: there are several who speak."""
        self._step = step
        self._named = named
        self._turns: dict[str, Turn] = {}
        """By the id of the whole message, or by who speaks."""

    def hear(self, message: Any) -> None:
        match message:
            case HandoffMessage():
                self._step.voice.say(_handoff(message))
                return
            case ToolCallSummaryMessage():
                self._whole(message)
            case StructuredMessage():
                self._step.run.output = message.content.model_dump(mode="json")
        if message.source not in self._step.heard_agents:
            self._hear_news(message)

    def _hear_news(self, message: Any) -> None:
        match message:
            case ModelClientStreamingChunkEvent():
                self._turn(message, message.full_message_id).say(message.content)
            case ThoughtEvent():
                self._step.voice.say(self._step.run.reasoning(message.content))
            case BaseChatMessage() if not isinstance(message, ToolCallSummaryMessage):
                self._whole(message)
        if (usage := message.models_usage) is not None:
            self._step.run.count_usage(
                input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens
            )

    def _whole(self, message: Any) -> None:
        """A message as a whole, unless it was streamed."""
        turn = self._turn(message, message.id)
        turn.say("" if turn.text else message.to_text())
        turn.end()

    def _turn(self, message: Any, key: str | None) -> Turn:
        name = message.source if self._named else None
        return self._turns.setdefault(key or message.source, Turn(self._step.voice, name))


def _handoff(message: HandoffMessage) -> ActivitySnapshotEvent:
    content = {"from": message.source, "to": message.target}
    return ActivitySnapshotEvent(
        message_id=f"handoff-{uuid.uuid4().hex}", activity_type="handoff", content=content
    )
