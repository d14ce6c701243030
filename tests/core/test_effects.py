"""What must be done: orders that nobody changes, and that any copy equals (P15)."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from typing import get_args

import pytest
from tests.core.scenarios import KEY

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.arguments import BadArguments, ToolSpec
from handspan.core.parties import ANONYMOUS, Asker
from handspan_protocol import frames as f
from handspan_protocol.errors import CommandCode, PeerError
from handspan_protocol.tools import read_tool


@dataclass(frozen=True)
class Anything:
    """A schema that everything fits, and that equals its copies."""

    def problems(self, value):
        return ()


ASKER = Asker("a", "d 1")
VALUE = e.CallValue(call_id="c", name="t", outcome="ok", value=1)
OVER = e.RunValue(run_id="r", reason="completed", depth=0)
SPEC = ToolSpec(read_tool({"name": "t", "description": "does t"}), Anything())
ORDER = f.ToolCall(
    call_id="c",
    attempt=1,
    thread_id="t1",
    run_id="r",
    depth=0,
    name="t",
    args={},
    raw_args="{}",
    timeout_ms=1,
    revision=1,
)
BUSY = PeerError(CommandCode.BUSY, "no")
BROKEN = ValueError("broken")

STEP = e.StartStep(
    run_id="r",
    depth=0,
    agent="default",
    tools=(SPEC,),
    context=(),
    messages=({"id": "m", "role": "user"},),
    state=None,
    results=(VALUE,),
    forwarded_props=None,
    principal=ANONYMOUS,
)

OF_A_THREAD = [
    e.Record((e.Fact(KEY, "state", {}),)),
    e.Reply(ASKER, {"n": 1}),
    STEP,
    e.StopStep("r", 0),
    e.StartTool("c", "r", 0, "t", {"x": 1}),
    e.StopTool("c"),
    e.GiveValue("k", VALUE),
    e.GiveResult("k", OVER, ({"id": "m"},)),
    e.JudgeStops("r", 0, ((VALUE,), ())),
    e.JudgeRun("r", i.RunRequested(asker=ASKER)),
    e.JudgeCall(call_id="c", run_id="r", depth=0, name="t", args={}, spec=SPEC, asks=True),
    e.RepairArguments(
        call_id="c", run_id="r", depth=0, name="t", raw="{", bad=BadArguments("no"), spec=SPEC
    ),
    e.ReviseResult("r", 0, VALUE),
    e.ReviewStep(run_id="r", depth=0, calls=(VALUE,), finish_reason=None),
    e.StopHook("c"),
    e.Suggest(OVER, ()),
    e.StopSuggesting("r"),
    e.RunOver(ASKER, OVER),
    e.Broke(BROKEN),
    e.TellSession("a", s.RunCounted(KEY, 1, 0)),
    e.ThreadOver(),
]

OF_A_SESSION = [
    e.SendFrame(f.Ping()),
    e.SendCall(ORDER, 3),
    e.DropCall("c", f.ToolCancel(call_id="c", attempt=1, reason="aborted")),
    e.CloseSocket(1, 4409, "superseded"),
    e.OpenStream(KEY, "e", 3),
    e.CloseStream("t1"),
    e.TellThread(KEY, i.Deleted(), create=False),
    e.TellCall("c", i.CallRefused("a", "c", 1), "d 1"),
    e.AbortAnywhere(ASKER, "r"),
    e.ListThreads("d 1"),
    e.DeleteThread("d 1", "t1"),
    e.SessionOver(),
]

INSIDE = [VALUE, OVER, e.Fact(KEY, "state", {})]
"""What some of them carry."""


def test_every_order_of_a_thread_is_in_this_table_once():
    assert {type(one) for one in OF_A_THREAD} == set(get_args(e.ThreadEffect))
    assert len(OF_A_THREAD) == len(get_args(e.ThreadEffect))


def test_every_order_of_a_session_is_in_this_table_once():
    assert {type(one) for one in OF_A_SESSION} == set(get_args(e.SessionEffect))
    assert len(OF_A_SESSION) == len(get_args(e.SessionEffect))


@pytest.mark.parametrize(
    "order", [*OF_A_THREAD, *OF_A_SESSION, *INSIDE], ids=lambda order: type(order).__name__
)
def test_p15_an_order_cannot_be_changed_and_equals_what_came_over_a_network(order):
    assert is_dataclass(order)
    for field in fields(order):
        with pytest.raises(FrozenInstanceError):
            setattr(order, field.name, None)
    assert not hasattr(order, "__dict__")
    if not isinstance(order, e.Broke):  # an exception equals no other
        assert pickle.loads(pickle.dumps(order)) == order


DEFAULTS = [
    (VALUE, {"content": None, "code": None, "message": None}),
    (OVER, {"text": "", "output": None, "code": None, "message": None}),
    (e.Reply(ASKER), {"result": None, "error": None}),
    (STEP, {"parent": None}),
]


@pytest.mark.parametrize(("order", "usual"), DEFAULTS, ids=[type(c[0]).__name__ for c in DEFAULTS])
def test_what_is_not_said_is_the_usual_case(order, usual):
    assert {name: getattr(order, name) for name in usual} == usual


def test_p7_an_answer_and_a_refusal_are_not_equal():
    assert e.Reply(ASKER, error=BUSY) != e.Reply(ASKER)
    assert e.Reply(ASKER, error=BUSY) == e.Reply(ASKER, None, BUSY)
    assert e.StopTool("c") != e.StopHook("c")


@pytest.mark.parametrize(
    "made",
    [
        lambda: e.CallValue("c", "t", "ok"),
        lambda: e.RunValue("r", "completed", 0),
        lambda: e.ReviewStep("r", 0, (), None),
    ],
)
def test_an_order_of_many_parts_names_them(made):
    with pytest.raises(TypeError, match="positional"):
        made()
