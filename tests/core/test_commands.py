"""Each command of a page: what it tells whom, and what it is answered at once."""

from dataclasses import replace
from typing import get_args

import pytest
from ag_ui.core import ContentPart
from pydantic import TypeAdapter
from tests.core.builders import tool
from tests.core.test_session import SEEN, T1, T2, open_page, refused, reply, tells

from handspan.core import effects as e
from handspan.core import inputs as i
from handspan.core import session_inputs as s
from handspan.core.commands import COMMANDS, answer_of
from handspan.core.parties import Asker, Principal
from handspan_protocol import frames as f
from handspan_protocol.content import NO_MESSAGE
from handspan_protocol.limits import ERROR_MESSAGE_CHARS, PARTS_MAX

ME = Asker("s:1", "d-1 1")
EVA = Principal("eva")
PARTS = TypeAdapter(tuple[ContentPart, ...]).validate_python([{"type": "text", "text": "hi"}])


def item(name, value=None):
    return f.ContextItem(name=name, value=value)


def call(message, ticket="d-1 1"):
    return e.TellCall(message.call_id, message, ticket)


def answer(**fields):
    return i.Answer(**fields)


def test_every_command_of_the_protocol_is_carried_out():
    assert set(COMMANDS) == set(get_args(f.Command))


# ---- those that go to a thread, as they are -----------------------------------------------------


def run(**fields):
    given = {"asker": ME, "principal": EVA, **fields}
    return e.TellThread(T1, i.RunRequested(**given), create=True)


def invoke(**fields):
    given = {"asker": ME, "principal": EVA, "name": "t", "raw": "{}", **fields}
    return e.TellThread(T1, i.InvokeRequested(**given), create=True)


START = f.RunStart(id="1", thread_id="t1", message="hi")
USER = {"role": "user", "content": "hi"}
PRESS = f.ToolInvoke(id="1", thread_id="t1", name="t")
STARTED = f.ToolStarted(id="1", call_id="c", attempt=3)
RESULT = f.ToolResult(id="1", call_id="c", attempt=3, result={"n": 0})
GIVEN = i.ResultGiven(ME, "c", 3, answer(value={"n": 0}))
YES = f.ApprovalAnswer(id="1", call_id="c", digest="d", approved=True)
APPROVED = i.ApprovalGiven(
    asker=ME, call_id="c", digest="d", approved=True, reason=None, args=None, remember=False
)
PATCH = ({"op": "add", "path": "/x", "value": 1},)

PASSED_ON = [
    ("a run", START, [run(message=USER)]),
    (
        "a run of a whole message, with all that may be said of it",
        replace(
            START,
            run_id="r",
            agent="other",
            message={"role": "user", "id": "m", "content": "hi"},
            after="m0",
            context=(item("x"),),
            forwarded_props={"n": 0},
            if_busy="queue",
        ),
        [
            run(
                run_id="r",
                agent="other",
                message={**USER, "id": "m"},
                after="m0",
                context=(item("x"),),
                forwarded_props={"n": 0},
                if_busy="queue",
            )
        ],
    ),
    ("a run without a message", replace(START, message=None), [run(message=None)]),
    (
        "an empty message is one",
        replace(START, message="", if_busy="replace"),
        [run(message={"role": "user", "content": ""}, if_busy="replace")],
    ),
    ("a button", PRESS, [invoke()]),
    (
        "a button with all that may be said of it",
        replace(PRESS, run_id="r", args={"n": 0}, follow_up="and now?", if_busy="queue"),
        [invoke(run_id="r", raw='{"n":0}', follow_up="and now?", if_busy="queue")],
    ),
    ("arguments that are falsy are arguments", replace(PRESS, args=0), [invoke(raw="0")]),
    ("a follow-up", replace(PRESS, follow_up=True), [invoke(follow_up=True)]),
    ("no follow-up", replace(PRESS, follow_up=False), [invoke(follow_up=False)]),
    ("an empty text to follow up with", replace(PRESS, follow_up=""), [invoke(follow_up="")]),
    ("the wildcard may be named", replace(PRESS, name="*"), [invoke(name="*")]),
    (
        "stop what runs on a thread",
        f.RunAbort(id="1", thread_id="t1"),
        tells(i.AbortRequested(ME, None), T1),
    ),
    (
        "stop this run of a thread",
        f.RunAbort(id="1", thread_id="t1", run_id="r"),
        tells(i.AbortRequested(ME, "r"), T1),
    ),
    (
        "stop this run, wherever it is",
        f.RunAbort(id="1", run_id="r"),
        [e.AbortAnywhere(ME, "r")],
    ),
    ("leave to start", STARTED, [call(i.LeaveAsked(ME, "c", 3))]),
    ("a result", RESULT, [call(GIVEN)]),
    ("an approval", YES, [call(APPROVED)]),
    (
        "an approval with all that may be said of it",
        replace(YES, approved=False, reason="no", args={"n": 0}, remember=True),
        [call(replace(APPROVED, approved=False, reason="no", args={"n": 0}, remember=True))],
    ),
    ("an approval for once", replace(YES, remember=False), [call(APPROVED)]),
    (
        "a patch of the state",
        f.StateUpdate(id="1", thread_id="t1", patch=PATCH),
        tells(i.StateGiven(ME, PATCH, None), T1),
    ),
    (
        "a state, falsy or not",
        f.StateUpdate(id="1", thread_id="t1", state=0),
        tells(i.StateGiven(ME, None, 0), T1),
    ),
    ("what threads there are", f.ThreadList(id="1"), [e.ListThreads("d-1 1")]),
    (
        "a thread is no longer wanted",
        f.ThreadDelete(id="1", thread_id="t2"),
        [e.DeleteThread("d-1 1", "t2")],
    ),
]


@pytest.mark.parametrize(
    ("command", "effects"), [c[1:] for c in PASSED_ON], ids=[c[0] for c in PASSED_ON]
)
def test_a_command_that_another_answers_is_passed_on_and_not_answered_here(command, effects):
    page = open_page("t1")
    assert page.frame(command) == effects
    assert list(page.session.open) == ["t1"]


# ---- those that the session refuses -------------------------------------------------------------

REFUSED = [
    (
        "a message of another role",
        replace(START, message={"role": "system", "content": "x"}),
        ("invalid_frame", "only messages of role user are taken", "/message/role"),
    ),
    (
        "too much context for a run",
        replace(START, context=(item("x", "y" * 50),)),
        ("too_large", "the context has 63 bytes, over 40", "/context"),
    ),
    (
        "too much context of the page",
        f.ContextUpdate(id="1", add=(item("x", "y" * 50),)),
        ("too_large", "the context has 63 bytes, over 40", "/context"),
    ),
    (
        "a thread too many",
        f.ThreadOpen(id="1", thread_id="t2"),
        ("limit", "over 1 open threads", None),
    ),
    (
        "a fresh thread too many",
        f.ThreadOpen(id="1"),
        ("limit", "over 1 open threads", None),
    ),
    (
        "a run on a thread too many",
        replace(START, thread_id="t2"),
        ("limit", "over 1 open threads", None),
    ),
    (
        "a button on a thread too many",
        replace(PRESS, thread_id="t2"),
        ("limit", "over 1 open threads", None),
    ),
    (
        "a name that no tool can have",
        replace(PRESS, name="my tool"),
        ("unknown_tool", "this cannot be the name of a tool", "/name"),
    ),
    (
        "nothing to stop",
        f.RunAbort(id="1", reason="because"),
        ("invalid_frame", "runId or threadId is needed", "/runId"),
    ),
]


@pytest.mark.parametrize(("command", "why"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_p14_a_command_that_cannot_be_is_answered_with_the_reason_and_tells_nobody(command, why):
    page = open_page("t1", open_threads=1, context_bytes=40)
    assert page.frame(command) == [refused(*why)]
    assert (list(page.session.open), page.session.context.items) == (["t1"], ())


UNDER_WAY = refused("busy", "too many runs of this page are under way")
WAITING = refused("busy", "too many runs of this page are waiting")
DRAINING = refused("draining", "the server is going down")

BUSY = [
    ("nothing runs", (0, 0), None, None),
    ("one runs, two may", (1, 0), None, None),
    ("as many run as may", (2, 0), None, UNDER_WAY),
    ("as many run as may, and it would wait", (2, 0), "queue", UNDER_WAY),
    ("as many wait as may", (0, 1), "queue", WAITING),
    ("it would not wait", (0, 1), None, None),
    ("it would not wait either", (0, 1), "reject", None),
]


@pytest.mark.parametrize("command", [START, PRESS], ids=["run.start", "tool.invoke"])
@pytest.mark.parametrize(
    ("counts", "if_busy", "answer"), [c[1:] for c in BUSY], ids=[c[0] for c in BUSY]
)
def test_p12_a_page_has_so_many_runs_and_no_more(command, counts, if_busy, answer):
    page = open_page("t1", "t2", runs_per_session=2, queued_runs=1)
    for running, key in zip((1,) * counts[0], (T1, T2), strict=False):
        page.tell(s.RunCounted(key, running, 0))
    for _ in range(counts[1]):
        page.tell(s.RunCounted(T2, 0, 1))
    effects = page.frame(replace(command, if_busy=if_busy))
    if answer is None:
        assert [type(effect) for effect in effects] == [e.TellThread]
    else:
        assert effects == [answer]


def test_p12_a_run_that_would_replace_another_waits_too():
    page = open_page("t1", queued_runs=1)
    page.tell(s.RunCounted(T2, 0, 1))
    assert page.frame(replace(START, if_busy="replace")) == [WAITING]


@pytest.mark.parametrize("command", [START, PRESS], ids=["run.start", "tool.invoke"])
def test_a_server_that_goes_down_says_so_before_anything_else(command):
    page = open_page("t1", open_threads=1, runs_per_session=1)
    page.tell(s.RunCounted(T1, 1, 0))
    page.tell(s.Draining())
    assert page.frame(replace(command, thread_id="t2")) == [DRAINING]


# ---- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [START, PRESS], ids=["run.start", "tool.invoke"])
def test_a_run_opens_its_thread_first_where_the_page_does_not_read_it(command):
    page = open_page("t1")
    effects = page.frame(replace(command, thread_id="t2"))
    assert effects[:-1] == [
        e.OpenStream(T2, None, None),
        *tells(i.PageOpened(SEEN), T2, create=True),
    ]
    assert (effects[-1].key, effects[-1].create) == (T2, True)
    assert list(page.session.open) == ["t1", "t2"]


def test_a_thread_is_opened_by_its_name_or_under_a_fresh_one():
    page = open_page()
    for command, key, cursor in (
        (f.ThreadOpen(id="1", thread_id="t1", epoch="e", offset=0), T1, ("e", 0)),
        (f.ThreadOpen(id="2"), page.session.key("t:1"), (None, None)),
    ):
        assert page.frame(command) == [
            reply(command.id, result={"threadId": key.thread_id}),
            e.OpenStream(key, *cursor),
            *tells(i.PageOpened(SEEN), key, create=True),
        ]
    assert list(page.session.open) == ["t1", "t:1"]


def test_a_thread_is_closed_once_and_calls_that_the_page_holds_stay_its_own():
    page = open_page("t1", "t2")
    page.session.holding.calls["c"] = (T1, 1)
    assert page.frame(f.ThreadClose(id="1", thread_id="t1")) == [
        e.CloseStream("t1"),
        *tells(i.PageClosed("s:1"), T1),
        reply(result={}),
    ]
    assert page.frame(f.ThreadClose(id="2", thread_id="t1")) == [reply("2", result={})]
    assert list(page.session.open) == ["t2"]
    assert page.session.holding.calls == {"c": (T1, 1)}


# ---- tools and context --------------------------------------------------------------------------


def test_tools_are_set_added_and_removed_and_threads_hear_only_of_a_change():
    page = open_page("t1")
    rejected = {
        "name": "bad name",
        "code": "bad_name",
        "message": "name must be 1 to 64 of the characters A-Z a-z 0-9 _ . - or exactly *",
    }
    updates = [
        ({"set": (tool("a"), tool("bad name"))}, ["a"], [rejected], 1, ["a"]),
        ({"set": (tool("a"),), "add": (tool("z"),), "remove": ("a",)}, ["a"], [], 1, None),
        ({"add": (tool("b"),)}, ["b"], [], 2, ["a", "b"]),
        ({"remove": ("a", "nobody")}, [], [], 3, ["b"]),
        ({"add": (tool("c"),), "remove": ("b",)}, ["c"], [], 4, ["c"]),
        ({}, [], [], 4, None),
        ({"set": ()}, [], [], 5, []),
    ]
    for n, (fields, accepted, refused_ones, revision, told) in enumerate(updates):
        effects = page.frame(f.ToolsUpdate(id=str(n), **fields))
        result = {"accepted": accepted, "rejected": refused_ones, "revision": revision}
        assert effects[-1] == reply(str(n), result=result)
        views = [effect.message.page for effect in effects[:-1]]
        assert [list(view.tools) for view in views] == ([] if told is None else [told])
        assert all(view == page.session.view() for view in views)


def test_context_is_set_added_and_removed_and_threads_hear_of_it_before_the_answer():
    page = open_page("t1")
    updates = [
        ({"set": (item("a"), item("b"))}, (item("a"), item("b"))),
        ({"add": (item("c", 1),), "remove": ("a",)}, (item("b"), item("c", 1))),
        ({"add": (item("b", 2),)}, (item("b", 2), item("c", 1))),
        ({"remove": ("b",)}, (item("c", 1),)),
        ({}, (item("c", 1),)),
        ({"set": (), "add": (item("z"),)}, ()),
    ]
    for n, (fields, after) in enumerate(updates):
        assert page.frame(f.ContextUpdate(id=str(n), **fields)) == [
            *tells(i.PageChanged(replace(SEEN, context=after)), T1),
            reply(str(n), result={}),
        ]


def test_the_thread_sees_a_results_fresh_context_before_the_result():
    page = open_page("t1")
    page.frame(f.ContextUpdate(id="0", set=(item("old"),)))
    assert page.frame(replace(RESULT, context=(item("cart", 1),))) == [
        *tells(i.PageChanged(replace(SEEN, context=(item("cart", 1),))), T1),
        call(GIVEN),
    ]
    assert page.frame(replace(RESULT, id="2", context=())) == [
        *tells(i.PageChanged(SEEN), T1),
        call(replace(GIVEN, asker=Asker("s:1", "d-1 2")), "d-1 2"),
    ]


def test_p12_too_much_context_of_a_result_costs_only_itself():
    page = open_page("t1", context_bytes=40)
    error = f.Error(code="too_large", message="the context has 63 bytes, over 40", retryable=False)
    effects = page.frame(replace(RESULT, context=(item("x", "y" * 50),)))
    assert effects == [e.SendFrame(error), call(GIVEN)]


# ---- what a page's result says ------------------------------------------------------------------


def error(message, **fields):
    return {"error": f.PageError(message=message, **fields)}


def failed(code, message):
    return answer(error_code=code, error_message=message)


ANSWERS = [
    ("null", {"result": None}, answer(value=None)),
    ("false", {"result": False}, answer(value=False)),
    ("zero", {"result": 0}, answer(value=0)),
    ("an empty text", {"result": ""}, answer(value="")),
    ("parts", {"content": PARTS}, answer(content=({"type": "text", "text": "hi"},))),
    ("no parts at all", {"content": ()}, answer(content=())),
    ("an error", error("broken"), failed("handler_error", "broken")),
    ("an error without a message", error(""), failed("handler_error", NO_MESSAGE)),
    ("an error of blanks", error(" \n"), failed("handler_error", NO_MESSAGE)),
    ("a long error", error("x" * 9_000), failed("handler_error", "x" * ERROR_MESSAGE_CHARS)),
    ("an error of a code", error("gone", code="unavailable"), failed("unavailable", "gone")),
    ("a code of the page's own", error("x", code="out_of_stock"), failed("out_of_stock", "x")),
    ("an empty code", error("x", code=""), failed("handler_error", "x")),
    ("a code that is none", error("x", code="Not A Code"), failed("handler_error", "x")),
    ("a code and a line", error("x", code="a\n"), failed("handler_error", "x")),
]


@pytest.mark.parametrize(("fields", "said"), [c[1:] for c in ANSWERS], ids=[c[0] for c in ANSWERS])
def test_p4_presence_decides_what_a_result_is_and_never_truthiness(fields, said):
    given = answer_of(f.ToolResult(id="1", call_id="c", attempt=1, **fields))
    assert given == said
    assert type(given.value) is type(said.value)
    assert given.failed is ("error" in fields)


def test_p12_a_result_has_no_more_parts_than_a_message_may():
    lone = open_page("t1")
    part = TypeAdapter(ContentPart).validate_python({"type": "text", "text": "hi"})
    frame = f.ToolResult(id="1", call_id="c", attempt=1, content=(part,) * (PARTS_MAX + 1))
    assert lone.frame(frame) == [refused("invalid_frame", "more than 1024 parts", "/content")]
