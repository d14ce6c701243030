"""What the machine of `test_machine` draws from: worlds, tools, words, and the list of its actions.

Weights say how often something is tried where it means something; what it needs is named there.
"""

from typing import Any

from hypothesis import strategies as st
from tests.core.builders import takes, tool

from handspan_protocol.ids import RunId

THREADS = ("t1", "t2")
AGENTS = ("default", "other")
SERVER = ("srv", "srv_ask")
HOOKS = ("before_run", "before_call", "repair_arguments", "after_call", "after_step", "suggest")
PAGE_TOOLS = {
    "plain": {},
    "again": {"idempotent": True},
    "look": {"readOnly": True},
    "ask": {"approval": "always"},
    "ask_look": {"approval": "always", "readOnly": True},
    "side": {"parallel": True},
    "last": {"followUp": False},
    "picky": {"parameters": takes("x", x="integer"), "timeoutMs": 5_000},
    "scoped": {"agent": "other"},
    "*": {},
}
NAMES = (*PAGE_TOOLS, *SERVER, "nobody_has_it")
ARGS = ("{}", "", "null", '{"x":1}', '{ "x": 1.0 }', '{"x":"1"}', "{", "[1]", '{"x":1}{"x":2}')
ENDS = (None, None, None, "stop", "tool_calls", "length")
WAITS = (0.05, 0.05, 1.0, 1.0, 5.0, 29.0, 31.0, 61.0, 125.0, 601.0)

at = st.integers(0, 50)
tabs = st.integers(0, 2)
threads = st.sampled_from(THREADS)
runs = st.sampled_from([RunId("")])
"""A run, or a sub-run; which ones there are is known when it is drawn."""
busy = st.sampled_from(("reject", "queue", "replace"))
hooks = st.one_of(
    st.just(()),
    st.lists(st.sampled_from(HOOKS), max_size=3, unique=True).map(tuple),
    st.just(HOOKS),
)
toolsets = st.lists(
    st.tuples(st.sampled_from(sorted(PAGE_TOOLS)), st.sampled_from(("v1", "v1", "v2"))),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one[0],
)
ids = st.sampled_from(("x", "y", "c-1", "m-1", "r-1", ""))


def event(*kinds: str, **fields: Any) -> Any:
    """AG-UI events of these types; each field is a strategy, or a value."""
    drawn = {k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fields.items()}
    return st.fixed_dictionaries({"type": st.sampled_from(kinds), **drawn})


delta = st.sampled_from(("", "a", "é"))
events = st.one_of(
    event("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", messageId=ids),
    event(
        *("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK"),
        messageId=ids,
        delta=delta,
    ),
    event(
        *("REASONING_START", "REASONING_END", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END"),
        messageId=ids,
    ),
    event(
        *("TOOL_CALL_START", "TOOL_CALL_CHUNK"),
        toolCallId=ids,
        toolCallName=st.sampled_from(NAMES),
    ),
    event(
        *("TOOL_CALL_ARGS", "TOOL_CALL_CHUNK"),
        toolCallId=ids,
        delta=st.sampled_from(("{", "}", '"x":1', "")),
    ),
    event("TOOL_CALL_END", toolCallId=ids),
    event("TOOL_CALL_RESULT", toolCallId=ids, content="theirs"),
    event("ACTIVITY_SNAPSHOT", messageId=ids, activityType="plan", content={"n": 1}),
    event(
        "ACTIVITY_DELTA",
        messageId=ids,
        activityType="plan",
        patch=[{"op": "add", "path": "/m", "value": 2}],
    ),
    event(
        "REASONING_ENCRYPTED_VALUE",
        subtype=st.sampled_from(("message", "tool-call")),
        entityId=ids,
        encryptedValue="secret",
    ),
    event("STATE_DELTA", delta=[{"op": "add", "path": "/n", "value": 1}]),
    event("RUN_FINISHED", threadId="t1", runId="theirs"),
    event("STEP_STARTED", stepName="theirs"),
    event("CUSTOM", name="theirs", value=None),
)


ACTIONS: dict[str, tuple[int, str | None, dict[str, Any]]] = {}
"""What may happen: the method; how often, where it means something, its arguments."""


def does(weight: int, needs: str | None, **arguments: Any) -> Any:
    """Registers an action; `needs` names what must be there (see `Machines.there_is`)."""

    def register(method: Any) -> Any:
        ACTIONS[method.__name__] = (weight, needs, arguments)
        return method

    return register


def made(chosen: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [tool(name, **PAGE_TOOLS[name], title=version) for name, version in chosen]
