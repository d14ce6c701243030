"""Whether a request may run: each refusal, in their order, and that looking changes nothing."""

import pytest
from tests.core.builders import page, spec, specs
from tests.core.scenarios import a_space, asked_by, logged

from handspan.core.admission import Roster, why_not
from handspan.core.inputs import InvokeRequested, RunRequested

ROSTER = Roster(
    ("default", "other"),
    specs(
        spec("shut"),
        spec("open", invoke=True),
        spec("hidden", invoke=True, available=False),
        spec("scoped", invoke=True, agent="other"),
    ),
)


def there():
    """A thread with one message, a reader with `t` and `*`-less tools, and a page elsewhere."""
    space = a_space(history_bytes=10)
    space.emit({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "user"})
    space.pages = {
        "a": page("a", spec("t"), spec("off", available=False)),
        "b": page("b", spec("u")),
    }
    space.readers = {"a"}
    return space


def full(space):
    space.emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x" * 11})


RUNS = [
    ("the default agent", {}, None, None),
    ("an agent by its name", {"agent": "other"}, None, None),
    ("an agent that is not there", {"agent": "nobody"}, "unknown_agent", None),
    ("behind a message", {"after": "m1"}, None, None),
    ("behind one that is not there", {"after": "m2"}, "invalid_frame", "/after"),
    ("no agent and no message", {"agent": "nobody", "after": "m2"}, "unknown_agent", None),
]


@pytest.mark.parametrize(("asked", "code", "path"), [c[1:] for c in RUNS], ids=[c[0] for c in RUNS])
def test_a_run_is_refused_for_its_first_fault(asked, code, path):
    problem = why_not(RunRequested(asker=asked_by("a"), **asked), there(), ROSTER)
    assert (problem and problem.code, problem and problem.path) == (code, path)


@pytest.mark.parametrize(
    ("asked", "code"),
    [({}, "too_large"), ({"after": "m2"}, "too_large"), ({"agent": "no"}, "unknown_agent")],
)
def test_p12_a_full_history_takes_no_more_runs(asked, code):
    space = there()
    full(space)
    assert why_not(RunRequested(asker=asked_by("a"), **asked), space, ROSTER).code == code


def test_p12_a_history_that_is_as_large_as_it_may_be_takes_one_more():
    space = there()
    space.emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x" * 10})
    assert space.transcript.size_bytes == 10
    assert why_not(RunRequested(asker=asked_by("a")), space, ROSTER) is None


def test_an_agent_is_named_in_its_refusal_and_cut():
    asked = RunRequested(asker=asked_by("a"), agent="n" * 100)
    assert why_not(asked, there(), ROSTER).message == f"there is no agent '{'n' * 64}'"


INVOKES = [
    ("the page's own tool", "a", {"name": "t"}, None),
    ("a tool nobody has", "a", {"name": "nope"}, "unknown_tool"),
    ("a tool that is not available", "a", {"name": "off"}, "unknown_tool"),
    ("a tool of a page that has not opened the thread", "a", {"name": "u"}, "unknown_tool"),
    ("its own tool, though it has not opened the thread", "b", {"name": "u"}, None),
    ("a tool of another page that reads the thread", "b", {"name": "t"}, None),
    ("a server tool that pages may invoke", "a", {"name": "open"}, None),
    ("a server tool of another agent: a button is no agent", "a", {"name": "scoped"}, None),
    ("a server tool that is not available", "a", {"name": "hidden"}, "unknown_tool"),
    ("a server tool that pages may not invoke", "a", {"name": "shut"}, "forbidden"),
    ("the same from Python", None, {"name": "shut"}, None),
    ("a page's tool from Python", None, {"name": "t"}, None),
    ("with a follow-up", "a", {"name": "t", "follow_up": True}, None),
]


@pytest.mark.parametrize(
    ("session", "asked", "code"), [c[1:] for c in INVOKES], ids=[c[0] for c in INVOKES]
)
def test_a_button_is_refused_for_its_first_fault(session, asked, code):
    request = InvokeRequested(asker=asked_by(session), raw="{}", **asked)
    problem = why_not(request, there(), ROSTER)
    assert (problem and problem.code) == code


@pytest.mark.parametrize(
    ("follow_up", "code"), [(False, None), (True, "unknown_agent"), ("say", "unknown_agent")]
)
def test_a_follow_up_needs_the_default_agent(follow_up, code):
    request = InvokeRequested(asker=asked_by("a"), name="t", raw="{}", follow_up=follow_up)
    problem = why_not(request, there(), Roster(("other",), {}))
    assert (problem and problem.code) == code


def test_a_refused_request_leaves_no_trace():
    space = there()
    head = space.log.head
    for asked in (
        RunRequested(asker=asked_by("a"), agent="nobody"),
        InvokeRequested(asker=asked_by("a"), name="nope", raw="{}"),
    ):
        assert why_not(asked, space, ROSTER) is not None
    assert (space.log.head, space.effects, len(logged(space))) == (head, [], 1)


def test_a_roster_has_no_hooks_unless_somebody_registered_one():
    assert Roster((), {}).hooks == ()
